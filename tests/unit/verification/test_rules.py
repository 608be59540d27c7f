from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mars_cli.verification.rules import (
    RULES,
    mars,
    prob_ratio,
    strict,
    topk,
    topk_delta,
    typical,
)

_spec = importlib.util.spec_from_file_location(
    "rule_statement", Path(__file__).with_name("rule_statement.py")
)
assert _spec
assert _spec.loader
statement = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(statement)

INF = math.inf
TOLERANCE = 1e-5  # well above float32's rounding of a probability or an entropy of six tokens

# Sixteenths in this range are exact in bfloat16 too, and few enough that ties are common.
SIXTEENTH = st.integers(-32, 160).map(lambda n: n / 16)
LOGIT = SIXTEENTH | st.just(-INF) | st.floats(-40, 40, width=32)
ROW = st.lists(LOGIT, min_size=6, max_size=6).filter(lambda row: max(row) > -INF)
NEGATIVE_ROW = ROW.map(lambda row: [z - max(row) - 0.5 for z in row])
NEAR_ROW = st.lists(st.integers(120, 128).map(lambda n: n / 16), min_size=6, max_size=6)
ROWS = st.lists(ROW | NEGATIVE_ROW | NEAR_ROW, min_size=1, max_size=8)
SHARE = st.sampled_from([0.05, 0.5, 0.84, 0.875, 0.9, 0.96, 1.0])
PARAMETERS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "strict": st.just({}),
    "mars": st.fixed_dictionaries({"theta": SHARE}),
    "prob-ratio": st.fixed_dictionaries({"ratio": SHARE}),
    "typical": st.fixed_dictionaries(
        {
            "epsilon": st.sampled_from([0.001, 0.09, 0.3, 1.0]),
            "alpha": st.sampled_from([0.01, 0.3, 1.0, 5.0]),
        }
    ),
    "topk-delta": st.fixed_dictionaries(
        {"k": st.integers(1, 8), "delta": st.sampled_from([0.0, 0.02, 0.1, 0.6, 1.0])}
    ),
    "topk": st.fixed_dictionaries({"k": st.integers(1, 8)}),
}
# One of each, for what holds whatever the parameters.
EVERY_RULE: list[tuple[str, dict[str, Any]]] = [
    ("strict", {}),
    ("mars", {"theta": 0.01}),
    ("prob-ratio", {"ratio": 0.01}),
    ("typical", {"epsilon": 0.001, "alpha": 0.001}),
    ("topk-delta", {"k": 4, "delta": 1.0}),
    ("topk", {"k": 4}),
]
every_rule = pytest.mark.parametrize(("name", "parameters"), EVERY_RULE)


class Elsewhere(Tensor):
    """Claims another device, so that a CPU runs the branch written for accelerators."""

    @property
    def device(self) -> Any:
        return SimpleNamespace(type="accelerator")


PLACES: dict[str, Callable[[Tensor], Tensor]] = {
    "cpu": lambda tensor: tensor,
    "accelerator": lambda tensor: tensor.as_subclass(Elsewhere),
}
if torch.cuda.is_available():
    PLACES["cuda"] = lambda tensor: tensor.cuda()


def accepts(rule: Callable[..., Tensor], logits: list[float], draft: int, **given: Any) -> bool:
    return bool(rule(torch.tensor([logits]), torch.tensor([draft]), **given).item())


# -- Every rule ----------------------------------------------------------------------------------


def test_each_rule_has_a_plain_statement() -> None:
    assert list(RULES) == list(statement.RULES) == list(PARAMETERS)
    assert list(RULES) == [name for name, _ in EVERY_RULE]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", RULES)
@given(rows=ROWS, dtype=st.sampled_from([torch.float32, torch.bfloat16]), data=st.data())
@settings(max_examples=150, deadline=None)
def test_rule_agrees_with_its_plain_statement(
    name: str, place: str, rows: list[list[float]], dtype: torch.dtype, data: st.DataObject
) -> None:
    logits = torch.tensor(rows).to(dtype)
    exact = logits.tolist()  # what the dtype made of the rows
    parameters = data.draw(PARAMETERS[name])
    drafts = [data.draw(st.integers(-1, 5)) for _ in rows]
    move = PLACES[place]
    mask = RULES[name](move(logits), move(torch.tensor(drafts, dtype=torch.int32)), **parameters)
    ours = [
        None if statement.is_too_close(name, row, draft, parameters, TOLERANCE) else found
        for row, draft, found in zip(exact, drafts, mask.tolist(), strict=True)
    ]
    assert ours == [
        None if found is None else statement.RULES[name](row, draft, **parameters)
        for row, draft, found in zip(exact, drafts, ours, strict=True)
    ]


@pytest.mark.parametrize("place", PLACES)
@every_rule
def test_padding_the_argmax_and_masked_tokens_are_never_accepted(
    name: str, parameters: dict[str, Any], place: str
) -> None:
    logits = torch.tensor([[8.0, 7.0, -INF], [8.0, 7.0, -INF], [8.0, 7.0, -INF], [-INF] * 3])
    drafts = torch.tensor([-1, 0, 2, 1])
    move = PLACES[place]
    assert not RULES[name](move(logits), move(drafts), **parameters).any()


@every_rule
def test_all_but_strict_accept_the_runner_up_of_a_close_row(
    name: str, parameters: dict[str, Any]
) -> None:
    assert accepts(RULES[name], [8.0, 7.9, 1.0], 1, **parameters) is (name != "strict")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@every_rule
def test_rules_do_not_write_to_their_arguments(
    name: str, parameters: dict[str, Any], dtype: torch.dtype
) -> None:
    logits = (torch.randn(32, 64) * 4).to(dtype)
    logits[:, 7] = -INF
    drafts = logits.topk(2, dim=-1).indices[:, 1].int()
    drafts[::5] = -1
    logits_before, drafts_before = logits.clone(), drafts.clone()
    RULES[name](logits, drafts, **parameters)
    assert torch.equal(logits, logits_before)
    assert torch.equal(drafts, drafts_before)


@pytest.mark.parametrize("place", PLACES)
@every_rule
def test_no_rows_give_no_mask(name: str, parameters: dict[str, Any], place: str) -> None:
    move = PLACES[place]
    drafts = torch.empty(0, dtype=torch.int32)
    mask = RULES[name](move(torch.empty(0, 8)), move(drafts), **parameters)
    assert mask.shape == (0,)
    assert mask.dtype == torch.bool


@pytest.mark.parametrize(
    ("name", "key", "wrong"),
    [
        *(("mars", "theta", wrong) for wrong in (0.0, -0.5, 1.0001, math.nan, INF)),
        *(("prob-ratio", "ratio", wrong) for wrong in (0.0, -0.5, 1.0001, math.nan, INF)),
        *(("typical", "epsilon", wrong) for wrong in (0.0, -0.09, 1.0001, math.nan, INF)),
        *(("typical", "alpha", wrong) for wrong in (0.0, -0.3, math.nan, INF)),
        *(("topk-delta", "k", wrong) for wrong in (0, -1, 1.5, math.nan)),
        *(("topk-delta", "delta", wrong) for wrong in (-0.1, 1.0001, math.nan, INF)),
        *(("topk", "k", wrong) for wrong in (0, -2, 2.5, math.nan)),
    ],
)
def test_a_parameter_outside_its_range_is_refused_by_name(
    name: str, key: str, wrong: float
) -> None:
    given = {**dict(EVERY_RULE)[name], key: wrong}
    with pytest.raises(ValueError, match=rf"^{key} must .*, not {wrong}"):
        RULES[name](torch.ones(1, 2), torch.zeros(1, dtype=torch.int64), **given)


@pytest.mark.parametrize(
    ("rule", "given"),
    [
        (mars, {"theta": 1.0}),
        (mars, {"theta": 1e-9}),
        (prob_ratio, {"ratio": 1.0}),
        (prob_ratio, {"ratio": 1e-9}),
        (typical, {"epsilon": 1.0, "alpha": 1e9}),
        (typical, {"epsilon": 1e-9, "alpha": 1e-9}),
        (topk_delta, {"k": 1, "delta": 0.0}),
        (topk_delta, {"k": 1000, "delta": 1.0}),
        (topk, {"k": 1}),
        (topk, {"k": 1000}),
    ],
)
def test_the_ends_of_each_range_are_allowed(
    rule: Callable[..., Tensor], given: dict[str, Any]
) -> None:
    assert not accepts(rule, [4.0, 3.0], 0, **given)


# -- strict --------------------------------------------------------------------------------------


@given(rows=ROWS, data=st.data())
@settings(max_examples=200, deadline=None)
def test_ratios_of_one_are_strict(rows: list[list[float]], data: st.DataObject) -> None:
    drafts = torch.tensor([data.draw(st.integers(-1, 5)) for _ in rows])
    logits = torch.tensor(rows)
    nothing = strict(logits, drafts)
    assert not nothing.any()
    assert torch.equal(mars(logits, drafts, theta=1.0), nothing)
    assert torch.equal(prob_ratio(logits, drafts, ratio=1.0), nothing)


# -- mars ----------------------------------------------------------------------------------------


def test_runner_up_above_theta_is_relaxed() -> None:
    assert accepts(mars, [10.0, 9.5, 1.0], 1, theta=0.9)


def test_ratio_equal_to_theta_is_not_above_it() -> None:
    assert not accepts(mars, [10.0, 9.0, 1.0], 1, theta=0.9)
    assert not accepts(mars, [16.0, 14.0, 1.0], 1, theta=0.875)


@pytest.mark.parametrize(
    ("rule", "given"), [(mars, {"theta": 0.5}), (prob_ratio, {"ratio": 0.01}), (topk, {"k": 2})]
)
class TestRunnerUp:
    """What the rules that accept the runner-up alone mean by it."""

    def test_third_place_is_never_relaxed(
        self, rule: Callable[..., Tensor], given: dict[str, Any]
    ) -> None:
        assert not accepts(rule, [10.0, 9.9, 9.8], 2, **given)

    def test_third_place_is_a_runner_up_when_it_ties_with_one(
        self, rule: Callable[..., Tensor], given: dict[str, Any]
    ) -> None:
        assert accepts(rule, [10.0, 9.5, 9.5], 2, **given)

    def test_two_tokens_tied_above_make_the_next_third(
        self, rule: Callable[..., Tensor], given: dict[str, Any]
    ) -> None:
        assert not accepts(rule, [10.0, 10.0, 9.75], 2, **given)

    def test_token_tied_with_the_top_is_a_runner_up(
        self, rule: Callable[..., Tensor], given: dict[str, Any]
    ) -> None:
        assert accepts(rule, [10.0, 10.0, 1.0], 1, **given)
        assert accepts(rule, [10.0, 10.0, 10.0], 2, **given)


def test_token_tied_with_the_top_has_ratio_one() -> None:
    assert accepts(mars, [10.0, 10.0, 1.0], 1, theta=0.9999)


@pytest.mark.parametrize("top", [0.0, -1.0])
def test_top_logit_that_is_not_positive_means_strict(top: float) -> None:
    assert not accepts(mars, [top, top - 0.01, -8.0], 1, theta=0.1)
    assert not accepts(mars, [top, top, -8.0], 1, theta=0.1)


def test_half_precision_rows_are_compared_in_float32() -> None:
    # 0.89937; in bfloat16 the ratio and both thetas would be 0.8984375.
    logits = torch.tensor([[9.9375, 8.9375, 1.0]], dtype=torch.bfloat16)
    assert mars(logits, torch.tensor([1]), theta=0.8993).tolist() == [True]
    assert mars(logits, torch.tensor([1]), theta=0.8994).tolist() == [False]


# -- What a ratio of logits and a ratio of probabilities do not feel -------------------------------


@given(rows=st.lists(NEAR_ROW, min_size=1, max_size=4), power=st.integers(-4, 4))
@settings(max_examples=100, deadline=None)
def test_mars_does_not_change_with_temperature(rows: list[list[float]], power: int) -> None:
    logits = torch.tensor(rows)  # halving and doubling are exact
    drafts = logits.topk(2, dim=-1).indices[:, 1]
    assert torch.equal(mars(logits * 2.0**power, drafts, 0.96), mars(logits, drafts, 0.96))


@given(rows=st.lists(NEAR_ROW, min_size=1, max_size=4), shift=st.integers(-400, 400))
@settings(max_examples=100, deadline=None)
def test_prob_ratio_does_not_change_with_a_constant_added(
    rows: list[list[float]], shift: int
) -> None:
    logits = torch.tensor(rows)  # sums of sixteenths are exact
    drafts = logits.topk(2, dim=-1).indices[:, 1]
    shifted = logits + shift / 16
    assert torch.equal(prob_ratio(shifted, drafts, 0.8), prob_ratio(logits, drafts, 0.8))


def test_mars_changes_with_a_constant_added() -> None:
    assert not accepts(mars, [10.0, 8.75], 1, theta=0.9)  # 0.875
    assert accepts(mars, [20.0, 18.75], 1, theta=0.9)  # 0.9375
    assert not accepts(mars, [-1.0, -2.25], 1, theta=0.9)
    for shift in (0.0, 10.0, -11.0):
        assert accepts(prob_ratio, [10.0 + shift, 8.75 + shift], 1, ratio=0.28)  # 0.2865
        assert not accepts(prob_ratio, [10.0 + shift, 8.75 + shift], 1, ratio=0.29)


def test_prob_ratio_changes_with_temperature() -> None:
    assert not accepts(prob_ratio, [10.0, 9.0], 1, ratio=0.5)  # exp(-1) = 0.37
    assert accepts(prob_ratio, [5.0, 4.5], 1, ratio=0.5)  # exp(-0.5) = 0.61
    for scale in (1.0, 0.5):
        assert accepts(mars, [10.0 * scale, 9.0 * scale], 1, theta=0.875)
        assert not accepts(mars, [10.0 * scale, 9.0 * scale], 1, theta=0.9375)


# -- prob-ratio ----------------------------------------------------------------------------------


def test_ratio_of_probabilities_is_exp_of_the_gap() -> None:
    assert accepts(prob_ratio, [10.0, 9.0, -3.0], 1, ratio=0.367)  # exp(-1) = 0.3679
    assert not accepts(prob_ratio, [10.0, 9.0, -3.0], 1, ratio=0.369)


def test_prob_ratio_takes_negative_and_huge_logits() -> None:
    assert accepts(prob_ratio, [-10.0, -11.0], 1, ratio=0.3)
    assert accepts(prob_ratio, [5000.0, 4999.0], 1, ratio=0.3)
    assert not accepts(prob_ratio, [5000.0, -5000.0], 1, ratio=1e-9)


# -- typical -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("logits", "accepted"),
    [
        ([2.0, 0.0], True),  # p 0.119, H 0.365: min(0.09, 0.3 * 0.694) = 0.09
        ([3.0, 0.0], False),  # p 0.047 against 0.09
        ([-7.0, -9.0], True),  # as the first: only differences count
        ([2.0, 0.0, -INF], True),  # a masked token has no part in the entropy
        ([0.0] * 16, True),  # p 1/16 < 0.09, but H = ln 16: 0.3 / 16
        ([4.0, -INF], False),
    ],
)
def test_typical_compares_the_draft_with_a_threshold_that_entropy_lowers(
    logits: list[float], accepted: bool
) -> None:
    assert accepts(typical, logits, 1) is accepted


def test_epsilon_is_the_threshold_where_the_target_is_sure() -> None:
    assert accepts(typical, [2.0, 0.0], 1, epsilon=0.119, alpha=1e9)
    assert not accepts(typical, [2.0, 0.0], 1, epsilon=0.12, alpha=1e9)


def test_alpha_scales_the_threshold_where_it_is_not() -> None:
    assert accepts(typical, [0.0] * 4, 1, epsilon=1.0, alpha=0.99)  # 1/4 against 0.99/4
    assert not accepts(typical, [0.0] * 4, 1, epsilon=1.0, alpha=1.01)


def test_typical_accepts_tokens_below_the_runner_up() -> None:
    assert accepts(typical, [1.0, 0.75, 0.5, 0.25], 3)  # p 0.165


# -- topk-delta ----------------------------------------------------------------------------------


def test_delta_is_a_difference_of_probabilities() -> None:
    # p 0.881 and 0.119
    assert accepts(topk_delta, [2.0, 0.0], 1, delta=0.77)
    assert not accepts(topk_delta, [2.0, 0.0], 1, delta=0.76)


def test_delta_zero_accepts_tokens_tied_with_the_top_alone() -> None:
    assert accepts(topk_delta, [2.0, 2.0, 1.9375], 1, k=3, delta=0.0)
    assert not accepts(topk_delta, [2.0, 2.0, 1.9375], 2, k=3, delta=0.0)


def test_topk_delta_looks_at_the_ten_likeliest_by_default() -> None:
    descending = [2.0 - place / 16 for place in range(12)]
    assert accepts(topk_delta, descending, 9)
    assert not accepts(topk_delta, descending, 10)


def test_k_counts_by_value_in_topk_delta() -> None:
    assert accepts(topk_delta, [2.0, 1.5, 1.5, 1.0], 2, k=2)
    assert not accepts(topk_delta, [2.0, 1.5, 1.5, 1.0], 3, k=3)


@given(rows=ROWS, k=st.integers(1, 8), data=st.data())
@settings(max_examples=100, deadline=None)
def test_delta_one_is_topk(rows: list[list[float]], k: int, data: st.DataObject) -> None:
    logits = torch.tensor(rows)
    drafts = torch.tensor([data.draw(st.integers(-1, 5)) for _ in rows])
    assert torch.equal(topk_delta(logits, drafts, k=k, delta=1.0), topk(logits, drafts, k=k))


# -- topk ----------------------------------------------------------------------------------------


@given(row=st.lists(SIXTEENTH, min_size=6, max_size=6, unique=True), draft=st.integers(-1, 5))
@settings(max_examples=100, deadline=None)
def test_topk_of_one_adds_nothing_without_ties(row: list[float], draft: int) -> None:
    assert not accepts(topk, row, draft, k=1)


def test_topk_of_one_accepts_what_ties_with_the_argmax() -> None:
    assert accepts(topk, [3.0, 3.0, 1.0], 1, k=1)
    assert not accepts(topk, [3.0, 3.0, 1.0], 2, k=1)


def test_topk_accepts_however_unlikely() -> None:
    assert accepts(topk, [100.0, -100.0, -101.0], 1)
    assert not accepts(topk, [100.0, -100.0, -101.0], 2)
    assert accepts(topk, [100.0, -100.0, -101.0], 2, k=3)


def test_k_beyond_the_vocabulary_takes_all_that_is_not_masked() -> None:
    assert accepts(topk, [1.0, -50.0, -INF], 1, k=99)
    assert not accepts(topk, [1.0, -50.0, -INF], 2, k=99)
