"""Progress on stderr: bars with an ETA on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from mars_cli.evaluation.progress import Step

LINE_EVERY_S = 20.0


def eta(done: int, total: int, seconds: float) -> float | None:
    """Seconds left at the pace of this session's own work; None before anything is done."""
    return None if done <= 0 else seconds / done * (total - done)


def clock(seconds: float | None) -> str:
    """Such as 1:05; a dash when unknown."""
    if seconds is None:
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"


class _Eta(ProgressColumn):
    def render(self, task: Task) -> Text:
        """Time left; what an earlier session had recorded does not count as pace."""
        done = int(task.completed - task.fields["before"])
        left = eta(done, int((task.total or 0) - task.fields["before"]), task.elapsed or 0.0)
        return Text(f"left {clock(left)}", style="cyan")


class Bars:
    """Shows phases as bars on a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextmanager
    def phase(self, label: str, total: int, done: int = 0) -> Iterator[Step]:
        """A bar while the context lasts; it stays when done."""
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            _Eta(),
        )
        with Progress(*columns, console=self._console) as progress:
            task = progress.add_task(label, total=total, completed=done, before=done)
            yield lambda count: progress.advance(task, count)

    def note(self, message: str) -> None:
        """Say one line."""
        self._console.print(message, markup=False, highlight=False, style="yellow")


class Lines:
    """Shows phases as plain lines: at the start, now and then, and at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextmanager
    def phase(self, label: str, total: int, done: int = 0) -> Iterator[Step]:
        """A line at the start, one every 20 s, one at the end."""
        started = said = time.monotonic()
        before = done
        self._say(f"{label}: {total} to do" + (f", {done} recorded before" if done else ""))

        def step(count: int) -> None:
            nonlocal done, said
            done += count
            now = time.monotonic()
            if now - said >= LINE_EVERY_S and done < total:
                said = now
                left = clock(eta(done - before, total - before, now - started))
                self._say(f"{label}: {done}/{total}, about {left} left")

        yield step
        self._say(f"{label}: {done}/{total} in {clock(time.monotonic() - started)}")

    def note(self, message: str) -> None:
        """Say one line."""
        self._say(message)

    def _say(self, message: str) -> None:
        self._console.print(message, markup=False, highlight=False, soft_wrap=True)


def on_stderr() -> Bars | Lines:
    """Bars where a person watches, lines where a file does."""
    console = Console(stderr=True)
    return Bars(console) if console.is_terminal else Lines(console)
