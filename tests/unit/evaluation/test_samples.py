"""Several samples a document: what is asked for, with which seeds, and how each is scored."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mars_cli.errors import MarsError, UsageError
from mars_cli.evaluation.evaluate import evaluate
from mars_cli.evaluation.job import Job
from mars_cli.evaluation.quality import (
    prepare_prompts,
    refuse_equal_samples,
    request_for,
    request_seed,
)
from mars_cli.runs.files import read_records
from mars_cli.runs.run import Run
from tests.unit.evaluation.conftest import Silent

LANES = ("ar", "strict-ngram-k7", "mars-ngram-k7-t0.9")
PASSES = {"metric: exact_match": "metric: pass@1"}
PASSES_CODE = """
def dataset(**_):
    from datasets import Dataset
    return {"test": Dataset.from_list([{"question": f"q{n}", "answer": ""} for n in range(12)])}

def score(document, results):
    return {"pass@1": float(len(results[0]) == 6)}
"""
# Its filter hands all three answers on: the score is the number of different ones.
TOGETHER = {
    "num_fewshot: 0": "num_fewshot: 0\nrepeats: 3\n"
    "filter_list: [{name: all, filter: [{function: take_first_k, k: 3}]}]"
}
TOGETHER_CODE = PASSES_CODE.replace('"pass@1": float(len(results[0]) == 6)', "**distinct(results)")
TOGETHER_CODE += """
def distinct(results):
    (answers,) = results
    return {"exact_match": float(len(set(answers)))}
"""
MakeJob = Callable[..., Job]


def run_job(job: Job, folder: Path, fake: Any) -> dict[str, Any]:
    plan = {"model": {"name": "fake"}, "allow_code_execution": False, "samples": job.samples}
    with Run(folder, plan, {}) as run:
        return evaluate(job, run, Silent(), make_engine=fake)


def quality(folder: Path, lane: str) -> list[dict[str, Any]]:
    return list(read_records(folder / f"records/quality/echo/{lane}.jsonl"))


def seeds(fake: Any) -> dict[str, int]:
    return {request.id: request.sampling["seed"] for request in fake.requests}


def at(job: Job, doc: int, sample: int) -> Any:
    (found,) = (p for p in job.prompts["echo"] if (p.doc_id, p.sample) == (doc, sample))
    return found


# -- seeds -------------------------------------------------------------------------------------


def test_seed_follows_from_what_is_asked_and_nothing_else(make_job: MakeJob) -> None:
    prompt = at(make_job(samples=2, temperature=1.0), 3, 1)
    seed = request_seed(7, prompt)
    assert 0 <= seed < 2**31
    assert request_seed(7, dataclasses.replace(prompt, token_ids=[1], max_tokens=3)) == seed
    others = [
        request_seed(8, prompt),
        *(
            request_seed(7, dataclasses.replace(prompt, **change))
            for change in ({"task": "other"}, {"doc_id": 4}, {"sample": 0})
        ),
    ]
    assert len({seed, *others}) == 5


def test_seeds_are_spread_over_their_whole_range(make_job: MakeJob) -> None:
    prompt = at(make_job(samples=1, temperature=1.0), 0, 0)
    found = [request_seed(n, prompt) for n in range(200)]
    assert len(set(found)) == 200
    assert min(found) < 2**31 / 10
    assert max(found) > 2**31 * 0.9


def test_greedy_requests_have_no_seed(make_job: MakeJob, fake: Any, tmp_path: Path) -> None:
    run_job(make_job(), tmp_path, fake)
    assert len(fake.requests) == 3 * 6 + 6 + 2 * 2 * 4 + 3
    assert all(request.sampling == {} for request in fake.requests)


def test_a_tasks_own_seed_is_kept(make_job: MakeJob, fake: Any, tmp_path: Path) -> None:
    own = {"do_sample: false": "do_sample: true, temperature: 1.0, seed: 5"}
    run_job(make_job(own), tmp_path, fake)
    assert {request.sampling["seed"] for request in fake.requests} == {5}


def test_prompts_other_settings_stay_beside_the_seed(make_job: MakeJob) -> None:
    prompt = at(make_job({"do_sample: false": "top_p: 0.9"}, temperature=1.0), 0, 0)
    request = request_for(prompt, "r", use_prefix_cache=True, seed=0)
    assert request.sampling == {"top_p": 0.9, "seed": request_seed(0, prompt)}
    assert prompt.sampling == {"top_p": 0.9}


def test_lanes_and_repeats_draw_from_the_same_seeds(
    make_job: MakeJob, fake: Any, tmp_path: Path
) -> None:
    job = make_job(samples=3, temperature=1.0, seed=4)
    run_job(job, tmp_path, fake)
    expected = {(p.doc_id, p.sample): request_seed(4, p) for p in job.prompts["echo"]}
    assert len(set(expected.values())) == 18
    given = seeds(fake)
    for lane in LANES:
        found = {(r["doc_id"], r["sample"]): given[r["key"]] for r in quality(tmp_path, lane)}
        assert found == expected
    for record in read_records(tmp_path / "records/speed/echo.jsonl"):
        assert given[record["key"]] == expected[record["doc_id"], 0]


@pytest.mark.parametrize("after", [0, 5, 17, 20, 36, 40])
def test_resumed_run_asks_for_the_same_seeds(
    make_job: MakeJob, fake: Any, tmp_path: Path, after: int
) -> None:
    job = make_job(samples=3, temperature=1.0)
    run_job(job, tmp_path / "whole", fake)
    whole = {key: seed for key, seed in seeds(fake).items() if not key.startswith("warm-up")}
    fake.requests.clear()
    fake.fail_after = {"ngram-k7": after}
    assert run_job(job, tmp_path / "parts", fake)["run"]["status"] == "failed"
    assert not seeds(fake).keys() >= whole.keys()
    fake.fail_after = {}
    assert run_job(job, tmp_path / "parts", fake)["run"]["status"] == "complete"
    parts = {key: seed for key, seed in seeds(fake).items() if not key.startswith("warm-up")}
    assert parts == whole
    for lane in LANES:
        texts = [
            {r["key"]: r["text"] for r in quality(tmp_path / name, lane)}
            for name in ("whole", "parts")
        ]
        assert texts[0] == texts[1]


# -- what is asked for -------------------------------------------------------------------------


def test_samples_of_a_document_are_the_same_prompt_and_stand_together(make_job: MakeJob) -> None:
    once, thrice = (make_job(samples=n).prompts["echo"] for n in (None, 3))
    assert [(p.doc_id, p.sample) for p in thrice] == [(d, s) for d in range(6) for s in range(3)]
    assert [p.hash for p in thrice] == [p.hash for p in once for _ in range(3)]


def test_samples_override_the_tasks_own_repeats_and_leave_them(make_job: MakeJob) -> None:
    repeats = {"num_fewshot: 0": "num_fewshot: 0\nrepeats: 3"}
    job = make_job(repeats, samples=2)
    assert [p.sample for p in job.prompts["echo"]] == [0, 1] * 6
    (task,) = job.tasks
    again = prepare_prompts(task, job.tokenizer, job.settings, 6)
    assert [p.sample for p in again] == [0, 1, 2] * 6


@pytest.mark.parametrize(
    "filters",
    [
        "{function: take_first_k, k: 3}",
        "{function: majority_vote}, {function: take_first}",
    ],
)
def test_task_that_weighs_several_answers_is_refused(make_job: MakeJob, filters: str) -> None:
    changes = {
        "num_fewshot: 0": "num_fewshot: 0\nrepeats: 3\n"
        f"filter_list: [{{name: vote, filter: [{filters}]}}]"
    }
    with pytest.raises(UsageError, match="--samples 4: the filter vote of echo weighs several"):
        make_job(changes, samples=4, temperature=1.0)
    make_job(changes, temperature=1.0)


def test_equal_samples_are_refused(make_job: MakeJob) -> None:
    greedy = make_job(samples=4).prompts["echo"]
    with pytest.raises(UsageError, match=r"--samples 4: .* temperature 0$") as refused:
        refuse_equal_samples(greedy, 4)
    assert refused.value.hint == "--temperature 1"
    own = {"do_sample: false": "temperature: 1.0, seed: 5"}
    seeded = make_job(own, samples=4).prompts["echo"]
    with pytest.raises(UsageError, match=r"--samples 4: .* with a seed of its task$") as refused:
        refuse_equal_samples(seeded, 4)
    assert refused.value.hint == "choose a task that sets no seed of its own"


def test_samples_that_can_differ_are_not_refused(make_job: MakeJob) -> None:
    greedy = make_job(samples=4).prompts["echo"]
    drawn = make_job(samples=4, temperature=0.7).prompts["echo"]
    refuse_equal_samples(drawn, 4)
    refuse_equal_samples([*greedy, *drawn], 4)
    refuse_equal_samples(greedy, 1)
    refuse_equal_samples(greedy, None)


def test_speed_takes_each_document_once(make_job: MakeJob, fake: Any, tmp_path: Path) -> None:
    run_job(make_job(samples=3, temperature=1.0), tmp_path, fake)
    records = list(read_records(tmp_path / "records/speed/echo.jsonl"))
    assert len(records) == 2 * 2 * 4
    assert {record["doc_id"] for record in records} == {0, 1}


def test_other_number_of_samples_is_another_run(
    make_job: MakeJob, fake: Any, tmp_path: Path
) -> None:
    run_job(make_job(samples=3, temperature=1.0), tmp_path, fake)
    with pytest.raises(UsageError, match=r"different plan \(samples; there samples is 3, now 2"):
        run_job(make_job(samples=2, temperature=1.0), tmp_path, fake)


# -- scores ------------------------------------------------------------------------------------


def test_every_sample_has_the_score_of_its_own_answer(
    make_job: MakeJob, fake: Any, tmp_path: Path
) -> None:
    results = run_job(make_job(samples=3, temperature=1.0), tmp_path, fake)
    differing = 0
    for lane in LANES:
        records = quality(tmp_path, lane)
        assert sorted((r["doc_id"], r["sample"]) for r in records) == [
            (doc, sample) for doc in range(6) for sample in range(3)
        ]
        for record in records:
            assert record["scores"] == {"exact_match,none": float(len(record["text"]) % 2 == 0)}
        by_document = {
            doc: {r["scores"]["exact_match,none"] for r in records if r["doc_id"] == doc}
            for doc in range(6)
        }
        differing += sum(len(scores) == 2 for scores in by_document.values())
        mean = sum(r["scores"]["exact_match,none"] for r in records) / 18
        assert results["tasks"]["echo"]["lanes"][lane]["score"] == pytest.approx(mean)
    assert differing > 0
    assert (results["tasks"]["echo"]["n"], results["tasks"]["echo"]["samples"]) == (6, 3)


def test_pass_at_n_is_the_share_of_documents_that_any_sample_gets_right(
    make_job: MakeJob, fake: Any, tmp_path: Path
) -> None:
    job = make_job(PASSES, PASSES_CODE, samples=3, temperature=1.0)
    found = run_job(job, tmp_path, fake)["tasks"]["echo"]["lanes"]["ar"]
    right = {r["doc_id"] for r in quality(tmp_path, "ar") if len(r["text"]) == 6}
    assert 0 < len(right) < 6
    assert found["metrics"]["pass@3,none"]["score"] == pytest.approx(len(right) / 6)
    assert found["score"] == found["metrics"]["pass@1,none"]["score"]
    assert f"pass@3,none: ar {len(right) / 6:.3f}" in (tmp_path / "report.md").read_text()


def test_repeats_of_the_task_itself_are_scored_together(
    make_job: MakeJob, fake: Any, tmp_path: Path
) -> None:
    job = make_job(TOGETHER, TOGETHER_CODE, temperature=1.0)
    results = run_job(job, tmp_path, fake)
    records = quality(tmp_path, "ar")
    assert [(r["doc_id"], r["sample"]) for r in records] == [
        (doc, sample) for doc in range(6) for sample in range(3)
    ]
    distinct = {doc: {r["text"] for r in records if r["doc_id"] == doc} for doc in range(6)}
    assert max(map(len, distinct.values())) > 1
    for record in records:
        assert record["scores"] == {"exact_match,all": len(distinct[record["doc_id"]])}
    assert results["tasks"]["echo"]["samples"] is None


def test_equal_samples_of_one_task_among_others_are_said(
    make_job: MakeJob, fake: Any, tmp_path: Path
) -> None:
    notes = [
        run_job(make_job(samples=2, temperature=t), tmp_path / str(t), fake)["tasks"]["echo"][
            "notes"
        ]
        for t in (0.0, 1.0)
    ]
    said = "no chance is in this task's decoding: all samples of a document are equal"
    assert [said in found for found in notes] == [True, False]


def test_answers_to_other_prompts_are_never_scored(
    make_job: MakeJob, fake: Any, tmp_path: Path
) -> None:
    job = make_job(samples=2, temperature=1.0)
    job = dataclasses.replace(job, settings=dataclasses.replace(job.settings, max_tokens=5))
    results = run_job(job, tmp_path, fake)
    assert results["run"]["status"] == "failed"
    assert "the prompts of echo are not those that this run began with" in str(
        results["tasks"]["echo"]["notes"]
    )
    assert results["tasks"]["echo"]["lanes"]["ar"]["score"] is None
    assert MarsError.__name__ in (tmp_path / "logs" / "failures.log").read_text()


def test_stops_that_only_the_rule_accepts_are_recorded(
    make_job: MakeJob, fake: Any, tmp_path: Path
) -> None:
    results = run_job(make_job(samples=3, temperature=1.0), tmp_path, fake)
    lanes = results["tasks"]["echo"]["lanes"]
    short = sum(len(r["text"]) == 2 for r in quality(tmp_path, LANES[2]))
    assert 0 < short < 18
    assert lanes[LANES[2]]["relaxed_stop_share"] == pytest.approx(short / 18)
    assert lanes[LANES[1]]["relaxed_stop_share"] == 0.0
    assert lanes["ar"]["relaxed_stop_share"] is None
    note = f"{short / 18:.0%} of the answers met an end-of-turn token that only the rule accepts"
    assert note in lanes[LANES[2]]["notes"]
