from __future__ import annotations

import pytest

from mars_cli.engine.host import align


def test_every_output_gets_what_its_step_verified() -> None:
    seen = [(0, 0, []), (3, 2, [1]), (0, 0, []), (2, 2, [0, 1])]
    assert align([1, 3, 1, 3], seen) == ([0, 3, 0, 2], [0, 2, 0, 2], [2, 5, 6])


def test_last_output_may_be_trimmed_at_a_stop() -> None:
    drafted, accepted, relaxed_at = align([1, 2], [(0, 0, []), (5, 4, [0, 1, 3])])
    assert (drafted, accepted) == ([0, 5], [0, 4])
    assert relaxed_at == [1, 2]  # the relaxed token at position 3 was never delivered


def test_steps_after_the_end_belong_to_nothing() -> None:
    assert align([1], [(0, 0, []), (3, 3, [0])]) == ([0], [0], [])


@pytest.mark.parametrize(
    ("step_tokens", "seen"),
    [
        ([1, 3], [(0, 0, [])]),  # an output without a step
        ([1, 2, 1], [(0, 0, []), (3, 2, []), (0, 0, [])]),  # trimmed in the middle
        ([1, 4], [(0, 0, []), (3, 2, [])]),  # more than the sampler emitted
    ],
)
def test_disagreement_is_loud(
    step_tokens: list[int], seen: list[tuple[int, int, list[int]]]
) -> None:
    with pytest.raises(RuntimeError, match="delivered"):
        align(step_tokens, seen)
