"""A tokenizer and a language model small enough to make on the spot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
VOCABULARY = 258  # every byte, <s> and </s>


def save_tokenizer(folder: Path) -> None:
    """A byte-level tokenizer with <s> and </s>."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate(["<s>", "</s>", *alphabet])}
    assert len(vocabulary) == VOCABULARY
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(folder)


def llama(seed: int) -> Any:
    """A two-layer Llama (transformers) whose weights are the seed's."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return LlamaForCausalLM(
            LlamaConfig(
                vocab_size=VOCABULARY,
                hidden_size=128,
                intermediate_size=256,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                max_position_embeddings=1024,
                initializer_range=0.12,
                bos_token_id=0,
                eos_token_id=1,
                tie_word_embeddings=False,
            )
        ).eval()


def save_noisy(folder: Path, model: Any, noise: float) -> None:
    """A draft model: `model` with normal noise on every weight, so that it is often right."""
    import copy

    import torch

    draft = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in draft.parameters():
            weight += noise * torch.randn(weight.shape, generator=generator)
    draft.save_pretrained(folder)
    save_tokenizer(folder)


def save_eagle3(folder: Path, model: Any) -> None:
    """An EAGLE-3 head of `model` that proposes what the target would: random but for its outputs.

    Its draft vocabulary leaves out the first 50 tokens.
    """
    import json

    import torch
    from safetensors.torch import save_file

    config = model.config
    hidden, kv = config.hidden_size, config.num_key_value_heads * config.head_dim
    vocabulary = torch.arange(50, config.vocab_size)
    shapes = {
        "self_attn.q_proj": (hidden, 2 * hidden),
        "self_attn.k_proj": (kv, 2 * hidden),
        "self_attn.v_proj": (kv, 2 * hidden),
        "self_attn.o_proj": (hidden, hidden),
        "mlp.gate_proj": (config.intermediate_size, hidden),
        "mlp.up_proj": (config.intermediate_size, hidden),
        "mlp.down_proj": (hidden, config.intermediate_size),
    }
    generator = torch.Generator().manual_seed(2)
    weights = {
        f"midlayer.{name}.weight": 0.02 * torch.randn(shape, generator=generator)
        for name, shape in shapes.items()
    }
    for name in ("hidden_norm", "input_layernorm", "post_attention_layernorm"):
        weights[f"midlayer.{name}.weight"] = torch.ones(hidden)
    nothing = torch.zeros(hidden, hidden)
    weights["fc.weight"] = torch.cat([nothing, nothing, torch.eye(hidden)], dim=1)
    weights["norm.weight"] = torch.ones(hidden)
    weights["lm_head.weight"] = model.lm_head.weight.detach()[vocabulary].clone()
    weights["d2t"] = vocabulary - torch.arange(len(vocabulary))
    folder.mkdir(parents=True)
    save_file(weights, folder / "model.safetensors")
    said = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        **{
            key: getattr(config, key)
            for key in (
                "hidden_size",
                "intermediate_size",
                "num_attention_heads",
                "num_key_value_heads",
                "head_dim",
                "max_position_embeddings",
                "vocab_size",
            )
        },
        "num_hidden_layers": 1,
        "draft_vocab_size": len(vocabulary),
        "target_hidden_size": hidden,
        "tie_word_embeddings": False,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 2]},
    }
    (folder / "config.json").write_text(json.dumps(said))
