"""From the results of a sweep's groups to `sweep.json`: cells, Pareto fronts, a recommendation.

A cell is a lane on a task. A setting is a lane over all tasks. Pure functions over results.json.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from mars_cli.analysis import stats
from mars_cli.analysis.metrics import BASELINE

SCHEMA = 1
IDENTITY = ("rule", "draft", "k", "theta", "parameters", "protect_stop")
# Of a lane's figures, those that a cell does not repeat.
LEFT_OUT = ("metrics", "acceptance_source")
Setting = dict[str, Any]


def build_sweep(
    run: Mapping[str, Any],
    plan: Mapping[str, Any],
    groups: Sequence[Mapping[str, Any]],
    min_recovery: float,
    confirmed: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Build `sweep.json`.

    Args:
        run: id, created, status.
        plan: what was asked for.
        groups: of each its `id`, `temperature`, `status`, `reason` and `log` where it failed,
            `expected` (pairs of task and lane id, as far as known) and `results` (its results.json
            or None).
        min_recovery: in %, what the recommended setting's recovery must stay above.
        confirmed: the figures of the winner on fresh documents, where it was measured again.
    """
    cells = [cell for group in groups for cell in _cells(group)]
    tested = [cell for cell in cells if cell.get("p_value") is not None]
    for cell, p_value in zip(tested, stats.holm([cell["p_value"] for cell in tested]), strict=True):
        cell["p_value_holm"] = p_value
    settings = _settings(cells)
    for cell in cells:
        alike = [c for c in cells if c["task"] == cell["task"] and _together(c, cell)]
        cell["on_front"] = _on_front(cell, alike)
    for setting in settings:
        setting["on_front"] = _on_front(setting, [s for s in settings if _together(s, setting)])
    return {
        "schema": SCHEMA,
        "run": dict(run),
        "plan": dict(plan),
        "groups": [
            {key: group[key] for key in ("id", "temperature", "status", "reason", "log")}
            for group in groups
        ],
        "cells": cells,
        "settings": settings,
        "recommended": recommend(settings, min_recovery),
        "confirmed": None if confirmed is None else dict(confirmed),
        "notes": _notes(settings, confirmed),
    }


def recommend(settings: Sequence[Setting], min_recovery: float) -> dict[str, Any]:
    """The fastest setting whose recovery interval stays above `min_recovery` on every scored task.

    Returns:
        `setting` (its id, None for none), `min_recovery` and the `reason` in one sentence.
    """
    rivals = [s for s in settings if s["rule"] != "strict" and s["speedup"] is not None]
    sure = [s for s in rivals if s["recovery_low"] is not None and s["complete"]]
    enough = [s for s in sure if s["recovery_low"] >= min_recovery]
    found: dict[str, Any] = {"setting": None, "min_recovery": min_recovery}
    if enough:
        best = max(enough, key=lambda s: float(s["speedup"]))
        return {
            **found,
            "setting": best["id"],
            "reason": (
                f"the fastest ({best['speedup']:.2f}x) of {len(enough)} settings whose recovery "
                f"stays above {min_recovery:g}% on every task ({best['recovery_low']:.1f}% or more)"
            ),
        }
    if not rivals:
        reason = "no setting has a speedup"
    elif not sure:
        reason = "no setting has a recovery with an interval on every scored task"
    else:
        near = max(sure, key=lambda s: float(s["recovery_low"]))
        reason = (
            f"no setting's recovery is sure to stay above {min_recovery:g}%: the nearest, "
            f"{near['id']}, may go down to {near['recovery_low']:.1f}% on {near['lowest_on']} "
            f"for all that {near['n_lowest']} documents show"
        )
    return {**found, "reason": reason}


def merged(groups: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The groups' results joined into one results.json for each temperature.

    `ar` and what belongs to a task are the first group's that has them; the noise floor spans all.
    """
    by_temperature: dict[Any, list[Mapping[str, Any]]] = {}
    for group in groups:
        if group["results"] is not None:
            by_temperature.setdefault(group["temperature"], []).append(group["results"])
    return [_join(found) for found in by_temperature.values()]


def _join(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    first = found[0]
    tasks: dict[str, dict[str, Any]] = {}
    lanes: dict[str, Any] = {}
    overall: dict[str, Any] = {}
    for results in found:
        lanes |= {lane["id"]: lane for lane in results["lanes"] if lane["id"] not in lanes}
        overall |= {k: v for k, v in results["overall"].items() if k not in overall}
        for name, task in results["tasks"].items():
            entry = tasks.setdefault(name, {**task, "lanes": {}})
            entry["lanes"] |= {k: v for k, v in task["lanes"].items() if k not in entry["lanes"]}
    noise = {
        name: _widest([r["noise"][name] for r in found if name in r["noise"]]) for name in tasks
    }
    return {
        **first,
        "lanes": list(lanes.values()),
        "tasks": tasks,
        "noise": noise,
        "overall": overall,
    }


def _widest(floors: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One noise floor for several groups: the span of their A/A intervals."""
    ends = [floor["aa_ci"] for floor in floors if floor["aa_ci"]]
    span = [min(low for low, _ in ends), max(high for _, high in ends)] if ends else None
    return {**floors[0], "aa_ci": span}


def _cells(group: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A cell for each task and lane but `ar` that the group was to measure."""
    results = group["results"]
    lanes = {lane["id"]: lane for lane in (results or {"lanes": []})["lanes"]}
    cells = []
    for task, lane_id in group["expected"]:
        if lane_id == BASELINE:
            continue
        row = ((results or {}).get("tasks", {}).get(task) or {}).get("lanes", {}).get(lane_id)
        whole = row is not None and row["tokens"] is not None
        lane = lanes.get(lane_id, {})
        cells.append(
            {
                "task": task,
                "lane": lane_id,
                "group": group["id"],
                "temperature": group["temperature"],
                **{key: lane.get(key) for key in IDENTITY},
                "status": "done" if whole and not _failed(group, task, lane_id) else "failed",
                "reason": _failed(group, task, lane_id) or (None if whole else group["reason"]),
                "log": None if whole else group["log"],
                "n": None if row is None else results["tasks"][task]["n"],
                **{key: value for key, value in (row or {}).items() if key not in LEFT_OUT},
            }
        )
    return cells


def _failed(group: Mapping[str, Any], task: str, lane: str) -> str | None:
    """Why the run says that this cell failed; None where it does not."""
    for failure in group.get("failures", ()):
        if failure["task"] in (None, task) and lane in failure["lanes"]:
            return f"{failure['phase']}: {failure['reason']}"
    return None


def _settings(cells: Sequence[Mapping[str, Any]]) -> list[Setting]:
    """Each lane over its tasks: geometric mean speedup, mean and lowest recovery."""
    by_lane: dict[tuple[Any, str], list[Mapping[str, Any]]] = {}
    for cell in cells:
        by_lane.setdefault((cell["temperature"], cell["lane"]), []).append(cell)
    return [_setting(found) for found in by_lane.values()]


def _setting(cells: Sequence[Mapping[str, Any]]) -> Setting:
    first = cells[0]
    speedups = [cell["speedup"] for cell in cells if cell.get("speedup")]
    scored = [cell for cell in cells if cell.get("recovery_note") != "not_scored"]
    recoveries = [cell["recovery"] for cell in scored if cell.get("recovery") is not None]
    bounded = [cell for cell in scored if cell.get("recovery_ci")]
    lowest = min(bounded, key=lambda cell: float(cell["recovery_ci"][0]), default=None)
    whole = bool(scored) and len(bounded) == len(scored)
    return {
        "id": first["lane"],
        "temperature": first["temperature"],
        **{key: first[key] for key in IDENTITY},
        "tasks": len(cells),
        "complete": all(cell["status"] == "done" for cell in cells),
        "speedup": math.exp(fmean(map(math.log, speedups)))
        if len(speedups) == len(cells)
        else None,
        "recovery": fmean(recoveries) if recoveries and len(recoveries) == len(scored) else None,
        "recovery_low": float(lowest["recovery_ci"][0]) if whole and lowest else None,
        "lowest_on": lowest["task"] if whole and lowest else None,
        "n_lowest": lowest["n"] if whole and lowest else None,
    }


def _together(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return bool(one["temperature"] == other["temperature"])


def _on_front(one: Mapping[str, Any], rivals: Sequence[Mapping[str, Any]]) -> bool | None:
    """Whether no rival is at least as good in speedup and recovery, and better in one."""
    mine = one.get("speedup"), one.get("recovery")
    if None in mine:
        return None
    for rival in rivals:
        theirs = rival.get("speedup"), rival.get("recovery")
        if None in theirs or theirs == mine:
            continue
        if theirs[0] >= mine[0] and theirs[1] >= mine[1]:  # type: ignore[operator]
            return False
    return True


def _notes(settings: Sequence[Setting], confirmed: Mapping[str, Any] | None) -> list[str]:
    compared = sum(1 for s in settings if s["speedup"] is not None or s["recovery"] is not None)
    notes = [
        "Speedups are over the ar timed in turn with them, in the same engine group; they are not "
        "compared across groups beyond that."
    ]
    if compared > 1:
        again = "" if confirmed is not None else "; --confirm measures it anew on fresh documents"
        notes.append(
            f"{compared} settings were compared: the figures of whichever comes out best are "
            f"optimistic{again}."
        )
    return notes
