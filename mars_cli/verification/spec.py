"""A rule by name: as written on the command line, in a request, and in a lane."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from mars_cli.verification.rules import RULES

if TYPE_CHECKING:
    from mars_cli.verification.rules import Rule

PROTECT_STOP = "protect-stop"


def parameters_of(name: str) -> dict[str, float | None]:
    """The parameters of rule `name` with their defaults; None for one that must be given."""
    _, _, *own = inspect.signature(RULES[name]).parameters.values()
    return {p.name: None if p.default is p.empty else p.default for p in own}


@dataclass(frozen=True)
class RuleSpec:
    """A rule with every parameter it takes, valid.

    `protect_stop`: do not accept an end-of-turn token that strict verification would reject.
    """

    name: str
    parameters: tuple[tuple[str, float], ...] = ()
    protect_stop: bool = False

    @classmethod
    def of(cls, name: str, /, *, protect_stop: bool = False, **given: Any) -> Self:
        """The rule `name` with these parameters and its defaults for the rest.

        Raises:
            ValueError: the rule is unknown, or a parameter is missing, unknown or out of range.
        """
        if name not in RULES:
            raise ValueError(f"unknown rule {name!r}; known are {', '.join(RULES)}")
        takes = parameters_of(name)
        for key in given:
            if key not in takes:
                known = ", ".join([*takes, PROTECT_STOP])
                raise ValueError(f"{name} has no parameter {key!r}; it takes {known}")
        values = []
        for key, default in takes.items():
            value = given.get(key, default)
            if value is None:
                raise ValueError(f"{name} needs {key}, such as {name}:{key}=0.9")
            values.append((key, _number(key, value)))
        spec = cls(name, tuple(values), _truth(protect_stop))
        spec._check()
        return spec

    @classmethod
    def parse(cls, text: str, /, *, protected: bool = False, **given: Any) -> Self:
        """`NAME` or `NAME:key=value,...`; `protect-stop` needs no value.

        What is `given` beside the text wins; `protected` holds where neither says otherwise.

        Raises:
            ValueError: it is not written so, or `of` refuses it.
        """
        name, _, rest = text.strip().partition(":")
        values: dict[str, Any] = {}
        for item in filter(None, (part.strip() for part in rest.split(","))):
            key, equals, value = (part.strip() for part in item.partition("="))
            flag = key.replace("_", "-") == PROTECT_STOP
            if not equals and not flag:
                raise ValueError(f"{item!r} is no parameter: write key=value")
            name_of_value = "protect_stop" if flag else key
            if name_of_value in values:
                raise ValueError(f"{key} is given twice")
            values[name_of_value] = value if equals else True
        return cls.of(name, **{"protect_stop": protected, **values, **given})

    def rule(self) -> Rule:
        """The rule with its parameters bound."""
        return partial(RULES[self.name], **dict(self.parameters))

    def __str__(self) -> str:
        """As `parse` reads it."""
        items = [f"{key}={value!r}" for key, value in self.parameters]
        items += [PROTECT_STOP] if self.protect_stop else []
        return f"{self.name}:{','.join(items)}" if items else self.name

    @property
    def is_strict(self) -> bool:
        """Whether it adds no acceptance, so that the seam has nothing to do."""
        return self.name == "strict"

    def describe(self) -> dict[str, Any]:
        """Plain values, from which `of` makes the same again."""
        return {"name": self.name, "protect_stop": self.protect_stop, **dict(self.parameters)}

    def _check(self) -> None:
        """Let the rule itself refuse values out of range."""
        import torch

        self.rule()(torch.ones(1, 2), torch.zeros(1, dtype=torch.int64))


STRICT = RuleSpec("strict")
_REQUEST_KEYS = ("mars_rule", "mars_theta", "mars_protect_stop")


def request_spec(extra_args: Mapping[str, Any] | None, default: RuleSpec) -> RuleSpec:
    """The rule that a request asks for in its `extra_args`; `default` where it asks for none.

    `mars_rule` is written as on the command line, `mars_theta` is short for `mars:theta=...`, and
    `mars_protect_stop` is a truth value. Values may be text, as some clients send them.

    Raises:
        ValueError: a key that begins with `mars_` is unknown, or a value is refused.
    """
    asked = {k: v for k, v in (extra_args or {}).items() if k.startswith("mars_")}
    if not asked:
        return default
    for key in asked:
        if key not in _REQUEST_KEYS:
            raise ValueError(f"{key}: unknown; a request may give {', '.join(_REQUEST_KEYS)}")
    given = {"theta": asked["mars_theta"]} if "mars_theta" in asked else {}
    if "mars_protect_stop" in asked:
        given["protect_stop"] = asked["mars_protect_stop"]
    text = asked.get("mars_rule", "mars" if "mars_theta" in asked else None)
    try:
        if text is None:
            kept = default.describe()
            return RuleSpec.of(kept.pop("name"), **{**kept, **given})
        return RuleSpec.parse(str(text), protected=default.protect_stop, **given)
    except ValueError as error:
        raise ValueError(f"{', '.join(asked)}: {error}") from None


def _number(name: str, value: Any) -> float:
    """A finite number given as such or as text; whole numbers as int."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{name} must be a number, not {str(value)[:40]!r}")
    return int(number) if number.is_integer() else number


def _truth(value: Any) -> bool:
    text = str(value).lower()
    if text not in ("true", "false", "1", "0"):
        raise ValueError(f"{PROTECT_STOP} must be true or false, not {value!r}")
    return text in ("true", "1")
