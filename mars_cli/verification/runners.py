"""Where the seam meets vLLM's two model runners.

Both call a module-level `rejection_sample`, V1 with one row of logits a draft, V2 with one more a
request, its bonus. The functions around it say which request each row belongs to. Everything is
bound by name, and checked once at the start.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mars_cli.verification import cpu_sampling
from mars_cli.verification.hook import Seam, Step

SUPPORTED = "vLLM 0.32 to 0.33"
_VERSIONS = ((0, 32), (0, 33))
V1_SAMPLER = "vllm.v1.sample.rejection_sampler"
V1_RUNNER = "vllm.v1.worker.gpu_model_runner"
V2_SAMPLER = "vllm.v1.worker.gpu.spec_decode.rejection_sampler"
V2_PLAIN_SAMPLER = "vllm.v1.worker.gpu.sample.sampler"


def install(seam: Seam, *, v2: bool, version: str | None = None) -> None:
    """Put `seam` into this process's vLLM, once.

    Raises:
        RuntimeError: this vLLM is not one whose functions are known.
    """
    if version is None:
        import vllm

        version = vllm.__version__
    _check_version(version)
    if v2:
        _install_v2(seam)
    else:
        _install_v1(seam)


def _check_version(version: str) -> None:
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None or tuple(map(int, found.groups())) not in _VERSIONS:
        raise RuntimeError(f"vLLM {version} is not one that mars knows ({SUPPORTED})")


def checked(function: Callable[..., Any], *needed: str) -> inspect.Signature:
    """The function's signature.

    Raises:
        RuntimeError: it lacks a parameter that the seam binds by name.
    """
    signature = inspect.signature(function)
    missing = [name for name in needed if name not in signature.parameters]
    if missing:
        raise RuntimeError(
            f"{function.__module__}.{function.__qualname__} has no parameter "
            f"{', '.join(missing)}: this vLLM is not one that mars knows ({SUPPORTED})"
        )
    return signature


# -- V1 ----------------------------------------------------------------------------------------


def _install_v1(seam: Seam) -> None:
    sampler: Any = importlib.import_module(V1_SAMPLER)
    runner: Any = importlib.import_module(V1_RUNNER).GPUModelRunner
    verify = around_v1_sampler(seam, sampler.rejection_sample)
    sample = around_v1_runner(seam, runner._sample)
    sampler.rejection_sample, runner._sample = verify, sample
    cpu_sampling.repair(sampler)


def around_v1_sampler(seam: Seam, sampler: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """V1's `rejection_sample` with the seam's rules in front of it."""
    signature = checked(sampler, "draft_token_ids", "num_draft_tokens", "target_logits")

    def rejection_sample(*args: Any, **kwargs: Any) -> Tensor:
        given = signature.bind(*args, **kwargs).arguments
        draft_ids: Tensor = given["draft_token_ids"]

        def requests() -> Tensor:
            counts = given["num_draft_tokens"]
            rows = torch.from_numpy(np.repeat(np.arange(len(counts)), counts))
            return rows.to(draft_ids.device, non_blocking=True)

        output: Tensor = seam.verify(
            given["target_logits"], draft_ids, lambda: sampler(*args, **kwargs), requests
        )
        return output

    return rejection_sample


def around_v1_runner(seam: Seam, sample: Callable[..., Any]) -> Callable[..., Any]:
    """V1's `GPUModelRunner._sample`, saying whose rows are verified and noting the step."""
    checked(sample, "self", "logits", "spec_decode_metadata")

    def _sample(runner: Any, logits: Any, spec_decode_metadata: Any) -> Any:
        batch, requests = runner.input_batch, runner.requests
        ids = list(batch.req_ids)
        discarded = runner.discard_request_mask.np[: batch.num_reqs].copy()
        seam.begin({i: seam.policy(requests[r].sampling_params) for i, r in enumerate(ids)})
        cpu_sampling.set_generators_aside(batch, requests, discarded)
        output = sample(runner, logits, spec_decode_metadata)
        sampled: Tensor = output.sampled_token_ids
        drafts = spec_decode_metadata
        seam.end(
            Step(
                ids,
                emitted=lambda: np.where(discarded, 0, (sampled.cpu().numpy() >= 0).sum(axis=1)),
                bounds=None if drafts is None else np.cumsum([0, *drafts.num_draft_tokens]),
            )
        )
        return output

    return _sample


# -- V2 ----------------------------------------------------------------------------------------


def _install_v2(seam: Seam) -> None:
    module: Any = importlib.import_module(V2_SAMPLER)
    plain: Any = importlib.import_module(V2_PLAIN_SAMPLER).Sampler
    drafted: Any = module.RejectionSampler
    slots: dict[int, Any] = {}
    verify = around_v2_sampler(seam, module.rejection_sample)
    admit = around_v2_admission(slots, plain.add_request)
    with_drafts = around_v2_step(seam, slots, drafted.__call__, drafts=True)
    without = around_v2_step(seam, slots, plain.__call__, drafts=False)
    module.rejection_sample, plain.add_request = verify, admit
    drafted.__call__, plain.__call__ = with_drafts, without


def around_v2_sampler(seam: Seam, sampler: Callable[..., Any]) -> Callable[..., Any]:
    """V2's `rejection_sample`: row i verifies token i + 1 of the same request, the last none."""
    signature = checked(
        sampler,
        "target_logits",
        "draft_logits",
        "draft_sampled",
        "cu_num_logits",
        "expanded_idx_mapping",
    )

    def rejection_sample(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        logits: Tensor = given["target_logits"]
        draft_logits = given.get("draft_logits")
        if draft_logits is not None:  # the kernels read no column beyond the draft's vocabulary
            logits = logits[:, : draft_logits.shape[-1]]
        draft_ids = given["draft_sampled"].roll(-1)
        draft_ids.index_fill_(0, (given["cu_num_logits"][1:] - 1).long(), -1)
        draft_ids = draft_ids.where(draft_ids < logits.shape[-1], -1)
        return seam.verify(
            logits,
            draft_ids,
            lambda: sampler(*args, **kwargs),
            lambda: given["expanded_idx_mapping"].long(),
        )

    return rejection_sample


def around_v2_admission(slots: dict[int, Any], add: Callable[..., Any]) -> Callable[..., Any]:
    """V2's `Sampler.add_request`, keeping each slot's sampling parameters for `slots`."""
    checked(add, "self", "req_idx", "sampling_params")

    def add_request(sampler: Any, req_idx: int, sampling_params: Any) -> Any:
        slots[req_idx] = sampling_params
        return add(sampler, req_idx, sampling_params)

    return add_request


def around_v2_step(
    seam: Seam, slots: dict[int, Any], call: Callable[..., Any], *, drafts: bool
) -> Callable[..., Any]:
    """V2's sampler of a whole step, with drafts or without, noting the step."""
    checked(call, "self", "logits", "input_batch")

    def __call__(sampler: Any, logits: Tensor, input_batch: Any, *rest: Any, **named: Any) -> Any:
        used = input_batch.idx_mapping_np.tolist()
        seam.begin({slot: seam.policy(slots.get(slot)) for slot in used})
        output = call(sampler, logits, input_batch, *rest, **named)
        emitted: Tensor = output.num_sampled
        seam.end(
            Step(
                list(input_batch.req_ids),
                emitted=lambda: emitted.cpu().numpy(),
                # The buffer is used again in the next step.
                bounds=input_batch.cu_num_logits.clone() if drafts else None,
                bonus=1,
            )
        )
        return output

    return __call__
