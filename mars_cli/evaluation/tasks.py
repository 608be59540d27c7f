"""Tasks by name: ours from `tasks/`, every other name as lm-eval itself defines it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_eval.api.metrics import mean
from lm_eval.tasks import TaskManager

from mars_cli.errors import MarsError, UsageError
from mars_cli.evaluation.lm import likelihood_refusal
from mars_cli.resources import tasks_dir


@dataclass(frozen=True)
class Task:
    """A loaded lm-eval task and what a report needs to know of it."""

    name: str
    definition: Any
    metric: str
    higher_is_better: bool
    runs_code: bool
    directions: dict[str, bool]  # "metric,filter" -> higher is better
    corpus_metrics: frozenset[str]  # aggregated otherwise than as a mean over documents


def load_tasks(
    names: list[str],
    *,
    include: list[Path] | None = None,
    data: dict[str, Path] | None = None,
) -> list[Task]:
    """Load tasks by name; groups and tags stand for their members.

    Args:
        names: ours (`mars_...`), lm-eval's, or those of an included folder.
        include: folders with further task YAMLs.
        data: local data files of tasks that take one.

    Raises:
        UsageError: a name is unknown, or of a task that scores likelihoods or takes no such file.
        UsageError: its data cannot be had.
    """
    manager = _manager(names, include or [])
    data = data or {}
    for name in data:
        if name not in names:
            raise UsageError(f"--data {name}: is not among --tasks", hint=", ".join(names))
    for name in names:
        _refuse_likelihood(manager, name)
    tasks: dict[str, Task] = {}
    for name in names:
        for leaf, definition in _load(manager, name, data.get(name)).items():
            tasks.setdefault(leaf, _task(leaf, definition))
    return list(tasks.values())


def _manager(names: list[str], include: list[Path]) -> TaskManager:
    """Index lm-eval's own thousands of tasks only when a name is not found without them."""
    folders: list[str | Path] = [tasks_dir(), *include]
    manager = TaskManager(include_path=folders, include_defaults=False)
    if all(name in manager.task_index for name in names):
        return manager
    manager = TaskManager(include_path=folders, include_defaults=True)
    for name in names:
        if name not in manager.task_index:
            close = difflib.get_close_matches(name, manager.task_index, n=3)
            hint = f"did you mean {', '.join(close)}?" if close else "`mars tasks` lists ours"
            raise UsageError(f"--tasks {name}: no such task", hint=hint)
    return manager


def _refuse_likelihood(manager: TaskManager, name: str) -> None:
    """Refuse by definition, before any data is fetched."""
    pending, seen = [name], set()
    while pending:
        current = pending.pop()
        entry = manager.task_index.get(current)
        if entry is None or current in seen:
            continue
        seen.add(current)
        config = entry.cfg or {}
        output_type = config.get("output_type")
        if output_type is not None and output_type != "generate_until":
            raise likelihood_refusal(current)
        members = config.get("task")
        if isinstance(members, list):
            pending += [m if isinstance(m, str) else str(m.get("task", "")) for m in members]
        if entry.kind.name == "TAG":
            pending += sorted(entry.tags)


def _load(manager: TaskManager, name: str, data: Path | None) -> dict[str, Any]:
    spec: Any = name
    if data is not None:
        # lm-eval overrides a task's own settings only for a member of a group.
        settings = manager.task_index[name].cfg or {}
        if "custom_dataset" not in settings:
            raise UsageError(
                f"--data {name}: this task reads no local file",
                hint="of ours, mars_gsm8k does; point another at a file by a YAML of your own and "
                "--include-path",
            )
        metadata = settings.get("metadata") or {}
        member = {"task": name, "metadata": {**metadata, "data_file": str(data)}}
        spec = {"group": "with local data", "task": [member]}
    try:
        loaded: dict[str, Any] = manager.load([spec])["tasks"]
        for definition in loaded.values():
            len(definition.eval_docs)
    except MarsError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {str(error).strip()}".splitlines()[0][:200]
        raise UsageError(
            f"--tasks {name}: its data could not be loaded ({reason})",
            hint="its data set lies on a hub; give a local file with --data TASK=FILE where "
            "the task takes one, or choose an offline task (`mars tasks`)",
        ) from None
    return loaded


def _task(name: str, definition: Any) -> Task:
    if definition.OUTPUT_TYPE != "generate_until":
        raise likelihood_refusal(name)
    aggregations = definition.aggregation()
    metrics = list(aggregations)
    if not metrics:
        raise UsageError(f"--tasks {name}: defines no metric")
    first = metrics[0]
    filters = [ensemble.name for ensemble in getattr(definition, "_filters", [])] or ["none"]
    better = definition.higher_is_better()
    return Task(
        name=name,
        definition=definition,
        metric=f"{first},{filters[0]}",
        higher_is_better=bool(better.get(first, True)),
        runs_code=bool(getattr(definition, "UNSAFE_CODE", False)),
        directions={f"{m},{f}": bool(better.get(m, True)) for m in metrics for f in filters},
        corpus_metrics=frozenset(m for m, how in aggregations.items() if how is not mean),
    )
