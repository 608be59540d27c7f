"""`mars eval` from a resolved plan to results: engines, phases, records, analysis."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mars_cli.analysis.compare import TaskInput, build_results
from mars_cli.config import ModelConfig
from mars_cli.engine.engine import Engine
from mars_cli.engine.lane import Lane
from mars_cli.engine.protocol import EngineSpec
from mars_cli.errors import EngineError, MarsError, UsageError
from mars_cli.evaluation.baseline import Baseline
from mars_cli.evaluation.fidelity import obstacle, run_fidelity
from mars_cli.evaluation.lm import Prompt, Settings
from mars_cli.evaluation.progress import Progress
from mars_cli.evaluation.quality import run_quality
from mars_cli.evaluation.speed import missing, plan_speed, run_speed, warm_up
from mars_cli.evaluation.tasks import Task
from mars_cli.report.markdown import markdown
from mars_cli.runs.files import read_records, write_atomic, write_json
from mars_cli.runs.run import Run

MakeEngine = Callable[[EngineSpec, Path], Engine]


@dataclass(frozen=True)
class Job:
    """A resolved evaluation: everything checked, nothing started."""

    config: ModelConfig
    weights: str
    fingerprint: list[str]  # of the target, and of a draft with weights of its own
    lanes: list[Lane]
    tasks: list[Task]
    specs: dict[str, EngineSpec]
    tokenizer: Any
    settings: Settings
    prompts: dict[str, list[Prompt]]
    limits: dict[str, int | None]  # documents of each task; None for all
    speed_prompts: int
    repeats: int
    concurrency: int
    samples: int | None = None  # of each document; None for each task's own number
    baseline: Baseline | None = None  # an earlier run to take answers from, settled
    fidelity: bool = True

    def identity(self, facts: dict[str, Any], *, drafted: bool = True) -> list[Any]:
        """What a record depends on: model, dtype, engine version and setup.

        Without `drafted` a draft's weights play no part.
        """
        weights = self.fingerprint if drafted else self.fingerprint[:1]
        return [self.config.name, weights, _setup(facts)]


def _setup(facts: dict[str, Any]) -> dict[str, Any]:
    return {key: facts.get(key) for key in ("vllm", "runner", "dtype", "device", "graphs")}


def _differing(facts: dict[str, Any], before: dict[str, Any]) -> str | None:
    """The first key in which an engine is set up otherwise than one before."""
    return next((key for key, value in _setup(facts).items() if value != before.get(key)), None)


def evaluate(
    job: Job, run: Run, progress: Progress, make_engine: MakeEngine = Engine
) -> dict[str, Any]:
    """Run what is not recorded yet, then write and return the results.

    What fails takes its own cell with it, an engine that died all its lanes; the rest goes on, and
    the run's status is "failed". Interrupted, the records stay for the next session.
    """
    failures = Failures(run, progress)
    with contextlib.ExitStack() as stack:
        engines = _start_engines(job, run, stack, progress, make_engine, failures)
        _check_baseline(job, engines)
        lanes = [lane for lane in job.lanes if lane.engine_id in engines]
        lanes = _quality(job, run, lanes, engines, progress, failures)
        if job.fidelity:
            _fidelity(job, run, lanes, engines, progress, failures)
        if any(lane.draft is None for lane in lanes):
            _speed(job, run, lanes, engines, progress, failures)
        _record_memory(job, run, engines)
    run.manifest["failures"] = failures.found
    run.manifest["status"] = "failed" if failures.found else "complete"
    return write_results(job, run)


class Failures:
    """What failed in this session: said at once, kept for the manifest, traced in the logs."""

    def __init__(self, run: Run, progress: Progress) -> None:
        self.found: list[dict[str, Any]] = []
        self._log = run.folder / "logs" / "failures.log"
        self._progress = progress

    def note(self, phase: str, task: str | None, lanes: list[str], error: Exception) -> None:
        """Note one; `task` None means that it concerns them all."""
        known = isinstance(error, MarsError)
        reason = str(error) if known else f"{type(error).__name__}: {error}"
        self.found.append({"phase": phase, "task": task, "lanes": lanes, "reason": reason})
        hint = getattr(error, "hint", None) or (None if known else f"the trace is in {self._log}")
        where = phase if task is None else f"{phase} {task}"
        self._progress.note(
            f"failed: {where} ({', '.join(lanes)}): {reason}" + (f" ({hint})" if hint else "")
        )
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("a", encoding="utf-8") as file:
            traceback.print_exception(error, file=file)


def _start_engines(
    job: Job,
    run: Run,
    stack: contextlib.ExitStack,
    progress: Progress,
    make_engine: MakeEngine,
    failures: Failures,
) -> dict[str, Engine]:
    """Load the engines; one that cannot load is a failure of its lanes only.

    Together where the cache's size is given in bytes; one after another on a GPU, where vLLM
    measures what is free and another engine that loads meanwhile would count as its own.
    """
    engines: dict[str, Engine] = {}
    together = all("kv_cache_memory_bytes" in spec.args for spec in job.specs.values())
    with progress.phase("loading engines", len(job.specs)) as step:
        for engine_id, spec in job.specs.items():
            engine = make_engine(spec, run.folder / "logs" / f"engine-{engine_id}.log")
            stack.callback(engine.stop)
            engines[engine_id] = engine
            if together:
                with contextlib.suppress(EngineError):  # `ready` tells what became of it
                    engine.start()
        for engine_id, engine in list(engines.items()):
            try:
                if not together:
                    engine.start()
                engine.ready()
            except EngineError as error:
                del engines[engine_id]
                lanes = [lane.id for lane in job.lanes if lane.engine_id == engine_id]
                failures.note("loading", None, lanes, error)
            step(1)
    _record_lanes(job, run, engines)
    return engines


def _record_lanes(job: Job, run: Run, engines: dict[str, Engine]) -> None:
    """Write the lanes into the manifest; refuse to mix records of differing engines.

    Raises:
        UsageError: an earlier session ran on another device, vLLM or dtype.
    """
    earlier = {lane["id"]: lane["engine"] for lane in run.manifest["lanes"]}
    described = []
    for lane in job.lanes:
        engine = engines.get(lane.engine_id)
        facts = {} if engine is None else {k: v for k, v in engine.facts.items() if k != "pid"}
        before = earlier.get(lane.id) or facts
        key = _differing(facts, before) if facts else None
        if key is not None:
            raise UsageError(
                f"this run began with {key} {before.get(key)} and the engine now has {facts[key]}",
                hint="start a new run: the records of the two would not compare",
            )
        described.append({**lane.describe(), "engine": facts or before})
    run.manifest["lanes"] = described
    run.save()


def _record_memory(job: Job, run: Run, engines: dict[str, Engine]) -> None:
    """Note each engine's peak memory beside its lanes; one that died has none to tell."""
    found: dict[str, dict[str, float | None]] = {}
    for engine_id, engine in engines.items():
        with contextlib.suppress(EngineError):
            found[engine_id] = engine.peak_memory()
    for lane, described in zip(job.lanes, run.manifest["lanes"], strict=True):
        described["memory"] = found.get(lane.engine_id)
    run.save()


def _check_baseline(job: Job, engines: dict[str, Engine]) -> None:
    """Refuse answers of engines that are not like ours.

    Raises:
        UsageError: the earlier run was on another device, vLLM or dtype.
    """
    if job.baseline is None:
        return
    for lane in job.lanes:
        if lane.id in job.baseline.taken and lane.engine_id in engines:
            facts, before = engines[lane.engine_id].facts, job.baseline.facts(lane.id)
            key = _differing(facts, before)
            if key is not None:
                what = key if lane.draft is None else f"{key} of {lane.id}"
                raise job.baseline.differs(what, before.get(key), facts.get(key))


def _quality(
    job: Job,
    run: Run,
    lanes: list[Lane],
    engines: dict[str, Engine],
    progress: Progress,
    failures: Failures,
) -> list[Lane]:
    """Every lane answers every task; return the lanes whose engines are still alive."""
    dead: set[str] = set()
    for task in job.tasks:
        for lane in lanes:
            if lane.engine_id in dead:
                continue
            engine = engines[lane.engine_id]
            try:
                run_quality(
                    run,
                    task,
                    lane,
                    engine,
                    prompts=job.prompts[task.name],
                    tokenizer=job.tokenizer,
                    settings=job.settings,
                    identity=job.identity(engine.facts, drafted=lane.draft is not None),
                    limit=job.limits[task.name],
                    samples=job.samples,
                    concurrency=job.concurrency,
                    progress=progress,
                    earlier=job.baseline.records(task.name, lane.id) if job.baseline else (),
                )
            except EngineError as error:
                dead.add(lane.engine_id)
                gone = [other.id for other in lanes if other.engine_id == lane.engine_id]
                failures.note("quality", None, gone, error)
            except Exception as error:
                failures.note("quality", task.name, [lane.id], error)
    return [lane for lane in lanes if lane.engine_id not in dead]


def _fidelity(
    job: Job,
    run: Run,
    lanes: list[Lane],
    engines: dict[str, Engine],
    progress: Progress,
    failures: Failures,
) -> None:
    """The plain target re-scores what every lane answered, where that means something."""
    plain = next((lane for lane in lanes if lane.draft is None), None)
    if plain is None:
        return
    target = engines[plain.engine_id]
    for task, prompts in job.prompts.items():
        if obstacle(prompts) is None:
            for lane in lanes:
                try:
                    run_fidelity(
                        run,
                        task,
                        lane,
                        target,
                        prompts,
                        identity=job.identity(target.facts, drafted=False),
                        progress=progress,
                    )
                except EngineError as error:
                    lanes.remove(plain)  # nothing is left to time the others against
                    failures.note("fidelity", None, [plain.id], error)
                    return


def _speed(
    job: Job,
    run: Run,
    lanes: list[Lane],
    engines: dict[str, Engine],
    progress: Progress,
    failures: Failures,
) -> None:
    identity = job.identity(engines[lanes[0].engine_id].facts)
    plans = {
        task: plan_speed(
            [prompt for prompt in prompts if prompt.sample == 0][: job.speed_prompts],
            lanes,
            identity=identity,
            repeats=job.repeats,
        )
        for task, prompts in job.prompts.items()
    }
    to_do = [timing for task, plan in plans.items() for timing in missing(run, task, plan)]
    try:
        if to_do:
            with progress.phase("warming up", len(lanes)) as step:
                warm_up(run, to_do[0].prompt, lanes, engines)
                step(len(lanes))
        for task, plan in plans.items():
            if plan:
                run_speed(run, task, plan, engines, progress)
    except EngineError as error:
        failures.note("speed", None, [lane.id for lane in lanes], error)


def write_results(job: Job, run: Run) -> dict[str, Any]:
    """Derive results.json and report.md from the records; return the results."""
    lane_ids = [lane.id for lane in job.lanes]
    tasks = {
        task.name: TaskInput(
            name=task.name,
            metric=task.metric,
            higher_is_better=task.higher_is_better,
            speed_mode="interleaved",
            quality={lane: list(read_records(run.quality(task.name, lane))) for lane in lane_ids},
            speed=list(read_records(run.speed(task.name))),
            notes=_notes(job, run, task),
            directions=task.directions,
            sampled=any(prompt.temperature > 0 for prompt in job.prompts[task.name]),
            samples=job.samples,
            fidelity={lane: list(read_records(run.fidelity(task.name, lane))) for lane in lane_ids},
            fidelity_obstacle=obstacle(job.prompts[task.name]),
        )
        for task in job.tasks
    }
    manifest = run.manifest
    results = build_results(
        run={key: manifest[key] for key in ("id", "created", "status")},
        model=manifest["plan"]["model"],
        environment=run.session["environment"],
        lanes=manifest["lanes"],
        tasks=tasks,
    )
    write_json(run.folder / "results.json", results)
    write_atomic(run.folder / "report.md", markdown(results))
    run.save()
    return results


def _notes(job: Job, run: Run, task: Task) -> list[str]:
    """What a reader of this task's figures must know, in sentences."""
    notes = [
        f"{failure['phase']} failed for {', '.join(failure['lanes'])}: {failure['reason']}"
        for failure in run.manifest["failures"]
        if failure["task"] in (None, task.name)
    ]
    prompts = [prompt for prompt in job.prompts[task.name] if prompt.sample == 0]
    for lane in job.lanes:
        records = read_records(run.quality(task.name, lane.id))
        for earlier in dict.fromkeys(record["from"] for record in records if "from" in record):
            notes.append(f"{lane.id}: answers taken from run {earlier}")
    cut = sum(prompt.truncated for prompt in prompts)
    if cut:
        notes.append(f"{cut} of {len(prompts)} prompts were cut from the left to fit the context")
    if job.samples is not None and job.samples > 1 and not any(p.varies for p in prompts):
        notes.append("no chance is in this task's decoding: all samples of a document are equal")
    if task.runs_code and not run.plan["allow_code_execution"]:
        notes.append("answers are code, which was not run: --allow-code-execution scores them")
    if task.metric.partition(",")[0] in task.corpus_metrics:
        notes.append(f"{task.metric} is no mean over documents, and is not computed here")
    sessions: dict[tuple[int, int], set[int]] = {}
    for record in read_records(run.speed(task.name)):
        sessions.setdefault((record["doc_id"], record["repeat"]), set()).add(record["session"])
    mixed = sum(len(numbers) > 1 for numbers in sessions.values())
    if mixed:
        notes.append(f"{mixed} of {len(sessions)} timed rounds were interrupted and went on later")
    return notes
