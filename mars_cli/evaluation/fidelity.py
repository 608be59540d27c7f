"""The fidelity phase: the plain target re-scores what each lane answered, token by token."""

from __future__ import annotations

from typing import Any

from mars_cli.engine.engine import Engine
from mars_cli.engine.lane import Lane
from mars_cli.engine.protocol import ScoreRequest
from mars_cli.evaluation.lm import Prompt
from mars_cli.evaluation.progress import Progress
from mars_cli.runs.files import read_records
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
) -> None:
    """Re-score the lane's recorded answers to a task, those that are not yet.

    `target` is the autoregressive engine. `identity` is JSON-able: what a record depends on
    besides the answer's own record.

    Raises:
        EngineError: the engine died; what was re-scored before is recorded.
    """
    path = run.fidelity(task, lane.id)
    done = {record["key"] for record in read_records(path)}
    given = {(one.doc_id, one.sample, one.turn): one.token_ids for one in prompts}
    to_do = {}
    answered = 0
    for answer in read_records(run.quality(task, lane.id)):
        place = (answer["doc_id"], answer["sample"], answer["turn"])
        if not answer["token_ids"] or place not in given:
            continue
        answered += 1
        key = digest(["fidelity", identity, answer["key"]])
        if key not in done:
            to_do[key] = answer
    requests = [
        ScoreRequest(key, given[one["doc_id"], one["sample"], one["turn"]], one["token_ids"])
        for key, one in to_do.items()
    ]
    if not requests:
        return
    with progress.phase(f"fidelity {task} {lane.id}", answered, answered - len(requests)) as step:
        run.starting(len(requests))
        for key, rows in target.score(requests):
            columns = {name: [row[n] for row in rows] for n, name in enumerate(FIELDS)}
            answer = to_do[key]
            run.append(
                path,
                {
                    "key": key,
                    **{name: answer[name] for name in ("doc_id", "sample", "turn")},
                    **columns,
                },
            )
            step(1)
