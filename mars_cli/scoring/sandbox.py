"""Runs one generated Python program in processes of its own, and says whether its tests passed.

Covered:

- time: a wall clock for everything the program starts, and CPU seconds per process
- memory (address space) per process; size of each file, what is printed included
- number of processes and threads; all that is left is killed, new sessions and daemons included
- an empty temporary working directory, deleted afterwards; `HOME` and `TMPDIR` point at it
- the environment: no variable of ours passes, so no `MARS_*` setting and no hub token; stdin is
  empty; no open file of ours is inherited; hashing is seeded, so the same answer scores the same
- as root: a throwaway user without privileges, so that nothing of the system can be written
- where Linux lets us (root, or unprivileged user namespaces): no network, and a process namespace
- early success: `sys.exit(0)`, `os._exit(0)`, an empty program or a printed success line does not
  count; the tests must have run to their end

Not covered:

- a determined attacker: there is no filter on system calls and no separate file system; a bug in
  the kernel is open to the program, and so is the harness that shares its interpreter: code written
  to find the harness's token can claim a pass
- reading files: the program reads what its user may read: as a plain user that is your home; as
  root nothing private, unless the interpreter itself lies under a private home, then every file
- writing files as a plain user, or the disk as a whole (many files below the limit)
- where namespaces are not allowed: the network; as a plain user also signals to your other
  processes, and what a program leaves behind that kills its own supervisor
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
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from mars_cli.errors import MarsError

Status = Literal["passed", "failed", "timeout", "crashed"]


@dataclass(frozen=True)
class Limits:
    """What one program may use. Sizes in bytes; `processes` counts threads too."""

    seconds: float = 10.0
    cpu_seconds: int = 10
    memory_bytes: int = 1 << 30
    file_bytes: int = 16 << 20
    processes: int = 32


@dataclass(frozen=True)
class Outcome:
    """What became of a program.

    `status` is "passed" (the last line was reached), "failed" (an exception, or an early exit),
    "timeout" (wall clock or CPU) or "crashed" (killed by a signal); `reason` says more, and is
    empty for a pass. `seconds` is the wall time, `isolation` what was in force, in words.
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

# One throwaway user per program, never two at once with the same number: the limit on processes
# counts per user. The range is the one that systemd sets aside for transient users.
_UIDS = range(61184, 65520)
_uids = itertools.count(secrets.randbelow(len(_UIDS)))

_CHILD = Path(__file__).with_name("sandbox_child.py")
_GRACE_SECONDS = 60.0


def allow(permitted: bool = True) -> None:
    """Permit (or forbid again) running generated code in this process; off until called."""
    global _allowed
    _allowed = permitted


def allowed() -> bool:
    """Whether generated code may run."""
    return _allowed


def run(program: str, limits: Limits | None = None) -> Outcome:
    """Run `program` to its end within `limits` (default: `Limits()`); one call, one program.

    Blocks for as long as the program runs. Safe to call from several threads.

    Raises:
        MarsError: code execution was not allowed, or the sandbox itself could not start.
    """
    if not _allowed:
        raise MarsError(
            "This task runs code that the model wrote, which was not allowed.",
            hint="Add --allow-code-execution to run it in the sandbox.",
        )
    return _run(program, limits or Limits())


@cache
def isolation() -> tuple[str, ...]:
    """What the sandbox enforces on this machine, in words; runs an empty program of our own."""
    return _run("", Limits()).isolation


def _run(program: str, limits: Limits) -> Outcome:
    if sys.platform != "linux":
        raise MarsError(
            f"The code sandbox needs Linux, and this is {sys.platform}.",
            hint="Leave out --allow-code-execution: such tasks then run without a score.",
        )
    uid = _UIDS[next(_uids) % len(_UIDS)]
    request = json.dumps({"program": program, "uid": uid, **asdict(limits)})
    folder = tempfile.mkdtemp(prefix="mars-sandbox-")
    begin = time.monotonic()
    try:
        returncode, stdout, stderr = _supervised(request, folder, limits.seconds + _GRACE_SECONDS)
    finally:
        _remove(folder)
    seconds = time.monotonic() - begin
    if returncode < 0:  # by a signal from the program, or by us because the program stopped it
        name = signal.Signals(-returncode).name
        return Outcome("crashed", f"its supervisor was killed by {name}", seconds, ())
    try:
        reply = json.loads(stdout)
    except ValueError:
        reply = {"status": "error", "reason": stderr.strip().rpartition("\n")[2]}
    if reply["status"] == "error":
        raise MarsError(
            f"The code sandbox could not start: {reply['reason'] or 'no reason given'}.",
            hint="Run without --allow-code-execution to leave such tasks unscored.",
        )
    return Outcome(reply["status"], reply["reason"], seconds, tuple(reply["isolation"]))


def _supervised(request: str, folder: str, seconds: float) -> tuple[int, str, str]:
    """Exit code (negative: signal), stdout and stderr of the supervisor; its group is gone."""
    process = subprocess.Popen(
        [sys.executable, "-s", "-P", str(_CHILD)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=_environment(folder),
        start_new_session=True,
    )
    with process:
        try:
            stdout, stderr = process.communicate(request, timeout=seconds)
        except subprocess.TimeoutExpired:  # the supervisor keeps the deadline, unless it is stopped
            stdout, stderr = "", ""
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        return process.wait(), stdout, stderr


def _environment(folder: str) -> dict[str, str]:
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "HOME": folder,
        "TMPDIR": folder,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        # One thread each: a pool per core would meet the limit on processes.
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }
    if "LD_LIBRARY_PATH" in os.environ:  # the interpreter itself may need it
        environment["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
    return environment


def _remove(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if os.path.isdir(folder):  # the program took away its own permissions; links are not followed
        for parent, _, _ in os.walk(folder):
            with contextlib.suppress(OSError):
                os.chmod(parent, 0o700)
        shutil.rmtree(folder, ignore_errors=True)
