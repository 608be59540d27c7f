"""The control of batched answers: `ar` answers once more, in another order and other company.

What a lane answers in a batch may differ from `ar` by numerics alone, since sums come out otherwise
in another batch. How often `ar` then differs from itself is what such a difference is held against.
"""

from __future__ import annotations

from typing import Any

from mars_cli.engine.engine import Engine
from mars_cli.engine.lane import Lane
from mars_cli.evaluation.lm import Prompt
from mars_cli.evaluation.progress import Progress
from mars_cli.evaluation.quality import answer, record_key
from mars_cli.runs.files import read_records
from mars_cli.runs.run import Run

DOCUMENTS = 32  # a control of this many documents: it costs what `ar` costs


def run_control(
    run: Run,
    task: str,
    lane: Lane,
    engine: Engine,
    prompts: list[Prompt],
    *,
    identity: Any,
    concurrency: int,
    progress: Progress,
) -> None:
    """Let `lane` (ar) answer the first documents again, last first; what is recorded stays.

    Raises:
        EngineError: the engine died; what had finished is recorded.
    """
    path = run.control(task)
    done = {record["key"] for record in read_records(path)}
    chosen = [prompt for prompt in prompts if prompt.sample == 0][:DOCUMENTS]
    keys = {record_key(identity, lane, prompt, "control"): prompt for prompt in reversed(chosen)}
    missing = {key: prompt for key, prompt in keys.items() if key not in done}
    if not missing:
        return
    label = f"control {task} {lane.id}"
    with progress.phase(label, len(keys), len(keys) - len(missing)) as step:
        for record in answer(run, lane, engine, missing, concurrency):
            run.append(path, record)
            step(1)
