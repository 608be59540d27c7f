"""Groups among the tasks asked for: what lm-eval's index says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lm_eval.config.group import GroupConfig
from lm_eval.tasks import TaskManager

from mars_cli.analysis.groups import Aggregate, Group


def groups_of(
    manager: TaskManager, names: Sequence[str], loaded: Mapping[str, Sequence[str]]
) -> list[Group]:
    """The groups among `names`, and those inside them; a group stands before those inside it.

    `loaded` has the tasks of each name that was loaded as one: those of a task, and of a group
    that changes its members. Of such a group no group inside it is given.
    """
    found: dict[str, Group] = {}

    def tasks_of(name: str) -> list[str]:
        entry = manager.task_index[name]
        is_group, settings = entry.kind.name == "GROUP", entry.cfg or {}
        if is_group:
            found.setdefault(name, Group(name, ()))
        if name in loaded:
            tasks = list(loaded[name])
        else:
            members = sorted(entry.tags) if entry.kind.name == "TAG" else settings["task"]
            tasks = [task for member in members for task in tasks_of(str(member))]
        if is_group:
            found[name] = Group(name, tuple(dict.fromkeys(tasks)), _aggregates(settings))
        return tasks

    for name in names:
        tasks_of(name)
    return list(found.values())


def _aggregates(settings: Mapping[str, Any]) -> tuple[Aggregate, ...]:
    config = GroupConfig("", aggregate_metric_list=settings.get("aggregate_metric_list"))
    listed: Any = config.aggregate_metric_list or []
    return tuple(
        Aggregate(
            one.metric,
            None if one.filter_list is None else tuple(one.filter_list),
            bool(one.weight_by_size),
        )
        for one in listed
    )
