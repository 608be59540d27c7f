from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from mars_cli.verification import teacher
from mars_cli.verification.hook import Policy, Seam
from mars_cli.verification.rows import FIELDS
from mars_cli.verification.runners import (
    V1_RUNNER,
    V1_SAMPLER,
    V2_PLAIN_SAMPLER,
    V2_SAMPLER,
    around_v1_runner,
    around_v1_sampler,
    around_v2_sampler,
    around_v2_step,
    install,
)
from mars_cli.verification.spec import STRICT, RuleSpec

MARS = RuleSpec.of("mars", theta=0.9)
NEAR, FAR = [10.0, 9.5, 1.0], [10.0, 2.0, 1.0]


def greedy(draft_token_ids: Any, num_draft_tokens: Any, target_logits: Any) -> torch.Tensor:
    """Stands for the engine's sampler: what a greedy verifier would call the best of each row."""
    return target_logits.argmax(dim=-1)


def failing(draft_token_ids: Any, num_draft_tokens: Any, target_logits: Any) -> torch.Tensor:
    raise RuntimeError("kernel failed")


@pytest.fixture
def seam() -> Seam:
    return Seam(MARS)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_relaxed_draft_becomes_the_argmax_while_the_engine_samples(
    seam: Seam, dtype: torch.dtype
) -> None:
    logits = torch.tensor([[10.0, 9.5, 1.0], [10.0, 8.0, 1.0]], dtype=dtype)
    drafts = torch.tensor([1, 1], dtype=torch.int32)
    assert around_v1_sampler(seam, greedy)(drafts, [2], logits).tolist() == [1, 0]


def test_logits_are_bit_equal_afterwards(seam: Seam) -> None:
    logits = torch.randn(64, 512) * 4
    drafts = logits.topk(2, dim=-1).indices[:, 1].int()
    before = logits.clone()
    around_v1_sampler(seam, greedy)(drafts, [64], logits)
    assert torch.equal(logits, before)


def test_logits_are_bit_equal_after_the_sampler_failed(seam: Seam) -> None:
    logits = torch.tensor([[10.0, 9.5, 1.0]])
    with pytest.raises(RuntimeError, match="kernel failed"):
        around_v1_sampler(seam, failing)(torch.tensor([1]), [1], logits)
    assert logits.tolist() == [[10.0, 9.5, 1.0]]


def test_padding_changes_nothing(seam: Seam) -> None:
    logits = torch.tensor([[9.9, 10.0, 1.0], [10.0, 9.9, 1.0]])
    drafts = torch.tensor([-1, 1], dtype=torch.int32)
    assert around_v1_sampler(seam, greedy)(drafts, [2], logits).tolist() == [1, 1]
    assert logits.tolist() == torch.tensor([[9.9, 10.0, 1.0], [10.0, 9.9, 1.0]]).tolist()


def test_probability_of_a_relaxed_draft_is_exactly_one(seam: Seam) -> None:
    def probability(draft_token_ids: Any, num_draft_tokens: Any, target_logits: Any) -> Any:
        return target_logits.softmax(dim=-1)[0, 1]

    logits = torch.tensor([[10.0, 9.5, 1.0]])
    assert around_v1_sampler(seam, probability)(torch.tensor([1]), [1], logits).item() == 1.0


def test_without_a_rule_the_sampler_sees_the_very_logits() -> None:
    logits = torch.tensor([[10.0, 9.5, 1.0]])
    assert around_v1_sampler(Seam(), greedy)(torch.tensor([1]), [1], logits).tolist() == [0]


def test_another_signature_is_refused_with_the_supported_range() -> None:
    def renamed(drafts: Any, logits: Any) -> Any: ...

    with pytest.raises(RuntimeError, match=r"draft_token_ids.*0\.32 to 0\.33"):
        around_v1_sampler(Seam(), renamed)
    with pytest.raises(RuntimeError, match="spec_decode_metadata"):
        around_v1_runner(Seam(), renamed)
    with pytest.raises(RuntimeError, match="draft_sampled, cu_num_logits"):
        around_v2_sampler(Seam(), renamed)
    with pytest.raises(RuntimeError, match="input_batch"):
        around_v2_step(Seam(), {}, renamed, drafts=True)
    with pytest.raises(RuntimeError, match="num_scheduled_tokens"):
        teacher.around_v1(teacher.Teacher(), renamed)
    with pytest.raises(RuntimeError, match="logits_fn"):
        teacher.around_v2(teacher.Teacher(), renamed)


@pytest.mark.parametrize(
    ("v2", "modules"),
    [(False, (V1_SAMPLER, V1_RUNNER)), (True, (V2_SAMPLER, V2_PLAIN_SAMPLER))],
    ids=["V1", "V2"],
)
def test_a_vllm_with_other_functions_is_left_as_it_is(
    monkeypatch: pytest.MonkeyPatch, v2: bool, modules: tuple[str, str]
) -> None:
    def other(drafts: Any, logits: Any) -> Any: ...

    stub = SimpleNamespace(
        rejection_sample=other,
        GPUModelRunner=SimpleNamespace(_sample=other),
        RejectionSampler=SimpleNamespace(__call__=other),
        Sampler=SimpleNamespace(__call__=other, add_request=other),
    )
    for name in modules:
        monkeypatch.setitem(sys.modules, name, stub)
    with pytest.raises(RuntimeError, match=r"no parameter .*0\.32 to 0\.33"):
        install(Seam(MARS), v2=v2, version="0.33.1")
    assert stub.rejection_sample is other


def params(stop: tuple[int, ...] = (), **extra: Any) -> SimpleNamespace:
    """What the seam reads of a request's `SamplingParams`."""
    return SimpleNamespace(eos_token_id=None, stop_token_ids=list(stop), extra_args=extra or None)


def run_step(
    seam: Seam,
    requests: dict[str, int],
    sampled: list[list[int]],
    logits: list[list[float]] | None = None,
    drafts: list[int] | None = None,
    discarded: list[bool] | None = None,
    sampling: dict[str, Any] | None = None,
) -> list[int]:
    """One step through both V1 wrappers; `requests` says how many drafts each brought.

    Returns the argmax of each verified row as the sampler saw it.
    """
    found: list[int] = []
    runner = SimpleNamespace(
        input_batch=SimpleNamespace(req_ids=list(requests), num_reqs=len(requests), generators={}),
        requests={
            name: SimpleNamespace(
                sampling_params=(sampling or {}).get(name, params()), generator=None
            )
            for name in requests
        },
        discard_request_mask=SimpleNamespace(np=np.array(discarded or [False] * len(requests))),
    )

    def sample(self: Any, logits: Any, spec_decode_metadata: Any) -> Any:
        if spec_decode_metadata is not None:
            best = verify(torch.tensor(drafts), spec_decode_metadata.num_draft_tokens, logits)
            found.extend(best.tolist())
        return SimpleNamespace(sampled_token_ids=torch.tensor(sampled))

    verify = around_v1_sampler(seam, greedy)
    metadata = SimpleNamespace(num_draft_tokens=list(requests.values())) if drafts else None
    around_v1_runner(seam, sample)(runner, torch.tensor(logits) if logits else None, metadata)
    return found


def drained(seam: Seam) -> dict[str, list[tuple[Any, ...]]]:
    """What was seen of each step, but for the rows looked at."""
    return {name: [step[:4] for step in steps] for name, steps in seam.drain().items()}


def test_steps_are_told_apart_by_request_and_counted_before_trimming(seam: Seam) -> None:
    run_step(
        seam,
        {"a": 2, "b": 0, "c": 1},
        sampled=[[1, 0, 7], [5, -1, -1], [0, -1, -1]],
        logits=[NEAR, FAR, FAR],
        drafts=[1, 0, 1],
    )
    assert drained(seam) == {
        "a": [(2, 2, [0], False)],
        "b": [(0, 0, [], False)],
        "c": [(1, 0, [], False)],
    }


def test_positions_behind_the_first_rejection_are_not_relaxed(seam: Seam) -> None:
    run_step(seam, {"a": 2}, sampled=[[0, -1, -1]], logits=[FAR, NEAR], drafts=[1, 1])
    assert drained(seam) == {"a": [(2, 0, [], False)]}


def test_prompts_still_being_prefilled_are_left_out(seam: Seam) -> None:
    run_step(seam, {"a": 0, "b": 0}, sampled=[[4], [5]], discarded=[True, False])
    assert drained(seam) == {"b": [(0, 0, [], False)]}


def test_drain_forgets_what_it_returned(seam: Seam) -> None:
    run_step(seam, {"a": 0}, sampled=[[4]])
    seam.drain()
    assert drained(seam) == {}


def test_a_server_that_nobody_drains_keeps_nothing() -> None:
    seam = Seam(MARS, record=False)
    assert run_step(seam, {"a": 1}, sampled=[[1, 0]], logits=[NEAR], drafts=[1]) == [1]
    assert drained(seam) == {}


def test_tracing_looks_as_far_as_the_draft_was_followed_and_only_while_it_is_on(seam: Seam) -> None:
    def step() -> None:
        run_step(
            seam,
            {"a": 3, "b": 2},
            sampled=[[1, 0, -1, -1], [1, 0, 7, -1]],
            logits=[NEAR, FAR, NEAR, NEAR, FAR],
            drafts=[1, 1, 1, 1, -1],
        )

    step()
    seam.tracing = True
    step()
    seam.tracing = False
    found = seam.drain()
    assert [step.looked for step in (found["a"][0], found["b"][0])] == [(), ()]
    (_, traced), (_, other) = found["a"], found["b"]
    # The third was behind the first rejection; of b's two, one is padding.
    assert [draft for draft, _ in traced.looked] == [1, 1]
    assert [draft for draft, _ in other.looked] == [1]
    values = dict(zip(FIELDS, traced.looked[0][1], strict=True))
    lse = float(torch.tensor(NEAR).logsumexp(0))
    assert values == pytest.approx(
        {"z": 9.5, "z1": 10, "z2": 9.5, "lse": lse, "entropy": values["entropy"], "above": 1}
    )


def test_mask_of_a_drafted_step_does_not_reach_the_next_plain_one(seam: Seam) -> None:
    run_step(seam, {"a": 1}, sampled=[[1, 0]], logits=[NEAR], drafts=[1])
    run_step(seam, {"a": 0}, sampled=[[4]])
    assert drained(seam) == {"a": [(1, 1, [0], False), (0, 0, [], False)]}


def test_each_request_of_a_batch_is_verified_by_its_own_rule(seam: Seam) -> None:
    third = [10.0, 9.5, 9.4]
    best = run_step(
        seam,
        {"own": 1, "none": 0, "strict": 2, "higher": 1, "other": 1},
        sampled=[[1, 0], [3, -1], [0, -1], [0, -1], [2, 0]],
        logits=[NEAR, NEAR, NEAR, NEAR, third],
        drafts=[1, 1, 1, 1, 2],
        sampling={
            "strict": params(mars_rule="strict"),
            "higher": params(mars_theta=0.96),
            "other": params(mars_rule="topk:k=3"),
        },
    )
    assert best == [1, 0, 0, 0, 2]
    seen = drained(seam)
    assert seen["own"] == [(1, 1, [0], False)]
    assert seen["strict"] == [(2, 0, [], False)]
    assert seen["other"] == [(1, 1, [0], False)]


def test_end_of_turn_tokens_are_counted_and_protected_on_request(seam: Seam) -> None:
    protected = RuleSpec.of("mars", theta=0.9, protect_stop=True)
    for default, accepts in ((MARS, 1), (protected, 0)):
        seam.default = default
        best = run_step(
            seam,
            {"ends": 1, "goes on": 1},
            sampled=[[accepts, 0] if accepts else [0, -1], [1, 0]],
            logits=[NEAR, NEAR],
            drafts=[1, 1],
            sampling={"ends": params(stop=(1,)), "goes on": params(stop=(2,))},
        )
        assert best == [accepts, 1]
        assert drained(seam) == {
            "ends": [(1, accepts, [0] if accepts else [], True)],
            "goes on": [(1, 1, [0], False)],
        }


def test_end_of_turn_token_behind_a_rejection_does_not_count(seam: Seam) -> None:
    run_step(
        seam,
        {"a": 2},
        sampled=[[0, -1, -1]],
        logits=[FAR, NEAR],
        drafts=[1, 1],
        sampling={"a": params(stop=(1,))},
    )
    assert drained(seam) == {"a": [(2, 0, [], False)]}


def v2_greedy(
    target_logits: Any,
    draft_logits: Any,
    draft_sampled: Any,
    cu_num_logits: Any,
    expanded_idx_mapping: Any,
) -> Any:
    """Stands for V2's sampler, which is run for real in the integration tests."""
    return target_logits.argmax(dim=-1)


def test_v2_rows_verify_the_next_token_of_their_request(seam: Seam) -> None:
    logits = torch.tensor([NEAR, NEAR, NEAR, NEAR], dtype=torch.bfloat16)
    before = logits.clone()
    best = around_v2_sampler(seam, v2_greedy)(
        logits,
        None,
        draft_sampled=torch.tensor([7, 1, 9, 1]),  # of two requests: one draft, then one draft
        cu_num_logits=torch.tensor([0, 2, 4]),
        expanded_idx_mapping=torch.tensor([3, 3, 0, 0]),
    )
    assert best.tolist() == [1, 0, 1, 0]
    assert torch.equal(logits, before)


def test_v2_ignores_columns_beyond_the_vocabulary_of_the_draft(seam: Seam) -> None:
    logits = torch.tensor([[10.0, 9.5, 1.0, 30.0], [*FAR, 30.0]])
    best = around_v2_sampler(seam, v2_greedy)(
        logits,
        torch.zeros(1, 1, 3),
        torch.tensor([7, 1]),
        torch.tensor([0, 2]),
        torch.tensor([0, 0]),
    )
    assert best.tolist() == [1, 3]  # raised above all columns, though only three are compared


def test_v2_steps_come_in_chunks_and_by_slots(seam: Seam) -> None:
    verify = around_v2_sampler(seam, v2_greedy)

    def call(self: Any, logits: Any, input_batch: Any) -> Any:
        for first, last in ((0, 2), (2, 5)):
            verify(
                logits[first:last],
                None,
                torch.tensor([7, 1, 7, 1, 1])[first:last],
                torch.tensor([0, last - first]),
                torch.tensor([4, 4, 1, 1, 1])[first:last],
            )
        return SimpleNamespace(num_sampled=torch.tensor([2, 3]))

    slots = {4: params(mars_theta=1.0), 1: params()}
    batch = SimpleNamespace(
        req_ids=["a", "b"], idx_mapping_np=np.array([4, 1]), cu_num_logits=torch.tensor([0, 2, 5])
    )
    step = around_v2_step(seam, slots, call, drafts=True)
    step(None, torch.tensor([NEAR, NEAR, NEAR, NEAR, NEAR]), batch)
    assert drained(seam) == {"a": [(1, 1, [], False)], "b": [(2, 2, [0, 1], False)]}


def test_the_rule_of_a_request_and_what_ends_its_turn(seam: Seam) -> None:
    assert seam.policy(None) == Policy(MARS, ())
    asked = params(stop=(5,), mars_theta=1.0)
    asked.eos_token_id = 2
    assert seam.policy(asked) == Policy(RuleSpec.of("mars", theta=1.0), (2, 5))
    assert seam.policy(params(other="thing")) == Policy(MARS, ())
    assert Seam().policy(params(mars_rule="strict")) == Policy(STRICT, ())


@pytest.mark.parametrize("version", ["0.31.0", "0.34.0rc1", "1.0", "unknown"])
def test_a_vllm_outside_the_range_is_refused(seam: Seam, version: str) -> None:
    with pytest.raises(RuntimeError, match=r"0\.32 to 0\.33"):
        install(seam, v2=False, version=version)
