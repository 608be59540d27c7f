"""`mars tasks`: what can be evaluated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mars_cli.errors import UsageError

if TYPE_CHECKING:
    from mars_cli.evaluation.catalog import Entry


@click.command("tasks")
@click.argument("pattern", required=False)
def command(pattern: str | None) -> None:
    """List our tasks; with a PATTERN those of lm-eval too, whose names hold or match it.

    A pattern is part of a name, such as gsm8k, or a glob, such as 'wmt*-de'. Any name in the list
    can be given to --tasks. Nothing is downloaded: a number of documents that is not known without
    is left out.
    """
    from mars_cli.evaluation.catalog import matching, ours

    entries = ours()
    if pattern is None:
        _show(entries)
        click.echo("`mars tasks PATTERN` finds lm-eval's own, such as gsm8k or ifeval.")
        return
    names = matching((entry.name for entry in entries), pattern)
    entries = [entry for entry in entries if entry.name in names]
    theirs, others = _of_lm_eval(pattern)
    if not (entries or theirs or others):
        raise UsageError(
            f"{pattern}: no task's name matches", hint="a part of a name, or a glob such as 'wmt*'"
        )
    _show(entries + theirs)
    if others:
        click.echo(f"{others} more match, but score likelihoods, which a rule does not change.")
    if any(entry.runs_code for entry in theirs):
        click.echo(
            "lm-eval's tasks that run code do so outside a sandbox and are refused: use ours."
        )


def _of_lm_eval(pattern: str) -> tuple[list[Entry], int]:
    from importlib.util import find_spec

    from mars_cli.evaluation.catalog import of_lm_eval

    if find_spec("lm_eval") is None:
        click.echo("lm-eval is not installed here: only our own tasks are searched", err=True)
        return [], 0
    click.echo("reading lm-eval's task definitions (about 10 s)", err=True)
    return of_lm_eval(pattern)


def _show(entries: list[Entry]) -> None:
    from rich.console import Console
    from rich.table import Table

    from mars_cli.report.numbers import NULL

    def cell(value: object) -> str:
        if isinstance(value, bool):
            return "yes" if value else "no"
        return NULL if value is None else str(value)

    console = Console()
    table = Table("task", "n", "metric", "offline", "code", "data", box=None, pad_edge=False)
    table.columns[1].justify = "right"
    for column in table.columns:
        column.overflow = "fold"  # a name or a reference cut short is of no use
    for entry in entries:
        if not entry.members:
            shown = (
                *(entry.name, entry.documents, entry.metric),
                *(entry.offline, entry.runs_code, entry.data),
            )
            table.add_row(*map(cell, shown))
    if table.rows:
        console.print(table, highlight=False, markup=False)
    for entry in entries:
        if entry.members:
            text = f"{entry.name} = {', '.join(entry.members)}"
            console.print(text, highlight=False, markup=False)
