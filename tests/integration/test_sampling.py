"""Temperature > 0 on the tiny model."""

from __future__ import annotations

import pytest

from mars_cli.engine.engine import Engine
from mars_cli.engine.protocol import Generation, Request

pytestmark = pytest.mark.engine


def sample(engine: Engine, seed: int) -> list[Generation]:
    engine.seed(seed)
    requests = [
        Request(str(n), [0, *range(3, 20 + n)], max_tokens=40, temperature=0.7) for n in range(4)
    ]
    return list(engine.generate(requests, concurrency=1))


def tokens(generations: list[Generation]) -> list[list[int]]:
    return [generation.token_ids for generation in generations]


def test_autoregressive_sampling_repeats_with_its_seed(engines: tuple[Engine, Engine]) -> None:
    plain = engines[0]
    first = tokens(sample(plain, 1))
    assert tokens(sample(plain, 1)) == first
    assert tokens(sample(plain, 2)) != first


@pytest.mark.parametrize("rule", [("strict", {}), ("mars", {"theta": 0.8})])
def test_sampled_steps_add_up_too(
    engines: tuple[Engine, Engine], rule: tuple[str, dict[str, float]]
) -> None:
    speculating = engines[1]
    speculating.set_rule(*rule)
    for generation in sample(speculating, 1):
        assert sum(generation.step_tokens) == len(generation.token_ids)
        assert any(generation.drafted)
        emitted = [1 + accepted for accepted in generation.accepted]
        assert generation.step_tokens[:-1] == emitted[:-1]
