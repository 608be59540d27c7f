"""How much of a draft is accepted: by position in it, and how many tokens a step delivers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mars_cli.analysis.metrics import BASELINE, Record
from mars_cli.report import numbers
from mars_cli.report.figures import style
from mars_cli.report.figures.reading import (
    Lane,
    Missing,
    Results,
    brief,
    drafting,
    engine_of,
    is_strict,
    left_out,
    nothing,
    rows_of,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TALL = 1.75  # inches of a panel
SMALL = 1.4  # inches of a histogram
HISTOGRAMS_ACROSS = 4
TICK = 0.2  # inches for a number below the axis


@style.styled
def acceptance_by_position(results: Results) -> Figure:
    """Share of drafts accepted at each position, a line a lane; a panel a task, draft and K.

    The share at position j is over the steps that drafted as far as j.

    Raises:
        NothingToDrawError: no lane of any task had a draft.
    """
    lanes = drafting(results)
    engines = list(dict.fromkeys(map(engine_of, lanes)))
    panels, missing = [], list[Missing]()
    for task in results["tasks"]:
        rows = rows_of(results, task)
        for engine in engines:
            drawn = []
            for lane in lanes:
                if engine_of(lane) != engine:
                    continue
                shares = (rows.get(lane["id"]) or {}).get("acceptance_per_position")
                if shares:
                    drawn.append((lane, shares))
                else:
                    missing.append((task, lane["id"], "no step had a draft"))
            if drawn:
                panels.append((task, engine, drawn))
    if not panels:
        raise nothing("acceptance", missing, len(lanes))
    notes = left_out("acceptance", missing, len(lanes))
    look = _looks([lane for _, _, drawn in panels for lane, _ in drawn])
    across = len(engines) if 1 < len(engines) <= style.PANELS_ACROSS else style.PANELS_ACROSS
    canvas = style.canvas(
        [(task, f"{draft}, K = {k}") for task, (draft, k, *_), _ in panels],
        TALL,
        across=across,
        footer=notes,
        legend=_legend(look),
        label="position in the draft",
    )
    for at, ((axes,), (_, _, drawn)) in enumerate(zip(canvas.panels, panels, strict=False)):
        for lane, shares in drawn:
            axes.plot(
                range(1, len(shares) + 1),
                [100 * share for share in shares],
                **look[brief(lane)].marks(label=lane["id"], clip_on=False, zorder=3),
            )
        longest = max(len(shares) for _, shares in drawn)
        axes.set_xlim(0.7, max(longest, 2) + 0.3)
        axes.set_ylim(0, 100)
        axes.set_xticks(_whole(longest, canvas.inches))
        axes.grid(axis="y")
        if at % canvas.columns:
            axes.tick_params(labelleft=False)
    canvas.figure.supylabel("accepted (% of steps drafting that far)")
    return canvas.figure


def _whole(longest: int, inches: float) -> range:
    """Ticks from 1 on, no more than there is room for."""
    return range(1, longest + 1, math.ceil(longest * TICK / inches))


def _looks(lanes: Sequence[Lane]) -> dict[str, style.Look]:
    """Looks by what tells lanes of one draft and K apart; the same in every panel."""
    names = dict.fromkeys(brief(lane) for lane in lanes if not is_strict(lane))
    strict = dict.fromkeys(brief(lane) for lane in lanes if is_strict(lane))
    found = {name: style.STRICT_LOOK for name in strict}
    return found | {name: style.look(index) for index, name in enumerate(names)}


def _legend(look: Mapping[str, style.Look]) -> list[Any]:
    from matplotlib.lines import Line2D

    return [Line2D([], [], **drawn.marks(label=style.shown(name))) for name, drawn in look.items()]


@style.styled
def acceptance_lengths(answers: Mapping[str, Iterable[Record]]) -> Figure:
    """How many tokens steps deliver: a histogram a lane, its mean (tau) as a dashed line.

    Without `ar`, each of whose steps delivers one token.

    Args:
        answers: quality records of one task by lane id. They are read once; of each only
            `step_tokens`, without the first output (the prefill's) and outputs that delivered
            nothing, as for `acceptance_length`.

    Raises:
        NothingToDrawError: no answer of any lane went beyond its first output.
    """
    counts = {lane: _steps(found) for lane, found in answers.items() if lane != BASELINE}
    drawn = {lane: found for lane, found in counts.items() if found}
    if not drawn:
        raise style.NothingToDrawError(
            "No answer of a lane with a draft went beyond its first output."
        )
    without = [style.shown(lane) for lane, found in counts.items() if not found]
    longest = max(max(found) for found in drawn.values())
    notes = ["Dashed: mean (tau). That of ar is 1."]
    notes += [f"No steps of {', '.join(without)}."] if without else []
    taus = {lane: sum(n * found[n] for n in found) / found.total() for lane, found in drawn.items()}
    canvas = style.canvas(
        [
            (lane, f"tau {taus[lane]:.2f}, {numbers.count(found.total())} steps")
            for lane, found in drawn.items()
        ],
        SMALL,
        across=HISTOGRAMS_ACROSS,
        footer=notes,
        label="tokens a step delivers",
        sharex=True,
        sharey=True,
    )
    for (axes,), (lane, found) in zip(canvas.panels, drawn.items(), strict=False):
        lengths = sorted(found)
        shares = [100 * found[length] / found.total() for length in lengths]
        axes.bar(lengths, shares, color=style.COLOURS[0], label=lane)
        axes.axvline(
            taus[lane], color=style.BLACK, linestyle=style.DASHED, linewidth=1, label="tau"
        )
        axes.set_xticks(_whole(longest, canvas.inches))
        axes.tick_params(labelbottom=True)
        axes.grid(axis="y")
    canvas.figure.supylabel("steps (%)")
    return canvas.figure


def _steps(records: Iterable[Record]) -> Counter[int]:
    """How many steps delivered 1, 2, ... tokens."""
    return Counter(n for r in records for n in (r.get("step_tokens") or [])[1:] if n > 0)
