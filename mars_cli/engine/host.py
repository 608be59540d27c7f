"""The engine's own process: one vLLM `LLMEngine`, stepped by us, obeying one pipe.

`mars_cli.engine.engine` has it run `main`. The engine core and its worker live in this very process
(no process of vLLM's is left behind when it ends), and it ends with those that started it: at once
by a parent-death signal on Linux, and on the closed pipe anywhere.
"""

from __future__ import annotations

import importlib
import os
import queue
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from mars_cli.engine.process import end_with_parent, set_environment, write_to
from mars_cli.engine.protocol import EngineSpec, Generation, Position, Request, ScoreRequest
from mars_cli.verification.hook import StepSeen


@dataclass
class _Live:
    """A request inside the engine."""

    request: Request
    engine_id: str
    started: float
    token_ids: list[int] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    step_tokens: list[int] = field(default_factory=list)
    first: float = 0.0
    last: float = 0.0


class Host:
    """Owns the engine; its public methods are what the parent may ask for, by name."""

    def __init__(self, spec: EngineSpec) -> None:
        from vllm.engine.arg_utils import EngineArgs
        from vllm.v1.engine.llm_engine import LLMEngine

        from mars_cli.verification.worker import EXTENSION

        args = EngineArgs(worker_extension_cls=EXTENSION, disable_log_stats=True, **spec.args)
        self.engine = LLMEngine.from_engine_args(args)
        self._rpc("mars_install")
        self._seen: dict[str, list[StepSeen]] = {}

    def facts(self) -> dict[str, Any]:
        """What this engine is, for the record: version, runner, dtype, graph mode, sizes."""
        import torch
        import vllm

        config = self.engine.vllm_config
        runner = getattr(config, "use_v2_model_runner", False)
        return {
            "vllm": vllm.__version__,
            "torch": torch.__version__,
            "runner": "V2" if runner else "V1",
            "executor": str(config.parallel_config.distributed_executor_backend),
            "device": config.device_config.device_type,
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
            "cuda": torch.version.cuda,
            "dtype": str(config.model_config.dtype).removeprefix("torch."),
            "max_model_len": config.model_config.max_model_len,
            "max_num_seqs": config.scheduler_config.max_num_seqs,
            "async_scheduling": bool(config.scheduler_config.async_scheduling),
            "compilation": config.compilation_config.mode.name,
            "graphs": config.compilation_config.cudagraph_mode.name,
            "prefix_caching": bool(config.cache_config.enable_prefix_caching),
            "threads": torch.get_num_threads(),
            "pid": os.getpid(),
        }

    def set_rule(self, spec: dict[str, Any]) -> None:
        """Verify by this rule (`RuleSpec.describe`) from now on."""
        self._rpc("mars_set_rule", spec)

    def trace(self, on: bool) -> None:
        """Look at every verified position from now on, or no longer."""
        self._rpc("mars_trace", on)

    def cost(self) -> tuple[float, int]:
        """Seconds spent in the seam outside the engine's own sampler, and its calls."""
        seconds, calls = self._rpc("mars_cost")
        return seconds, calls

    def peak_memory(self) -> dict[str, float | None]:
        """The most memory this process has held so far, in GiB: of the machine, and of its GPU."""
        import resource

        import torch

        gpu = torch.cuda.max_memory_reserved() / 2**30 if torch.cuda.is_available() else None
        kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return {"peak_memory_gib": kib / 2**20, "peak_gpu_memory_gib": gpu}

    def generate(self, requests: list[Request], concurrency: int) -> Iterator[Generation]:
        """Generate from all requests, at most `concurrency` in flight; yield each as it ends."""
        waiting = deque(requests)
        live: dict[str, _Live] = {}
        while waiting or live:
            while waiting and len(live) < concurrency:
                request = waiting.popleft()
                live[request.id] = self._admit(request)
            outputs = self.engine.step()
            now = time.monotonic()
            finished: list[tuple[_Live, str]] = []
            for output in outputs:
                entry = live[output.request_id]
                delta = output.outputs[0]
                if delta.token_ids or not entry.step_tokens:
                    entry.step_tokens.append(len(delta.token_ids))
                    entry.token_ids.extend(delta.token_ids)
                    entry.last = now
                    entry.first = entry.first or now
                entry.text.append(delta.text)
                if output.finished:
                    del live[output.request_id]
                    finished.append((entry, str(delta.finish_reason)))
            # Only now, with the clock read, is there time for what the steps verified.
            for entry, reason in finished:
                yield self._generation(entry, reason)

    def score(self, requests: list[ScoreRequest]) -> Iterator[tuple[str, list[list[float]]]]:
        """Re-score each answer with the plain target; yield its id and rows of FIELDS.

        The prompt is prefilled with all of the answer but its last token: the last position
        predicts that one.
        """
        from vllm import SamplingParams

        for request in requests:
            prompt: Any = {"prompt_token_ids": [*request.prompt_token_ids, *request.token_ids[:-1]]}
            params = SamplingParams(temperature=0.0, max_tokens=1, skip_reading_prefix_cache=True)
            engine_id = self.engine.add_request(request.id, prompt, params)
            first = len(request.prompt_token_ids) - 1
            self._rpc("mars_expect", engine_id, first, request.token_ids)
            while self.engine.has_unfinished_requests():
                self.engine.step()
            self._rpc("mars_drain")
            yield request.id, self._rpc("mars_collect", engine_id)

    def _admit(self, request: Request) -> _Live:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        params = SamplingParams(
            temperature=request.temperature,
            max_tokens=request.max_tokens,
            stop=request.stop or None,
            skip_special_tokens=False,
            spaces_between_special_tokens=False,
            output_kind=RequestOutputKind.DELTA,
            skip_reading_prefix_cache=not request.use_prefix_cache,
            **request.sampling,
        )
        prompt: Any = {"prompt_token_ids": request.prompt_token_ids}
        started = time.monotonic()
        return _Live(request, self.engine.add_request(request.id, prompt, params), started)

    def _generation(self, entry: _Live, reason: str) -> Generation:
        for request_id, steps in self._rpc("mars_drain").items():
            self._seen.setdefault(request_id, []).extend(steps)
        seen = self._seen.pop(entry.engine_id, [])
        drafted, accepted, relaxed_at, stops = align(entry.step_tokens, seen)
        return Generation(
            id=entry.request.id,
            token_ids=entry.token_ids,
            text="".join(entry.text),
            finish_reason=reason,
            step_tokens=entry.step_tokens,
            drafted=drafted,
            accepted=accepted,
            relaxed_at=relaxed_at,
            stops_relaxed=stops,
            seconds=entry.last - entry.started,
            ttft_s=entry.first - entry.started,
            positions=positions(entry.step_tokens, seen),
        )

    def _rpc(self, method: str, *args: Any) -> Any:
        return self.engine.collective_rpc(method, args=args)[0]


def align(
    step_tokens: list[int], seen: list[StepSeen]
) -> tuple[list[int], list[int], list[int], int]:
    """Lay what the seam saw beside what the engine delivered, output by output.

    Every output is one step, which verified d drafts, accepted a and emitted 1 + a tokens. Only
    the last output may deliver fewer, trimmed at a stop; steps after it (asynchronous scheduling
    runs one more until the abort arrives) belong to nothing delivered.

    Returns:
        drafted and accepted, one entry an output; the output indices of relaxed tokens; and how
        many steps met an end-of-turn token that strict rejects and the rule accepts.

    Raises:
        RuntimeError: the two do not fit, so that no figure of this request could be trusted.
    """
    last = len(step_tokens) - 1
    fits = len(seen) >= len(step_tokens) and all(
        tokens == 1 + step.accepted or (index == last and tokens <= 1 + step.accepted)
        for index, (tokens, step) in enumerate(zip(step_tokens, seen, strict=False))
    )
    if not fits:
        emitted = [1 + step.accepted for step in seen]
        raise RuntimeError(
            f"the engine delivered {step_tokens} tokens a step where its sampler emitted {emitted}"
        )
    steps = seen[: len(step_tokens)]
    relaxed_at: list[int] = []
    offset = 0
    for tokens, step in zip(step_tokens, steps, strict=True):
        relaxed_at += [offset + position for position in step.relaxed if position < tokens]
        offset += tokens
    drafted, accepted = [step.drafted for step in steps], [step.accepted for step in steps]
    return drafted, accepted, relaxed_at, sum(step.stop for step in steps)


def positions(step_tokens: list[int], seen: list[StepSeen]) -> list[Position]:
    """The verified positions of an answer, once `align` has found that the two fit.

    Those beyond what was delivered, trimmed at a stop, are left out.
    """
    found = []
    offset = 0
    for tokens, step in zip(step_tokens, seen, strict=False):
        for place, (draft, values) in enumerate(step.looked[:tokens]):
            accepted, relaxed = place < step.accepted, place in step.relaxed
            found.append(Position(offset + place, place, draft, accepted, relaxed, values))
        offset += tokens
    return found


def _receive(connection: Connection) -> queue.SimpleQueue[tuple[str, tuple[Any, ...]]]:
    """Read commands in a thread of their own, so that a closed pipe is noticed at any moment."""
    inbox: queue.SimpleQueue[tuple[str, tuple[Any, ...]]] = queue.SimpleQueue()

    def read() -> None:
        while True:
            try:
                inbox.put(connection.recv())
            except (EOFError, OSError):
                os._exit(1)

    threading.Thread(target=read, daemon=True, name="mars-pipe").start()
    return inbox


def _serve(connection: Connection, make: type[Host], spec: EngineSpec) -> None:
    inbox = _receive(connection)
    host = make(spec)
    connection.send(("done", host.facts()))
    while True:
        name, args = inbox.get()
        if name == "stop":
            return
        method: Callable[..., Any] = getattr(host, name)
        result = method(*args)
        if isinstance(result, Iterator):
            for item in result:
                connection.send(("item", item))
            result = None
        connection.send(("done", result))


def main(connection: Connection, log: str, host: str, spec: EngineSpec) -> None:
    """Serve until told to stop; report any failure through the pipe, traceback to the log.

    `host` names the class, such as `mars_cli.engine.host:Host`.
    """
    os.setsid()  # Ctrl-C is for the parent, which stops us
    end_with_parent()
    write_to(log)
    set_environment(spec.environment)
    try:
        import setproctitle  # vLLM needs it

        setproctitle.setproctitle(f"mars engine {spec.name}")
        module, _, name = host.partition(":")
        _serve(connection, getattr(importlib.import_module(module), name), spec)
    except Exception as error:
        import traceback

        traceback.print_exc()
        connection.send(("error", f"{type(error).__name__}: {error}"))
        sys.stderr.flush()
        os._exit(1)
    sys.stderr.flush()
    os._exit(0)  # nothing of the engine needs a tear-down that could hang
