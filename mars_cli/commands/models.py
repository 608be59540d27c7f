"""`mars models`: what is configured, what it needs, and whether this machine has it."""

from __future__ import annotations

import json
from typing import Any

import click


@click.command("models")
@click.argument("model", required=False, metavar="[NAME|ID|PATH|YAML]")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def command(model: str | None, as_json: bool) -> None:
    """List the models that come with mars, or tell all about one.

    Memory is what each GPU needs for the target and its first draft: weights, and 3 GiB an engine
    for its cache, activations and graphs.
    """
    from mars_cli.config import configured_models, load_model
    from mars_cli.engine.fit import described
    from mars_cli.machine import machine

    here = machine()
    names = list(configured_models()) if model is None else [model]
    found = [described(load_model(name), here) for name in names]
    if as_json:
        click.echo(json.dumps(found if model is None else found[0], indent=2))
    elif model is None:
        _table(found)
    else:
        _details(found[0])


def _table(found: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("model", "drafts (default first)", "K", "dtype", "GPUs", "weights", "cached")
    table.add_column("runs here")
    table.box = None
    for one in found:
        first = next(iter(one["drafts"].values()))
        size = one["weights_gib"]
        table.add_row(
            one["name"],
            ", ".join(one["drafts"]),
            str(first["k"]),
            one["dtype"],
            str(one["gpus"]),
            "?" if size is None else f"{size:.1f} GiB",
            "yes" if one["cached"] else "no",
            one["here"]["runs"] or "no",
        )
    console = Console()
    Console(width=console.width if console.is_terminal else 110).print(table)


def _details(one: dict[str, Any]) -> None:
    def line(name: str, value: Any) -> None:
        click.echo(f"{name:<14}{value}")

    line("model", one["name"])
    line("weights", f"{one['weights']} ({_cached(one['cached'])})")
    line("licence", one["license"] or "not given")
    if one["parameters"] is not None:
        line("parameters", f"{one['parameters']:g} billion, {one['dtype']}")
    else:
        line("dtype", one["dtype"])
    line("context", f"{one['max_model_len'] or 'its own'}{' tokens' * bool(one['max_model_len'])}")
    settings = one["chat_template_kwargs"]
    line("chat template", f"{one['chat_template']}{f', {settings}' if settings else ''}")
    for n, (name, draft) in enumerate(one["drafts"].items()):
        model = f" {draft['model']}" if "model" in draft else ""
        cached = "" if draft["cached"] is None else f" ({_cached(draft['cached'])})"
        options = {k: v for k, v in draft.items() if k not in ("method", "model", "k", "cached")}
        more = "".join(f", {key}={value}" for key, value in options.items())
        line(
            "" if n else "drafts", f"{name}: {draft['method']}{model}{cached}, K {draft['k']}{more}"
        )
    if one["engine"]:
        line("engine", ", ".join(f"{key}={value}" for key, value in one["engine"].items()))
    if one["memory_gib"] is not None:
        line("memory", "on each GPU, with engines side by side, or one at a time")
        for count, sizes in one["memory_gib"].items():
            two, alone = sizes["side_by_side"], sizes["one_at_a_time"]
            mark = "  (as configured)" if int(count) == one["gpus"] else ""
            gpus = "GPU " if count == "1" else "GPUs"
            line("", f"{count:>2} {gpus}  {two:7.1f} GiB  {alone:7.1f} GiB{mark}")
    line("runs here", one["here"]["words"])
    if one["here"]["hint"]:
        line("", one["here"]["hint"])


def _cached(cached: bool) -> str:
    return "cached" if cached else "not cached"
