"""`mars sweep`: a grid of thetas, rules, K, drafts and temperatures, to a recommendation."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mars_cli.commands import options as shared
from mars_cli.commands.evaluation import evaluation_options
from mars_cli.errors import UsageError

if TYPE_CHECKING:
    from mars_cli.evaluation.grid import Group
    from mars_cli.evaluation.sweep import Sweep

FAILED = 3
INTERRUPTED = 130
DEFAULT_THETAS = ("0.84:0.96:0.02",)
# Options that say which groups there are, and those that are the sweep's own: not a group's.
_GRID = ("theta", "rule", "k", "draft", "temperature")
_NOT_IN_FILES = ("config", "out", "resume", "dry_run", "as_json")
_OWN = ("model", "config", "out", "resume", "dry_run", "min_recovery", "gpus", "confirm", "as_json")


@click.command("sweep")
@click.argument("config", required=False, metavar="[NAME|FILE.yaml]")
@shared.model
@click.option(
    "--theta",
    multiple=True,
    metavar="A:B:STEP",
    help="Thetas: a range, or numbers between commas.  [default: 0.84:0.96:0.02]",
)
@click.option(
    "--rule", multiple=True, metavar="NAME:KEY=VALUE,..", help="Another rule; repeat for several."
)
@click.option("--k", multiple=True, metavar="N,N", help="Draft tokens a step.  [default: 7]")
@click.option("--draft", multiple=True, metavar="A,B", help="Drafts, as `mars eval` takes them.")
@click.option("--temperature", multiple=True, metavar="T,T", help="Temperatures, each apart.")
@evaluation_options
@click.option(
    "--min-recovery",
    type=float,
    default=98.0,
    show_default=True,
    help="What the recovery of the recommended setting must stay above, in %.",
)
@click.option("--gpus", metavar="N,N,..", help="GPUs to spread engine groups over.")
@click.option(
    "--confirm", is_flag=True, help="Measure the recommended setting anew on the documents after."
)
@click.option("--dry-run", is_flag=True, help="Print what would be run, and end.")
@click.option("--out", metavar="DIR", help="The sweep's directory; the same again resumes it.")
@click.option("--resume", metavar="DIR", help="Go on with the sweep in this directory.")
@click.option("--json", "as_json", is_flag=True, help="Print sweep.json instead of the table.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Measure a grid of settings, and recommend the fastest that is safe.

    A YAML file may hold any of these options; the command line overrides it. Those that come with
    mars (configs/sweeps/) are called by name: paper-theta, paper-k, demo.
    """
    if options["resume"] is not None:
        _resume(options)
        return
    if options["config"] is not None:
        options |= _from_file(ctx, _file(options["config"]))
    out = _folder(options)
    _run(options, out)


def _resume(options: dict[str, Any]) -> None:
    from mars_cli.evaluation.sweep import open_sweep

    folder = Path(options["resume"])
    found = open_sweep(folder)
    context = command.make_context("sweep", list(found["plan"]["arguments"]))
    again = {**context.params, **{key: options[key] for key in ("as_json", "gpus", "dry_run")}}
    if again["config"] is not None:
        again |= _from_file(context, _file(again["config"]))
    _run(again, folder)


def _file(given: str) -> Path:
    """The file, or the one of that name that comes with mars."""
    from mars_cli.resources import configs_dir

    known = {path.stem: path for path in sorted((configs_dir() / "sweeps").glob("*.yaml"))}
    path = Path(given)
    if given in known and not path.exists():
        return known[given]
    if not path.exists() and path.suffix not in (".yaml", ".yml"):
        raise UsageError(
            f"{given}: neither a file nor a sweep that comes with mars",
            hint=f"one of {', '.join(known)}, or a YAML file of options",
        )
    return path


def _from_file(ctx: click.Context, path: Path) -> dict[str, Any]:
    """The file's options that the command line or the environment does not give."""
    import yaml

    try:
        given = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read ({error.strerror})", hint="see configs/sweeps for examples"
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise UsageError(
            f"{path}: not valid YAML", hint="see configs/sweeps for examples"
        ) from None
    if not isinstance(given, dict):
        raise UsageError(f"{path}: expected a mapping of options, such as theta and k")
    options = {param.name: param for param in command.params}
    arguments: list[str] = []
    chosen = []
    for key, value in given.items():
        name = str(key).replace("-", "_")
        option = options.get(name)
        if not isinstance(option, click.Option) or name in _NOT_IN_FILES:
            known = ", ".join(sorted(n for n in options if n and n not in _NOT_IN_FILES))
            raise UsageError(f"{path}: key {key}: is no option of a sweep", hint=f"one of {known}")
        source = ctx.get_parameter_source(name)
        if source is click.core.ParameterSource.DEFAULT:
            arguments += _arguments(option, value, path)
            chosen.append(name)
    try:
        parsed = command.make_context("sweep", arguments)
    except (click.UsageError, UsageError) as error:
        message = error.format_message() if isinstance(error, click.UsageError) else str(error)
        raise UsageError(f"{path}: {message}", hint="see configs/sweeps for examples") from None
    return {name: parsed.params[name] for name in chosen}


def _arguments(option: click.Option, value: Any, path: Path) -> Iterator[str]:
    """An option with a value of YAML, as it would be typed."""
    flag = option.opts[-1]
    if value is None:
        return
    if option.is_flag:
        if not isinstance(value, bool):
            raise UsageError(f"{path}: key {option.name}: expected true or false")
        negative = option.secondary_opts
        if value or negative:
            yield flag if value else negative[-1]
    elif isinstance(value, list):
        texts = [str(one) for one in value]
        for text in texts if option.multiple else [",".join(texts)]:
            yield from (flag, text)
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from (flag, f"{key}={one}")
    else:
        yield from (flag, str(value))


def _run(options: dict[str, Any], out: Path) -> None:
    from mars_cli.commands.progress import on_stderr
    from mars_cli.commands.sweep_progress import watching
    from mars_cli.config import load_model
    from mars_cli.evaluation.sweep import Sweep, run_sweep
    from mars_cli.runs.run import now

    shared.require_engine()
    shared.quiet()
    groups = _groups(options)
    load_model(options["model"]).with_drafts(_drafts(options))  # refuses what is none
    plan = {
        "model": options["model"],
        "arguments": _typed(options),
        "min_recovery": options["min_recovery"],
        "groups": [{"id": group.id, "arguments": list(group.arguments)} for group in groups],
    }
    sweep = Sweep(out, plan, now(), groups, _slots(options))
    if options["dry_run"]:
        from mars_cli.commands.sweep_dry import describe

        describe(sweep, options)
        return
    _open(sweep)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    note = on_stderr().note
    note(f"mars sweep {options['model']}: {len(groups)} engine groups -> {out}")
    sweep.write()
    try:
        with watching(sweep) as watch:
            found = run_sweep(sweep, watch)
        if options["confirm"]:
            found = _confirm(sweep, options, found, note)
    except KeyboardInterrupt:
        click.echo("interrupted: what was recorded is saved", err=True)
        click.echo(f"resume with: mars sweep --resume {shlex.quote(str(out))}", err=True)
        sys.exit(INTERRUPTED)
    _show(sweep, found, as_json=options["as_json"])
    if found["run"]["status"] != "complete":
        sys.exit(FAILED)


def _open(sweep: Sweep) -> None:
    """Take up the sweep in the folder, if it is this one.

    Raises:
        UsageError: the folder holds something else.
    """
    from mars_cli.evaluation.sweep import open_sweep

    folder = sweep.folder
    if (folder / "sweep.json").exists():
        found = open_sweep(folder)
        differing = [key for key, value in sweep.plan.items() if found["plan"].get(key) != value]
        if differing:
            raise UsageError(
                f"--out {folder}: holds another sweep ({', '.join(differing)} differ)",
                hint="give a new folder, or --resume it as it is",
            )
        sweep.created = found["run"]["created"]
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            f"--out {folder}: is not empty and holds no sweep", hint="give a new folder"
        )


def _groups(options: dict[str, Any]) -> list[Group]:
    from mars_cli.evaluation.grid import groups, values, whole_values

    rules = [("--rule", text) for text in options["rule"]]
    thetas = options["theta"] or (() if rules else DEFAULT_THETAS)
    rules = [("--theta", repr(theta)) for theta in values("--theta", thetas)] + rules
    shared.rules_of(
        tuple(float(text) for option, text in rules if option == "--theta"),
        tuple(text for option, text in rules if option == "--rule"),
    )
    return groups(
        drafts=_drafts(options) or [None],
        ks=whole_values("--k", options["k"]) or [None],
        temperatures=values("--temperature", options["temperature"]) or [None],
        rules=rules,
        common=["--model", options["model"], *_common(options)],
    )


def _drafts(options: dict[str, Any]) -> list[str]:
    return [name.strip() for text in options["draft"] for name in text.split(",")]


def _common(options: dict[str, Any]) -> list[str]:
    """The options that every group gets, as they would be typed."""
    found: list[str] = []
    for param in command.params:
        if param.name in (*_GRID, *_OWN) or not isinstance(param, click.Option):
            continue
        value = options[str(param.name)]
        if isinstance(value, dict):
            for key, one in value.items():
                found += [param.opts[-1], f"{key}={one}"]
        elif isinstance(value, bool):
            found += [param.opts[-1]] if value else list(param.secondary_opts[-1:])
        elif isinstance(value, list | tuple) and not param.multiple:
            found += [param.opts[-1], ",".join(map(str, value))]
        elif isinstance(value, list | tuple):
            for one in value:
                found += [param.opts[-1], str(one)]
        elif value is not None:
            found += [param.opts[-1], str(value)]
    return found


def _typed(options: dict[str, Any]) -> list[str]:
    """The whole grid as options of this command: what `--resume` goes by."""
    found = ["--model", options["model"], *_common(options)]
    for name in _GRID:
        for value in options[name]:
            found += [f"--{name}", str(value)]
    found += ["--min-recovery", repr(options["min_recovery"])]
    return [*found, *(["--confirm"] if options["confirm"] else [])]


def _slots(options: dict[str, Any]) -> list[dict[str, str]]:
    """What groups run on side by side: each so many of `--gpus` as tensor parallelism takes."""
    if options["gpus"] is None:
        return [{}]
    gpus = [part.strip() for part in options["gpus"].split(",")]
    if not all(part.isdecimal() for part in gpus) or len(set(gpus)) != len(gpus):
        raise UsageError(
            f"--gpus {options['gpus']}: must be different numbers of GPUs", hint="such as 0,1,2,3"
        )
    from mars_cli.config import load_model

    engine = {**load_model(options["model"]).engine, **options["engine_arg"]}
    names = ("tensor_parallel_size", "tensor-parallel-size")
    size = int(next((engine[name] for name in names if name in engine), 1))
    if len(gpus) < size:
        raise UsageError(
            f"--gpus {options['gpus']}: an engine of this model takes {size} GPUs",
            hint="name more, or a smaller --engine-arg tensor_parallel_size",
        )
    sets = [gpus[n : n + size] for n in range(0, len(gpus) - size + 1, size)]
    return [{"CUDA_VISIBLE_DEVICES": ",".join(one)} for one in sets]


def _folder(options: dict[str, Any]) -> Path:
    if options["out"] is not None:
        return Path(options["out"])
    from mars_cli.runs.run import new_run_id

    return Path("outputs") / new_run_id(f"sweep-{Path(options['model']).name}")


def _confirm(
    sweep: Sweep, options: dict[str, Any], found: dict[str, Any], note: Any
) -> dict[str, Any]:
    """Measure the recommended setting again, on the documents after those of the sweep."""
    from mars_cli.evaluation.sweep import confirm

    if found["recommended"]["setting"] is None:
        note(f"--confirm: nothing to confirm, {found['recommended']['reason']}")
        return found
    note(f"--confirm: measuring {found['recommended']['setting']} on fresh documents")
    return confirm(sweep, found)


def _show(sweep: Sweep, found: dict[str, Any], *, as_json: bool) -> None:
    from rich.console import Console

    from mars_cli.evaluation.sweep import draw
    from mars_cli.report.sweep import sweep_markdown, sweep_table
    from mars_cli.runs.files import write_atomic

    write_atomic(sweep.folder / "report.md", sweep_markdown(found))
    draw(sweep, found["recommended"]["setting"])
    if as_json:
        click.echo((sweep.folder / "sweep.json").read_text(encoding="utf-8"), nl=False)
        return
    console = Console()
    width = min(console.width, 100) if console.is_terminal else 100
    Console(width=width).print(sweep_table(found, width))
    click.echo(f"{sweep.folder}/sweep.json  {sweep.folder}/report.md  {sweep.folder}/figures/")
