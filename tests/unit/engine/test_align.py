from __future__ import annotations

import pytest

from mars_cli.engine.host import align, positions
from mars_cli.verification.hook import StepSeen


def step(drafted: int, accepted: int, relaxed: list[int], stop: bool = False) -> StepSeen:
    return StepSeen(drafted, accepted, relaxed, stop)


def test_every_output_gets_what_its_step_verified() -> None:
    seen = [step(0, 0, []), step(3, 2, [1]), step(0, 0, []), step(2, 2, [0, 1])]
    assert align([1, 3, 1, 3], seen) == ([0, 3, 0, 2], [0, 2, 0, 2], [2, 5, 6], 0)


def test_last_output_may_be_trimmed_at_a_stop() -> None:
    drafted, accepted, relaxed_at, _ = align([1, 2], [step(0, 0, []), step(5, 4, [0, 1, 3])])
    assert (drafted, accepted) == ([0, 5], [0, 4])
    assert relaxed_at == [1, 2]  # the relaxed token at position 3 was never delivered


def test_steps_after_the_end_belong_to_nothing() -> None:
    assert align([1], [step(0, 0, []), step(3, 3, [0], True)]) == ([0], [0], [], 0)


def test_end_of_turn_tokens_that_only_the_rule_accepts_are_counted() -> None:
    seen = [step(0, 0, []), step(3, 1, [0], True), step(2, 2, [1], True)]
    assert align([1, 2, 3], seen)[3] == 2


@pytest.mark.parametrize(
    ("step_tokens", "seen"),
    [
        ([1, 3], [step(0, 0, [])]),  # an output without a step
        ([1, 2, 1], [step(0, 0, []), step(3, 2, []), step(0, 0, [])]),  # trimmed in the middle
        ([1, 4], [step(0, 0, []), step(3, 2, [])]),  # more than the sampler emitted
    ],
)
def test_disagreement_is_loud(step_tokens: list[int], seen: list[StepSeen]) -> None:
    with pytest.raises(RuntimeError, match="delivered"):
        align(step_tokens, seen)


def test_positions_stand_where_in_the_answer_their_drafts_would_have() -> None:
    def looked(*drafts: int) -> list[tuple[int, list[float]]]:
        return [(draft, [float(draft)]) for draft in drafts]

    seen = [
        StepSeen(0, 0, [], False),
        StepSeen(3, 2, [1], False, looked(7, 8, 9)),  # the third was rejected
        StepSeen(0, 0, [], False),
        StepSeen(2, 2, [], False, looked(5, 6)),  # trimmed after the first
    ]
    found = [(p.at, p.place, p.draft, p.accepted, p.relaxed) for p in positions([1, 3, 1, 1], seen)]
    assert found == [
        (1, 0, 7, True, False),
        (2, 1, 8, True, True),
        (3, 2, 9, False, False),
        (5, 0, 5, True, False),
    ]
