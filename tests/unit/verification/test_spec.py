from __future__ import annotations

import json
import re
from typing import Any

import pytest
import torch

from mars_cli.verification.rules import RULES
from mars_cli.verification.spec import STRICT, RuleSpec, parameters_of, request_spec

MARS = RuleSpec.of("mars", theta=0.9)
PROTECTED = RuleSpec.of("mars", theta=0.9, protect_stop=True)


def test_parameters_and_defaults_of_each_rule() -> None:
    assert {name: parameters_of(name) for name in RULES} == {
        "strict": {},
        "mars": {"theta": None},
        "prob-ratio": {"ratio": None},
        "typical": {"epsilon": 0.09, "alpha": 0.3},
        "topk-delta": {"k": 10, "delta": 0.6},
        "topk": {"k": 2},
    }


# -- As written ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "parameters"),
    [
        ("strict", "strict", {}),
        ("mars:theta=0.9", "mars", {"theta": 0.9}),
        ("  mars:theta = .9 , ", "mars", {"theta": 0.9}),
        ("prob-ratio:ratio=5e-1", "prob-ratio", {"ratio": 0.5}),
        ("typical", "typical", {"epsilon": 0.09, "alpha": 0.3}),
        ("typical:", "typical", {"epsilon": 0.09, "alpha": 0.3}),
        ("typical:alpha=0.5", "typical", {"epsilon": 0.09, "alpha": 0.5}),
        ("topk-delta:delta=0.25,k=5", "topk-delta", {"k": 5, "delta": 0.25}),
        ("topk:k=3", "topk", {"k": 3}),
    ],
)
def test_a_rule_is_its_name_and_parameters(
    text: str, name: str, parameters: dict[str, float]
) -> None:
    spec = RuleSpec.parse(text)
    assert (spec.name, dict(spec.parameters), spec.protect_stop) == (name, parameters, False)


def test_specs_are_equal_whatever_was_left_to_the_defaults() -> None:
    written = {
        RuleSpec.parse("typical"),
        RuleSpec.parse("typical:alpha=0.3,epsilon=0.09"),
        RuleSpec.of("typical", epsilon=0.09),
    }
    assert len(written) == 1
    assert RuleSpec.parse("mars:theta=1") == RuleSpec.of("mars", theta=1.0)
    assert RuleSpec.parse("typical:alpha=0.31") not in written


def test_a_whole_number_stays_one() -> None:
    assert RuleSpec.parse("topk:k=3").describe() == {"name": "topk", "protect_stop": False, "k": 3}
    assert isinstance(dict(RuleSpec.parse("topk:k=3").parameters)["k"], int)


@pytest.mark.parametrize(
    ("written", "protects"),
    [
        ("protect-stop", True),
        ("protect_stop", True),
        ("protect-stop=true", True),
        ("protect-stop=True", True),
        ("protect-stop=1", True),
        ("protect-stop=false", False),
        ("protect-stop=0", False),
    ],
)
def test_protect_stop_needs_no_value(written: str, protects: bool) -> None:
    spec = RuleSpec.parse(f"mars:{written},theta=0.9")
    assert spec == RuleSpec.of("mars", theta=0.9, protect_stop=protects)


def test_what_is_given_beside_the_text_wins() -> None:
    spec = RuleSpec.parse("mars:theta=0.8,protect-stop", theta=0.9, protect_stop=False)
    assert spec == MARS


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("martian", "unknown rule 'martian'; known are strict, mars, prob-ratio, typical,"),
        ("", "unknown rule ''"),
        ("mars", "mars needs theta, such as mars:theta=0.9"),
        ("prob-ratio:protect-stop", "prob-ratio needs ratio, such as prob-ratio:ratio=0.9"),
        ("mars:theta=0.9,phi=1", "mars has no parameter 'phi'; it takes theta, protect-stop"),
        ("strict:theta=1", "strict has no parameter 'theta'; it takes protect-stop"),
        ("mars:theta", "'theta' is no parameter: write key=value"),
        ("mars:0.9", "'0.9' is no parameter: write key=value"),
        ("mars:theta=high", "theta must be a number, not 'high'"),
        ("mars:theta=", "theta must be a number, not ''"),
        ("mars:theta=nan", "theta must be a number, not 'nan'"),
        ("mars:theta=1.5", "theta must lie in (0, 1], not 1.5"),
        ("mars:theta=inf", "theta must be a number, not 'inf'"),
        ("prob-ratio:ratio=0", "ratio must lie in (0, 1], not 0"),
        ("typical:epsilon=2", "epsilon must lie in (0, 1], not 2"),
        ("typical:alpha=-0.3", "alpha must be above 0, not -0.3"),
        ("topk-delta:delta=1.5", "delta must lie in [0, 1], not 1.5"),
        ("topk-delta:k=0", "k must be a whole number from 1 to 1000, not 0"),
        ("topk:k=2.5", "k must be a whole number from 1 to 1000, not 2.5"),
        ("mars:theta=0.9,theta=0.8", "theta is given twice"),
        ("mars:theta=0.9,protect-stop=maybe", "protect-stop must be true or false, not 'maybe'"),
    ],
)
def test_what_is_written_wrong_is_named_with_what_would_be_right(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        RuleSpec.parse(text)


# -- As values -------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["high", True, [0.9], float("nan")])
def test_a_value_that_is_no_number_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="theta must be a number"):
        RuleSpec.of("mars", theta=wrong)


@pytest.mark.parametrize(
    "text",
    [
        "strict",
        "strict:protect-stop",
        "mars:theta=0.905",
        "mars:theta=1,protect-stop",
        "prob-ratio:ratio=0.37",
        "typical",
        "topk-delta:k=4,protect-stop",
        "topk:k=3",
    ],
)
def test_what_a_spec_describes_makes_the_same_again(text: str) -> None:
    spec = RuleSpec.parse(text)
    plain = json.loads(json.dumps(spec.describe()))
    assert RuleSpec.of(plain.pop("name"), **plain) == spec
    plain["name"] = spec.name
    assert set(plain) == {"name", "protect_stop", *parameters_of(spec.name)}


def test_the_rule_has_the_parameters_bound() -> None:
    logits, drafts = torch.tensor([[10.0, 9.5, 1.0], [10.0, 8.5, 1.0]]), torch.tensor([1, 1])
    assert MARS.rule()(logits, drafts).tolist() == [True, False]
    assert RuleSpec.parse("mars:theta=0.8").rule()(logits, drafts).tolist() == [True, True]
    assert RuleSpec.parse("topk:k=1").rule()(logits, drafts).tolist() == [False, False]
    assert STRICT.rule()(logits, drafts).tolist() == [False, False]


def test_strict_alone_has_nothing_to_do() -> None:
    assert STRICT.is_strict
    assert RuleSpec.parse("strict") == STRICT
    assert not any(RuleSpec.parse(text).is_strict for text in ("mars:theta=1", "topk:k=1"))


# -- In a request ----------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [None, {}, {"session_id": "a", "marsupial": 1}])
def test_a_request_that_asks_for_nothing_gets_the_default(asked: dict[str, Any] | None) -> None:
    assert request_spec(asked, PROTECTED) is PROTECTED


@pytest.mark.parametrize(
    ("asked", "default", "spec"),
    [
        ({"mars_theta": 0.9}, "strict", "mars:theta=0.9"),
        ({"mars_theta": "0.9"}, "strict", "mars:theta=0.9"),
        ({"mars_theta": 1}, "mars:theta=0.9", "mars:theta=1"),
        ({"mars_theta": 0.9}, "typical:epsilon=0.2", "mars:theta=0.9"),
        ({"mars_rule": "mars", "mars_theta": "0.9"}, "strict", "mars:theta=0.9"),
        ({"mars_rule": "mars:theta=0.8", "mars_theta": 0.9}, "strict", "mars:theta=0.9"),
        ({"mars_rule": "topk:k=3"}, "mars:theta=0.9", "topk:k=3"),
        ({"mars_rule": "strict"}, "mars:theta=0.9", "strict"),
        ({"mars_rule": "strict", "session_id": "a"}, "mars:theta=0.9", "strict"),
        ({"mars_rule": "typical:protect-stop"}, "strict", "typical:protect-stop"),
    ],
)
def test_a_request_may_ask_for_another_rule(asked: dict[str, Any], default: str, spec: str) -> None:
    before = dict(asked)
    assert request_spec(asked, RuleSpec.parse(default)) == RuleSpec.parse(spec)
    assert asked == before


@pytest.mark.parametrize("protect", [True, 1, "1", "true", "True"])
def test_a_request_may_protect_the_stop(protect: Any) -> None:
    assert request_spec({"mars_protect_stop": protect}, MARS) == PROTECTED
    asked = {"mars_theta": "0.9", "mars_protect_stop": protect}
    assert request_spec(asked, STRICT) == PROTECTED


@pytest.mark.parametrize("protect", [False, 0, "0", "false", "False"])
def test_a_request_may_leave_the_stop_unprotected(protect: Any) -> None:
    assert request_spec({"mars_protect_stop": protect}, PROTECTED) == MARS
    asked = {"mars_rule": "mars:theta=0.9", "mars_protect_stop": protect}
    assert request_spec(asked, PROTECTED) == MARS


def test_protection_by_default_holds_for_a_request_that_does_not_mention_it() -> None:
    assert request_spec({"mars_theta": 0.9}, PROTECTED) == PROTECTED
    assert request_spec({"mars_rule": "topk"}, PROTECTED) == RuleSpec.parse("topk:protect-stop")


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"mars_thteta": 0.9}, "mars_thteta: unknown; a request may give mars_rule, mars_theta,"),
        ({"mars_theta": 0.9, "mars_k": 3}, "mars_k: unknown"),
        ({"mars_theta": "high"}, "mars_theta: theta must be a number, not 'high'"),
        ({"mars_theta": ""}, "mars_theta: theta must be a number, not ''"),
        ({"mars_theta": None}, "mars_theta: mars needs theta"),
        ({"mars_theta": True}, "mars_theta: theta must be a number, not 'True'"),
        ({"mars_theta": [0.9]}, "mars_theta: theta must be a number, not '[0.9]'"),
        ({"mars_theta": "1.5"}, "mars_theta: theta must lie in (0, 1], not 1.5"),
        ({"mars_rule": "mars"}, "mars_rule: mars needs theta, such as mars:theta=0.9"),
        ({"mars_rule": "martian"}, "mars_rule: unknown rule 'martian'; known are strict,"),
        ({"mars_rule": ["mars"]}, "mars_rule: unknown rule"),
        (
            {"mars_rule": "typical", "mars_theta": 0.9},
            "mars_rule, mars_theta: typical has no parameter 'theta'; it takes epsilon, alpha,",
        ),
        ({"mars_protect_stop": "maybe"}, "mars_protect_stop: protect-stop must be true or false"),
        ({"mars_protect_stop": None}, "mars_protect_stop: protect-stop must be true or false"),
        ({"mars_protect_stop": 2}, "mars_protect_stop: protect-stop must be true or false"),
    ],
)
def test_a_request_that_asks_wrongly_is_told_by_key(asked: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(says)}"):
        request_spec(asked, MARS)


@pytest.mark.parametrize(
    "asked",
    [
        {"mars_rule": "topk:k=inf"},
        {"mars_rule": "topk:k=1e30"},  # beyond int64: a comparison on an accelerator raises
        {"mars_rule": "mars:theta=0.9,name=3"},
        {"mars_rule": "mars:theta=0.9,cls=3"},
        {"mars_theta": 10**400},
        {"mars_rule": "", "mars_theta": 0.9},  # the theta is ignored
        {"mars_protect_stop": ""},  # counts as true
    ],
    ids=lambda asked: str(asked)[:40],
)
def test_no_request_escapes_refusal(asked: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="mars_"):
        request_spec(asked, STRICT)


def test_a_request_may_leave_the_stop_unprotected_within_its_rule() -> None:
    asked = {"mars_rule": "mars:theta=0.9,protect-stop=false"}
    assert request_spec(asked, PROTECTED) == MARS
