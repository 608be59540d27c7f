"""The one place that turns figures into text. Null is an en dash, never 0 and never blank."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

NULL = "–"  # noqa: RUF001 - an en dash is meant
WHOLE_FROM = 1000
LONGEST = 10_000


def number(value: float | None, digits: int = 2) -> str:
    """A plain figure with a fixed number of decimals: 1.52."""
    return NULL if value is None else _trim(value, digits)


def count(value: int | None) -> str:
    """A whole figure with thousands set apart: 12,345."""
    if value is None:
        return NULL
    return f"{value:,}" if abs(value) < WHOLE_FROM**5 else f"{value:.1e}"


def counted(value: int, what: str) -> str:
    """How many of what: 1 document, 12 documents."""
    return f"{value} {what}" if value == 1 else f"{value} {what}s"


def score(value: float | None) -> str:
    """A score: three decimals up to 1 (0.250), fewer above (27.3)."""
    if value is None:
        return NULL
    return f"{value:.3f}" if abs(value) <= 1 else _trim(value, 1)


def share(value: float | None) -> str:
    """A share from 0 to 1 as a percentage: 0.125 is 12.5%."""
    return NULL if value is None else f"{_trim(100 * value, 1)}%"


def percent(value: float | None) -> str:
    """A figure that is in percent already (recovery): 98.7%."""
    return NULL if value is None else f"{_trim(value, 1)}%"


def at_most(value: float | None) -> str:
    """An upper limit that is in percent already, rounded up so that it stays one: 2.04 is 2.1%."""
    return NULL if value is None else percent(math.ceil(round(10 * value, 6)) / 10)


def ratio(value: float | None) -> str:
    """A ratio: 2.35x."""
    return NULL if value is None else f"{_trim(value, 2)}x"


def rate(value: float | None) -> str:
    """Tokens per second: 21.7."""
    return NULL if value is None else _trim(value, 1)


def interval(ends: Sequence[float] | None, digits: int = 2) -> str:
    """Both ends in brackets: [2.10, 2.61]. Empty where there is none: the figure stands alone."""
    return "" if ends is None else f"[{', '.join(_trim(end, digits) for end in ends)}]"


def p_value(value: float | None) -> str:
    """A p value with three decimals, "<0.001" below."""
    if value is None:
        return NULL
    return "<0.001" if value < 0.001 else _trim(value, 3)


def printable(text: Any) -> str:
    """Text of a stranger on one line: control and direction characters shown, not obeyed.

    At most 10,000 characters of it, with its length where that is more.
    """
    whole = str(text)
    shown = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in whole[: LONGEST + 1])
    if len(shown) <= LONGEST:
        return shown
    length = f"... ({len(whole):,} characters)"
    return shown[: LONGEST - len(length)] + length


def _trim(value: float, digits: int) -> str:
    """Decimals below 1000; above, none, and above a million an exponent, so columns hold."""
    size = abs(value)
    if size >= WHOLE_FROM**2:
        return f"{value:.1e}"
    return f"{value:.0f}" if size >= WHOLE_FROM else f"{value:.{digits}f}"
