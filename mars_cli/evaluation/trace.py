"""`mars trace`: what the target thought of every draft that was verified; never timed.

outputs/<id>/
  manifest.json  records/prompts/       as of any run
  records/trace/<task>/<lane>.jsonl     the answers, and which part holds their positions
  records/trace/<task>/<lane>/*.parquet the positions, a row each (COLUMNS): whole answers, about
                                        ROWS rows a part
  trace.json  figures/                  derived

A part is written before the answers that name it, so an answer that is recorded has its rows; a
part that no answer names is of a killed session, and is removed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mars_cli.analysis.trace import Tally, build_trace, thetas_of
from mars_cli.engine.engine import Engine
from mars_cli.engine.lane import Lane
from mars_cli.engine.protocol import EngineSpec, Generation, Position
from mars_cli.evaluation.job import Job
from mars_cli.evaluation.lm import Prompt
from mars_cli.evaluation.progress import Progress
from mars_cli.evaluation.quality import record_key, record_prompts, request_for, use_lane
from mars_cli.runs.files import Record, read_records, write_json
from mars_cli.runs.layout import TRACE, by_lane
from mars_cli.runs.run import Run
from mars_cli.verification.rows import FIELDS

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 50_000  # of a part: a few MB of memory
COLUMNS = (
    ("doc_id", "int32"),
    ("sample", "int16"),
    ("at", "int32"),  # index into the answer
    ("place", "int16"),  # position in the draft, from 0
    ("draft", "int32"),  # the token
    ("rank", "int32"),  # of the draft by value: 1 is the largest logit, or tied with it
    ("accepted", "bool"),
    ("relaxed", "bool"),  # by the rule alone
    ("z", "float32"),  # the draft's logit
    ("z1", "float32"),
    ("z2", "float32"),
    ("r", "float32"),  # z2/z1; null where z1 <= 0
    ("p", "float64"),  # the draft's probability
    ("p1", "float64"),
    ("p2", "float64"),
    ("entropy", "float32"),  # nats
)


def parts_of(folder: Path, task: str, lane: str) -> Path:
    """Where the parts of a lane on a task are."""
    return by_lane(folder, "trace", task, lane).with_suffix("")


def run_trace(
    job: Job,
    run: Run,
    progress: Progress,
    make_engine: Callable[[EngineSpec, Path], Engine] = Engine,
) -> dict[str, Any]:
    """Trace what is not recorded yet; write and return trace.json.

    Raises:
        EngineError: the engine cannot load or died; what was recorded stays.
    """
    for name, spec in job.specs.items():
        lanes = [lane for lane in job.lanes if lane.engine_id == name]
        engine = make_engine(spec, run.folder / "logs" / f"engine-{name}.log")
        try:
            with progress.phase("loading an engine", 1) as step:
                engine.start().ready()
                step(1)
            _record_lanes(run, lanes, engine)
            engine.trace(True)
            for task, prompts in job.prompts.items():
                record_prompts(run, task, prompts)
                for lane in lanes:
                    trace_lane(
                        run,
                        task,
                        lane,
                        engine,
                        prompts,
                        identity=job.identity(engine.facts),
                        concurrency=job.max_num_seqs,
                        progress=progress,
                    )
        finally:
            engine.stop()
    run.manifest["status"] = "complete"
    run.save()
    return write_trace(run.folder, run.manifest, job.prompts)


def _record_lanes(run: Run, lanes: list[Lane], engine: Engine) -> None:
    facts = {key: value for key, value in engine.facts.items() if key != "pid"}
    described = [{**lane.describe(), "engine": facts} for lane in lanes]
    ours = {lane.id for lane in lanes}
    others = [one for one in run.manifest["lanes"] if one["id"] not in ours]
    run.manifest["lanes"] = [*others, *described]
    run.save()


def trace_lane(
    run: Run,
    task: str,
    lane: Lane,
    engine: Engine,
    prompts: list[Prompt],
    *,
    identity: Any,
    concurrency: int,
    progress: Progress,
    rows: int = ROWS,
) -> None:
    """Let the lane answer the prompts that are not traced yet, and record part by part.

    Raises:
        EngineError: the engine died; the parts that were full are recorded.
    """
    path = by_lane(run.folder, TRACE, task, lane.id)
    folder = parts_of(run.folder, task, lane.id)
    done = list(read_records(path))
    known = {record["part"] for record in done}
    for stray in folder.glob("*.parquet") if folder.is_dir() else ():
        if stray.name not in known:
            stray.unlink()
    keys = {record_key(identity, lane, prompt, TRACE): prompt for prompt in prompts}
    answered = {record["key"] for record in done}
    missing = {key: prompt for key, prompt in keys.items() if key not in answered}
    if not missing:
        return
    use_lane(engine, lane)
    requests = [
        request_for(prompt, key, use_prefix_cache=True, seed=lane.seed)
        for key, prompt in missing.items()
    ]
    with progress.phase(f"trace {task} {lane.id}", len(keys), len(keys) - len(missing)) as step:
        run.starting(len(requests))
        kept: list[tuple[Prompt, Generation]] = []
        count = 0
        for generation in engine.generate(requests, concurrency):
            kept.append((missing[generation.id], generation))
            count += len(generation.positions)
            if count >= rows:
                _write_part(run, path, folder, kept)
                kept, count = [], 0
            step(1)
        if kept:
            _write_part(run, path, folder, kept)


def _write_part(run: Run, path: Path, folder: Path, kept: list[tuple[Prompt, Generation]]) -> None:
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    number = 1 + max((int(part.stem) for part in folder.glob("*.parquet")), default=0)
    part = folder / f"{number:05d}.parquet"
    found = (_row(prompt, position) for prompt, answer in kept for position in answer.positions)
    temporary = part.with_suffix(".part")
    pq.write_table(_table(found), temporary, compression="zstd")
    temporary.replace(part)
    run.append_all(path, [_record(prompt, answer, part.name) for prompt, answer in kept])


def _record(prompt: Prompt, answer: Generation, part: str) -> Record:
    return {
        "key": answer.id,
        "doc_id": prompt.doc_id,
        "sample": prompt.sample,
        "token_ids": answer.token_ids,
        "text": answer.text,
        "finish_reason": answer.finish_reason,
        "step_tokens": answer.step_tokens,
        "positions": len(answer.positions),
        "part": part,
    }


def _row(prompt: Prompt, position: Position) -> tuple[Any, ...]:
    """A position under COLUMNS."""
    of = dict(zip(FIELDS, position.values, strict=True))
    z, z1, z2, lse = of["z"], of["z1"], of["z2"], of["lse"]
    return (
        *(prompt.doc_id, prompt.sample, position.at, position.place, position.draft),
        *(int(of["above"]) + 1, position.accepted, position.relaxed),
        *(z, z1, z2, z2 / z1 if z1 > 0 else None),
        *(math.exp(z - lse), math.exp(z1 - lse), math.exp(z2 - lse), of["entropy"]),
    )


def _table(rows: Iterator[tuple[Any, ...]]) -> pa.Table:
    import pyarrow as pa

    first = next(rows, None)
    columns = list(zip(*chain([first], rows), strict=True)) if first else [()] * len(COLUMNS)
    arrays = [
        pa.array(column, type=pa.type_for_alias(kind))
        for column, (_, kind) in zip(columns, COLUMNS, strict=True)
    ]
    return pa.table(arrays, names=[name for name, _ in COLUMNS])


def write_trace(folder: Path, manifest: dict[str, Any], tasks: Iterable[str]) -> dict[str, Any]:
    """Read the parts of a traced run, one at a time; write and return trace.json."""
    import pyarrow.parquet as pq

    thetas = thetas_of(manifest["lanes"])
    tallies = {}
    for task in tasks:
        for lane in manifest["lanes"]:
            tally = Tally(thetas)
            answers = list(read_records(by_lane(folder, TRACE, task, lane["id"])))
            for part in dict.fromkeys(record["part"] for record in answers):
                table = pq.read_table(parts_of(folder, task, lane["id"]) / part)
                tally.add({name: table[name].to_numpy() for name in table.column_names})
            tally.answers += len(answers)
            tallies[task, lane["id"]] = tally
    found = build_trace(manifest, tallies)
    write_json(folder / "trace.json", found)
    return found
