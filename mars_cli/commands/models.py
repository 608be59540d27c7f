"""`mars models`: what is configured."""

from __future__ import annotations

import click


@click.command("models")
def command() -> None:
    """List the models that come with mars, their drafts and where their weights come from."""
    from rich.console import Console
    from rich.table import Table

    from mars_cli.assets import describe
    from mars_cli.config import configured_models, load_model

    table = Table("model", "drafts (default first)", "K", "dtype", "cached", "weights")
    table.box = None
    table.columns[-1].overflow = "fold"  # a reference cut short is of no use
    for name in configured_models():
        config = load_model(name)
        cached = describe(config.weights, sha256=config.sha256)["cached"]
        drafts = ", ".join(config.drafts)
        table.add_row(name, drafts, str(config.k), config.dtype, cached, config.weights)
    Console(soft_wrap=False).print(table)
