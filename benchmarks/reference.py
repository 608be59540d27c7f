"""What we are measured against, in a process of its own: lm-eval's `vllm` model and its `vllm.LLM`.

`Reference` is the handle; the process (`python -m benchmarks.reference`) reads one JSON line a
question from its standard input and answers each with one line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mars_cli.engine.protocol import EngineSpec
from mars_cli.evaluation.lm import Prompt

# As `Engine.start` has it: the engine core in this process, with as many threads as ours.
ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def opening(spec: EngineSpec, task: str, limit: int) -> dict[str, Any]:
    """What a reference is started with."""
    return {"args": spec.args, "task": task, "limit": limit}


class Reference:
    """lm-eval's model with the arguments of one of our engines, loaded when entered."""

    def __init__(self, spec: EngineSpec, task: str, limit: int, log: Path) -> None:
        self._opening = opening(spec, task, limit)
        self._log = log

    def __enter__(self) -> Self:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.reference"],
                env={**os.environ, **ENVIRONMENT},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.threads: int = self._ask(self._opening)["threads"]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def generate(self, prompts: list[Prompt]) -> tuple[float, list[list[int]]]:
        """Seconds of one `LLM.generate` over these prompts, and what it answered."""
        asked = [[p.token_ids, p.max_tokens, p.until] for p in prompts]
        answer = self._ask({"generate": asked})
        return answer["seconds"], answer["token_ids"]

    def evaluate(self) -> tuple[float, dict[int, float]]:
        """Seconds of lm-eval's own evaluation, and the score of each document."""
        answer = self._ask({"evaluate": True})
        return answer["seconds"], {int(k): v for k, v in answer["scores"].items()}

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the reference died: {self._log.read_text()[-2000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def load_model(args: dict[str, Any]) -> Any:
    """lm-eval's `vllm` model with vLLM's EngineArgs; all prompts go to the engine at once."""
    from tests.e2e.lm_eval_vllm import import_their_model

    given = {key: value for key, value in args.items() if key != "model"}
    return import_their_model()(pretrained=args["model"], batch_size="auto", **given)


def task_manager() -> Any:
    """lm-eval's, knowing our tasks alone."""
    from lm_eval.tasks import TaskManager

    from mars_cli.resources import tasks_dir

    return TaskManager(include_path=str(tasks_dir()), include_defaults=False)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what vLLM prints goes to the log

    def answer(**values: Any) -> None:
        answers.write(json.dumps(values) + "\n")
        answers.flush()

    asked = json.loads(sys.stdin.readline())
    model, task = load_model(asked["args"]), asked["task"]
    loaded = task_manager().load([task])
    loaded["tasks"][task].set_fewshot_seed(1234)  # as `simple_evaluate` does

    import torch

    answer(threads=torch.get_num_threads())
    for line in sys.stdin:
        question = json.loads(line)
        if "generate" in question:
            answer(**_generate(model.model, question["generate"]))
        else:
            answer(**_evaluate(model, loaded, task, asked["limit"]))


def _generate(llm: Any, asked: list[Any]) -> dict[str, Any]:
    from vllm import SamplingParams

    prompts = [{"prompt_token_ids": token_ids} for token_ids, _, _ in asked]
    params = [
        SamplingParams(
            temperature=0.0,
            max_tokens=max_tokens,
            stop=until,
            skip_special_tokens=False,
            spaces_between_special_tokens=False,
        )
        for _, max_tokens, until in asked
    ]
    started = time.monotonic()
    outputs = llm.generate(prompts, params, use_tqdm=False)
    seconds = time.monotonic() - started
    return {"seconds": seconds, "token_ids": [list(o.outputs[0].token_ids) for o in outputs]}


def _evaluate(model: Any, loaded: Any, task: str, limit: int) -> dict[str, Any]:
    from lm_eval.evaluator import evaluate

    started = time.monotonic()
    results = evaluate(
        model, loaded, limit=limit, bootstrap_iters=0, log_samples=True, apply_chat_template=True
    )
    seconds = time.monotonic() - started
    assert results is not None
    samples = results["samples"][task]
    return {"seconds": seconds, "scores": {s["doc_id"]: s[s["metrics"][0]] for s in samples}}


if __name__ == "__main__":
    main()
