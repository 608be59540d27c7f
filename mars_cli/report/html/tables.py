"""Blocks as HTML. Every name, note and figure is escaped here."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mars_cli.analysis.figures import NOT_LOSSLESS
from mars_cli.report import numbers
from mars_cli.report.blocks import Block, Cell, Heading, Table, clipped

DEEPEST = 6  # levels of headings in HTML


@dataclass(frozen=True)
class Section:
    """A part of the page: its heading, which the contents list too, and HTML beneath it."""

    title: str
    body: str


def text(value: object) -> str:
    """A stranger's text for HTML, in an element or a quoted attribute; on one line."""
    return html.escape(numbers.printable(value), quote=True)


def sections(blocks: Sequence[Block]) -> list[Section]:
    """The blocks, cut at headings of level 2; what stands before the first has no title."""
    parts: list[tuple[str, list[Block]]] = [("", [])]
    for block in blocks:
        if isinstance(block, Heading) and block.level == 2:
            parts.append((block.text, []))
        else:
            parts[-1][1].append(block)
    return [Section(title, as_html(found)) for title, found in parts if title or found]


def as_html(blocks: Sequence[Block], deeper: int = 0) -> str:
    """The blocks one after another, headings so many levels deeper."""
    return "\n".join(line for block in blocks for line in _block(block, deeper))


def folded(summary: str, body: str, kind: str = "") -> str:
    """HTML under a line that opens it; `summary` is text, `body` HTML."""
    named = f' class="{kind}"' if kind else ""
    return f"<details{named}><summary>{text(summary)}</summary>\n{body}\n</details>"


def _block(block: Block, deeper: int) -> Iterator[str]:
    if isinstance(block, Heading):
        level = min(block.level + deeper, DEEPEST)
        yield f"<h{level}>{text(block.text)}</h{level}>"
    elif isinstance(block, Table):
        yield from _table(block)
    elif block.lines and block.listed:
        yield "<ul>"
        for line in block.lines:
            loud = ' class="loud"' if NOT_LOSSLESS in line else ""
            yield f"<li{loud}>{text(line)}</li>"
        yield "</ul>"
    elif block.lines:
        yield from (f'<p class="legend">{text(line)}</p>' for line in block.lines)


def _table(table: Table) -> Iterator[str]:
    """A table that the page's script lets sort and filter; figures carry their number as data."""
    yield '<div class="wide"><table class="data">'
    if table.caption:
        yield f'<caption class="unseen">{text(clipped(table.caption, 1000))}</caption>'
    kinds = [' class="n"' if place >= table.names else "" for place in range(len(table.header))]
    cells = zip(table.header, kinds, strict=True)
    header = "".join(f'<th scope="col"{kind}>{text(title)}</th>' for title, kind in cells)
    yield f"<thead><tr>{header}</tr></thead>"
    yield "<tbody>"
    for row in table.rows:
        first, *names = (text(clipped(" ".join(cell))) for cell in row[: table.names])
        told = "".join(f"<td>{name}</td>" for name in names)
        figures = "".join(map(_figure, row[table.names :]))
        yield f'<tr><th scope="row">{first}</th>{told}{figures}</tr>'
    yield "</tbody>"
    yield "</table></div>"


def _figure(cell: Cell) -> str:
    """A figure, what goes with it smaller, and the number that it sorts by where it is one."""
    first, *others = cell
    found = sort_key(first)
    key = "" if found is None else f' data-key="{found:.15g}"'
    beside = "".join(f" <small>{text(other)}</small>" for other in others)
    return f'<td class="n"{key}>{text(clipped(first))}{beside}</td>'


_NUMBER = re.compile(r"<?(-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)")


def sort_key(figure: str) -> float | None:
    """The number that a figure printed by `numbers` begins with; None for a dash or a word."""
    found = _NUMBER.match(figure)
    return None if found is None else float(found[1].replace(",", ""))
