"""What makes runs less than comparable, fact by fact: to be read before any difference of theirs.

Facts are those of the plan, the environment and `ar`'s engine; those of a task are compared among
the runs that have it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mars_cli.analysis.documents import Documents
from mars_cli.analysis.metrics import BASELINE
from mars_cli.errors import MarsError

ANSWERS, SPEED = "answers", "speed"  # what a fact can change; the former change speed too
UNKNOWN, OWN = "not recorded", "the tasks' own"

_MODEL = ("weights", "sha256", "chat_template", "chat_template_kwargs", "drafts", "engine")
_SAMPLING = ("temperature", "seed", "samples", "max_tokens")
_PLAN = {ANSWERS: ("mars", "engine_args", "allow_code_execution"), SPEED: ("repeats",)}
_ENGINE = {
    ANSWERS: (
        *("device", "gpu", "driver", "cuda", "vllm", "torch", "dtype", "runner", "compilation"),
        *("graphs", "max_model_len"),
    ),
    SPEED: ("async_scheduling", "executor", "max_num_seqs", "threads"),
}
# Of packages, those that the engine's own facts do not tell.
_PACKAGES = ("transformers", "lm-eval", "reasoning-gym")
_ENVIRONMENT = {ANSWERS: ("sandbox",), SPEED: ("cpu", "cores", "memory_gib", "platform", "python")}
_TASK = {ANSWERS: ("metric", "n"), SPEED: ("speed_mode", "concurrency", "n_speed")}

Name = tuple[str, str | None, str]  # what it can change, of which task, how it is called
Fact = tuple[Name, Any]


@dataclass(frozen=True)
class Difference:
    """A fact that is not the same in all runs, and what it can change.

    `values` are in the runs' order; None for a run without the `task` that the fact is of.
    """

    changes: str
    task: str | None
    what: str
    values: tuple[str | None, ...]


def differences(runs: Sequence[Documents]) -> list[Difference]:
    """Every fact in which the runs differ; first those that can change answers.

    What only some of them tell is `UNKNOWN` in the others, and differs.
    """
    facts = [dict(_facts(run)) for run in runs]
    ranks: dict[Name, int] = {}
    for given in facts:
        for rank, name in enumerate(given):
            ranks[name] = min(rank, ranks.get(name, rank))
    found = []
    for name in sorted(ranks, key=ranks.__getitem__):
        changes, task, what = name
        asked = [task is None or run.run.has(task) for run in runs]
        shown = tuple(
            (_shown(given[name]) if name in given else UNKNOWN) if ask else None
            for given, ask in zip(facts, asked, strict=True)
        )
        if len({value for value in shown if value is not None}) > 1:
            found.append(Difference(changes, task, what, shown))
    return sorted(found, key=lambda one: one.changes != ANSWERS)


def _facts(documents: Documents) -> Iterator[Fact]:
    plan, results = documents.run.plan, documents.run.results
    model = _object(plan.get("model")) or results["model"]
    if name := model.get("name") or model.get("id"):
        yield (ANSWERS, None, "model"), name
    fingerprint = plan.get("fingerprint")
    if isinstance(fingerprint, list) and fingerprint:
        yield (ANSWERS, None, "fingerprint of the weights"), fingerprint[0]
    yield from _of(model, {ANSWERS: _MODEL}, "model's ")
    for title, task in results["tasks"].items():
        yield from _task_facts(documents, title, task)
    for key in _SAMPLING:
        if key in plan:
            yield (ANSWERS, None, key), OWN if plan[key] is None else plan[key]
    yield from _of(plan, _PLAN)
    yield from _of(_engine(results), _ENGINE)
    environment = results["environment"]
    packages = _object(environment.get("packages"))
    yield from _of(packages, {ANSWERS: _PACKAGES})
    yield from _of(environment, _ENVIRONMENT)


def _task_facts(documents: Documents, name: str, task: Mapping[str, Any]) -> Iterator[Fact]:
    data = _object(_object(documents.run.plan.get("data")).get(name))
    if data:
        sha256 = str(data.get("sha256") or data.get("documents_sha256") or "")[:12]
        yield (ANSWERS, name, "data"), f"{data.get('source')} {sha256}".strip()
    try:
        prompts = sorted(documents.hashes(name).items())
    except (MarsError, OSError, ValueError, KeyError, TypeError, RecursionError):
        prompts = []
    if prompts:
        found = hashlib.sha256(repr(prompts).encode("utf-8", "backslashreplace")).hexdigest()
        yield (ANSWERS, name, "prompts"), found[:12]
    for (changes, _, what), value in _of(task, _TASK):
        yield (changes, name, {"n": "documents", "n_speed": "timed prompts"}.get(what, what)), value


def _engine(results: Mapping[str, Any]) -> Mapping[str, Any]:
    """The facts of `ar`'s engine, else those of any."""
    engines = {lane["id"]: lane["engine"] for lane in results["lanes"] if lane["engine"]}
    return _object(engines.get(BASELINE) or next(iter(engines.values()), {}))


def _of(
    given: Mapping[str, Any], names: Mapping[str, Sequence[str]], prefix: str = ""
) -> Iterator[Fact]:
    for changes, some in names.items():
        for name in some:
            if given.get(name) is not None:
                yield (changes, None, f"{prefix}{name}"), given[name]


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
