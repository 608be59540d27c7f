"""A sweep's grid: which values, and which `mars eval` each part of it is.

Everything that needs an engine of its own is a group: a draft, K and temperature. All rules and
thetas of a group are lanes of one run, so that one engine serves them and their speeds are timed
in turn. A group is a plain `mars eval` command; whoever runs it, and where, is not known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import product
from typing import Any

from mars_cli.config import draft_name
from mars_cli.engine.lane import decimal
from mars_cli.errors import UsageError

MOST = 200  # values of one range


@dataclass(frozen=True)
class Group:
    """What one engine beside `ar` is loaded for, as arguments of `mars eval`, `rules` its lanes."""

    id: str
    draft: str | None
    k: int | None
    temperature: float | None
    arguments: tuple[str, ...]
    rules: tuple[str, ...]


def values(option: str, given: Sequence[str]) -> list[float]:
    """Numbers and ranges, START:STOP:STEP with both ends, between commas or one after another.

    Raises:
        UsageError: one of them is neither, or a range has no end.
    """
    found = []
    for part in (part.strip() for text in given for part in text.split(",")):
        try:
            numbers = [Decimal(number) for number in part.split(":")]
            if len(numbers) not in (1, 3) or not all(number.is_finite() for number in numbers):
                raise InvalidOperation
        except InvalidOperation:
            raise UsageError(
                f"{option} {part}: is neither a number nor START:STOP:STEP",
                hint="such as 0.84:0.96:0.02 or 0.9,0.95",
            ) from None
        if len(numbers) == 1:
            found.append(float(numbers[0]))
            continue
        start, stop, step = numbers
        if step <= 0 or stop < start or (stop - start) / step > MOST:
            raise UsageError(
                f"{option} {part}: does not go up from its start to its end in steps above 0",
                hint="such as 0.84:0.96:0.02",
            )
        found += [float(start + step * n) for n in range(int((stop - start) / step) + 1)]
    return list(dict.fromkeys(found))


def whole_values(option: str, given: Sequence[str]) -> list[int]:
    """Likewise, of whole numbers above 0."""
    found = values(option, given)
    for value in found:
        if value != int(value) or value < 1:
            raise UsageError(f"{option} {value:g}: must be a whole number above 0", hint="7,10")
    return [int(value) for value in found]


def groups(
    *,
    drafts: Sequence[str | None],
    ks: Sequence[int | None],
    temperatures: Sequence[float | None],
    rules: Sequence[tuple[str, str]],
    common: Sequence[str],
) -> list[Group]:
    """The groups of a grid, in the order in which they run.

    None stands for the model's own draft or K, and the tasks' own temperature. `rules` are options
    of `mars eval` with their values, such as ("--theta", "0.9"); `common` are further arguments.
    """
    found = []
    for temperature, draft, k in product(temperatures, drafts, ks):
        name = "-".join(
            [
                *([] if draft is None else [draft_name(draft)]),
                *([] if k is None else [f"k{k}"]),
                *([] if temperature is None else [f"T{decimal(temperature)}"]),
            ]
        )
        own: list[Any] = [] if draft is None else ["--draft", draft]
        own += [] if k is None else ["--k", str(k)]
        own += [] if temperature is None else ["--temperature", decimal(temperature)]
        lanes = tuple(part for rule in rules for part in rule)
        found.append(Group(name or "all", draft, k, temperature, (*common, *own), lanes))
    return found
