"""What the page says beyond the other formats' blocks: all lines of a run, its lanes, its facts."""

from __future__ import annotations

from collections.abc import Iterator

from mars_cli.analysis.stored import Stored
from mars_cli.report import numbers
from mars_cli.report.blocks import Block, Heading, Lines, Table
from mars_cli.report.markdown import LANE_FIELDS, flat, parameters
from mars_cli.report.single import MAIN, legend, main_cells
from mars_cli.report.table import (
    category_lines,
    concurrency_lines,
    fidelity_lines,
    noise_line,
    overall_lines,
    pass_lines,
    strict_lines,
    task_notes,
    task_title,
)


def run_blocks(run: Stored) -> Iterator[Block]:
    """A run's tasks, each with its main table and all that is said of it; then the totals."""
    results = run.results
    if results["engine_differences"]:
        yield Lines(tuple(f"beside the draft, {line}" for line in results["engine_differences"]))
    for name, task in results["tasks"].items():
        title, noise = task_title(name, task), results["noise"].get(name)
        yield Heading(name)
        yield Lines((title.removeprefix(f"{numbers.printable(name)} · "),), listed=False)
        rows = tuple(((lane,), *main_cells(found)) for lane, found in task["lanes"].items())
        yield Table(("lane", *MAIN), rows, 1, f"{title}. {legend([run])}")
        more = (*concurrency_lines(task, noise), *category_lines(task), *pass_lines(task))
        yield Lines(
            (
                noise_line(noise),
                *more,
                *strict_lines(task),
                *fidelity_lines(task),
                *task_notes(task),
            )
        )
    if len(results["tasks"]) > 1:
        yield Heading("Overall")
        yield Lines(tuple(overall_lines(results)))
    if results["tasks"]:
        yield Heading("Notes")
        yield Lines(tuple(results["notes"]))
        yield Lines((legend([run]),), listed=False)


def facts(run: Stored) -> Iterator[Block]:
    """The lanes, the model and the environment, as far as they are known."""
    header = ("lane", *LANE_FIELDS, "parameters")
    rows = tuple(
        (
            (lane["id"],),
            *((_plain(lane.get(name)),) for name in LANE_FIELDS),
            (parameters(lane),),
        )
        for lane in run.results["lanes"]
    )
    if rows:
        yield Heading("Lanes", 3)
        yield Table(header, rows, len(header), "The lanes.")
    for title, known in (
        ("Model", run.results["model"]),
        ("Environment", run.results["environment"]),
    ):
        pairs = tuple(((name,), (str(value),)) for name, value in flat(known))
        if pairs:
            yield Heading(title, 3)
            yield Table(("fact", "value"), pairs, 2, f"{title}.")


def _plain(value: object) -> str:
    return numbers.NULL if value is None else str(value)
