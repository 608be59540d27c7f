from __future__ import annotations

import pytest

from mars_cli.engine.lane import Draft, Lane, plan_lanes

NGRAM = Draft("ngram", {"method": "ngram"})


def test_lanes_are_named_as_they_are_written_down() -> None:
    lanes = plan_lanes(NGRAM, 7, [0.9, 1.0], None, 0)
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
    assert Lane("mars", NGRAM, 7, {"theta": theta}).id == f"mars-ngram-k7-{name}"


def test_lanes_of_one_draft_and_k_share_an_engine_and_ar_has_its_own() -> None:
    lanes = plan_lanes(NGRAM, 7, [0.9], None, 0)
    assert [lane.engine_id for lane in lanes] == ["ar", "ngram-k7", "ngram-k7"]
