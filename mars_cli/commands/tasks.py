"""`mars tasks`: what can be evaluated."""

from __future__ import annotations

import click


@click.command("tasks")
def command() -> None:
    """List our tasks. Any other name means the task of that name in lm-eval."""
    import yaml
    from rich.console import Console
    from rich.table import Table

    from mars_cli.resources import tasks_dir

    class Loader(yaml.SafeLoader):
        """YAML in which lm-eval's `!function` is only a name."""

    Loader.add_constructor("!function", lambda loader, node: str(node.value))
    table = Table("task", "metric", "offline", "runs code", "data")
    table.box = None
    table.columns[-1].overflow = "fold"  # a reference cut short is of no use
    for path in sorted(tasks_dir().glob("mars_*.yaml")):
        config = yaml.load(path.read_text(encoding="utf-8"), Loader)
        facts = config["metadata"]
        table.add_row(
            config["task"],
            config["metric_list"][0]["metric"],
            "yes" if facts["offline"] else "no",
            "yes" if facts["runs_code"] else "no",
            str(facts["data"]),
        )
    console = Console()
    console.print(table)
    console.print("Any other name is lm-eval's own task, such as gsm8k or ifeval.", highlight=False)
