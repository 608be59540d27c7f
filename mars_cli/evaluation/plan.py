"""From what was asked for to a job: everything is checked here, and nothing is started.

`options` are those of `mars eval` by name, with `rules` (see `commands.options.rules_of`).
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import yaml

from mars_cli import __version__
from mars_cli.assets import resolve_weights
from mars_cli.config import SPLITS, ModelConfig, load_model
from mars_cli.engine.draft_checks import check_drafts, check_sampling
from mars_cli.engine.lane import Lane, plan_lanes
from mars_cli.engine.setup import engine_specs, files_of, fit_side_by_side
from mars_cli.errors import UsageError
from mars_cli.evaluation.baseline import check_plan, open_baseline, settle
from mars_cli.evaluation.job import Job
from mars_cli.evaluation.lm import DEFAULT_MAX_TOKENS, Settings
from mars_cli.evaluation.progress import Progress
from mars_cli.evaluation.quality import prepare_prompts, refuse_equal_samples
from mars_cli.evaluation.tasks import Task, data_facts, load_tasks, prompt_tasks
from mars_cli.runs.provenance import engine_version, environment, file_facts, fingerprint
from mars_cli.runs.run import check_folder, read_manifest
from mars_cli.scoring import sandbox

DEFAULTS = ("limit", "max_tokens", "speed_prompts", "repeats", "concurrency", "max_num_seqs")


def prepare(
    options: dict[str, Any], out: Path, progress: Progress, command: str = "eval"
) -> tuple[Job, dict[str, Any], dict[str, Any]]:
    """The job, the plan that its run directory `out` keeps, and the facts of this environment.

    Nothing is written, but for weights into the cache. Of a `command` other than `eval` the plan
    says the name.

    Raises:
        UsageError: something asked for cannot be had, or not together.
    """
    if (options["samples"] or 1) > 1 and options["temperature"] == 0:
        raise UsageError(
            f"--samples {options['samples']}: all samples of a document would be equal at "
            "--temperature 0",
            hint="--temperature 1",
        )
    own = load_model(options["model"])
    config = configure(own, options)
    given = options["baseline"]
    baseline = None if given is None else open_baseline(Path(given), out)
    plan = {**make_plan(options, config), "baseline": None if baseline is None else baseline.id}
    if command != "eval":
        plan["command"] = command
    check_folder(out, plan)
    tasks = _tasks(options, plan)
    plan["data"] = data_facts(tasks)
    if baseline is not None:
        check_plan(baseline, plan, [task.name for task in tasks])
    progress.note(f"mars {command} {config.name}: {', '.join(plan['lanes'])} -> {out}")
    for line in [*_fallback(own, options), *_overrides(plan)]:
        progress.note(line)
    with progress.phase("preparing weights", 1) as step:
        check_drafts(config, plan["engine_args"])
        weights = resolve_weights(config.weights, sha256=config.sha256)
        step(1)
    before = read_manifest(out) or {}
    job = make_job(options, config, plan, tasks, weights, before=before)
    if job.sequential and job.speed_prompts > 0:
        progress.note("engines are loaded one at a time; speeds are sequential, not interleaved")
    if (most := max(job.concurrency)) > job.speed_prompts > 0:
        progress.note(f"--concurrency {most}: {job.speed_prompts} prompts at most are in flight")
    plan["fingerprint"] = job.fingerprint
    if before:
        _check_files(out, before["plan"], job)
    check_folder(out, plan)
    if baseline is not None:
        baseline = settle(baseline, job, plan)
        job = dataclasses.replace(job, baseline=baseline)
        progress.note(f"answers taken from {baseline.folder}: {', '.join(baseline.taken)}")
    facts = environment()
    if options["allow_code_execution"]:
        facts["sandbox"] = list(sandbox.isolation())
        progress.note(f"code from the model runs in: {', '.join(facts['sandbox'])}")
    return job, plan, facts


def _check_files(out: Path, begun: dict[str, Any], job: Job) -> None:
    """Refuse to go on with other weights, or another class that drafts, than the run began with.

    `begun` is the plan of that run; the first of its files are the target's.

    Raises:
        UsageError: the files of the model or of a draft have changed.
    """
    files = files_of(job.weights, job.specs)
    known = zip(files, begun.get("fingerprint", []), job.fingerprint, strict=False)
    for number, (path, there, here) in enumerate(known):
        if there != here:
            kept = f", and --baseline {out} takes what ar answered there" if number else ""
            raise UsageError(
                f"--out {out}: {path} has changed since this run began",
                hint=f"give another folder{kept}",
            )


def configure(own: ModelConfig, options: dict[str, Any]) -> ModelConfig:
    """The model's own configuration with the command line's choices in it; all its drafts run."""
    config = own.with_drafts(options["draft"])
    if options["k"] is not None:
        config = config.with_k(options["k"])
    changes = {} if options["dtype"] is None else {"dtype": options["dtype"]}
    defaults = config.defaults
    given = {key: options[key] for key in DEFAULTS if options[key] is not None}
    if options["limit"] is not None:
        given["limits"] = {}
    if options["tasks"] is not None:
        names = [name.strip() for name in options["tasks"].split(",") if name.strip()]
        if not names:
            raise UsageError("--tasks: names no task", hint="such as mars_products,gsm8k")
        given["tasks"] = list(dict.fromkeys(names))
    elif options["prompts"]:
        given["tasks"] = []
    if options["tasks"] is not None or options["prompts"]:
        # A model's own token limit belongs to its demonstration, not to tasks asked for by name.
        given.setdefault("max_tokens", None)
    return config.model_copy(update={**changes, "defaults": defaults.model_copy(update=given)})


def make_plan(options: dict[str, Any], config: ModelConfig) -> dict[str, Any]:
    """All that decides what is generated; a run directory takes one plan only."""
    lanes = _lanes(options, config)
    return {
        "model": config.model_dump(exclude={"defaults"}),
        **config.defaults.model_dump(),
        "lanes": [lane.id for lane in lanes],
        "temperature": options["temperature"],
        "seed": options["seed"],
        "sequential": options["sequential"],
        "skip": options["skip"],
        "samples": options["samples"],
        "prompts": [file_facts(Path(path), "--prompts") for path in options["prompts"]],
        "on_overflow": options["on_overflow"],
        "include_path": [str(path) for path in options["include_path"]],
        "engine_args": _engine_args(options, config),
        "allow_code_execution": options["allow_code_execution"],
        "vllm": engine_version(),
        "mars": __version__,
    }


def _lanes(options: dict[str, Any], config: ModelConfig) -> list[Lane]:
    settings = options["rules"], options["temperature"], options["seed"]
    lanes = [plan_lanes(config.draft(n), config.k_of(n), *settings) for n in config.drafts]
    once = dict.fromkeys(lane for several in lanes for lane in several)  # one `ar` for all
    drafted_only = options.get("drafted_only", False)
    return [lane for lane in once if lane.draft is not None or not drafted_only]


def _engine_args(options: dict[str, Any], config: ModelConfig) -> dict[str, Any]:
    """The command line's, values as YAML reads them; those of the configuration are checked too."""
    given = {key.replace("-", "_"): yaml.safe_load(v) for key, v in options["engine_arg"].items()}
    for source, arguments in (("--engine-arg", given), ("engine:", config.engine)):
        if arguments:
            _check_engine_args(source, arguments)
    return given


def _check_engine_args(source: str, arguments: dict[str, Any]) -> None:
    from vllm.engine.arg_utils import EngineArgs

    known = {field.name for field in dataclasses.fields(EngineArgs)}
    ours = {"model", "dtype", "speculative_config", "worker_extension_cls", "disable_log_stats"}
    numbers = {"max_model_len", "max_num_seqs", "kv_cache_memory_bytes", *SPLITS}
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


def _fallback(own: ModelConfig, options: dict[str, Any]) -> list[str]:
    """What to say where the model has no draft and none was asked for."""
    if own.drafts or options["draft"]:
        return []
    return [
        f"{own.name} has no draft of its own: drafting by n-gram; another is --draft "
        "METHOD:REFERENCE, such as eagle3:org/name"
    ]


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
        after = f" after {plan['skip']}" if plan["skip"] else ""
        lines.append(f"the first {plan['limit']} documents of each task{others}{after}")
    elif plan["skip"]:
        lines.append(f"without the first {plan['skip']} documents of each task")
    return lines


def _tasks(options: dict[str, Any], plan: dict[str, Any]) -> list[Task]:
    if options["allow_code_execution"]:
        sandbox.allow()
    folders = [Path(path) for path in options["include_path"]]
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"--include-path {folder}: no such folder")
    tasks = load_tasks(plan["tasks"], include=folders, data=options["data"])
    of_files = prompt_tasks([Path(path) for path in options["prompts"]])
    for task in of_files:
        if task.name in {one.name for one in tasks}:
            raise UsageError(
                f"--prompts {task.name}: a task has that name too", hint="rename the file"
            )
    return [*tasks, *of_files]


def task_lengths(options: dict[str, Any], config: ModelConfig) -> dict[str, tuple[int, int]]:
    """How many documents of each task are asked for, and how many tokens an answer may have."""
    defaults = config.defaults
    found = {}
    for task in _tasks(options, {"tasks": defaults.tasks}):
        every, limit, settings = task.conversations, options["limit"], task.generation_settings
        if task.definition is not None:
            every, limit = task.definition.eval_docs, defaults.limits.get(task.name, defaults.limit)
            settings = task.definition.config.generation_kwargs or {}
        documents = max(0, len(every or ()) - options["skip"])
        own = settings.get("max_gen_toks", DEFAULT_MAX_TOKENS)
        asked = documents if limit is None else min(limit, documents)
        found[task.name] = asked, defaults.max_tokens or own
    return found


def make_job(
    options: dict[str, Any],
    config: ModelConfig,
    plan: dict[str, Any],
    tasks: list[Task],
    weights: str,
    before: dict[str, Any],
) -> Job:
    """The job; `before` is the manifest of the run that it resumes, or empty."""
    from transformers import AutoTokenizer

    lanes = _lanes(options, config)
    sequential = options["sequential"]
    if sequential is None:
        sequential = before.get("sequential")
    if sequential is None:
        sequential = not fit_side_by_side(config, weights, lanes, plan["engine_args"])
    specs = engine_specs(
        config,
        weights,
        lanes,
        max_num_seqs=max(plan["max_num_seqs"], *plan["concurrency"]),
        overrides=plan["engine_args"],
        side_by_side=not sequential,
    )
    tokenizer = AutoTokenizer.from_pretrained(weights)
    if isinstance(config.chat_template, str):
        tokenizer.chat_template = config.chat_template
    settings = Settings(
        max_model_len=next(iter(specs.values())).args["max_model_len"],
        chat_template=bool(config.chat_template) and tokenizer.chat_template is not None,
        chat_template_kwargs=dict(config.chat_template_kwargs),
        max_tokens=plan["max_tokens"],
        temperature=options["temperature"],
        refuse_overflow=options["on_overflow"] == "refuse",
    )
    limits = {
        # All of a user's own prompts count, unless --limit says otherwise.
        task.name: plan["limits"].get(task.name, plan["limit"])
        if task.definition is not None
        else options["limit"]
        for task in tasks
    }
    samples = plan["samples"]
    prompts = {
        task.name: prepare_prompts(
            task, tokenizer, settings, limits[task.name], samples, plan["skip"]
        )
        for task in tasks
    }
    for task in tasks:
        if not prompts[task.name]:
            raise UsageError(
                f"--skip {plan['skip']}: {task.name} has no document after so many",
                hint="skip fewer, or leave the task out",
            )
    for name, found in prompts.items():
        for one in found:
            check_sampling(name, one.sampling)
    refuse_equal_samples([one for found in prompts.values() for one in found], samples)
    return Job(
        config=config,
        weights=weights,
        fingerprint=[fingerprint(path) for path in files_of(weights, specs)],
        lanes=lanes,
        tasks=tasks,
        specs=specs,
        tokenizer=tokenizer,
        settings=settings,
        prompts=prompts,
        limits=limits,
        speed_prompts=plan["speed_prompts"],
        repeats=plan["repeats"],
        max_num_seqs=plan["max_num_seqs"],
        concurrency=tuple(plan["concurrency"]),
        skip=plan["skip"],
        cell_timeout=options["cell_timeout"],
        samples=samples,
        fidelity=options["fidelity"],
        sequential=sequential,
    )
