"""`mars models`: what is configured."""

from __future__ import annotations

import click


@click.command("models")
def command() -> None:
    """List the models that come with mars, their drafts and where their weights come from."""
    from rich.console import Console
    from rich.table import Table

    from mars_cli.config import configured_models, load_model

    table = Table("model", "drafts (the first is the default)", "K", "dtype", "weights")
    table.box = None
    for name in configured_models():
        config = load_model(name)
        table.add_row(name, ", ".join(config.drafts), str(config.k), config.dtype, config.weights)
    Console(soft_wrap=False).print(table)
