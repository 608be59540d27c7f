"""The speed phase: lanes timed side by side in rotating order, so many requests in flight.

At concurrency 1 the lanes are interleaved prompt by prompt. At c > 1 a lane answers all prompts, c
of them in flight, before the next lane does: a block. `ar` is measured twice a round; the second is
the A/A control, whose spread is the noise floor.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mars_cli.engine.engine import Engine
from mars_cli.engine.lane import Lane
from mars_cli.evaluation.lm import Prompt
from mars_cli.evaluation.progress import Progress, Step
from mars_cli.evaluation.quality import generation_record, record_key, request_for, use_lane
from mars_cli.runs.files import read_records, write_records
from mars_cli.runs.run import Run

WARM_UP_TOKENS = 32


@dataclass(frozen=True)
class Measurement:
    """A lane's turn in a round."""

    lane: Lane
    control: bool = False


@dataclass(frozen=True)
class Block:
    """What one lane is timed on at once; `prompts` by record key, `fields` are of every record."""

    measurement: Measurement
    concurrency: int
    prompts: dict[str, Prompt]
    fields: dict[str, Any]


def round_order(lanes: Sequence[Lane], index: int) -> list[Measurement]:
    """The measurements of one round, rotated so that no lane always goes first.

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


def plan_speed(
    prompts: Mapping[str, list[Prompt]],
    lanes: Sequence[Lane],
    *,
    identity: Callable[[Lane], Any],
    repeats: int,
    concurrency: int,
) -> list[Block]:
    """All blocks of a task at this concurrency, in the order in which they are timed.

    `prompts` by lane id: the same for all but in later turns, where a lane may lack some.
    """
    by_place = {
        lane.id: {(one.doc_id, one.turn): one for one in prompts[lane.id]} for lane in lanes
    }
    places = sorted({place for found in by_place.values() for place in found})
    rounds = [[place] for place in places] if concurrency == 1 else [places]
    plan = []
    for repeat in range(repeats):
        for number, round_ in enumerate(rounds):
            order = round_order(lanes, repeat * len(rounds) + number)
            for place, measurement in enumerate(order):
                lane, control = measurement.lane, measurement.control
                found = by_place[lane.id]
                group = [found[place] for place in round_ if place in found]
                rest = ("speed", repeat, control, concurrency)
                keys = (record_key(identity(lane), lane, prompt, *rest) for prompt in group)
                fields = {
                    "lane": lane.id,
                    "control": control,
                    "repeat": repeat,
                    "order": place,
                    "concurrency": concurrency,
                }
                by_key = dict(zip(keys, group, strict=True))
                plan.append(Block(measurement, concurrency, by_key, fields))
    return plan


def missing(run: Run, task: str, plan: Sequence[Block]) -> list[Block]:
    """The blocks of the plan that are not wholly recorded yet."""
    done = {record["key"] for record in read_records(run.speed(task))}
    return [block for block in plan if not block.prompts.keys() <= done]


@contextlib.contextmanager
def speed_progress(
    run: Run, task: str, plan: Sequence[Block], progress: Progress
) -> Iterator[Step]:
    """A phase for what of the plan is not recorded yet.

    A block counts only as a whole: what a kill left of one is dropped here.
    """
    path = run.speed(task)
    again = {key for block in missing(run, task, plan) for key in block.prompts}
    records = list(read_records(path))
    if any(record["key"] in again for record in records):
        write_records(path, (record for record in records if record["key"] not in again))
    total = sum(len(block.prompts) for block in plan)
    label = f"speed {task}" + "".join(
        f" x{level}" for level in {block.concurrency for block in plan} if level > 1
    )
    with progress.phase(label, total, total - len(again)) as step:
        yield step


def time_block(run: Run, task: str, block: Block, engine: Engine) -> None:
    """Time a block, without prefix-cache reads, and record it.

    Other engines stay loaded and idle: one that waits is blocked on its pipe and uses no core.

    Raises:
        EngineError: the engine died; nothing of the block is recorded.
    """
    lane = block.measurement.lane
    run.starting(len(block.prompts))
    use_lane(engine, lane)
    requests = [
        request_for(prompt, key, use_prefix_cache=False, seed=lane.seed)
        for key, prompt in block.prompts.items()
    ]
    began = time.monotonic()
    found = list(engine.generate(requests, block.concurrency))
    spent = time.monotonic() - began
    records = [
        {
            "key": one.id,
            "doc_id": block.prompts[one.id].doc_id,
            "turn": block.prompts[one.id].turn,
            **block.fields,
            **generation_record(one),
            "seconds": one.seconds,
            "ttft_s": one.ttft_s,
            "block_seconds": one.seconds if block.concurrency == 1 else spent,
        }
        for one in found
    ]
    run.append_all(run.speed(task), records)


def warm_up(
    run: Run, prompts: Sequence[Prompt], lane: Lane, engine: Engine, concurrency: int
) -> None:
    """Let a lane generate a little, unrecorded: first requests compile and allocate.

    Raises:
        EngineError: the engine died.
    """
    use_lane(engine, lane)
    requests = [
        dataclasses.replace(
            request_for(one, f"warm-up-{n}", use_prefix_cache=False, seed=lane.seed),
            max_tokens=min(WARM_UP_TOKENS, one.max_tokens),
        )
        for n, one in enumerate(prompts[:concurrency])
    ]
    for _ in engine.generate(requests, concurrency):
        run.session["warm_up_requests"] = run.session.get("warm_up_requests", 0) + 1
    run.save()
