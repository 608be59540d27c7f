"""What has become of each cell of a sweep: a table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from mars_cli.commands.progress import clock
from mars_cli.evaluation.sweep import CellName, Sweep, Watch

STYLES = {"done": "green", "failed": "bold red", "waiting": "dim"}
LINE_EVERY_S = 20.0


def shares(cells: dict[CellName, str]) -> float:
    """Cells done, those running by their share."""
    return sum(
        float(state.rpartition(" ")[2].rstrip("%")) / 100
        if state.startswith("running")
        else float(state == "done")
        for state in cells.values()
    )


class _Pace:
    """How long the rest takes, at the pace of this session."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._before: float | None = None

    def left(self, cells: dict[CellName, str], groups: int) -> float | None:
        """Seconds; groups that have not begun count as those that have."""
        begun = len({group for group, _, _ in cells})
        total = len(cells) * groups / begun if begun else 0
        done = shares(cells)
        if self._before is None:
            self._before = done
        pace = done - self._before
        if pace <= 0:
            return None
        return (time.monotonic() - self._began) / pace * (total - done)


@contextmanager
def watching(sweep: Sweep) -> Iterator[Watch]:
    """A watch for `run_sweep`, on stderr."""
    console = Console(stderr=True)
    pace = _Pace()
    if console.is_terminal:
        with Live(console=console, refresh_per_second=2, transient=True) as live:
            yield lambda cells: live.update(_table(sweep, cells, pace))
        return
    said: dict[CellName, str] = {}
    last = time.monotonic()

    def lines(cells: dict[CellName, str]) -> None:
        nonlocal last
        ended = [
            name
            for name, state in cells.items()
            if state in ("done", "failed") and said.get(name) != state
        ]
        for name in ended:
            group, task, lane = name
            console.print(f"{cells[name]}: {task} {lane} ({group})", highlight=False, markup=False)
        said.update(cells)
        if ended or time.monotonic() - last >= LINE_EVERY_S:
            last = time.monotonic()
            left = clock(pace.left(cells, len(sweep.groups)))
            done = sum(state == "done" for state in cells.values())
            now = [f"{task} {lane}" for (_, task, lane), s in cells.items() if s[0] == "r"]
            what = f", now {', '.join(now[:3])}" if now else ""
            begun = len({group for group, _, _ in cells})
            console.print(
                f"{done} of {len(cells)} cells done in {begun} of {len(sweep.groups)} groups, "
                f"about {left} left{what}"
                if cells
                else "the first group is being prepared",
                highlight=False,
                markup=False,
                soft_wrap=True,
            )

    yield lines


def _table(sweep: Sweep, cells: dict[CellName, str], pace: _Pace) -> Table:
    tasks = list(dict.fromkeys(task for _, task, _ in cells))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    left = clock(pace.left(cells, len(sweep.groups)))
    table.caption = f"left {left}; logs in {sweep.folder}/groups"
    for title in ("lane", *tasks):
        table.add_column(title, overflow="fold")
    for group, lane in dict.fromkeys((group, lane) for group, _, lane in cells):
        states = [cells.get((group, task, lane), "") for task in tasks]
        name = lane if lane != "ar" else f"ar ({group})"
        table.add_row(name, *(Text(s, style=STYLES.get(s, "yellow")) for s in states))
    begun = {group for group, _, _ in cells}
    for waiting in (group.id for group in sweep.groups if group.id not in begun):
        table.add_row(f"({waiting})", *("not begun" for _ in tasks))
    return table
