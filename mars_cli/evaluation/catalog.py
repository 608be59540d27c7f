"""What `mars tasks` says of a task: known from its YAML, nothing is downloaded."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mars_cli.data import in_data_folder
from mars_cli.resources import tasks_dir

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Entry:
    """One task, or a group with its `members`; what is not known is None."""

    name: str
    documents: int | None = None
    metric: str | None = None
    offline: bool | None = None
    runs_code: bool | None = None
    data: str | None = None
    members: tuple[str, ...] = ()


def ours() -> list[Entry]:
    """Our tasks and groups, with their data as it would be found now (`MARS_DATA`)."""
    return [_ours(settings) for settings in our_settings()]


def our_settings() -> list[dict[str, Any]]:
    """The YAMLs of our tasks and groups, `include` resolved and functions by name only."""
    return [_read(path) for path in sorted(tasks_dir().glob("mars_*.yaml"))]


def of_lm_eval(pattern: str) -> tuple[list[Entry], int]:
    """lm-eval's generation tasks, groups and tags that match, and how many others do.

    The others score likelihoods or are written in Python alone. It reads all of lm-eval's
    definitions, which takes about 10 s.
    """
    from lm_eval.tasks import TaskManager

    index = TaskManager(include_defaults=True).task_index
    found, others = [], 0
    for name in matching(index, pattern):
        entry = index[name]
        settings = entry.cfg or {}
        kind = entry.kind.name
        if kind == "TAG":
            found.append(Entry(name, members=tuple(sorted(entry.tags))))
        elif kind == "GROUP":
            found.append(Entry(name, members=tuple(_member_names(settings))))
        elif settings.get("output_type") == "generate_until":
            found.append(_theirs(name, settings))
        else:
            others += 1
    return found, others


def matching(names: Iterable[str], pattern: str) -> list[str]:
    """The names that match a glob, or hold the pattern as a part; whatever the case."""
    glob = pattern if any(sign in pattern for sign in "*?[") else f"*{pattern}*"
    return sorted(name for name in names if fnmatch.fnmatchcase(name.lower(), glob.lower()))


def _ours(settings: Settings) -> Entry:
    if "group" in settings:
        return Entry(settings["group"], members=tuple(settings["task"]))
    facts = settings["metadata"]
    name = settings["task"]
    file = in_data_folder(name, facts["files"]) if "files" in facts else None
    return Entry(
        name=name,
        documents=facts["documents"] if file is None else None,  # a file may hold any number
        metric=settings["metric_list"][0]["metric"],
        offline=facts["offline"] or file is not None,
        runs_code=facts["runs_code"],
        data=facts["data"] if file is None else str(file),
    )


def _theirs(name: str, settings: Settings) -> Entry:
    metrics = settings.get("metric_list") or [{"metric": "exact_match"}]  # lm-eval's default
    path = settings.get("dataset_path")
    configuration = settings.get("dataset_name")
    return Entry(
        name=name,
        # A function is given as path/of/module.function.
        metric=str(metrics[0]["metric"]).rpartition("/")[2].rpartition(".")[2],
        offline=False if path is not None else None,
        runs_code=bool(settings.get("unsafe_code")),
        data=None if path is None else f"hub:{path}" + (f" {configuration}" * bool(configuration)),
    )


def _member_names(settings: Settings) -> list[str]:
    members = settings.get("task")
    found = members if isinstance(members, list) else []
    return [
        str(one if isinstance(one, str) else one.get("task") or one.get("group")) for one in found
    ]


def _read(path: Path) -> dict[str, Any]:
    import yaml

    class Loader(yaml.SafeLoader):
        """YAML in which lm-eval's `!function` is only a name."""

    Loader.add_constructor("!function", lambda loader, node: str(node.value))
    found: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), Loader)
    shared = found.pop("include", None)
    return found if shared is None else {**_read(path.parent / shared), **found}
