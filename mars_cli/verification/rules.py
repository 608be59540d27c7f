"""Verification rules: which draft tokens to accept beyond what strict verification accepts.

A rule maps target logits [n, vocab] (one row a draft position, after logits processors) and draft
token ids [n] (int; -1 is padding) to a bool mask [n] on the same device: True where the draft is
accepted although it is not the target's argmax. Rules only add acceptance. They compare in float32
and never write to their arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

Rule = Callable[[Tensor, Tensor], Tensor]


def strict(target_logits: Tensor, draft_ids: Tensor) -> Tensor:
    """Lossless verification: accept nothing beyond the argmax (Leviathan et al., 2211.17192)."""
    return torch.zeros_like(draft_ids, dtype=torch.bool)


def mars(target_logits: Tensor, draft_ids: Tensor, theta: float) -> Tensor:
    """Margin-aware verification (MARS, arXiv 2601.15498, Algorithm 1).

    With z1 >= z2 the two largest logits of a row and z_d the draft's, the draft is accepted when

        z1 > 0   and   z_d >= z2   and   z_d / z1 > theta   and   d is not the argmax.

    Ties count by value: a token tied with the runner-up is a runner-up, one tied with the top has
    ratio 1. Masked (-inf) drafts and padding are never accepted; theta = 1 is strict.

    Raises:
        ValueError: theta is outside (0, 1].
    """
    check_theta(theta)
    z = target_logits.float()
    z1 = z.amax(dim=-1)
    z_d = logit_of(z, draft_ids)
    low_margin = (z1 > 0) & (z_d / z1 > theta)
    return low_margin & _is_runner_up(z, draft_ids, z1, z_d, where=low_margin)


def check_theta(theta: float) -> None:
    """Refuse a theta outside (0, 1] (NaN included) with a ValueError."""
    if not (math.isfinite(theta) and 0 < theta <= 1):
        raise ValueError(f"theta must lie in (0, 1], not {theta}")


def logit_of(z: Tensor, draft_ids: Tensor) -> Tensor:
    """The draft's own logit [n] in each row of z [n, vocab]; -inf for padding (id < 0)."""
    chosen = z.gather(-1, draft_ids.clamp(min=0).long().unsqueeze(-1)).squeeze(-1)
    return chosen.masked_fill(draft_ids < 0, -math.inf)


def _is_runner_up(z: Tensor, draft_ids: Tensor, z1: Tensor, z_d: Tensor, where: Tensor) -> Tensor:
    """Whether the draft is second by value and not the argmax; only rows in `where` must be right.

    On a CPU an argmax costs several times an amax, so only the rows that passed the cheap test are
    ranked; on an accelerator choosing rows would force a device-to-host sync, so all are.
    """
    if z.device.type != "cpu":
        above = (z > z_d.unsqueeze(-1)).sum(dim=-1)
        return (above <= 1) & (z.argmax(dim=-1) != draft_ids)
    result = torch.zeros_like(where)
    for row in where.nonzero().flatten().tolist():
        if z_d[row] < z1[row]:
            result[row] = torch.count_nonzero(z[row] > z_d[row]) == 1
        else:
            result[row] = z[row].argmax() != draft_ids[row]
    return result


RULES: dict[str, Callable[..., Tensor]] = {"strict": strict, "mars": mars}


def make_rule(name: str, **parameters: float) -> Rule:
    """The rule `name` with its parameters bound, e.g. `make_rule("mars", theta=0.9)`.

    Raises:
        ValueError: the rule is unknown, or a parameter is missing, unknown or out of range.
    """
    try:
        rule = RULES[name]
    except KeyError:
        known = ", ".join(RULES)
        raise ValueError(f"unknown rule {name!r}; known rules are {known}") from None

    def bound(target_logits: Tensor, draft_ids: Tensor) -> Tensor:
        return rule(target_logits, draft_ids, **parameters)

    try:
        bound(torch.ones(1, 2), torch.zeros(1, dtype=torch.int64))
    except TypeError as error:
        raise ValueError(f"rule {name!r}: {error}") from None
    return bound
