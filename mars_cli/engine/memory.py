"""How much memory engines need, judged by the size of their weights. Sizes in bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mars_cli.config import SPLITS

GPU_SHARE = 0.9  # of a GPU's memory, split evenly between the engines side by side
GPU_BESIDE_WEIGHTS = 3 * 2**30  # an engine's cache, activations and graphs at the very least
CPU_SHARE = 0.5  # of the memory that is free now, split likewise; weights need the rest
SIZES = {"float32": 4, "float16": 2, "bfloat16": 2}  # of a value


def split_of(arguments: Mapping[str, Any]) -> int:
    """How many GPUs an engine with these arguments is spread over."""
    tensor, pipeline = (int(arguments.get(name, 1)) for name in SPLITS)
    return tensor * pipeline


def on_each_gpu(weights: float, engines: int, split: int) -> float:
    """What each GPU must have for `engines` whose weights, taken together, are of this size."""
    return (weights / split + engines * GPU_BESIDE_WEIGHTS) / GPU_SHARE


def on_a_cpu(weights: float) -> float:
    """Memory that must be free for engines with these weights, and as much for their caches."""
    return weights / (1 - CPU_SHARE)
