"""Score and speedup against theta, as in the paper's Figure 4: a column a task, a line a K."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mars_cli.analysis.metrics import BASELINE
from mars_cli.report.figures import style
from mars_cli.report.figures.reading import (
    Lane,
    Missing,
    Point,
    Results,
    drafting,
    engine_of,
    is_strict,
    left_out,
    limits,
    looks,
    nothing,
    point,
    rows_of,
    series_names,
    series_of,
    theta_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIGURES = ("score", "speedup")
TALL = 1.5  # inches of a panel
TICK = 0.36  # inches for a theta below the axis
# How far bands are followed at least: those of scores have bounds.
REACH: Mapping[str, float] = {"score": math.inf, "speedup": 0.5}

Series = Mapping[tuple[Any, ...], Sequence[tuple[float, str]]]  # (theta, lane id), theta rising


@style.styled
def theta_curves(results: Results) -> Figure:
    """Score (above) and speedup (below) against theta, a column a task and a line a series.

    A series is a draft, K and rule; its band are the 95% intervals. Dashed in its colour: the
    strict lane of the same draft and K, which is theta = 1. Solid black: ar.

    Raises:
        NothingToDrawError: no series has two thetas, or none of their figures could be measured.
    """
    series = _series(drafting(results))
    if not any(len(lanes) > 1 for lanes in series.values()):
        raise style.NothingToDrawError("It takes lanes that differ in theta alone.")
    thetas = sorted({theta for lanes in series.values() for theta, _ in lanes})
    swept = [lane for lane in drafting(results) if series_of(lane) in series]
    beside = [BASELINE, *(lane["id"] for lane in _strict(results, series))]
    lanes = [*beside, *(lane["id"] for lane in swept)]
    drawn, missing = [], {name: list[Missing]() for name in FIGURES}
    for task in results["tasks"]:
        found = {name: _points(results, task, name) for name in FIGURES}
        for name, points in found.items():
            absent = (lane for lane in lanes if lane not in points)
            missing[name] += [(task, lane, "not measured") for lane in absent]
        if any(lane["id"] in points for lane in swept for points in found.values()):
            drawn.append((task, found))
    if not drawn:
        raise nothing("score or speedup", missing["score"], len(lanes))
    notes = ["Bands: 95% intervals over documents."]
    for name in FIGURES:
        notes += left_out(name, missing[name], len(lanes))

    canvas = style.canvas(
        [(task, _metric(results["tasks"][task])) for task, _ in drawn],
        TALL,
        stacked=len(FIGURES),
        footer=notes,
        legend=_legend(results, series),
        label="theta (threshold of the rule)",
    )
    for at, (pile, (_, found)) in enumerate(zip(canvas.panels, drawn, strict=False)):
        for axes, name in zip(pile, FIGURES, strict=True):
            _panel(axes, results, series, found[name], REACH[name])
            _ticks(axes, thetas, canvas.inches)
            if at % canvas.columns == 0:
                axes.set_ylabel("score" if name == "score" else "speedup (times ar)")
        pile[0].tick_params(labelbottom=False)
    canvas.figure.align_ylabels()
    return canvas.figure


def _metric(facts: Mapping[str, Any]) -> str:
    better = "" if facts.get("higher_is_better", True) else " (lower is better)"
    return f"{facts.get('metric')}{better}"


def _series(lanes: Sequence[Lane]) -> Series:
    found: dict[tuple[Any, ...], list[tuple[float, str]]] = {}
    for lane in lanes:
        theta = theta_of(lane)
        if theta is not None:
            found.setdefault(series_of(lane), []).append((theta, lane["id"]))
    return {key: sorted(members) for key, members in found.items()}


def _series_names(results: Results, series: Series) -> Mapping[tuple[Any, ...], str]:
    return series_names([lane for lane in drafting(results) if series_of(lane) in series])


def _points(results: Results, task: str, name: str) -> dict[str, Point]:
    every = {lane: point(row, name) for lane, row in rows_of(results, task).items()}
    return {lane: found for lane, found in every.items() if found is not None}


def _panel(
    panel: Axes, results: Results, series: Series, found: Mapping[str, Point], reach: float
) -> None:
    look, names = looks(results), _series_names(results, series)
    levels = [(lane, look[lane["id"]]) for lane in _strict(results, series)]
    base = found.get(BASELINE)
    if base:
        panel.axhline(base.value, color=style.BLACK, linewidth=0.8, label=BASELINE, zorder=1)
    for lane, dashed in levels:
        if lane["id"] in found:
            panel.axhline(
                found[lane["id"]].value,
                **dashed.marks(linewidth=1.1, label=lane["id"], zorder=1.5),
                markevery=[1],  # its mark at the right end tells K apart in grey
                clip_on=False,
            )
    for key, members in series.items():
        style_of = look[members[0][1]]
        values = [found[lane].value if lane in found else float("nan") for _, lane in members]
        panel.plot(
            [theta for theta, _ in members],
            values,
            **style_of.marks(label=names[key], zorder=3),
        )
        for run in _runs(members, found):
            _band(panel, run, style_of)
    shown = [found[lane] for members in series.values() for _, lane in members if lane in found]
    anchors = [found[lane["id"]].value for lane, _ in levels if lane["id"] in found]
    anchors += [base.value] if base else []
    if shown or anchors:
        panel.set_ylim(*limits(shown, anchors, reach))
    if not shown:
        panel.text(
            0.5, 0.5, "not measured", color=style.GREY, ha="center", transform=panel.transAxes
        )
        panel.set_yticks([])
        panel.tick_params(axis="x", which="both", bottom=False)
    panel.grid(axis="y")


def _runs(
    members: Sequence[tuple[float, str]], found: Mapping[str, Point]
) -> list[list[tuple[float, tuple[float, float]]]]:
    """Neighbouring thetas whose figures have intervals."""
    runs: list[list[tuple[float, tuple[float, float]]]] = [[]]
    for theta, lane in members:
        ends = found[lane].ends if lane in found else None
        if ends is None:
            runs.append([])
        else:
            runs[-1].append((theta, ends))
    return [run for run in runs if run]


def _band(panel: Axes, run: Sequence[tuple[float, tuple[float, float]]], look: style.Look) -> None:
    if len(run) == 1:  # no width to shade
        ((theta, ends),) = run
        panel.plot((theta, theta), ends, color=look.colour, linewidth=0.8)
        return
    lows, highs = ([ends[side] for _, ends in run] for side in (0, 1))
    thetas = [theta for theta, _ in run]
    panel.fill_between(thetas, lows, highs, color=look.colour, alpha=0.15, linewidth=0)


def _strict(results: Results, series: Series) -> list[Lane]:
    """The strict lanes that stand beside a series."""
    engines = {engine_of(lane) for lane in drafting(results) if series_of(lane) in series}
    return [lane for lane in drafting(results) if is_strict(lane) and engine_of(lane) in engines]


def _ticks(panel: Axes, thetas: Sequence[float], inches: float) -> None:
    """A tick at every theta; from the left, a number below each that has room for one."""
    low, high = panel.get_xlim()
    labels: list[str] = []
    last = -math.inf
    for theta in thetas:
        fits = (theta - last) / (high - low) * inches >= TICK
        labels.append(f"{theta:g}" if fits else "")
        last = theta if fits else last
    panel.set_xticks(thetas, labels)


def _legend(results: Results, series: Series) -> list[Any]:
    from matplotlib.lines import Line2D

    look = looks(results)
    names = _series_names(results, series)
    handles = [
        Line2D([], [], **look[members[0][1]].marks(label=names[key]))
        for key, members in series.items()
    ]
    if _strict(results, series):
        label = "strict (theta = 1), mark and colour of its K"
        handles.append(Line2D([], [], color=style.GREY, linestyle=style.DASHED, label=label))
    return [*handles, Line2D([], [], color=style.BLACK, linewidth=0.8, label="ar")]
