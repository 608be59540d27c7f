"""What every reader of a results.json may rely on, whoever wrote it and whenever.

What is missing is filled in as None, or as empty; what is of the wrong kind is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

from mars_cli.analysis.figures import (
    FIDELITY,
    FIGURES,
    INTERVALS,
    SAFE_RECOVERY,
    SCHEMA,
    SPEEDS,
    Unit,
)

Results = dict[str, Any]

NUMBER = (int, float)
WORDS = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    NUMBER: "a number",
    list: "a list",
    dict: "an object",
}
RECOVERY = {"score": Unit.SCORE, "recovery": Unit.PERCENT}
OVERALL = (
    *("recovery", "acceptance_length"),
    *("speedup", "decode_speedup", "wall_speedup", "strict_speedup"),
)


def checked(results: Any) -> Results:
    """The same results with every key that reports read, filled in where they lie.

    Raises:
        ValueError: a part is of the wrong kind, or the schema is another; says where.
    """
    if not (isinstance(results, dict) and "schema" in results and "tasks" in results):
        raise ValueError("holds no results of mars")
    if results["schema"] != SCHEMA:
        raise ValueError(
            f"written with schema {results['schema']}, this mars reads schema {SCHEMA}"
        )
    run = _take(results, "", "run", dict, {})
    for name in ("id", "created", "status"):
        _take(run, "run.", name, str, "unknown")
    for name in ("model", "environment", "tasks", "noise"):
        _take(results, "", name, dict, {})
    _texts(results, "", "notes")
    _texts(results, "", "engine_differences")
    _take(results, "", "safe_recovery", NUMBER, SAFE_RECOVERY)
    for number, lane in enumerate(_take(results, "", "lanes", list, [])):
        _lane(_is(lane, dict, f"lanes.{number}"), f"lanes.{number}.")
    for name in results["tasks"]:
        task = _take(results["tasks"], "tasks.", name, dict, {})
        _task(task, f"tasks.{name}.")
        _noise(_take(results["noise"], "noise.", name, dict, {}), f"noise.{name}.")
    _totals(results, "overall", "")
    for name in _take(results, "", "groups", dict, {}):
        group, where = _take(results["groups"], "groups.", name, dict, {}), f"groups.{name}."
        _texts(group, where, "tasks")
        _take(group, where, "n", int, 0)
        _take(group, where, "metric", str)
        _totals(group, "lanes", where)
        for lane, total in group["lanes"].items():
            at = f"{where}lanes.{lane}."
            _take(total, at, "score", NUMBER)
            for one, values in _take(total, at, "metrics", dict, {}).items():
                _take(_is(values, dict, f"{at}metrics.{one}"), at, "score", NUMBER)
    return results


def _totals(found: Results, name: str, where: str) -> None:
    """Figures of lanes over several tasks."""
    for lane in _take(found, where, name, dict, {}):
        at = f"{where}{name}.{lane}."
        total = _take(found[name], f"{where}{name}.", lane, dict, {})
        for figure in OVERALL:
            _take(total, at, figure, NUMBER)
        _texts(total, at, "notes")


def _lane(lane: Results, where: str) -> None:
    _is(lane.get("id"), str, f"{where}id")
    for name, value in _take(lane, where, "parameters", dict, {}).items():
        _is(value, NUMBER, f"{where}parameters.{name}")
    _take(lane, where, "engine", dict, {})


def _task(task: Results, where: str) -> None:
    for name in ("n", "n_speed"):
        _take(task, where, name, int, 0)
    for name in ("metric", "speed_mode"):
        _take(task, where, name, str, "unknown")
    _take(task, where, "higher_is_better", bool, True)
    _take(task, where, "samples", int)
    _texts(task, where, "notes")
    levels = [
        _is(level, int, f"{where}concurrency")
        for level in _take(task, where, "concurrency", list, [])
    ]
    _lanes(task, where, levels)
    for name in _take(task, where, "categories", dict, {}):
        part = _take(task["categories"], f"{where}categories.", name, dict, {})
        _take(part, f"{where}categories.{name}.", "n", int, 0)
        _lanes(part, f"{where}categories.{name}.", levels)


def _lanes(task: Results, where: str, levels: list[int]) -> None:
    metrics: set[str] = set()
    for lane in _take(task, where, "lanes", dict, {}):
        found = _take(task["lanes"], f"{where}lanes.", lane, dict, {})
        _figures(found, f"{where}lanes.{lane}.", levels)
        metrics |= found["metrics"].keys()
    for lane, found in task["lanes"].items():
        for name in metrics:
            at = f"{where}lanes.{lane}.metrics."
            values = _take(found["metrics"], at, name, dict, {})
            _units(values, f"{at}{name}.", RECOVERY)
            _take(values, f"{at}{name}.", "recovery_note", str)


def _figures(found: Results, where: str, levels: list[int]) -> None:
    _units(found, where, FIGURES)
    _take(found, where, "recovery_note", str)
    _texts(found, where, "notes")
    for share in _take(found, where, "acceptance_per_position", list) or ():
        _is(share, NUMBER, f"{where}acceptance_per_position")
    fidelity = _take(found, where, "fidelity", dict, {})
    _units(fidelity, f"{where}fidelity.", FIDELITY)
    _texts(fidelity, f"{where}fidelity.", "notes")
    _take(found, where, "metrics", dict, {})
    at = f"{where}by_concurrency."
    _take(found, where, "by_concurrency", dict, {})
    for level in map(str, levels):
        _units(_take(found["by_concurrency"], at, level, dict, {}), f"{at}{level}.", SPEEDS)


def _units(found: Results, where: str, units: Mapping[str, Unit]) -> None:
    for name, unit in units.items():
        _take(found, where, name, bool if unit is Unit.FLAG else NUMBER)
        if name in INTERVALS:
            _interval(found, where, f"{name}_ci")


def _noise(found: Results, where: str) -> None:
    levels = _take(found, where, "by_concurrency", dict, {})
    at = f"{where}by_concurrency."
    for floor in (found, *(_is(one, dict, f"{at}{level}") for level, one in levels.items())):
        _take(floor, where, "aa_speedup", NUMBER)
        _interval(floor, where, "aa_ci")


def _interval(found: Results, where: str, name: str) -> None:
    ends = _take(found, where, name, list)
    if ends is not None and len(ends) != 2:
        raise ValueError(f"{where}{name} is not an interval")
    for end in ends or ():
        _is(end, NUMBER, f"{where}{name}")


def _texts(found: Results, where: str, name: str) -> None:
    for item in _take(found, where, name, list, []):
        _is(item, str, f"{where}{name}")


def _take(found: Results, where: str, name: str, kind: Any, default: Any = None) -> Any:
    """What stands under a name, if of that kind; the default, put there, where nothing does."""
    value = found.get(name)
    if value is None:
        found[name] = value = copy(default)
        return value
    return _is(value, kind, f"{where}{name}")


def _is(value: Any, kind: Any, where: str) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{where} is not {WORDS[kind]}")
    return value
