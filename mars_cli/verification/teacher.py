"""Re-scoring given tokens with the plain target, teacher-forced, inside vLLM.

A request whose prompt is a prompt and its answer is prefilled as any other; while it is, the rows
that predict the answer's tokens are reduced to a few numbers each, a few hundred rows at a time, so
that memory stays bounded for any vocabulary and length. vLLM's own prompt logprobs hold either
logits or their log-sum-exp, never both, and count ranks in another way.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from mars_cli.verification.rows import ROWS, summary
from mars_cli.verification.runners import V1_RUNNER, checked

V2_PROMPT = "vllm.v1.worker.gpu.sample.prompt_logprob"


@dataclass
class _Pupil:
    """`targets[i]` is predicted by the position `first + i`."""

    first: int
    targets: list[int]
    found: list[Tensor] = field(default_factory=list)


class Teacher:
    """The requests to re-score in this process, and what was found so far."""

    def __init__(self) -> None:
        self._pupils: dict[str, _Pupil] = {}

    def expect(self, request_id: str, first: int, targets: list[int]) -> None:
        """Re-score this request's positions from `first` on against these tokens."""
        self._pupils[request_id] = _Pupil(first, targets)

    def collect(self, request_id: str) -> list[list[float]]:
        """One row of FIELDS for each target of a request that has been prefilled.

        Raises:
            RuntimeError: not every position was seen.
        """
        pupil = self._pupils.pop(request_id)
        rows: list[list[float]] = [row for part in pupil.found for row in part.tolist()]
        if len(rows) != len(pupil.targets):
            raise RuntimeError(f"{len(rows)} of {len(pupil.targets)} tokens could be re-scored")
        return rows

    def look(
        self, request_id: str, start: int, hidden: Tensor, logits_of: Callable[[Tensor], Tensor]
    ) -> None:
        """See the hidden states [n, size] of positions `start`, `start` + 1, ... of a request."""
        pupil = self._pupils.get(request_id)
        if pupil is None:
            return
        begin = max(pupil.first, start)
        end = min(pupil.first + len(pupil.targets), start + len(hidden))
        for low in range(begin, end, ROWS):
            high = min(low + ROWS, end)
            targets = pupil.targets[low - pupil.first : high - pupil.first]
            logits = logits_of(hidden[low - start : high - start])
            pupil.found.append(summary(logits, torch.tensor(targets, device=logits.device)))


def install(teacher: Teacher, *, v2: bool) -> None:
    """Let `teacher` see what this process's runner prefills, once.

    Raises:
        RuntimeError: this vLLM is not one whose functions are known.
    """
    if v2:
        worker: Any = importlib.import_module(V2_PROMPT).PromptLogprobsWorker
        worker.compute_prompt_logprobs = around_v2(teacher, worker.compute_prompt_logprobs)
    else:
        runner: Any = importlib.import_module(V1_RUNNER).GPUModelRunner
        runner._get_prompt_logprobs_dict = around_v1(teacher, runner._get_prompt_logprobs_dict)


def around_v1(teacher: Teacher, prompt_logprobs: Callable[..., Any]) -> Callable[..., Any]:
    """V1's `_get_prompt_logprobs_dict`, showing the teacher each request's hidden states."""
    checked(prompt_logprobs, "self", "hidden_states", "num_scheduled_tokens")

    def _get_prompt_logprobs_dict(
        runner: Any, hidden_states: Tensor, num_scheduled_tokens: dict[str, int]
    ) -> Any:
        for request_id, count in num_scheduled_tokens.items():
            offset = int(runner.query_start_loc.np[runner.input_batch.req_id_to_index[request_id]])
            teacher.look(
                request_id,
                runner.requests[request_id].num_computed_tokens,
                hidden_states[offset : offset + count],
                runner.model.compute_logits,
            )
        return prompt_logprobs(runner, hidden_states, num_scheduled_tokens)

    return _get_prompt_logprobs_dict


def around_v2(teacher: Teacher, prompt_logprobs: Callable[..., Any]) -> Callable[..., Any]:
    """V2's `compute_prompt_logprobs`, likewise."""
    checked(prompt_logprobs, "self", "logits_fn", "hidden_states", "input_batch")

    def compute_prompt_logprobs(
        worker: Any, logits_fn: Any, hidden_states: Tensor, input_batch: Any, *rest: Any
    ) -> Any:
        bounds = input_batch.query_start_loc_np
        for index, request_id in enumerate(input_batch.req_ids):
            teacher.look(
                request_id,
                int(input_batch.num_computed_prefill_tokens_np[index]),
                hidden_states[int(bounds[index]) : int(bounds[index + 1])],
                logits_fn,
            )
        return prompt_logprobs(worker, logits_fn, hidden_states, input_batch, *rest)

    return compute_prompt_logprobs
