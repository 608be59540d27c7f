"""A speculative decoder that knows nothing of vLLM: one transformers forward a token, plain rules.

Its drafts are scripted: the target's own continuation with some tokens swapped for the runner-up,
the third, or noise. The same script proposes inside vLLM (lab_host.py), so that the two decoders
must agree token for token.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import torch

CLOSE = 1e-3  # transformers and vLLM differ in the last bits: decisions nearer than this may differ


class TooCloseError(Exception):
    """A decision hangs on bits in which two implementations of the model may differ."""


@dataclass
class Decoded:
    tokens: list[int] = field(default_factory=list)
    relaxed_at: list[int] = field(default_factory=list)


@torch.inference_mode()
def next_logits(model: Any, sequence: list[int]) -> list[float]:
    """Logits [vocab] of the token after the sequence."""
    found: list[float] = model(torch.tensor([sequence])).logits[0, -1].tolist()
    return found


def script(model: Any, sequence: list[int], k: int, seed: int) -> list[int]:
    """The draft after a sequence; its choices depend on nothing but the arguments."""
    choose = random.Random(f"{seed} {len(sequence)} {sequence[-1]}")
    draft: list[int] = []
    while len(draft) < k:
        z = next_logits(model, [*sequence, *draft])
        ranked = sorted(range(len(z)), key=lambda token: -z[token])
        place = choose.choices((0, 1, 2, None), (55, 25, 10, 10))[0]
        draft.append(choose.randrange(len(z)) if place is None else ranked[place])
    return draft


def mars_accepts(z: list[float], draft: int, theta: float) -> bool:
    """Whether MARS accepts a draft that is not the argmax."""
    first, second, third = sorted(z, reverse=True)[:3]
    if min(first - second, second - third) < CLOSE or abs(second / first - theta) < CLOSE:
        raise TooCloseError
    return first > 0 and z[draft] == second and second / first > theta


def decode(
    model: Any, prompt: list[int], *, max_tokens: int, k: int, theta: float, seed: int
) -> Decoded:
    """Greedy decoding with scripted drafts under MARS; `theta` 1 is strict.

    Raises:
        TooCloseError: the answer is not well enough defined to compare with.
    """
    out = Decoded()

    def best(z: list[float]) -> int:
        return max(range(len(z)), key=z.__getitem__)

    def emit(token: int, *, relaxed: bool = False) -> None:
        if relaxed and len(out.tokens) < max_tokens:
            out.relaxed_at.append(len(out.tokens))
        out.tokens.append(token)

    emit(best(next_logits(model, prompt)))
    while len(out.tokens) < max_tokens:
        for draft in script(model, [*prompt, *out.tokens], k, seed):
            z = next_logits(model, [*prompt, *out.tokens])
            relaxed = mars_accepts(z, draft, theta)
            if draft != best(z) and not relaxed:
                emit(best(z))
                break
            emit(draft, relaxed=relaxed)
        else:
            emit(best(next_logits(model, [*prompt, *out.tokens])))
    del out.tokens[max_tokens:]
    return out
