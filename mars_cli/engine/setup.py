"""What an engine is started with: the model's settings, the draft, and its share of memory."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

from mars_cli.assets import resolve_weights
from mars_cli.checkpoint import weight_bytes
from mars_cli.config import ModelConfig
from mars_cli.drafts import weights_of
from mars_cli.engine.lane import Draft, Lane
from mars_cli.engine.memory import (
    CPU_SHARE,
    GPU_SHARE,
    SIZES,
    on_a_cpu,
    on_each_gpu,
    split_of,
)
from mars_cli.engine.protocol import EngineSpec
from mars_cli.errors import UsageError

DEFAULT_MAX_MODEL_LEN = 4096  # of a model whose configuration says nothing: bounds the KV cache


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
    """Whether all engines of these lanes can be loaded at once, judged by their weights' size."""
    from vllm.platforms import current_platform

    args = {**model_args(config, weights), **config.engine, **overrides}
    engines = {lane.engine_id: speculative_config(lane.draft, lane.k) for lane in lanes}
    drafts = [weights_of(settings) for settings in engines.values() if settings is not None]
    size = SIZES.get(args["dtype"])
    loaded = len(engines) * weight_bytes(Path(weights), size)
    loaded += sum(weight_bytes(Path(draft), size) for draft in drafts if draft is not None)
    if current_platform.is_cpu():
        return on_a_cpu(loaded) <= float(psutil.virtual_memory().available)
    total: int = current_platform.get_device_total_memory()
    return on_each_gpu(loaded, len(engines), split_of(args)) <= total


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
    reference = weights_of(options)
    if reference is not None:
        options["model"] = resolve_weights(reference)
    return {**options, "num_speculative_tokens": k}


def files_of(weights: str, specs: dict[str, EngineSpec]) -> list[Path]:
    """What answers are made of: the target's checkpoint, those of drafts, a class's own module."""
    settings = [spec.args["speculative_config"] or {} for spec in specs.values()]
    return [Path(weights), *_files(one for one in settings if "model" in one)]


def _files(settings: Iterable[dict[str, Any]]) -> Iterable[Path]:
    for one in settings:
        if one["method"] != "custom_class":
            yield Path(one["model"])
            continue
        found = find_spec(one["model"].rpartition(".")[0])
        if found is not None and found.origin is not None:
            yield Path(found.origin)


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
    token = 2 * hf.num_hidden_layers * heads * size * SIZES.get(args["dtype"], 4)
    wanted = token * args["max_model_len"] * args["max_num_seqs"]
    allowed = int(psutil.virtual_memory().available * CPU_SHARE / engines)
    one_request = token * (args["max_model_len"] + 256)  # and a block to spare
    return {"kv_cache_memory_bytes": max(one_request, min(wanted, allowed, 2**30))}
