"""Requests side by side, each with its own rule and its own wishes, on both model runners."""

from __future__ import annotations

from typing import Any

import pytest

from mars_cli.verification.spec import STRICT, RuleSpec
from tests import tiny
from tests.integration import oracle

pytestmark = pytest.mark.engine
SEED, K, THETA = 11, 4, 0.5
HALF = RuleSpec.of("mars", theta=THETA)


def request(prompt: list[int], **sampling: Any) -> dict[str, Any]:
    return {
        "prompt": [0, *prompt],
        "temperature": 0.0,
        "max_tokens": 24,
        "ignore_eos": True,
        **sampling,
    }


@pytest.fixture
def relaxed(lab: Any) -> Any:
    lab.ask("reseed", SEED, SEED)
    lab.set_rule(HALF)
    return lab


def explain(found: dict[str, Any], theta: float = THETA) -> int:
    """Every token is the argmax of the logits that vLLM reports, or a runner-up that was noted.

    Returns how many were relaxed.
    """
    for place, (token, logits) in enumerate(zip(found["tokens"], found["logprobs"], strict=True)):
        first, second = sorted(logits.values(), reverse=True)[:2]
        if place in found["relaxed_at"]:
            assert logits[token] == second < first
            assert second / first > theta
        else:
            assert logits[token] == first
    return len(found["relaxed_at"])


def test_mixed_thetas_in_one_batch_give_each_request_what_it_has_alone(relaxed: Any) -> None:
    wishes: list[dict[str, Any] | None] = [
        None,
        {"mars_theta": 1.0},
        {"mars_rule": "strict"},
        {"mars_theta": "0.8"},
        {"mars_rule": "topk:k=3"},
        {"mars_rule": "typical"},
    ]
    asked = [request([5, 6, 7], extra_args=wish) for wish in wishes]
    alone = [relaxed.ask("probe", [one])[0]["tokens"] for one in asked]
    assert [found["tokens"] for found in relaxed.ask("probe", asked)] == alone
    assert alone[1] == alone[2]
    assert len({tuple(tokens) for tokens in alone}) >= 3  # the rules do differ here
    model = tiny.llama(SEED)
    for theta, tokens in ((THETA, alone[0]), (1.0, alone[1]), (0.8, alone[3])):
        expected = oracle.decode(model, [0, 5, 6, 7], max_tokens=24, k=K, theta=theta, seed=SEED)
        assert tokens == expected.tokens


@pytest.mark.parametrize(
    ("extra_args", "named"),
    [
        ({"mars_theta": 1.5}, "theta must lie in"),
        ({"mars_rule": "martian"}, "unknown rule 'martian'"),
        ({"mars_thta": 0.9}, "mars_thta: unknown"),
        ({"mars_rule": "typical", "mars_theta": 0.9}, "typical has no parameter 'theta'"),
    ],
)
def test_wrong_parameters_are_refused_when_the_request_is_admitted(
    lab: Any, extra_args: dict[str, Any], named: str
) -> None:
    assert named in lab.ask("refusal", extra_args)


def test_parameters_of_others_are_let_through(lab: Any) -> None:
    assert lab.ask("refusal", {"colour": "red", "mars_theta": 0.9}) is None


def test_nothing_else_that_a_request_may_ask_for_changes(relaxed: Any) -> None:
    """One batch; in every request relaxed tokens are in play, and its own wish is kept."""
    (free,) = relaxed.ask("probe", [request([9, 9, 4], max_tokens=40)])
    ends = sorted(set(free["tokens"]))[:40]
    letters = list(range(2 + 40, 2 + 40 + 60))
    wishes: dict[str, dict[str, Any]] = {
        "penalties": {
            "repetition_penalty": 1.2,
            "presence_penalty": 0.4,
            "frequency_penalty": 0.3,
        },
        "min tokens": {"min_tokens": 20, "stop_token_ids": ends},
        "allowed tokens": {"allowed_token_ids": letters},
        "bad words": {"bad_words": [chr(letter) for letter in range(ord("a"), ord("z"))]},
        "grammar": {"structured_outputs": {"regex": "[ -`n-~]{90}"}, "max_tokens": 80},
        "stop strings": {"stop": list("0123456789abcdefghijklm"), "max_tokens": 60},
        "long prompt": {"prompt": [0, *(2 + 7 * i % 250 for i in range(150))]},
    }
    asked = {name: {**request([9, 9, 4], logprobs=8), **wish} for name, wish in wishes.items()}
    found = dict(zip(asked, relaxed.ask("probe", list(asked.values())), strict=True))
    for name, answer in found.items():
        if name != "stop strings":
            assert explain(answer) > 0, name
    explain(found["stop strings"])
    assert not set(ends) & set(found["min tokens"]["tokens"][:20])
    assert set(found["allowed tokens"]["tokens"]) <= set(letters)
    assert not set(found["bad words"]["text"]) & set("abcdefghijklmnopqrstuvwxy")
    assert len(found["grammar"]["tokens"]) == 80
    assert found["grammar"]["text"].isascii()
    assert not set(found["grammar"]["text"]) & set("abcdefghijklm")
    assert not set(found["stop strings"]["text"]) & set("0123456789abcdefghijklm")
    assert relaxed.ask("watched")[0] == 0  # the sampler gave back every logit, bit for bit


def test_chunked_prefill_and_prefix_caching_change_no_token(relaxed: Any) -> None:
    prompt = [2 + 11 * i % 250 for i in range(100)]
    expected = oracle.decode(
        tiny.llama(SEED), [0, *prompt], max_tokens=12, k=K, theta=THETA, seed=SEED
    )
    assert expected.relaxed_at
    for _ in range(2):  # the second time its prefix is cached
        (found,) = relaxed.ask("probe", [request(prompt, max_tokens=12)])
        assert found["tokens"] == expected.tokens
        assert found["relaxed_at"] == expected.relaxed_at


def test_preempted_requests_are_still_verified_and_counted(relaxed: Any) -> None:
    before = relaxed.ask("watched")[1]
    asked = [request([3 + n, *range(20, 60)], max_tokens=70, logprobs=2) for n in range(8)]
    for found in relaxed.ask("probe", asked):
        assert explain(found) > 0
        assert sum(found["steps"]) == len(found["tokens"]) == 70
    assert relaxed.ask("watched")[1] > before


def test_end_of_turn_tokens_that_only_the_rule_accepts_are_counted_and_kept_out(
    relaxed: Any,
) -> None:
    (free,) = relaxed.ask("probe", [request([8, 3])])
    place = free["relaxed_at"][0]
    ends = free["tokens"][place]
    if ends in free["tokens"][:place]:
        pytest.fail("choose another prompt: the token ends the turn earlier")
    for rule, accepted in ((HALF, True), (RuleSpec.of("mars", theta=THETA, protect_stop=True), 0)):
        relaxed.set_rule(rule)
        (found,) = relaxed.ask("probe", [request([8, 3], stop_token_ids=[ends])])
        assert found["stops"] == 1
        assert (found["tokens"] == free["tokens"][: place + 1]) == bool(accepted)
    relaxed.set_rule(STRICT)
    assert relaxed.ask("probe", [request([8, 3], stop_token_ids=[ends])])[0]["stops"] == 0


@pytest.mark.parametrize("lab", ["V2"], indirect=True, scope="session")
def test_a_batch_verified_in_chunks_gives_the_same(relaxed: Any) -> None:
    thetas = [1.0, 0.5, 0.8, 0.6, 0.5]
    asked = [
        request([40 + n, 7], extra_args={"mars_theta": theta}) for n, theta in enumerate(thetas)
    ]
    whole = relaxed.ask("probe", asked)
    relaxed.ask("chunk", 2 * (K + 1) + 1)
    chunked = relaxed.ask("probe", asked)
    relaxed.ask("chunk", 10**6)
    for key in ("tokens", "relaxed_at", "accepted"):
        assert [found[key] for found in chunked] == [found[key] for found in whole]
    assert any(found["relaxed_at"] for found in whole)
