"""How long commands take that load no model, beside a Python that imports click."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from statistics import median

from benchmarks.ratios import Row, rotated
from mars_cli.analysis.stats import log_ratio

ROUNDS = 10
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("--help",),
    ("models",),
    ("tasks",),
    ("report", "--list"),
)


def measure(commands: Sequence[Sequence[str]] = COMMANDS) -> list[Row]:
    """A row a command; each is started once a round, in rotating order."""
    python = [sys.executable, "-c", "import click"]
    every = [python, *([sys.executable, "-m", "mars_cli", *command] for command in commands)]
    for arguments in every:
        _seconds(arguments)  # compiles what Python caches
    found: list[list[float]] = [[] for _ in every]
    for number in range(ROUNDS):
        for index in rotated(range(len(every)), number):
            found[index].append(_seconds(every[index]))
    base, *others = found
    return [
        Row(
            f"start-up: mars {' '.join(command)} / python -c 'import click'",
            f"{median(times):.2f} s",
            f"{median(base):.2f} s",
            log_ratio(times, base),
            ROUNDS,
        )
        for command, times in zip(commands, others, strict=True)
    ]


def _seconds(arguments: list[str]) -> float:
    started = time.monotonic()
    subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - started
