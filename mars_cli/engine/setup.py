"""What an engine is started with: the model's settings, the draft, and its share of memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psutil

from mars_cli.assets import resolve_weights
from mars_cli.checkpoint import weight_bytes
from mars_cli.config import ModelConfig
from mars_cli.engine.lane import Draft, Lane
from mars_cli.engine.protocol import EngineSpec
from mars_cli.errors import UsageError

DEFAULT_MAX_MODEL_LEN = 4096  # of a model whose configuration says nothing: bounds the KV cache
GPU_SHARE = 0.9  # of a GPU's memory, split evenly between the engines side by side
GPU_BESIDE_WEIGHTS = 3 * 2**30  # an engine's cache, activations and graphs at the very least
CPU_SHARE = 0.5  # of the memory that is free now, split likewise; weights need the rest
_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


def engine_specs(
    config: ModelConfig,
    weights: str,
    lanes: list[Lane],
    *,
    max_num_seqs: int,
    overrides: dict[str, Any],
    side_by_side: bool = True,
) -> dict[str, EngineSpec]:
    """One engine for each `Lane.engine_id`, alike in all but the draft.

    `weights` is the resolved checkpoint, `max_num_seqs` the most requests in flight; `overrides`
    are vLLM EngineArgs from the command line, and win. Engines that are not `side_by_side` have
    the memory for themselves.
    """
    drafts = {lane.engine_id: lane for lane in lanes}
    args = {
        **model_args(config, weights),
        "model": weights,
        "max_num_seqs": max_num_seqs,
        "enable_prefix_caching": True,
        **config.engine,
        **overrides,
    }
    args.update(memory_share(weights, args, engines=len(drafts) if side_by_side else 1))
    return {
        engine_id: EngineSpec(
            name=engine_id,
            args={**args, "speculative_config": speculative_config(lane.draft, lane.k)},
        )
        for engine_id, lane in drafts.items()
    }


def fit_side_by_side(
    config: ModelConfig, weights: str, lanes: list[Lane], overrides: dict[str, Any]
) -> bool:
    """Whether all engines of these lanes can be loaded at once, judged by their weights' size.

    On a CPU they may take what the caches' share leaves of the memory free now; of each GPU the
    usual share, beside what an engine needs besides.
    """
    from vllm.platforms import current_platform

    args = {**model_args(config, weights), **config.engine, **overrides}
    engines = {lane.engine_id: speculative_config(lane.draft, lane.k) for lane in lanes}
    drafts = [settings.get("model") for settings in engines.values() if settings is not None]
    size = _BYTES.get(args["dtype"])
    loaded = len(engines) * weight_bytes(Path(weights), size)
    loaded += sum(weight_bytes(Path(draft), size) for draft in drafts if draft is not None)
    if current_platform.is_cpu():
        return loaded <= float(psutil.virtual_memory().available) * (1 - CPU_SHARE)
    split: int = args.get("tensor_parallel_size", 1) * args.get("pipeline_parallel_size", 1)
    needed = loaded / split + len(engines) * GPU_BESIDE_WEIGHTS
    total: int = current_platform.get_device_total_memory()
    return needed <= GPU_SHARE * total


def model_args(config: ModelConfig, weights: str) -> dict[str, Any]:
    """The engine arguments that follow from the model alone."""
    hf = _hf_config(weights)
    own_limit = getattr(hf, "max_position_embeddings", None) or DEFAULT_MAX_MODEL_LEN
    return {
        "dtype": config.dtype,
        "max_model_len": min(own_limit, config.max_model_len or DEFAULT_MAX_MODEL_LEN),
    }


def _hf_config(weights: str) -> Any:
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(weights).get_text_config()
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UsageError(
            f"--model: {Path(weights).name} is not a checkpoint that transformers reads ({reason})",
            hint="its folder needs config.json, tokenizer files and safetensors weights",
        ) from None


def speculative_config(draft: Draft | None, k: int) -> dict[str, Any] | None:
    """The setting of vLLM with this name, the draft's weights resolved; None without a draft."""
    if draft is None:
        return None
    options = dict(draft.options)
    if "model" in options:
        options["model"] = resolve_weights(options["model"])
    return {**options, "num_speculative_tokens": k}


def memory_share(weights: str, args: dict[str, Any], engines: int) -> dict[str, Any]:
    """An explicit share for each of `engines` with these arguments, unless they hold one."""
    import torch

    if "gpu_memory_utilization" in args or "kv_cache_memory_bytes" in args:
        return {}
    if torch.cuda.is_available():
        return {"gpu_memory_utilization": round(GPU_SHARE / engines, 3)}
    hf = _hf_config(weights)
    heads = getattr(hf, "num_key_value_heads", None) or hf.num_attention_heads
    size = getattr(hf, "head_dim", None) or hf.hidden_size // hf.num_attention_heads
    token = 2 * hf.num_hidden_layers * heads * size * _BYTES.get(args["dtype"], 4)
    wanted = token * args["max_model_len"] * args["max_num_seqs"]
    allowed = int(psutil.virtual_memory().available * CPU_SHARE / engines)
    one_request = token * (args["max_model_len"] + 256)  # and a block to spare
    return {"kv_cache_memory_bytes": max(one_request, min(wanted, allowed, 2**30))}
