"""The processes that engines live in, forked from one that has imported vLLM.

That import takes longer than loading a small model. So one process does it for all engines, the
server of `multiprocessing` that imports `mars_cli.engine.server`, and it can begin while `mars`
still reads tasks (`begin`). vLLM forks its own engine core from such a process too.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from typing import Any

from mars_cli.verification import plugin

ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the engine core lives in our process
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "INFO",
    "TOKENIZERS_PARALLELISM": "false",
}
_FORKED = multiprocessing.get_context("forkserver")
_FORKED.set_forkserver_preload(["mars_cli.engine.server"])
_FRESH = multiprocessing.get_context("spawn")


def begin() -> None:
    """Have vLLM imported while we go on; once is enough."""
    # An engine that is killed leaves semaphores to `multiprocessing`, which cleans up and says so.
    os.environ.setdefault("PYTHONWARNINGS", "ignore:resource_tracker")
    forkserver.ensure_running()


def launch(target: Callable[..., None], *args: Any, fresh: bool) -> BaseProcess:
    """Start a process that runs `target(*args)`, forked or, if `fresh`, from nothing.

    Returns once there is a process: where the server is still importing, when it has done so.

    Raises:
        OSError: the system gives us none.
    """
    if not fresh:
        begin()
    process: BaseProcess = (_FRESH if fresh else _FORKED).Process(target=target, args=args)
    try:
        process.start()
    except EOFError as error:
        raise OSError("the server that engines are forked from has ended") from error
    return process


def set_environment(more: dict[str, str]) -> None:
    """Of this process: an engine's, and `more`."""
    for name in (plugin.RULE, plugin.THETA):  # of `vllm serve`: it would install a second seam
        os.environ.pop(name, None)
    os.environ.update({**ENVIRONMENT, **more})


def end_with_parent() -> None:
    """Be killed when the process that started this one ends: Linux alone can do that."""
    if sys.platform == "linux":
        import ctypes

        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def write_to(path: str) -> None:
    """Let all that this process says, its C libraries too, go into the file; stdin is empty."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    said = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for file, standard in ((nothing, 0), (said, 1), (said, 2)):
        os.dup2(file, standard)
    os.close(nothing)
    os.close(said)
