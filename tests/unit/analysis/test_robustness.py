"""Records as bad as they come give nulls and notes: no crash, no infinity, no warning."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings

from tests.unit.analysis.built import (
    LANE_KEYS,
    LANES,
    MARS,
    STRICT,
    answer,
    full_speed,
    lane_of,
    results,
    scored,
    task,
    tasks,
    timing,
)


def spoilt(seconds):
    return [record | {"seconds": seconds} for record in full_speed()]


DEGENERATE = {
    "no records": task(),
    "empty lists": task({lane["id"]: [] for lane in LANES}),
    "single document": task(
        {lane["id"]: scored(1, 1) for lane in LANES}, full_speed(n=1, repeats=1)
    ),
    "all zero": task({lane["id"]: scored(0) for lane in LANES}, full_speed()),
    "all equal": task(
        {lane["id"]: scored(20) for lane in LANES},
        [record | {"seconds": 1.0} for record in full_speed()],
    ),
    "graded zero": task({lane["id"]: [answer(0, 0.0), answer(1, 0.0)] for lane in LANES}),
    "NaN times": task(speed=spoilt(math.nan)),
    "no time at all": task(speed=spoilt(0.0)),
    "NaN scores": task({lane["id"]: [answer(d, math.nan) for d in range(3)] for lane in LANES}),
    "empty answers": task(
        {
            lane["id"]: [
                answer(0, 0.0, token_ids=[], step_tokens=[], drafted=[], accepted=[], text="")
            ]
            for lane in LANES
        }
    ),
    "no baseline": task({MARS: scored(15)}, [r for r in full_speed() if r["lane"] == MARS]),
    "interrupted": task({"ar": scored(15), STRICT: scored(3, 3)}, full_speed()[:6]),
    "disjoint": task({"ar": scored(15), MARS: [answer(99, 1.0)]}),
    "no answers of MARS": task(
        {"ar": scored(15), STRICT: scored(15)}, [r for r in full_speed() if r["lane"] != MARS]
    ),
    "one time NaN": task(speed=[timing(0, MARS, math.nan), *full_speed()]),
    "zero, lower is better": task(
        {lane["id"]: [answer(d, 0.0) for d in range(9)] for lane in LANES}, higher_is_better=False
    ),
    "MARS graded zero": task(
        {"ar": [answer(d, 0.5 + d) for d in range(9)], MARS: [answer(d, 0.0) for d in range(9)]}
    ),
    "sizes apart": task(
        {
            "ar": [answer(d, 1e-99) for d in range(9)],
            STRICT: [answer(d, 1e99 if d else 1e-99) for d in range(9)],
            MARS: [answer(d, -1e99) for d in range(9)],
        }
    ),
}


@given(tasks("one"), tasks("two"))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_was_recorded_gives_every_key_finite_or_null(one, two):
    found = results(one, two)
    for name in ("one", "two"):
        for lane in LANES:
            row = lane_of(found, lane["id"], name)
            assert row.keys() >= LANE_KEYS
            assert (row["safe"] is None) == (row["recovery_ci"] is None)
            assert (row["p_value_holm"] is None) == (row["p_value"] is None)
            for figure in ("score", "recovery", "speedup"):
                low, high = row[f"{figure}_ci"] or (row[figure], row[figure])
                assert row[figure] is None or low <= row[figure] <= high


@pytest.mark.parametrize("bad", DEGENERATE.values(), ids=DEGENERATE.keys())
def test_bad_records_give_nulls_and_notes(bad):
    # `results` refuses NaN and infinity; warnings are errors.
    found = results(bad)
    for lane in LANES:
        row = lane_of(found, lane["id"])
        assert row.keys() >= LANE_KEYS
        if None in (row["recovery"], row["speedup"], row["acceptance_length"]):
            assert row["notes"]
        if lane["id"] != "ar" and row["speedup"] is not None and row["speedup_ci"] is None:
            assert any("speedup" in note for note in row["notes"])


def test_times_that_are_not_numbers_leave_every_speed_null():
    row = lane_of(results(DEGENERATE["NaN times"]), MARS)
    for key in ("speedup", "decode_speedup", "wall_speedup", "tokens_per_s", "tpot_ms"):
        assert row[key] is None
    assert row["exact_match_ar"] == 1.0


def test_zero_scores_are_a_low_base_with_an_interval_for_the_score():
    row = lane_of(results(DEGENERATE["all zero"]), MARS)
    assert (row["score"], row["recovery"], row["recovery_note"]) == (0.0, None, "low_base")
    assert row["score_ci"][0] == 0.0 < row["score_ci"][1]


def test_equal_scores_keep_a_width():
    low, high = lane_of(results(DEGENERATE["all equal"]), MARS)["recovery_ci"]
    assert low < 100 < high
