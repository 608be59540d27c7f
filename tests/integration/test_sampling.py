"""Temperature > 0 on the tiny model: what a seed promises, and what is drawn."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from scipy.stats import chisquare

from mars_cli.engine.engine import Engine
from mars_cli.engine.protocol import Request
from mars_cli.verification.spec import STRICT, RuleSpec
from tests import tiny
from tests.integration import oracle

pytestmark = pytest.mark.engine
HALF = RuleSpec.of("mars", theta=0.5)


def sample(engine: Engine, seed: int, concurrency: int = 1, last_first: bool = False) -> Any:
    requests = [
        Request(
            str(n),
            [0, *range(3, 20 + n)],
            max_tokens=40,
            temperature=0.7,
            sampling={"seed": seed + n},
        )
        for n in range(4)
    ]
    found = engine.generate(requests[::-1] if last_first else requests, concurrency)
    return {generation.id: generation for generation in found}


@pytest.mark.parametrize("rule", [None, STRICT, HALF], ids=["ar", "strict", "mars"])
def test_a_seed_gives_its_request_the_same_tokens_again(
    engines: tuple[Engine, Engine], rule: RuleSpec | None
) -> None:
    """Whatever was asked before, and in whatever order."""
    engine = engines[0] if rule is None else engines[1]
    if rule is not None:
        engine.set_rule(rule)
    first = {key: found.token_ids for key, found in sample(engine, 1).items()}
    again = {key: found.token_ids for key, found in sample(engine, 1, last_first=True).items()}
    other = {key: found.token_ids for key, found in sample(engine, 100).items()}
    assert again == first
    assert all(first[key] != other[key] for key in first)


def test_sampled_steps_add_up_too(engines: tuple[Engine, Engine]) -> None:
    engine = engines[1]
    for rule in (STRICT, HALF):
        engine.set_rule(rule)
        found = sample(engine, 7, concurrency=4).values()
        for generation in found:
            assert sum(generation.step_tokens) == len(generation.token_ids)
            emitted = [1 + accepted for accepted in generation.accepted]
            assert generation.step_tokens[:-1] == emitted[:-1]
        assert any(any(generation.drafted) for generation in found)


def test_a_seed_survives_a_prompt_that_comes_in_chunks(lab: Any) -> None:
    lab.ask("reseed", 5, 5)
    lab.set_rule(HALF)
    asked = [
        {
            "prompt": [0, *(2 + (n + 7) * i % 250 for i in range(150))],
            "temperature": 1.0,
            "seed": n,
            "max_tokens": 6,
        }
        for n in range(2)
    ]
    alone = [lab.ask("probe", [one])[0]["tokens"] for one in asked]
    assert [lab.ask("probe", [one])[0]["tokens"] for one in asked] == alone


def chances(z: list[float], temperature: float) -> dict[int, float]:
    """The distribution that sampling from the three likeliest has."""
    best = sorted(range(len(z)), key=lambda token: -z[token])[:3]
    weights = {token: math.exp((z[token] - z[best[0]]) / temperature) for token in best}
    return {token: weight / sum(weights.values()) for token, weight in weights.items()}


@pytest.mark.parametrize("lab", ["V1"], indirect=True, scope="session")
@pytest.mark.parametrize("rule", [STRICT, HALF], ids=["strict", "mars"])
def test_what_the_engine_draws_has_the_distribution_worked_out_by_hand(
    lab: Any, rule: RuleSpec
) -> None:
    """The first two tokens, the second verified against a draft at its temperature and top-k."""
    seed, temperature, n = 5, 0.8, 4000
    model = tiny.llama(seed)
    for token in range(30, 60):
        prompt = [0, token, token]
        right: dict[tuple[int, int], float] = {}
        for first, p in chances(oracle.next_logits(model, prompt), temperature).items():
            z = oracle.next_logits(model, [*prompt, first])
            draft = oracle.script(model, [*prompt, first], 4, seed)[0]
            if rule == HALF and draft != z.index(max(z)) and oracle.mars_accepts(z, draft, 0.5):
                right[first, draft] = p
            else:
                for second, q in chances(z, temperature).items():
                    right[first, second] = p * q
        if len(right) < 9 or rule == STRICT:  # the rule decides one of the three at least
            break
    lab.ask("reseed", seed, seed)
    lab.set_rule(rule)
    asked = {
        "prompt": prompt,
        "temperature": temperature,
        "top_k": 3,
        "max_tokens": 3,
        "ignore_eos": True,
    }
    answers = lab.ask("probe", [{**asked, "seed": number} for number in range(n)])
    found = Counter(tuple(answer["tokens"][:2]) for answer in answers)
    assert set(found) <= set(right)
    pairs = [(found[key], n * share) for key, share in right.items()]
    assert chisquare(*zip(*pairs, strict=True)).pvalue > 0.001
