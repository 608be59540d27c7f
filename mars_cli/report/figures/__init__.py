"""Figures of a run or sweep, as PNG for slides and SVG for papers and pages.

Each function here takes plain values (`results.json`, records) and returns a matplotlib `Figure`
without touching a display, a global state or a file. matplotlib is imported only when one is drawn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mars_cli.analysis.metrics import Record
from mars_cli.report.figures.acceptance import acceptance_by_position, acceptance_lengths
from mars_cli.report.figures.forest import recovery, speedup
from mars_cli.report.figures.pareto import pareto
from mars_cli.report.figures.reading import Results
from mars_cli.report.figures.style import NothingToDrawError, save
from mars_cli.report.figures.theta import theta_curves

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "NothingToDrawError",
    "acceptance_by_position",
    "acceptance_lengths",
    "pareto",
    "recovery",
    "save",
    "speedup",
    "theta_curves",
    "write_figures",
    "write_trace_figures",
]

Answers = Mapping[str, Mapping[str, Iterable[Record]]]


def write_figures(
    results: Results,
    folder: Path,
    *,
    answers: Answers | None = None,
    recommended: str | None = None,
    say: Callable[[str], object] = lambda line: None,
) -> list[Path]:
    """Write every figure that the results can support, as PNG (200 dpi) and SVG.

    Args:
        results: as in results.json; a sweep's lanes differ in theta and K.
        folder: made if need be; files of the same names are replaced.
        answers: quality records by task and lane, for the acceptance-length histograms.
        recommended: the id of a lane to mark in the Pareto figures.
        say: told, one line a figure, what was skipped and why.

    Returns:
        The files written: `recovery`, `speedup`, `theta`, `acceptance-position`, and where there
        are tasks `pareto-<task>`, `acceptance-length-<task>`; `pareto-overall` for several tasks.
    """
    return _write(_figures(results, answers or {}, recommended), folder, say)


def write_trace_figures(
    trace: Mapping[str, Any], folder: Path, *, say: Callable[[str], object] = lambda line: None
) -> list[Path]:
    """Write `decoupling` and `margins` of a trace.json, likewise."""
    from mars_cli.report.figures.trace import decoupling, margins

    drawn = {"decoupling": partial(decoupling, trace), "margins": partial(margins, trace)}
    return _write(drawn.items(), folder, say)


def _write(
    figures: Iterable[tuple[str, Callable[[], Figure]]], folder: Path, say: Callable[[str], object]
) -> list[Path]:
    written: list[Path] = []
    for name, draw in figures:
        try:
            figure = draw()
        except NothingToDrawError as why:
            say(f"figure {name}: skipped. {why}")
        else:
            written += save(figure, folder / name)
    return written


def _figures(
    results: Results, answers: Answers, recommended: str | None
) -> Iterator[tuple[str, Callable[[], Figure]]]:
    yield "recovery", partial(recovery, results)
    yield "speedup", partial(speedup, results)
    yield "theta", partial(theta_curves, results)
    yield "acceptance-position", partial(acceptance_by_position, results)
    tasks = list(results["tasks"])
    if len(tasks) > 1:
        yield "pareto-overall", partial(pareto, results, None, recommended)
    for task, name in _file_names(tasks).items():
        yield f"pareto-{name}", partial(pareto, results, task, recommended)
    for task, name in _file_names(answers).items():
        yield f"acceptance-length-{name}", partial(acceptance_lengths, answers[task])


def _file_names(tasks: Iterable[str]) -> dict[str, str]:
    """A name for files of each task: letters, digits, dots, hyphens; no two alike."""
    names: dict[str, str] = {}
    for task in tasks:
        plain = re.sub(r"[^\w.-]+", "-", task, flags=re.ASCII).strip(".-")[:80] or "task"
        taken = {*names.values(), "overall"}
        numbered = (f"{plain}-{n}" for n in range(2, len(names) + 4))
        names[task] = plain if plain not in taken else next(n for n in numbered if n not in taken)
    return names
