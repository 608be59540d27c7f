"""One evaluation from nothing, as a whole process: `python -m benchmarks.once SIDE ARGUMENT`.

`ours FOLDER` goes as `mars eval` does, with the autoregressive lane alone and its run directory in
FOLDER. `lm-eval JSON` goes as lm-eval's `simple_evaluate` does with its `vllm` model; JSON is that
of `reference.opening`. lm-eval's thousands of own tasks are indexed by neither.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def ours(folder: Path) -> None:
    from mars_cli.engine.process import begin

    begin()
    from benchmarks.quality_cost import PLAIN, TASK, generate_and_score
    from benchmarks.setting import open_run, prepare
    from mars_cli.engine.engine import Engine

    setting = prepare(TASK, *PLAIN)
    prompts, spec = setting.prompts(), setting.specs[setting.ar.engine_id]
    with open_run(folder) as run, Engine(spec, folder / "logs" / "engine.log") as engine:
        generate_and_score(setting, setting.ar, engine, run, prompts)


def theirs(asked: dict[str, Any]) -> None:
    from lm_eval import simple_evaluate

    from benchmarks.reference import load_model, task_manager

    simple_evaluate(
        model=load_model(asked["args"]),
        tasks=[asked["task"]],
        task_manager=task_manager(),
        limit=asked["limit"],
        bootstrap_iters=0,
        apply_chat_template=True,
    )


if __name__ == "__main__":
    if sys.argv[1] == "ours":
        ours(Path(sys.argv[2]))
    else:
        theirs(json.loads(sys.argv[2]))
