"""`mars eval`: autoregressive, strict and MARS decoding of real tasks, side by side."""

from __future__ import annotations

import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mars_cli.commands import options as shared
from mars_cli.commands.evaluation import evaluation_options, temperature

if TYPE_CHECKING:
    from mars_cli.evaluation.progress import Progress

FAILED = 3
INTERRUPTED = 130


@click.command("eval")
@shared.model
@shared.theta
@shared.rule
@shared.k
@shared.draft
@temperature
@evaluation_options
@click.option("--out", metavar="DIR", help="Run directory; the same again resumes it.")
@click.option(
    "--baseline",
    metavar="RUN",
    help="An earlier run directory to take the answers of `ar`, and of the same strict lane, from.",
)
@click.option("--json", "as_json", is_flag=True, help="Print results.json instead of the table.")
def command(**options: Any) -> None:
    """Decode tasks autoregressively, with strict speculation and with MARS; compare the three.

    Without arguments: the embedded model on a few documents of each offline task.
    """
    from mars_cli.commands.progress import on_stderr

    progress = on_stderr()
    out = _run_folder(options)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        status, results = _evaluate(options, out, progress)
    except KeyboardInterrupt:
        begun = (out / "manifest.json").exists()
        click.echo(
            "interrupted: " + ("what was recorded is saved" if begun else "nothing had begun"),
            err=True,
        )
        if begun:
            click.echo(f"resume with: {resume_command(out)}", err=True)
        sys.exit(INTERRUPTED)
    _show(results, out, as_json=options["as_json"])
    if status != "complete":
        sys.exit(FAILED)


def _evaluate(options: dict[str, Any], out: Path, progress: Progress) -> tuple[str, dict[str, Any]]:
    """Check everything, then run; nothing is written before all checks have passed."""
    shared.require_engine()
    shared.quiet()
    options["rules"] = shared.rules_of(options["theta"], options["rule"])
    from mars_cli.engine.process import begin

    begin()  # vLLM's import takes as long as all checks together
    from mars_cli.evaluation.evaluate import evaluate
    from mars_cli.evaluation.plan import prepare
    from mars_cli.runs.run import Run

    job, plan, facts = prepare(options, out, progress)
    with Run(out, plan, facts) as run:
        results = evaluate(job, run, progress)
        return run.manifest["status"], results


def _run_folder(options: dict[str, Any]) -> Path:
    if options["out"] is not None:
        return Path(options["out"])
    from mars_cli.runs.run import new_run_id

    name = Path(options["model"]).name
    for ending in (".yaml", ".yml", ".gguf"):
        name = name.removesuffix(ending)
    return Path("outputs") / new_run_id(name)


def resume_command(out: Path) -> str:
    """This very command, with --out."""
    arguments = sys.argv[1:]
    if not any(a == "--out" or a.startswith("--out=") for a in arguments):
        arguments += ["--out", str(out)]
    return shlex.join(["mars", *arguments])


def _show(results: dict[str, Any], out: Path, *, as_json: bool) -> None:
    if as_json:
        click.echo((out / "results.json").read_text(encoding="utf-8"), nl=False)
        return
    from rich.console import Console

    from mars_cli.report.table import summary_table

    console = Console()
    width = min(console.width, 100) if console.is_terminal else 100
    console = Console(width=width)
    console.print(summary_table(results, width))
    console.print(f"{out}/results.json  {out}/report.md", highlight=False, soft_wrap=True)
