"""A GGUF file becomes, once, a checkpoint that holds its very weights and tokenizer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mars_cli import assets
from mars_cli.errors import UsageError

pytestmark = pytest.mark.engine

WIDTH, VOCABULARY, LAYERS, HEADS, INNER = 32, 260, 2, 4, 64


def write_llama(path: Path) -> dict[str, np.ndarray]:
    """A random two-layer Llama with a byte-level tokenizer; returns its tensors by GGUF name."""
    gguf = pytest.importorskip("gguf")
    random = np.random.default_rng(0)
    shapes = {"token_embd.weight": (VOCABULARY, WIDTH), "output_norm.weight": (WIDTH,)}
    for layer in range(LAYERS):
        shapes |= {
            f"blk.{layer}.attn_norm.weight": (WIDTH,),
            f"blk.{layer}.ffn_norm.weight": (WIDTH,),
            **{f"blk.{layer}.attn_{part}.weight": (WIDTH, WIDTH) for part in "qkv"},
            f"blk.{layer}.attn_output.weight": (WIDTH, WIDTH),
            f"blk.{layer}.ffn_gate.weight": (INNER, WIDTH),
            f"blk.{layer}.ffn_up.weight": (INNER, WIDTH),
            f"blk.{layer}.ffn_down.weight": (WIDTH, INNER),
        }
    tensors = {name: random.normal(size=size).astype(np.float32) for name, size in shapes.items()}

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    # GPT-2's printable stand-ins for the 256 bytes, then three special tokens and a merge.
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = [chr(byte) for byte in printable] + [chr(256 + i) for i in range(len(others))]
    writer.add_token_list([*letters, "<|endoftext|>", "<|im_start|>", "<|im_end|>", "ab"])
    writer.add_token_types([1] * 256 + [3] * 3 + [1])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(257)
    writer.add_eos_token_id(258)
    for name, tensor in tensors.items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tensors


def test_the_checkpoint_holds_the_weights_of_the_gguf(tmp_path: Path) -> None:
    tensors = write_llama(tmp_path / "tiny.gguf")
    folder = Path(assets.resolve_weights(str(tmp_path / "tiny.gguf"), cache=tmp_path / "cache"))

    from safetensors.numpy import load_file

    weights = load_file(folder / "model.safetensors")
    for name, theirs in {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.layers.1.mlp.down_proj.weight": "blk.1.ffn_down.weight",
        "model.layers.0.self_attn.v_proj.weight": "blk.0.attn_v.weight",
    }.items():
        assert weights[name].dtype == np.float32
        np.testing.assert_array_equal(weights[name], tensors[theirs])
    assert (folder / "tokenizer.json").is_file()

    again = assets.resolve_weights(str(tmp_path / "tiny.gguf"), cache=tmp_path / "cache")
    assert again == str(folder)


def test_a_gguf_that_cannot_be_converted_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "broken.gguf"
    file.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(UsageError, match="could not be converted to a checkpoint") as caught:
        assets.resolve_weights(str(file), cache=tmp_path / "cache")
    assert "\n" not in str(caught.value)
    assert not [path for path in (tmp_path / "cache" / "checkpoints").iterdir() if path.is_dir()]
