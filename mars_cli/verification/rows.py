"""What is kept of a row of logits, a whole vocabulary of them: a few numbers about one token."""

from __future__ import annotations

import torch
from torch import Tensor

ROWS = 256  # at a time: 256 rows of 152k float32 logits are 155 MB
FIELDS = ("z", "z1", "z2", "lse", "entropy", "above")


def summary(logits: Tensor, targets: Tensor) -> Tensor:
    """FIELDS of each row [n, 6], float64, of logits [n, vocab] and the tokens [n] that followed.

    `above` counts the tokens with a larger logit: 0 is rank 1. Entropy is in nats.
    """
    z = logits.float()
    own = z.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    two = z.topk(2, dim=-1).values
    lse = z.logsumexp(dim=-1)
    log_p = z - lse.unsqueeze(-1)
    p = log_p.exp()
    entropy = -(p * log_p.masked_fill(p == 0, 0.0)).sum(dim=-1)
    above = (z > own.unsqueeze(-1)).sum(dim=-1)
    columns = [own, two[:, 0], two[:, 1], lse, entropy, above]
    return torch.stack([column.double() for column in columns], dim=-1)


def summaries(logits: Tensor, targets: Tensor) -> Tensor:
    """`summary` of any number of rows, ROWS of them at a time; -1 as a token reads column 0."""
    targets = targets.clamp(min=0).long()
    parts = [
        summary(logits[low : low + ROWS], targets[low : low + ROWS])
        for low in range(0, len(logits), ROWS)
    ]
    return torch.cat(parts) if parts else torch.empty(0, len(FIELDS), dtype=torch.float64)
