"""The rules once more, in plain Python over lists, from their sources and not from our code.

Each takes a row of logits, a draft id and the rule's parameters, and says whether the draft is
accepted although it is not the argmax. Sources: mars and prob-ratio, MARS (arXiv 2601.15498);
typical, Medusa (arXiv 2401.10774); topk-delta, TensorRT-LLM's relaxed acceptance.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any


def as_float32(value: float) -> float:
    return struct.unpack("f", struct.pack("f", value))[0]


def probabilities(logits: list[float]) -> list[float]:
    weights = [math.exp(z - max(logits)) for z in logits]
    return [weight / math.fsum(weights) for weight in weights]


def entropy(logits: list[float]) -> float:
    return -math.fsum(p * math.log(p) for p in probabilities(logits) if p > 0)


def can_be_relaxed(logits: list[float], draft: int) -> bool:
    """A token, not masked, and not the argmax, which is the first of the largest."""
    if draft < 0 or logits[draft] == -math.inf:
        return False
    return logits.index(max(logits)) != draft


def is_among(k: int, logits: list[float], draft: int) -> bool:
    """Fewer than k tokens have a larger logit."""
    ranked = sorted(logits, reverse=True)
    return k > len(ranked) or logits[draft] >= ranked[k - 1]


def strict(logits: list[float], draft: int) -> bool:
    return False


def mars(logits: list[float], draft: int, theta: float) -> bool:
    if not can_be_relaxed(logits, draft):
        return False
    first, second = sorted(logits, reverse=True)[:2]
    if first <= 0 or logits[draft] < second:
        return False
    return as_float32(logits[draft] / first) > as_float32(theta)


def prob_ratio(logits: list[float], draft: int, ratio: float) -> bool:
    if not can_be_relaxed(logits, draft) or not is_among(2, logits, draft):
        return False
    left, right = prob_ratio_sides(logits, draft, ratio)
    return left > right


def prob_ratio_sides(logits: list[float], draft: int, ratio: float) -> tuple[float, float]:
    p = probabilities(logits)
    return p[draft] / max(p), ratio


def typical(logits: list[float], draft: int, epsilon: float, alpha: float) -> bool:
    if not can_be_relaxed(logits, draft):
        return False
    left, right = typical_sides(logits, draft, epsilon, alpha)
    return left > right


def typical_sides(
    logits: list[float], draft: int, epsilon: float, alpha: float
) -> tuple[float, float]:
    return probabilities(logits)[draft], min(epsilon, alpha * math.exp(-entropy(logits)))


def topk_delta(logits: list[float], draft: int, k: int, delta: float) -> bool:
    if not can_be_relaxed(logits, draft) or not is_among(k, logits, draft):
        return False
    left, right = topk_delta_sides(logits, draft, k, delta)
    return left >= right


def topk_delta_sides(logits: list[float], draft: int, k: int, delta: float) -> tuple[float, float]:
    p = probabilities(logits)
    return p[draft], max(p) - delta


def topk(logits: list[float], draft: int, k: int) -> bool:
    return can_be_relaxed(logits, draft) and is_among(k, logits, draft)


RULES: dict[str, Callable[..., bool]] = {
    "strict": strict,
    "mars": mars,
    "prob-ratio": prob_ratio,
    "typical": typical,
    "topk-delta": topk_delta,
    "topk": topk,
}

# The two sides of the one comparison of a rule over probabilities. Ours rounds them in float32,
# this in float64: where they nearly meet, neither is right. The other rules compare exact values,
# or (mars) one quotient, which float64 rounds to the same float32.
SIDES: dict[str, Callable[..., tuple[float, float]]] = {
    "prob-ratio": prob_ratio_sides,
    "typical": typical_sides,
    "topk-delta": topk_delta_sides,
}


def is_too_close(
    name: str, logits: list[float], draft: int, parameters: dict[str, Any], tolerance: float
) -> bool:
    """Whether the rule's answer hangs on rounding: its two sides differ by at most `tolerance`."""
    if name not in SIDES or not can_be_relaxed(logits, draft):
        return False
    left, right = SIDES[name](logits, draft, **parameters)
    return abs(left - right) <= tolerance
