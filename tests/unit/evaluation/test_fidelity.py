"""The fidelity phase's orchestration, with the fake engine; the figures: tests/unit/analysis."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mars_cli.evaluation.evaluate import evaluate
from mars_cli.evaluation.job import Job
from mars_cli.runs.files import read_records, write_records
from mars_cli.runs.run import Run
from tests.unit.evaluation.conftest import Silent

LANES = ("ar", "strict-ngram-k7", "mars-ngram-k7-t0.9")


def run(job: Job, out: Path, fake: Any) -> dict[str, Any]:
    plan = {"model": {"name": "fake"}, "allow_code_execution": False}
    with Run(out, plan, {}) as opened:
        return evaluate(job, opened, Silent(), make_engine=fake)


def test_the_plain_target_scores_every_answer_once_and_the_same_of_other_lanes_is_copied(
    make_job: Callable[..., Job], tmp_path: Path, fake: Any
) -> None:
    job, out = make_job(fidelity=True), tmp_path / "run"
    results = run(job, out, fake)
    assert {engine for engine, _ in fake.scored} == {"ar"}
    assert len(fake.scored) == 6  # the fake's lanes all answer alike
    prompts = {(p.doc_id, p.sample): p.token_ids for p in job.prompts["echo"]}
    for lane in LANES:
        answers = {
            (r["doc_id"], r["sample"]): r["token_ids"]
            for r in read_records(out / f"records/quality/echo/{lane}.jsonl")
        }
        records = list(read_records(out / f"records/fidelity/echo/{lane}.jsonl"))
        assert {(r["doc_id"], r["sample"]) for r in records} == set(answers)
        assert {r.get("same_as") for r in records} == {None if lane == "ar" else "ar"}
        assert all(len(r["z"]) == len(answers[r["doc_id"], r["sample"]]) for r in records)
        assert results["tasks"]["echo"]["lanes"][lane]["fidelity"]["violations"] == 0
    scored = {tuple(r.prompt_token_ids): r for _, r in fake.scored}
    assert set(scored) == {tuple(ids) for ids in prompts.values()}
    run(job, out, fake)
    assert len(fake.scored) == 6  # nothing again
    sessions = json.loads((out / "manifest.json").read_text())["sessions"]
    assert sessions[0]["requests_started"] == sessions[0]["records"]
    assert sessions[1]["records"] == 0


def test_an_answer_that_differs_is_scored_and_what_is_recorded_serves_the_rest(
    make_job: Callable[..., Job], tmp_path: Path, fake: Any
) -> None:
    job, out = make_job(fidelity=True), tmp_path / "run"
    run(job, out, fake)
    answers, scored = (
        out / f"records/{kind}/echo/strict-ngram-k7.jsonl" for kind in ("quality", "fidelity")
    )
    rows = list(read_records(answers))
    rows[2]["token_ids"] = [7, 7, 7]
    write_records(answers, rows)
    scored.unlink()
    fake.scored.clear()
    run(job, out, fake)
    assert [request.token_ids for _, request in fake.scored] == [[7, 7, 7]]
    found = {r["doc_id"]: r for r in read_records(scored)}
    assert len(found) == 6
    assert [doc for doc, r in found.items() if "same_as" not in r] == [rows[2]["doc_id"]]


def test_at_temperature_above_zero_it_is_left_out_and_said(
    make_job: Callable[..., Job], tmp_path: Path, fake: Any
) -> None:
    results = run(make_job(fidelity=True, temperature=0.7), tmp_path / "run", fake)
    assert fake.scored == []
    found = results["tasks"]["echo"]["lanes"]["mars-ngram-k7-t0.9"]["fidelity"]
    assert found["violations"] is None
    assert "temperature > 0" in found["notes"][0]


def test_it_can_be_left_out(make_job: Callable[..., Job], tmp_path: Path, fake: Any) -> None:
    results = run(make_job(fidelity=False), tmp_path / "run", fake)
    assert fake.scored == []
    found = results["tasks"]["echo"]["lanes"]["ar"]["fidelity"]
    assert found["notes"] == ["fidelity: not measured in this run"]
