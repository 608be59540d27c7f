"""A lane: one decoding configuration, and the one place that names it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


def decimal(value: float) -> str:
    """The shortest decimal of a parameter: 0.9 -> '0.9', 1.0 -> '1'."""
    return f"{value:.12g}"


@dataclass(frozen=True)
class Draft:
    """What proposes tokens: a name for people, and vLLM's `speculative_config` without K."""

    name: str
    options: dict[str, Any] = field(hash=False)


@dataclass(frozen=True)
class Lane:
    """`draft` None is the autoregressive lane, whose rule is "none"."""

    rule: str
    draft: Draft | None = None
    k: int = 0
    parameters: dict[str, float] = field(default_factory=dict, hash=False)
    temperature: float | None = None
    seed: int = 0

    @property
    def id(self) -> str:
        """Such as `ar`, `strict-ngram-k7`, `mars-ngram-k7-t0.9`."""
        if self.draft is None:
            return "ar"
        parts = [self.rule, self.draft.name, f"k{self.k}"]
        parts += [
            f"t{decimal(value)}" if key == "theta" else f"{key}{decimal(value)}"
            for key, value in self.parameters.items()
        ]
        return "-".join(parts)

    @property
    def engine_id(self) -> str:
        """Lanes that share this share a loaded engine: only the rule differs between them."""
        return "ar" if self.draft is None else f"{self.draft.name}-k{self.k}"

    def describe(self) -> dict[str, Any]:
        """The lane as it stands in the manifest and in results.json."""
        return {
            "id": self.id,
            "rule": self.rule,
            "draft": None if self.draft is None else self.draft.name,
            "k": self.k,
            "theta": self.parameters.get("theta"),
            "parameters": dict(self.parameters),
            "temperature": self.temperature,
            "seed": self.seed,
        }


def plan_lanes(
    draft: Draft, k: int, thetas: list[float], temperature: float | None, seed: int
) -> list[Lane]:
    """The autoregressive lane, the strict one, and a MARS lane for each theta."""
    common: dict[str, Any] = {"temperature": temperature, "seed": seed}
    drafted = {"draft": draft, "k": k, **common}
    return [
        Lane("none", **common),
        Lane("strict", **drafted),
        *(Lane("mars", parameters={"theta": theta}, **drafted) for theta in thetas),
    ]
