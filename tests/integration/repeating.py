"""A draft class as a user would write one."""

from __future__ import annotations

from typing import Any


class Repeating:
    """Proposes that the last token is repeated; vLLM's `custom_class` (V1)."""

    def __init__(self, vllm_config: Any) -> None:
        self._k = vllm_config.speculative_config.num_speculative_tokens

    def load_model(self, *_: Any) -> None: ...

    def propose(self, sampled: list[list[int]], *_: Any, **__: Any) -> list[list[int]]:
        return [[tokens[-1]] * self._k if tokens else [] for tokens in sampled]


class Broken:
    """Fails as it is made."""

    def __init__(self, _: Any) -> None:
        raise RuntimeError("broken on purpose")
