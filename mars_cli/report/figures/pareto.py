"""Speedup against recovery: what each lane buys and what it costs, and the front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from mars_cli.analysis.figures import SAFE_RECOVERY
from mars_cli.analysis.metrics import BASELINE
from mars_cli.report import numbers
from mars_cli.report.figures import style
from mars_cli.report.figures.forest import NARROW_RECOVERY
from mars_cli.report.figures.reading import (
    Missing,
    Point,
    Results,
    brief,
    drafting,
    engine_of,
    left_out,
    limits,
    looks,
    nothing,
    point,
    rows_of,
    series_names,
    series_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox

NARROW_SPEEDUP = 0.2  # how far intervals are followed at least
ALL_NAMED = 8  # up to so many lanes each has its name beside it, beyond that those of the front
FEW = 6  # lanes in a figure a column wide
TALL = 2.7  # inches
LETTERS = 32  # of a name beside a point
RING = 11.0  # pt, around the recommended lane

Points = dict[str, tuple[Point, Point]]  # (speedup, recovery) by lane id


@style.styled
def pareto(results: Results, task: str | None = None, recommended: str | None = None) -> Figure:
    """Speedup (x) against recovery (y, %) of all lanes, with 95% intervals, and the Pareto front.

    Args:
        results: as in results.json.
        task: one of its tasks; None for the figures over all tasks, which have no intervals.
        recommended: the id of a lane to mark.

    Raises:
        NothingToDrawError: no lane but `ar` has both figures.
    """
    lanes = drafting(results)
    rows = results["overall"] if task is None else rows_of(results, task)
    points, missing = Points(), list[Missing]()
    for lane in [BASELINE, *(lane["id"] for lane in lanes)]:
        speedup, recovery = (point(rows.get(lane), name) for name in ("speedup", "recovery"))
        if speedup and recovery:
            points[lane] = speedup, recovery
        elif lane != BASELINE:
            lacks = [n for n, p in (("speedup", speedup), ("recovery", recovery)) if p is None]
            missing.append((task or "all tasks", lane, f"no {', no '.join(lacks)}"))
    if not points.keys() - {BASELINE}:
        raise nothing("point", missing, len(lanes))
    safe = results.get("safe_recovery") or SAFE_RECOVERY
    speedups, recoveries = zip(*points.values(), strict=True)
    ends = (
        limits(speedups, (1.0,), NARROW_SPEEDUP),
        limits(recoveries, (safe, 100.0), NARROW_RECOVERY),
    )
    notes = [
        f"Solid line: ar's score; dashed: {safe:g}% of it.",
        *(_overall_notes(results, points) if task is None else _interval_notes(points, ends)),
        *left_out("point", missing, len(lanes)),
    ]
    if recommended is not None and recommended not in points:
        notes.append(f"The recommended {style.shown(recommended)} cannot be shown.")
    canvas = style.canvas(
        [_heading(results, task)],
        TALL,
        wide=len(points) > FEW,
        footer=notes,
        legend=_legend(results, points, recommended),
    )
    ((axes,),) = canvas.panels
    axes.axhline(100, color=style.BLACK, linewidth=0.8, zorder=1)
    axes.axhline(safe, color=style.BLACK, linewidth=0.8, linestyle=style.DASHED, zorder=1)
    look = looks(results)
    for lane, (speedup, recovery) in points.items():
        drawn = look.get(lane, style.BASE_LOOK)
        x, y = speedup.value, recovery.value
        for ends_x, ends_y in ((speedup.reach, (y, y)), ((x, x), recovery.reach)):
            axes.plot(ends_x, ends_y, color=drawn.colour, linewidth=0.7, alpha=0.45, zorder=2)
        axes.plot(x, y, **drawn.marks(linestyle="", label=lane, zorder=4))
    best = [points[lane] for lane in front(points)]
    axes.plot(
        [speedup.value for speedup, _ in best],
        [recovery.value for _, recovery in best],
        color=style.GREY,
        linewidth=1.1,
        drawstyle="steps-pre",
        label="front",
        zorder=1.5,
    )
    if recommended in points:
        speedup, recovery = points[recommended]
        axes.plot(speedup.value, recovery.value, **_ring(label="recommended", zorder=5))
    axes.set_xlim(*ends[0])
    axes.set_ylim(*ends[1])
    axes.set_xlabel("speedup (times ar's tokens/s)")
    axes.set_ylabel("recovery (% of ar's score)")
    _name_points(canvas.figure, axes, points, _names(results, points, recommended))
    return canvas.figure


def front(points: Mapping[str, tuple[Point, Point]]) -> list[str]:
    """The lanes that no other lane beats in one figure without losing in the other.

    Slowest first. Point values decide: intervals may overlap.
    """
    order = sorted(points, key=lambda lane: (-points[lane][0].value, -points[lane][1].value))
    best: list[str] = []
    for lane in order:
        if not best or points[lane][1].value > points[best[-1]][1].value:
            best.append(lane)
    return best[::-1]


def _heading(results: Results, task: str | None) -> tuple[str, str]:
    if task is None:
        return "all tasks", "mean recovery, geometric mean speedup"
    facts = results["tasks"][task]
    documents = numbers.counted(facts.get("n") or 0, "document")
    return task, f"{documents}, {numbers.counted(facts.get('n_speed') or 0, 'timed prompt')}"


def _overall_notes(results: Results, points: Points) -> list[str]:
    """Says that there are no intervals, and of lanes what their figures leave out."""
    rows = (results["overall"][lane] for lane in points)
    parts = {
        style.shown(note)
        for row in rows
        for note in row.get("notes") or []
        if note.startswith(("speedup", "recovery"))
    }
    return ["No intervals.", *(f"{part[0].upper()}{part[1:]}." for part in sorted(parts))]


def _interval_notes(points: Points, ends: Sequence[tuple[float, float]]) -> list[str]:
    pairs = [pair for both in points.values() for pair in zip(both, ends, strict=True)]
    if not any(found.ends for found, _ in pairs):
        return []
    cut = any(end < low or end > high for found, (low, high) in pairs for end in found.reach)
    return [f"Thin lines: 95% intervals over documents{', some cut off' if cut else ''}."]


def _names(results: Results, points: Points, recommended: str | None) -> dict[str, str]:
    """The names to write beside points: all of a few lanes; of many those of the front."""
    lanes = [lane for lane in drafting(results) if lane["id"] in points]
    few = len(points) <= ALL_NAMED
    several = len({engine_of(lane) for lane in lanes}) > 1
    # Of many, the legend tells drafts and K apart.
    names = {lane["id"]: lane["id"] if few and several else brief(lane) for lane in lanes}
    kept = points if few else {*front(points), BASELINE, recommended}
    names |= {BASELINE: BASELINE}
    return {lane: style.shown(names[lane], LETTERS) for lane in points if lane in kept}


def _legend(results: Results, points: Points, recommended: str | None) -> list[Any]:
    from matplotlib.lines import Line2D

    look = looks(results)
    lanes = [lane for lane in drafting(results) if lane["id"] in points]
    firsts = {series_of(lane): lane["id"] for lane in reversed(lanes)}
    named = {} if len(points) <= ALL_NAMED else series_names(lanes)
    handles = [
        Line2D([], [], **look[firsts[key]].marks(linestyle="", label=name))
        for key, name in named.items()
    ]
    handles.append(Line2D([], [], color=style.GREY, linewidth=1.1, label="Pareto front"))
    if recommended in points:
        handles.append(Line2D([], [], **_ring(label=f"recommended: {style.shown(recommended)}")))
    return handles


def _ring(**options: Any) -> dict[str, Any]:
    return {
        "linestyle": "",
        "marker": "o",
        "markersize": RING,
        "markerfacecolor": "none",
        "markeredgecolor": style.BLACK,
        **options,
    }


# -- names beside points -----------------------------------------------------------------------

_NEAR, _FAR = 5.0, 18.0  # pt from the middle of a point
# Whiskers run along the axes: names keep between them where they can.
_SIDES = ((1, 1), (-1, 1), (1, -1), (-1, -1), (1, 0), (-1, 0), (0, 1), (0, -1))
_PLACES = [(x * away, y * away) for away in (_NEAR, _FAR) for x, y in _SIDES]


def _name_points(figure: Figure, axes: Axes, points: Points, names: Mapping[str, str]) -> None:
    """Write names beside their points, where they hide no point and no other name."""
    from matplotlib.transforms import Bbox

    figure.draw_without_rendering()
    spots = {lane: (pair[0].value, pair[1].value) for lane, pair in points.items()}
    half = style.LETTERS * figure.dpi / 72 / 2
    middles = [axes.transData.transform(spot) for spot in spots.values()]
    taken = [Bbox.from_extents(x - half, y - half, x + half, y + half) for x, y in middles]
    corners = [axes.transData.transform(spots[lane]) for lane in front(points)]
    for (x, y), (next_x, next_y) in pairwise(corners):
        taken += [Bbox([[x, next_y], [x + 1, y]]), Bbox([[x, next_y], [next_x, next_y + 1]])]
    for lane, name in names.items():
        written = axes.annotate(name, spots[lane], (0, 0), textcoords="offset points", zorder=6)
        written.set_in_layout(False)
        written.set_bbox({"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 0.5})
        costs = []
        for place in _PLACES:
            _put(written, place)
            costs.append(_hidden(written.get_window_extent(), taken, axes.bbox))
        best = _PLACES[costs.index(min(costs))]
        _put(written, best)
        taken.append(written.get_window_extent())
        if max(map(abs, best)) == _FAR:
            axes.annotate(
                "",
                spots[lane],
                best,
                textcoords="offset points",
                arrowprops={"arrowstyle": "-", "linewidth": 0.6, "color": style.GREY},
                zorder=5.5,
            )


def _put(written: Annotation, place: tuple[float, float]) -> None:
    x, y = place
    written.set_position(place)
    written.set_horizontalalignment("left" if x > 0 else "right" if x < 0 else "center")
    written.set_verticalalignment("bottom" if y > 0 else "top" if y < 0 else "center")


def _hidden(box: Bbox, taken: Sequence[Bbox], room: Bbox) -> float:
    """Square pixels of a name that would lie over others or outside of the axes."""
    inside = _shared(box, room)
    return box.width * box.height - inside + sum(_shared(box, other) for other in taken)


def _shared(one: Bbox, other: Bbox) -> float:
    wide = min(one.x1, other.x1) - max(one.x0, other.x0)
    high = min(one.y1, other.y1) - max(one.y0, other.y0)
    return wide * high if wide > 0 and high > 0 else 0.0
