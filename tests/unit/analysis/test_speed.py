"""Speeds against the baseline, noise and agreement, worked by hand."""

from __future__ import annotations

import math
import re

import pytest

from mars_cli.analysis.speed import repeats_needed, within_noise
from tests.unit.analysis.built import (
    LANES,
    MARS,
    STRICT,
    full_speed,
    lane_of,
    results,
    task,
    timing,
)


def test_speedup_is_the_ratio_of_the_mean_speeds_over_prompts():
    # tokens/s of ar 3/1 and 3/3 (mean 2), of strict 3/0.5 and 3/1 (mean 4.5): 2.25.
    # Wall: (1 + 3) s against (0.5 + 1) s.
    speed = [
        timing(0, "ar", 1.0),
        timing(1, "ar", 3.0),
        timing(0, STRICT, 0.5),
        timing(1, STRICT, 1.0),
    ]
    row = lane_of(results(task(speed=speed)), STRICT)
    assert row["speedup"] == pytest.approx(2.25)
    assert row["wall_speedup"] == pytest.approx(4 / 1.5)
    assert row["tokens_per_s"] == pytest.approx(4.5)


def test_what_the_rule_alone_buys_is_the_ratio_to_the_strict_lane_of_its_draft_and_k():
    # tokens/s of strict 3/1 and 3/3 (mean 2), of mars 3/0.5 and 3/1 (mean 4.5): 2.25.
    speed = [
        timing(0, "ar", 6.0),
        timing(1, "ar", 9.0),
        timing(0, STRICT, 1.0),
        timing(1, STRICT, 3.0),
        timing(0, MARS, 0.5),
        timing(1, MARS, 1.0),
    ]
    found = results(task(speed=speed))
    row = lane_of(found, MARS)
    assert row["strict_speedup"] == pytest.approx(2.25)
    assert row["strict_speedup_ci"][0] < 2.25 < row["strict_speedup_ci"][1]
    for lane in ("ar", STRICT):
        assert lane_of(found, lane)["strict_speedup"] is None
    other_k = [LANES[0], {**LANES[1], "k": 3}, LANES[2]]
    row = lane_of(results(task(speed=speed), lanes=other_k), MARS)
    assert row["strict_speedup"] is row["strict_speedup_ci"] is None


def test_a_speed_over_strict_that_is_missing_or_rests_on_fewer_prompts_says_so():
    speed = [timing(0, "ar", 6.0), timing(0, MARS, 0.5), timing(1, MARS, 1.0)]
    notes = lane_of(results(task(speed=speed)), MARS)["notes"]
    assert "strict_speedup: its strict lane was not timed" in notes
    row = lane_of(results(task(speed=[*speed, timing(0, STRICT, 1.0)])), MARS)
    assert row["strict_speedup"] == pytest.approx(2.0)
    assert "strict_speedup: over 1 of 2 prompts, those timed in both lanes" in row["notes"]
    assert any("strict_speedup" in note and "no interval" in note for note in row["notes"])


def test_the_control_is_never_part_of_the_baseline():
    speed = [timing(0, "ar", 1.0), timing(0, "ar", 4.0, control=True), timing(0, STRICT, 0.5)]
    found = results(task(speed=speed))
    assert lane_of(found, STRICT)["speedup"] == pytest.approx(2.0)
    assert lane_of(found, "ar")["tokens_per_s"] == pytest.approx(3.0)
    assert found["noise"]["mars_products"]["aa_speedup"] == pytest.approx(0.25)


def test_a_strict_lane_that_differs_from_ar_is_not_lossless_here():
    speed = full_speed()
    speed[2] = speed[2] | {"token_ids": [0, 9, 2]}
    found = results(task(speed=speed))
    strict, mars = lane_of(found, STRICT), lane_of(found, MARS)
    assert strict["exact_match_ar"] == pytest.approx(11 / 12)
    assert strict["first_divergence_median"] == 1.0
    assert "not lossless here: 1 of 12 timed outputs differ from ar's" in strict["notes"]
    assert not any("lossless" in note for note in mars["notes"])


def test_sampled_lanes_are_not_called_lossy():
    speed = full_speed()
    speed[2] = speed[2] | {"token_ids": [0, 9, 2]}
    row = lane_of(results(task(speed=speed, sampled=True)), STRICT)
    assert row["exact_match_ar"] < 1
    assert not any("lossless" in note for note in row["notes"])


def test_agreement_of_ar_is_that_of_its_control():
    speed = full_speed()
    speed[1] = speed[1] | {"token_ids": [0, 1, 7]}
    row = lane_of(results(task(speed=speed)), "ar")
    assert row["exact_match_ar"] == pytest.approx(11 / 12)
    assert any("does not repeat itself" in note for note in row["notes"])


def test_few_prompts_and_a_noise_wider_than_the_effect_are_told():
    speed = full_speed(n=4, strict=0.93)
    for record in speed:
        if record["control"]:
            record["seconds"] *= 1 + 0.2 * (record["doc_id"] % 2)
    found = results(task(speed=speed))
    assert (
        "speed: only 4 prompts were timed; intervals need more"
        in (found["tasks"]["mars_products"]["notes"])
    )
    strict = lane_of(found, STRICT)
    assert strict["within_noise"] is True
    (note,) = [note for note in strict["notes"] if "wider than the effect" in note]
    told = re.fullmatch(
        r"speed: the A/A interval is wider than the effect; "
        r"about (\d+) repeats in all \(now 2\) would settle it",
        note,
    )
    reach = max(abs(math.log(end)) for end in found["noise"]["mars_products"]["aa_ci"])
    effect = abs(math.log(strict["speedup"]))
    assert 2 * (reach / effect) ** 2 <= int(told[1]) < 2 * (reach / effect) ** 2 + 1
    assert not any("wider than the effect" in note for note in lane_of(found, MARS)["notes"])


@pytest.mark.parametrize(
    ("speedup_ci", "aa_ci", "expected"),
    [
        ([1.3, 1.5], [0.97, 1.05], False),
        ([1.04, 1.5], [0.97, 1.05], True),
        ([0.8, 0.96], [0.97, 1.05], False),
        ([0.9, 1.1], None, True),
        ([1.1, 1.2], None, False),
        (None, [0.97, 1.05], None),
    ],
)
def test_a_speedup_is_noise_when_its_interval_overlaps_the_control(speedup_ci, aa_ci, expected):
    assert within_noise(speedup_ci, aa_ci) is expected


@pytest.mark.parametrize(
    ("repeats", "noise", "effect", "expected"),
    [
        (2, 0.2, 0.1, 8),  # twice as wide: four times the repeats
        (3, 0.15, 0.1, 7),  # 3 * 2.25 = 6.75
        (1, 0.3, 0.1, 9),  # a whole number stays one: 0.3 / 0.1 is not quite 3 in binary
        (2, 0.1, 0.1, 3),  # as wide: one more at least
        (4, 0.101, 0.1, 5),  # 4.0804
        (2, 1.0, 0.1, 200),  # 100 times as many, and no more
        (2, 1.01, 0.1, None),
        (5, 0.01, 0.0, None),
    ],
)
def test_the_interval_shrinks_with_the_square_root_of_the_repeats(repeats, noise, effect, expected):
    assert repeats_needed(repeats, noise, effect) == expected


def test_a_remedy_out_of_reach_gets_no_number():
    # Against an A/A of +-10% and more stands a speedup of 1 to within a millionth.
    speed = full_speed(n=6, strict=1.0)
    for record in speed:
        if record["lane"] == STRICT:
            record["seconds"] = 1 + 0.01 * ((3 * record["doc_id"] + record["repeat"]) % 4) + 1e-6
        if record["control"]:
            record["seconds"] *= 1 + 0.2 * (record["doc_id"] % 2)
    row = lane_of(results(task(speed=speed)), STRICT)
    assert (
        "speed: the A/A interval is wider than the effect; "
        "it would take more than 100 times as many repeats to settle it" in row["notes"]
    )


def test_ar_itself_is_not_told_to_repeat():
    speed = full_speed()
    for record in speed:
        if record["control"]:
            record["seconds"] *= 1 + 0.5 * (record["doc_id"] % 2)
    notes = lane_of(results(task(speed=speed)), "ar")["notes"]
    assert not any("repeats" in note for note in notes)
