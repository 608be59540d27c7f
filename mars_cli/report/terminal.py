"""Blocks on a terminal: whatever its width, a figure stays whole and beside its name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import starmap

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from mars_cli.report import numbers
from mars_cli.report.blocks import Block, Cell, Heading, Lines, Table, clipped
from mars_cli.report.table import GAP, NARROWEST, bullets, indented

INDENT = "  "
NARROWEST_NAME = 10


def terminal(blocks: Sequence[Block], width: int) -> RenderableType:
    """The blocks one after another, a blank line before each heading, in `width` columns."""
    width = max(width, NARROWEST)
    parts: list[RenderableType] = []
    for block in blocks:
        if isinstance(block, Heading):
            parts += [Text()] if parts else []
            parts.append(Text(numbers.printable(block.text), style="bold", overflow="fold"))
        elif isinstance(block, Lines):
            lines = [numbers.printable(line) for line in block.lines]
            if block.listed:
                parts += bullets(lines)
            else:
                parts += [Text(), Text("\n".join(lines), style="dim", overflow="fold")]
        else:
            parts.append(_table(block, width))
    return Group(*parts)


def _table(table: Table, width: int) -> RenderableType:
    """Intervals beside their figures where all fit so, else beneath; names are folded next.

    Where even that is too wide, each row is a sentence.
    """
    room = width - len(INDENT) - GAP * (len(table.header) - 1)
    rows, widths = _laid_out(table, " ")
    if sum(widths) > room:
        rows, widths = _laid_out(table, "\n")
    while sum(widths) > room:
        widest = max(range(table.names), key=widths.__getitem__)
        if widths[widest] <= NARROWEST_NAME:
            return Group(*bullets(list(_sentences(table))))
        widths[widest] -= 1
    grid = Grid(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="dim")
    for position, (title, wide) in enumerate(zip(table.header, widths, strict=True)):
        justify = "left" if position < table.names else "right"
        grid.add_column(title, width=wide, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        names = zip(row[: table.names], widths, strict=False)
        grid.add_row(*map(Text, [*starmap(_folded, names), *row[table.names :]]))
    return Padding(grid, (0, 0, 0, len(INDENT)), expand=False)


def _folded(cell: str, width: int) -> str:
    return indented(cell, width, "")


def _laid_out(table: Table, between: str) -> tuple[list[list[str]], list[int]]:
    """The cells as text, and how wide each column is."""
    rows = [_cells(table, row, between) for row in table.rows]
    columns = zip(table.header, *rows, strict=True)
    return rows, [max(cell_len(line) for cell in c for line in cell.split("\n")) for c in columns]


def _cells(table: Table, row: Sequence[Cell], between: str) -> list[str]:
    names = [clipped(numbers.printable(" ".join(cell))) for cell in row[: table.names]]
    return [*names, *(between.join(cell) for cell in row[table.names :])]


def _sentences(table: Table) -> Iterator[str]:
    for row in table.rows:
        cells = _cells(table, row, " ")
        figures = zip(table.header[table.names :], cells[table.names :], strict=True)
        told = ", ".join(f"{title} {cell}" for title, cell in figures)
        yield f"{' '.join(cells[: table.names])}: {told}"
