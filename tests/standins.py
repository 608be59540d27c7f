"""What the hub's checkpoints say of themselves, from public pages: config.json without weights.

Only what decides sizes and which class vLLM picks. Two are assumptions: the architecture's name in
nvidia/Qwen3-235B-A22B-Eagle3, and the sizes of RedHatAI/Qwen3-235B-A22B-speculator.eagle3.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Config = dict[str, Any]
_LLAMA3_ROPE = {
    "factor": 8.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
}


def _sizes(hidden: int, inner: int, heads: int, kv: int, layers: int) -> Config:
    return {
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "num_hidden_layers": layers,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "rms_norm_eps": 1e-6,
    }


def _llama3(*sizes: int) -> Config:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "rope_theta": 500000.0,
        "rope_scaling": _LLAMA3_ROPE,
        "torch_dtype": "bfloat16",
        **_sizes(*sizes),
    }


def _qwen3(*sizes: int, tied: bool = False) -> Config:
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": 151936,
        "head_dim": 128,
        "max_position_embeddings": 40960,
        "rope_theta": 1000000,
        "tie_word_embeddings": tied,
        "torch_dtype": "bfloat16",
        **_sizes(*sizes),
    }


def _head(target: Config, **changes: Any) -> Config:
    """An EAGLE-3 head with the target's sizes, a single layer, and 32,000 tokens to draft from."""
    kept = ("vocab_size", "hidden_size", "intermediate_size", "num_attention_heads", "head_dim")
    return {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        **{key: target[key] for key in kept if key in target},
        "num_key_value_heads": target["num_key_value_heads"],
        "num_hidden_layers": 1,
        "draft_vocab_size": 32000,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "torch_dtype": "float16",
        **changes,
    }


def _speculator(target: Config) -> Config:
    """The same in the layout of the speculators library, with the target's embeddings."""
    layer = {
        **_head(target),
        "max_position_embeddings": 40960,
        "architectures": None,
        "torch_dtype": None,
    }
    return {
        "architectures": ["Eagle3Speculator"],
        "draft_vocab_size": layer.pop("draft_vocab_size"),
        "norm_before_residual": True,
        "speculators_model_type": "eagle3",
        "speculators_version": "0.2.0",
        "speculators_config": {
            "algorithm": "eagle3",
            "default_proposal_method": "greedy",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 3}],
            "verifier": {"architectures": target["architectures"], "name_or_path": "target"},
        },
        "torch_dtype": "bfloat16",
        "transformer_layer_config": {k: v for k, v in layer.items() if v is not None},
    }


VICUNA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 32000,
    "max_position_embeddings": 2048,
    "torch_dtype": "float16",
    **_sizes(5120, 13824, 40, 40, 40),
}
LLAMA_8B = _llama3(4096, 14336, 32, 8, 32)
LLAMA_70B = _llama3(8192, 28672, 64, 8, 80)
QWEN = {
    "1.7B": _qwen3(2048, 6144, 16, 8, 28, tied=True),
    "4B": _qwen3(2560, 9728, 32, 8, 36, tied=True),
    "8B": _qwen3(4096, 12288, 32, 8, 36),
    "14B": _qwen3(5120, 17408, 40, 8, 40),
    "32B": _qwen3(5120, 25600, 64, 8, 64),
}
QWEN_235B = {
    **_qwen3(4096, 12288, 64, 4, 94),
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "moe_intermediate_size": 1536,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "decoder_sparse_step": 1,
    "norm_topk_prob": True,
    "mlp_only_layers": [],
}
CHECKPOINTS: dict[str, Config] = {
    "lmsys/vicuna-13b-v1.3": VICUNA,
    "yuhuili/EAGLE3-Vicuna1.3-13B": _head(VICUNA, architectures=["LlamaForCausalLM"]),
    "meta-llama/Llama-3.1-8B-Instruct": LLAMA_8B,
    "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B": _head(LLAMA_8B, architectures=["LlamaForCausalLM"]),
    "deepseek-ai/DeepSeek-R1-Distill-Llama-8B": LLAMA_8B,
    "yuhuili/EAGLE3-DeepSeek-R1-Distill-LLaMA-8B": _head(
        LLAMA_8B, architectures=["LlamaForCausalLM"]
    ),
    "meta-llama/Llama-3.3-70B-Instruct": LLAMA_70B,
    "yuhuili/EAGLE3-LLaMA3.3-Instruct-70B": _head(LLAMA_70B, architectures=["LlamaForCausalLM"]),
    **{f"Qwen/Qwen3-{size}": config for size, config in QWEN.items()},
    **{f"AngelSlim/Qwen3-{size}_eagle3": _head(config) for size, config in QWEN.items()},
    "RedHatAI/Qwen3-8B-speculator.eagle3": _speculator(QWEN["8B"]),
    "RedHatAI/Qwen3-32B-speculator.eagle3": _speculator(QWEN["32B"]),
    "Qwen/Qwen3-235B-A22B": QWEN_235B,
    "nvidia/Qwen3-235B-A22B-Eagle3": _head(QWEN_235B),
    "RedHatAI/Qwen3-235B-A22B-speculator.eagle3": _speculator(QWEN_235B),
}


def save(reference: str, folder: Path) -> Path:
    """A folder that says what the hub's checkpoint says, with no weights in it."""
    name = reference.removeprefix("hub:")
    place = folder / name.replace("/", "--")
    place.mkdir(parents=True, exist_ok=True)
    (place / "config.json").write_text(json.dumps(CHECKPOINTS[name]))
    return place


def parameters(config: Config) -> float:
    """How many values a model with this configuration has, norms left out."""
    hidden, vocabulary, layers = (
        config[key] for key in ("hidden_size", "vocab_size", "num_hidden_layers")
    )
    attention = _attention(config, hidden)
    experts = config.get("num_experts")
    inner = config["moe_intermediate_size"] if experts else config["intermediate_size"]
    mlp = 3 * hidden * inner * (experts or 1) + hidden * (experts or 0)
    embeddings = vocabulary * hidden * (1 if config.get("tie_word_embeddings") else 2)
    return float(layers * (attention + mlp) + embeddings)


def head_parameters(config: Config) -> float:
    """Likewise of an EAGLE-3 head; those of the speculators library have their own embeddings."""
    layer = config.get("transformer_layer_config", config)
    hidden, inner = layer["hidden_size"], layer["intermediate_size"]
    embeddings = layer["vocab_size"] * hidden if layer is not config else 0
    fused, mlp, head = 3 * hidden * hidden, 3 * hidden * inner, config["draft_vocab_size"] * hidden
    return float(fused + _attention(layer, 2 * hidden) + mlp + head + embeddings)


def _attention(config: Config, reads: int) -> int:
    heads, kv, hidden = (
        config[key] for key in ("num_attention_heads", "num_key_value_heads", "hidden_size")
    )
    size = config.get("head_dim", hidden // heads)
    return int(reads * size * (heads + 2 * kv) + heads * size * hidden)
