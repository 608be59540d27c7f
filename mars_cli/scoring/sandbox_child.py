"""The inside of the sandbox: a script of its own that `sandbox.py` starts, never an import.

Two processes. The *supervisor* (the one started) reads a request from stdin, cuts itself off from
the network and from other processes as far as the system lets it, forks the *worker*, waits with a
deadline, kills whatever the worker left behind, and writes one JSON line to stdout. The worker
gives up its privileges, sets its limits, says so, and executes the program.

    request  {"program": str, "uid": int, "seconds": float, "cpu_seconds": int,
              "memory_bytes": int, "file_bytes": int, "processes": int}
    reply    {"status": str, "reason": str, "isolation": [str]}

The worker reports through a pipe, and its word counts as "passed" only with the random token that
it writes after the program's last line has run: a program that exits early, prints a success line
or writes into every file that it finds open has not passed.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import secrets
import select
import signal
import sys
import tempfile
import time
import types
from typing import Any, NoReturn

_PROGRAM = "<program>"
_REPORT_FD = 3

# <linux/prctl.h>, <linux/sched.h>, <linux/capability.h>
_SET_PDEATHSIG, _SET_KEEPCAPS, _SET_CHILD_SUBREAPER, _SET_NO_NEW_PRIVS = 1, 8, 36, 38
_NEWIPC, _NEWUSER, _NEWPID, _NEWNET = 0x08000000, 0x10000000, 0x20000000, 0x40000000
_CAPABILITY_VERSION_3, _DAC_READ_SEARCH = 0x20080522, 1 << 2

_libc = ctypes.CDLL(None, use_errno=True)


def supervise(request: dict[str, Any]) -> dict[str, Any]:
    """Run the program of `request` in a worker; the reply, once nothing of it is left running."""
    _libc.prctl(_SET_PDEATHSIG, signal.SIGKILL)
    _libc.prctl(_SET_CHILD_SUBREAPER, 1)  # what the program orphans becomes ours to kill
    isolation = _separate()
    token = secrets.token_hex(16)
    read_end, write_end = os.pipe()
    # Blocked before the fork, so that a worker that ends at once cannot be missed.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    with tempfile.TemporaryFile() as output:
        worker = os.fork()
        if worker == 0:
            _work(request, token, write_end, output.fileno())
        os.close(write_end)
        # The clock starts once the worker is set up: a busy machine is not the program's fault.
        report = os.read(read_end, 65536) if select.select([read_end], [], [], 30)[0] else b""
        in_time = _wait(worker, request["seconds"] if report else 0)
        os.kill(worker, signal.SIGKILL)  # not reaped yet, so the number is still its own
        _, status, usage = os.wait4(worker, 0)
        _kill_descendants()
    os.set_blocking(read_end, False)
    with contextlib.suppress(BlockingIOError):  # empty, and a process we could not kill holds it
        report += os.read(read_end, 65536)
    messages = _messages(report)
    if not messages or "isolation" not in messages[0]:
        return {"status": "error", "reason": _error(messages) or "the worker did not start"}
    verdict, reason = "failed", _error(messages)
    if not in_time:
        verdict, reason = "timeout", f"still running after {request['seconds']:g} s"
    elif os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        cpu = usage.ru_utime + usage.ru_stime
        if number == signal.SIGKILL and cpu > request["cpu_seconds"] - 0.5:
            verdict, reason = "timeout", f"used its {request['cpu_seconds']} s of CPU time"
        else:
            verdict, reason = "crashed", f"killed by {signal.Signals(number).name}"
    elif any(message.get("token") == token for message in messages):
        verdict, reason = "passed", ""
    elif not reason:
        code = os.waitstatus_to_exitcode(status)
        reason = f"exited with code {code} before the tests had run to their end"
    return {
        "status": verdict,
        "reason": reason,
        "isolation": ["limits", *messages[0]["isolation"], *isolation],
    }


def _work(request: dict[str, Any], token: str, report: int, output: int) -> NoReturn:
    """The worker: never returns. What it needs afterwards it takes before the program runs."""
    write, leave, dumps = os.write, os._exit, json.dumps
    try:
        os.setsid()  # a signal to "my process group" stays here
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        if report != _REPORT_FD:
            os.dup2(report, _REPORT_FD)
        os.closerange(_REPORT_FD + 1, 1 << 16)
        isolation = _give_up_privileges(request["uid"])
        _libc.prctl(_SET_PDEATHSIG, signal.SIGKILL)  # again: a change of user clears it
        _limit(request, alone=bool(isolation))
        write(_REPORT_FD, dumps({"isolation": isolation}).encode() + b"\n")
    except BaseException as error:
        write(report, dumps({"error": f"{type(error).__name__}: {error}"}).encode() + b"\n")
        leave(1)
    try:
        # A module that is not `__main__`: a `main()` guard in an answer is not run, and
        # dataclasses find the module of their class.
        module = types.ModuleType("program")
        sys.modules["program"] = module
        sys.argv[:] = ["program"]
        exec(compile(request["program"], _PROGRAM, "exec"), module.__dict__)
        write(_REPORT_FD, dumps({"token": token}).encode() + b"\n")
        leave(0)
    except MemoryError:
        write(_REPORT_FD, b'{"error": "MemoryError"}\n')
    except BaseException as error:
        with contextlib.suppress(BaseException):
            reason = _describe(error, request["program"])
            write(_REPORT_FD, dumps({"error": reason}).encode() + b"\n")
    leave(1)


def _separate() -> list[str]:
    """Leave the network and the process namespace, where allowed; what was achieved, in words."""
    user = 0 if os.geteuid() == 0 else _NEWUSER
    uid, gid = os.geteuid(), os.getegid()
    if _libc.unshare(user | _NEWNET | _NEWPID | _NEWIPC) == 0:
        done = ["no network", "own process namespace"]
    elif _libc.unshare(user | _NEWNET) == 0:
        done = ["no network"]
    else:
        return []
    if user:
        # Refused on some systems; the user then shows as `nobody` and nothing else changes.
        with contextlib.suppress(OSError):
            for name, line in (
                ("setgroups", "deny"),
                ("uid_map", f"{uid} {uid} 1"),
                ("gid_map", f"{gid} {gid} 1"),
            ):
                with open(f"/proc/self/{name}", "w") as file:
                    file.write(line)
    return done


def _give_up_privileges(uid: int) -> list[str]:
    """As root become user `uid`; else only drop capabilities. What was achieved, in words.

    An interpreter under a private home (that of root, say) cannot be read by another user: then one
    capability is kept, to read any file (never to write), or the program could not even import.
    """
    _libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if os.geteuid() != 0:
        _keep_capabilities(0)
        return []
    try:
        os.chown(".", uid, uid)
        os.setgroups([])
        _libc.prctl(_SET_KEEPCAPS, 1)
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    except OSError:  # root without the right to change user, as in some containers
        _keep_capabilities(0)
        return []
    places = [os.__file__, *(place for place in sys.path if place)]
    # As root's exists() would have it, a missing place and a forbidden one look the same here;
    # `os.access` asks for the real user, without capabilities.
    _keep_capabilities(_DAC_READ_SEARCH)
    readable = all(os.access(place, os.R_OK) for place in places if os.path.exists(place))
    if readable:
        _keep_capabilities(0)
        return ["own user"]
    return ["own user that may read every file"]


def _keep_capabilities(mask: int) -> None:
    """Reduce the permitted and effective capabilities to `mask` (of the first 32)."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _libc.capset(header, (ctypes.c_uint32 * 6)(mask, mask, 0, 0, 0, 0))


def _limit(request: dict[str, Any], *, alone: bool) -> None:
    """Set the resource limits; `alone` says that this user runs nothing else."""
    processes = request["processes"] + (0 if alone else _threads_of(os.getuid()))
    for limit, value in (
        (resource.RLIMIT_CPU, request["cpu_seconds"]),
        (resource.RLIMIT_AS, request["memory_bytes"]),
        (resource.RLIMIT_FSIZE, request["file_bytes"]),
        (resource.RLIMIT_NPROC, processes),  # counted over all of a user's threads
        (resource.RLIMIT_NOFILE, 256),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(limit)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))


def _threads_of(uid: int) -> int:
    count = 0
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if entry.stat().st_uid == uid:
                    count += len(os.listdir(f"{entry.path}/task"))
    return count


def _wait(pid: int, seconds: float) -> bool:
    """Whether process `pid` ended within `seconds`. It is left unreaped."""
    deadline = time.monotonic() + seconds
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return False
        # Woken by any child; other children are the worker's orphans, reaped at the end.
        signal.sigtimedwait({signal.SIGCHLD}, min(remaining, 0.1))
    return True


def _kill_descendants(seconds: float = 5.0) -> None:
    """Kill and reap our children, and theirs, which become ours, until there are none."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for pid in _children():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)


def _children() -> list[int]:
    me, found = os.getpid(), []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError), open(f"{entry.path}/stat", "rb") as file:
                # The name in parentheses may hold anything; the parent is the second field after.
                if int(file.read().rpartition(b")")[2].split()[1]) == me:
                    found.append(int(entry.name))
    return found


def _messages(report: bytes) -> list[dict[str, Any]]:
    """The JSON objects among the lines of the report; anything else a program wrote is skipped."""
    found = []
    for line in report.split(b"\n"):
        with contextlib.suppress(ValueError, RecursionError):
            message = json.loads(line)
            if isinstance(message, dict):
                found.append(message)
    return found


def _error(messages: list[dict[str, Any]]) -> str:
    return next((str(message["error"]) for message in messages if "error" in message), "")[:300]


def _describe(error: BaseException, program: str) -> str:
    """One line: what was raised, and the line of the program that raised it."""
    if isinstance(error, SystemExit):
        return f"exited (code {error.code}) before the tests had run to their end"
    where, trace = "", error.__traceback__
    lines = program.splitlines()
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == _PROGRAM and trace.tb_lineno <= len(lines):
            where = f" at line {trace.tb_lineno}: {lines[trace.tb_lineno - 1].strip()[:100]}"
        trace = trace.tb_next
    message = " ".join(str(error).split())[:150]
    return f"{type(error).__name__}{f' ({message})' if message else ''}{where}"


if __name__ == "__main__":
    reply = supervise(json.load(sys.stdin))
    sys.stdout.write(json.dumps(reply) + "\n")
