"""A report as headings, lines and tables, which the terminal, Markdown and LaTeX each set.

Blocks hold plain text. Names and notes may be a stranger's: whoever sets them makes them harmless.
Figures are ours, made by `numbers`, and are never cut in two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mars_cli.analysis.figures import Unit
from mars_cli.report import numbers
from mars_cli.report.table import RECOVERY_NOTES

Cell = tuple[str, ...]  # a name or figure, and what stands beside or beneath it: its interval
_WRITE = {
    Unit.SCORE: numbers.score,
    Unit.PERCENT: numbers.percent,
    Unit.SHARE: numbers.share,
    Unit.RATIO: numbers.ratio,
    Unit.RATE: numbers.rate,
    Unit.NUMBER: numbers.number,
    Unit.P_VALUE: numbers.p_value,
}
_DIGITS = {Unit.SCORE: 3, Unit.PERCENT: 1}


@dataclass(frozen=True)
class Heading:
    """A title; `level` 1 is the report's own."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Lines:
    """Sentences: items of a list, or a paragraph."""

    lines: tuple[str, ...]
    listed: bool = True


@dataclass(frozen=True)
class Table:
    """Rows whose first `names` cells are text and the others figures.

    `caption` is for those who paste it where its heading is not.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    names: int = 1
    caption: str = ""


Block = Heading | Lines | Table


def clipped(text: str, most: int = 200) -> str:
    """Text of a cell or caption, cut where no name is as long."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def figure(
    value: float | bool | None, unit: Unit, ends: Sequence[float] | None = None, mark: str = ""
) -> Cell:
    """A figure as its unit is written, with its interval if there is one, and a mark after it."""
    if unit is Unit.FLAG:
        found = numbers.NULL if value is None else "yes" if value else "no"
    elif unit is Unit.COUNT:
        found = numbers.count(None if value is None else round(value))
    else:
        found = _WRITE[unit](value)
    cell = [part for part in (found, numbers.interval(ends, _DIGITS.get(unit, 2))) if part]
    cell[-1] += f" {mark}" if mark else ""
    return tuple(cell)


def recovery(found: Mapping[str, Any]) -> Cell:
    """Recovery with its interval, or in a word why there is none."""
    why = RECOVERY_NOTES.get(found["recovery_note"] or "")
    if found["recovery"] is None and why:
        return (f"{numbers.NULL} {why}",)
    return figure(found["recovery"], Unit.PERCENT, found["recovery_ci"])
