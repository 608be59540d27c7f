"""`--baseline RUN`: quality records of an earlier run stand in for generating them again.

Taken are those of the lane `ar`, and of strict where both runs have the same strict lane: copies of
the records under the very keys that this run needs, all of a lane's keys in a task or none. What no
key holds, since a run directory takes one plan only, is compared besides: the versions of mars and
vLLM, engine arguments, a draft's options. What differs is refused by name, before an engine is
loaded unless only the loaded engine can tell. Timings are never taken.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mars_cli.engine.lane import Lane, decimal
from mars_cli.errors import UsageError
from mars_cli.evaluation.lm import Prompt
from mars_cli.evaluation.quality import record_key
from mars_cli.runs.files import Record, read_records
from mars_cli.runs.layout import by_lane, prompts_path
from mars_cli.runs.run import read_manifest
from mars_cli.verification.spec import STRICT

if TYPE_CHECKING:
    from mars_cli.evaluation.job import Job

ANEW = "leave --baseline out"
# Engine arguments that only size an engine; its `max_model_len` is compared as it came out.
_SIZES = ("gpu_memory_utilization", "kv_cache_memory_bytes", "max_num_seqs", "max_model_len")


@dataclass(frozen=True)
class Baseline:
    """An earlier run; `cells` are the (task, lane id) whose answers are taken, once settled."""

    folder: Path
    manifest: dict[str, Any]
    cells: tuple[tuple[str, str], ...] = ()

    @property
    def id(self) -> str:
        """The earlier run's id."""
        return str(self.manifest["id"])

    @property
    def plan(self) -> dict[str, Any]:
        """The earlier run's plan."""
        plan: dict[str, Any] = self.manifest["plan"]
        return plan

    @property
    def taken(self) -> list[str]:
        """The lanes whose answers are taken, in some task at least."""
        return list(dict.fromkeys(lane_id for _, lane_id in self.cells))

    def facts(self, lane_id: str) -> dict[str, Any]:
        """What the lane's engine was; empty where it never loaded."""
        engines = {lane["id"]: lane["engine"] for lane in self.manifest["lanes"]}
        facts: dict[str, Any] = engines.get(lane_id, {})
        return facts

    def records(self, task: str, lane_id: str) -> Iterator[Record]:
        """The records to take for this cell, marked with where they are `from`."""
        if (task, lane_id) not in self.cells:
            return
        for record in read_records(by_lane(self.folder, "quality", task, lane_id)):
            own = {key: value for key, value in record.items() if key != "session"}
            yield {**own, "from": self.id}

    def refusal(self, reason: str, hint: str) -> UsageError:
        """The error that this run cannot be taken from."""
        return UsageError(f"--baseline {self.folder}: {reason}", hint=hint)

    def differs(self, what: str, there: Any, here: Any, hint: str = ANEW) -> UsageError:
        """The error that `what` is another than this run's."""
        return self.refusal(f"its {what} is {_shown(there)} and this run's is {_shown(here)}", hint)


def open_baseline(folder: Path, out: Path) -> Baseline:
    """The run in `folder`, for a run in `out`.

    Raises:
        UsageError: no run is there, or none that this version reads, or it is the run in `out`.
    """
    if not folder.is_dir():
        raise UsageError(
            f"--baseline {folder}: no such run directory", hint="give one such as outputs/RUN"
        )
    if out.exists() and out.samefile(folder):
        raise UsageError(
            f"--baseline {folder}: is this very run (--out)",
            hint="give an earlier one; without --baseline this run is resumed",
        )
    try:
        manifest = read_manifest(folder)
    except UsageError as error:
        raise UsageError(f"--baseline {error}", hint=error.hint) from None
    if manifest is None:
        raise UsageError(
            f"--baseline {folder}: holds no run of mars", hint="give one such as outputs/RUN"
        )
    if not {"id", "plan", "lanes"} <= manifest.keys():
        raise UsageError(
            f"--baseline {folder}: its manifest.json is broken", hint="give another run"
        )
    return Baseline(folder, manifest)


def check_plan(baseline: Baseline, plan: dict[str, Any], tasks: Sequence[str]) -> None:
    """Refuse where the two plans give different answers; `tasks` are this run's.

    The plan may still lack its fingerprint, which takes long to find out.

    Raises:
        UsageError: a setting differs, or the earlier run lacks a task.
    """
    for what, there, here, hint in _settings(baseline, plan):
        if there != here:
            raise baseline.differs(what, there, here, hint)
    has = baseline.plan.get("tasks", [])
    for task in tasks:
        if task not in has and not prompts_path(baseline.folder, task).exists():
            raise baseline.refusal(f"has no task {task}", f"its tasks are {', '.join(has)}")


def _settings(baseline: Baseline, plan: dict[str, Any]) -> Iterator[tuple[str, Any, Any, str]]:
    """(what, there, here, hint) of all that must be equal and that the plans tell."""
    there = baseline.plan
    model = there["model"]
    yield "model", model["name"], plan["model"]["name"], f"give that --model, or {ANEW}"
    if "fingerprint" in plan:
        target, *_ = there.get("fingerprint") or [None]
        hint = "the weights have changed since: " + ANEW
        yield "weights' fingerprint", target, plan["fingerprint"][0], hint
    dtypes = (baseline.facts("ar").get("dtype") or model.get("dtype"), plan["model"]["dtype"])
    if "auto" not in dtypes:  # else the loaded engine tells
        yield "dtype", *dtypes, f"--dtype {dtypes[0]}, or {ANEW}"
    for key in ("vllm", "mars"):
        yield f"version of {key}", there.get(key), plan[key], f"install that version, or {ANEW}"
    theirs, ours = _engine_args(there), _engine_args(plan)
    for name in sorted(theirs.keys() | ours.keys()):
        hint = f"give that --engine-arg, or {ANEW}"
        yield f"engine argument {name}", theirs.get(name), ours.get(name), hint
    own = "the tasks' own"
    before, now = (own if p.get("temperature") is None else p["temperature"] for p in (there, plan))
    option = "leave --temperature out" if before == own else f"--temperature {_shown(before)}"
    yield "temperature", before, now, f"{option}, or {ANEW}"
    yield "seed", there.get("seed"), plan["seed"], f"give that --seed, or {ANEW}"


def _engine_args(plan: dict[str, Any]) -> dict[str, Any]:
    """Those that were set, by configuration or command line, and could change an answer."""
    given = {**plan["model"].get("engine", {}), **plan.get("engine_args", {})}
    return {name: value for name, value in given.items() if name not in _SIZES}


def settle(baseline: Baseline, job: Job, plan: dict[str, Any]) -> Baseline:
    """The baseline with the cells whose answers this job takes.

    Keys are those that engines like the earlier run's give; whether ours are like them, they tell
    once loaded.

    Raises:
        UsageError: a key that this run needs is not recorded there; the message says why.
    """
    check_plan(baseline, plan, [task.name for task in job.tasks])
    length = baseline.facts("ar").get("max_model_len", job.settings.max_model_len)
    if length != job.settings.max_model_len:
        hint = f"--engine-arg max_model_len={length}, or {ANEW}"
        raise baseline.differs("max_model_len", length, job.settings.max_model_len, hint)
    cells = tuple(
        (task.name, lane.id)
        for task in job.tasks
        for lane in job.lanes
        if _is_taken(baseline, job, task.name, lane)
    )
    return dataclasses.replace(baseline, cells=cells)


def _is_taken(baseline: Baseline, job: Job, task: str, lane: Lane) -> bool:
    """Whether this lane's answers to this task are taken; refuse where only some could be."""
    if lane.rule != STRICT or not _is_same(baseline, job, lane):
        return False
    path = by_lane(baseline.folder, "quality", task, lane.id)
    recorded = {found["key"]: (found["doc_id"], found["sample"]) for found in read_records(path)}
    if not recorded and lane.draft is not None:
        return False
    identity = job.identity(baseline.facts(lane.id), drafted=lane.draft is not None)
    prompts = job.prompts[task]
    missing = [one for one in prompts if record_key(identity, lane, one) not in recorded]
    if missing:
        raise _why_missing(baseline, job, task, lane, missing, set(recorded.values()))
    return True


def _is_same(baseline: Baseline, job: Job, lane: Lane) -> bool:
    """Whether a lane of this id is the same there: its draft is, if it has one."""
    if lane.draft is None:
        return True
    drafts = baseline.plan["model"].get("drafts", {})
    theirs = [drafts.get(lane.draft.name), *baseline.plan["fingerprint"][1:]]
    return theirs == [lane.draft.options, *job.fingerprint[1:]]


def _why_missing(
    baseline: Baseline,
    job: Job,
    task: str,
    lane: Lane,
    missing: list[Prompt],
    recorded: set[tuple[int, int]],
) -> UsageError:
    """Why the answers to the `missing` prompts are not there, in terms of what was asked for.

    `recorded` are the (doc_id, sample) that the lane answered there.
    """
    unfinished = "finish that run first: its own command again resumes it"
    if not recorded:
        return baseline.refusal(f"has no answers of {lane.id} to {task}", unfinished)
    there = {
        (record["doc_id"], record["sample"]): record
        for record in read_records(prompts_path(baseline.folder, task))
    }
    documents = {doc for doc, _ in there}
    absent = [one for one in missing if (one.doc_id, one.sample) not in there]
    if any(one.doc_id in documents for one in absent):
        before = len({sample for _, sample in there})
        now = len({one.sample for one in job.prompts[task]})
        given = baseline.plan.get("samples")
        hint = f"--samples {given}" if given is not None else "leave --samples out"
        return baseline.differs(f"number of samples of {task}", before, now, f"{hint}, or {ANEW}")
    others = [
        (found, one)
        for one in missing
        if (found := there.get((one.doc_id, one.sample))) and found["hash"] != one.hash
    ]
    if others:
        reason = _why_other_prompts(baseline, job, task, *others[0])
        if reason is not None:
            return reason
    if absent:
        before, now = len(documents), len({one.doc_id for one in job.prompts[task]})
        hint = f"--limit {before}, or {ANEW}"
        return baseline.differs(f"number of documents of {task}", before, now, hint)
    if others:
        return baseline.refusal(
            f"its prompts of {task} are not those of this run",
            f"the task's data or template has changed since: {ANEW}",
        )
    gone = sum((one.doc_id, one.sample) not in recorded for one in missing)
    if gone:
        needed = len(job.prompts[task])
        return baseline.refusal(
            f"has only {needed - gone} of the {needed} answers of {lane.id} to {task} that this "
            "run needs",
            unfinished,
        )
    return baseline.refusal(
        f"its answers of {lane.id} to {task} are recorded under other keys than this run's", ANEW
    )


def _why_other_prompts(
    baseline: Baseline, job: Job, task: str, there: Record, here: Prompt
) -> UsageError | None:
    """Which setting of a user's made a prompt another; None where it was none."""
    before, now = baseline.plan["model"], job.config
    for key in ("chat_template", "chat_template_kwargs"):
        if before.get(key) != getattr(now, key):
            hint = f"set {key} in the model's YAML as it was, or {ANEW}"
            return baseline.differs(key, before.get(key), getattr(now, key), hint)
    if there["max_tokens"] != here.max_tokens:
        hint = f"--max-tokens {there['max_tokens']}, or {ANEW}"
        return baseline.differs(f"max_tokens of {task}", there["max_tokens"], here.max_tokens, hint)
    return None


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return decimal(value)
    return "unset" if value is None else str(value)
