"""Runs generated Python programs, each in processes of its own; says whether its tests passed.

There are four levels; the first that works on this machine is used, found by running a program:

    bubblewrap                bwrap: own files, no network, own processes
    namespaces                the same without bwrap, as root or with unprivileged user namespaces
    namespaces without files  no network and own processes; the system's files
    limits                    none of these

Covered at every level:

- time: a wall clock for everything the program starts, and CPU seconds per process
- memory (address space) per process, size of each file, what is printed in all
- number of processes and threads; all that is left is killed, new sessions and daemons included
- an empty temporary working directory, deleted afterwards; `HOME` and `TMPDIR` point at it
- the environment: no variable of ours passes, so no `MARS_*` setting and no hub token; stdin is
  empty; no open file of ours is inherited; hashing is seeded, so the same answer scores the same
- as root: a throwaway user without privileges, so that nothing of the system can be written
- early success: `sys.exit(0)`, `os._exit(0)`, an empty program or a printed success line does not
  count; the tests must have run to their end

Covered by the namespaces of the first three levels: no network, and no signal to any process but
the program's own, so its supervisor is out of reach (unless bubblewrap may not be nested: then a
program that kills it is dead as well).

Covered by files of its own, in the first two levels: nothing but the system's programs, libraries
and this interpreter can be read (no home, no data, no other process's environment), nothing can be
written but a private `/tmp` in memory, of limited size (with bubblewrap 0.7 or later), and no
further user namespace can be made, where the kernel lets us forbid it.

Not covered:

- a determined attacker: there is no filter on system calls, so a bug in the kernel is open to the
  program; and so is the harness that shares its interpreter: code written to find the harness's
  token, or an answer whose objects claim to equal everything, can claim a pass
- memory and CPU time of all processes of a program together: each has its own limit. The kernel
  is told to end these processes first when memory runs out
- as a plain user, the exact number of processes: those you run already are added to the limit,
  since some kernels count them
- below the second level, reading files: what its user may read; as a plain user that is your home
  and the environment of your processes; as root nothing private, unless the interpreter itself
  lies under a private home, then every file
- below the second level, writing files as a plain user, or the disk as a whole (many files below
  the limit); as root, only what everybody may write, such as `/tmp`
- in the last level: the network; as a plain user also signals to your other processes, and what a
  program leaves behind that kills its own supervisor
- systems other than Linux

`Outcome.isolation` says what was in force. Nothing runs before `allow()` was called, which the
command line does for `--allow-code-execution`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from mars_cli.errors import MarsError
from mars_cli.scoring import sandbox_files as files

Status = Literal["passed", "failed", "timeout", "crashed"]
Level = Literal["bubblewrap", "namespaces", "namespaces without files", "limits"]
LEVELS: tuple[Level, ...] = get_args(Level)


@dataclass(frozen=True)
class Limits:
    """What one program may use. Sizes in bytes; `processes` counts threads too.

    `tmp_bytes` holds where the program has files of its own.
    """

    seconds: float = 10.0
    cpu_seconds: int = 10
    memory_bytes: int = 1 << 30
    file_bytes: int = 16 << 20
    tmp_bytes: int = 64 << 20
    output_bytes: int = 1 << 20
    processes: int = 32


@dataclass(frozen=True)
class Outcome:
    """What became of a program.

    `status` is "passed" (the last line was reached), "failed" (an exception, an early exit, too
    much output), "timeout" (wall clock or CPU) or "crashed" (killed by a signal); `reason` says
    more, and is empty for a pass. `seconds` is the wall time. `isolation` is what was in force, in
    words, the level first; empty if the program brought the sandbox down with it.
    """

    status: Status
    reason: str
    seconds: float
    isolation: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether the tests ran to their end."""
        return self.status == "passed"


_allowed = False
_verdicts: dict[str, bool] = {}

# One throwaway user per program, never two at once with the same number: the limit on processes
# counts per user. The range is the one that systemd sets aside for transient users.
_UIDS = range(61184, 65520)
_uids = itertools.count(secrets.randbelow(len(_UIDS)))

_CHILD = Path(__file__).with_name("sandbox_child.py")
_GRACE = 120.0  # seconds for the supervisor to start and to clean up


def allow(permitted: bool = True) -> None:
    """Permit (or forbid again) running generated code in this process; off until called."""
    global _allowed
    _allowed = permitted


def allowed() -> bool:
    """Whether generated code may run."""
    return _allowed


def run(program: str, limits: Limits | None = None, *, level: Level | None = None) -> Outcome:
    """Run `program` to its end within `limits` (default: `Limits()`); one call, one program.

    Blocks for as long as the program runs. Safe to call from several threads. `level` is for
    tests; default: the best of this machine.

    Raises:
        MarsError: code execution was not allowed, or the sandbox itself could not start.
    """
    _permitted()
    level = level or best()
    return _run(program, limits or Limits(), level, _isolation(level))


def run_many(
    programs: Iterable[str], limits: Limits | None = None, *, workers: int | None = None
) -> list[Outcome]:
    """`run` for each, `workers` at a time (default: one a core, 16 at most); equal ones run once.

    Raises:
        MarsError: as for `run`.
    """
    programs = list(programs)
    distinct = list(dict.fromkeys(programs))
    _permitted()
    isolation()  # found out once, before several threads ask
    with ThreadPoolExecutor(workers or min(16, len(os.sched_getaffinity(0)))) as pool:
        outcomes = pool.map(lambda program: run(program, limits), distinct)
        found = dict(zip(distinct, outcomes, strict=True))
    return [found[program] for program in programs]


def prefetch(programs: Iterable[str]) -> None:
    """Run in parallel those that `passes` does not know yet; nothing, if code may not run."""
    if _allowed:
        new = [program for program in dict.fromkeys(programs) if program not in _verdicts]
        outcomes = run_many(new)
        _verdicts.update(zip(new, (outcome.passed for outcome in outcomes), strict=True))


def passes(program: str) -> bool:
    """Whether `program` passes within `Limits()`; run once in this process's life, then known.

    So equal answers score the same, whichever lane gave them, however busy the machine is.

    Raises:
        MarsError: as for `run`.
    """
    _permitted()
    if program not in _verdicts:
        _verdicts[program] = run(program).passed
    return _verdicts[program]


def _permitted() -> None:
    if not _allowed:
        raise MarsError(
            "This task runs code that the model wrote, which was not allowed.",
            hint="Add --allow-code-execution to run it in the sandbox.",
        )


def isolation() -> tuple[str, ...]:
    """What the sandbox enforces on this machine, in words, the level first."""
    return _isolation(best())


@cache
def best() -> Level:
    """The first level that works here, or the last, which then says why it does not."""
    return next((level for level in LEVELS[:-1] if works(level)), LEVELS[-1])


@cache
def works(level: Level) -> bool:
    """Whether `level` can be had here; runs an empty program of our own."""
    try:
        return bool(_isolation(level))
    except MarsError:
        return False


@cache
def _isolation(level: Level) -> tuple[str, ...]:
    return _run("", Limits(), level, ()).isolation


def _run(program: str, limits: Limits, level: Level, known: Iterable[str]) -> Outcome:
    """`known`: what is in force at `level`, as far as that was found out."""
    if sys.platform != "linux":
        raise MarsError(
            f"The code sandbox needs Linux, and this is {sys.platform}.",
            hint="Leave out --allow-code-execution: such tasks then run without a score.",
        )
    known = tuple(known)
    alone = not known or any(item.startswith("own user") for item in known)
    request = {
        "program": program,
        "level": level,
        "uid": _UIDS[next(_uids) % len(_UIDS)],
        "others": 0 if alone else files.threads_of(os.geteuid()),
        "view": asdict(_view()),
        **asdict(limits),
    }
    begin = time.monotonic()
    returncode, stdout, stderr = _supervised(request, limits)
    seconds = time.monotonic() - begin
    try:
        reply = json.loads(stdout)
    except ValueError:
        # By a signal from the program, or by us because the program stopped it; bwrap adds 128.
        number = -returncode if returncode < 0 else returncode - 128
        if number > 0:
            name = signal.Signals(number).name
            return Outcome("crashed", f"its supervisor was killed by {name}", seconds, ())
        reply = {"status": "error", "reason": stderr.strip().rpartition("\n")[2]}
    if reply["status"] == "error":
        raise _no_start(reply["reason"] or "no reason given")
    return Outcome(reply["status"], reply["reason"], seconds, tuple(reply["isolation"]))


def _no_start(reason: str) -> MarsError:
    return MarsError(
        f"The code sandbox could not start: {reason}.",
        hint="Run without --allow-code-execution to leave such tasks unscored.",
    )


def _supervised(request: dict[str, Any], limits: Limits) -> tuple[int, str, str]:
    """Exit code (negative: signal), stdout and stderr of the supervisor; its group is gone."""
    command = [sys.executable, "-s", "-P", str(_CHILD)]
    if request["level"] == "bubblewrap":
        wrapper = files.bubblewrap(_view(), limits.tmp_bytes)
        if not wrapper:
            raise _no_start("bwrap is not installed")
        return _communicate([*wrapper, *command], request, files.WORK, "/", limits.seconds)
    folder = tempfile.mkdtemp(prefix="mars-sandbox-")
    try:
        if request["level"] == "namespaces":
            request["root"] = folder
            return _communicate(command, request, files.WORK, "/", limits.seconds)
        # Within a folder that stays ours, so that another user cannot put a link in its place.
        work = os.path.join(folder, "program")
        os.mkdir(work)
        os.chmod(folder, 0o711)
        return _communicate(command, request, work, work, limits.seconds)
    finally:
        files.remove(folder)


def _communicate(
    command: list[str], request: dict[str, Any], home: str, cwd: str, seconds: float
) -> tuple[int, str, str]:
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=files.environment(home),
        start_new_session=True,
    )
    with process:
        try:
            stdout, stderr = process.communicate(json.dumps(request), timeout=seconds + _GRACE)
        except subprocess.TimeoutExpired:  # the supervisor keeps the deadline, unless it is stopped
            stdout, stderr = "", ""
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        return process.wait(), stdout, stderr


@cache
def _view() -> files.View:
    return files.view([str(_CHILD)])
