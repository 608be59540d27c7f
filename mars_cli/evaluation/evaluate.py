"""`mars eval` from a resolved plan to results: engines, phases, records, analysis."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mars_cli.analysis.compare import TaskInput, build_results
from mars_cli.config import ModelConfig
from mars_cli.engine.engine import Engine
from mars_cli.engine.lane import Lane
from mars_cli.engine.protocol import EngineSpec
from mars_cli.errors import EngineError
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
    fingerprint: str
    lanes: list[Lane]
    tasks: list[Task]
    specs: dict[str, EngineSpec]
    limits: dict[str, int | None]  # documents of each task; None for all
    speed_prompts: int
    repeats: int
    concurrency: int
    max_tokens: int | None
    temperature: float | None

    def identity(self, facts: dict[str, Any]) -> list[Any]:
        """What every record depends on: model, dtype, engine version and setup."""
        setup = {key: facts.get(key) for key in ("vllm", "runner", "dtype", "device", "graphs")}
        return [self.config.name, self.fingerprint, setup]


def evaluate(
    job: Job, run: Run, progress: Progress, make_engine: MakeEngine = Engine
) -> dict[str, Any]:
    """Run what is not recorded yet, then write and return the results.

    An engine that fails takes its own lanes with it; the others go on, and the run's status is
    "failed". Interrupted by anything else, the records stay for the next session.
    """
    failures: list[dict[str, str]] = []
    with contextlib.ExitStack() as stack:
        engines = _start_engines(job, run, stack, progress, make_engine, failures)
        lanes = [lane for lane in job.lanes if lane.engine_id in engines]
        if lanes:
            _phases(job, run, lanes, engines, progress, failures)
    run.manifest["failures"] = failures
    run.manifest["status"] = "failed" if failures else "complete"
    return write_results(job, run)


def _start_engines(
    job: Job,
    run: Run,
    stack: contextlib.ExitStack,
    progress: Progress,
    make_engine: MakeEngine,
    failures: list[dict[str, str]],
) -> dict[str, Engine]:
    """Load all engines at once; one that cannot load is a failure of its lanes only."""
    engines = {}
    with progress.phase("loading engines", len(job.specs)) as step:
        for engine_id, spec in job.specs.items():
            engine = make_engine(spec, run.folder / "logs" / f"engine-{engine_id}.log")
            stack.callback(engine.stop)
            engines[engine_id] = engine.start()
        for engine_id, engine in list(engines.items()):
            try:
                engine.ready()
            except EngineError as error:
                del engines[engine_id]
                _note_failure(failures, progress, "load", engine_id, error)
            step(1)
    run.manifest["lanes"] = [
        {**lane.describe(), "engine": _facts(engines.get(lane.engine_id))} for lane in job.lanes
    ]
    run.save()
    return engines


def _facts(engine: Engine | None) -> dict[str, Any]:
    return {} if engine is None else {k: v for k, v in engine.facts.items() if k != "pid"}


def _phases(
    job: Job,
    run: Run,
    lanes: list[Lane],
    engines: dict[str, Engine],
    progress: Progress,
    failures: list[dict[str, str]],
) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(job.weights)
    first = engines[lanes[0].engine_id]
    settings = Settings(
        max_model_len=first.facts["max_model_len"],
        chat_template=job.config.chat_template and tokenizer.chat_template is not None,
        chat_template_kwargs=dict(job.config.chat_template_kwargs),
        max_tokens=job.max_tokens,
        temperature=job.temperature,
    )
    prompts: dict[str, list[Prompt]] = {}
    dead: set[str] = set()
    for task in job.tasks:
        for lane in lanes:
            if lane.engine_id in dead:
                continue
            engine = engines[lane.engine_id]
            try:
                prompts[task.name] = run_quality(
                    run,
                    task,
                    lane,
                    engine,
                    tokenizer=tokenizer,
                    settings=settings,
                    identity=job.identity(engine.facts),
                    limit=job.limits[task.name],
                    concurrency=job.concurrency,
                    progress=progress,
                )
            except EngineError as error:
                dead.add(lane.engine_id)
                _note_failure(failures, progress, f"quality {task.name}", lane.id, error)
    alive = [lane for lane in lanes if lane.engine_id not in dead]
    if job.speed_prompts and any(lane.draft is None for lane in alive):
        _speed(job, run, alive, engines, prompts, progress, failures)


def _speed(
    job: Job,
    run: Run,
    lanes: list[Lane],
    engines: dict[str, Engine],
    prompts: dict[str, list[Prompt]],
    progress: Progress,
    failures: list[dict[str, str]],
) -> None:
    identity = job.identity(engines[lanes[0].engine_id].facts)
    plans = {
        task: plan_speed(
            [prompt for prompt in given if prompt.sample == 0][: job.speed_prompts],
            lanes,
            identity=identity,
            repeats=job.repeats,
        )
        for task, given in prompts.items()
    }
    to_do = [timing for task, plan in plans.items() for timing in missing(run, task, plan)]
    current = "warm-up"
    try:
        if to_do:
            with progress.phase("warming up", len(lanes)) as step:
                warm_up(run, to_do[0].prompt, lanes, engines)
                step(len(lanes))
        for current, plan in plans.items():
            run_speed(run, current, plan, engines, progress)
    except EngineError as error:
        _note_failure(failures, progress, f"speed {current}", "all lanes", error)


def _note_failure(
    failures: list[dict[str, str]], progress: Progress, where: str, what: str, error: EngineError
) -> None:
    failures.append({"where": where, "what": what, "reason": str(error)})
    progress.note(f"{what}, {where}: {error}" + (f" ({error.hint})" if error.hint else ""))


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
            notes=_notes(run, task),
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


def _notes(run: Run, task: Task) -> list[str]:
    """What a reader of this task's figures must know, in sentences."""
    notes = [
        f"{failure['what']}: {failure['reason']}"
        for failure in run.manifest["failures"]
        if task.name in failure["where"] or failure["where"] == "load"
    ]
    prompts = list(read_records(run.prompts(task.name)))
    cut = sum(prompt["truncated"] for prompt in prompts)
    if cut:
        notes.append(f"{cut} of {len(prompts)} prompts were cut from the left to fit the context")
    if task.runs_code and not run.plan["allow_code_execution"]:
        notes.append("answers are code, which was not run: --allow-code-execution scores them")
    return notes
