"""What figures read from results: lanes, points with intervals, and what is missing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mars_cli.analysis.metrics import BASELINE
from mars_cli.report.figures.style import Look, NothingToDrawError, look, shown

FARTHEST = 1e6  # no ratio, percentage or score beyond this can be drawn beside others
WHISKERS = "Whiskers: 95% intervals over documents."
CUT = "Arrows: the interval goes on."

Results = Mapping[str, Any]
Lane = Mapping[str, Any]
Missing = tuple[str, str, str]  # (task, lane id, why)


@dataclass(frozen=True)
class Point:
    """A figure and the ends of its 95% interval, which may be None."""

    value: float
    ends: tuple[float, float] | None = None

    @property
    def reach(self) -> tuple[float, float]:
        """Both ends of the interval; without one, the value."""
        return self.ends or (self.value, self.value)


def point(row: Mapping[str, Any] | None, name: str) -> Point | None:
    """A figure with its interval (`<name>_ci`); None where it is null, or beyond drawing."""
    value = _number((row or {}).get(name))
    if value is None:
        return None
    return Point(value, interval((row or {}).get(f"{name}_ci")))


def interval(ends: Sequence[Any] | None) -> tuple[float, float] | None:
    """Both ends of an interval; None where either is null, or beyond drawing."""
    low, high = map(_number, ends or (None, None))
    return None if low is None or high is None else (low, high)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and abs(value) <= FARTHEST else None


# -- lanes -------------------------------------------------------------------------------------


def drafting(results: Results) -> list[Lane]:
    """The lanes but `ar`, in the run's order."""
    return [lane for lane in results["lanes"] if lane["id"] != BASELINE]


def rows_of(results: Results, task: str) -> Mapping[str, Any]:
    """The figures of one task by lane id."""
    found: Mapping[str, Any] = results["tasks"][task].get("lanes") or {}
    return found


def theta_of(lane: Lane) -> float | None:
    """The threshold of a lane whose rule has one."""
    return _number(lane.get("theta"))


def is_strict(lane: Lane) -> bool:
    """Whether a lane's rule adds nothing to strict verification."""
    return lane.get("rule") == "strict"


def engine_of(lane: Lane) -> tuple[Any, ...]:
    """What strict and relaxing lanes that can be compared have in common."""
    return lane.get("draft"), lane.get("k"), lane.get("temperature")


def series_of(lane: Lane) -> tuple[Any, ...]:
    """What lanes that differ in theta alone have in common."""
    others = {k: v for k, v in (lane.get("parameters") or {}).items() if k != "theta"}
    options = tuple(sorted((str(k), str(v)) for k, v in others.items()))
    return (lane.get("rule"), *engine_of(lane), bool(lane.get("protect_stop")), options)


def series_names(lanes: Iterable[Lane]) -> dict[tuple[Any, ...], str]:
    """Names of series: the rule and K, and of draft, temperature and options what differs."""
    found = {series_of(lane): lane for lane in lanes}
    several = [len({key[at] for key in found}) > 1 for at in range(6)]
    names = {}
    for key in found:
        rule, draft, k, temperature, protect, options = key
        parts = [shown(rule), shown(draft) if several[1] else "", f"K = {shown(k)}"]
        parts += [f"temperature {shown(temperature)}"] if several[3] else []
        parts += ["protect-stop"] if protect and several[4] else []
        parts += [shown(f"{name}={value}") for name, value in options] if several[5] else []
        names[key] = ", ".join(part for part in parts if part)
    return names


def brief(lane: Lane) -> str:
    """A lane's id without its draft and K: `strict`, `mars-t0.9`."""
    return str(lane["id"]).replace(f"-{lane.get('draft')}-k{lane.get('k')}", "", 1)


def looks(results: Results) -> dict[str, Look]:
    """A look for each lane but `ar`, one a series; a strict lane has that of its engine, hollow."""
    lanes = drafting(results)
    relaxing = dict.fromkeys(series_of(lane) for lane in lanes if not is_strict(lane))
    by_series = {key: look(index) for index, key in enumerate(relaxing)}
    by_engine: dict[tuple[Any, ...], Look] = {}
    for lane in lanes:
        if not is_strict(lane):
            by_engine.setdefault(engine_of(lane), by_series[series_of(lane)])
    for lane in lanes:
        by_engine.setdefault(engine_of(lane), look(len(by_series) + len(by_engine)))
    return {
        lane["id"]: by_engine[engine_of(lane)].strict()
        if is_strict(lane)
        else by_series[series_of(lane)]
        for lane in lanes
    }


# -- axes --------------------------------------------------------------------------------------


def limits(points: Iterable[Point], anchors: Sequence[float], reach: float) -> tuple[float, float]:
    """Ends of an axis: all values and anchors, and intervals as far as they leave those room.

    An interval is followed for as much as the values span, or `reach` where that is more, so that
    one without bounds does not press all values into a corner.
    """
    points = list(points)
    values = [*anchors, *(p.value for p in points)]
    low, high = min(values), max(values)
    further = max(high - low, reach)
    ends = [end for p in points for end in p.reach]
    low, high = max(min([low, *ends]), low - further), min(max([high, *ends]), high + further)
    margin = 0.05 * (high - low or 1)
    return low - margin, high + margin


# -- what is missing ---------------------------------------------------------------------------


def left_out(what: str, missing: Sequence[Missing], lanes: int) -> list[str]:
    """A sentence that names figures which are null, by task, lanes (of so many) and reason."""
    where: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for task in dict.fromkeys(task for task, _, _ in missing):
        for why in dict.fromkeys(why for at, _, why in missing if at == task):
            ids = tuple(lane for at, lane, reason in missing if (at, reason) == (task, why))
            where.setdefault((ids, why), []).append(task)
    parts = []
    for (ids, why), tasks in where.items():
        if len(ids) == lanes:
            who = "all lanes"
        elif len(ids) > 3:
            who = f"{len(ids)} of {lanes} lanes"
        else:
            who = ", ".join(map(shown, ids))
        parts.append(f"{', '.join(map(shown, tasks))}, {who}: {why}")
    return [f"No {what} of {'; '.join(parts)}."] if parts else []


def nothing(what: str, missing: Sequence[Missing], lanes: int) -> NothingToDrawError:
    """The error of a figure for which all is missing."""
    return NothingToDrawError(*left_out(what, missing, lanes) or ["No lane with a draft is there."])
