"""Recovery and speedup of every lane on every task: a panel a task, a row a lane."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mars_cli.analysis.figures import SAFE_RECOVERY
from mars_cli.report import numbers
from mars_cli.report.figures import style
from mars_cli.report.figures.reading import (
    CUT,
    WHISKERS,
    Missing,
    Point,
    Results,
    drafting,
    interval,
    left_out,
    limits,
    looks,
    nothing,
    point,
    rows_of,
)
from mars_cli.report.table import RECOVERY_NOTES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABELS = 1.6  # inches for names of lanes
ROW = 0.17  # inches
NARROW_RECOVERY, NARROW_SPEEDUP = 25.0, 1.0  # how far intervals are followed at least


@dataclass(frozen=True)
class _Panel:
    task: str
    facts: str
    points: Mapping[str, Point]
    level: int | None = None
    band: tuple[float, float] | None = None


@style.styled
def recovery(results: Results) -> Figure:
    """Recovery (% of ar's score) of every lane on every task, with 95% intervals.

    The paper's Figure 3, as points on a common scale instead of bars cut off at their foot.

    Raises:
        NothingToDrawError: no lane of any task has a recovery.
    """
    panels, missing = [], list[Missing]()
    for task, facts in results["tasks"].items():
        rows = rows_of(results, task)
        points = {}
        for lane in drafting(results):
            found = point(rows.get(lane["id"]), "recovery")
            if found is None:
                why = (rows.get(lane["id"]) or {}).get("recovery_note")
                why = "not measured" if why is None else RECOVERY_NOTES.get(why, style.shown(why))
                missing.append((task, lane["id"], why))
            else:
                points[lane["id"]] = found
        if points:
            panels.append(_Panel(task, numbers.counted(facts.get("n") or 0, "document"), points))
    safe = results.get("safe_recovery") or SAFE_RECOVERY
    notes = left_out("recovery", missing, len(drafting(results)))
    if not panels:
        raise nothing("recovery", missing, len(drafting(results)))

    def marks(axes: Axes, _: _Panel) -> None:
        axes.axvline(100, color=style.BLACK, linewidth=0.8, zorder=1)
        axes.axvline(safe, color=style.BLACK, linewidth=0.8, linestyle=style.DASHED, zorder=1)

    notes.insert(0, f"Solid line: 100%; dashed: {safe:g}%.")
    label = "recovery (% of ar's score)"
    return _forest(results, panels, (safe, 100.0), NARROW_RECOVERY, label, notes, marks)


@style.styled
def speedup(results: Results) -> Figure:
    """Speedup over ar of every lane on every task, with 95% intervals and the A/A noise band.

    A panel for each concurrency that was timed.

    Raises:
        NothingToDrawError: no lane of any task has a speedup.
    """
    panels, missing = [], list[Missing]()
    for task, facts in results["tasks"].items():
        rows, noise = rows_of(results, task), results["noise"].get(task) or {}
        levels = facts.get("concurrency") or [None]
        for level in levels:
            points = {}
            at = f"{task} at concurrency {level}" if len(levels) > 1 else task
            for lane in drafting(results):
                found = point(_at(rows.get(lane["id"]), level), "speedup")
                if found is None:
                    missing.append((at, lane["id"], "not measured"))
                else:
                    points[lane["id"]] = found
            told = numbers.counted(facts.get("n_speed") or 0, "prompt")
            told += "" if level is None else f", concurrency {level}"
            if points:
                band = interval((_at(noise, level) or {}).get("aa_ci"))
                panels.append(_Panel(task, told, points, level, band))
    if not panels:
        raise nothing("speedup", missing, len(drafting(results)))
    unknown = dict.fromkeys(style.shown(panel.task) for panel in panels if panel.band is None)
    notes = left_out("speedup", missing, len(drafting(results)))
    notes += [f"No A/A band on {', '.join(unknown)}: the noise is unknown."] if unknown else []

    def marks(axes: Axes, panel: _Panel) -> None:
        axes.axvline(1, color=style.BLACK, linewidth=0.8, zorder=1)
        if panel.band:
            axes.axvspan(*panel.band, color=style.BAND, linewidth=0, zorder=0, label="A/A")

    if any(panel.band for panel in panels):
        notes.insert(0, "Grey band: A/A, ar against itself.")
    label = "speedup (times ar's tokens/s)"
    bounds = (1.0, *(end for panel in panels for end in _within(panel)))
    return _forest(results, panels, bounds, NARROW_SPEEDUP, label, notes, marks)


def _at(row: Mapping[str, Any] | None, level: int | None) -> Mapping[str, Any] | None:
    """The figures at one concurrency; those of the row itself where levels are not told apart."""
    levels = (row or {}).get("by_concurrency")
    return row if level is None or levels is None else levels.get(str(level))


def _within(panel: _Panel) -> tuple[float, ...]:
    """The ends of the noise band, where they are near enough to set the scale."""
    return tuple(end for end in panel.band or () if abs(end - 1) <= NARROW_SPEEDUP)


def _forest(
    results: Results,
    panels: Sequence[_Panel],
    anchors: Sequence[float],
    reach: float,
    label: str,
    notes: list[str],
    marks: Callable[[Axes, _Panel], None],
) -> Figure:
    lanes = [
        lane["id"]
        for lane in drafting(results)
        if any(lane["id"] in panel.points for panel in panels)
    ]
    names = [style.broken(style.shown(lane), LABELS) for lane in lanes]
    levels = len({panel.level for panel in panels})
    across = levels if 1 < levels <= style.PANELS_ACROSS else style.PANELS_ACROSS
    heights = [len(lines) for lines in names]
    places = [sum(heights[:at]) + (heights[at] - 1) / 2 for at in range(len(names))]
    ends = limits(_all(panels), anchors, reach)
    if any(end < ends[0] or end > ends[1] for found in _all(panels) for end in found.reach):
        notes = [CUT, *notes]
    if any(found.ends for found in _all(panels)):
        notes = [WHISKERS, *notes]
    canvas = style.canvas(
        [(panel.task, panel.facts) for panel in panels],
        ROW * sum(heights) + 0.45,
        across=across,
        beside=LABELS,
        footer=notes,
        label=label,
    )
    look = looks(results)
    for at, ((axes,), panel) in enumerate(zip(canvas.panels, panels, strict=False)):
        marks(axes, panel)
        for place, lane in zip(places, lanes, strict=True):
            if lane in panel.points:
                _row(axes, panel.points[lane], place, ends, lane, look[lane])
        first = at % canvas.columns == 0
        axes.set_yticks(places, ["\n".join(lines) for lines in names] if first else [])
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="y")
        axes.locator_params(axis="x", nbins=4)
        axes.set_xlim(*ends)
        axes.set_ylim(sum(heights) - 0.3, -0.7)
    return canvas.figure


def _all(panels: Sequence[_Panel]) -> list[Point]:
    return [found for panel in panels for found in panel.points.values()]


def _row(
    axes: Axes, found: Point, place: float, ends: tuple[float, float], lane: str, look: style.Look
) -> None:
    """A value and its interval; an arrowhead at the axes' end where the interval goes on."""
    if found.ends:
        axes.plot(found.ends, (place, place), color=look.colour, label=f"{lane} interval")
        for end, edge, head in zip(found.ends, ends, "<>", strict=True):
            if (end < edge) if head == "<" else (end > edge):
                axes.plot(edge, place, marker=head, color=look.colour, clip_on=False)
    axes.plot(found.value, place, **look.marks(linestyle="", label=lane, zorder=3))
