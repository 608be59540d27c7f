"""The seam: vLLM's `rejection_sample`, called with a rule's acceptances made decisive.

Raising a draft's logit far above its row makes the engine's own sampler accept it, greedy or
sampled, so no kernel of ours is needed. The exact bits are put back before the call returns, so
that log-probabilities read later are untouched.

Beside the rule the seam notes what each step verified. It only keeps references while the engine
runs; `Seam.drain` turns them into plain numbers when nobody is waiting.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from mars_cli.verification.rules import Rule

SUPPORTED = "vLLM 0.32 to 0.33"
SAMPLER_MODULE = "vllm.v1.sample.rejection_sampler"
_RAISE = 1000.0  # exp(-1000) is 0 in float32: the draft's probability becomes exactly 1
_SAMPLER_NEEDS = ("draft_token_ids", "num_draft_tokens", "target_logits")
_RUNNER_NEEDS = ("self", "logits", "spec_decode_metadata")

# What one step verified for one request: (drafted, accepted, positions accepted by the rule).
StepSeen = tuple[int, int, list[int]]


@dataclass(slots=True)
class _Step:
    request_ids: list[str]
    discarded: np.ndarray[Any, Any]
    num_draft: list[int] | None
    sampled: Tensor
    mask: Tensor | None


class Seam:
    """The rule in force in this process and what it has seen since the last drain."""

    def __init__(self) -> None:
        self.rule: Rule | None = None
        self.seconds = 0.0
        self.calls = 0
        self._steps: list[_Step] = []
        self._mask: Tensor | None = None

    def around_sampler(self, sampler: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """`rejection_sample` with this seam's rule in front of it."""
        signature = _checked_signature(sampler, _SAMPLER_NEEDS)

        def verify(*args: Any, **kwargs: Any) -> Tensor:
            started = time.perf_counter()
            given = signature.bind(*args, **kwargs).arguments
            logits, draft_ids = given["target_logits"], given["draft_token_ids"]
            self._mask = None if self.rule is None else self.rule(logits, draft_ids)
            with _decisive(logits, draft_ids, self._mask):
                before = time.perf_counter()
                output = sampler(*args, **kwargs)
                inside = time.perf_counter() - before
            self.seconds += time.perf_counter() - started - inside
            self.calls += 1
            return output

        return verify

    def around_runner(self, sample: Callable[..., Any]) -> Callable[..., Any]:
        """`GPUModelRunner._sample`, noting which request each verified row belongs to."""
        _checked_signature(sample, _RUNNER_NEEDS)

        def sample_and_note(runner: Any, logits: Any, spec_decode_metadata: Any) -> Any:
            output = sample(runner, logits, spec_decode_metadata)
            started = time.perf_counter()
            batch = runner.input_batch
            drafts = spec_decode_metadata
            self._steps.append(
                _Step(
                    request_ids=list(batch.req_ids),
                    discarded=runner.discard_request_mask.np[: batch.num_reqs].copy(),
                    num_draft=None if drafts is None else list(drafts.num_draft_tokens),
                    sampled=output.sampled_token_ids,
                    mask=None if drafts is None else self._mask,
                )
            )
            self._mask = None
            self.seconds += time.perf_counter() - started
            return output

        return sample_and_note

    def drain(self) -> dict[str, list[StepSeen]]:
        """What was seen since the last drain, per engine request id, oldest step first.

        Steps whose sample the engine discards (a prompt still being prefilled) are left out.
        """
        steps, self._steps = self._steps, []
        seen: dict[str, list[StepSeen]] = {}
        for step in steps:
            sampled = step.sampled.cpu().numpy()
            mask = None if step.mask is None else step.mask.cpu().numpy()
            row = 0
            for index, request_id in enumerate(step.request_ids):
                drafted = 0 if step.num_draft is None else step.num_draft[index]
                first, row = row, row + drafted
                if step.discarded[index]:
                    continue
                accepted = int((sampled[index] >= 0).sum()) - 1
                by_rule = [] if mask is None else np.flatnonzero(mask[first:row]).tolist()
                relaxed = [position for position in by_rule if position < accepted]
                seen.setdefault(request_id, []).append((drafted, accepted, relaxed))
        return seen


@contextmanager
def _decisive(logits: Tensor, draft_ids: Tensor, mask: Tensor | None) -> Iterator[None]:
    """Hold the masked drafts' logits far above their rows; restore the exact bits at the end."""
    # On a CPU looking is free and most steps relax nothing; on a GPU looking would be a sync.
    if mask is None or (mask.device.type == "cpu" and not mask.any()):
        yield
        return
    column = draft_ids.clamp(min=0).long().unsqueeze(-1)
    original = logits.gather(-1, column)
    raised = logits.amax(dim=-1, keepdim=True) + _RAISE
    logits.scatter_(-1, column, raised.where(mask.unsqueeze(-1), original))
    try:
        yield
    finally:
        logits.scatter_(-1, column, original)


def _checked_signature(function: Callable[..., Any], needed: tuple[str, ...]) -> inspect.Signature:
    signature = inspect.signature(function)
    missing = [name for name in needed if name not in signature.parameters]
    if missing:
        raise RuntimeError(
            f"{function.__module__}.{function.__qualname__} has no parameter "
            f"{', '.join(missing)}: this vLLM is not one that mars knows ({SUPPORTED})"
        )
    return signature


def install(seam: Seam) -> None:
    """Put `seam` into this process's vLLM (V1 model runner), once.

    Raises:
        RuntimeError: vLLM's functions do not have the parameters that the seam binds by name.
    """
    import importlib

    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    sampler_module: Any = importlib.import_module(SAMPLER_MODULE)
    verify = seam.around_sampler(sampler_module.rejection_sample)
    note = seam.around_runner(GPUModelRunner._sample)
    sampler_module.rejection_sample = verify
    GPUModelRunner._sample = note
