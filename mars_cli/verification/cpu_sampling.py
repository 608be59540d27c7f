"""Three faults of vLLM's CPU build (0.32) that sampling with drafts meets, and their repair.

1. `expand_batch_to_tokens` hands a float temperature (and int32 top-k) to a C++ kernel that writes
   into a converted copy: the caller gets uninitialised memory, and every draft position is sampled
   at a temperature of chance. Asked once whether it works; replaced by plain torch when not.
2. A step whose drafts were all cut off by the length limit has no row to verify, and the CPU's
   top-k takes the largest of no numbers: the engine dies.
3. A request with a seed of its own owns a generator. A step that belongs to a prompt still being
   prefilled is drawn and thrown away, and V1 then turns the generator back by its offset, which a
   CPU generator does not have: the engine dies. For such a step the generator is set aside, so
   that nothing is drawn from it and there is nothing to turn back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor


def repair(sampler_module: Any) -> None:
    """Mend the first two in V1's rejection sampler; on a GPU nothing is done."""
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    given, ends = torch.tensor([0.5, 0.25]), torch.tensor([1, 3], dtype=torch.int32)
    if sampler_module.expand_batch_to_tokens(given, ends, 3).tolist() != [0.5, 0.25, 0.25]:
        sampler_module.expand_batch_to_tokens = expand_batch_to_tokens
    constrain = sampler_module.apply_top_k_top_p

    def apply_top_k_top_p(logits: Tensor, *limits: Any) -> Tensor:
        constrained: Tensor = constrain(logits, *limits) if len(logits) else logits
        return constrained

    sampler_module.apply_top_k_top_p = apply_top_k_top_p


def expand_batch_to_tokens(
    x: Tensor, cu_num_tokens: Tensor, num_tokens: int, replace_from: int = 0, replace_to: int = 0
) -> Tensor:
    """Repeat each request's value [batch] for each of its tokens [num_tokens].

    `cu_num_tokens` [batch] are running sums of tokens; values equal to `replace_from` become
    `replace_to`. What vLLM's function of this name promises, in any dtype.
    """
    counts = cu_num_tokens.diff(prepend=cu_num_tokens.new_zeros(1)).long()
    return x.where(x != replace_from, replace_to).repeat_interleave(counts, output_size=num_tokens)


def set_generators_aside(batch: Any, requests: Any, discarded: np.ndarray[Any, Any]) -> None:
    """Let V1's input batch hold the generators of just those requests whose step counts.

    `discarded` [n] is true where the step's sample will be thrown away. On a GPU nothing is done.
    """
    if not torch.accelerator.is_available():
        for index, request_id in enumerate(batch.req_ids):
            generator = requests[request_id].generator
            if discarded[index]:
                batch.generators.pop(index, None)
            elif generator is not None:
                batch.generators[index] = generator
