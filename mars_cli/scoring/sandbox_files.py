"""What a generated program sees of the file system, and the commands that arrange it.

A program sees the system's programs and libraries, the interpreter that runs mars (its packages
included) and a few devices, all read-only, and an empty `/tmp` of its own: no home, no `/etc` but
for what the loader needs, no data, no other process. `bubblewrap` says that in bwrap's words;
`sandbox_child.py` does the same without bwrap.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# Where a program with files of its own runs; `/tmp` around it is its own too.
WORK = "/tmp/program"

_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"),
    *("/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime"),
)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_LINKS = (
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
    ("/dev/shm", "/tmp"),
)


@dataclass(frozen=True)
class View:
    """Read-only paths and devices of the system, and (path, target) of links to make."""

    binds: tuple[str, ...]
    devices: tuple[str, ...]
    links: tuple[tuple[str, str], ...]


def view(needed: Iterable[str]) -> View:
    """What the system and this interpreter consist of, and the absolute paths in `needed`."""
    binds: set[str] = set()
    links: dict[str, str] = {}

    def add(path: str) -> None:
        path = os.path.normpath(path)
        while os.path.islink(path) and path not in links:
            links[path] = os.readlink(path)
            path = os.path.normpath(os.path.join(os.path.dirname(path), links[path]))
        if os.path.exists(path):
            binds.add(path)

    for path in _SYSTEM:
        add(path)
    home = Path(os.path.expanduser("~"))  # Path.home() may raise
    libraries = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    own = [sys.executable, sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix]
    for path in [*own, *filter(os.path.isabs, libraries), *needed]:
        if not home.is_relative_to(path):  # a home is never shown as a whole
            add(path)

    def covered(path: str) -> bool:
        return any(str(parent) in binds or str(parent) in links for parent in Path(path).parents)

    return View(
        tuple(sorted(path for path in binds if not covered(path))),
        tuple(filter(os.path.exists, _DEVICES)),
        (*sorted(item for item in links.items() if not covered(item[0])), *_LINKS),
    )


def bubblewrap(shown: View, tmp_bytes: int) -> list[str]:
    """The beginning of a command that runs the rest of it in bubblewrap; [] if it is absent.

    As root the command keeps root's rights inside, and has to give them up itself.
    """
    program = shutil.which("bwrap")
    if program is None:
        return []
    command = [program, "--die-with-parent", "--new-session", "--unshare-cgroup-try"]
    command += ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    if os.geteuid() != 0:
        command.append("--unshare-user")
    if _limits_size(program):
        command += ["--size", str(tmp_bytes)]
    command += ["--tmpfs", "/tmp"]  # first: the interpreter may lie under /tmp
    paths = [*shown.binds, *shown.devices, *(path for path, _ in shown.links), WORK]
    # Those that bwrap makes unasked would be closed to any user but this one.
    for parent in sorted({str(parent) for path in paths for parent in Path(path).parents} - {"/"}):
        command += ["--dir", parent]
    for path in shown.binds:
        command += ["--ro-bind", path, path]
    for path in shown.devices:
        command += ["--dev-bind", path, path]
    for path, target in shown.links:
        command += ["--symlink", target, path]
    command += ["--proc", "/proc", "--dir", WORK, "--chdir", WORK, "--remount-ro", "/"]
    return [*command, "--"]


@cache
def _limits_size(program: str) -> bool:
    """Whether this bwrap can limit the size of a tmpfs (0.7.0 and later)."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            [program, "--help"], capture_output=True, text=True, check=False, timeout=10
        )
        return "--size " in done.stdout + done.stderr
    return False


def environment(folder: str) -> dict[str, str]:
    """The variables that a program gets: none of ours but where the interpreter's libraries lie."""
    variables = {
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
    if "LD_LIBRARY_PATH" in os.environ:
        variables["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
    return variables


def remove(folder: str) -> None:
    """Delete `folder`, whatever a program made of it: a link, closed folders, very deep ones.

    Folders are brought up to the top before they are looked into, since they may lie deeper than
    recursion and paths reach. Best effort: what cannot be deleted stays.
    """
    with contextlib.suppress(OSError):
        if os.path.islink(folder):  # put there by a program: what it points at is not ours
            os.unlink(folder)
            return
        found = [folder]
        while found:
            here = found.pop()
            os.chmod(here, 0o700)
            for entry in list(os.scandir(here)):
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.path)
                    continue
                os.chmod(entry.path, 0o700)  # or it could not be moved
                found.append(os.path.join(folder, uuid.uuid4().hex))
                os.rename(entry.path, found[-1])
            if here != folder:
                os.rmdir(here)
        os.rmdir(folder)


def threads_of(uid: int) -> int:
    """How many threads user `uid` runs now: the limit on processes counts them all."""
    count = 0
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if entry.stat().st_uid == uid:
                    count += len(os.listdir(f"{entry.path}/task"))
    return count
