"""The MARS rule once more, in plain Python over lists, from the paper and not from our code."""

from __future__ import annotations

import struct


def as_float32(value: float) -> float:
    return struct.unpack("f", struct.pack("f", value))[0]


def relaxes(logits: list[float], draft: int, theta: float) -> bool:
    """Is this draft accepted although strict greedy verification would reject it?"""
    if draft < 0:
        return False
    ranked = sorted(logits, reverse=True)
    first, second = ranked[0], ranked[1]
    if logits.index(first) == draft:
        return False
    if first <= 0 or logits[draft] < second or logits[draft] == float("-inf"):
        return False
    return as_float32(logits[draft] / first) > as_float32(theta)
