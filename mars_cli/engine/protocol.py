"""The plain values that pass between us and an engine's process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Request:
    """One prompt to generate from; `id` is ours and unique within a call."""

    id: str
    prompt_token_ids: list[int]
    max_tokens: int
    stop: list[str] = field(default_factory=list)
    temperature: float = 0.0
    sampling: dict[str, Any] = field(default_factory=dict)
    use_prefix_cache: bool = True


class Position(NamedTuple):
    """A draft that was verified: what the target thought of it, and what became of it.

    `at` is the index into the answer that it was meant for, `place` its position in the draft,
    from 0. `relaxed`: accepted by the rule alone. `values` are `verification.rows.FIELDS`, of the
    logits that the sampler read.
    """

    at: int
    place: int
    draft: int
    accepted: bool
    relaxed: bool
    values: Sequence[float]


@dataclass(frozen=True)
class Generation:
    """A finished request, as delivered, output by output.

    `step_tokens`, `drafted` and `accepted` have one entry an output, the prefill's first:
    tokens delivered, drafts verified in the step behind it, drafts accepted before any trimming.
    `relaxed_at` are indices into `token_ids`; `stops_relaxed` counts the steps that met an
    end-of-turn token which only the rule accepts. `seconds` runs from admission to the last output,
    `ttft_s` to the first, on one monotonic clock of the engine's process. `positions` are those of
    the answer that were verified, while the engine traces.
    """

    id: str
    token_ids: list[int]
    text: str
    finish_reason: str
    step_tokens: list[int]
    drafted: list[int]
    accepted: list[int]
    relaxed_at: list[int]
    stops_relaxed: int
    seconds: float
    ttft_s: float
    positions: list[Position] = field(default_factory=list)


@dataclass(frozen=True)
class ScoreRequest:
    """A prompt and the answer to it, which the target re-scores; the answer is not empty."""

    id: str
    prompt_token_ids: list[int]
    token_ids: list[int]


@dataclass(frozen=True)
class EngineSpec:
    """All that an engine is started with: vLLM's EngineArgs, and the process's environment."""

    name: str
    args: dict[str, Any]
    environment: dict[str, str] = field(default_factory=dict)
