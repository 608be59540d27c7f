from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mars_cli.verification.rules import make_rule, mars, strict

_spec = importlib.util.spec_from_file_location(
    "rule_statement", Path(__file__).with_name("rule_statement.py")
)
assert _spec
assert _spec.loader
statement = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(statement)

INF = math.inf
# Sixteenths are exact in float32, and few enough that ties are common.
LOGIT = st.integers(-32, 160).map(lambda n: n / 16) | st.just(-INF)
ROW = st.lists(LOGIT, min_size=6, max_size=6).filter(lambda row: max(row) > -INF)
THETA = st.sampled_from([0.05, 0.5, 0.84, 0.875, 0.9, 0.96, 1.0])


def relaxed(logits: list[float], draft: int, theta: float) -> bool:
    return bool(mars(torch.tensor([logits]), torch.tensor([draft]), theta).item())


@given(rows=st.lists(ROW, min_size=1, max_size=8), theta=THETA, data=st.data())
@settings(max_examples=400, deadline=None)
def test_mars_agrees_with_its_plain_statement(
    rows: list[list[float]], theta: float, data: st.DataObject
) -> None:
    drafts = [data.draw(st.integers(-1, 5)) for _ in rows]
    mask = mars(torch.tensor(rows), torch.tensor(drafts, dtype=torch.int32), theta)
    assert mask.tolist() == [
        statement.relaxes(row, draft, theta) for row, draft in zip(rows, drafts, strict=True)
    ]


@given(rows=st.lists(ROW, min_size=1, max_size=4), data=st.data())
@settings(max_examples=200, deadline=None)
def test_theta_one_is_strict(rows: list[list[float]], data: st.DataObject) -> None:
    drafts = torch.tensor([data.draw(st.integers(-1, 5)) for _ in rows])
    logits = torch.tensor(rows)
    assert torch.equal(mars(logits, drafts, 1.0), strict(logits, drafts))


def test_runner_up_above_theta_is_relaxed() -> None:
    assert relaxed([10.0, 9.5, 1.0], 1, 0.9)


def test_ratio_equal_to_theta_is_not_above_it() -> None:
    assert not relaxed([10.0, 9.0, 1.0], 1, 0.9)
    assert not relaxed([16.0, 14.0, 1.0], 1, 0.875)


def test_third_place_is_never_relaxed() -> None:
    assert not relaxed([10.0, 9.9, 9.8], 2, 0.5)


def test_third_place_is_a_runner_up_when_it_ties_with_one() -> None:
    assert relaxed([10.0, 9.5, 9.5], 2, 0.9)


def test_two_tokens_tied_above_make_the_next_third() -> None:
    assert not relaxed([10.0, 10.0, 9.75], 2, 0.9)


def test_token_tied_with_the_top_has_ratio_one() -> None:
    assert relaxed([10.0, 10.0, 1.0], 1, 0.99)


@pytest.mark.parametrize("top", [0.0, -1.0])
def test_top_logit_that_is_not_positive_means_strict(top: float) -> None:
    assert not relaxed([top, top - 0.01, -8.0], 1, 0.1)


def test_masked_draft_and_padding_are_never_relaxed() -> None:
    assert not relaxed([4.0, -INF, -INF], 1, 0.01)
    assert not relaxed([4.0, 3.99, 1.0], -1, 0.5)


def test_argmax_itself_is_not_relaxed() -> None:
    assert not relaxed([10.0, 9.9, 1.0], 0, 0.5)


def test_ratio_does_not_change_with_temperature() -> None:
    logits = torch.tensor([[10.0, 9.5, 1.0], [10.0, 8.0, 1.0]])
    drafts = torch.tensor([1, 1])
    for temperature in (0.5, 2.0, 4.0):
        assert torch.equal(mars(logits / temperature, drafts, 0.9), mars(logits, drafts, 0.9))


def test_half_precision_rows_are_compared_in_float32() -> None:
    logits = torch.tensor([[10.0, 9.5, 1.0]], dtype=torch.bfloat16)
    assert mars(logits, torch.tensor([1]), 0.9).tolist() == [True]


def test_no_rows_give_no_mask() -> None:
    assert mars(torch.empty(0, 8), torch.empty(0, dtype=torch.int64), 0.9).shape == (0,)


def test_rules_do_not_write_to_their_arguments() -> None:
    logits, drafts = torch.tensor([[10.0, 9.5, 1.0]]), torch.tensor([-1])
    mars(logits, drafts, 0.9)
    assert logits.tolist() == [[10.0, 9.5, 1.0]]
    assert drafts.tolist() == [-1]


@pytest.mark.parametrize("theta", [0.0, -0.5, 1.5, math.nan, math.inf])
def test_theta_outside_its_range_is_refused(theta: float) -> None:
    with pytest.raises(ValueError, match="theta"):
        make_rule("mars", theta=theta)


def test_unknown_rule_and_parameter_are_named() -> None:
    with pytest.raises(ValueError, match="martian"):
        make_rule("martian")
    with pytest.raises(ValueError, match="phi"):
        make_rule("mars", phi=1.0)
    with pytest.raises(ValueError, match="theta"):
        make_rule("mars")
