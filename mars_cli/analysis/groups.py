"""Rows of groups of tasks, from the rows of their members."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any


@dataclass(frozen=True)
class Aggregate:
    """A group's score under one metric: the mean over its tasks.

    `filters` of the metric; None for all that its tasks have. `by_size`: a task weighs as much as
    it has documents; else all weigh alike.
    """

    metric: str
    filters: tuple[str, ...] | None = None
    by_size: bool = True


@dataclass(frozen=True)
class Group:
    """A group, the tasks in it at any depth, and what it says of scores of its own."""

    name: str
    tasks: tuple[str, ...]
    aggregates: tuple[Aggregate, ...] = ()


def from_json(kept: Mapping[str, Any]) -> Group:
    """A group as `dataclasses.asdict` and JSON give it."""
    return Group(
        kept["name"],
        tuple(kept["tasks"]),
        tuple(
            Aggregate(one["metric"], one["filters"] and tuple(one["filters"]), one["by_size"])
            for one in kept["aggregates"]
        ),
    )


def group_row(
    group: Group,
    tasks: Mapping[str, Mapping[str, Any]],
    lanes: Sequence[str],
    total: Callable[[str, Sequence[str]], Mapping[str, Any]],
) -> dict[str, Any]:
    """Results of a group: the tasks it has, their documents, for every lane scores and totals.

    A lane has `score` under the group's first metric and of each under `metrics`, as lm-eval
    defines them, and what `total` gives: the figures of a lane over tasks, such as the mean of
    `recovery` and the geometric mean of `speedup`. A score is None where a task that has the
    metric has no score, and where the group defines none; a note says so. Tasks without the metric
    do not count.

    Args:
        group: which tasks, and how they are weighed.
        tasks: results of the tasks, by name.
        lanes: ids of the lanes.
        total: from a lane's id and names of tasks.
    """
    members = [name for name in group.tasks if name in tasks]
    weights = {
        f"{one.metric},{chosen}": one.by_size
        for one in group.aggregates
        for chosen in one.filters or _filters(one.metric, members, tasks)
    }
    return {
        "tasks": members,
        "n": sum(tasks[name]["n"] for name in members),
        "metric": next(iter(weights), None),
        "lanes": {lane: _lane(lane, members, weights, tasks, total) for lane in lanes},
    }


def _filters(
    metric: str, members: Sequence[str], tasks: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """The filters under which any task has the metric, sorted."""
    names = {
        name for member in members for row in tasks[member]["lanes"].values() for name in _of(row)
    }
    return sorted(
        name.removeprefix(f"{metric},") for name in names if name.startswith(f"{metric},")
    )


def _of(row: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    found: Mapping[str, Mapping[str, Any]] = row["metrics"]
    return found


def _lane(
    lane: str,
    members: Sequence[str],
    weights: Mapping[str, bool],
    tasks: Mapping[str, Mapping[str, Any]],
    total: Callable[[str, Sequence[str]], Mapping[str, Any]],
) -> dict[str, Any]:
    found: dict[str, dict[str, float | None]] = {}
    notes = [] if weights else ["score: the group defines none of its own"]
    for metric, by_size in weights.items():
        rows = {name: _of(tasks[name]["lanes"][lane]) for name in members}
        scores = {name: row[metric]["score"] for name, row in rows.items() if metric in row}
        found[metric] = {"score": None}
        if without := [name for name, score in scores.items() if score is None]:
            notes.append(f"score: {', '.join(without)} of the group have no {metric}")
        elif scores:
            found[metric]["score"] = fmean(
                scores.values(), [tasks[name]["n"] if by_size else 1 for name in scores]
            )
        else:
            notes.append(f"score: no task of the group has {metric}")
    totals = dict(total(lane, members))
    return {
        "score": next(iter(found.values()))["score"] if found else None,
        "metrics": found,
        **totals,
        "notes": [*notes, *totals.get("notes", ())],
    }
