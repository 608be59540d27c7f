from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from mars_cli.verification.hook import Seam
from mars_cli.verification.rules import make_rule


def greedy(draft_token_ids: Any, num_draft_tokens: Any, target_logits: Any) -> torch.Tensor:
    """Stands for the engine's sampler: what a greedy verifier would call the best of each row."""
    return target_logits.argmax(dim=-1)


def failing(draft_token_ids: Any, num_draft_tokens: Any, target_logits: Any) -> torch.Tensor:
    raise RuntimeError("kernel failed")


@pytest.fixture
def seam() -> Seam:
    seam = Seam()
    seam.rule = make_rule("mars", theta=0.9)
    return seam


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_relaxed_draft_becomes_the_argmax_while_the_engine_samples(
    seam: Seam, dtype: torch.dtype
) -> None:
    logits = torch.tensor([[10.0, 9.5, 1.0], [10.0, 8.0, 1.0]], dtype=dtype)
    drafts = torch.tensor([1, 1], dtype=torch.int32)
    assert seam.around_sampler(greedy)(drafts, [2], logits).tolist() == [1, 0]


def test_logits_are_bit_equal_afterwards(seam: Seam) -> None:
    logits = torch.randn(64, 512) * 4
    drafts = logits.topk(2, dim=-1).indices[:, 1].int()
    before = logits.clone()
    seam.around_sampler(greedy)(drafts, [64], logits)
    assert torch.equal(logits, before)


def test_logits_are_bit_equal_after_the_sampler_failed(seam: Seam) -> None:
    logits = torch.tensor([[10.0, 9.5, 1.0]])
    with pytest.raises(RuntimeError, match="kernel failed"):
        seam.around_sampler(failing)(torch.tensor([1]), [1], logits)
    assert logits.tolist() == [[10.0, 9.5, 1.0]]


def test_padding_changes_nothing(seam: Seam) -> None:
    logits = torch.tensor([[9.9, 10.0, 1.0], [10.0, 9.9, 1.0]])
    drafts = torch.tensor([-1, 1], dtype=torch.int32)
    assert seam.around_sampler(greedy)(drafts, [2], logits).tolist() == [1, 1]
    assert logits.tolist() == torch.tensor([[9.9, 10.0, 1.0], [10.0, 9.9, 1.0]]).tolist()


def test_probability_of_a_relaxed_draft_is_exactly_one(seam: Seam) -> None:
    def probability(draft_token_ids: Any, num_draft_tokens: Any, target_logits: Any) -> Any:
        return target_logits.softmax(dim=-1)[0, 1]

    logits = torch.tensor([[10.0, 9.5, 1.0]])
    assert seam.around_sampler(probability)(torch.tensor([1]), [1], logits).item() == 1.0


def test_without_a_rule_the_sampler_sees_the_very_logits() -> None:
    logits = torch.tensor([[10.0, 9.5, 1.0]])
    assert Seam().around_sampler(greedy)(torch.tensor([1]), [1], logits).tolist() == [0]


def test_another_signature_is_refused_with_the_supported_range() -> None:
    def renamed(drafts: Any, logits: Any) -> Any: ...

    with pytest.raises(RuntimeError, match=r"draft_token_ids.*0\.32 to 0\.33"):
        Seam().around_sampler(renamed)
    with pytest.raises(RuntimeError, match="spec_decode_metadata"):
        Seam().around_runner(renamed)


def run_step(
    seam: Seam,
    requests: dict[str, int],
    sampled: list[list[int]],
    logits: list[list[float]] | None = None,
    drafts: list[int] | None = None,
    discarded: list[bool] | None = None,
) -> None:
    """One step through both wrappers; `requests` says how many drafts each brought."""
    runner = SimpleNamespace(
        input_batch=SimpleNamespace(req_ids=list(requests), num_reqs=len(requests)),
        discard_request_mask=SimpleNamespace(np=np.array(discarded or [False] * len(requests))),
    )

    def sample(self: Any, logits: Any, spec_decode_metadata: Any) -> Any:
        if spec_decode_metadata is not None:
            verify(torch.tensor(drafts), spec_decode_metadata.num_draft_tokens, logits)
        return SimpleNamespace(sampled_token_ids=torch.tensor(sampled))

    verify = seam.around_sampler(greedy)
    metadata = SimpleNamespace(num_draft_tokens=list(requests.values())) if drafts else None
    seam.around_runner(sample)(runner, torch.tensor(logits) if logits else None, metadata)


def test_steps_are_told_apart_by_request_and_counted_before_trimming(seam: Seam) -> None:
    near, far = [10.0, 9.5, 1.0], [10.0, 2.0, 1.0]
    run_step(
        seam,
        {"a": 2, "b": 0, "c": 1},
        sampled=[[1, 0, 7], [5, -1, -1], [0, -1, -1]],
        logits=[near, far, far],
        drafts=[1, 0, 1],
    )
    assert seam.drain() == {"a": [(2, 2, [0])], "b": [(0, 0, [])], "c": [(1, 0, [])]}


def test_positions_behind_the_first_rejection_are_not_relaxed(seam: Seam) -> None:
    near, far = [10.0, 9.5, 1.0], [10.0, 2.0, 1.0]
    run_step(seam, {"a": 2}, sampled=[[0, -1, -1]], logits=[far, near], drafts=[1, 1])
    assert seam.drain() == {"a": [(2, 0, [])]}


def test_prompts_still_being_prefilled_are_left_out(seam: Seam) -> None:
    run_step(seam, {"a": 0, "b": 0}, sampled=[[4], [5]], discarded=[True, False])
    assert seam.drain() == {"b": [(0, 0, [])]}


def test_drain_forgets_what_it_returned(seam: Seam) -> None:
    run_step(seam, {"a": 0}, sampled=[[4]])
    seam.drain()
    assert seam.drain() == {}


def test_mask_of_a_drafted_step_does_not_reach_the_next_plain_one(seam: Seam) -> None:
    run_step(seam, {"a": 1}, sampled=[[1, 0]], logits=[[10.0, 9.5, 1.0]], drafts=[1])
    run_step(seam, {"a": 0}, sampled=[[4]])
    assert seam.drain() == {"a": [(1, 1, [0]), (0, 0, [])]}
