"""Scores and recovery: worked figures, pairing, samples, what the data do not exclude."""

from __future__ import annotations

import pytest

from mars_cli.analysis.scores import is_safe, largest_loss, primary
from tests.unit.analysis.built import (
    MARS,
    METRIC,
    STRICT,
    answer,
    lane_of,
    results,
    sampled,
    scored,
    task,
)


@pytest.mark.parametrize(("right", "note"), [(9, "low_base"), (10, None)])
def test_recovery_needs_ten_documents_that_the_baseline_got_right(right, note):
    row = lane_of(results(task({"ar": scored(right), MARS: scored(right)})), MARS)
    assert row["recovery_note"] == note
    assert (row["recovery"] is None) == (note == "low_base")
    assert any("got 9 of 20 documents right" in n for n in row["notes"]) == bool(note)


def test_unscored_answers_are_said_to_be_unscored():
    unscored = [answer(doc, None) for doc in range(12)]
    row = lane_of(results(task({"ar": unscored, MARS: unscored})), MARS)
    assert (row["score"], row["recovery"], row["recovery_note"]) == (None, None, "not_scored")
    assert row["acceptance_length"] == 2.0
    assert "score: the answers have no scores" in row["notes"]


def test_recovery_pairs_documents_that_both_lanes_have():
    # MARS was interrupted after 15 documents, all right; ar has 20 right of 40, 15 right of those.
    row = lane_of(results(task({"ar": scored(20, 40), MARS: scored(15, 15)})), MARS)
    assert (row["score"], row["recovery"], row["n_paired"]) == (1.0, 100.0, 15)
    assert "recovery: over 15 documents only, those both lanes have" in row["notes"]


def test_samples_of_a_document_are_averaged_and_documents_are_the_unit():
    # ar: every document 1 of 2 samples right; MARS: document 0 both, the others 1 of 2.
    ar = [answer(d, float(s), sample=s) for d in range(24) for s in (0, 1)]
    mars = [answer(d, float(s or d == 0), sample=s) for d in range(24) for s in (0, 1)]
    row = lane_of(results(task({"ar": ar, MARS: mars})), MARS)
    assert row["n_paired"] == 24
    assert row["score"] == pytest.approx(12.5 / 24)
    assert row["recovery"] == pytest.approx(100 * 12.5 / 12)
    assert row["recovery_ci"][0] < 100 < row["recovery_ci"][1]
    assert row["p_value"] is None
    assert "p value: McNemar's test needs one 0/1 score a document" in row["notes"]


def test_few_right_on_average_over_samples_is_a_low_base():
    # 19 documents with 1 of 2 samples right: 9.5 of 20 documents.
    quality = {lane: sampled([1] * 19 + [0], 2) for lane in ("ar", MARS)}
    row = lane_of(results(task(quality, samples=2)), MARS)
    assert row["recovery_note"] == "low_base"
    assert any("got 9.5 of 20 documents right, averaged over samples" in n for n in row["notes"])


def test_samples_that_only_one_lane_has_are_left_out_of_recovery():
    # The second sample of every document is missing in MARS; ar's first ones are all right.
    ar = sampled([1] * 20, 2)
    mars = [record for record in sampled([1] * 20, 2) if record["sample"] == 0]
    row = lane_of(results(task({"ar": ar, MARS: mars}, samples=2)), MARS)
    assert (row["recovery"], row["n_paired"], row["p_value"]) == (100.0, 20, 1.0)
    assert "recovery: over 20 answers only, those both lanes have" in row["notes"]
    complete = lane_of(results(task({"ar": ar, MARS: ar}, samples=2)), MARS)
    assert not any("both lanes have" in note for note in complete["notes"])


def test_a_document_score_shared_by_its_samples_is_one_score():
    # A task that scores its own repeats together: three records a document, all with its score.
    def together(right):
        return [answer(d, float(d < right), sample=s) for d in range(20) for s in range(3)]

    once = lane_of(results(task({"ar": scored(15), MARS: scored(12)})), MARS)
    thrice = lane_of(results(task({"ar": together(15), MARS: together(12)})), MARS)
    for key in ("score", "score_ci", "recovery", "recovery_ci", "p_value", "n_paired", "metrics"):
        assert thrice[key] == once[key]
    assert thrice["p_value"] == 0.25  # three documents lost, none gained: 2 / 2**3
    assert not any(note.startswith("p value") for note in thrice["notes"])


PASS_1, PASS_4 = "pass@1,none", "pass@4,none"


def passing(rights, n=4):
    return sampled(rights, n, metric=PASS_1)


def test_pass_at_n_is_a_metric_like_any_other():
    # ar: 16 documents with 1 of 4 right, 4 with none. MARS: 12 with 2 of 4 right, 8 with none.
    quality = {"ar": passing([1] * 16 + [0] * 4), MARS: passing([2] * 12 + [0] * 8)}
    found = results(task(quality, metric=PASS_1, samples=4))
    ar, mars = lane_of(found, "ar"), lane_of(found, MARS)
    assert list(mars["metrics"]) == [PASS_1, PASS_4]
    assert (ar["score"], mars["score"]) == (0.2, 0.3)
    ar_pass, mars_pass = ar["metrics"][PASS_4], mars["metrics"][PASS_4]
    assert (ar_pass["score"], ar_pass["recovery"], mars_pass["score"]) == (0.8, 100.0, 0.6)
    assert mars_pass["recovery"] == pytest.approx(75.0)
    assert mars_pass["p_value"] == 0.125  # four documents lost, none gained: 2 / 2**4
    # The same documents, each answered once: what pass@4 is to four answers.
    once = lane_of(results(task({"ar": scored(16), MARS: scored(12)})), MARS)
    assert mars_pass == once["metrics"][METRIC]
    assert mars_pass["recovery_ci"][0] < 75 < mars_pass["recovery_ci"][1]
    # Of the primary one 4 of 20 documents right are too few.
    assert mars["recovery_note"] == "low_base"
    assert found["tasks"]["mars_products"]["samples"] == 4


def test_documents_short_of_samples_are_left_out_of_pass_at_n_and_said():
    short = [r for r in passing([1] * 20) if r["doc_id"] >= 3 or r["sample"] < 2]
    unscored = [r | {"scores": None} if r["doc_id"] == 7 and r["sample"] == 3 else r for r in short]
    quality = {"ar": passing([1] * 20), MARS: unscored}
    row = lane_of(results(task(quality, metric=PASS_1, samples=4)), MARS)
    assert (row["metrics"][PASS_4]["score"], row["metrics"][PASS_4]["n_paired"]) == (1.0, 16)
    assert (
        f"{PASS_4}: 4 of 20 documents have fewer than 4 scored samples and do not count"
        in row["notes"]
    )
    ar = lane_of(results(task(quality, metric=PASS_1, samples=4)), "ar")
    assert not any("fewer than" in note for note in ar["notes"])


def test_pass_at_n_without_a_document_that_has_it_is_null():
    quality = {"ar": passing([1] * 20), MARS: passing([1] * 20, n=3)}
    found = results(task(quality, metric=PASS_1, samples=4))
    values = lane_of(found, MARS)["metrics"][PASS_4]
    assert (values["score"], values["recovery"], values["recovery_note"]) == (
        None,
        None,
        "not_scored",
    )
    assert any("20 of 20 documents have fewer" in note for note in lane_of(found, MARS)["notes"])
    absent = lane_of(found, STRICT)
    assert absent["metrics"][PASS_4]["score"] is None
    assert not any("fewer than" in note for note in absent["notes"])


@pytest.mark.parametrize(
    ("records", "fields"),
    [
        (passing([1] * 20), {}),  # scored together by the task, or a single one
        (passing([1] * 20, n=1), {"samples": 1}),
        (sampled([1] * 20, 4), {"samples": 4}),  # another metric
        (sampled([1] * 20, 4, metric="pass@10,none"), {"samples": 4}),
        (
            [answer(d, 0.5, sample=s, metric=PASS_1) for d in range(20) for s in range(4)],
            {"samples": 4},
        ),
    ],
    ids=["no --samples", "one sample", "other metric", "other k", "graded"],
)
def test_pass_at_n_is_only_of_several_samples_graded_right_or_wrong(records, fields):
    metric = next(iter(records[0]["scores"]))
    row = lane_of(results(task({"ar": records}, metric=metric, **fields)), "ar")
    assert list(row["metrics"]) == [metric]


def test_every_filter_of_pass_at_1_gets_its_own():
    def two(record):
        score = record["scores"][PASS_1]
        return record | {"scores": {PASS_1: score, "pass@1,strict": 0.0}}

    quality = {"ar": [two(record) for record in passing([1] * 12 + [0] * 8)]}
    row = lane_of(results(task(quality, metric=PASS_1, samples=4)), "ar")
    scores = {name: values["score"] for name, values in row["metrics"].items()}
    assert scores == {PASS_1: 0.15, "pass@1,strict": 0.0, PASS_4: 0.6, "pass@4,strict": 0.0}


def test_a_metric_better_when_lower_is_turned_over():
    ar = [answer(d, 2.0 + d % 2) for d in range(12)]
    mars = [answer(d, 4.0 + d % 3) for d in range(12)]
    given = task({"ar": ar, MARS: mars}, higher_is_better=False)
    row = lane_of(results(given), MARS)
    assert (row["score"], row["recovery"]) == (5.0, 50.0)
    assert row["recovery_ci"][0] < 50 < row["recovery_ci"][1]


def test_every_metric_gets_a_row_beside_the_primary():
    def two(doc):
        return answer(doc, None) | {"scores": {METRIC: 1.0, "acc,strict": float(doc % 2)}}

    quality = {"ar": [two(d) for d in range(24)], MARS: [two(d) for d in range(24)]}
    row = lane_of(results(task(quality)), MARS)
    assert list(row["metrics"]) == [METRIC, "acc,strict"]
    assert row["metrics"]["acc,strict"]["score"] == 0.5
    assert row["score"] == row["metrics"][METRIC]["score"] == 1.0


def test_equal_graded_scores_have_recovery_but_no_interval_and_say_why():
    quality = {lane: [answer(d, 0.5) for d in range(12)] for lane in ("ar", MARS)}
    row = lane_of(results(task(quality)), MARS)
    assert (row["recovery"], row["recovery_ci"], row["score_ci"]) == (100.0, None, None)
    assert any(n.startswith("recovery: every document gives the same ratio") for n in row["notes"])


@pytest.mark.parametrize(
    ("recovery_ci", "loss", "safe"),
    [
        ([97.25, 102.5], 2.75, False),
        ([98.0, 101.0], 2.0, True),
        ([97.5, 99.0], 2.5, False),
        ([101.0, 110.0], 0.0, True),
        ([0.0, 40.0], 100.0, False),
        (None, None, None),
    ],
)
def test_the_lower_end_says_what_may_be_lost_and_whether_that_is_safe(recovery_ci, loss, safe):
    assert largest_loss(recovery_ci) == loss
    assert is_safe(recovery_ci) is safe


def test_a_loss_that_is_not_significant_is_not_safe():
    # Nothing lost and p = 1 in both; 15 right documents cannot exclude a loss, 900 can.
    few, many = (
        lane_of(results(task({"ar": scored(n, n), MARS: scored(n, n)})), MARS) for n in (15, 900)
    )
    assert (few["recovery"], few["p_value"]) == (many["recovery"], many["p_value"]) == (100.0, 1.0)
    assert (few["safe"], many["safe"]) == (False, True)
    assert few["largest_loss"] == pytest.approx(100 - few["recovery_ci"][0])
    assert few["largest_loss"] > 10
    assert many["largest_loss"] < 1
    assert results()["safe_recovery"] == 98.0


def test_without_an_interval_nothing_is_called_safe_or_unsafe():
    found = results(task({"ar": scored(9), MARS: scored(9)}))
    for lane in ("ar", STRICT, MARS):
        row = lane_of(found, lane)
        assert (row["recovery_ci"], row["largest_loss"], row["safe"]) == (None, None, None)


def test_p_values_are_adjusted_over_all_tasks_and_lanes_that_have_one():
    # Of 15 right documents six are lost (2 / 2**6), seven (2 / 2**7), none (1): times 2, 3 and 1.
    first = task({"ar": scored(15), STRICT: scored(15), MARS: scored(9)}, name="first")
    second = task({"ar": scored(15), MARS: scored(8)}, name="second")
    graded = task({"ar": scored(15), MARS: [answer(d, 0.5) for d in range(20)]}, name="graded")
    found = results(first, second, graded)
    assert [lane_of(found, lane, "first")["p_value"] for lane in (STRICT, MARS)] == [1.0, 1 / 32]
    assert [lane_of(found, lane, "first")["p_value_holm"] for lane in (STRICT, MARS)] == [
        1.0,
        2 / 32,
    ]
    assert lane_of(found, MARS, "second")["p_value_holm"] == 3 / 64
    for name, lane in [("first", "ar"), ("second", STRICT), ("graded", MARS)]:
        row = lane_of(found, lane, name)
        assert (row["p_value"], row["p_value_holm"]) == (None, None)


def test_one_comparison_needs_no_adjustment():
    row = lane_of(results(task({"ar": scored(15), MARS: scored(9)})), MARS)
    assert row["p_value_holm"] == row["p_value"] == 1 / 32


# -- scores that are no mean over documents ----------------------------------------------------

TER = "ter,none"


def edited(edits, words=(10,) * 20, **fields):
    return [
        answer(doc, None, metric=TER, **fields)
        | {"scores": {TER: None}, "parts": {TER: {"ter": [n, length]}}}
        for doc, (n, length) in enumerate(zip(edits, words, strict=False))
    ]


def test_corpus_score_is_of_sums_over_documents():
    words = [5, 45] * 10
    ar, mars = edited([1, 3] * 10, words), edited([0, 10] * 10, words)
    given = task({"ar": ar, MARS: mars}, metric=TER, higher_is_better=False)
    found = results(given)
    row = lane_of(found, MARS)
    assert (lane_of(found, "ar")["score"], lane_of(found, "ar")["recovery"]) == (8.0, 100.0)
    assert (row["score"], row["recovery"]) == (20.0, pytest.approx(40.0))  # turned over: 8 / 20
    assert row["score_ci"][0] < 20 < row["score_ci"][1]
    assert row["recovery_ci"][0] < 40 < row["recovery_ci"][1] < 100
    assert (row["safe"], row["n_paired"]) == (False, 20)
    assert row["largest_loss"] == pytest.approx(100 - row["recovery_ci"][0])
    assert (row["p_value"], row["recovery_note"]) == (None, None)
    assert "p value: McNemar's test needs one 0/1 score a document" in row["notes"]
    assert list(row["metrics"]) == [TER]


def test_recovery_of_a_corpus_score_pairs_documents_that_both_lanes_have():
    ar, mars = edited([1] * 10 + [5] * 10), edited([2] * 10)
    given = task({"ar": ar, MARS: mars}, metric=TER, higher_is_better=False)
    row = lane_of(results(given), MARS)
    assert (row["score"], row["recovery"], row["n_paired"]) == (20.0, 50.0, 10)
    assert "recovery: over 10 documents only, those both lanes have" in row["notes"]


def test_answer_without_its_part_does_not_count():
    mars = edited([1] * 20)
    mars[4]["parts"] = {TER: {"ter": None}}
    given = task({"ar": edited([1] * 20), MARS: mars}, metric=TER, higher_is_better=False)
    row = lane_of(results(given), MARS)
    assert (row["score"], row["recovery"], row["recovery_ci"]) == (10.0, 100.0, None)
    assert "score: 1 of 20 answers have no score and do not count" in row["notes"]
    assert "recovery: over 19 documents only, those both lanes have" in row["notes"]


def test_what_is_not_computed_here_is_null_and_names_its_function():
    def own(doc, acc):
        return answer(doc, None) | {
            "scores": {"own,none": None, METRIC: acc},
            "parts": {"own,none": {"pearson": None}},
        }

    quality = {lane: [own(doc, 1.0) for doc in range(20)] for lane in ("ar", MARS)}
    row = lane_of(results(task(quality, metric="own,none")), MARS)
    assert (row["score"], row["recovery_note"]) == (None, "not_scored")
    assert "score: own,none is aggregated by pearson, which is not computed here" in row["notes"]
    assert row["metrics"][METRIC]["recovery"] == 100.0
    row = lane_of(results(task(quality)), MARS)
    assert row["recovery"] == 100.0
    assert (
        "not computed here, by the function that aggregates it: own,none (pearson)"
        in (row["notes"])
    )


def test_primary_metric_is_one_that_was_scored():
    quality = {"ar": [], MARS: [answer(0, 1.0, metric="pass@1,none")]}
    assert primary(quality, "pass_at_k,none") == "pass@1,none"
    assert primary(quality, "pass@1,none") == "pass@1,none"
    assert primary({"ar": [answer(0, None)]}, "pass_at_k,none") == "pass_at_k,none"
