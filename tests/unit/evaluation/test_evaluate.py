"""Orchestration, with an engine that only pretends: what is asked of whom, kept, and resumed."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mars_cli.errors import EngineError, UsageError
from mars_cli.evaluation.evaluate import evaluate
from mars_cli.evaluation.job import Job
from mars_cli.evaluation.quality import prepare_prompts
from mars_cli.runs.files import read_records
from mars_cli.runs.run import Run, read_manifest
from tests.unit.evaluation.conftest import Silent

KINDS = ("quality", "control", "speed")
PLAN = {"model": {"name": "fake"}, "allow_code_execution": False}


def run_job(job: Job, folder: Path, fake: Any) -> dict[str, Any]:
    with Run(folder, PLAN, {}) as run:
        return evaluate(job, run, Silent(), make_engine=fake)


def record_keys(folder: Path) -> list[str]:
    files = [p for kind in KINDS for p in folder.glob(f"records/{kind}/**/*.jsonl")]
    return [record["key"] for path in files for record in read_records(path)]


def test_every_lane_answers_every_document_once(job: Job, fake: Any, tmp_path: Path) -> None:
    results = run_job(job, tmp_path, fake)
    assert results["run"]["status"] == "complete"
    for lane in job.lanes:
        records = list(read_records(tmp_path / f"records/quality/echo/{lane.id}.jsonl"))
        assert [record["doc_id"] for record in records] == list(range(6))
        assert all(record["scores"]["exact_match,none"] in (0.0, 1.0) for record in records)
    assert results["tasks"]["echo"]["n"] == 6


def test_speed_measures_each_lane_and_ar_twice(job: Job, fake: Any, tmp_path: Path) -> None:
    run_job(job, tmp_path, fake)
    records = list(read_records(tmp_path / "records/speed/echo.jsonl"))
    assert Counter((r["lane"], r["control"]) for r in records) == {
        ("ar", False): 4,
        ("ar", True): 4,
        ("strict-ngram-k7", False): 4,
        ("mars-ngram-k7-t0.9", False): 4,
    }


def test_running_again_asks_for_nothing(job: Job, fake: Any, tmp_path: Path) -> None:
    first = run_job(job, tmp_path, fake)
    keys = record_keys(tmp_path)
    fake.asked.clear()
    second = run_job(job, tmp_path, fake)
    assert fake.asked == []
    assert record_keys(tmp_path) == keys
    assert second["tasks"] == first["tasks"]


@pytest.mark.parametrize("after", [0, 1, 5, 9, 14, 17, 20])
def test_engine_that_dies_costs_its_cell_only_and_resume_completes_the_run(
    job: Job, fake: Any, tmp_path: Path, after: int
) -> None:
    fake.fail_after = {"ngram-k7": after}
    failed = run_job(job, tmp_path, fake)
    assert failed["run"]["status"] == "failed"
    manifest = read_manifest(tmp_path)
    assert manifest is not None
    (failure,) = manifest["failures"]
    assert "signal 9" in failure["reason"]
    assert failure["task"] == "echo"
    (lost,) = failure["lanes"]
    for lane in job.lanes:
        records = list(read_records(tmp_path / f"records/quality/echo/{lane.id}.jsonl"))
        assert len(records) == 6 or (lane.id == lost and failure["phase"] == "quality")

    fake.fail_after = {}
    resumed = run_job(job, tmp_path, fake)
    assert resumed["run"]["status"] == "complete"
    keys = record_keys(tmp_path)
    assert len(keys) == len(set(keys)) == 3 * 6 + 6 + 2 * 2 * 4
    reference = run_job(job, tmp_path / "uninterrupted", fake)
    assert sorted(keys) == sorted(record_keys(tmp_path / "uninterrupted"))
    assert resumed["tasks"]["echo"]["lanes"].keys() == reference["tasks"]["echo"]["lanes"].keys()


def test_engine_that_dies_again_and_again_is_given_up(job: Job, fake: Any, tmp_path: Path) -> None:
    fake.fail_after, fake.dies_again = {"ngram-k7": 0}, True
    results = run_job(job, tmp_path, fake)
    manifest = read_manifest(tmp_path)
    assert manifest is not None
    assert [failure["task"] for failure in manifest["failures"]][-1] is None
    assert len(manifest["failures"]) == 4  # three new starts
    assert results["tasks"]["echo"]["lanes"]["ar"]["score"] is not None


def test_sessions_add_up_after_a_failure(job: Job, fake: Any, tmp_path: Path) -> None:
    fake.fail_after = {"ngram-k7": 3}
    run_job(job, tmp_path, fake)
    fake.fail_after = {}
    run_job(job, tmp_path, fake)
    manifest = read_manifest(tmp_path)
    assert manifest is not None
    sessions = manifest["sessions"]
    started = sum(session["requests_started"] for session in sessions)
    lost = sum(session["in_flight_at_end"] for session in sessions)
    assert started == len(record_keys(tmp_path)) + lost
    assert lost == 3


def test_engine_that_cannot_load_leaves_the_others(job: Job, fake: Any, tmp_path: Path) -> None:
    fake.fail_to_load = {"ngram-k7"}
    results = run_job(job, tmp_path, fake)
    lanes = results["tasks"]["echo"]["lanes"]
    assert results["run"]["status"] == "failed"
    assert lanes["ar"]["score"] is not None
    assert lanes["strict-ngram-k7"]["score"] is None


def test_no_engine_at_all_still_gives_results_with_nulls(
    job: Job, fake: Any, tmp_path: Path
) -> None:
    fake.fail_to_load = {"ar", "ngram-k7"}
    results = run_job(job, tmp_path, fake)
    assert results["tasks"]["echo"]["lanes"]["ar"]["score"] is None


def test_another_model_never_reuses_a_record(job: Job, fake: Any, tmp_path: Path) -> None:
    run_job(job, tmp_path / "a", fake)
    other = dataclasses.replace(job, fingerprint=["other"])
    run_job(other, tmp_path / "b", fake)
    assert set(record_keys(tmp_path / "a")).isdisjoint(record_keys(tmp_path / "b"))


def test_prompts_are_recorded_once_and_the_same_for_all(
    job: Job, fake: Any, tmp_path: Path
) -> None:
    run_job(job, tmp_path, fake)
    prompts = list(read_records(tmp_path / "records/prompts/echo.jsonl"))
    assert [prompt["doc_id"] for prompt in prompts] == list(range(6))
    assert prompts[0]["prompt"] == "<s><user>q0<assistant>"
    assert prompts[0]["prompt_token_ids"][0] == 0  # one BOS, the template's own
    assert prompts[0]["prompt_token_ids"][1] != 0
    assert prompts[0]["until"] == ["</s>"]


def test_few_shot_prompts_are_the_same_in_every_lane_and_session(
    few_shot_job: Job, fake: Any, tmp_path: Path
) -> None:
    first = run_job(few_shot_job, tmp_path, fake)  # differing prompts would be refused
    assert first["run"]["status"] == "complete"
    prompt = next(read_records(tmp_path / "records/prompts/echo.jsonl"))["prompt"]
    assert prompt.count("t") >= 2
    fake.asked.clear()
    run_job(few_shot_job, tmp_path, fake)
    assert fake.asked == []


def test_engine_of_another_kind_cannot_resume_a_run(job: Job, fake: Any, tmp_path: Path) -> None:
    run_job(job, tmp_path, fake)
    before = record_keys(tmp_path)

    class Other(fake):
        def ready(self) -> Any:
            super().ready()
            self.facts["device"] = "cuda"
            return self

    with pytest.raises(UsageError, match="began with device None and the engine now has cuda"):
        run_job(job, tmp_path, Other)
    assert record_keys(tmp_path) == before


def test_score_that_breaks_costs_its_own_cell_only(
    job: Job, fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (task,) = job.tasks
    score, calls = task.definition.process_results, []

    def breaking(document: Any, results: Any) -> Any:
        calls.append(document)
        if len(calls) == 8:  # within the second lane
            raise KeyError("metric")
        return score(document, results)

    monkeypatch.setattr(task.definition, "process_results", breaking)
    results = run_job(job, tmp_path, fake)
    lanes = results["tasks"]["echo"]["lanes"]
    assert results["run"]["status"] == "failed"
    assert lanes["ar"]["score"] is not None
    assert lanes["strict-ngram-k7"]["score"] is None
    assert lanes["mars-ngram-k7-t0.9"]["score"] is not None
    assert "KeyError" in (tmp_path / "logs" / "failures.log").read_text()


def test_interrupted_round_is_said(job: Job, fake: Any, tmp_path: Path) -> None:
    fake.fail_after = {"ar": 15}
    run_job(job, tmp_path, fake)
    fake.fail_after = {}
    results = run_job(job, tmp_path, fake)
    assert "3 of 4 timed rounds were interrupted and went on later" in str(
        results["tasks"]["echo"]["notes"]
    )


@pytest.mark.parametrize(
    ("changes", "named"),
    [({"max_tokens": 64}, "asks for 64 tokens"), ({"max_model_len": 8}, "context is set to 8")],
)
def test_length_that_does_not_fit_is_refused_before_any_engine(
    job: Job, changes: dict[str, int], named: str
) -> None:
    settings = dataclasses.replace(job.settings, **changes)
    with pytest.raises(UsageError, match=named):
        prepare_prompts(job.tasks[0], job.tokenizer, settings, 6)


def test_prompt_that_is_too_long_loses_its_left_and_says_so(job: Job) -> None:
    settings = dataclasses.replace(job.settings, max_model_len=16)
    for prompt, whole in zip(
        prepare_prompts(job.tasks[0], job.tokenizer, settings, 6),
        job.prompts["echo"],
        strict=True,
    ):
        assert prompt.truncated
        assert not whole.truncated
        assert prompt.token_ids == whole.token_ids[-8:]


def test_each_lane_says_what_memory_its_engine_took(job: Job, fake: Any, tmp_path: Path) -> None:
    fake.fail_to_load = {"ngram-k7"}
    lanes = run_job(job, tmp_path / "run", fake)["lanes"]
    assert [lane["memory"] for lane in lanes] == [
        {"peak_memory_gib": 1.5, "peak_gpu_memory_gib": None},
        None,
        None,
    ]


def test_skipped_documents_are_neither_asked_nor_scored(
    job: Job, fake: Any, tmp_path: Path
) -> None:
    prompts = {"echo": prepare_prompts(job.tasks[0], job.tokenizer, job.settings, 3, None, 8)}
    job = dataclasses.replace(job, skip=8, limits={"echo": 3}, prompts=prompts)
    results = run_job(job, tmp_path, fake)
    records = list(read_records(tmp_path / "records/quality/echo/ar.jsonl"))
    assert [record["doc_id"] for record in records] == [8, 9, 10]
    for record in records:
        assert record["scores"] == {"exact_match,none": float(len(record["text"]) % 2 == 0)}
    assert results["tasks"]["echo"]["n"] == 3


def test_a_cell_that_takes_too_long_fails_and_the_others_go_on(
    job: Job, fake: Any, tmp_path: Path
) -> None:
    class Slow(fake):
        def generate(self, requests: Any, concurrency: int = 1) -> Any:
            assert self.deadline is None or self.deadline > 0
            if self.rule == "strict" and self.deadline is not None:
                raise EngineError("the engine ngram-k7 took longer than was allowed")
            return super().generate(requests, concurrency)

    results = run_job(dataclasses.replace(job, cell_timeout=9.0), tmp_path, Slow)
    lanes = results["tasks"]["echo"]["lanes"]
    assert lanes["strict-ngram-k7"]["score"] is None
    assert lanes["mars-ngram-k7-t0.9"]["score"] is not None
    assert lanes["mars-ngram-k7-t0.9"]["speedup"] is not None
