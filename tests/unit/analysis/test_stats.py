"""Intervals against published and hand-worked examples, at their edges, and for coverage."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mars_cli.analysis import stats


def paired(both, gained, lost, neither):
    lane = [1] * (both + gained) + [0] * (lost + neither)
    base = [1] * both + [0] * gained + [1] * lost + [0] * neither
    return lane, base


def test_wilson_matches_the_formula_worked_by_hand():
    # 13 of 16, z^2 = 3.8415: (26 + 3.8415 -+ 1.96 sqrt(3.8415 + 4*13*3/16)) / (2 * 19.8415)
    assert stats.wilson(13, 16) == pytest.approx((0.5699, 0.9341), abs=1e-4)


@pytest.mark.parametrize("right", [0, 7])
def test_wilson_keeps_a_width_when_all_are_alike(right):
    low, high = stats.wilson(right, 7)
    assert 0 <= low < high <= 1
    assert high - low > 0.3


def test_wilson_of_nothing_is_none():
    assert stats.wilson(0, 0) is None


def test_bonett_price_with_their_two_documents_matches_the_published_example(monkeypatch):
    # Complete response before and after consolidation (Cavo et al. 2012), as worked in Fagerland,
    # Lydersen & Laake, Statistical Analysis of Contingency Tables, ch. 8: 0.8667, 0.7579-0.9910.
    monkeypatch.setattr(stats, "MORE_CHANGED_01", 2)
    found = stats.paired_ratio_01(*paired(59, 6, 16, 80))
    assert found.value == pytest.approx(65 / 75)
    assert found.interval == pytest.approx((0.7579, 0.9910), abs=1e-4)


def test_bonett_price_is_widened_by_a_third_document():
    # z = 1.96 sqrt(25/(66*76)) / (sqrt((1 - 66/83)/66) + sqrt((1 - 76/83)/76)) = 1.5544; Wilson of
    # 65 and of 75 out of 81 at that z: 0.7254-0.8620 and 0.8673-0.9598
    found = stats.bonett_price(59, 6, 16)
    assert found == pytest.approx((0.7254 / 0.9598, 0.8620 / 0.8673), abs=2e-4)


@pytest.mark.parametrize("n", [30, 100, 1000])
def test_without_a_changed_document_the_rule_of_three_holds(n):
    low, high = stats.bonett_price(n, 0, 0)
    assert 1 - low == pytest.approx(3 / n, rel=0.15)
    assert high == pytest.approx(1 / low)


def test_documents_both_lanes_got_wrong_do_not_move_the_ratio():
    few, many = (stats.paired_ratio_01(*paired(59, 6, 16, wrong)) for wrong in (0, 500))
    assert few == many


def test_bonett_price_turned_over_is_the_reciprocal():
    lane, base = paired(40, 3, 9, 20)
    low, high = stats.paired_ratio_01(lane, base).interval
    assert stats.paired_ratio_01(base, lane).interval == pytest.approx((1 / high, 1 / low))


def test_bonett_price_keeps_a_width_without_a_discordant_document():
    found = stats.paired_ratio_01(*paired(100, 0, 0, 0))
    low, high = found.interval
    assert found.value == 1.0
    assert low < 0.99
    assert high > 1.01


def test_a_lane_with_nothing_right_has_recovery_zero_and_an_interval_above_it():
    found = stats.paired_ratio_01(*paired(0, 0, 12, 3))
    assert found.value == 0.0
    assert found.interval[0] == 0.0
    assert 0 < found.interval[1] < 1


def test_a_ratio_to_nothing_is_none_with_a_note():
    found = stats.paired_ratio_01(*paired(0, 4, 0, 5))
    assert (found.value, found.interval) == (None, None)
    assert found.note == stats.NO_RATIO
    assert stats.log_ratio([1.0, 1.0], [0.0, 0.0]) == stats.Estimate(None, None, stats.NO_RATIO)


def test_one_document_gives_a_value_without_an_interval():
    assert stats.paired_ratio_01([1], [1]) == stats.Estimate(1.0, None, stats.TOO_FEW)
    assert stats.log_ratio([3.0], [2.0]) == stats.Estimate(1.5, None, stats.TOO_FEW)
    assert stats.mean_interval([0.5]) is None


def test_mcnemar_matches_the_binomial_sum_worked_by_hand():
    # 6 gained, 16 lost: 2 * sum(C(22, i), i = 0..6) / 2^22 = 2 * 110056 / 4194304
    assert stats.mcnemar(*paired(59, 6, 16, 80)) == pytest.approx(2 * 110056 / 4194304)


def test_mcnemar_without_discordant_pairs_is_one_and_without_documents_none():
    assert stats.mcnemar([1, 0], [1, 0]) == 1.0
    assert stats.mcnemar([], []) is None


@pytest.mark.parametrize(
    ("p_values", "adjusted"),
    [
        # in order 0.005, 0.01, 0.03, 0.04: times 4, 3, 2, 1, and 0.04 raised to the 0.06 before it
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([0.02, 0.02, 0.02], [0.06, 0.06, 0.06]),
        ([0.6, 0.5], [1.0, 1.0]),
        ([0.0, 1.0], [0.0, 1.0]),
        ([0.2], [0.2]),
        ([], []),
    ],
)
def test_holm_matches_the_steps_worked_by_hand(p_values, adjusted):
    assert stats.holm(p_values) == pytest.approx(adjusted)


@given(st.lists(st.floats(0, 1), max_size=8), st.randoms())
def test_holm_lies_between_p_and_bonferroni_and_follows_the_order_of_p(p_values, random):
    adjusted = stats.holm(p_values)
    for p, q in zip(p_values, adjusted, strict=True):
        assert p <= q <= min(1.0, p * len(p_values))
    ranked = sorted(zip(p_values, adjusted, strict=True))
    assert [q for _, q in ranked] == sorted(adjusted)
    shuffled = random.sample(range(len(p_values)), len(p_values))
    assert stats.holm([p_values[i] for i in shuffled]) == [adjusted[i] for i in shuffled]


def test_holm_refuses_what_is_no_p_value():
    with pytest.raises(ValueError, match=r"a p value must be from 0 to 1, not nan"):
        stats.holm([0.5, math.nan])


def test_pairs_that_do_not_align_are_refused():
    with pytest.raises(ValueError, match="align: 1 against 2"):
        stats.log_ratio([1.0], [1.0, 2.0])


def test_mean_interval_matches_students_t_worked_by_hand():
    # 1, 2, 3: mean 2, standard error 1/sqrt(3), t(2 degrees of freedom) = 4.3027
    half = 4.30265 / math.sqrt(3)
    assert stats.mean_interval([1.0, 2.0, 3.0]) == pytest.approx((2 - half, 2 + half), abs=1e-4)
    assert stats.mean_interval([0.1] * 9) is None


def test_few_differences_that_are_not_zero_widen_the_interval_of_their_mean():
    # 0, 0, 3: mean 1, standard error sqrt(3)/sqrt(3), one that is not 0: times sqrt(1 + 4/1)
    half = 4.30265 * math.sqrt(5)
    assert stats.mean_interval([0.0, 0.0, 3.0]) == pytest.approx((1 - half, 1 + half), abs=1e-4)


def test_the_interval_of_a_skewed_mean_reaches_farther_into_the_tail():
    low, high = stats.mean_interval([0.1] * 10 + [0.2, 0.3, 0.5, 1.0])
    mean = 3 / 14
    assert high - mean > 1.5 * (mean - low)


def test_log_ratio_of_two_documents_is_students_t_on_the_log_scale():
    # u = (1, 1), v = (2/3, 4/3), d = -+1/3. Error: the jackknife's, log(4/3 / (2/3)) / 2.
    # One more changed: sizes max(u, v) = (1, 4/3), shares d / size = (1/3, 1/4), their squares
    # weighted by size (1/9 * 1 + 1/16 * 4/3) / (7/3) = 1/12, times the mean square size
    # (1 + 16/9) / 2 = 25/18, more than 1/9: error times sqrt(1 + 4 * 25/216 / (2/9))
    found = stats.log_ratio([2.0, 4.0], [1.0, 1.0])
    half = 12.7062 * math.log(2) / 2 * math.sqrt(1 + 4 * 25 / 216 / (2 / 9))
    assert found.value == 3.0
    assert found.interval == pytest.approx((3 * math.exp(-half), 3 * math.exp(half)), rel=1e-3)


def test_few_changed_documents_widen_the_interval():
    # v = (.5, .5, 2), d = (-.5, -.5, 1), only the third changed: one more adds 1 to sum d^2 = 1.5,
    # or, by its share 1/2 of a size whose mean square is (1 + 1 + 4)/3, 0.5. Jackknife: logs of
    # (2.5/2, 2.5/2, 1/2), whose differences from their mean give 2/3 log 2.5.
    found = stats.log_ratio([1.0, 1.0, 4.0], [1.0, 1.0, 1.0])
    half = 4.30265 * 2 / 3 * math.log(2.5) * math.sqrt(1 + 4 * 1 / 1.5)
    assert found.interval == pytest.approx((2 * math.exp(-half), 2 * math.exp(half)), rel=1e-4)


def test_a_small_document_that_changed_wholly_stands_for_larger_ones_that_may():
    lane = [1.0] * 6 + [0.0]
    wide = stats.log_ratio(lane, [1.0] * 6 + [0.01]).interval
    narrow = stats.log_ratio([1.0] * 6 + [0.99], [1.0] * 7).interval
    # Both lost 0.01; but the one lost all of a document, and the next one may be whole.
    assert wide[0] < 0.5 < 0.98 < narrow[0]


def test_a_document_that_outweighs_the_others_widens_the_interval():
    # Without the first the log ratio is 0, without one of the others log(14/13): the jackknife's
    # error is 0.8 log(14/13), 2.5 times the delta method's. d = 4 : -1 : -1 : -1 : -1, one changed:
    # times sqrt(1 + 4/1.25).
    found = stats.log_ratio([11.0, 1.0, 1.0, 1.0, 1.0], [10.0, 1.0, 1.0, 1.0, 1.0])
    half = 2.77645 * 0.8 * math.log(14 / 13) * math.sqrt(4.2)
    value = 15 / 14
    ends = value * math.exp(-half), value * math.exp(half)
    assert found.interval == pytest.approx(ends, rel=1e-4)


def test_log_ratio_is_a_ratio_of_means_not_a_mean_of_ratios():
    # ratios 1 and 4 have mean 2.5; the means are 5 and 2
    assert stats.log_ratio([2.0, 8.0], [2.0, 2.0]).value == 2.5
    assert stats.log_ratio([8.0, 2.0], [2.0, 2.0]).value == 2.5
    assert stats.log_ratio([4.0, 4.0], [1.0, 4.0]).value == pytest.approx(8 / 5)


def test_the_interval_is_the_same_every_time_and_is_bent_by_skew():
    lane, base = [1.0, 1.1, 0.9] * 3 + [1.5, 2.0, 8.0], [1.0] * 12
    first, second = stats.log_ratio(lane, base), stats.log_ratio(lane, base)
    assert first == second
    low, high = np.log(first.interval) - math.log(first.value)
    assert low < 0 < high
    assert high > 1.2 * -low  # Student's t alone would be symmetric on the log scale


def test_turning_the_quotient_over_turns_the_interval_over():
    rng = np.random.default_rng(4)
    x, y = rng.uniform(1, 2, 20), rng.uniform(1, 3, 20)
    low, high = stats.log_ratio(y, x).interval
    assert stats.log_ratio(x, y).interval == pytest.approx((1 / high, 1 / low), rel=0.01)


@pytest.mark.parametrize("n", [2, 3, 4, 40])
def test_documents_with_one_and_the_same_ratio_have_no_interval_and_a_note(n):
    x = [1.0 + 0.1 * i for i in range(n)]
    found = stats.log_ratio([1.7 * v for v in x], x)
    assert found.value == pytest.approx(1.7)
    assert (found.interval, found.note) == (None, stats.ALL_ALIKE)


@pytest.mark.parametrize(
    ("lane", "base"),
    [([], []), ([math.nan, 1.0], [1.0, 1.0]), ([1.0, 1.0], [math.inf, 1.0])],
)
def test_no_valid_value_gives_none(lane, base):
    found = stats.log_ratio(lane, base)
    assert (found.value, found.interval) == (None, None)
    assert found.note


def test_a_numerator_of_zero_is_a_value_without_an_interval():
    found = stats.log_ratio([0.0, 0.0, 0.0], [1.0, 2.0, 3.0])
    assert found.value == 0.0
    assert found.interval is None
    assert found.note


@pytest.mark.parametrize("n", [4, 5, 8, 30])
def test_mostly_zero_values_give_finite_ends(n):
    lane, base = [0.0] * (n - 1) + [1.0], [1.0] + [0.0] * (n - 1)
    low, high = stats.log_ratio(lane, base).interval
    assert 0 < low < 1 < high < math.inf


ANY = st.one_of(st.floats(), st.sampled_from([0.0, 1.0, 5e-324, 1e-99, 1e99, 1e101]))


@given(st.lists(st.tuples(ANY, ANY), max_size=12))
@settings(deadline=None)
def test_whatever_the_values_there_is_no_infinity_and_no_warning(pairs):
    lane, base = ([pair[side] for pair in pairs] for side in (0, 1))
    found = stats.log_ratio(lane, base)
    ends = [*(found.interval or ()), *(stats.mean_interval(lane) or ())]
    assert all(map(math.isfinite, ends))
    assert found.note if found.value is None else math.isfinite(found.value)
    assert found.note if found.interval is None else found.interval[0] <= found.value


def test_a_resample_of_next_to_nothing_is_one_of_nothing():
    # Without the last document a resample's mean is so small that its square is 0.
    lane, base = [1.0] * 9, [1e-99] * 8 + [1.0]
    low, high = stats.log_ratio(lane, base).interval
    assert 0 < low < 9 < high < math.inf


def test_memory_does_not_grow_with_documents():
    rng = np.random.default_rng(0)
    x, y = rng.uniform(1, 2, 3000), rng.uniform(1, 2, 3000)
    tracemalloc.start()
    low, high = stats.log_ratio(y, x).interval
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert high - low < 0.1
    assert peak < 50_000_000  # all resamples at once would take 96 MB
