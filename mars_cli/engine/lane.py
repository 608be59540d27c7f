"""A lane: one decoding configuration, and the one place that names it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mars_cli.verification.spec import PROTECT_STOP, STRICT, RuleSpec, parameters_of


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
    """`draft` None is the autoregressive lane, which verifies nothing."""

    rule: RuleSpec = STRICT
    draft: Draft | None = None
    k: int = 0
    temperature: float | None = None
    seed: int = 0

    @property
    def id(self) -> str:
        """Such as `ar`, `strict-ngram-k7`, `mars-ngram-k7-t0.9`, `topk-ngram-k7-k=3`.

        Parameters at their defaults are left out.
        """
        if self.draft is None:
            return "ar"
        defaults = parameters_of(self.rule.name)
        parts = [self.rule.name, self.draft.name, f"k{self.k}"]
        parts += [
            f"t{decimal(value)}" if key == "theta" else f"{key}={decimal(value)}"
            for key, value in self.rule.parameters
            if value != defaults[key]
        ]
        return "-".join([*parts, *([PROTECT_STOP] if self.rule.protect_stop else [])])

    @property
    def engine_id(self) -> str:
        """Lanes that share this share a loaded engine: only the rule differs between them."""
        return "ar" if self.draft is None else f"{self.draft.name}-k{self.k}"

    def describe(self) -> dict[str, Any]:
        """The lane as it stands in the manifest and in results.json."""
        parameters = dict(self.rule.parameters)
        return {
            "id": self.id,
            "rule": "none" if self.draft is None else self.rule.name,
            "draft": None if self.draft is None else self.draft.name,
            "k": self.k,
            "theta": parameters.get("theta"),
            "parameters": parameters,
            "protect_stop": self.rule.protect_stop,
            "temperature": self.temperature,
            "seed": self.seed,
        }


def plan_lanes(
    draft: Draft, k: int, rules: list[RuleSpec], temperature: float | None, seed: int
) -> list[Lane]:
    """The autoregressive lane, the strict one, and one for each further rule."""
    common: dict[str, Any] = {"temperature": temperature, "seed": seed}
    drafted = {"draft": draft, "k": k, **common}
    every = dict.fromkeys([STRICT, *rules])
    return [Lane(**common), *(Lane(rule, **drafted) for rule in every)]
