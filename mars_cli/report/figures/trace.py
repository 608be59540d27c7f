"""Of a trace: how r = z2/z1 and p2/p1 part company, and what strict verification rejects.

The questions are those of the paper's Figures 1 and 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mars_cli.report import numbers
from mars_cli.report.figures import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TALL = 2.1  # inches of a panel
SPAN = (0.5, 1.0)  # of r: what lies below has nothing to do with any theta in use
BARS = 25
WIDTH = (SPAN[1] - SPAN[0]) / BARS
KINDS = {
    "accepted": ("accepted by strict", style.PALE, ""),
    "runner_up": ("rejected, second choice", style.COLOURS[1], ""),
    "other": ("rejected, below second", style.COLOURS[0], "////"),
}


@style.styled
def decoupling(trace: Mapping[str, Any]) -> Figure:
    """Verified positions by r and by p2/p1: a panel a task and lane. Dashed: theta.

    Raises:
        NothingToDrawError: no position was verified.
    """
    panels = _panels(trace)
    canvas = style.canvas(
        [
            (task, f"{lane}, rho {numbers.number(found['rank_correlation'])}")
            for task, lane, found in panels
        ],
        TALL,
        footer=[
            "Darker: more verified positions, on a logarithmic scale. rho: their rank correlation.",
            "Dotted: p2/p1 = 0.5. Right of theta and below the dotted line, the first choice is "
            "more than twice as likely as the second, and r calls it a near-tie.",
        ],
        label="r = z2/z1",
        sharey=True,
    )
    for at, ((axes,), (_, lane, found)) in enumerate(zip(canvas.panels, panels, strict=False)):
        import numpy as np
        from matplotlib.colors import LogNorm

        shapes = found["histograms"]
        counts = np.array(shapes["joint"]).T
        axes.pcolormesh(
            shapes["r_edges"],
            shapes["log10_p2_over_p1_edges"],
            np.where(counts > 0, counts, np.nan),
            cmap="Greys",
            norm=LogNorm(vmin=0.3, vmax=max(counts.max(), 2)),
            rasterized=True,
        )
        for theta in _thetas(trace, lane, found):
            axes.axvline(theta, color=style.COLOURS[1], linestyle=style.DASHED)
        axes.axhline(np.log10(0.5), color=style.COLOURS[0], linestyle=":", linewidth=1)
        axes.set_xlim(*SPAN)
        axes.set_yticks([-8, -6, -4, -2, 0], ["1e-8", "1e-6", "1e-4", "0.01", "1"])
        if at % canvas.columns == 0:
            axes.set_ylabel("p2/p1")
    return canvas.figure


@style.styled
def margins(trace: Mapping[str, Any]) -> Figure:
    """How verified positions spread over r, by what became of the draft. Dashed: theta.

    Raises:
        NothingToDrawError: no position was verified.
    """
    from matplotlib.patches import Patch

    panels = _panels(trace)
    canvas = style.canvas(
        [
            (task, f"{lane}, n = {numbers.count(found['positions'])}")
            for task, lane, found in panels
        ],
        TALL,
        footer=[f"n positions; those with r below {SPAN[0]} are in the first bar."],
        legend=[
            Patch(facecolor=colour, edgecolor=style.GREY, hatch=hatch, label=name)
            for name, colour, hatch in KINDS.values()
        ],
        label="r = z2/z1",
    )
    for (axes,), (_, lane, found) in zip(canvas.panels, panels, strict=False):
        shapes = found["histograms"]
        below = [0.0] * BARS
        for kind, (_, colour, hatch) in KINDS.items():
            shares = [100 * n / found["positions"] for n in _bars(shapes["r"][kind])]
            axes.bar(
                [SPAN[0] + n * WIDTH for n in range(BARS)],
                shares,
                width=WIDTH,
                bottom=below,
                align="edge",
                color=colour,
                edgecolor=style.GREY,
                linewidth=0.3,
                hatch=hatch,
            )
            below = [a + b for a, b in zip(below, shares, strict=True)]
        for theta in _thetas(trace, lane, found):
            axes.axvline(theta, color=style.BLACK, linestyle=style.DASHED, linewidth=1)
        axes.set_xlim(*SPAN)
        axes.grid(axis="y")
    canvas.figure.supylabel("verified positions (%)")
    return canvas.figure


def _bars(counts: list[int]) -> list[int]:
    """Counts in equal bins of [0, 1] as BARS bars of SPAN, what lies below in the first."""
    inside = counts[round(len(counts) * SPAN[0]) :]
    size = len(inside) // BARS
    bars = [sum(inside[n * size : (n + 1) * size]) for n in range(BARS)]
    bars[0] += sum(counts) - sum(inside)
    return bars


def _thetas(trace: Mapping[str, Any], lane: str, found: Mapping[str, Any]) -> list[float]:
    """The lane's own theta, or of one without, all of the run."""
    own = next(one["theta"] for one in trace["lanes"] if one["id"] == lane)
    return [entry["theta"] for entry in found["thetas"] if own in (None, entry["theta"])]


def _panels(trace: Mapping[str, Any]) -> list[tuple[str, str, Mapping[str, Any]]]:
    found = [
        (task, lane, figures)
        for task, entry in trace["tasks"].items()
        for lane, figures in entry["lanes"].items()
        if figures["positions"]
    ]
    if not found:
        raise style.NothingToDrawError("No position was verified.")
    return found
