"""The speed phase: prompts timed one by one, the lanes interleaved prompt by prompt.

`ar` is measured twice a round. The second is the A/A control: its spread is the noise floor.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from mars_cli.engine.engine import Engine
from mars_cli.engine.lane import Lane
from mars_cli.evaluation.lm import Prompt
from mars_cli.evaluation.progress import Progress
from mars_cli.evaluation.quality import generation_record, record_key, request_for, use_lane
from mars_cli.runs.files import read_records
from mars_cli.runs.run import Run

WARM_UP_TOKENS = 32


@dataclass(frozen=True)
class Measurement:
    """One timed generation of a round."""

    lane: Lane
    control: bool = False


def round_order(lanes: list[Lane], index: int) -> list[Measurement]:
    """The measurements of one prompt in one repeat, rotated so that no lane always goes first.

    The control stands half a round from the `ar` that it repeats, so that drift shows in it.
    """
    others = [Measurement(lane) for lane in lanes if lane.draft is not None]
    middle = len(others) // 2
    baseline = next(lane for lane in lanes if lane.draft is None)
    measurements = [
        Measurement(baseline),
        *others[:middle],
        Measurement(baseline, control=True),
        *others[middle:],
    ]
    turn = index % len(measurements)
    return measurements[turn:] + measurements[:turn]


@dataclass(frozen=True)
class Timing:
    """A measurement to make, and the fields that identify its record."""

    prompt: Prompt
    measurement: Measurement
    fields: dict[str, Any]


def plan_speed(
    prompts: list[Prompt], lanes: list[Lane], *, identity: Any, repeats: int
) -> dict[str, Timing]:
    """All measurements of a task by record key, in the order in which they are made."""
    plan = {}
    for repeat in range(repeats):
        for number, prompt in enumerate(prompts):
            order = round_order(lanes, repeat * len(prompts) + number)
            for place, measurement in enumerate(order):
                lane, control = measurement.lane, measurement.control
                key = record_key(identity, lane, prompt, "speed", repeat, control)
                fields = {
                    "key": key,
                    "doc_id": prompt.doc_id,
                    "lane": lane.id,
                    "control": control,
                    "repeat": repeat,
                    "order": place,
                }
                plan[key] = Timing(prompt, measurement, fields)
    return plan


def missing(run: Run, task: str, plan: dict[str, Timing]) -> list[Timing]:
    """What of the plan is not recorded yet."""
    done = {record["key"] for record in read_records(run.speed(task))}
    return [timing for key, timing in plan.items() if key not in done]


def run_speed(
    run: Run,
    task: str,
    plan: dict[str, Timing],
    engines: dict[str, Engine],
    progress: Progress,
) -> None:
    """Time what is not recorded yet, at concurrency 1 and without prefix-cache reads.

    `engines` go by `Lane.engine_id`; all are loaded, and idle unless it is their turn: an engine
    that waits is blocked on its pipe and uses no core.

    Raises:
        EngineError: an engine died; what had finished is recorded.
    """
    to_do = missing(run, task, plan)
    with progress.phase(f"speed {task}", len(plan), len(plan) - len(to_do)) as step:
        for timing in to_do:
            lane = timing.measurement.lane
            engine = engines[lane.engine_id]
            run.starting(1)
            use_lane(engine, lane)
            request = request_for(
                timing.prompt, timing.fields["key"], use_prefix_cache=False, seed=lane.seed
            )
            (generation,) = engine.generate([request], concurrency=1)
            run.append(
                run.speed(task),
                {
                    **timing.fields,
                    **generation_record(generation),
                    "seconds": generation.seconds,
                    "ttft_s": generation.ttft_s,
                },
            )
            step(1)


def warm_up(run: Run, prompt: Prompt, lanes: list[Lane], engines: dict[str, Engine]) -> None:
    """Let every lane generate a little, unrecorded: first requests compile and allocate."""
    for lane in lanes:
        engine = engines[lane.engine_id]
        use_lane(engine, lane)
        short = min(WARM_UP_TOKENS, prompt.max_tokens)
        request = request_for(prompt, f"warm-up-{lane.id}", use_prefix_cache=False, seed=lane.seed)
        request = dataclasses.replace(request, max_tokens=short)
        for _ in engine.generate([request], concurrency=1):
            pass
    run.session["warm_up_requests"] = run.session.get("warm_up_requests", 0) + len(lanes)
    run.save()
