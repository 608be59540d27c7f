"""A strict lane that leaves `ar`: alone, where the target's margin tells, and in a batch."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mars_cli.engine.protocol import ScoreRequest
from mars_cli.evaluation.evaluate import evaluate
from mars_cli.evaluation.job import Job
from mars_cli.runs.files import read_records
from mars_cli.runs.run import Run
from tests.unit.evaluation.conftest import Silent

PLAN = {"model": {"name": "fake"}, "allow_code_execution": False}
STRICT = "strict-ngram-k7"


def run_job(job: Job, folder: Path, fake: Any) -> dict[str, Any]:
    with Run(folder, PLAN, {}) as run:
        results = evaluate(job, run, Silent(), make_engine=fake)
    lanes: dict[str, Any] = results["tasks"]["echo"]["lanes"]
    return lanes


def leaving(fake: Any, top: float, *, batched_only: bool = False) -> Any:
    """An engine whose strict lane puts out another second token; `top` is the target's logit."""

    class Leaving(fake):
        def generate(self, requests: Any, concurrency: int = 1) -> Iterator[Any]:
            for one in super().generate(requests, concurrency):
                ids = list(one.token_ids)
                if self.rule == "strict" and (concurrency > 1 or not batched_only):
                    ids[1] = 77
                yield dataclasses.replace(one, token_ids=ids)

        def score(self, requests: list[ScoreRequest]) -> Iterator[tuple[str, list[list[float]]]]:
            for request in requests:
                fake.scored.append((self.spec.name, request))
                yield request.id, [[9.0, top, 5.0, top, 0.2, 1.0] for _ in request.token_ids]

    return Leaving


@pytest.mark.parametrize(("top", "word"), [(9.001, "numerics"), (12.0, "a fault, not numerics")])
def test_margin_tells_numerics_from_a_fault(
    job: Job, fake: Any, tmp_path: Path, top: float, word: str
) -> None:
    lanes = run_job(job, tmp_path, leaving(fake, top))
    (note,) = [n for n in lanes[STRICT]["notes"] if n.startswith("not lossless here: ")]
    assert "4 of 4 timed outputs differ" in note
    assert note.endswith(word)
    assert ("a fault" in note) == (top > 10)
    assert lanes[STRICT]["first_divergence_ratio"] == pytest.approx(9 / top)
    assert lanes["mars-ngram-k7-t0.9"]["first_divergence_ratio"] is None


def test_the_place_is_scored_once_behind_what_both_share(
    job: Job, fake: Any, tmp_path: Path
) -> None:
    run_job(job, tmp_path, leaving(fake, 9.001))
    records = list(read_records(tmp_path / "records/divergence/echo.jsonl"))
    assert [(r["doc_id"], r["at"], r["token"]) for r in records] == [(0, 1, 77), (1, 1, 77)]
    scored = [request for engine, request in fake.scored if engine == "ar"]
    prompt = job.prompts["echo"][0].token_ids
    assert scored[0].prompt_token_ids == [*prompt, 0]
    assert scored[0].token_ids == [77]
    fake.scored.clear()
    run_job(job, tmp_path, leaving(fake, 9.001))
    assert fake.scored == []


def test_batched_answers_are_held_against_the_second_pass(
    job: Job, fake: Any, tmp_path: Path
) -> None:
    lanes = run_job(job, tmp_path, leaving(fake, 9.0, batched_only=True))
    assert lanes[STRICT]["exact_match_ar"] == 1
    assert lanes[STRICT]["batched_match_ar"] == 0
    assert lanes["ar"]["batched_match_ar"] == 1
    (note,) = [note for note in lanes[STRICT]["notes"] if "batched" in note]
    assert note == (
        "not lossless here, batched: 6 of 6 outputs differ from ar's; of ar's own second pass, in "
        "another order, 0 of 6 do"
    )


def test_where_ar_differs_from_itself_as_often_it_is_numerics(
    job: Job, fake: Any, tmp_path: Path
) -> None:
    class Wavering(leaving(fake, 9.0, batched_only=True)):  # type: ignore[misc]
        passes = 0

        def generate(self, requests: Any, concurrency: int = 1) -> Iterator[Any]:
            again = concurrency > 1 and self.spec.name == "ar" and Wavering.passes > 0
            Wavering.passes += self.spec.name == "ar"
            for one in super().generate(requests, concurrency):
                ids = [*one.token_ids[:1], 78, *one.token_ids[2:]] if again else one.token_ids
                yield dataclasses.replace(one, token_ids=ids)

    lanes = run_job(job, tmp_path, Wavering)
    (note,) = [note for note in lanes[STRICT]["notes"] if "batched" in note]
    assert note.startswith("batched: 6 of 6 outputs differ")


def test_the_second_pass_is_last_first_and_only_over_the_first_documents(
    job: Job, fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mars_cli.evaluation.control.DOCUMENTS", 4)
    run_job(job, tmp_path, fake)
    records = list(read_records(tmp_path / "records/control/echo.jsonl"))
    assert [record["doc_id"] for record in records] == [3, 2, 1, 0]
