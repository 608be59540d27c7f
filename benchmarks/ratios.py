"""Ratios measured side by side: whose turn it is, the bar to meet, and the table of them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from rich.table import Table

from mars_cli.analysis.stats import Estimate

T = TypeVar("T")


def rotated(sides: Sequence[T], turn: int) -> list[T]:
    """The sides in the order of this turn, so that none always goes first."""
    first = turn % len(sides)
    return [*sides[first:], *sides[:first]]


@dataclass(frozen=True)
class Bar:
    """Where a ratio should lie: at or above `limit`, or at or below it with `at_most`."""

    limit: float
    at_most: bool = False

    def __str__(self) -> str:
        return f"{'<=' if self.at_most else '>='} {self.limit:g}"

    def verdict(self, ratio: Estimate) -> str:
        """What the interval says: met, missed, or open when the bar lies within it."""
        if ratio.interval is None:
            return "open"
        low, high = ratio.interval
        if self.at_most:
            low, high = -high, -low
        limit = -self.limit if self.at_most else self.limit
        return "met" if low >= limit else "missed" if high < limit else "open"


@dataclass(frozen=True)
class Row:
    """`ours` and `beside` are the two sides in words; `n` pairs of measurements gave the ratio."""

    what: str
    ours: str
    beside: str
    ratio: Estimate
    n: int
    bar: Bar | None = None


def table(rows: Sequence[Row]) -> Table:
    """All rows; the interval is 95%, over prompts, rounds or starts."""
    found = Table(title="what measuring costs", box=None, title_justify="left", pad_edge=False)
    found.add_column("measured")
    for name in ("ours", "beside", "ratio", "95%", "n", "bar"):
        found.add_column(name, justify="right")
    found.add_column("")
    for row in rows:
        found.add_row(
            row.what,
            row.ours,
            row.beside,
            _number(row.ratio.value),
            "-" if row.ratio.interval is None else " to ".join(map(_number, row.ratio.interval)),
            str(row.n),
            "" if row.bar is None else str(row.bar),
            "" if row.bar is None else row.bar.verdict(row.ratio),
        )
    return found


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if value >= 0.1 else f"{value:.5f}"
