"""`mars trace`: what the target thought of every draft that was verified."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mars_cli.commands import options as shared
from mars_cli.commands.eval import INTERRUPTED, resume_command
from mars_cli.commands.evaluation import document_options, temperature

if TYPE_CHECKING:
    from mars_cli.evaluation.progress import Progress


@click.command("trace")
@shared.model
@shared.theta
@shared.rule
@shared.k
@shared.draft
@temperature
@document_options
@click.option("--out", metavar="DIR", help="Run directory; the same again resumes it.")
@click.option("--json", "as_json", is_flag=True, help="Print trace.json instead of the table.")
def command(**options: Any) -> None:
    """Record z1, z2, p1, p2, r and the draft's rank at every verified position.

    The strict lane and one for each rule answer the tasks. Positions are kept as Parquet under
    records/trace/, sums of them in trace.json, and figures/ shows r against p2/p1 and what strict
    verification rejects. Nothing is timed or scored. Of conversations the first turn is traced.
    """
    from mars_cli.commands.progress import on_stderr

    progress = on_stderr()
    out = _folder(options)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        found = _trace(options, out, progress)
    except KeyboardInterrupt:
        click.echo("interrupted: whole parts are saved", err=True)
        click.echo(f"resume with: {resume_command(out)}", err=True)
        sys.exit(INTERRUPTED)
    _show(found, out, as_json=options["as_json"])


def _trace(options: dict[str, Any], out: Path, progress: Progress) -> dict[str, Any]:
    shared.require_engine()
    shared.quiet()
    options["rules"] = shared.rules_of(options["theta"], options["rule"])
    from mars_cli.engine.process import begin

    begin()  # vLLM's import takes as long as all checks together
    from mars_cli.evaluation.plan import prepare
    from mars_cli.evaluation.trace import run_trace
    from mars_cli.runs.layout import TRACE
    from mars_cli.runs.run import Run

    nothing_else = {
        "drafted_only": True,  # `ar` verifies nothing
        "speed_prompts": 0,
        "repeats": None,
        "concurrency": None,
        "sequential": True,
        "allow_code_execution": False,
        "fidelity": False,
        "cell_timeout": None,
        "baseline": None,
    }
    job, plan, facts = prepare({**options, **nothing_else}, out, progress, command=TRACE)
    with Run(out, plan, facts) as run:
        return run_trace(job, run, progress)


def _folder(options: dict[str, Any]) -> Path:
    if options["out"] is not None:
        return Path(options["out"])
    from mars_cli.runs.run import new_run_id

    return Path("outputs") / new_run_id(f"trace-{Path(options['model']).stem}")


def _show(found: dict[str, Any], out: Path, *, as_json: bool) -> None:
    from mars_cli.report.figures import write_trace_figures

    write_trace_figures(found, out / "figures", say=lambda line: click.echo(line, err=True))
    if as_json:
        click.echo((out / "trace.json").read_text(encoding="utf-8"), nl=False)
        return
    from rich.console import Console

    from mars_cli.report.terminal import terminal
    from mars_cli.report.trace import blocks

    console = Console()
    width = min(console.width, 100) if console.is_terminal else 100
    Console(width=width).print(terminal(blocks(found), width))
    click.echo(f"{out}/trace.json  {out}/figures/  {out}/records/trace/")
