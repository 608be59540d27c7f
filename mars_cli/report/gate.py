"""`--fail-if "recovery<98"`: conditions under which a report fails, lane by lane.

A condition is [LANE:]FIGURE<NUMBER, with <, <=, > or >=. FIGURE is a column of the CSV (`UNITS` in
`tidy`). LANE is a glob; without it every lane is meant but `ar`, and but strict where a run has
other rules. A figure that could not be measured fails.
"""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from mars_cli.analysis.figures import Unit
from mars_cli.analysis.metrics import BASELINE
from mars_cli.analysis.stored import Stored
from mars_cli.errors import UsageError
from mars_cli.report import numbers
from mars_cli.report.blocks import figure
from mars_cli.report.table import RECOVERY_NOTES
from mars_cli.report.tidy import UNITS, WITH_ENDS, Row

LOWER, POINT = "lower", "point"
_FORM = re.compile(
    r"(?:(?P<lane>[^:<>]+):)?\s*(?P<name>[\w.]+)\s*(?P<sign><=|>=|<|>)\s*(?P<limit>\S+)\s*"
)
_SIGNS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SUFFIX = {Unit.PERCENT: "%", Unit.RATIO: "x"}
_EXAMPLE = 'such as "recovery<98" or "mars-*:speedup<1.2"'
# Notes say "recovery: ..." of all that comes with it, and "speed: ..." of all times.
_SAID_UNDER = {
    **dict.fromkeys(("largest_loss", "safe"), "recovery"),
    **dict.fromkeys(("p_value", "p_value_holm"), "p value"),
    **dict.fromkeys(("tokens_per_s", "ttft_ms", "tpot_ms", "throughput"), "speed"),
    **dict.fromkeys(("exact_match_ar", "batched_match_ar"), "agreement with ar"),
}


@dataclass(frozen=True)
class Condition:
    """A parsed condition; `lane` None means the lanes under test."""

    text: str
    lane: str | None
    name: str
    sign: str
    limit: float


def parse(text: str) -> Condition:
    """Read a condition.

    Raises:
        UsageError: it is not one, or names no figure.
    """
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"--fail-if {text}: expected FIGURE<NUMBER", hint=_EXAMPLE)
    name = found["name"].replace(".", "_")
    if name not in UNITS:
        close = difflib.get_close_matches(name, UNITS, n=3)
        hint = f"did you mean {', '.join(close)}?" if close else f"figures are {', '.join(UNITS)}"
        raise UsageError(f"--fail-if {text}: there is no figure {found['name']}", hint=hint)
    given = found["limit"].removesuffix(_SUFFIX.get(UNITS[name], "\0"))
    try:
        limit = float(given)
    except ValueError:
        limit = float("nan")
    if not abs(limit) < float("inf"):
        raise UsageError(f"--fail-if {text}: {found['limit']} is no number", hint=_EXAMPLE)
    return Condition(text, found["lane"], name, found["sign"], limit)


def failures(
    conditions: Sequence[Condition],
    runs: Sequence[tuple[Stored, Sequence[Row]]],
    on: str,
    base: Stored | None = None,
) -> Iterator[str]:
    """A sentence for each figure that meets a condition, or cannot be held against it.

    Runs come with their rows; `base` is not held against itself. `on` POINT holds the figure itself
    against the limit, LOWER the end of its interval that fails more readily; figures that have no
    intervals are held as they are.
    """
    for condition in conditions:
        for run, rows in runs:
            where = f"{condition.text}: {run.id}"
            if run is base and condition.name.startswith("base_") and len(runs) > 1:
                continue
            tested = _tested(condition, rows)
            if not tested:
                of = "lane" if condition.lane is None else f"lane {condition.lane}"
                yield f"{where}: no figures of a {of} to test"
            for row in tested:
                said = _failure(condition, row, on)
                if said is not None:
                    yield f"{where}, {row['task']}, {row['lane']}: {said}"


def _tested(condition: Condition, rows: Sequence[Row]) -> Sequence[Row]:
    if condition.lane is not None:
        return [row for row in rows if fnmatchcase(row["lane"], condition.lane)]
    drafted = [row for row in rows if row["lane"] != BASELINE]
    return [row for row in drafted if row["rule"] != "strict"] or drafted


def _failure(condition: Condition, row: Row, on: str) -> str | None:
    name, unit = condition.name, UNITS[condition.name]
    value, has_ends = row[name], name in WITH_ENDS
    low, high = (row[f"{name}_low"], row[f"{name}_high"]) if has_ends else (None, None)
    shown = " ".join(figure(value, unit, None if low is None or high is None else (low, high)))
    held = value
    if on == LOWER and has_ends:
        held = low if condition.sign.startswith("<") else high
    if held is None:
        missing = "not measured" if value is None else f"{shown} has no interval"
        return f"{missing}{_reason(name, row)}"
    return shown if _SIGNS[condition.sign](held, condition.limit) else None


def _reason(name: str, row: Row) -> str:
    """What the notes say of a figure that is missing."""
    if name.startswith("base_"):
        found = [row["base_note"] or "no base run to hold it against"]
    else:
        words = _SAID_UNDER.get(name, name.replace("_", " "))
        found = [
            note
            for note in row["notes"]
            for head in note.partition(":")[0].split(", ")
            if head == name or (head and words.startswith(head))
        ]
        if not found and words == "recovery" and row["recovery_note"]:
            found = [RECOVERY_NOTES.get(row["recovery_note"], row["recovery_note"])]
    return f" ({'; '.join(dict.fromkeys(map(numbers.printable, found)))})" if found else ""
