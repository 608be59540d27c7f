"""Where a timed output leaves `ar`'s: how clear was the target's choice there?

The plain target re-scores the token that the lane delivered, behind the beginning that both share.
A near-tie is numerics; in a strict lane anything else is a fault.
"""

from __future__ import annotations

from typing import Any

from mars_cli.analysis import metrics
from mars_cli.analysis.speed import timed
from mars_cli.engine.engine import Engine
from mars_cli.engine.protocol import ScoreRequest
from mars_cli.evaluation.lm import Prompt
from mars_cli.evaluation.progress import Progress
from mars_cli.runs.files import Record, read_records
from mars_cli.runs.provenance import digest
from mars_cli.runs.run import Run
from mars_cli.verification.rows import FIELDS

KEPT = ("z", "z1", "z2")


def run_divergence(
    run: Run,
    task: str,
    target: Engine,
    prompts: list[Prompt],
    *,
    identity: Any,
    progress: Progress,
) -> None:
    """Re-score the first token in which each output timed at concurrency 1 leaves `ar`'s.

    A record a place: doc_id, `at` (index into the output), `token`, and the target's logits z of
    that token, z1 and z2. The same place is looked at once, whatever lanes and repeats come there.

    Raises:
        EngineError: the engine died; what was re-scored before is recorded.
    """
    path = run.divergence(task)
    done = {record["key"] for record in read_records(path)}
    given = {prompt.doc_id: prompt for prompt in prompts if prompt.sample == 0}
    places: dict[str, Record] = {}
    requests = []
    # A later turn's prompt holds the lane's own answers: what differs there need be no choice.
    speed = [
        record
        for record in read_records(run.speed(task))
        if record["concurrency"] == 1 and record["turn"] == 0
    ]
    lanes = {record["lane"] for record in speed} - {metrics.BASELINE}
    for lane in sorted(lanes):
        pairs = metrics.pair(timed(speed, lane), timed(speed, metrics.BASELINE), "repeat")
        for ours, base in pairs:
            at = metrics.first_divergence(ours, base)
            if at is None or at >= len(ours["token_ids"]) or ours["doc_id"] not in given:
                continue
            prompt = given[ours["doc_id"]]
            before, token = base["token_ids"][:at], ours["token_ids"][at]
            key = digest(["divergence", identity, prompt.hash, prompt.doc_id, before, token])
            if key not in done and key not in places:
                places[key] = {"key": key, "doc_id": prompt.doc_id, "at": at, "token": token}
                requests.append(ScoreRequest(key, [*prompt.token_ids, *before], [token]))
    if not requests:
        return
    with progress.phase(f"divergence {task}", len(requests)) as step:
        run.starting(len(requests))
        for key, (row,) in target.score(requests):
            found = dict(zip(FIELDS, row, strict=True))
            run.append(path, {**places[key], **{name: found[name] for name in KEPT}})
            step(1)
