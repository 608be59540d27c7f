"""What a model needs, and whether a machine has it; known before anything is downloaded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mars_cli.assets import cached_folder
from mars_cli.checkpoint import weight_bytes
from mars_cli.config import ModelConfig
from mars_cli.drafts import weights_of
from mars_cli.engine.memory import SIZES, on_a_cpu, on_each_gpu, split_of
from mars_cli.machine import GIB, Machine

TYPICAL = 2  # bytes of a value where the dtype is the checkpoint's own and that is not here
COUNTS = (1, 2, 4, 8)  # of GPUs


@dataclass(frozen=True)
class Need:
    """Bytes of the target's weights and of its draft's; `engines` of them to run at once."""

    target: float
    draft: float

    def loaded(self, engines: int) -> float:
        """Weights of that many engines: `ar` and the drafting one, or the larger one alone."""
        return engines * self.target + self.draft


@dataclass(frozen=True)
class Verdict:
    """Whether it runs: `how` is "side by side", "one at a time" or None for not at all."""

    how: str | None
    words: str
    hint: str | None = None


def need_of(config: ModelConfig) -> Need | None:
    """What the model takes with its first draft; None where its size is not known."""
    size = SIZES.get(config.dtype)
    target = _bytes(config.weights, config.parameters, size)
    if target is None:
        return None
    draft = next(iter(config.every_draft.values()))
    reference = weights_of(draft.options())
    parameters = getattr(draft, "parameters", None)
    own = None if reference is None else _bytes(reference, parameters, size)
    return Need(target, own or 0.0)


def _bytes(reference: str, parameters: float | None, size: int | None) -> float | None:
    folder = cached_folder(reference)
    if folder is not None:
        return float(weight_bytes(folder, size))
    return None if parameters is None else parameters * 1e9 * (size or TYPICAL)


def by_gpus(need: Need) -> Iterator[tuple[int, float, float]]:
    """(number of GPUs, bytes each needs with engines side by side, and one at a time)."""
    for count in COUNTS:
        yield count, on_each_gpu(need.loaded(2), 2, count), on_each_gpu(need.loaded(1), 1, count)


def verdict(config: ModelConfig, need: Need | None, machine: Machine) -> Verdict:
    """Whether this machine can run the model, on its GPUs if it has any."""
    if need is None:
        return Verdict(None, "not known: its size is not given, and its weights are not here")
    if not machine.gpus:
        return _on_cpu(need, machine)
    split = split_of(config.engine)
    found = _on_gpus(need, machine, split)
    if found.how is not None:
        return found
    other = [n for n in COUNTS if n != split and _on_gpus(need, machine, n).how is not None]
    if other:
        return Verdict(None, found.words, f"--engine-arg tensor_parallel_size={other[0]}")
    return Verdict(None, found.words, "more or larger GPUs, or a smaller or quantised model")


def _on_gpus(need: Need, machine: Machine, split: int) -> Verdict:
    gpus = machine.gpus
    where = f"{split} GPU" if split == 1 else f"{split} GPUs"
    if len(gpus) < split:
        return Verdict(None, f"no: it is spread over {where}, and {len(gpus)} are here")
    has = min(gpu.memory for gpu in gpus[:split])
    for engines, how in ((2, "side by side"), (1, "one at a time")):
        if on_each_gpu(need.loaded(engines), engines, split) <= has:
            return Verdict(how, f"yes, on {where}, engines {how}")
    wanted = on_each_gpu(need.loaded(1), 1, split)
    return Verdict(None, f"no: it needs {gib(wanted)} on each of {where}, and there are {gib(has)}")


def _on_cpu(need: Need, machine: Machine) -> Verdict:
    for engines, how in ((2, "side by side"), (1, "one at a time")):
        if on_a_cpu(need.loaded(engines)) <= machine.available:
            return Verdict(how, f"yes, on the CPU, engines {how}")
    wanted = on_a_cpu(need.loaded(1))
    return Verdict(
        None,
        f"no: without a GPU it needs {gib(wanted)} of free memory, and {gib(machine.available)} "
        "are free",
        "a GPU, a smaller model, or end what else is running",
    )


def gib(size: float) -> str:
    """Bytes as people read them."""
    return f"{size / GIB:.1f} GiB"


def references(config: ModelConfig) -> Iterator[tuple[str, str]]:
    """(name, reference) of all that is loaded: the target, and drafts with weights."""
    yield config.name, config.weights
    for name, draft in config.drafts.items():
        reference = weights_of(draft.options())
        if reference is not None:
            yield f"draft {name}", reference


def described(config: ModelConfig, machine: Machine) -> dict[str, Any]:
    """All that `mars models NAME` tells, as plain values; sizes in GiB."""
    from mars_cli.assets import describe

    need = need_of(config)
    found = verdict(config, need, machine)
    drafts = {}
    for name, draft in config.every_draft.items():
        options = draft.options()
        reference = weights_of(options)
        drafts[name] = {
            **options,
            "k": config.k_of(name),
            "cached": None if reference is None else describe(reference)["cached"] == "yes",
        }
    return {
        "name": config.name,
        "weights": config.weights,
        "cached": describe(config.weights, sha256=config.sha256)["cached"] == "yes",
        "license": config.license,
        "parameters": config.parameters,
        "dtype": config.dtype,
        "max_model_len": config.max_model_len,
        "chat_template": "its own here"
        if isinstance(config.chat_template, str)
        else ("the checkpoint's" if config.chat_template else "none"),
        "chat_template_kwargs": config.chat_template_kwargs,
        "drafts": drafts,
        "engine": config.engine,
        "defaults": config.defaults.model_dump(),
        "gpus": split_of(config.engine),
        "weights_gib": None if need is None else round(need.target / GIB, 1),
        "memory_gib": None
        if need is None
        else {
            str(count): {"side_by_side": round(two / GIB, 1), "one_at_a_time": round(one / GIB, 1)}
            for count, two, one in by_gpus(need)
        },
        "here": {"runs": found.how, "words": found.words, "hint": found.hint},
    }


def missing(config: ModelConfig) -> Iterator[tuple[str, str, Path]]:
    """(name, reference, where it would lie) of what is not cached yet."""
    from mars_cli.assets import describe

    for name, reference in references(config):
        sha256 = config.sha256 if reference == config.weights else None
        found = describe(reference, sha256=sha256)
        if found["cached"] != "yes":
            yield name, reference, Path(found["path"])
