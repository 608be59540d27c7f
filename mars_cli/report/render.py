"""A report in each of its formats."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from mars_cli.report.gathered import Gathered

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mars_cli.report.blocks import Block
    from mars_cli.report.sweeps import StoredSweep

SCHEMA = 1


def on_terminal(found: Gathered, width: int, sweeps: Sequence[StoredSweep] = ()) -> RenderableType:
    """The report as tables of `width` columns."""
    from rich.console import Group

    from mars_cli.report.terminal import terminal

    parts = [_runs_on_terminal(found, width)] if found.runs else []
    for sweep in sweeps:
        parts += ["", terminal(sweep.blocks, width)] if parts else [terminal(sweep.blocks, width)]
    return Group(*parts)


def _runs_on_terminal(found: Gathered, width: int) -> RenderableType:
    from rich.console import Group

    from mars_cli.report.single import details, opening
    from mars_cli.report.table import summary_table
    from mars_cli.report.terminal import terminal

    if len(found.runs) > 1:
        return terminal(_several(found), width)
    (run,) = found.runs
    if not run.results["tasks"]:
        return terminal(opening(run), width)
    return Group(
        terminal(opening(run), width),
        "",
        summary_table(run.results, width),
        "",
        terminal(list(details(run)), width),
    )


def as_text(
    found: Gathered,
    form: str,
    gate: dict[str, Any] | None,
    sweeps: Sequence[StoredSweep] = (),
) -> str:
    """The report as Markdown, LaTeX, CSV or JSON; `gate` is what JSON says of conditions.

    In CSV a sweep is the runs of its groups.
    """
    if form == "json":
        return _json(found, sweeps, gate)
    if form == "csv":
        from mars_cli.report.tidy import as_csv, rows

        runs = [*found.runs, *(run for sweep in sweeps for run in sweep.groups)]
        return as_csv(rows(runs, found.pairs, every_level=True))
    swept = [block for sweep in sweeps for block in sweep.blocks]
    if form == "latex":
        from mars_cli.report.latex import latex

        return latex([*_in_latex(found), *swept])
    from mars_cli.report.markdown import blocks_markdown

    texts = [*_in_markdown(found), *([blocks_markdown(swept)] if swept else [])]
    return "\n".join(texts)


def _in_latex(found: Gathered) -> list[Block]:
    from mars_cli.report.single import opening, task_blocks

    if len(found.runs) > 1:
        return _several(found)
    return [block for run in found.runs for block in (*opening(run), *task_blocks(run))]


def _in_markdown(found: Gathered) -> list[str]:
    from mars_cli.report.markdown import blocks_markdown, markdown
    from mars_cli.report.single import opening

    if len(found.runs) > 1:
        return [blocks_markdown(_several(found))]
    return [
        blocks_markdown(opening(run)) if run.counts else markdown(run.results) for run in found.runs
    ]


def _several(found: Gathered) -> list[Block]:
    from mars_cli.report.several import several

    return list(several(found.runs, found.differences, found.pairs, found.base))


def _json(found: Gathered, sweeps: Sequence[StoredSweep], gate: dict[str, Any] | None) -> str:
    """All results as they are; values of differences in the runs' order."""
    report = {
        "schema": SCHEMA,
        "runs": [
            {**run.results, "counts": [asdict(count) for count in run.counts]} for run in found.runs
        ],
        "base": None if found.base is None else found.base.id,
        "differences": [asdict(one) for one in found.differences],
        "paired": [
            {
                **{name: getattr(pair, name) for name in _PAIRED},
                "run": pair.run.id,
                "base": pair.base.id,
            }
            for pair in found.pairs
        ],
        "sweeps": [sweep.found for sweep in sweeps],
        "gate": gate,
    }
    return dumped(report)


_PAIRED = (
    *("task", "lane", "n", "documents", "ratio", "interval", "largest_loss", "p_value"),
    *("p_value_holm", "note"),
)


def dumped(value: dict[str, Any] | Sequence[Any]) -> str:
    """JSON of ASCII only: no character of a stranger's reaches the screen as itself."""
    return json.dumps(value, indent=2, allow_nan=False) + "\n"
