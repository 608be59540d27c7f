from __future__ import annotations

import math
from typing import Any

import pytest

from mars_cli.analysis.fidelity import FIELDS, fidelity, is_allowed, nll, tolerance
from mars_cli.verification.spec import RuleSpec

MARS = {"rule": "mars", "parameters": {"theta": 0.9}, "engine": {"dtype": "float32"}}
STRICT: dict[str, Any] = {"rule": "strict", "parameters": {}}
AR: dict[str, Any] = {"rule": "none", "parameters": {}}


def row(logits: list[float], token: int) -> dict[str, float]:
    first, second = sorted(logits, reverse=True)[:2]
    lse = math.log(math.fsum(map(math.exp, logits)))
    p = [math.exp(z - lse) for z in logits]
    return {
        "z": logits[token],
        "z1": first,
        "z2": second,
        "lse": lse,
        "entropy": -math.fsum(share * math.log(share) for share in p),
        "above": sum(z > logits[token] for z in logits),
    }


def record(document: int, rows: list[dict[str, float]]) -> dict[str, Any]:
    return {
        "doc_id": document,
        "sample": 0,
        **{name: [one[name] for one in rows] for name in FIELDS},
    }


BEST, SECOND, FAR, THIRD = (
    row([10.0, 9.5, 1.0], 0),
    row([10.0, 9.5, 1.0], 1),
    row([10.0, 8.5, 1.0], 1),
    row([10.0, 9.5, 9.4], 2),
)


@pytest.mark.parametrize(
    ("rule", "allowed"),
    [
        ("strict", [True, False, False, False]),
        ("mars:theta=0.9", [True, True, False, False]),
        ("mars:theta=0.8", [True, True, True, False]),
        ("prob-ratio:ratio=0.5", [True, True, False, False]),  # exp(-0.5) = 0.61, exp(-1.5) = 0.22
        ("topk:k=2", [True, True, True, False]),
        ("topk:k=3", [True, True, True, True]),
        ("topk-delta:k=2,delta=0.3", [True, True, False, False]),  # p: 0.62 0.38; 0.82 0.18
        ("topk-delta:k=3,delta=0.3", [True, True, False, True]),  # p: 0.46 0.28 0.25
        ("typical", [True, True, True, True]),
        ("typical:epsilon=0.3,alpha=1", [True, True, False, False]),
    ],
)
def test_each_rule_is_stated_over_the_rows(rule: str, allowed: list[bool]) -> None:
    spec = RuleSpec.parse(rule)
    found = [
        is_allowed(one, spec.name, dict(spec.parameters), 0.0) for one in (BEST, SECOND, FAR, THIRD)
    ]
    assert found == allowed


def test_a_ratio_is_none_where_the_top_is_negative() -> None:
    assert not is_allowed(row([-1.0, -1.01, -5.0], 1), "mars", {"theta": 0.5}, 0.0)


def test_numerics_are_forgiven_within_the_tolerance_only() -> None:
    near = row([10.0, 9.995, 1.0], 1)
    assert not is_allowed(near, "strict", {}, 0.0)
    assert is_allowed(near, "strict", {}, 10 * tolerance("float32"))
    at_theta = row([10.0, 9.0, 1.0], 1)
    assert not is_allowed(at_theta, "mars", {"theta": 0.9}, 0.0)
    assert is_allowed(at_theta, "mars", {"theta": 0.9}, 10 * tolerance("float32"))
    assert not is_allowed(SECOND, "strict", {}, 10 * tolerance("bfloat16"))


def test_shares_violations_and_likelihood_of_a_lane() -> None:
    lane = [record(0, [BEST, SECOND]), record(1, [BEST, BEST])]
    base = [record(0, [BEST, BEST]), record(1, [BEST, BEST])]
    found = fidelity(lane, base, MARS)
    assert found["rank1_share"] == 0.75
    assert found["rank2_share"] == 0.25
    assert found["violations"] == 0
    best, second = BEST["lse"] - 10.0, BEST["lse"] - 9.5
    assert nll(lane[0]) == pytest.approx((best + second) / 2)
    assert found["nll"] == pytest.approx((3 * best + second) / 4)
    # The second token costs half a nat more, in one of two tokens, in one of two documents.
    assert found["nll_delta"] == pytest.approx(0.125)
    low, high = found["nll_delta_ci"]
    assert low < 0.125 < high
    assert found["notes"] == []


def test_a_wrong_rule_is_caught() -> None:
    """A lane that accepts the third, under the name of one that does not."""
    found = fidelity([record(4, [BEST, THIRD, FAR])], [], MARS)
    assert found["violations"] == 2
    assert found["notes"] == [
        "fidelity: 2 of 3 tokens are none that the rule mars allows "
        "(the first: document 4, token 1)"
    ]


def test_a_strict_that_is_not_lossless_is_caught() -> None:
    assert fidelity([record(0, [BEST, SECOND])], [], STRICT)["violations"] == 1
    assert fidelity([record(0, [BEST, SECOND])], [], AR)["violations"] == 1


def test_nothing_measured_is_null_with_a_note() -> None:
    found = fidelity([], [], MARS)
    assert {found[name] for name in ("rank1_share", "violations", "nll", "nll_delta")} == {None}
    assert found["notes"] == ["fidelity: not measured in this run"]


def test_without_answers_of_ar_the_difference_is_null() -> None:
    found = fidelity([record(0, [BEST])], [], MARS)
    assert found["nll"] is not None
    assert found["nll_delta"] is None


def test_ar_has_no_difference_to_itself() -> None:
    records = [record(0, [BEST]), record(1, [BEST])]
    found = fidelity(records, records, AR)
    assert found["nll_delta"] is None
    assert found["violations"] == 0
