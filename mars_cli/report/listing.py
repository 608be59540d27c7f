"""The runs in a folder, newest first, with what each found in a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mars_cli.analysis.metrics import BASELINE
from mars_cli.analysis.stored import Stored
from mars_cli.report import numbers
from mars_cli.report.blocks import Block, Heading, Table
from mars_cli.report.single import minute, model_name


@dataclass(frozen=True)
class Entry:
    """A run in the list; `lane` is its fastest but `ar`, with its figures over all tasks."""

    run: str
    folder: str
    created: str
    model: str
    status: str
    lanes: list[str]
    tasks: list[str]
    lane: str | None
    speedup: float | None
    recovery: float | None

    @property
    def headline(self) -> str:
        """Speedup, recovery and which lane's; a dash where there are none."""
        if self.lane is None:
            return numbers.NULL
        speedup, recovery = numbers.ratio(self.speedup), numbers.percent(self.recovery)
        return f"{speedup}, {recovery} {self.lane}"


def entries(runs: Sequence[Stored]) -> list[Entry]:
    """The runs' entries, newest first."""
    found = [_entry(run) for run in runs]
    return sorted(found, key=lambda one: (one.created, one.run), reverse=True)


def listing(found: Sequence[Entry], root: Path) -> list[Block]:
    """The entries as a table."""
    if not found:
        return [Heading(f"no runs in {root}", 1)]
    rows = tuple(
        (
            (entry.run,),
            (minute(entry.created),),
            (entry.model,),
            (entry.status,),
            (entry.headline,),
            (str(len(entry.lanes)),),
        )
        for entry in found
    )
    header = ("run", "created", "model", "status", "speedup, recovery", "lanes")
    heading = f"{numbers.counted(len(found), 'run')} in {root}"
    return [Heading(heading, 1), Table(header, rows, 5, heading)]


def as_rows(found: Sequence[Entry]) -> list[dict[str, Any]]:
    """The entries as flat rows."""
    return [asdict(entry) for entry in found]


def _entry(run: Stored) -> Entry:
    results = run.results
    facts = results["run"]
    others = {lane: one for lane, one in results["overall"].items() if lane != BASELINE}
    measured = {lane: one for lane, one in others.items() if one["speedup"] is not None} or {
        lane: one for lane, one in others.items() if one["recovery"] is not None
    }
    best = max(measured, key=lambda lane: measured[lane]["speedup"] or 0, default=None)
    figures = measured.get(best or "", {})
    return Entry(
        # What can be typed: the folder's name, which is the id unless it was renamed.
        run=run.folder.resolve().name,
        folder=str(run.folder),
        created=facts["created"],
        model=model_name(run),
        status=facts["status"],
        lanes=[lane["id"] for lane in results["lanes"]],
        tasks=list(results["tasks"]),
        lane=best,
        speedup=figures.get("speedup"),
        recovery=figures.get("recovery"),
    )
