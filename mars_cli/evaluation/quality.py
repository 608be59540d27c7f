"""The quality phase: one lane answers a whole task through lm-eval, in batches."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import lm_eval.evaluator

from mars_cli.engine.engine import Engine
from mars_cli.engine.lane import Lane
from mars_cli.engine.protocol import Generation, Request
from mars_cli.errors import MarsError
from mars_cli.evaluation.lm import MarsLM, Prompt, Settings
from mars_cli.evaluation.progress import Progress
from mars_cli.evaluation.tasks import Task
from mars_cli.runs.files import Record, read_records, write_records
from mars_cli.runs.provenance import digest
from mars_cli.runs.run import Run

FEWSHOT_SEED = 1234  # lm-eval's own default


def request_for(prompt: Prompt, request_id: str, *, use_prefix_cache: bool) -> Request:
    """What an engine is asked for: the same for every lane."""
    return Request(
        id=request_id,
        prompt_token_ids=prompt.token_ids,
        max_tokens=prompt.max_tokens,
        stop=prompt.until,
        temperature=prompt.temperature,
        sampling=prompt.sampling,
        use_prefix_cache=use_prefix_cache,
    )


def generation_record(generation: Generation) -> Record:
    """The fields that quality and speed records share."""
    return {
        "token_ids": generation.token_ids,
        "text": generation.text,
        "finish_reason": generation.finish_reason,
        "step_tokens": generation.step_tokens,
        "drafted": generation.drafted,
        "accepted": generation.accepted,
        "relaxed_at": generation.relaxed_at,
    }


def use_lane(engine: Engine, lane: Lane) -> None:
    """Make the engine decode as this lane: set its rule and seed its sampler."""
    if lane.draft is not None:
        engine.set_rule(lane.rule, dict(lane.parameters))
    engine.seed(lane.seed)


def run_quality(
    run: Run,
    task: Task,
    lane: Lane,
    engine: Engine,
    *,
    tokenizer: Any,
    settings: Settings,
    identity: Any,
    limit: int | None,
    concurrency: int,
    progress: Progress,
) -> None:
    """Generate and score what is not recorded yet.

    `identity` is JSON-able: what a record depends on besides lane, prompt, document and sample.

    Raises:
        EngineError: the engine died; what had finished is recorded.
    """
    path = run.quality(task.name, lane.id)
    done = {record["key"]: record for record in read_records(path)}
    prompts_seen: list[Prompt] = []
    keys: list[str] = []

    def generate(prompts: list[Prompt]) -> list[str]:
        prompts_seen.extend(prompts)
        record_prompts(run, task.name, prompts)
        keys.extend(record_key(identity, lane, prompt) for prompt in prompts)
        missing = {
            key: prompt for key, prompt in zip(keys, prompts, strict=True) if key not in done
        }
        recorded = len(prompts) - len(missing)
        with progress.phase(f"quality {task.name} {lane.id}", len(prompts), recorded) as step:
            if missing:
                use_lane(engine, lane)
                run.starting(min(concurrency, len(missing)))
            waiting = len(missing) - concurrency
            requests = [
                request_for(prompt, key, use_prefix_cache=True) for key, prompt in missing.items()
            ]
            for generation in engine.generate(requests, concurrency) if requests else ():
                prompt = missing[generation.id]
                done[generation.id] = run.append(
                    path,
                    {
                        "key": generation.id,
                        "doc_id": prompt.doc_id,
                        "sample": prompt.sample,
                        **generation_record(generation),
                        "scores": None,
                    },
                )
                if waiting > 0:  # the engine has let the next one in
                    run.starting(1)
                    waiting -= 1
                step(1)
        return [done[key]["text"] for key in keys]

    scores = _evaluate(task, MarsLM(tokenizer, settings, generate), settings, limit)
    run.attach_scores(
        path,
        {
            key: scores[prompt.doc_id]
            for key, prompt in zip(keys, prompts_seen, strict=True)
            if prompt.doc_id in scores
        },
    )


def prepare_prompts(
    task: Task, tokenizer: Any, settings: Settings, limit: int | None
) -> list[Prompt]:
    """The task's prompts, before any engine is there: what cannot be asked for is refused now.

    Raises:
        UsageError: a generation setting is none of vLLM's, or a length does not fit the context.
    """
    lm = MarsLM(tokenizer, settings, lambda prompts: [])
    task.definition.set_fewshot_seed(FEWSHOT_SEED)
    task.definition.build_all_requests(
        limit=limit,
        apply_chat_template=settings.chat_template,
        chat_template=lm.apply_chat_template if settings.chat_template else None,
        tokenizer_name=lm.tokenizer_name if settings.chat_template else "",
    )
    instances = task.definition.instances
    return lm.prepare([copy for one in instances for copy in [one] * one.repeats])


def record_key(identity: Any, lane: Lane, prompt: Prompt, *rest: Any) -> str:
    """Everything that could change a record, as one short hash."""
    return digest(
        [identity, lane.describe(), prompt.task, prompt.doc_id, prompt.sample, prompt.hash, *rest]
    )


def record_prompts(run: Run, task: str, prompts: list[Prompt]) -> None:
    """Write the task's prompts once; every lane and every session must get the very same.

    Raises:
        MarsError: they differ from those the run began with.
    """
    path = run.prompts(task)
    records = [prompt.record() for prompt in prompts]
    found = list(read_records(path))
    if not found:
        write_records(path, records)
    elif [record["hash"] for record in found] != [record["hash"] for record in records]:
        raise MarsError(
            f"the prompts of {task} are not those that this run began with",
            hint="its data or template has changed: start a new run",
        )


def _evaluate(
    task: Task, lm: MarsLM, settings: Settings, limit: int | None
) -> dict[int, dict[str, float | None]]:
    """lm-eval's own request building, filters and metrics: doc_id -> "metric,filter" -> score."""
    evaluate: Callable[..., Any] = lm_eval.evaluator.evaluate
    # Few-shot examples are drawn anew each time: every lane must draw the same.
    task.definition.set_fewshot_seed(FEWSHOT_SEED)
    results = evaluate(
        lm,
        {"tasks": {task.name: task.definition}, "groups": {}, "group_map": {}},
        limit=limit,
        bootstrap_iters=0,
        log_samples=True,
        apply_chat_template=settings.chat_template,
        confirm_run_unsafe_code=True,  # our sandbox asks for the user's consent itself
    )
    scores: dict[int, dict[str, float | None]] = {}
    for sample in results["samples"][task.name]:
        values = scores.setdefault(sample["doc_id"], {})
        for metric in sample["metrics"]:
            corpus = metric in task.corpus_metrics
            values[f"{metric},{sample['filter']}"] = None if corpus else _score(sample[metric])
    return scores


def _score(value: Any) -> float | None:
    """A document's score as a finite number; None for parts of a corpus metric or "not scored"."""
    if isinstance(value, bool | int | float) and math.isfinite(value):
        return float(value)
    return None
