"""The quality phase: one lane answers a whole task in batches, then lm-eval scores the answers.

With `samples` given (`--samples`), every document is answered that often, and lm-eval scores each
sample on its own, in a pass of its own. Without it a task's own `repeats` hold: its filters see all
the answers to a document, which share one score.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import lm_eval.evaluator
from lm_eval.api.metrics import mean
from lm_eval.filters.selection import MajorityVoteFilter, TakeKFilter

from mars_cli.engine.engine import Engine
from mars_cli.engine.lane import Lane
from mars_cli.engine.protocol import Generation, Request
from mars_cli.errors import MarsError, UsageError
from mars_cli.evaluation.conversations import first_prompt, with_follow_ups
from mars_cli.evaluation.lm import MarsLM, Prompt, Settings
from mars_cli.evaluation.offsets import token_ends
from mars_cli.evaluation.parts import keep
from mars_cli.evaluation.progress import Progress
from mars_cli.evaluation.tasks import Task
from mars_cli.runs.files import Record, append_records, read_records, write_records
from mars_cli.runs.provenance import digest
from mars_cli.runs.run import Run

FEWSHOT_SEED = 1234  # lm-eval's own default


def request_seed(seed: int, prompt: Prompt) -> int:
    """Where one request's draws begin: from 0 to 2**31 - 1, of nothing but what is asked.

    `seed` is the lanes' (`Lane.seed`). The lane, the repeat and the order play no part: lanes draw
    alike as long as they agree, and a resumed run draws what an uninterrupted one would.
    """
    place = [prompt.task, prompt.doc_id, prompt.sample, *([prompt.turn] if prompt.turn else [])]
    return int(digest([seed, *place]), 16) % 2**31


def request_for(prompt: Prompt, request_id: str, *, use_prefix_cache: bool, seed: int) -> Request:
    """What an engine is asked for: the same for every lane.

    At temperature > 0 it is seeded (see `request_seed`), unless the task sets a seed itself.
    """
    sampling = prompt.sampling
    if prompt.varies:
        sampling = {**sampling, "seed": request_seed(seed, prompt)}
    return Request(
        id=request_id,
        prompt_token_ids=prompt.token_ids,
        max_tokens=prompt.max_tokens,
        stop=prompt.until,
        temperature=prompt.temperature,
        sampling=sampling,
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
        "stops_relaxed": generation.stops_relaxed,
    }


def turn_fields(prompt: Prompt) -> Record:
    """What a record of a later turn says of its prompt, which is the lane's own."""
    if prompt.turn == 0:
        return {"turn": 0}
    own = {"prompt_token_ids": prompt.token_ids, "truncated": prompt.truncated}
    return {"turn": prompt.turn, **own}


def all_turns(
    task: Task,
    tokenizer: Any,
    settings: Settings,
    prompts: list[Prompt],
    answer: Callable[[Prompt], str | None],
) -> list[Prompt]:
    """The prompts, and where the task is made of conversations, those of their later turns.

    `answer` gives the answer to a prompt, None where it is not known: no turn comes after it.
    """
    if task.conversations is None:
        return prompts
    lm = MarsLM(tokenizer, settings, lambda prompts: [])
    return with_follow_ups(lm, task.conversations, prompts, answer)


def use_lane(engine: Engine, lane: Lane) -> None:
    """Make the engine decode as this lane: set its rule."""
    if lane.draft is not None:
        engine.set_rule(lane.rule)


def run_quality(
    run: Run,
    task: Task,
    lane: Lane,
    engine: Engine,
    *,
    prompts: list[Prompt],
    tokenizer: Any,
    settings: Settings,
    identity: Any,
    limit: int | None,
    samples: int | None,
    concurrency: int,
    progress: Progress,
    skip: int = 0,
    earlier: Iterable[Record] = (),
) -> None:
    """Generate what is not recorded yet, then score everything.

    `prompts` are those of `prepare_prompts`, with the same settings, limit, samples and skip.
    `identity` is JSON-able: what a record depends on besides lane, prompt, document and sample.
    `earlier` are another run's records: those whose keys this run needs are copied, not generated.

    Raises:
        EngineError: the engine died; what had finished is recorded.
        MarsError: lm-eval asks for other prompts than those, or than the run began with.
    """
    path = run.quality(task.name, lane.id)
    record_prompts(run, task.name, prompts)
    done = {record["key"]: record["text"] for record in read_records(path)}
    taken = {record["key"]: record for record in earlier}

    def asked() -> dict[str, Prompt]:
        """By key, what the answers known so far let us ask."""
        turns = all_turns(
            task,
            tokenizer,
            settings,
            prompts,
            lambda prompt: done.get(record_key(identity, lane, prompt)),
        )
        return {record_key(identity, lane, prompt): prompt for prompt in turns}

    total = sum(1 + len(task.follow_ups(prompt.doc_id)) for prompt in prompts)
    keys = asked()
    label = f"quality {task.name} {lane.id}"
    with progress.phase(label, total, sum(key in done for key in keys)) as step:
        while missing := {key: prompt for key, prompt in keys.items() if key not in done}:
            copied = [taken[key] for key in missing if key in taken]
            append_records(path, copied)
            done |= {record["key"]: record["text"] for record in copied}
            step(len(copied))
            new = {key: prompt for key, prompt in missing.items() if key not in done}
            for record in answer(run, lane, engine, new, concurrency):
                ids, text = record["token_ids"], record["text"]
                ends = token_ends(tokenizer, new[record["key"]].token_ids, ids, text)
                run.append(path, {**record, "token_ends": ends})
                done[record["key"]] = text
                step(1)
            keys = asked()
    if task.conversations is not None:
        return  # nothing scores them

    def recorded(prompts: list[Prompt]) -> list[str]:
        texts = [
            "" if prompt.doc_id < skip else done.get(record_key(identity, lane, prompt))
            for prompt in prompts
        ]
        if None in texts:
            raise _other_prompts(task.name)
        return [text for text in texts if text is not None]

    end = _end(skip, limit)
    passes = score_answers(task, tokenizer, settings, recorded, limit=end, samples=samples)
    found = {
        key: passes[0 if samples is None else prompt.sample].get(prompt.doc_id)
        for key, prompt in keys.items()
    }
    run.attach_scores(path, {key: values for key, values in found.items() if values is not None})


def answer(
    run: Run, lane: Lane, engine: Engine, missing: dict[str, Prompt], concurrency: int
) -> Iterator[Record]:
    """Let the lane answer in batches; the record of each missing key as its request finishes."""
    if not missing:
        return
    use_lane(engine, lane)
    requests = [
        request_for(prompt, key, use_prefix_cache=True, seed=lane.seed)
        for key, prompt in missing.items()
    ]
    run.starting(len(missing), concurrency)
    for generation in engine.generate(requests, concurrency):
        prompt = missing[generation.id]
        yield {
            "key": generation.id,
            "doc_id": prompt.doc_id,
            "sample": prompt.sample,
            **turn_fields(prompt),
            **generation_record(generation),
            "scores": None,
        }


def prepare_prompts(
    task: Task,
    tokenizer: Any,
    settings: Settings,
    limit: int | None,
    samples: int | None = None,
    skip: int = 0,
) -> list[Prompt]:
    """The task's prompts, before any engine is there: what cannot be asked for is refused now.

    Those of `limit` documents (None for all) after the first `skip`. Each document's samples stand
    one after another: as many as `samples` says, else as many as
    the task's own `repeats`.

    Raises:
        UsageError: a generation setting is none of vLLM's, a length does not fit the context, or
            the task cannot be scored sample by sample.
    """
    if samples is not None:
        _refuse_votes(task, samples)
    lm = MarsLM(tokenizer, settings, lambda prompts: [])
    if task.conversations is not None:
        conversations = list(task.conversations.items())[skip : _end(skip, limit)]
        given = task.generation_settings
        firsts = [first_prompt(lm, task.name, n, found, given) for n, found in conversations]
        return [_sample(prompt, number) for prompt in firsts for number in range(samples or 1)]
    with _repeats_of(task, samples):
        task.definition.set_fewshot_seed(FEWSHOT_SEED)
        task.definition.build_all_requests(
            limit=_end(skip, limit),
            apply_chat_template=settings.chat_template,
            chat_template=lm.apply_chat_template if settings.chat_template else None,
            tokenizer_name=lm.tokenizer_name if settings.chat_template else "",
        )
        instances = task.definition.instances
    chosen = [one for one in instances if one.doc_id >= skip]
    prompts = lm.prepare([copy for one in chosen for copy in [one] * one.repeats])
    if samples is None:
        return prompts
    if any(prompt.sample > 0 for prompt in prompts):
        raise UsageError(
            f"--samples {samples}: {task.name} asks several things of a document, which are scored "
            "together",
            hint="leave --samples out for this task",
        )
    return [_sample(prompt, number) for prompt in prompts for number in range(samples)]


def _end(skip: int, limit: int | None) -> int | None:
    """Where the documents end that `limit` allows; None for the last."""
    return None if limit is None else skip + limit


def refuse_equal_samples(prompts: Iterable[Prompt], samples: int | None) -> None:
    """Refuse several samples where chance plays no part in any prompt.

    Raises:
        UsageError: all samples of every document would be equal.
    """
    prompts = list(prompts)
    if samples is None or samples == 1 or any(prompt.varies for prompt in prompts):
        return
    greedy = all(prompt.temperature == 0 for prompt in prompts)
    seeded = all(prompt.sampling.get("seed") is not None for prompt in prompts)
    raise UsageError(
        f"--samples {samples}: all samples of a document would be equal, for every prompt is "
        f"decoded at temperature 0{'' if greedy else ' or with a seed of its task'}",
        hint="choose a task that sets no seed of its own" if seeded else "--temperature 1",
    )


def _refuse_votes(task: Task, samples: int) -> None:
    for ensemble in getattr(task.definition, "_filters", []):
        for make_filter in ensemble.filters:
            found = make_filter()
            several = isinstance(found, TakeKFilter) and found.k > 1
            if several or isinstance(found, MajorityVoteFilter):
                raise UsageError(
                    f"--samples {samples}: the filter {ensemble.name} of {task.name} weighs "
                    "several answers to a document, and samples are scored one by one",
                    hint="leave --samples out for this task: its own number of answers holds",
                )


@contextlib.contextmanager
def _repeats_of(task: Task, samples: int | None) -> Iterator[None]:
    """Let lm-eval ask once a document while samples are ours to number; else as the task says."""
    own = task.definition.get_config("repeats")
    task.definition.set_config("repeats", own if samples is None else 1)
    try:
        yield
    finally:
        task.definition.set_config("repeats", own)


def _sample(prompt: Prompt, number: int) -> Prompt:
    return dataclasses.replace(prompt, sample=number)


def record_key(identity: Any, lane: Lane, prompt: Prompt, *rest: Any) -> str:
    """Everything that could change a record, as one short hash."""
    return digest(
        [
            *(identity, lane.describe(), prompt.task, prompt.doc_id, prompt.sample, prompt.turn),
            *(prompt.hash, *rest),
        ]
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
        raise _other_prompts(task)


def _other_prompts(task: str) -> MarsError:
    return MarsError(
        f"the prompts of {task} are not those that this run began with",
        hint="its data or template has changed: start a new run",
    )


def score_answers(
    task: Task,
    tokenizer: Any,
    settings: Settings,
    recorded: Callable[[list[Prompt]], list[str]],
    *,
    limit: int | None,
    samples: int | None,
) -> list[dict[int, Record]]:
    """By doc_id what `_evaluate` gives, one dict a pass of lm-eval.

    A pass a sample, or one without `samples`. `recorded` gives the answer to each prompt.
    """

    def scores(number: int) -> dict[int, Record]:
        def answers(prompts: list[Prompt]) -> list[str]:
            return recorded(
                prompts if samples is None else [_sample(prompt, number) for prompt in prompts]
            )

        return _evaluate(task, MarsLM(tokenizer, settings, answers), settings, limit)

    with _repeats_of(task, samples):
        return [scores(number) for number in range(samples or 1)]


def _evaluate(task: Task, lm: MarsLM, settings: Settings, limit: int | None) -> dict[int, Record]:
    """lm-eval's own request building, filters and metrics: doc_id -> fields of its record.

    These are `scores` and, where there are corpus scores, `parts`, both by "metric,filter".
    """
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
    values: dict[tuple[str, str], dict[int, Any]] = {}
    for sample in results["samples"][task.name]:
        for metric in sample["metrics"]:
            by_document = values.setdefault((metric, sample["filter"]), {})
            by_document[sample["doc_id"]] = sample[metric]
    scored: dict[int, Record] = {}
    for (metric, chosen), by_document in values.items():
        name = f"{metric},{chosen}"
        how, kept = keep(
            task.definition.aggregation().get(metric, mean),
            list(by_document.values()),
            results["results"][task.name][name],
        )
        for doc_id, one in zip(by_document, kept, strict=True):
            record = scored.setdefault(doc_id, {"scores": {}})
            record["scores"][name] = one if how is None else None
            if how is not None:
                record.setdefault("parts", {})[name] = {how: one}
    return scored
