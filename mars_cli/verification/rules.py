"""Verification rules: which draft tokens to accept beyond what strict verification accepts.

A rule maps target logits [n, vocab] (one row a draft position, after logits processors and, when
sampling, temperature) and draft token ids [n] (int; -1 is padding) to a bool mask [n] on the same
device: True where the draft is accepted although it is not the target's argmax. The argmax itself
is left to the engine's own test. Rules only add acceptance, compare in float32, never accept
padding or a masked (-inf) token, and never write to their arguments.

z1 >= z2 are the two largest logits of a row, z_d the draft's; p = softmax(z). "Second" and "top k"
count by value: a token tied with the runner-up is a runner-up.

A new rule is one function here and one line in RULES.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the functions call methods only, so that this module loads without torch
    from torch import Tensor

    Rule = Callable[[Tensor, Tensor], Tensor]


def strict(target_logits: Tensor, draft_ids: Tensor) -> Tensor:
    """Lossless verification: accept nothing beyond the argmax (Leviathan et al., 2211.17192)."""
    return draft_ids != draft_ids


def mars(target_logits: Tensor, draft_ids: Tensor, theta: float) -> Tensor:
    """Margin-aware verification (MARS, arXiv 2601.15498, Algorithm 1).

    Accept the runner-up of a row whose margin ratio is high:

        z1 > 0   and   z_d >= z2   and   z_d / z1 > theta

    theta = 1 is strict. The ratio does not change with temperature.

    Raises:
        ValueError: theta is outside (0, 1].
    """
    _check("theta", theta, 0 < theta <= 1, "lie in (0, 1]")
    z, z1, z_d = _compared(target_logits, draft_ids)
    low_margin = (z1 > 0) & (z_d / z1 > theta)
    return _in_top(2, z, draft_ids, z_d, where=low_margin)


def prob_ratio(target_logits: Tensor, draft_ids: Tensor, ratio: float) -> Tensor:
    """Accept the runner-up by the ratio of probabilities: p2 / p1 > ratio.

    The contrast that the MARS paper (arXiv 2601.15498, section 3) draws to its ratio of logits:
    this one is exp(z2 - z1), so a constant added to all logits does not change it.

    Raises:
        ValueError: ratio is outside (0, 1].
    """
    _check("ratio", ratio, 0 < ratio <= 1, "lie in (0, 1]")
    z, z1, z_d = _compared(target_logits, draft_ids)
    return _in_top(2, z, draft_ids, z_d, where=(z_d - z1).exp() > ratio)


def typical(
    target_logits: Tensor, draft_ids: Tensor, epsilon: float = 0.09, alpha: float = 0.3
) -> Tensor:
    """Typical acceptance: p(draft) > min(epsilon, alpha * exp(-H)), H the row's entropy in nats.

    Medusa (Cai et al., 2401.10774, section 2.3.1), and the typical-acceptance sampler that vLLM
    once had, with its defaults. Theirs replaces the engine's test and can therefore also reject
    what sampling would have accepted; ours only adds.

    Raises:
        ValueError: epsilon is outside (0, 1], or alpha is not above 0.
    """
    _check("epsilon", epsilon, 0 < epsilon <= 1, "lie in (0, 1]")
    _check("alpha", alpha, 0 < alpha < math.inf, "be above 0")
    z, _, z_d = _compared(target_logits, draft_ids)
    log_p = z - z.logsumexp(dim=-1, keepdim=True)
    p = log_p.exp()
    entropy = -(p * log_p.masked_fill(p == 0, 0.0)).sum(dim=-1)
    p_d = (z_d - z.logsumexp(dim=-1)).exp()
    passes = p_d > (alpha * (-entropy).exp()).clamp(max=epsilon)
    return _in_top(z.shape[-1], z, draft_ids, z_d, where=passes)


def topk_delta(target_logits: Tensor, draft_ids: Tensor, k: int = 10, delta: float = 0.6) -> Tensor:
    """Accept a draft among the k likeliest whose probability is within delta of the best's.

    p(draft) >= p1 - delta. TensorRT-LLM's relaxed acceptance for reasoning models (its
    `relaxed_topk` and `relaxed_delta`); the defaults here are those of its DeepSeek-R1 example.

    Raises:
        ValueError: k is not a whole number from 1 to 1000, or delta is outside [0, 1].
    """
    _check_k(k)
    _check("delta", delta, 0 <= delta <= 1, "lie in [0, 1]")
    z, z1, z_d = _compared(target_logits, draft_ids)
    mass = z.logsumexp(dim=-1)
    close = ((z_d - mass).exp() >= (z1 - mass).exp() - delta) & (z_d > -math.inf)
    return _in_top(int(k), z, draft_ids, z_d, where=close)


def topk(target_logits: Tensor, draft_ids: Tensor, k: int = 2) -> Tensor:
    """Accept any of the k likeliest tokens, however unlikely: the careless upper bound.

    Raises:
        ValueError: k is not a whole number from 1 to 1000.
    """
    _check_k(k)
    z, _, z_d = _compared(target_logits, draft_ids)
    return _in_top(int(k), z, draft_ids, z_d, where=z_d > -math.inf)


RULES: dict[str, Callable[..., Tensor]] = {
    "strict": strict,
    "mars": mars,
    "prob-ratio": prob_ratio,
    "typical": typical,
    "topk-delta": topk_delta,
    "topk": topk,
}


def _check(name: str, value: float, valid: bool, must: str) -> None:
    if not valid:
        raise ValueError(f"{name} must {must}, not {value}")


def _check_k(k: float) -> None:
    _check("k", k, 1 <= k <= 1000 and k == int(k), "be a whole number from 1 to 1000")


def _compared(target_logits: Tensor, draft_ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(z, z1, z_d) in float32: [n, vocab], [n], [n]; z_d is -inf for padding."""
    z = target_logits.float()
    chosen = z.gather(-1, draft_ids.clamp(min=0).long().unsqueeze(-1)).squeeze(-1)
    return z, z.amax(dim=-1), chosen.masked_fill(draft_ids < 0, -math.inf)


def _in_top(k: int, z: Tensor, draft_ids: Tensor, z_d: Tensor, *, where: Tensor) -> Tensor:
    """`where`, less the rows whose draft is the argmax or has k tokens or more above it.

    On a CPU ranking a row costs several times an amax, so only rows that passed the cheap test are
    ranked; on an accelerator choosing rows would force a device-to-host sync, so all are.
    """
    if z.device.type != "cpu":
        above = (z > z_d.unsqueeze(-1)).sum(dim=-1)
        return where & (above < k) & (z.argmax(dim=-1) != draft_ids)
    result = where.clone()
    for row in (row for row, passed in enumerate(where.tolist()) if passed):
        above = (z[row] > z_d[row]).sum()
        result[row] = (above < k) & (z[row].argmax() != draft_ids[row])
    return result
