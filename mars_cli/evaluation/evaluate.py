"""`mars eval` from a resolved job to results: engines, phases, records, analysis.

Engines that fit side by side are loaded once, and the speed phase interleaves their lanes. Those
that do not take turns: `ar`, each draft's engine, and `ar` again, whose second block of timings is
the control for drift between them.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mars_cli.engine.engine import Engine
from mars_cli.engine.lane import Lane
from mars_cli.engine.protocol import EngineSpec
from mars_cli.errors import EngineError, UsageError
from mars_cli.evaluation.control import run_control
from mars_cli.evaluation.divergence import run_divergence
from mars_cli.evaluation.failures import Failures
from mars_cli.evaluation.fidelity import Known, obstacle, run_fidelity
from mars_cli.evaluation.job import Job, differing
from mars_cli.evaluation.lm import Prompt
from mars_cli.evaluation.progress import Progress
from mars_cli.evaluation.quality import all_turns, run_quality
from mars_cli.evaluation.results import keep_facts, write_results
from mars_cli.evaluation.speed import (
    Block,
    missing,
    plan_speed,
    speed_progress,
    time_block,
    warm_up,
)
from mars_cli.evaluation.tasks import Task
from mars_cli.runs.files import read_records
from mars_cli.runs.run import Run

MakeEngine = Callable[[EngineSpec, Path], Engine]
AR = "ar"  # the engine without a draft
RESTARTS = 3  # of an engine in one session: one that dies again and again is given up


@dataclass(frozen=True)
class Turn:
    """Engines that are loaded at once, and what is done while they are.

    `control` says which of `ar`'s two measurements are made, None for both; in the turn that is
    `closing` the plain target looks at what all lanes have answered.
    """

    engines: tuple[str, ...]
    quality: bool = True
    control: bool | None = None
    closing: bool = True


def turns(job: Job) -> list[Turn]:
    """All engines in one turn, or one engine a turn."""
    if not job.sequential:
        return [Turn(tuple(job.specs))]
    first = Turn((AR,), control=False, closing=False)
    drafted = [Turn((name,), closing=False) for name in job.specs if name != AR]
    return [first, *drafted, Turn((AR,), quality=False, control=True)]


def evaluate(
    job: Job, run: Run, progress: Progress, make_engine: MakeEngine = Engine
) -> dict[str, Any]:
    """Run what is not recorded yet, then write and return the results.

    What fails takes its own cell with it, a lane on a task; an engine that died is started anew
    for the others. The rest goes on, and the run's status is "failed". Interrupted, the records
    stay for the next session.
    """
    keep_facts(job, run)
    evaluation = Evaluation(job, run, progress, make_engine)
    for turn in turns(job):
        evaluation.take(turn)
    failed = evaluation.failures.found
    run.manifest["failures"] = failed
    run.manifest["status"] = "failed" if failed else "complete"
    return write_results(run)


class Evaluation:
    """The engines loaded now, those lost so far, and the phases they take part in."""

    def __init__(self, job: Job, run: Run, progress: Progress, make_engine: MakeEngine) -> None:
        self.job, self.run, self.progress = job, run, progress
        self.failures = Failures(run, progress)
        self._make_engine = make_engine
        self._engines: dict[str, Engine] = {}
        self._deaths: Counter[str] = Counter()
        self._lost: set[str] = set()
        self._stack = contextlib.ExitStack()

    def take(self, turn: Turn) -> None:
        """Load the turn's engines, run its phases, and stop the engines."""
        with self._stack:
            self._engines = {}
            self._load(turn)
            self._check_baseline()
            if turn.quality:
                self._quality()
            if turn.closing:
                self._control()
                self._fidelity()
            self._speed(turn.control)
            if turn.closing:
                self._divergence()
            self._record_memory()

    def _lanes(self, *, loaded: bool = True) -> list[Lane]:
        """The lanes whose engine is not lost; only those `loaded` now, or all."""
        return [
            lane
            for lane in self.job.lanes
            if lane.engine_id not in self._lost and (lane.engine_id in self._engines or not loaded)
        ]

    def _lose(self, phase: str, engine_id: str, error: EngineError) -> None:
        """The engine cannot load, or died too often: its lanes go no further."""
        lanes = [lane.id for lane in self.job.lanes if lane.engine_id == engine_id]
        self._lost.add(engine_id)
        self.failures.note(phase, None, lanes, error)

    def _died(self, phase: str, task: str, lane: Lane, error: EngineError) -> None:
        """The lane's engine died, which costs this cell; start it anew for the others."""
        name = lane.engine_id
        self._deaths[name] += 1
        self._engines[name].stop()
        if self._deaths[name] > RESTARTS:
            self._lose(phase, name, error)
            return
        self.failures.note(phase, task, [lane.id], error)
        self.progress.note(f"starting the engine {name} anew")
        try:
            engine = self._make_engine(self.job.specs[name], self._log(name))
            self._stack.callback(engine.stop)
            engine.start()
            self._engines[name] = engine.ready()
        except EngineError as again:
            self._lose("loading", name, again)

    def _log(self, name: str) -> Path:
        return self.run.folder / "logs" / f"engine-{name}.log"

    @property
    def _target(self) -> Engine | None:
        """The plain target where it is loaded and alive."""
        return None if AR in self._lost else self._engines.get(AR)

    def _load(self, turn: Turn) -> None:
        """Load the engines; one that cannot load is a failure of its lanes only.

        Together where the cache's size is given in bytes; one after another on a GPU, where vLLM
        measures what is free and another engine that loads meanwhile would count as its own.
        """
        specs = {name: self.job.specs[name] for name in turn.engines if name not in self._lost}
        together = all("kv_cache_memory_bytes" in spec.args for spec in specs.values())
        label = "loading engines" if len(self.job.specs) == len(specs) else "loading an engine"
        with self.progress.phase(label, len(specs)) as step:
            for name, spec in specs.items():
                engine = self._engines[name] = self._make_engine(spec, self._log(name))
                self._stack.callback(engine.stop)
                if together:
                    with contextlib.suppress(EngineError):  # `ready` tells what became of it
                        engine.start()
            for name, engine in self._engines.items():
                try:
                    if not together:
                        engine.start()
                    engine.ready()
                except EngineError as error:
                    self._lose("loading", name, error)
                step(1)
        self._record_lanes()

    def _record_lanes(self) -> None:
        """Write the lanes into the manifest; refuse to mix records of differing engines.

        Raises:
            UsageError: an earlier session ran on another device, vLLM or dtype.
        """
        earlier = {lane["id"]: lane for lane in self.run.manifest["lanes"]}
        described = []
        loaded = self._lanes()
        for lane in self.job.lanes:
            known = earlier.get(lane.id, {})
            before = facts = known.get("engine", {})
            if lane in loaded:
                engine = self._engines[lane.engine_id]
                facts = {k: v for k, v in engine.facts.items() if k != "pid"}
                key = differing(facts, before) if before else None
                if key is not None:
                    raise UsageError(
                        f"this run began with {key} {before.get(key)} and the engine now has "
                        f"{facts[key]}",
                        hint="start a new run: the records of the two would not compare",
                    )
            memory = known.get("memory")
            described.append({**lane.describe(), "engine": facts, "memory": memory})
        self.run.manifest["lanes"] = described
        self.run.save()

    def _record_memory(self) -> None:
        """Note each engine's peak memory beside its lanes; one that died has none to tell."""
        for name, engine in self._engines.items():
            found = None
            with contextlib.suppress(EngineError):
                found = None if name in self._lost else engine.peak_memory()
            for lane, described in zip(self.job.lanes, self.run.manifest["lanes"], strict=True):
                if lane.engine_id == name:
                    described["memory"] = found
        self.run.save()

    def _check_baseline(self) -> None:
        """Refuse answers of engines that are not like ours.

        Raises:
            UsageError: the earlier run was on another device, vLLM or dtype.
        """
        baseline = self.job.baseline
        for lane in self._lanes() if baseline is not None else ():
            assert baseline is not None
            if lane.id in baseline.taken:
                facts, before = self._engines[lane.engine_id].facts, baseline.facts(lane.id)
                key = differing(facts, before)
                if key is not None:
                    what = key if lane.draft is None else f"{key} of {lane.id}"
                    raise baseline.differs(what, before.get(key), facts.get(key))

    def _identity(self, lane: Lane) -> list[Any]:
        """What the lane's records depend on beside the lane."""
        facts = self._engines[lane.engine_id].facts
        return self.job.identity(facts, drafted=lane.draft is not None)

    def _turns(self, name: str, lane: Lane, firsts: list[Prompt]) -> list[Prompt]:
        """The prompts, and of conversations the later turns that the lane's answers lead to."""
        task = next(task for task in self.job.tasks if task.name == name)
        if task.conversations is None:
            return firsts
        records = read_records(self.run.quality(name, lane.id))
        texts = {(one["doc_id"], one["sample"], one["turn"]): one["text"] for one in records}
        return all_turns(
            task,
            self.job.tokenizer,
            self.job.settings,
            firsts,
            lambda prompt: texts.get((prompt.doc_id, prompt.sample, prompt.turn)),
        )

    def _quality(self) -> None:
        """Every lane that is loaded answers every task."""
        for task in self.job.tasks:
            for lane in self._lanes():
                if lane.engine_id in self._lost:
                    continue
                try:
                    with self._allowed(lane) as engine:
                        self._answer(task, lane, engine)
                except EngineError as error:
                    self._died("quality", task.name, lane, error)
                except Exception as error:
                    self.failures.note("quality", task.name, [lane.id], error)

    def _answer(self, task: Task, lane: Lane, engine: Engine) -> None:
        job = self.job
        run_quality(
            self.run,
            task,
            lane,
            engine,
            prompts=job.prompts[task.name],
            tokenizer=job.tokenizer,
            settings=job.settings,
            identity=self._identity(lane),
            limit=job.limits[task.name],
            samples=job.samples,
            skip=job.skip,
            concurrency=job.max_num_seqs,
            progress=self.progress,
            earlier=job.baseline.records(task.name, lane.id) if job.baseline else (),
        )

    def _judge(self, phase: str, judge: Callable[[str, Lane, Engine], None]) -> None:
        """Have the plain target look at every greedy task's answers, while it lives."""
        plain = next(lane for lane in self.job.lanes if lane.draft is None)
        for task, prompts in self.job.prompts.items():
            target = self._target
            if target is not None and obstacle(prompts) is None:
                try:
                    judge(task, plain, target)
                except EngineError as error:
                    self._died(phase, task, plain, error)

    def _control(self) -> None:
        def again(task: str, plain: Lane, target: Engine) -> None:
            run_control(
                self.run,
                task,
                plain,
                target,
                self.job.prompts[task],
                identity=self._identity(plain),
                concurrency=self.job.max_num_seqs,
                progress=self.progress,
            )

        self._judge("control", again)

    def _fidelity(self) -> None:
        def score(task: str, plain: Lane, target: Engine) -> None:
            known: Known = {}
            for lane in self.job.lanes:
                run_fidelity(
                    self.run,
                    task,
                    lane,
                    target,
                    self._turns(task, lane, self.job.prompts[task]),
                    identity=self._identity(plain),
                    progress=self.progress,
                    known=known,
                )

        if self.job.fidelity:
            self._judge("fidelity", score)

    def _divergence(self) -> None:
        def look(task: str, plain: Lane, target: Engine) -> None:
            run_divergence(
                self.run,
                task,
                target,
                self.job.prompts[task],
                identity=self._identity(plain),
                progress=self.progress,
            )

        self._judge("divergence", look)

    def _speed(self, control: bool | None) -> None:
        """Time the lanes that are loaded, of `ar` the measurements that this turn makes."""
        if AR in self._lost:
            return  # nothing is left to time the others against
        lanes, loaded = self._lanes(loaded=False), self._lanes()
        plans = [
            (task, self._blocks(task, lanes, loaded, concurrency, control))
            for task in self.job.prompts
            for concurrency in self.job.concurrency
        ]
        to_do = [(task, missing(self.run, task, plan)) for task, plan in plans]
        first = next((task for task, blocks in to_do if blocks), None)
        if first is None:
            return
        with self.progress.phase("warming up", len(loaded)) as step:
            loaded = self._warm_up(first, loaded)
            step(len(loaded))
        for task, plan in plans:
            if not plan:
                continue
            able = loaded
            with speed_progress(self.run, task, plan, self.progress) as step:
                for block in missing(self.run, task, plan):
                    lane = block.measurement.lane
                    if lane not in able:
                        continue
                    try:
                        with self._allowed(lane) as engine:
                            time_block(self.run, task, block, engine)
                        step(len(block.prompts))
                    except EngineError as error:
                        self._died("speed", task, lane, error)
                        others = [one for one in able if one != lane]
                        again = [one for one in others if one.engine_id == lane.engine_id]
                        warm = self._warm_up(task, again)
                        able = [one for one in others if one not in again or one in warm]

    def _warm_up(self, task: str, lanes: list[Lane]) -> list[Lane]:
        """Warm the lanes up; those that went well."""
        warm = []
        for lane in lanes:
            if lane.engine_id in self._lost:
                continue
            prompts, most = self.job.to_time(task), max(self.job.concurrency)
            try:
                with self._allowed(lane) as engine:
                    warm_up(self.run, prompts, lane, engine, most)
                warm.append(lane)
            except EngineError as error:
                self._died("speed", task, lane, error)
        return [lane for lane in warm if lane.engine_id not in self._lost]

    @contextlib.contextmanager
    def _allowed(self, lane: Lane) -> Iterator[Engine]:
        """The lane's engine, with the clock of `cell_timeout` running for what it is asked."""
        engine, limit = self._engines[lane.engine_id], self.job.cell_timeout
        engine.deadline = None if limit is None else time.monotonic() + limit
        try:
            yield engine
        finally:
            engine.deadline = None

    def _blocks(
        self,
        task: str,
        lanes: list[Lane],
        loaded: list[Lane],
        concurrency: int,
        control: bool | None,
    ) -> list[Block]:
        firsts = self.job.to_time(task)
        plan = plan_speed(
            {lane.id: self._turns(task, lane, firsts) for lane in lanes},
            lanes,
            identity=lambda lane: self._identity(lane) if lane in loaded else None,
            repeats=self.job.repeats,
            concurrency=concurrency,
        )
        return [
            block
            for block in plan
            if block.prompts
            and (turn := block.measurement).lane in loaded
            and (control is None or turn.lane.draft is not None or turn.control == control)
        ]
