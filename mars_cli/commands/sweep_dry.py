"""`mars sweep --dry-run`: the groups, their cells and commands, and what they would generate."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import click

from mars_cli.commands.progress import clock
from mars_cli.evaluation.sweep import Sweep
from mars_cli.report.numbers import count

LANES_BESIDE = 2  # ar and strict


def describe(sweep: Sweep, options: dict[str, Any]) -> None:
    """Print it; nothing is loaded but the tasks' documents."""
    from mars_cli.config import load_model
    from mars_cli.evaluation.plan import configure, task_lengths

    config = configure(load_model(options["model"]), {**options, "k": None, "draft": ()})
    lengths = task_lengths(options, config)
    rules = len(sweep.groups[0].rules) // 2
    lanes = LANES_BESIDE + rules
    cells = len(sweep.groups) * (lanes - 1) * len(lengths)
    click.echo(f"{len(sweep.groups)} engine groups, {lanes} lanes each, {cells} cells:")
    for group in sweep.groups:
        arguments = [*group.arguments, *group.rules, "--out", str(sweep.of(group))]
        click.echo(f"  {group.id}: engines ar and {group.id}")
        click.echo(f"    mars eval {shlex.join(arguments)}")
    defaults = config.defaults
    answers = timed = 0
    for documents, tokens in lengths.values():
        answers += documents * tokens * (len(sweep.groups) * (lanes - 1) + 1)
        prompts = min(documents, defaults.speed_prompts) * defaults.repeats
        timed += prompts * tokens * len(sweep.groups) * (lanes + 1) * len(defaults.concurrency)
    click.echo(f"at most {count(answers)} tokens of answers, {count(timed)} tokens timed")
    speed = _known_speed(config.name)
    if speed is None:
        click.echo("no estimate of time: no earlier run of this model under outputs/")
        return
    run, rate = speed
    click.echo(
        f"at the {rate:.1f} tok/s that ar reached in {run}, the timed part takes at most "
        f"{clock(timed / rate)}; answers come in batches, and faster"
    )


def _known_speed(model: str) -> tuple[str, float] | None:
    """The latest run of this model and how fast `ar` was in it, one request at a time."""
    for path in sorted(Path("outputs").glob("*/results.json"), reverse=True):
        try:
            results = json.loads(path.read_text(encoding="utf-8"))
            if results["model"]["name"] != model:
                continue
            rates = [task["lanes"]["ar"]["tokens_per_s"] for task in results["tasks"].values()]
            known = [rate for rate in rates if rate]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if known:
            return path.parent.name, sum(known) / len(known)
    return None
