"""The inside of the sandbox: a script of its own that `sandbox.py` starts, never an import.

Two processes. The *supervisor* (the one started, inside bubblewrap or not) reads a request from
stdin, cuts itself off from the network, other processes and the file system as far as the level
asks for it, forks the *worker*, waits with a deadline, kills whatever the worker left behind, and
writes one JSON line to stdout. The worker gives up its privileges, sets its limits, says so, and
executes the program.

    request  {"program": str, "level": str, "uid": int, "others": int, "root": str (namespaces),
              "view": {"binds": [path], "devices": [path], "links": [[path, target]]},
              "seconds": float, "cpu_seconds": int, "memory_bytes": int, "file_bytes": int,
              "tmp_bytes": int, "output_bytes": int, "processes": int}
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
import select
import signal
import sys
import time
import types
from typing import Any, NoReturn

_PROGRAM = "<program>"
_REPORT_FD = 3

# <linux/prctl.h>, <linux/sched.h>, <linux/capability.h>, <linux/mount.h>
_SET_PDEATHSIG, _SET_DUMPABLE, _SET_KEEPCAPS = 1, 4, 8
_SET_CHILD_SUBREAPER, _SET_NO_NEW_PRIVS = 36, 38
_NEWNS, _NEWUTS, _NEWIPC = 0x00020000, 0x04000000, 0x08000000
_NEWUSER, _NEWPID, _NEWNET = 0x10000000, 0x20000000, 0x40000000
_CAPABILITY_VERSION_3, _DAC_READ_SEARCH = 0x20080522, 1 << 2
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _BIND, _REC, _PRIVATE = 1, 2, 4, 8, 1 << 12, 1 << 14, 1 << 18
_SYS_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE, _DETACH = 442, -100, 0x8000, 2

_libc = ctypes.CDLL(None, use_errno=True)


def supervise(request: dict[str, Any]) -> dict[str, Any]:
    """Run the program of `request` in a worker; the reply, once nothing of it is left running."""
    _libc.prctl(_SET_PDEATHSIG, signal.SIGKILL)
    _libc.prctl(_SET_CHILD_SUBREAPER, 1)  # what the program orphans becomes ours to kill
    try:
        isolation = _separate(request)
    except OSError as error:
        return {"status": "error", "reason": f"{error.filename or ''}: {error.strerror}"}
    # As a plain user the worker is the same user: this closes our memory, with the token, to it.
    _libc.prctl(_SET_DUMPABLE, 0)
    token = os.urandom(16).hex()
    read_end, write_end = os.pipe()
    printed, output = os.pipe()
    wake = _wake_on_child()
    worker = os.fork()
    if worker == 0:
        _work(request, token, write_end, output)
    os.close(write_end)
    os.close(output)
    # The clock starts once the worker is set up: a busy machine is not the program's fault.
    report = os.read(read_end, 65536) if select.select([read_end], [], [], 60)[0] else b""
    stopped = _wait(worker, request, printed, wake) if report else None
    os.kill(worker, signal.SIGKILL)  # not reaped yet, so the number is still its own
    _, status, usage = os.wait4(worker, 0)
    if request["level"] != "namespaces":  # there /proc is not ours, and the worker was process 1
        _kill_descendants()
    os.set_blocking(read_end, False)
    with contextlib.suppress(BlockingIOError):  # empty, and a process we could not kill holds it
        report += os.read(read_end, 65536)
    messages = _messages(report)
    if not messages or "isolation" not in messages[0]:
        return {"status": "error", "reason": _error(messages) or "the worker did not start"}
    verdict, reason = _verdict(request, stopped, status, usage, messages, token)
    words = [request["level"], *messages[0]["isolation"], *isolation]
    return {"status": verdict, "reason": reason, "isolation": words}


def _verdict(
    request: dict[str, Any],
    stopped: tuple[str, str] | None,
    status: int,
    usage: resource.struct_rusage,
    messages: list[dict[str, Any]],
    token: str,
) -> tuple[str, str]:
    """Status and reason."""
    if stopped is not None:
        return stopped
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        cpu = usage.ru_utime + usage.ru_stime
        if number == signal.SIGKILL and cpu > request["cpu_seconds"] - 0.5:
            return "timeout", f"used its {request['cpu_seconds']} s of CPU time"
        return "crashed", f"killed by {signal.Signals(number).name}"
    if any(message.get("token") == token for message in messages):
        return "passed", ""
    code = os.waitstatus_to_exitcode(status)
    early = f"exited with code {code} before the tests had run to their end"
    return "failed", _error(messages) or early


def _work(request: dict[str, Any], token: str, report: int, output: int) -> NoReturn:
    """The worker: never returns. What it needs afterwards it takes before the program runs."""
    write, leave, dumps = os.write, os._exit, json.dumps
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()  # a signal to "my process group" stays here
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        if report != _REPORT_FD:
            os.dup2(report, _REPORT_FD)
        os.closerange(_REPORT_FD + 1, 1 << 16)
        _libc.prctl(_SET_DUMPABLE, 1)  # or what is its own in /proc would be closed to it
        with contextlib.suppress(OSError):  # if memory runs out, this goes first
            _write("/proc/self/oom_score_adj", "1000")
        if request["level"] == "namespaces":
            _own_files(request)
        isolation = _give_up_privileges(request)
        _limit(request)
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


def _separate(request: dict[str, Any]) -> list[str]:
    """Leave what `level` says, or raise OSError; what was achieved, in words."""
    level = request["level"]
    if level == "limits":
        return []
    user = 0 if os.geteuid() == 0 else _NEWUSER
    uid, gid = os.geteuid(), os.getegid()
    if level == "namespaces":
        everything = _NEWNS | _NEWNET | _NEWPID | _NEWIPC | _NEWUTS
        _check(_libc.unshare(user | everything), "unshare")
        if user:
            _map_user(uid, gid)
        return ["no network", "own processes", "own files"]  # the files once there is a worker
    if level == "bubblewrap":
        done = ["no network", "own processes", "own files"]
        _libc.unshare(user | _NEWPID)  # once more: the worker is alone, its supervisor out of reach
    elif _libc.unshare(user | _NEWNET | _NEWPID | _NEWIPC) == 0:
        done = ["no network", "own processes"]
    else:
        _check(_libc.unshare(user | _NEWNET), "unshare")
        done = ["no network"]
    if user:
        with contextlib.suppress(OSError):  # the user then shows as `nobody`; nothing else changes
            _map_user(uid, gid)
    return done


def _map_user(uid: int, gid: int) -> None:
    """Give the user namespace this process is in one user and group, of the same numbers."""
    for name, line in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        _write(f"/proc/self/{name}", line)


def _own_files(request: dict[str, Any]) -> None:
    """Make the request's view the whole file system: read-only, but for a `/tmp` in memory."""
    root, view = request["root"], request["view"]
    os.umask(0o022)
    _mount("none", "/", None, _REC | _PRIVATE)
    _mount("tmpfs", root, "tmpfs", _NOSUID | _NODEV, "mode=755,size=1m")
    for name in ("proc", "tmp"):
        os.mkdir(f"{root}/{name}")
    with contextlib.suppress(OSError):  # refused in some containers: then there is no /proc
        _mount("proc", f"{root}/proc", "proc", _NOSUID | _NODEV | _NOEXEC)
    space = f"mode=755,size={request['tmp_bytes']},nr_inodes=65536"
    _mount("tmpfs", f"{root}/tmp", "tmpfs", _NOSUID | _NODEV, space)
    for path in [*view["binds"], *view["devices"]]:
        target = root + path
        if os.path.isdir(path):
            os.makedirs(target, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY))
        _mount(path, target, None, _BIND | _REC)
        if path in view["binds"]:
            _read_only(target, _AT_RECURSIVE)
    for path, target in view["links"]:
        os.makedirs(os.path.dirname(root + path), exist_ok=True)
        os.symlink(target, root + path)
    _read_only(root, 0)
    os.chdir(root)
    _check(_libc.pivot_root(b".", b"."), "pivot_root")  # the old root now lies over the new one
    _check(_libc.umount2(b".", _DETACH), "umount2")
    os.mkdir("/tmp/program")
    os.chdir("/tmp/program")


def _mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    names = [None if name is None else name.encode() for name in (source, target, kind)]
    _check(_libc.mount(*names, ctypes.c_ulong(flags), data.encode()), f"mount {target}")


def _read_only(path: str, flags: int) -> None:
    """Make the mount at `path` read-only (Linux 5.12 and later), with those below it if asked."""
    attributes = (ctypes.c_uint64 * 4)(_RDONLY | _NOSUID)  # struct mount_attr: what to set
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    number, here = ctypes.c_long(_SYS_MOUNT_SETATTR), ctypes.c_int(_AT_FDCWD)
    done = _libc.syscall(number, here, path.encode(), ctypes.c_uint(flags), attributes, size)
    _check(done, f"mount_setattr {path}")


def _check(done: int, what: str) -> None:
    if done != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def _give_up_privileges(request: dict[str, Any]) -> list[str]:
    """As root become another user; in any case drop capabilities. What was achieved, in words."""
    level, root, keep = request["level"], os.geteuid() == 0, 0
    own_files = level in ("bubblewrap", "namespaces")
    words = [] if level == "limits" else ["limits"]
    _libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if root and _become(request["uid"], [".", "/tmp"] if own_files else ["."]):
        keep = 0 if own_files or _readable() else _DAC_READ_SEARCH
        words.append("own user that may read every file" if keep else "own user")
    _libc.prctl(_SET_DUMPABLE, 1)  # a change of user clears this and the next
    if own_files:
        words += _own_user_namespace(root)
    _check(_capabilities(keep), "capset")
    _libc.prctl(_SET_PDEATHSIG, signal.SIGKILL)
    return words


def _become(uid: int, folders: list[str]) -> bool:
    """Turn from root into user `uid`, who gets `folders`; whether that was allowed."""
    try:
        for folder in folders:
            os.chown(folder, uid, uid)
        os.setgroups([])
        _libc.prctl(_SET_KEEPCAPS, 1)
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    except OSError:  # root without the right to change user, as in some containers
        return False
    return True


def _readable() -> bool:
    """Whether this user may read the interpreter.

    One under a private home (that of root, say) cannot be read by another user: then one capability
    is kept, to read any file (never to write), or the program could not even import.
    """
    places = [os.__file__, *(place for place in sys.path if place)]
    # Without the capability exists() would say the same of a missing place and a forbidden one;
    # `os.access` asks for the real user, without capabilities.
    _capabilities(_DAC_READ_SEARCH)
    return all(os.access(place, os.R_OK) for place in places if os.path.exists(place))


def _own_user_namespace(root: bool) -> list[str]:
    """A user namespace, unless a plain user is in one by now; none can be made inside it."""
    uid, gid, words = os.geteuid(), os.getegid(), ["user namespace"]
    if root:
        if _libc.unshare(_NEWUSER) != 0:
            return []
        with contextlib.suppress(OSError):
            _map_user(uid, gid)
    with contextlib.suppress(OSError):
        _write("/proc/sys/user/max_user_namespaces", "0")
        words.append("no further one")
    return words


def _capabilities(mask: int) -> int:
    """Reduce the capabilities to `mask` (of the first 32), none inheritable; 0 if that worked."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    return int(_libc.capset(header, (ctypes.c_uint32 * 6)(mask, mask, 0, 0, 0, 0)))


def _limit(request: dict[str, Any]) -> None:
    for limit, value in (
        (resource.RLIMIT_CPU, request["cpu_seconds"]),
        (resource.RLIMIT_AS, request["memory_bytes"]),
        (resource.RLIMIT_FSIZE, request["file_bytes"]),
        # Counted over all of a user's threads, so with `others`, which run already.
        (resource.RLIMIT_NPROC, request["processes"] + request["others"]),
        (resource.RLIMIT_NOFILE, 256),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(limit)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _wake_on_child() -> int:
    """A file descriptor that has something to read whenever a child of ours has ended."""
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    os.set_blocking(write_end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # without a handler nothing is written
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    return read_end


def _wait(pid: int, request: dict[str, Any], printed: int, wake: int) -> tuple[str, str] | None:
    """None once process `pid` has ended; or status and reason why it must not go on.

    The process is left unreaped. `printed` is read and thrown away; `wake` tells of children.
    """
    deadline, room = time.monotonic() + request["seconds"], request["output_bytes"]
    sources = select.poll()
    sources.register(printed, select.POLLIN)
    sources.register(wake, select.POLLIN)
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return "timeout", f"still running after {request['seconds']:g} s"
        for source, _ in sources.poll(remaining * 1000):
            text = os.read(source, 1 << 16)
            if source == printed:
                room -= len(text)
                if not text:  # nobody is left who could print
                    sources.unregister(printed)
        if room < 0:
            return "failed", f"printed more than {request['output_bytes']} bytes"
    return None


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
