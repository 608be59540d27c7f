"""Programs in the sandbox, at every level that this machine offers."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest

from mars_cli.scoring import sandbox
from mars_cli.scoring.sandbox import Level, Limits, Outcome

QUICK = Limits(
    seconds=1,
    cpu_seconds=5,
    memory_bytes=256 << 20,
    file_bytes=1 << 20,
    tmp_bytes=4 << 20,
    output_bytes=1 << 18,
    processes=16,
)
SLOW = Limits(seconds=30, processes=16)
OWN_FILES: tuple[Level, ...] = ("bubblewrap", "namespaces")


def offered(level: Level) -> Level:
    if not sandbox.works(level):
        pytest.skip(f"no {level} on this machine")
    return level


def run(program: str, limits: Limits = QUICK, level: Level | None = None) -> Outcome:
    return sandbox.run(program, limits, level=level)


def in_force(level: Level) -> tuple[str, ...]:
    """What `level` encloses here, in words."""
    return sandbox._isolation(level)


def naming(name: str) -> str:
    """A line of Python with which a process names itself (a changed user may not write `comm`)."""
    return f"import ctypes; ctypes.CDLL(None).prctl(15, {name.encode()!r})\n"


def named(name: str) -> list[int]:
    """The processes that gave themselves `name`."""
    found = []
    for comm in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            if comm.read_text().strip() == name:
                found.append(int(comm.parent.name))
    return found


def until(condition: object, seconds: float = 20.0) -> bool:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
