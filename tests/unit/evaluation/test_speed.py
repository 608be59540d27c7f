from __future__ import annotations

from collections import Counter

from mars_cli.engine.lane import Draft, plan_lanes
from mars_cli.evaluation.speed import round_order
from mars_cli.verification.spec import RuleSpec

LANES = plan_lanes(
    Draft("ngram", {"method": "ngram"}),
    7,
    [RuleSpec.of("mars", theta=theta) for theta in (0.9, 1.0)],
    None,
    0,
)


def test_each_round_measures_every_lane_once_and_ar_twice() -> None:
    for index in range(7):
        order = round_order(LANES, index)
        assert Counter(m.lane.id for m in order) == {
            "ar": 2,
            "strict-ngram-k7": 1,
            "mars-ngram-k7-t0.9": 1,
            "mars-ngram-k7-t1": 1,
        }
        assert sum(m.control for m in order) == 1
        assert all(m.lane.id == "ar" for m in order if m.control)


def test_every_lane_takes_every_place_once_in_a_full_turn() -> None:
    turns = [[(m.lane.id, m.control) for m in round_order(LANES, index)] for index in range(5)]
    for place in range(5):
        assert len({turn[place] for turn in turns}) == 5
