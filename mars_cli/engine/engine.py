"""A running vLLM engine, as a context manager: start, set the rule, generate, stop for certain."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mars_cli.engine import host
from mars_cli.engine.process import launch
from mars_cli.engine.protocol import EngineSpec, Generation, Request, ScoreRequest
from mars_cli.errors import EngineError
from mars_cli.verification.spec import RuleSpec

_MEMORY = re.compile(r"out of memory|OutOfMemory|No available memory|KV cache|free memory", re.I)


class Engine:
    """One engine in a process of its own; several may live side by side.

    Use `with Engine(spec, log) as engine`. `start` begins loading and returns at once, `ready`
    waits, so that engines can load together. Every failure of the engine is an `EngineError` of
    one sentence that names the log.
    """

    host = "mars_cli.engine.host:Host"  # the class that the process serves

    def __init__(self, spec: EngineSpec, log: Path) -> None:
        self.spec = spec
        self.log = log
        self.facts: dict[str, Any] = {}
        self.deadline: float | None = None  # of the monotonic clock, for answers to come
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None
        self._busy = False

    def start(self) -> Self:
        """Start the process; it loads the model while we go on.

        Raises:
            EngineError: there is no process to be had.
        """
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._pipe, theirs = Pipe()
        named = (str(self.log.absolute()), self.host, self.spec)
        try:
            fresh = bool(self.spec.environment)
            self._process = launch(host.main, theirs, *named, fresh=fresh)
        except OSError as error:
            raise EngineError(f"the engine {self.spec.name} cannot be started: {error}") from None
        finally:
            theirs.close()
        self._busy = True
        return self

    def ready(self) -> Self:
        """Wait until the model is loaded; one that is not started, or could not be, is started.

        Raises:
            EngineError: it could not be loaded; the message says why and names the log.
        """
        if self._process is None:
            self.start()
        if self._busy:
            self.facts = self._answer()
        return self

    def __enter__(self) -> Self:
        try:
            return self.ready()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        """Process id of the engine, None when it is not running."""
        return None if self._process is None else self._process.pid

    def set_rule(self, spec: RuleSpec) -> None:
        """Verify by this rule from the next request on; nothing is reloaded."""
        self._call("set_rule", spec.describe())

    def trace(self, on: bool) -> None:
        """From the next request on say what each position was verified by, or no longer.

        It slows every step down.
        """
        self._call("trace", on)

    def cost(self) -> tuple[float, int]:
        """Seconds spent so far in the seam outside the engine's own sampler, and its calls."""
        seconds, calls = self._call("cost")
        return seconds, calls

    def peak_memory(self) -> dict[str, float | None]:
        """The most memory its process has held so far, in GiB; of a GPU None without one."""
        found: dict[str, float | None] = self._call("peak_memory")
        return found

    def generate(self, requests: list[Request], concurrency: int = 1) -> Iterator[Generation]:
        """Yield each request's generation as it finishes, at most `concurrency` in flight.

        Leaving the iterator early leaves the engine busy: it can only be stopped then.
        """
        yield from self._stream("generate", requests, concurrency)

    def score(self, requests: list[ScoreRequest]) -> Iterator[tuple[str, list[list[float]]]]:
        """Yield each answer's id and, for each of its tokens, what the target thinks of it.

        Rows hold the fields of `mars_cli.verification.rows.FIELDS`.
        """
        yield from self._stream("score", requests)

    def stop(self) -> None:
        """End the process for certain: ask, and kill its group when it does not listen."""
        process = self._process
        if process is None or process.pid is None:
            return
        if not self._busy and self._pipe is not None:
            with contextlib.suppress(OSError):
                self._pipe.send(("stop", ()))
            process.join(10)
        with contextlib.suppress(ProcessLookupError):  # with all that it has started
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.join()
        process.close()
        self._process = None
        if self._pipe is not None:
            self._pipe.close()

    def _stream(self, method: str, *args: Any) -> Iterator[Any]:
        self._begin(method, *args)
        while True:
            kind, value = self._receive()
            if kind == "done":
                self._busy = False
                return
            yield value

    def _call(self, method: str, *args: Any) -> Any:
        self._begin(method, *args)
        return self._answer()

    def _begin(self, method: str, *args: Any) -> None:
        if self._busy:  # what it still sends would be taken for the answer to this
            raise EngineError(f"the engine {self.spec.name} was left in the middle of its work")
        self._send((method, args))
        self._busy = True

    def _answer(self) -> Any:
        _, value = self._receive()
        self._busy = False
        return value

    def _send(self, message: Any) -> None:
        assert self._pipe is not None, "the engine is not running"
        try:
            self._pipe.send(message)
        except OSError:
            raise self._death() from None

    def _receive(self) -> tuple[str, Any]:
        assert self._pipe is not None, "the engine is not running"
        try:
            if self.deadline is not None and not self._pipe.poll(
                max(0.0, self.deadline - time.monotonic())
            ):
                raise EngineError(f"the engine {self.spec.name} took longer than was allowed")
            kind, value = self._pipe.recv()
        except (EOFError, OSError):
            raise self._death() from None
        if kind == "error":
            raise self._explain(value)
        return kind, value

    def _death(self) -> EngineError:
        assert self._process is not None
        self._process.join()
        code = self._process.exitcode or 0
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        hint = "out of memory is the usual reason for signal 9; " if code == -signal.SIGKILL else ""
        return EngineError(
            f"the engine {self.spec.name} {how}", hint=f"{hint}its log is {self.log}"
        )

    def _explain(self, reason: str) -> EngineError:
        """One sentence for what the engine died of; the traceback is in its log."""
        first = reason.strip().splitlines()[0]
        if len(first) > 300:
            first = first[:300] + "..."
        hint = f"its log is {self.log}"
        if _MEMORY.search(reason):
            hint = f"lower --max-num-seqs or give --engine-arg max_model_len=N; {hint}"
        return EngineError(f"the engine {self.spec.name} failed: {first}", hint=hint)
