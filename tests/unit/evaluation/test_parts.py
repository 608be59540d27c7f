"""Metrics that are no mean over documents come out in results.json as lm-eval has them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lm_eval.evaluator
import numpy as np
import pytest
from lm_eval.api.metrics import f1_score, mean, median, nanmean

from mars_cli.evaluation.evaluate import Job, evaluate
from mars_cli.evaluation.parts import keep, score
from mars_cli.runs.files import read_records
from mars_cli.runs.run import Run
from tests.unit.evaluation.conftest import CODE, Silent

LANES = ("ar", "strict-ngram-k7", "mars-ngram-k7-t0.9")
MakeJob = Callable[..., Job]

# Answers are 2 to 6 letters x: so many words of a reference are lost, with half as many others.
METRICS = """metric_list:
  - {metric: bleu, aggregation: bleu, higher_is_better: true}
  - {metric: chrf, aggregation: chrf, higher_is_better: true}
  - {metric: chrf++, aggregation: chrf++, higher_is_better: true}
  - {metric: ter, aggregation: ter, higher_is_better: false}
  - {metric: several, aggregation: bleu, higher_is_better: true}
  - {metric: said, aggregation: f1, higher_is_better: true}
  - {metric: instructions, aggregation: !function echo.flat, higher_is_better: true}
  - {metric: "4096", aggregation: !function echo.present, higher_is_better: true}
  - {metric: "8192", aggregation: !function echo.present, higher_is_better: true}
  - {metric: sometimes, aggregation: nanmean, higher_is_better: true}
  - {metric: own_mean, aggregation: !function echo.own_mean, higher_is_better: true}
  - {metric: own, aggregation: !function echo.root, higher_is_better: true}"""
OLD_METRICS = "metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]"
SCORING = """
import numpy

def score(document, results):
    number, cut = int(document["question"][1:]), len(results[0])
    words = "the old cat and a dog ran far off into their warm night".split()
    reference = " ".join(words[number % 3:])
    answer = " ".join(["red"] * (cut // 2) + reference.split()[cut:])
    met = [bool((number + cut + place) % 3) for place in range(1 + number % 3)]
    share = numpy.float32(cut / 8)
    return {
        "bleu": (reference, answer), "chrf": (reference, answer), "chrf++": (reference, answer),
        "ter": (reference, answer),
        "several": ([reference, "a red cat"] + (["red"] if number else []), [answer]),
        "said": (number % 2, numpy.int64(cut > 2)), "instructions": met,
        "4096": -1 if number % 2 else share, "8192": -1.0,
        "sometimes": float("nan") if number == 1 else share, "own_mean": share, "own": cut,
    }

def flat(values):
    every = [one for value in values for one in value]
    return sum(every) / len(every)

def present(values):
    found = [value for value in values if value != -1]
    return sum(found) / len(found) if found else -1

def own_mean(values):
    return float(numpy.mean(values))

def root(values):
    return sum(value ** 2 for value in values) ** 0.5
"""
MANY = {OLD_METRICS: METRICS}
MANY_CODE = CODE[: CODE.index("def score")] + SCORING


def run_job(job: Job, folder: Path, fake: Any) -> dict[str, Any]:
    plan = {"model": {"name": "fake"}, "allow_code_execution": False, "samples": job.samples}
    with Run(folder, plan, {}) as run:
        return evaluate(job, run, Silent(), make_engine=fake)


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What lm-eval itself gave for the task, once a lane."""
    found: list[dict[str, Any]] = []
    evaluate = lm_eval.evaluator.evaluate

    def kept(*given: Any, **more: Any) -> Any:
        results = evaluate(*given, **more)
        found.append(results["results"]["echo"])
        return results

    monkeypatch.setattr(lm_eval.evaluator, "evaluate", kept)
    return found


def quality(folder: Path, lane: str) -> list[dict[str, Any]]:
    return list(read_records(folder / f"records/quality/echo/{lane}.jsonl"))


def test_every_metric_is_lm_evals_own(
    make_job: MakeJob, fake: Any, tmp_path: Path, theirs: list[dict[str, Any]]
) -> None:
    results = run_job(make_job(MANY, MANY_CODE), tmp_path, fake)
    task = results["tasks"]["echo"]
    assert task["metric"] == "bleu,none"
    for lane, own in zip(LANES, theirs, strict=True):
        row = task["lanes"][lane]
        assert row["score"] == row["metrics"]["bleu,none"]["score"]
        assert list(row["metrics"]) == [key for key in own if key.endswith(",none")][::2]
        for name in row["metrics"].keys() - {"own,none", "8192,none"}:
            assert row["metrics"][name]["score"] == pytest.approx(own[name]), name
            assert 0 < own[name] < 100
        assert own["8192,none"] == -1
        assert row["metrics"]["8192,none"]["score"] is None
        assert row["metrics"]["own,none"]["score"] is None
        assert (
            "not computed here, by the function that aggregates it: own,none (root)" in row["notes"]
        )


def test_lanes_that_answer_otherwise_have_a_recovery_with_an_interval(
    make_job: MakeJob, fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate = fake.generate

    def longer(self: Any, requests: Any, concurrency: int = 1) -> Any:
        for n, found in enumerate(generate(self, requests, concurrency)):
            more = "xx" * (self.rule == "mars" and n % 2)
            yield dataclasses.replace(found, text=found.text + more)

    monkeypatch.setattr(fake, "generate", longer)
    lanes = run_job(make_job(MANY, MANY_CODE), tmp_path, fake)["tasks"]["echo"]["lanes"]
    names = ("bleu,none", "chrf,none", "chrf++,none", "ter,none", "several,none")
    for name in names:
        ar, strict, mars = (lanes[lane]["metrics"][name] for lane in LANES)
        quotient = 100 * mars["score"] / ar["score"]
        expected = 100**2 / quotient if name == "ter,none" else quotient
        assert mars["recovery"] == pytest.approx(expected)
        assert mars["recovery"] < 100
        assert mars["recovery_ci"][0] < mars["recovery"] < mars["recovery_ci"][1]
        assert (ar["recovery"], strict["recovery"], strict["recovery_ci"]) == (100, 100, None)
    assert "p value: McNemar's test needs one 0/1 score a document" in lanes[LANES[2]]["notes"]


def test_records_hold_the_parts_as_plain_numbers(
    make_job: MakeJob, fake: Any, tmp_path: Path
) -> None:
    run_job(make_job(MANY, MANY_CODE), tmp_path, fake)
    for record in quality(tmp_path, "ar"):
        scores, parts = record["scores"], record["parts"]
        assert list(parts) == [name for name in scores if name in parts]
        assert all(scores[name] is None for name in parts)
        assert scores["own_mean,none"] == len(record["text"]) / 8
        assert (scores["4096,none"] is None) == bool(record["doc_id"] % 2)
        assert len(parts["bleu,none"]["bleu"]) == 10
        met = parts["instructions,none"]["flattened_mean"]
        assert met[0] <= met[1] == 1 + record["doc_id"] % 3
        assert parts["own,none"] == {"root": None}


def test_samples_are_scored_each_on_its_own_and_weigh_alike(
    make_job: MakeJob, fake: Any, tmp_path: Path
) -> None:
    results = run_job(make_job(MANY, MANY_CODE, samples=2, temperature=1.0), tmp_path, fake)
    records = quality(tmp_path, "ar")
    assert len({tuple(r["parts"]["ter,none"]["ter"]) for r in records if r["doc_id"] == 1}) == 2
    edits, words = (sum(r["parts"]["ter,none"]["ter"][n] for r in records) for n in (0, 1))
    found = results["tasks"]["echo"]["lanes"]["ar"]["metrics"]["ter,none"]["score"]
    assert found == pytest.approx(100 * edits / words)


def test_lm_evals_own_scoring_of_a_reference_is_kept_as_well(
    make_job: MakeJob, fake: Any, tmp_path: Path, theirs: list[dict[str, Any]]
) -> None:
    # Without a function of the task's own lm-eval hands on [reference, answer].
    listed = METRICS[: METRICS.index("  - {metric: several")].rstrip()
    changes = {OLD_METRICS: listed, "process_results: !function echo.score\n": ""}
    code = CODE.replace('"answer": f"a{n}"', '"answer": "x" * (3 + n % 3)')
    row = run_job(make_job(changes, code), tmp_path, fake)["tasks"]["echo"]["lanes"]["ar"]
    for name in ("bleu", "chrf", "chrf++", "ter"):
        own = theirs[0][f"{name},none"]
        assert row["metrics"][f"{name},none"]["score"] == pytest.approx(own)
    assert theirs[0]["chrf,none"] > 0


# -- what is kept ------------------------------------------------------------------------------


def test_score_is_a_finite_number_of_any_type() -> None:
    for value in (1, True, 1.0, np.float32(1), np.int64(1), np.bool_(True), np.array(1)):
        assert score(value) == 1.0
    for nothing in (None, "1", math.nan, math.inf, [1], (1, 2), np.array([1, 2])):
        assert score(nothing) is None


def test_numbers_that_lm_eval_averages_stay_scores() -> None:
    assert keep(mean, [1, 0, math.nan], math.nan) == (None, [1.0, 0.0, None])
    assert keep(nanmean, [1, 0, math.nan], 0.5) == (None, [1.0, 0.0, None])


def test_own_function_is_taken_for_a_mean_only_if_it_gives_one() -> None:
    def own(values: list[float]) -> float:
        return sum(values)

    assert keep(own, [0, 1, 1], 2 / 3) == (None, [0.0, 1.0, 1.0])
    assert keep(own, [-1, 1, 0], 0.5) == (None, [None, 1.0, 0.0])
    assert keep(own, [-1, -1], -1) == (None, [None, None])
    assert keep(own, [0, 1, 1], 2) == ("own", [None, None, None])
    assert keep(own, [[1, 0], [0, 0, 1]], 0.4) == ("flattened_mean", [[1, 2], [1, 3]])
    assert keep(own, [[1, 0], [0, 0, 1]], 5 / 12) == ("own", [None, None])  # mean of means
    assert keep(own, [["a"], ["b"]], 0.5) == ("own", [None, None])
    assert keep(own, [("a", 1), ("b", 0)], "N/A") == ("own", [None, None])


def test_aggregation_that_is_not_ours_keeps_its_name_and_no_parts() -> None:
    assert keep(median, [1, 2, 5], 2) == ("median", [None, None, None])
    labels = [("yes", "yes"), ("no", "yes")]
    assert keep(f1_score, labels, 0.5) == ("f1_score", [None, None])


def test_parts_that_do_not_give_lm_evals_number_are_not_kept() -> None:
    pairs = [(1, 1), (0, 1), (1, 0)]
    assert keep(f1_score, pairs, f1_score(pairs)) == ("f1", [[1, 0, 0], [0, 1, 0], [0, 0, 1]])
    assert keep(f1_score, pairs, 0.7) == ("f1_score", [None, None, None])
