"""`mars eval`: autoregressive, strict and MARS decoding of real tasks, side by side."""

from __future__ import annotations

import dataclasses
import logging
import math
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mars_cli import __version__
from mars_cli.commands import options as shared
from mars_cli.errors import UsageError

if TYPE_CHECKING:
    from mars_cli.config import ModelConfig
    from mars_cli.evaluation.evaluate import Job
    from mars_cli.evaluation.tasks import Task

FAILED = 3
INTERRUPTED = 130


def _finite(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise UsageError(f"--{param.name} {value}: must be a number", hint="such as 0 or 0.7")
    return value


def _pairs(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for value in values:
        key, equals, rest = value.partition("=")
        if not (key and equals and rest):
            raise UsageError(
                f"{param.opts[0]} {value}: expected {param.metavar}", hint="such as a=b"
            )
        pairs[key] = rest
    return pairs


@click.command("eval")
@shared.model
@click.option(
    "--theta",
    type=float,
    multiple=True,
    help="A MARS lane with this theta; repeat for several.  [default: 0.9, unless --rule is given]",
)
@click.option(
    "--rule",
    multiple=True,
    metavar="NAME:KEY=VALUE,..",
    help="A lane with this rule: mars, prob-ratio, typical, topk-delta, topk; repeat for several.",
)
@shared.k
@shared.draft
@click.option("--tasks", metavar="A,B", help="Ours (`mars tasks`) or lm-eval's, by name.")
@click.option("--limit", type=click.IntRange(min=1), help="Documents of each task.")
@click.option(
    "--samples",
    type=click.IntRange(min=1),
    help="Answers to each document, each scored on its own.  [default: the task's]",
)
@click.option(
    "--speed-prompts", type=click.IntRange(min=0), help="Prompts of each task to time; 0 for none."
)
@click.option("--repeats", type=click.IntRange(min=1), help="How often each prompt is timed.")
@click.option(
    "--concurrency", type=click.IntRange(min=1), help="Requests in flight in the quality phase."
)
@click.option("--max-tokens", type=click.IntRange(min=1), help="Overrides the tasks' own limits.")
@click.option(
    "--temperature",
    type=click.FloatRange(min=0),
    callback=_finite,
    help="Overrides the tasks' own temperature.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    help="Of sampling; each request's own follows from it, the same in every lane.",
)
@click.option("--dtype", type=click.Choice(["auto", "float32", "bfloat16", "float16"]))
@click.option(
    "--data", multiple=True, callback=_pairs, metavar="TASK=FILE", help="A task's data, locally."
)
@click.option(
    "--include-path", multiple=True, metavar="DIR", help="A folder with your own lm-eval tasks."
)
@click.option(
    "--engine-arg",
    multiple=True,
    callback=_pairs,
    metavar="K=V",
    help="Any of vLLM's EngineArgs, for every engine, such as enforce_eager=false.",
)
@click.option(
    "--allow-code-execution",
    is_flag=True,
    help="Run code from the model to score it, in a sandbox.",
)
@click.option(
    "--fidelity/--no-fidelity",
    default=True,
    show_default=True,
    help="Have the plain target re-score every answer: does each token follow the rule?",
)
@click.option("--out", metavar="DIR", help="Run directory; the same again resumes it.")
@click.option(
    "--baseline",
    metavar="RUN",
    help="An earlier run directory to take the answers of `ar`, and of the same strict lane, from.",
)
@click.option("--json", "as_json", is_flag=True, help="Print results.json instead of the table.")
def command(**options: Any) -> None:
    """Decode tasks autoregressively, with strict speculation and with MARS; compare the three.

    Without arguments: the embedded model on a few documents of each offline task.
    """
    from mars_cli.commands.progress import on_stderr

    progress = on_stderr()
    out = _run_folder(options)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        status, results = _evaluate(options, out, progress)
    except KeyboardInterrupt:
        begun = (out / "manifest.json").exists()
        click.echo(
            "interrupted: " + ("what was recorded is saved" if begun else "nothing had begun"),
            err=True,
        )
        if begun:
            click.echo(f"resume with: {_resume(out)}", err=True)
        sys.exit(INTERRUPTED)
    _show(results, out, as_json=options["as_json"])
    if status != "complete":
        sys.exit(FAILED)


def _quiet() -> None:
    """Keep libraries' chatter off our progress; engines write theirs to their logs."""
    os.environ["TQDM_DISABLE"] = "1"
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    for name in ("lm_eval", "torch", "vllm"):
        logging.getLogger(name).setLevel(logging.ERROR)


def _evaluate(options: dict[str, Any], out: Path, progress: Any) -> tuple[str, dict[str, Any]]:
    """Check everything, then run; nothing is written before all checks have passed."""
    shared.require_engine()
    if (options["samples"] or 1) > 1 and options["temperature"] == 0:
        raise UsageError(
            f"--samples {options['samples']}: all samples of a document would be equal at "
            "--temperature 0",
            hint="--temperature 1",
        )
    _quiet()
    options["rules"] = shared.rules_of(options["theta"], options["rule"])
    from mars_cli.assets import resolve_weights
    from mars_cli.evaluation.baseline import check_plan, open_baseline, settle
    from mars_cli.evaluation.evaluate import evaluate
    from mars_cli.runs.provenance import environment
    from mars_cli.runs.run import Run, check_folder
    from mars_cli.scoring import sandbox

    config = _configure(options)
    given = options["baseline"]
    baseline = None if given is None else open_baseline(Path(given), out)
    plan = {**_plan(options, config), "baseline": None if baseline is None else baseline.id}
    check_folder(out, plan)
    tasks = _tasks(options, plan)
    if baseline is not None:
        check_plan(baseline, plan, [task.name for task in tasks])
    progress.note(f"mars eval {config.name}: {', '.join(plan['lanes'])} -> {out}")
    for line in _overrides(plan):
        progress.note(line)
    with progress.phase("preparing weights", 1) as step:
        weights = resolve_weights(config.weights, sha256=config.sha256)
        step(1)
    job = _job(options, config, plan, tasks, weights)
    plan["fingerprint"] = job.fingerprint
    check_folder(out, plan)
    if baseline is not None:
        baseline = settle(baseline, job, plan)
        job = dataclasses.replace(job, baseline=baseline)
        progress.note(f"answers taken from {baseline.folder}: {', '.join(baseline.taken)}")
    facts = environment()
    if options["allow_code_execution"]:
        facts["sandbox"] = list(sandbox.isolation())
    with Run(out, plan, facts) as run:
        results = evaluate(job, run, progress)
        return run.manifest["status"], results


def _configure(options: dict[str, Any]) -> ModelConfig:
    """The model's configuration with the command line's choices in it."""
    from mars_cli.config import load_model

    config = load_model(options["model"])
    changes = {key: options[key] for key in ("dtype", "k") if options[key] is not None}
    defaults = config.defaults
    given = {
        key: options[key]
        for key in ("limit", "max_tokens", "speed_prompts", "repeats", "concurrency")
        if options[key] is not None
    }
    if options["limit"] is not None:
        given["limits"] = {}
    if options["tasks"] is not None:
        names = [name.strip() for name in options["tasks"].split(",") if name.strip()]
        if not names:
            raise UsageError("--tasks: names no task", hint="such as mars_products,gsm8k")
        given["tasks"] = list(dict.fromkeys(names))
        # A model's own token limit belongs to its demonstration, not to tasks asked for by name.
        given.setdefault("max_tokens", None)
    return config.model_copy(update={**changes, "defaults": defaults.model_copy(update=given)})


def _plan(options: dict[str, Any], config: ModelConfig) -> dict[str, Any]:
    """All that decides what is generated; a run directory takes one plan only."""
    from mars_cli.runs.provenance import engine_version, file_facts

    lanes = _lanes(options, config)
    return {
        "model": config.model_dump(exclude={"defaults"}),
        **config.defaults.model_dump(),
        "lanes": [lane.id for lane in lanes],
        "temperature": options["temperature"],
        "seed": options["seed"],
        "samples": options["samples"],
        "data": {task: file_facts(Path(path)) for task, path in options["data"].items()},
        "include_path": [str(path) for path in options["include_path"]],
        "engine_args": _engine_args(options, config),
        "allow_code_execution": options["allow_code_execution"],
        "vllm": engine_version(),
        "mars": __version__,
    }


def _lanes(options: dict[str, Any], config: ModelConfig) -> list[Any]:
    from mars_cli.engine.lane import plan_lanes

    return plan_lanes(
        config.draft(options["draft"]),
        config.k,
        options["rules"],
        options["temperature"],
        options["seed"],
    )


def _engine_args(options: dict[str, Any], config: ModelConfig) -> dict[str, Any]:
    """The command line's, values as YAML reads them; those of the configuration are checked too."""
    import yaml

    given = {key.replace("-", "_"): yaml.safe_load(v) for key, v in options["engine_arg"].items()}
    for source, arguments in (("--engine-arg", given), ("engine:", config.engine)):
        if arguments:
            _check_engine_args(source, arguments)
    return given


def _check_engine_args(source: str, arguments: dict[str, Any]) -> None:
    from vllm.engine.arg_utils import EngineArgs

    known = {field.name for field in dataclasses.fields(EngineArgs)}
    ours = {"model", "dtype", "speculative_config", "worker_extension_cls", "disable_log_stats"}
    numbers = {"max_model_len", "max_num_seqs", "kv_cache_memory_bytes"}
    for name, value in arguments.items():
        if name not in known:
            raise UsageError(
                f"{source} {name}: vLLM has no such engine argument",
                hint="names are those of vLLM's EngineArgs, such as enforce_eager",
            )
        if name in ours:
            raise UsageError(
                f"{source} {name}: is set by mars itself",
                hint="use --model, --dtype, --draft and --k",
            )
        if name in numbers and (not isinstance(value, int) or value < 1):
            raise UsageError(
                f"{source} {name}={value}: must be a whole number above 0", hint="such as 4096"
            )


def _overrides(plan: dict[str, Any]) -> list[str]:
    """What holds against the tasks' own settings: said, since scores depend on it."""
    differing = [(task, n) for task, n in plan["limits"].items() if task in plan["tasks"]]
    lines = [
        f"{name} = {plan[name]:g} overrides the tasks' own setting"
        for name in ("max_tokens", "temperature", "samples")
        if plan[name] is not None
    ]
    if plan["limit"] is not None:
        others = "".join(f", {n} of {task}" for task, n in differing)
        lines.append(f"the first {plan['limit']} documents of each task{others}")
    return lines


def _tasks(options: dict[str, Any], plan: dict[str, Any]) -> list[Task]:
    from mars_cli.evaluation.tasks import load_tasks
    from mars_cli.scoring import sandbox

    if options["allow_code_execution"]:
        sandbox.allow()
    folders = [Path(path) for path in options["include_path"]]
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"--include-path {folder}: no such folder")
    data = {task: Path(path) for task, path in options["data"].items()}
    tasks = load_tasks(plan["tasks"], include=folders, data=data)
    for task in tasks:
        if task.runs_code and not task.name.startswith("mars_"):
            raise UsageError(
                f"--tasks {task.name}: lm-eval scores it by running code from the model outside "
                "any sandbox",
                hint="mars_humaneval runs code in a sandbox, with --allow-code-execution",
            )
    return tasks


def _job(
    options: dict[str, Any],
    config: ModelConfig,
    plan: dict[str, Any],
    tasks: list[Task],
    weights: str,
) -> Job:
    from transformers import AutoTokenizer

    from mars_cli.engine.setup import engine_specs
    from mars_cli.evaluation.evaluate import Job
    from mars_cli.evaluation.lm import Settings
    from mars_cli.evaluation.quality import prepare_prompts, refuse_equal_samples
    from mars_cli.runs.provenance import fingerprint

    lanes = _lanes(options, config)
    specs = engine_specs(
        config, weights, lanes, concurrency=plan["concurrency"], overrides=plan["engine_args"]
    )
    drafts = [(spec.args["speculative_config"] or {}).get("model") for spec in specs.values()]
    tokenizer = AutoTokenizer.from_pretrained(weights)
    settings = Settings(
        max_model_len=next(iter(specs.values())).args["max_model_len"],
        chat_template=config.chat_template and tokenizer.chat_template is not None,
        chat_template_kwargs=dict(config.chat_template_kwargs),
        max_tokens=plan["max_tokens"],
        temperature=options["temperature"],
    )
    limits = {task.name: plan["limits"].get(task.name, plan["limit"]) for task in tasks}
    samples = plan["samples"]
    prompts = {
        task.name: prepare_prompts(task, tokenizer, settings, limits[task.name], samples)
        for task in tasks
    }
    refuse_equal_samples([one for found in prompts.values() for one in found], samples)
    return Job(
        config=config,
        weights=weights,
        fingerprint=[fingerprint(Path(p)) for p in (weights, *drafts) if p],
        lanes=lanes,
        tasks=tasks,
        specs=specs,
        tokenizer=tokenizer,
        settings=settings,
        prompts=prompts,
        limits=limits,
        speed_prompts=plan["speed_prompts"],
        repeats=plan["repeats"],
        concurrency=plan["concurrency"],
        samples=samples,
        fidelity=options["fidelity"],
    )


def _run_folder(options: dict[str, Any]) -> Path:
    if options["out"] is not None:
        return Path(options["out"])
    from mars_cli.runs.run import new_run_id

    name = Path(options["model"]).name
    for ending in (".yaml", ".yml", ".gguf"):
        name = name.removesuffix(ending)
    return Path("outputs") / new_run_id(name)


def _resume(out: Path) -> str:
    """This very command, with --out."""
    arguments = sys.argv[1:]
    if not any(a == "--out" or a.startswith("--out=") for a in arguments):
        arguments += ["--out", str(out)]
    return shlex.join(["mars", *arguments])


def _show(results: dict[str, Any], out: Path, *, as_json: bool) -> None:
    if as_json:
        click.echo((out / "results.json").read_text(encoding="utf-8"), nl=False)
        return
    from rich.console import Console

    from mars_cli.report.table import summary_table

    console = Console()
    width = min(console.width, 100) if console.is_terminal else 100
    console = Console(width=width)
    console.print(summary_table(results, width))
    console.print(f"{out}/results.json  {out}/report.md", highlight=False, soft_wrap=True)
