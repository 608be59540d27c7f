from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from mars_cli.engine.protocol import EngineSpec, Generation, Position, Request
from mars_cli.errors import EngineError
from mars_cli.evaluation.job import Job
from mars_cli.evaluation.trace import (
    COLUMNS,
    parts_of,
    run_trace,
    trace_lane,
    write_trace,
)
from mars_cli.runs.files import read_records
from mars_cli.runs.run import Run
from tests.unit.evaluation.conftest import Silent

PLAN = {"model": {"name": "fake", "weights": "nowhere"}, "lanes": []}
STRICT = "strict-ngram-k7"


class Tracing:
    """An engine whose every answer has three positions; dies after so many answers."""

    def __init__(self, fake: Any, dies_after: int | None, values: list[float] | None) -> None:
        self._engine, self._left, self.on = fake, dies_after, False
        self._values = values or [5.0, 9.0, 5.0, 9.1, 0.2, 1.0]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def start(self) -> Tracing:
        return self

    def trace(self, on: bool) -> None:
        self.on = on

    def generate(self, requests: list[Request], concurrency: int) -> Iterator[Generation]:
        assert self.on
        for found in self._engine.generate(requests, concurrency):
            if self._left == 0:
                raise EngineError("the engine was killed by signal 9")
            self._left = None if self._left is None else self._left - 1
            kept = [Position(n, n, 7, n < 2, n == 1, self._values) for n in range(3)]
            yield dataclasses.replace(found, positions=kept)


def traced(job: Job, run: Run, engine: Tracing, rows: int = 50_000) -> None:
    engine.on = True
    (strict,) = (lane for lane in job.lanes if lane.id == STRICT)
    trace_lane(
        run,
        "echo",
        strict,
        engine,  # type: ignore[arg-type]
        job.prompts["echo"],
        identity=[],
        concurrency=4,
        progress=Silent(),
        rows=rows,
    )


@pytest.fixture
def engine(fake: Any) -> Any:
    def make(dies_after: int | None = None, values: list[float] | None = None) -> Tracing:
        return Tracing(fake(EngineSpec("ngram-k7", {}), Path("log")), dies_after, values)

    return make


def rows_of(folder: Path) -> int:
    return sum(pq.read_table(part).num_rows for part in folder.glob("*.parquet"))


def test_parts_hold_whole_answers_and_no_more_than_are_due(
    job: Job, engine: Any, tmp_path: Path
) -> None:
    with Run(tmp_path / "run", PLAN, {}) as run:
        traced(job, run, engine(), rows=5)  # two answers have six
    folder = parts_of(tmp_path / "run", "echo", STRICT)
    assert [p.name for p in sorted(folder.iterdir())] == [f"0000{n}.parquet" for n in (1, 2, 3)]
    answers = list(read_records(folder.with_suffix(".jsonl")))
    assert [one["part"] for one in answers] == [f"0000{n // 2 + 1}.parquet" for n in range(6)]
    first = pq.read_table(folder / "00001.parquet").to_pylist()[1]
    assert first == {
        **{"doc_id": 0, "sample": 0, "at": 1, "place": 1, "draft": 7, "rank": 2},
        **{"accepted": True, "relaxed": True, "z": 5.0, "z1": 9.0, "z2": 5.0},
        "r": pytest.approx(5 / 9),
        "p": pytest.approx(2.718281828**-4.1),
        "p1": pytest.approx(2.718281828**-0.1),
        "p2": pytest.approx(2.718281828**-4.1),
        "entropy": pytest.approx(0.2),
    }


def test_what_an_engine_left_behind_when_it_died_is_not_lost_and_not_doubled(
    job: Job, engine: Any, tmp_path: Path
) -> None:
    folder = parts_of(tmp_path / "run", "echo", STRICT)
    with Run(tmp_path / "run", PLAN, {}) as run, pytest.raises(EngineError):
        traced(job, run, engine(dies_after=3), rows=5)
    assert rows_of(folder) == 6  # a whole part; the third answer's rows were not due yet
    pq.write_table(pq.read_table(folder / "00001.parquet"), folder / "00002.parquet")  # a stray
    with Run(tmp_path / "run", PLAN, {}) as run:
        traced(job, run, engine())
    assert run.session["requests_started"] == 4
    assert rows_of(folder) == 18
    answers = list(read_records(folder.with_suffix(".jsonl")))
    assert sorted(one["doc_id"] for one in answers) == list(range(6))


def test_a_trace_sums_up_what_is_recorded_of_every_lane(
    job: Job, engine: Any, tmp_path: Path
) -> None:
    lanes, specs = job.lanes[1:], {"ngram-k7": job.specs["ngram-k7"]}
    job = dataclasses.replace(job, lanes=lanes, specs=specs)
    with Run(tmp_path / "run", PLAN, {}) as run:
        found = run_trace(job, run, Silent(), lambda spec, log: engine())
        assert write_trace(run.folder, run.manifest, job.prompts) == found
    lanes = found["tasks"]["echo"]["lanes"]
    assert list(lanes) == [STRICT, "mars-ngram-k7-t0.9"]
    for figures in lanes.values():
        assert (figures["answers"], figures["positions"]) == (6, 18)
        assert figures["accepted_share"] == pytest.approx(2 / 3)
        assert [at["theta"] for at in figures["thetas"]] == [0.9]


def test_a_position_without_a_positive_logit_has_no_r(
    job: Job, engine: Any, tmp_path: Path
) -> None:
    low = [-2.0, -1.0, -2.0, 0.0, 0.2, 1.0]
    with Run(tmp_path / "run", PLAN, {}) as run:
        traced(job, run, engine(values=low))
    folder = parts_of(tmp_path / "run", "echo", STRICT)
    assert pq.read_table(folder / "00001.parquet")["r"].null_count == 18


def test_every_column_is_explained() -> None:
    page = (Path(__file__).parents[3] / "docs/trace.md").read_text()
    table = "".join(line.split("|")[1] for line in page.splitlines() if line.startswith("| `"))
    assert re.findall(r"`(\w+)`", table) == [name for name, _ in COLUMNS]
