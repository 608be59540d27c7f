from __future__ import annotations

import pytest

from mars_cli.engine.lane import Draft, Lane, plan_lanes
from mars_cli.verification.spec import RuleSpec

NGRAM = Draft("ngram", {"method": "ngram"})


def mars(theta: float) -> RuleSpec:
    return RuleSpec.of("mars", theta=theta)


def test_lanes_are_named_as_they_are_written_down() -> None:
    lanes = plan_lanes(NGRAM, 7, [mars(0.9), mars(1.0)], None, 0)
    assert [lane.id for lane in lanes] == [
        "ar",
        "strict-ngram-k7",
        "mars-ngram-k7-t0.9",
        "mars-ngram-k7-t1",
    ]


@pytest.mark.parametrize(
    ("theta", "name"), [(0.9, "t0.9"), (0.905, "t0.905"), (1.0, "t1"), (0.1 + 0.2, "t0.3")]
)
def test_theta_is_named_by_its_shortest_decimal(theta: float, name: str) -> None:
    assert Lane(mars(theta), NGRAM, 7).id == f"mars-ngram-k7-{name}"


def test_lanes_of_one_draft_and_k_share_an_engine_and_ar_has_its_own() -> None:
    lanes = plan_lanes(NGRAM, 7, [mars(0.9)], None, 0)
    assert [lane.engine_id for lane in lanes] == ["ar", "ngram-k7", "ngram-k7"]


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        ("typical", "typical-ngram-k7"),
        ("typical:epsilon=0.1", "typical-ngram-k7-epsilon=0.1"),
        ("topk-delta:k=10", "topk-delta-ngram-k7"),
        ("topk-delta:k=5,delta=0.5", "topk-delta-ngram-k7-k=5-delta=0.5"),
        ("prob-ratio:ratio=0.5", "prob-ratio-ngram-k7-ratio=0.5"),
        ("mars:theta=0.9,protect-stop", "mars-ngram-k7-t0.9-protect-stop"),
    ],
)
def test_other_rules_are_named_by_what_differs_from_their_defaults(rule: str, name: str) -> None:
    assert Lane(RuleSpec.parse(rule), NGRAM, 7).id == name


def test_a_rule_asked_for_twice_is_one_lane_and_strict_is_always_there_once() -> None:
    rules = [mars(0.9), RuleSpec.parse("mars:theta=0.9"), RuleSpec.of("strict")]
    assert [lane.id for lane in plan_lanes(NGRAM, 7, rules, None, 0)] == [
        "ar",
        "strict-ngram-k7",
        "mars-ngram-k7-t0.9",
    ]
