"""Let the target answer, and keep what the draft is to learn from: tokens and hidden states.

    python -m scripts.eagle3.collect DATA [--tokens N]

A shard is a safetensors file of the requests that ended together: `tokens` int32 [T], `lengths` and
`prompt_lengths` int32 [R], and `hidden` float16 [T, 4, H], at each position the inputs of the
layers in AUX_LAYERS and what the target's output head reads. The last token of an answer is never
fed to the target: its row is zero.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scripts.eagle3 import prompts

AUX_LAYERS = (2, 15, 27)  # after the first two, in the middle, before the last three
SEED = 7
IN_FLIGHT = 128
SHARD = 200  # requests
SAMPLED = 0.3  # share of the requests that are sampled at temperature 0.7; the rest are greedy


class Capture:
    """Hidden states of one step, caught in the target's layers as they go by."""

    def __init__(self, model: Any, runner: Any) -> None:
        self._rows: dict[str, list[Any]] = {}  # request -> [(positions, states)]
        self._step: list[Any] = []
        self._positions: Any = None
        for layer in AUX_LAYERS:
            model.layers[layer].register_forward_pre_hook(self._before_layer)
        model.norm.register_forward_hook(self._after_norm)
        self._execute, self._runner = runner.execute_model, runner
        runner.execute_model = self._executed

    def _before_layer(self, _: Any, args: tuple[Any, ...]) -> None:
        import torch

        positions, hidden, residual = args
        self._positions = positions.clone()
        self._step.append((hidden + residual).to(torch.float16))

    def _after_norm(self, _: Any, args: tuple[Any, ...], out: tuple[Any, ...]) -> None:
        import torch

        self._step.append(out[0].to(torch.float16))

    def _executed(self, scheduled: Any, *args: Any, **kwargs: Any) -> Any:
        import torch

        self._step.clear()
        result = self._execute(scheduled, *args, **kwargs)
        if self._step:
            states, start = torch.stack(self._step, dim=1), 0
            for request in self._runner.input_batch.req_ids:
                end = start + scheduled.num_scheduled_tokens.get(request, 0)
                rows = (self._positions[start:end], states[start:end].clone())
                self._rows.setdefault(request.split("-")[0], []).append(rows)
                start = end
        return result

    def take(self, request: str, length: int) -> Any:
        """The states of a request that ended: float16 [length, 4, H]."""
        import torch

        parts = self._rows.pop(request)
        states = torch.zeros(length, *parts[0][1].shape[1:], dtype=torch.float16)
        for positions, rows in parts:
            states[positions] = rows
        return states


def evaluated() -> tuple[list[str], set[int]]:
    """Of the tasks that work offline: every document's prompt, and the seeds of those generated."""
    from mars_cli.evaluation.tasks import load_tasks

    found, seeds = [], set()
    for task in load_tasks(["mars_offline"]):
        metadata = task.definition.config.metadata
        seeds |= {metadata["seed"]} if "seed" in metadata else set()
        documents = task.definition.test_docs()
        found += [task.definition.doc_to_text(document) for document in documents]
    return found, seeds


def answered(asked: list[str], enough: int) -> Iterator[tuple[list[int], int, Any]]:
    """(tokens, length of the prompt, states) of each request, until `enough` tokens are made."""
    from vllm import LLM, SamplingParams
    from vllm.sampling_params import RequestOutputKind

    from mars_cli.assets import resolve_weights
    from mars_cli.config import load_model

    config = load_model("smollm2-135m")
    llm = LLM(
        resolve_weights(config.weights, sha256=config.sha256),
        dtype="float32",
        max_model_len=1024,
        max_num_seqs=IN_FLIGHT,
        enforce_eager=True,
        enable_prefix_caching=False,
        async_scheduling=False,
        seed=SEED,
        kv_cache_memory_bytes=4 * 2**30,
    )
    engine: Any = llm.llm_engine
    runner = engine.engine_core.engine_core.model_executor.driver_worker.worker.model_runner
    capture = Capture(runner.model.model, runner)
    tokenizer: Any = llm.get_tokenizer()
    queue = list(enumerate(asked))[::-1]
    in_flight = made = 0
    while made < enough and (queue or in_flight):
        while queue and in_flight < IN_FLIGHT:
            n, text = queue.pop()
            message = [{"role": "user", "content": text}]
            ids = tokenizer.apply_chat_template(message, add_generation_prompt=True)["input_ids"]
            sampled = n % 10 < 10 * SAMPLED
            params = SamplingParams(
                temperature=0.7 if sampled else 0.0,
                max_tokens=256,
                output_kind=RequestOutputKind.FINAL_ONLY,
            )
            if len(ids) < 640:
                engine.add_request(str(n), {"prompt_token_ids": ids}, params)
                in_flight += 1
        for done in engine.step():
            tokens = [*done.prompt_token_ids, *done.outputs[0].token_ids]
            in_flight -= 1
            made += len(done.outputs[0].token_ids)
            yield tokens, len(done.prompt_token_ids), capture.take(done.request_id, len(tokens))


def main() -> None:
    """Write shards into a folder, with how many tokens are made and how fast."""
    import torch
    from safetensors.torch import save_file

    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--tokens", type=int, default=400_000, help="of answers, about")
    options = parser.parse_args()
    options.data.mkdir(parents=True, exist_ok=True)
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"

    asked = prompts.prompts(options.tokens // 90, SEED)
    prompts.check(asked, *evaluated())
    begun, made, shard = time.monotonic(), 0, 0
    waiting: list[tuple[list[int], int, Any]] = []

    def write() -> None:
        nonlocal shard
        tokens, starts, states = zip(*waiting, strict=True)
        tensors = {
            "tokens": torch.tensor([t for one in tokens for t in one], dtype=torch.int32),
            "lengths": torch.tensor([len(one) for one in tokens], dtype=torch.int32),
            "prompt_lengths": torch.tensor(starts, dtype=torch.int32),
            "hidden": torch.cat(states),
        }
        save_file(tensors, options.data / f"{shard:03}.safetensors")
        shard += 1
        waiting.clear()

    for one in answered(asked, options.tokens):
        waiting.append(one)
        made += len(one[0]) - one[1]
        if len(waiting) == SHARD:
            write()
            seconds = time.monotonic() - begun
            print(f"{made} tokens in {seconds:.0f} s, {made / seconds:.0f} a second", flush=True)
    if waiting:
        write()


if __name__ == "__main__":
    main()
