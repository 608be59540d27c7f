"""One look for all figures: colours, letters, footer, legend, files.

Colours are those of Okabe and Ito (2008), told apart by people with any colour vision; markers,
line styles and fills say the same once more for print in grey. Letters are 8 pt at the width given:
3.5 inches is a column of a paper, 7 inches a page. Neither a display nor a user's matplotlibrc has
a part in it, and the same results give the same files.
"""

from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

from mars_cli.report import numbers
from mars_cli.runs.files import write_atomic

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ft2font import FT2Font

Given = ParamSpec("Given")

COLUMN, PAGE = 3.5, 7.0  # inches
PANELS_ACROSS = 3
TALLEST = 40.0  # inches: what lies below is left out, and the footer says so
DOTS_PER_INCH = 200
LETTERS = 8.0  # pt
LINE = 0.15  # inches a line of text
LETTER = 0.065  # inches a letter, on average
LONGEST = 72  # letters of a stranger's name

BLACK, GREY, PALE, BAND = "#000000", "#595959", "#d9d9d9", "#cfcfcf"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
LINES: tuple[Any, ...] = ("-", (0, (6, 1.5)), (0, (4, 1.2, 1, 1.2)), (0, (1, 1)), (0, (9, 2, 3, 2)))
DASHED = (0, (3, 2))

_STYLE: Mapping[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": GREY,
    "axes.labelsize": LETTERS,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": LETTERS,
    "figure.dpi": 100,
    "figure.labelsize": LETTERS,
    "font.size": LETTERS,
    "grid.color": PALE,
    "grid.linewidth": 0.5,
    "legend.fontsize": LETTERS,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "lines.linewidth": 1.3,
    "lines.markersize": 4.5,
    "savefig.dpi": DOTS_PER_INCH,
    "svg.fonttype": "none",  # letters stay letters: they can be found, and read aloud
    "svg.hashsalt": "mars",
    "text.hinting": "none",  # letters as broad at any resolution
    "text.parse_math": False,  # a name with a $ in it is a name
    "xtick.labelsize": LETTERS,
    "ytick.labelsize": LETTERS,
}


class NothingToDrawError(Exception):
    """The results hold nothing that the figure could show; the message says what is missing."""


@dataclass(frozen=True)
class Look:
    """How one lane or series of lanes is drawn; `hollow` markers are those of strict lanes."""

    colour: str
    marker: str
    line: Any = "-"
    hollow: bool = False

    def marks(self, **changes: Any) -> dict[str, Any]:
        """Keywords of a matplotlib line with markers."""
        return {
            "color": self.colour,
            "marker": self.marker,
            "linestyle": self.line,
            "markerfacecolor": "white" if self.hollow else self.colour,
            "markeredgecolor": self.colour,
            **changes,
        }

    def strict(self) -> Look:
        """The same for the strict lane beside it."""
        return replace(self, line=DASHED, hollow=True)


BASE_LOOK = Look(BLACK, "x")  # ar
STRICT_LOOK = Look(BLACK, "o").strict()


def look(index: int) -> Look:
    """The look of the index-th of several; they repeat after 120."""
    return Look(
        COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)], LINES[index % len(LINES)]
    )


def styled(draw: Callable[Given, Figure]) -> Callable[Given, Figure]:
    """Have a function draw in our style, and lay its figure out before it is handed over."""

    @wraps(draw)
    def drawn(*args: Given.args, **options: Given.kwargs) -> Figure:
        with _style():
            figure = draw(*args, **options)
            figure.draw_without_rendering()
            figure.set_layout_engine("none")  # it is laid out: writing need not do so again
        return figure

    return drawn


@contextmanager
def _style() -> Iterator[None]:
    import matplotlib.style

    with matplotlib.style.context(["default", dict(_STYLE)]):
        yield


# -- text --------------------------------------------------------------------------------------


def shown(name: Any, longest: int = LONGEST) -> str:
    """A stranger's text on one line: what the font cannot draw as a code, its middle left out."""
    known = _font()[1]
    text = "".join(c if ord(c) in known else f"\\u{ord(c):04x}" for c in numbers.printable(name))
    if len(text) > longest:
        text = f"{text[: longest // 2]}…{text[-(longest - longest // 2 - 1) :]}"
    return text


@cache
def _font() -> tuple[FT2Font, frozenset[int]]:
    """The font and the characters that it has; others would be boxes, and warn."""
    from matplotlib.font_manager import findfont
    from matplotlib.ft2font import FT2Font

    font = FT2Font(findfont("DejaVu Sans"))
    font.set_size(LETTERS, 72)
    return font, frozenset(font.get_charmap())


@cache
def _breadth(character: str) -> float:
    """Inches; the font gives 16.16 fixed-point numbers of points."""
    return _font()[0].load_char(ord(character)).linearHoriAdvance / 2**16 / 72


def breadth(text: str) -> float:
    """Inches of a text on one line, all of whose characters can be drawn."""
    return sum(map(_breadth, text))


def broken(text: str, inches: float, behind: str = r"[\s_-]") -> list[str]:
    """Text in lines no broader than that, broken behind certain characters where it can be."""
    lines = [""]
    for part in re.split(f"(?<={behind})", text):
        if breadth(lines[-1] + part.rstrip()) > inches and lines[-1]:
            lines.append("")
        for character in part:
            if breadth(lines[-1] + character.strip()) > inches:
                lines.append("")
            lines[-1] += character
    return [line.rstrip() for line in lines]


# -- figures -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Canvas:
    """A figure ready to be drawn on: for each heading that found room, its axes from the top."""

    figure: Figure
    panels: list[list[Axes]]
    columns: int
    inches: float  # the width of a panel, about


def canvas(
    headings: Sequence[tuple[str, str]],
    tall: float,
    *,
    wide: bool | None = None,
    across: int = PANELS_ACROSS,
    stacked: int = 1,
    beside: float = 0.6,
    footer: Sequence[str] = (),
    legend: Sequence[Artist] = (),
    label: str | None = None,
    **subplots: Any,
) -> Canvas:
    """A figure of panels under headings, with a legend above and sentences below.

    Args:
        headings: of each panel the name of what it shows, and facts about it.
        tall: inches of one axes with its numbers.
        wide: whether it fills a page; by default where there is more than one panel.
        across: panels side by side at most.
        stacked: axes under one heading.
        beside: inches that names of the vertical axes take.
        footer: sentences under the panels.
        legend: what to explain, each by its own label.
        label: of the horizontal axes, all alike; None where they have their own.
        subplots: as for `Figure.subplots`.
    """
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    width = PAGE if wide or (wide is None and len(headings) > 1) else COLUMN
    columns = max(1, min(len(headings), across))
    inches = (width - beside) / columns - 0.1
    titles = [_title(texts, inches) for texts in headings]
    row = tall * stacked + LINE * max(title.count("\n") + 1 for title in titles)
    most = max(1, int(TALLEST / row)) * columns
    if len(titles) > most:
        footer = [*footer, f"{len(titles) - most} more panels are left out."]
    titles = titles[:most]
    rows = math.ceil(len(titles) / columns)

    lines = broken(" ".join(footer), width - 0.1, r"\s") if footer else []
    label_at = LINE * len(lines) + (0.09 if lines else 0.03)
    below = label_at - 0.03 + (LINE + 0.05 if label else 0)
    legend_columns, above = _legend_size(legend, width)
    full = row * rows + above + below
    layout = ConstrainedLayoutEngine(
        rect=(0, below / full, 1, 1 - below / full), w_pad=0.05, h_pad=0.05
    )
    figure = Figure((width, full), layout=layout)
    axes = figure.subplots(rows * stacked, columns, squeeze=False, **subplots)
    if legend:
        figure.legend(handles=list(legend), loc="outside upper center", ncols=legend_columns)
    if label:
        figure.supxlabel(label, y=label_at / full, va="bottom")
    if lines:
        at = 0.05 / width, 0.04 / full
        figure.text(*at, "\n".join(lines), color=GREY, va="bottom", in_layout=False)
    panels = []
    for place in range(rows * columns):
        first, column = place // columns * stacked, place % columns
        pile = list(axes[first : first + stacked, column])
        if place < len(titles):
            pile[0].set_title(titles[place])
            panels.append(pile)
        else:
            for spare in pile:
                spare.remove()
    return Canvas(figure, panels, columns, inches)


def _title(texts: Sequence[str], inches: float) -> str:
    """Each text on two lines at most, three where it breaks badly."""
    longest = 2 * int(inches / LETTER) - 2
    return "\n".join(line for text in texts for line in broken(shown(text, longest), inches))


def _legend_size(handles: Sequence[Artist], width: float) -> tuple[int, float]:
    """Columns and inches of height of a legend; names too long for it are broken."""
    if not handles:
        return 1, 0.0
    for handle in handles:
        handle.set_label("\n".join(broken(str(handle.get_label()), width - 0.7)))
    lines = [str(handle.get_label()).split("\n") for handle in handles]
    widest = max(breadth(line) for label in lines for line in label)
    columns = max(1, min(len(handles), int(width / (widest + 0.6))))
    rows = math.ceil(len(handles) / columns)
    return columns, rows * (LINE * max(map(len, lines)) + 0.04) + 0.1


# -- files -------------------------------------------------------------------------------------


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as PNG (200 dpi) and SVG beside it, each whole or not at all.

    Neither holds a date, a version or a random name.
    """
    png, svg = (stem.with_name(stem.name + ending) for ending in (".png", ".svg"))
    stem.parent.mkdir(parents=True, exist_ok=True)
    with _style():
        drawn = io.BytesIO()
        figure.savefig(drawn, format="png", metadata={"Software": None})
        temporary = png.with_name(f".{png.name}.{os.getpid()}")
        temporary.write_bytes(drawn.getvalue())
        os.replace(temporary, png)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Creator": None, "Date": None})
        write_atomic(svg, text.getvalue())
    return [png, svg]
