"""The command line: a click group whose commands import what is heavy only when they run."""

from __future__ import annotations

import importlib
import os
import sys

import click

from mars_cli import __version__
from mars_cli.errors import MarsError

COMMANDS = ("doctor", "eval", "models", "report", "serve", "sweep", "tasks", "trace")
INTERRUPTED = 130


class LazyGroup(click.Group):
    """Finds each command in `mars_cli.commands.<name>` when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, by name."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, None when there is none."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"mars_cli.commands.{cmd_name}")
        command: click.Command = module.command
        return command


@click.group(
    cls=LazyGroup,
    context_settings={
        "auto_envvar_prefix": "MARS",
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
    },
)
@click.version_option(__version__, prog_name="mars")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def mars(debug: bool) -> None:
    """May I relax speculative decoding on my model, and what does it buy?

    Exit codes: 0 done; 2 wrong use or configuration; 3 some of it failed (the rest is saved);
    130 interrupted (what was recorded is saved).
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit; errors are one line and a hint, on stderr."""
    try:
        code = mars.main(args=arguments, prog_name="mars", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        code = error.exit_code
    except click.UsageError as error:
        where = f"mars {error.ctx.info_name}" if error.ctx and error.ctx.parent else "mars"
        _show(error.format_message(), f"see `{where} --help`")
        code = 2
    except click.exceptions.Exit as error:
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except MarsError as error:
        if "--debug" in (arguments or sys.argv) or os.environ.get("MARS_DEBUG"):
            raise
        _show(str(error), error.hint)
        code = error.exit_code
    sys.exit(code if isinstance(code, int) else 0)


def _show(message: str, hint: str | None) -> None:
    click.echo(f"error: {message}", err=True)
    if hint:
        click.echo(f"hint: {hint}", err=True)


if __name__ == "__main__":
    main()
