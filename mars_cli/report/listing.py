"""The runs, sweeps and traces in a folder, newest first, with what each found in a line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mars_cli.analysis.metrics import BASELINE
from mars_cli.analysis.stored import Stored, load
from mars_cli.report import numbers
from mars_cli.report.blocks import Block, Heading, Table
from mars_cli.report.single import minute, model_name
from mars_cli.runs.layout import SWEEP
from mars_cli.runs.reading import Unreadable, is_trace, manifest_of, read_json


@dataclass(frozen=True)
class Entry:
    """A folder in the list. `lane` is a run's fastest but `ar`, and what a sweep recommends.

    The figures are that lane's, over all tasks.
    """

    kind: str  # eval, sweep or trace
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
            return "none recommended" if self.kind == "sweep" else numbers.NULL
        speedup, recovery = numbers.ratio(self.speedup), numbers.percent(self.recovery)
        return f"{speedup}, {recovery} {self.lane}"


def entries(folders: Sequence[Path], unread: Callable[[str], None]) -> list[Entry]:
    """The folders' entries, newest first; `unread` is told in a line of each that is none."""
    found = []
    for folder in folders:
        try:
            found.append(_of(folder))
        except Unreadable as error:
            unread(str(error))
    return sorted(found, key=lambda one: (one.created, one.run), reverse=True)


def _of(folder: Path) -> Entry:
    if (folder / SWEEP).is_file():
        return _sweep(folder)
    manifest = manifest_of(folder)
    if is_trace(manifest):
        return _trace(folder, manifest)
    return run_entry(load(folder, records=False))


def listing(found: Sequence[Entry], root: Path) -> list[Block]:
    """The entries as a table."""
    if not found:
        return [Heading(f"no runs in {root}", 1)]
    rows = tuple(
        (
            (entry.run,),
            (entry.kind,),
            (minute(entry.created),),
            (entry.model,),
            (entry.status,),
            (entry.headline,),
            (str(len(entry.lanes)),),
        )
        for entry in found
    )
    header = ("run", "kind", "created", "model", "status", "speedup, recovery", "lanes")
    heading = f"{numbers.counted(len(found), 'run')} in {root}"
    return [Heading(heading, 1), Table(header, rows, 6, heading)]


def as_rows(found: Sequence[Entry]) -> list[dict[str, Any]]:
    """The entries as flat rows."""
    return [asdict(entry) for entry in found]


def _sweep(folder: Path) -> Entry:
    found = read_json(folder / SWEEP)
    try:
        chosen = found["recommended"]["setting"]
        settings = [one for one in found["settings"] if one["id"] == chosen]
        figures = settings[0] if settings else {}
        return Entry(
            kind="sweep",
            run=folder.resolve().name,
            folder=str(folder),
            created=str(found["run"]["created"]),
            model=str(found["plan"]["model"]),
            status=str(found["run"]["status"]),
            lanes=list(dict.fromkeys(str(cell["lane"]) for cell in found["cells"])),
            tasks=list(dict.fromkeys(str(cell["task"]) for cell in found["cells"])),
            lane=chosen if chosen is None else str(chosen),
            speedup=_figure(figures.get("speedup")),
            recovery=_figure(figures.get("recovery")),
        )
    except (ValueError, TypeError, LookupError, AttributeError):
        raise Unreadable(f"{folder / SWEEP}: not a sweep as this mars writes it") from None


def _figure(value: Any) -> float | None:
    return None if value is None else float(value)


def _trace(folder: Path, manifest: Mapping[str, Any]) -> Entry:
    model = manifest["plan"].get("model")
    return Entry(
        kind="trace",
        run=folder.resolve().name,
        folder=str(folder),
        created=manifest["created"],
        model=str(model.get("name")) if isinstance(model, dict) else "unknown",
        status=manifest["status"],
        lanes=[lane["id"] for lane in manifest["lanes"]],
        tasks=[],
        lane=None,
        speedup=None,
        recovery=None,
    )


def run_entry(run: Stored) -> Entry:
    """The entry of a run that was read."""
    results = run.results
    facts = results["run"]
    others = {lane: one for lane, one in results["overall"].items() if lane != BASELINE}
    measured = {lane: one for lane, one in others.items() if one["speedup"] is not None} or {
        lane: one for lane, one in others.items() if one["recovery"] is not None
    }
    best = max(measured, key=lambda lane: measured[lane]["speedup"] or 0, default=None)
    figures = measured.get(best or "", {})
    return Entry(
        kind="eval",
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
