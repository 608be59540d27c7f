"""Blocks as LaTeX to paste: each table a float with booktabs rules, the rest as comments.

Only ASCII comes out, and every character of a name that means something to TeX is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mars_cli.report import numbers
from mars_cli.report.blocks import Block, Heading, Lines, Table, clipped

_ESCAPED = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "`": r"\`{}",
    numbers.NULL: "--",
    "·": r"$\cdot$",
    "≤": r"$\leq$",
}
NEEDS = r"needs \usepackage{booktabs,graphicx}"
# No wider than the text, by graphicx's own lengths; a narrower table keeps its size.
_FITTED = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}"


def latex(blocks: Sequence[Block]) -> str:
    """The blocks in order; ends with a newline."""
    tables = 0
    lines = [f"% {NEEDS}"]
    for block in blocks:
        if isinstance(block, Heading):
            lines += ["", f"% {_ascii(block.text)}"]
        elif isinstance(block, Lines):
            lines += [f"% {'- ' if block.listed else ''}{_ascii(line)}" for line in block.lines]
        else:
            tables += 1
            lines += _table(block, tables)
    return "\n".join(lines) + "\n"


def text(value: str) -> str:
    """A stranger's text as LaTeX text: one line, ASCII, nothing in it obeyed, no ligatures."""
    found: list[str] = []
    for c in _shown(value):
        if c in "-'" and found and found[-1] == c:  # two make one sign in TeX
            found.append("{}")
        found.append(_ESCAPED.get(c, c))
    return "".join(found)


def _table(table: Table, number: int) -> Iterator[str]:
    """Figures at the right; what would be read as an option of the row above is kept from it."""
    kinds = "l" * table.names + "r" * (len(table.header) - table.names)
    yield r"\begin{table}"
    yield r"  \centering\footnotesize\setlength{\tabcolsep}{3pt}"
    yield rf"  \caption{{{text(clipped(table.caption, 1000))}}}"
    yield rf"  \label{{tab:mars-{number}}}"
    yield rf"  {_FITTED}{{\begin{{tabular}}{{{kinds}}}"
    yield r"    \toprule"
    yield f"    {' & '.join(map(text, table.header))} \\\\"
    yield r"    \midrule"
    for row in table.rows:
        first, *others = (text(clipped(" ".join(cell))) for cell in row)
        guard = "{}" if first[:1] in ("[", "*") else ""
        yield f"    {' & '.join([guard + first, *others])} \\\\"
    yield r"    \bottomrule"
    yield r"  \end{tabular}}"
    yield r"\end{table}"


def _shown(value: str) -> str:
    """One line of characters that are ASCII or have an escape."""
    plain = numbers.printable(value)
    return "".join(c if c.isascii() or c in _ESCAPED else f"\\x{ord(c):02x}" for c in plain)


def _ascii(value: str) -> str:
    """Text of a comment, which nothing can end but a new line."""
    plain = _shown(value).replace(numbers.NULL, "--").replace("·", ";").replace("≤", "<=")
    assert plain.isascii()
    return plain
