"""`mars doctor`: is everything here that an evaluation needs?"""

from __future__ import annotations

import dataclasses
import json
import sys

import click

from mars_cli.commands import options as shared

PROBLEM = 1
_COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


@click.command("doctor")
@shared.model
@shared.one_draft
@click.option("--json", "as_json", is_flag=True, help="Print the checks as JSON.")
def command(model: str, draft: str | None, as_json: bool) -> None:
    """Check Python, vLLM, the seam, the machine, the hub, caches and the sandbox for a model.

    Nothing is downloaded. Each line is ok, a warning or a problem, with what to do; exit code 1
    when there is a problem.
    """
    from mars_cli.config import load_model
    from mars_cli.doctor import checks
    from mars_cli.engine.probe import probe
    from mars_cli.machine import machine

    config = load_model(model).with_drafts(() if draft is None else (draft,))
    found = []
    for check in checks(config, machine(), probe):
        found.append(check)
        if not as_json:
            mark = click.style(f"{check.status:<8}", fg=_COLOURS[check.status])
            click.echo(f"{mark} {check.name:<10} {check.found}")
            if check.remedy:
                click.echo(f"{'':<20}{check.remedy}")
    ready = all(check.status != "problem" for check in found)
    if as_json:
        listed = [dataclasses.asdict(check) for check in found]
        click.echo(json.dumps({"model": config.name, "ready": ready, "checks": listed}, indent=2))
    if not ready:
        sys.exit(PROBLEM)
