"""The fidelity phase: the plain target re-scores what each lane answered, token by token."""

from __future__ import annotations

from typing import Any

from mars_cli.engine.engine import Engine
from mars_cli.engine.lane import Lane
from mars_cli.engine.protocol import ScoreRequest
from mars_cli.evaluation.lm import Prompt
from mars_cli.evaluation.progress import Progress
from mars_cli.runs.files import Record, append_records, read_records
from mars_cli.runs.provenance import digest
from mars_cli.runs.run import Run
from mars_cli.verification.rows import FIELDS

# Settings of a task under which the sampler's logits are not the target's own.
_REWRITING = (
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "min_tokens",
    "logit_bias",
    "bad_words",
    "allowed_token_ids",
    "structured_outputs",
)

Columns = dict[str, list[float]]  # by FIELDS, an entry a token
Known = dict[tuple[int, ...], tuple[str, Columns]]  # see `_whole`; and the lane that gave it


def obstacle(prompts: list[Prompt]) -> str | None:
    """Why a task's answers cannot be checked against the rule; None when they can."""
    if any(prompt.temperature > 0 for prompt in prompts):
        return "fidelity: not measured at temperature > 0, where any token may be drawn"
    named = sorted({name for prompt in prompts for name in prompt.sampling if name in _REWRITING})
    if named:
        return f"fidelity: not measured under {', '.join(named)}, which change the logits"
    return None


def run_fidelity(
    run: Run,
    task: str,
    lane: Lane,
    target: Engine,
    prompts: list[Prompt],
    *,
    identity: Any,
    progress: Progress,
    known: Known,
) -> None:
    """Re-score the lane's recorded answers to a task, those that are not yet.

    `target` is the autoregressive engine. `identity` is JSON-able: what a record depends on
    besides the answer's own record. `known` has what other lanes gave on this task: the same answer
    to the same prompt is re-scored once, and copied. What is found here is added.

    Raises:
        EngineError: the engine died; what was re-scored before is recorded.
    """
    path = run.fidelity(task, lane.id)
    done = {record["key"]: record for record in read_records(path)}
    given = {(one.doc_id, one.sample, one.turn): one.token_ids for one in prompts}
    to_do = {}
    answered = 0
    for answer in read_records(run.quality(task, lane.id)):
        place = (answer["doc_id"], answer["sample"], answer["turn"])
        if not answer["token_ids"] or place not in given:
            continue
        answered += 1
        key = digest(["fidelity", identity, answer["key"]])
        if key in done:
            columns = {name: done[key][name] for name in FIELDS}
            known.setdefault(_whole(given[place], answer), (lane.id, columns))
        else:
            to_do[key] = answer
    if not to_do:
        return
    with progress.phase(f"fidelity {task} {lane.id}", answered, answered - len(to_do)) as step:
        requests = {}
        for key, answer in to_do.items():
            prompt = given[answer["doc_id"], answer["sample"], answer["turn"]]
            if (same := known.get(_whole(prompt, answer))) is not None:
                first, columns = same
                append_records(path, [{**_record(key, answer, columns), "same_as": first}])
                step(1)
            else:
                requests[key] = ScoreRequest(key, prompt, answer["token_ids"])
        run.starting(len(requests))
        for key, rows in target.score(list(requests.values())):
            columns = {name: [row[n] for row in rows] for n, name in enumerate(FIELDS)}
            run.append(path, _record(key, to_do[key], columns))
            known[_whole(requests[key].prompt_token_ids, to_do[key])] = lane.id, columns
            step(1)


def _whole(prompt: list[int], answer: Record) -> tuple[int, ...]:
    """What the target reads: the prompt, and where it ends, and the answer."""
    return (len(prompt), *prompt, *answer["token_ids"])


def _record(key: str, answer: Record, columns: Columns) -> Record:
    return {"key": key, **{name: answer[name] for name in ("doc_id", "sample", "turn")}, **columns}
