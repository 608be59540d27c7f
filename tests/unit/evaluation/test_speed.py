from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mars_cli.engine.lane import Draft, plan_lanes
from mars_cli.evaluation.evaluate import evaluate
from mars_cli.evaluation.job import Job
from mars_cli.evaluation.speed import round_order
from mars_cli.runs.files import read_records, write_records
from mars_cli.runs.run import Run
from mars_cli.verification.spec import RuleSpec
from tests.unit.evaluation.conftest import Silent

PLAN = {"model": {"name": "fake"}, "allow_code_execution": False}
LANES = plan_lanes(
    Draft("ngram", {"method": "ngram"}),
    7,
    [RuleSpec.of("mars", theta=theta) for theta in (0.9, 1.0)],
    None,
    0,
)


def run_job(job: Job, folder: Path, fake: Any) -> dict[str, Any]:
    with Run(folder, PLAN, {}) as run:
        return evaluate(job, run, Silent(), make_engine=fake)


def speed(folder: Path) -> list[dict[str, Any]]:
    return list(read_records(folder / "records/speed/echo.jsonl"))


def test_each_round_measures_every_lane_once_and_ar_twice() -> None:
    for index in range(7):
        order = round_order(LANES, index)
        assert Counter(m.lane.id for m in order) == {
            "ar": 2,
            "strict-ngram-k7": 1,
            "mars-ngram-k7-t0.9": 1,
            "mars-ngram-k7-t1": 1,
        }
        assert sum(m.control for m in order) == 1
        assert all(m.lane.id == "ar" for m in order if m.control)


def test_every_lane_takes_every_place_once_in_a_full_turn() -> None:
    turns = [[(m.lane.id, m.control) for m in round_order(LANES, index)] for index in range(5)]
    for place in range(5):
        assert len({turn[place] for turn in turns}) == 5


def test_each_concurrency_times_every_prompt_in_every_lane(
    job: Job, fake: Any, tmp_path: Path
) -> None:
    results = run_job(dataclasses.replace(job, concurrency=(1, 2)), tmp_path, fake)
    found = Counter((r["concurrency"], r["lane"], r["control"]) for r in speed(tmp_path))
    per_lane = 2 * 2  # prompts, repeats
    assert found == {
        (level, *lane): per_lane
        for level in (1, 2)
        for lane in (("ar", False), ("ar", True), (LANES[1].id, False), (LANES[2].id, False))
    }
    row = results["tasks"]["echo"]["lanes"][LANES[1].id]
    assert results["tasks"]["echo"]["concurrency"] == [1, 2]
    assert list(row["by_concurrency"]) == ["1", "2"]
    assert row["by_concurrency"]["1"]["speedup"] == row["speedup"]
    assert row["by_concurrency"]["2"]["speedup"] is not None


def test_a_block_hands_the_engine_all_prompts_at_once(job: Job, fake: Any, tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []

    class Watching(fake):
        def generate(self, requests: Any, concurrency: int = 1) -> Any:
            if not requests[0].use_prefix_cache and not requests[0].id.startswith("warm-up"):
                calls.append((len(requests), concurrency))
            return super().generate(requests, concurrency)

    run_job(dataclasses.replace(job, concurrency=(2,)), tmp_path, Watching)
    assert calls == [(2, 2)] * (4 * 2)  # lanes and control, repeats


def test_a_block_that_was_cut_short_is_timed_anew_as_a_whole(
    job: Job, fake: Any, tmp_path: Path
) -> None:
    job = dataclasses.replace(job, concurrency=(2,))
    run_job(job, tmp_path, fake)
    whole = speed(tmp_path)
    write_records(tmp_path / "records/speed/echo.jsonl", whole[:-1])
    fake.asked.clear()
    run_job(job, tmp_path, fake)
    timed_again = [request for _, request in fake.asked if not request.startswith("warm-up")]
    assert timed_again == [record["key"] for record in whole[-2:]]
    assert Counter(r["key"] for r in speed(tmp_path)) == Counter(r["key"] for r in whole)


def test_engines_that_take_turns_are_never_loaded_together(
    job: Job, fake: Any, tmp_path: Path
) -> None:
    loaded: list[str] = []
    most: list[int] = []

    class Counting(fake):
        def start(self) -> Any:
            loaded.append(self.spec.name)
            most.append(len(loaded))
            return self

        def stop(self) -> None:
            loaded.remove(self.spec.name)

    job = dataclasses.replace(job, sequential=True, fidelity=True)
    results = run_job(job, tmp_path, Counting)
    assert most == [1, 1, 1]  # ar, the draft's, ar again
    together = run_job(dataclasses.replace(job, sequential=False), tmp_path / "together", fake)
    assert results["tasks"]["echo"]["speed_mode"] == "sequential"
    for lane, row in together["tasks"]["echo"]["lanes"].items():
        again = results["tasks"]["echo"]["lanes"][lane]
        assert {k: again[k] for k in ("score", "speedup", "fidelity", "exact_match_ar")} == {
            k: row[k] for k in ("score", "speedup", "fidelity", "exact_match_ar")
        }
    controls = [(r["lane"], r["control"]) for r in speed(tmp_path)]
    assert controls[:4] == [("ar", False)] * 4
    assert controls[-4:] == [("ar", True)] * 4


def test_an_engine_that_cannot_load_in_its_turn_leaves_the_others(
    job: Job, fake: Any, tmp_path: Path
) -> None:
    fake.fail_to_load = {"ngram-k7"}
    results = run_job(dataclasses.replace(job, sequential=True), tmp_path, fake)
    assert results["run"]["status"] == "failed"
    assert results["tasks"]["echo"]["lanes"]["ar"]["score"] is not None
    assert results["noise"]["echo"]["aa_speedup"] is not None


@pytest.mark.parametrize("sequential", [True, False])
def test_resume_times_nothing_again(job: Job, fake: Any, tmp_path: Path, sequential: bool) -> None:
    job = dataclasses.replace(job, sequential=sequential, concurrency=(1, 2))
    first = run_job(job, tmp_path, fake)
    fake.asked.clear()
    assert run_job(job, tmp_path, fake)["tasks"] == first["tasks"]
    assert fake.asked == []
