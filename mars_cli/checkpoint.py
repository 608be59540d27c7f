"""Checkpoints in Hugging Face format: a check before an engine starts, and one made of a GGUF.

`python -m mars_cli.checkpoint FILE.gguf FOLDER` converts; `assets` runs it in a process of its own,
so that nothing here imports torch into `mars` itself.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import signal
import sys
from pathlib import Path

from mars_cli.errors import UsageError

# Part of the name of a converted checkpoint in the cache: raise it when convert_gguf changes.
CONVERSION = "1"

_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.pth")


def check_checkpoint(folder: Path) -> None:
    """Refuse a folder that cannot be a whole checkpoint.

    Raises:
        UsageError: No config.json, no weights, or a weight file that a `*.index.json` names is not
            there.
    """
    by_hand = "copy what is missing into it, or fetch the checkpoint again"
    if not (folder / "config.json").is_file():
        raise UsageError(f"{folder} is no checkpoint: it has no config.json", hint=by_hand)
    for index in sorted(folder.glob("*.index.json")):
        try:
            shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"{index} is no weight index: {error!r}", hint=by_hand) from error
        if missing := sorted(name for name in shards if not (folder / name).is_file()):
            raise UsageError(
                f"{folder} is incomplete: {len(missing)} of its {len(shards)} weight files are "
                f"missing, the first {missing[0]}",
                hint=by_hand,
            )
    if not any(next(folder.glob(kind), None) for kind in _WEIGHTS):
        raise UsageError(f"{folder} is incomplete: it has no weights", hint=by_hand)


def weight_bytes(folder: Path, size: int | None = None) -> int:
    """Bytes that a checkpoint's weights take once loaded.

    Every floating-point value counts `size` bytes, or as stored where that is None; quantised
    values always as stored. Read from the headers of its safetensors files, else their size.
    """
    files = sorted(folder.glob("*.safetensors"))
    total = 0 if files else sum(path.stat().st_size for path in folder.glob("*.bin"))
    for path in files:
        with path.open("rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        for name, tensor in header.items():
            if name != "__metadata__":
                begin, end = tensor["data_offsets"]
                plain = tensor["dtype"] in ("F32", "F16", "BF16")
                total += math.prod(tensor["shape"]) * size if plain and size else end - begin
    return total


def convert_gguf(gguf: str, folder: str) -> None:
    """Write the weights (float32) and the tokenizer in the file `gguf` to `folder`.

    Imports torch and transformers; needs `gguf` and `accelerate`. Takes 4 bytes of memory and of
    disk for each parameter.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    place, name = os.path.split(gguf)
    model = AutoModelForCausalLM.from_pretrained(
        place,
        gguf_file=name,
        dtype=torch.float32,
        quantization_config=GgufConfig(dequantize=True),
    )
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(place, gguf_file=name).save_pretrained(folder)


def _die_with_parent() -> None:
    """A conversion whose `mars` was killed must not go on writing into the cache."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


if __name__ == "__main__":
    _die_with_parent()
    convert_gguf(*sys.argv[1:])
