"""Flat rows for scripts and gates: one a run, task and lane, every figure and interval a column.

Columns are the same whatever was run; a figure that could not be measured is None (in CSV an empty
cell), and `notes` says why. `base_*` hold the lane against the same lane of the base run.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mars_cli.analysis.figures import FIDELITY, FIGURES, INTERVALS, SPEEDS, Unit
from mars_cli.analysis.stored import Stored
from mars_cli.report import numbers

if TYPE_CHECKING:
    from mars_cli.analysis.across import Paired

Row = dict[str, Any]

_RUN = ("run", "created", "status", "model")
_TASK = (
    *("metric", "higher_is_better", "n", "samples", "n_speed", "speed_mode", "concurrency"),
    *("aa_speedup", "aa_speedup_low", "aa_speedup_high"),
)
_LANE = ("rule", "draft", "k", "theta", "parameters", "protect_stop", "temperature", "seed")
_BASE = {
    "base_recovery": Unit.PERCENT,
    "base_largest_loss": Unit.PERCENT,
    "base_p_value": Unit.P_VALUE,
    "base_p_value_holm": Unit.P_VALUE,
    "base_n_paired": Unit.COUNT,
}
# Columns that hold a lane's figure, and their units.
UNITS: Mapping[str, Unit] = {
    **FIGURES,
    **{f"fidelity_{name}": unit for name, unit in FIDELITY.items()},
    **_BASE,
}
WITH_ENDS = frozenset(
    {*(INTERVALS & FIGURES.keys()), *(f"fidelity_{n}" for n in INTERVALS & FIDELITY.keys())}
    | {"base_recovery"}
)
# What a spreadsheet would take for a formula.
_FORMULA = ("=", "+", "-", "@")


def _with_ends(name: str) -> tuple[str, ...]:
    return (name, f"{name}_low", f"{name}_high") if name in WITH_ENDS else (name,)


COLUMNS = (
    *(*_RUN, "task", *_TASK, "lane", *_LANE),
    *(column for name in UNITS for column in _with_ends(name)),
    *("acceptance_per_position", "recovery_note", "base", "base_note", "notes"),
)


def rows(
    runs: Sequence[Stored], pairs: Sequence[Paired] = (), *, every_level: bool = False
) -> Iterator[Row]:
    """One row a run, task and lane, in that order; keys are COLUMNS.

    With `every_level` one more for each concurrency but the first, with its speeds alone.
    """
    by_place = {(id(pair.run), pair.task, pair.lane): pair for pair in pairs}
    for run in runs:
        results = run.results
        lanes = {lane["id"]: lane for lane in results["lanes"]}
        model = run.plan.get("model") or results["model"]
        about = {**results["run"], "run": run.id, "model": model.get("name") or model.get("id")}
        for name, task in results["tasks"].items():
            noise = results["noise"][name]
            level, *further = task["concurrency"] or [None]
            for lane, found in task["lanes"].items():
                row: Row = dict.fromkeys(COLUMNS)
                row |= {key: about.get(key) for key in _RUN}
                row |= {"task": name, "lane": lane}
                row |= {key: task.get(key) for key in _TASK}
                row |= {key: lanes.get(lane, {}).get(key) for key in _LANE}
                said = (results, task, found, found["fidelity"])
                yield {
                    **row,
                    **_timed(level, noise),
                    **_figures(found),
                    **_paired(by_place.get((id(run), name, lane))),
                    "notes": [note for part in said for note in part["notes"]],
                }
                for other in further if every_level else ():
                    floor = noise["by_concurrency"].get(str(other), {})
                    speeds = found["by_concurrency"][str(other)]
                    yield {
                        **row,
                        **_timed(other, floor),
                        **_of("", SPEEDS, speeds),
                        "notes": [
                            n for n in found["notes"] if n.startswith(f"concurrency {other}: ")
                        ],
                    }


def as_csv(found: Iterable[Row], columns: Sequence[str] = COLUMNS) -> str:
    """The rows as CSV (RFC 4180), a header first; every row is one line, whatever text it holds."""
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\r\n")
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in row.items()} for row in found)
    return out.getvalue()


def _figures(found: Mapping[str, Any]) -> Row:
    row: Row = {"recovery_note": found["recovery_note"]}
    row["acceptance_per_position"] = found["acceptance_per_position"]
    return row | _of("", FIGURES, found) | _of("fidelity_", FIDELITY, found["fidelity"])


def _timed(level: int | None, noise: Mapping[str, Any]) -> Row:
    floor = _ends("aa_speedup", noise.get("aa_speedup"), noise.get("aa_ci"))
    return {"concurrency": level, **floor}


def _of(prefix: str, names: Iterable[str], values: Mapping[str, Any]) -> Row:
    row: Row = {}
    for name in names:
        ends = values[f"{name}_ci"] if name in INTERVALS else None
        row |= _ends(f"{prefix}{name}", values[name], ends)
    return row


def _paired(pair: Paired | None) -> Row:
    if pair is None:
        return {}
    return {
        **_ends("base_recovery", pair.ratio, pair.interval),
        "base_largest_loss": pair.largest_loss,
        "base_p_value": pair.p_value,
        "base_p_value_holm": pair.p_value_holm,
        "base_n_paired": pair.n,
        "base": pair.base.id,
        "base_note": pair.note,
    }


def _ends(name: str, value: Any, ends: Sequence[float] | None) -> Row:
    if name not in WITH_ENDS and name != "aa_speedup":
        return {name: value}
    low, high = ends or (None, None)
    return {name: value, f"{name}_low": low, f"{name}_high": high}


def _cell(value: Any) -> Any:
    """Numbers in full, flags as true and false; parts of a list apart by spaces, notes by "; "."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        value = [f"{key}={part}" for key, part in value.items()]
    if isinstance(value, list):
        apart = " " if all(isinstance(part, int | float) for part in value) else "; "
        text = apart.join(map(numbers.printable, value))
    else:
        text = numbers.printable(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
