"""Corpus scores: the same as sacrebleu's and sklearn's, and intervals that cover."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from scipy.stats import t as student

from mars_cli.analysis import corpus

WORDS = [first + rest for first in "bcdfg" for rest in ("a", "ed", "ick", "o.")]


def texts(seed, n, longest, lengths=(None,)):
    """References, and answers that keep some of their words; of `lengths` in characters."""
    draw = random.Random(seed)
    references = [
        " ".join(draw.choices(WORDS, k=draw.randint(1, longest))) for _ in range(n - 1)
    ] + ["the end"]
    answers = [
        " ".join(w if draw.random() < 0.7 else draw.choice(WORDS) for w in one.split())[
            : draw.choice(lengths)
        ]
        for one in references
    ]
    return references, answers


METRICS = {
    "bleu": ("BLEU", {}),
    "chrf": ("CHRF", {}),
    "chrf++": ("CHRF", {"word_order": 2}),
    "ter": ("TER", {}),
}


def counted(name, references, answers):
    import sacrebleu.metrics

    kind, settings = METRICS[name]
    metric = getattr(sacrebleu.metrics, kind)(**settings)
    return metric, metric._extract_corpus_statistics(answers, [references])


# -- scores ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize(("n", "longest"), [(40, 14), (6, 14), (6, 3), (2, 1)])
def test_score_is_sacrebleus_own(name, n, longest):
    for seed in range(12):
        references, answers = texts(seed, n, longest, lengths=(None, 7, 0))
        metric, parts = counted(name, references, answers)
        expected = metric.corpus_score(answers, [references]).score
        assert corpus.score(name, parts).value == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", METRICS)
def test_nothing_answered_is_the_worst_score_not_an_unknown_one(name):
    metric, parts = counted(name, ["the cat sat", "a dog ran"], ["", ""])
    assert metric.corpus_score(["", ""], [["the cat sat", "a dog ran"]]).score == (
        corpus.score(name, parts).value
    )
    assert corpus.score(name, parts).value == (100.0 if name == "ter" else 0.0)


def test_f1_is_sklearns_own():
    from sklearn.metrics import f1_score

    draw = random.Random(1)
    pairs = [(draw.randint(0, 1), draw.randint(0, 1)) for _ in range(50)]
    parts = [[int(g and f), int(f and not g), int(g and not f)] for g, f in pairs]
    expected = f1_score(*zip(*pairs, strict=True))
    assert corpus.score("f1", parts).value == pytest.approx(expected)
    assert corpus.score("f1", [[0, 0, 0]]).value == 0.0


def test_flattened_mean_weighs_elements_alike():
    assert corpus.score("flattened_mean", [[1, 1], [0, 3]]).value == 0.25
    assert corpus.score("flattened_mean", [[0, 0], [0, 0]]).value is None
    assert corpus.score("flattened_mean", []).value is None


# -- records -----------------------------------------------------------------------------------


def record(part, name="f1", **fields):
    return {"doc_id": 0, "scores": {"m,none": None}, "parts": {"m,none": {name: part}}, **fields}


def test_parts_of_samples_are_averaged_within_a_document():
    records = [record([1, 0, 0], doc_id=3), record([0, 1, 0], doc_id=3), record([0, 0, 1])]
    found = corpus.by_document(corpus.with_parts(records, "m,none", "f1"))
    assert found == [[0, 0, 1], [0.5, 0.5, 0]]


@pytest.mark.parametrize(
    "part", [None, [], [1, 2], [1, 2, 3, 4], [1, 2, "3"], [1, 2, math.nan], [1, 2, math.inf], "123"]
)
def test_part_that_is_none_of_its_aggregations_does_not_count(part):
    assert corpus.aggregation([record(part)], "m,none") == "f1"
    assert corpus.part(record(part), "m,none", "f1") is None
    (found,) = corpus.with_parts([record(part)], "m,none", "f1")
    assert (found["part"], found["scores"]) == (None, {"m,none": None})


def test_metric_without_parts_is_a_mean():
    assert corpus.aggregation([], "m,none") is None
    assert corpus.aggregation([{"doc_id": 0, "scores": {"m,none": 1.0}}], "m,none") is None
    assert corpus.aggregation([record([1, 0, 0])], "other,none") is None
    assert corpus.part(record(None, name="own"), "m,none", "own") is None


# -- intervals ---------------------------------------------------------------------------------


def lanes(seed, n, changed=0.5):
    """BLEU's parts of a lane and of a baseline, whose answers differ in some documents."""
    references, base = texts(seed, n, 30)
    draw = random.Random(seed)
    lane = [
        " ".join(w if draw.random() < 0.8 else draw.choice(WORDS) for w in one.split())
        if draw.random() < changed
        else one
        for one in base
    ]
    return [np.array(counted("bleu", references, one)[1], float) for one in (lane, base)]


def test_interval_of_few_documents_is_students_t_of_the_jackknife():
    top, bottom = [[2, 3], [1, 2], [3, 3]], [[3, 3], [1, 2], [2, 3]]
    ratios = [(4 / 5) / (3 / 5), (5 / 6) / (5 / 6), (3 / 5) / (4 / 5)]  # without each of the three
    logs = [math.log(ratio) for ratio in ratios]
    error = math.sqrt(2 / 3 * sum((x - sum(logs) / 3) ** 2 for x in logs))
    wider = math.sqrt(1 + 4 / 2)  # 2 of the 3 changed
    found = corpus.ratio("flattened_mean", top, bottom)
    assert found.value == 1.0
    reach = student.ppf(0.975, 2) * wider * error
    assert found.interval == pytest.approx((math.exp(-reach), math.exp(reach)))


def test_intervals_hold_the_figure_and_are_the_same_each_time():
    top, bottom = lanes(1, 30)
    for once, again in [
        (corpus.score("bleu", top), corpus.score("bleu", top)),
        (corpus.ratio("bleu", top, bottom), corpus.ratio("bleu", top, bottom)),
    ]:
        assert once == again
        low, high = once.interval
        assert 0 < low < once.value < high < math.inf


def test_more_documents_narrow_the_interval():
    widths = [
        np.diff(np.log(corpus.ratio("bleu", *lanes(2, n)).interval))[0] for n in (20, 80, 320)
    ]
    assert widths[0] > 1.5 * widths[1] > 2.25 * widths[2]


def test_few_changed_documents_count_as_more_than_they_are():
    top, bottom = lanes(3, 60, changed=1.0)
    for changed in (1, 2, 3):
        lane = np.concatenate([top[:changed], bottom[changed:]])
        found = corpus.ratio("bleu", lane, bottom)
        assert found.value < 1
        assert found.interval[1] > 1  # so few show nothing


@pytest.mark.parametrize(
    ("top", "bottom", "value", "note"),
    [
        ([[1, 0, 0]], [[1, 1, 0]], 1.5, "fewer than 2"),
        ([[1, 0, 0]] * 9, [[1, 0, 0]] * 9, 1.0, "every document gives the same ratio"),
        ([[1, 0, 0]] * 9, [[0, 1, 0]] * 9, None, "the score to divide by is 0"),
        ([[0, 1, 0]] * 9, [[1, 0, 0]] * 9, 0.0, "the numerator is 0"),
    ],
)
def test_no_interval_without_spread_and_it_says_why(top, bottom, value, note):
    found = corpus.ratio("f1", top, bottom)
    assert (found.value, found.interval) == (value, None)
    assert note in found.note


def test_score_without_spread_has_no_interval():
    assert corpus.score("f1", [[1, 0, 0]] * 9).interval is None
    assert corpus.score("f1", [[1, 1, 0]]).interval is None
    assert corpus.score("f1", [[0, 1, 0]] * 9).interval is None


def test_parts_that_do_not_align_are_refused():
    with pytest.raises(ValueError, match=r"must align: \(2, 3\) against \(1, 3\)"):
        corpus.ratio("f1", [[1, 0, 0]] * 2, [[1, 0, 0]])


def test_resamples_without_any_match_leave_the_interval_finite():
    top = [[9, 9, *([3] * 4), 9, 8, 7, 6]] + [[9, 9, 0, 0, 0, 0, 9, 8, 7, 6]] * 11
    bottom = [[9, 9, *([4] * 4), 9, 8, 7, 6]] + [[9, 9, 1, 0, 0, 0, 9, 8, 7, 6]] * 11
    for found in (corpus.ratio("bleu", top, bottom), corpus.score("bleu", top)):
        low, high = found.interval
        assert 0 <= low < found.value < high < math.inf


@pytest.mark.parametrize("n", [20, 100])
def test_intervals_cover_what_all_documents_would_give(n):
    top, bottom = lanes(4, 2000)
    score = corpus.score("bleu", top).value
    ratio = corpus.ratio("bleu", top, bottom).value
    draw = np.random.default_rng(5)
    held = [0, 0]
    for _ in range(150):
        chosen = draw.integers(2000, size=n)
        found = corpus.score("bleu", top[chosen]), corpus.ratio("bleu", top[chosen], bottom[chosen])
        for which, (one, true) in enumerate(zip(found, (score, ratio), strict=True)):
            held[which] += one.interval[0] <= true <= one.interval[1]
    assert min(held) >= 0.91 * 150
