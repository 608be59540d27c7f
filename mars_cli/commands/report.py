"""`mars report`: runs read again, alone or side by side, as tables to read, paste or script."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mars_cli.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mars_cli.report.gathered import Gathered
    from mars_cli.report.sweeps import StoredSweep

GATE_FAILED, NONE_READ, SOME_UNREAD = 1, 2, 3
FORMATS = ("table", "md", "csv", "latex", "json", "html")
ENDINGS = {".md": "md", ".csv": "csv", ".tex": "latex", ".json": "json", ".html": "html"}
WIDEST, UNKNOWN_WIDTH = 140, 100


@click.command("report")
@click.argument("names", nargs=-1, metavar="[RUN]...")
@click.option(
    "--base", metavar="RUN", help="The run that others are held against.  [default: the first]"
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="What to print.  [default: by the ending of --out, else table]",
)
@click.option("--out", metavar="FILE", help="Write there instead of to the screen.")
@click.option("--figures", metavar="DIR", help="Draw what the runs support there, as PNG and SVG.")
@click.option(
    "--fail-if",
    multiple=True,
    metavar="FIGURE<NUMBER",
    help="Exit with 1 where a lane's figure is so: 'recovery<98', 'mars-*:speedup<1.2'; repeat.",
)
@click.option(
    "--on",
    type=click.Choice(["point", "lower"]),
    default="point",
    show_default=True,
    help="What --fail-if looks at: the figure itself, or its interval's worse end.",
)
@click.option("--list", "listed", is_flag=True, help="List the runs there are, newest first.")
@click.option(
    "--runs",
    default="outputs",
    show_default=True,
    metavar="DIR",
    help="Where runs are looked for by name, and listed.",
)
def command(**options: Any) -> None:
    """Show one run in full, or several side by side with paired tests.

    A RUN is a folder, the beginning of a name in --runs, or `latest`; it may be a sweep's, and come
    from another machine. Nothing is written into it. Several runs are held against the first, or
    against --base, where documents and prompts are the same; what makes them less than comparable
    is said first.

    Exit codes: 0 done; 1 a --fail-if came true; 2 wrong use, or no run could be read; 3 some could
    not be read (each has a line on stderr, the rest is reported).
    """
    unread: list[str] = []
    form, out = _form(options), _out(options)
    _check(options, form)
    failed = (_list if options["listed"] else _report)(options, form, out, unread)
    if failed:
        sys.exit(GATE_FAILED)
    if unread:
        sys.exit(SOME_UNREAD)


def _report(options: dict[str, Any], form: str, out: Path | None, unread: list[str]) -> bool:
    """Print the report; returns whether a condition came true."""
    from mars_cli.report.render import as_text, on_terminal
    from mars_cli.report.sweeps import gather_all

    if not options["names"]:
        raise UsageError(
            "no run is named", hint="`mars report latest`, or `mars report --list` for all"
        )
    asked = options["names"], options["base"], Path(options["runs"]), _told(unread)
    found, sweeps = gather_all(*asked)
    _check_sweeps(options, sweeps)
    if not (found.runs or sweeps):
        sys.exit(NONE_READ)
    if options["figures"] is not None:
        _draw(found, Path(options["figures"]))
    gate = _gate(options, found)
    if form == "table":
        _show(on_terminal(found, _width(), sweeps), out)
    elif form == "html":
        from mars_cli.report.html.page import report_page

        _print(report_page(found, sweeps, unread), out)
    else:
        _print(as_text(found, form, gate, sweeps), out)
    for sentence in gate["failed"] if gate else ():
        _say(f"failed: {sentence}")
    return bool(gate and gate["failed"])


def _draw(found: Gathered, folder: Path) -> None:
    """Draw each run's figures, of several runs in a folder of its own."""
    from mars_cli.report.figures import write_figures
    from mars_cli.runs.files import read_records
    from mars_cli.runs.layout import by_lane

    for run in found.runs:
        place = folder / run.folder.name if len(found.runs) > 1 else folder
        lanes = [lane["id"] for lane in run.results["lanes"]]
        answers = {
            task: {lane: read_records(by_lane(run.folder, "quality", task, lane)) for lane in lanes}
            for task in run.results["tasks"]
        }
        drawn = write_figures(run.results, place, answers=answers, say=_say)
        _say(f"{len(drawn)} files in {place}")


def _list(options: dict[str, Any], form: str, out: Path | None, unread: list[str]) -> bool:
    from mars_cli.report.listing import as_rows, entries, listing
    from mars_cli.runs.reading import run_folders

    root = Path(options["runs"])
    if not root.is_dir():
        raise UsageError(f"--runs {root}: no such folder", hint="`mars eval` makes outputs/")
    found = entries(run_folders(root), _told(unread))
    if unread and not found:
        sys.exit(NONE_READ)
    if form == "json":
        from mars_cli.report.render import dumped

        _print(dumped({"schema": 1, "runs": as_rows(found)}), out)
    elif form == "csv":
        from mars_cli.report.tidy import as_csv

        _print(as_csv(as_rows(found), list(as_rows(found)[0]) if found else []), out)
    elif form == "md":
        from mars_cli.report.markdown import blocks_markdown

        _print(blocks_markdown(listing(found, root)), out)
    elif form == "latex":
        from mars_cli.report.latex import latex

        _print(latex(listing(found, root)), out)
    elif form == "html":
        from mars_cli.report.html.page import blocks_page

        _print(blocks_page(listing(found, root)), out)
    else:
        from mars_cli.report.terminal import terminal

        _show(terminal(listing(found, root), _width()), out)
    return False


def _gate(options: dict[str, Any], found: Gathered) -> dict[str, Any] | None:
    """What --fail-if asks for, and what of it came true."""
    if not options["fail_if"]:
        return None
    from mars_cli.report.gate import failures, parse
    from mars_cli.report.tidy import rows

    conditions = [parse(text) for text in options["fail_if"]]
    runs = [(run, list(rows([run], found.pairs))) for run in found.runs]
    failed = list(failures(conditions, runs, options["on"], found.base))
    return {"on": options["on"], "fail_if": list(options["fail_if"]), "failed": failed}


def _check(options: dict[str, Any], form: str) -> None:
    """Refuse options that do not go together, before anything is read."""
    if options["listed"]:
        for name in ("names", "base", "fail_if", "figures"):
            if options[name]:
                option = "RUN" if name == "names" else f"--{name.replace('_', '-')}"
                raise UsageError(f"{option}: has no place beside --list", hint="leave one out")
    if options["fail_if"]:
        from mars_cli.report.gate import parse

        for text in options["fail_if"]:
            parse(text)


def _check_sweeps(options: dict[str, Any], sweeps: list[StoredSweep]) -> None:
    """Refuse beside a sweep what looks at runs alone."""
    for name in ("fail_if", "figures"):
        if sweeps and options[name]:
            raise UsageError(
                f"--{name.replace('_', '-')}: has no place beside a sweep ({sweeps[0].id})",
                hint="name the runs in its folder groups/",
            )


def _form(options: dict[str, Any]) -> str:
    if options["form"] is not None:
        return str(options["form"])
    ending = Path(options["out"] or "").suffix.lower()
    if ending not in ("", ".txt", *ENDINGS):
        raise UsageError(
            f"--out {options['out']}: no format has files that end in {ending}",
            hint=f"one of {', '.join(ENDINGS)}, .txt for the table, or say --format",
        )
    return ENDINGS.get(ending, "table")


def _out(options: dict[str, Any]) -> Path | None:
    """The file to write.

    Raises:
        UsageError: it cannot be one, or is part of a run.
    """
    if options["out"] is None:
        return None
    from mars_cli.runs.layout import DOCUMENTS, MANIFEST, RESULTS

    out = Path(options["out"])
    if out.is_dir() or not out.absolute().parent.is_dir():
        what = "is a folder" if out.is_dir() else "its folder does not exist"
        raise UsageError(f"--out {out}: {what}", hint="give a file, such as report.md")
    if out.name in (MANIFEST, RESULTS, DOCUMENTS) and (out.parent / MANIFEST).exists():
        raise UsageError(f"--out {out}: is part of a run", hint="give another name")
    return out


def _told(unread: list[str]) -> Any:
    def tell(message: str) -> None:
        unread.append(message)
        _say(f"skipped: {message}")

    return tell


def _say(message: str) -> None:
    from mars_cli.report.numbers import printable

    click.echo(printable(message), err=True)


def _width() -> int:
    """Columns of the terminal, or of COLUMNS, at most 140; 100 where there is neither."""
    import shutil

    return min(shutil.get_terminal_size((UNKNOWN_WIDTH, 24)).columns, WIDEST)


def _show(renderable: RenderableType, out: Path | None) -> None:
    """Print with colours where a terminal shows them, else as plain text."""
    import io

    from rich.console import Console

    width = _width()
    if out is None and sys.stdout.isatty():
        Console(width=width).print(renderable)
        return
    console = Console(width=width, file=io.StringIO(), color_system=None, legacy_windows=False)
    console.print(renderable)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    _print("\n".join(line.rstrip() for line in text.split("\n")), out)


def _print(text: str, out: Path | None) -> None:
    if out is not None:
        from mars_cli.runs.files import write_atomic

        write_atomic(out, text)
        return
    encoding = sys.stdout.encoding or "utf-8"
    try:
        click.echo(text.encode(encoding, "replace").decode(encoding), nl=False)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read it has seen enough; Python must not try to write the rest at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
