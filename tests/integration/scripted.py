"""Drafts by script inside vLLM, for either runner: see oracle.py."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from tests.integration import oracle


class Script:
    """What both proposers below follow."""

    model: Any = None
    seed = 0
    k = 0
    known: ClassVar[dict[tuple[int, ...], list[int]]] = {}

    @classmethod
    def follow(cls, model: Any, seed: int, k: int) -> None:
        cls.model, cls.seed, cls.k = model, seed, k
        cls.known.clear()

    @classmethod
    def draft(cls, sequence: list[int]) -> list[int]:
        key = tuple(sequence)
        if key not in cls.known:
            cls.known[key] = oracle.script(cls.model, sequence, cls.k, cls.seed)
        return cls.known[key]


class ScriptedProposer:
    """vLLM's `custom_class` proposer (V1)."""

    def __init__(self, vllm_config: Any) -> None: ...

    def load_model(self, *_: Any) -> None: ...

    def propose(
        self, sampled: list[list[int]], lengths: Any, token_ids: Any, **_: Any
    ) -> list[list[int]]:
        return [
            Script.draft(token_ids[i, : lengths[i]].tolist()) if new else []
            for i, new in enumerate(sampled)
        ]


def propose_v2(self: Any, input_batch: Any, *_: Any, num_sampled: Any = None, **__: Any) -> Any:
    """Takes the place of the V2 n-gram speculator's `propose`."""
    states = self.req_states
    rows = input_batch.idx_mapping.tolist()
    for index, row in enumerate(rows):
        length = int(states.total_len.gpu[row])
        sequence = states.all_token_ids.gpu[row, :length].tolist()
        self.drafts[index] = torch.tensor(Script.draft(sequence))
    return self.drafts[: len(rows)]
