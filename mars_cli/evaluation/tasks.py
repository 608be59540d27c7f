"""Tasks by name: ours from `tasks/`, every other name as lm-eval itself defines it."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lm_eval.tasks import TaskManager

from mars_cli.analysis.groups import Group
from mars_cli.assets import resolve
from mars_cli.data import in_data_folder, one_line
from mars_cli.errors import MarsError, UsageError
from mars_cli.evaluation.conversations import Conversation, of_document, read_conversations
from mars_cli.evaluation.groups import groups_of
from mars_cli.evaluation.lm import likelihood_refusal
from mars_cli.references import parse
from mars_cli.resources import tasks_dir
from mars_cli.runs.provenance import file_facts

UNSCORED = "unscored,none"


@dataclass(frozen=True)
class Task:
    """A loaded lm-eval task and what a report needs to know of it.

    One that is made of `conversations` (by doc_id) asks turn by turn, with `generation_settings`,
    and nothing scores it; that of a file of prompts has no definition of lm-eval's.
    """

    name: str
    definition: Any
    metric: str
    higher_is_better: bool
    runs_code: bool
    directions: dict[str, bool]  # "metric,filter" -> higher is better
    conversations: Mapping[int, Conversation] | None = None
    generation_settings: Mapping[str, Any] = field(default_factory=dict)
    groups: tuple[Group, ...] = ()  # that it is in, of those asked for and those inside them

    @property
    def is_scored(self) -> bool:
        """Whether anything says how right an answer is."""
        return self.metric != UNSCORED

    def follow_ups(self, doc_id: int) -> tuple[str, ...]:
        """What is asked of a document after the first answer."""
        return () if self.conversations is None else self.conversations[doc_id].follow_ups


def load_tasks(
    names: list[str],
    *,
    include: list[Path] | None = None,
    data: Mapping[str, str | Path] | None = None,
) -> list[Task]:
    """Load tasks by name; groups and tags stand for their members.

    Args:
        names: ours (`mars_...`), lm-eval's, or those of an included folder.
        include: folders with further task YAMLs.
        data: references (`mars_cli.data`) of tasks that take one, members of groups among them.

    Raises:
        UsageError: a name is unknown, or of a task that scores likelihoods, runs code outside the
            sandbox or takes no such reference.
        UsageError: its data cannot be had.
    """
    manager = _manager(names, include or [])
    leaves = list(dict.fromkeys(leaf for name in names for leaf in _members(manager, name)))
    given = {name: str(reference) for name, reference in (data or {}).items()}
    for name in given:
        if name not in leaves:
            raise UsageError(f"--data {name}: is not among --tasks", hint=", ".join(leaves))
    for name in names:
        _refuse(manager, name)
    loaded = {name: _load(manager, name, given.get(name)) for name in leaves}
    groups = groups_of(manager, names, {name: list(found) for name, found in loaded.items()})
    tasks: dict[str, Task] = {}
    for found in loaded.values():
        for leaf, definition in found.items():
            mine = tuple(group for group in groups if leaf in group.tasks)
            tasks.setdefault(leaf, replace(_task(leaf, definition), groups=mine))
    return list(tasks.values())


def prompt_tasks(paths: Sequence[Path]) -> list[Task]:
    """A task of each file of prompts, named after it.

    Raises:
        UsageError: what is wrong with a file, and where; or two would be named alike.
    """
    tasks: dict[str, Task] = {}
    for path in paths:
        name = re.sub(r"[^\w.-]", "_", path.name.removesuffix(".gz").removesuffix(".jsonl"))
        if name in tasks:
            raise UsageError(
                f"--prompts {path}: a second file named {name}", hint="rename one of the two"
            )
        conversations = dict(enumerate(read_conversations(path)))
        tasks[name] = _conversing(name, None, conversations, {"until": []})
    return list(tasks.values())


def _conversing(
    name: str, definition: Any, conversations: dict[int, Conversation], settings: dict[str, Any]
) -> Task:
    return Task(
        name=name,
        definition=definition,
        metric=UNSCORED,
        higher_is_better=True,
        runs_code=False,
        directions={},
        conversations=conversations,
        generation_settings=settings,
    )


def data_facts(tasks: Iterable[Task]) -> dict[str, dict[str, Any]]:
    """Where each task's documents come from, by its name, so that other ones are noticed.

    `source` as it was given, `documents` (their number), and of a file `bytes` and `sha256`; of
    what a hub or a generator gave to a task of ours `documents_sha256`, over them as lines of JSON.
    lm-eval's own tasks tell the hub's name for their data only.
    """
    return {task.name: _facts(task.definition) for task in tasks if task.definition is not None}


def _facts(definition: Any) -> dict[str, Any]:
    documents = definition.eval_docs
    metadata = _metadata(vars(definition.config))
    source, given = metadata.get("data"), metadata.get("data_file")
    facts: dict[str, Any] = {"source": metadata.get("data_source", source)}
    file = None if given is None or given.startswith("hub:") else Path(given)
    if given is None and str(source).startswith("pypi:"):
        file = resolve(str(source), sha256=metadata.get("sha256"))
    if file is not None:
        found = file_facts(file)
        facts |= {"bytes": found["bytes"], "sha256": found["sha256"]}
    elif source is not None:
        lines = (
            json.dumps(doc, sort_keys=True, ensure_ascii=False, default=str) for doc in documents
        )
        digest = hashlib.sha256()
        for line in lines:
            digest.update(f"{line}\n".encode())
        facts["documents_sha256"] = digest.hexdigest()
    else:
        parts = (definition.DATASET_PATH, definition.DATASET_NAME)
        facts["source"] = " ".join(str(part) for part in parts if part) or None
    return {**facts, "documents": len(documents)}


def _manager(names: list[str], include: list[Path]) -> TaskManager:
    """Index lm-eval's own thousands of tasks only when a name is not found without them."""
    folders: list[str | Path] = [tasks_dir(), *include]
    manager = TaskManager(include_path=folders, include_defaults=False)
    if all(_known(manager, name) for name in names):
        return manager
    manager = TaskManager(include_path=folders, include_defaults=True)
    for name in names:
        if name not in manager.task_index:
            close = difflib.get_close_matches(name, manager.task_index, n=3)
            hint = (
                f"did you mean {', '.join(close)}?"
                if close
                else "`mars tasks` lists ours, `mars tasks PATTERN` finds lm-eval's too"
            )
            raise UsageError(f"--tasks {name}: no such task", hint=hint)
    return manager


def _known(manager: TaskManager, name: str) -> bool:
    """Whether the index holds the name and, of a group, the names of its members."""
    entry = manager.task_index.get(name)
    members = (entry.cfg or {}).get("task") if entry is not None else None
    named = [one for one in members if isinstance(one, str)] if isinstance(members, list) else []
    return entry is not None and all(_known(manager, one) for one in named)


def _members(manager: TaskManager, name: str) -> list[str]:
    """What the name stands for: the members of a tag, and of a group that changes none of them."""
    entry = manager.task_index.get(name)
    if entry is None or entry.kind.name not in ("GROUP", "TAG"):
        return [name]
    settings = entry.cfg or {}
    members: Any = sorted(entry.tags) if entry.kind.name == "TAG" else settings.get("task")
    plain = isinstance(members, list) and all(
        one in manager.task_index for one in map(str, members)
    )
    if not plain or settings.keys() - _GROUP_KEYS:
        return [name]
    return [leaf for member in members for leaf in _members(manager, member)]


# What a group may say without changing its members.
_GROUP_KEYS = {"group", "group_alias", "task", "tag", "aggregate_metric_list", "metadata"}


def _refuse(manager: TaskManager, name: str) -> None:
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
        if config.get("unsafe_code") and not current.startswith("mars_"):
            raise UsageError(
                f"--tasks {current}: lm-eval scores it by running code from the model outside any "
                "sandbox",
                hint="mars_humaneval and mars_mbpp run code in a sandbox, with "
                "--allow-code-execution",
            )
        members = config.get("task")
        if isinstance(members, list):
            pending += [m if isinstance(m, str) else str(m.get("task", "")) for m in members]
        if entry.kind.name == "TAG":
            pending += sorted(entry.tags)


def _load(manager: TaskManager, name: str, reference: str | None) -> dict[str, Any]:
    settings = manager.task_index[name].cfg or {}
    if reference is not None and "custom_dataset" not in settings:
        raise UsageError(
            f"--data {name}: this task reads no data of yours",
            hint="those of ours do whose data is on the hub (`mars tasks`); point another at a "
            "file by a YAML of your own and --include-path",
        )
    metadata = _metadata(settings)
    found = _found(name, metadata, reference)
    # lm-eval overrides a task's own settings only for a member of a group.
    member = {"task": name, "metadata": {**metadata, **found}}
    spec: Any = {"group": "with its data", "task": [member]} if found else name
    try:
        loaded: dict[str, Any] = manager.load([spec])["tasks"]
        for definition in loaded.values():
            len(definition.eval_docs)
    except MarsError:
        raise
    except ImportError as error:
        raise UsageError(
            f"--tasks {name}: needs a package that is not installed ({one_line(error)})",
            hint="install it beside mars; lm-eval has extras for some tasks, such as "
            "'lm-eval[math]' and 'lm-eval[ifeval]'",
        ) from None
    except Exception as error:
        reason = f"{type(error).__name__}: {one_line(error)}"
        raise UsageError(
            f"--tasks {name}: its data could not be loaded ({reason})",
            hint="its data set lies on a hub; give a local file with --data TASK=FILE where "
            "the task takes one, or choose an offline task (`mars tasks`)",
        ) from None
    return loaded


def _found(name: str, metadata: dict[str, Any], reference: str | None) -> dict[str, str]:
    """What to add to a task's metadata: where its data is, if not where the task says."""
    if reference is None:
        path = in_data_folder(name, metadata["files"]) if "files" in metadata else None
        return {} if path is None else {"data_file": str(path), "data_source": str(path)}
    if reference.startswith("hub:"):
        parse(reference)
        return {"data_file": reference, "data_source": reference}
    try:
        path = resolve(reference)
    except UsageError as error:
        raise UsageError(f"--data {name}={reference}: {error}", hint=error.hint) from None
    return {"data_file": str(path), "data_source": reference}


def _metadata(settings: Mapping[str, Any]) -> dict[str, Any]:
    found = settings.get("metadata")
    return found if isinstance(found, dict) else {}


def _task(name: str, definition: Any) -> Task:
    if definition.OUTPUT_TYPE != "generate_until":
        raise likelihood_refusal(name)
    if _metadata(vars(definition.config)).get("conversations"):
        conversations = dict(enumerate(map(of_document, definition.eval_docs)))
        settings = dict(definition.config.generation_kwargs or {})
        return _conversing(name, definition, conversations, settings)
    metrics = list(definition.aggregation())
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
    )
