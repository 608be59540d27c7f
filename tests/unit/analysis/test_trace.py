from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mars_cli.analysis.trace import LOG_EDGES, R_EDGES, Tally, build_trace, rank_correlation

#            strict hit,  relaxed,  near-tie lost,  clear lost,  third,  no r
Z1 = np.array([10.0, 10.0, 10.0, 4.0, 10.0, -1.0], dtype=np.float32)
Z2 = np.array([1.0, 9.5, 9.25, 3.75, 9.75, -2.0], dtype=np.float32)
ROWS = {
    "accepted": np.array([True, True, False, False, False, False]),
    "relaxed": np.array([False, True, False, False, False, False]),
    "rank": np.array([1, 2, 2, 2, 3, 2]),
    "z1": Z1,
    "z2": Z2,
    "p1": np.array([0.9, 0.5, 0.6, 0.7, 0.5, 0.6]),
    "p2": np.array([0.001, 0.4, 0.28, 0.2, 0.4, 0.2]),
}


def tally(*parts: slice, thetas: tuple[float, ...] = (0.9,)) -> dict[str, Any]:
    found = Tally(thetas)
    for part in parts:
        found.add({name: values[part] for name, values in ROWS.items()})
    return found.figures()


def test_positions_are_counted_by_what_strict_would_have_done() -> None:
    found = tally(slice(None))
    assert found["positions"] == 6
    assert found["accepted_share"] == pytest.approx(2 / 6)
    assert found["relaxed_share"] == pytest.approx(1 / 6)
    assert found["nonpositive_top_share"] == pytest.approx(1 / 6)
    assert found["strict_rejections"] == 5  # the relaxed one is none of strict's
    assert found["runner_up_share_of_rejections"] == pytest.approx(4 / 5)
    (at,) = found["thetas"]
    assert at["low_margin_share"] == pytest.approx(4 / 6)
    assert at["low_margin_share_of_rejections"] == pytest.approx(4 / 5)
    assert at["wasteful_share_of_rejections"] == pytest.approx(3 / 5)  # without the third
    # Of r > 0.9: p2/p1 is 0.8, 0.47, 0.29, 0.8; two of the four are clear.
    assert at["clear_share_of_low_margin"] == pytest.approx(2 / 4)


def test_r_equal_to_theta_is_no_low_margin() -> None:
    (at,) = tally(slice(2, 3), thetas=(0.925,))["thetas"]
    assert at["low_margin_share"] == 0


def test_parts_of_any_size_add_up_to_the_whole() -> None:
    assert tally(slice(0, 1), slice(1, 4), slice(4, 4), slice(4, 6)) == tally(slice(None))


def test_quantiles_are_within_a_bin_of_the_values() -> None:
    found = tally(slice(0, 5))
    assert found["r_quantiles"]["0.5"] == pytest.approx(0.9375, abs=R_EDGES[1])
    width = LOG_EDGES[1] - LOG_EDGES[0]
    exact = np.log10(0.28 / 0.6)
    assert np.log10(found["p2_over_p1_quantiles"]["0.5"]) == pytest.approx(exact, abs=width)


def test_nothing_verified_gives_nulls() -> None:
    found = tally()
    assert found["positions"] == 0
    for name in ("accepted_share", "nonpositive_top_share", "r_quantiles", "rank_correlation"):
        assert found[name] is None
    assert found["thetas"][0]["wasteful_share_of_rejections"] is None


def test_rank_correlation_is_one_along_the_diagonal_and_minus_one_across() -> None:
    joint = np.diag([3, 1, 4, 2])
    assert rank_correlation(joint) == pytest.approx(1)
    assert rank_correlation(joint[::-1]) == pytest.approx(-1)
    assert rank_correlation(np.array([[5, 0], [0, 0]])) is None


def test_rank_correlation_is_spearmans_with_ties() -> None:
    from scipy.stats import spearmanr

    chance = np.random.default_rng(1)
    x = chance.integers(0, 6, 400)
    y = np.clip(x + chance.integers(-2, 3, 400), 0, 5)
    joint = np.zeros((6, 6), dtype=np.int64)
    np.add.at(joint, (x, y), 1)
    assert rank_correlation(joint) == pytest.approx(spearmanr(x, y).statistic)


def test_lanes_stand_under_their_task_in_the_runs_order() -> None:
    lane = {"rule": "mars", "theta": 0.9, "draft": "ngram", "k": 7, "parameters": {}}
    manifest = {
        "id": "run",
        "created": "2026-11-30T10:00:00+00:00",
        "status": "complete",
        "plan": {"model": {"name": "m", "weights": "hub:a/b"}},
        "lanes": [{"id": "b", "engine": {}, **lane}, {"id": "a", "engine": {}, **lane}],
    }
    tallies = {("t", "b"): Tally([0.9]), ("t", "a"): Tally([0.9])}
    found = build_trace(manifest, tallies)
    assert list(found["tasks"]["t"]["lanes"]) == ["b", "a"]
    assert [one["id"] for one in found["lanes"]] == ["b", "a"]
