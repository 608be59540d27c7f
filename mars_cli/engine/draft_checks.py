"""Whether a draft goes with its target, from config.json and tokenizer files alone.

Everything here is known before an engine loads a weight, and mostly before one is downloaded. What
a draft's options say of themselves is checked in `mars_cli.drafts`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mars_cli.assets import resolve_config, resolve_weights
from mars_cli.config import ModelConfig
from mars_cli.drafts import weights_of
from mars_cli.errors import UsageError

# Sampling parameters that vLLM refuses in an engine with drafts.
REFUSED_SAMPLING = ("min_p", "logit_bias")
# Where configurations say how many layers a model has that look ahead.
_LOOKING_AHEAD = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
_MASK_TOKENS = ("mask_token_id", "pard_token", "ptd_token_id", "dspark_noise_token_id")
# What checkpoints of the speculators library call themselves, by the method that runs them.
_SPECULATORS = {
    "eagle3": ("eagle3", "peagle"),
    "dflash": ("dflash", "dflash2"),
    "eagle": ("eagle",),
}

Config = Mapping[str, Any]


def check_drafts(config: ModelConfig, overrides: Config) -> None:
    """Refuse drafts of this configuration that cannot go with the target.

    `overrides` are engine arguments of the command line. Configurations and tokenizers are
    downloaded where they are not here yet, and a target in one file whole.

    Raises:
        UsageError: a draft does not fit, and why; or its configuration cannot be had.
    """
    engine = {**config.engine, **overrides}
    target: Path | None = None
    for name in config.drafts:
        options = config.draft(name).options
        if target is None and options["method"] in _NEED_THE_TARGET:
            target = _folder(config.weights, config.sha256)
        reference = weights_of(options)
        own = None if reference is None else _folder(reference)
        for wrong in problems(options, config.k_of(name), target, own, engine):
            raise UsageError(f"draft {name}: {wrong}", hint=_hint(options, reference))


def _folder(reference: str, sha256: str | None = None) -> Path:
    return resolve_config(reference) or Path(resolve_weights(reference, sha256=sha256))


def _hint(options: Config, reference: str | None) -> str:
    if options["method"] == "suffix":
        return "pip install arctic-inference, or another draft"
    if options["method"] == "custom_class":
        return "name the folder that the module lies in with PYTHONPATH"
    if reference is None:
        return "another --draft, such as ngram"
    return "each draft is made for one target: docs/models.md"


def problems(
    options: Config, k: int, target: Path | None, own: Path | None, engine: Config
) -> Iterator[str]:
    """What is wrong with a draft, in words; nothing where it fits.

    Args:
        options: as of `DraftConfig.options`.
        k: tokens drafted a step.
        target: a folder with the target's configuration; None where the method needs none.
        own: likewise of the draft; None where it has no weights of its own.
        engine: the engine's arguments.
    """
    method = options["method"]
    tensor = engine.get("tensor_parallel_size", 1)
    share = options.get("draft_tensor_parallel_size", tensor)
    if share not in (1, tensor):
        yield f"draft_tensor_parallel_size {share} is neither 1 nor the target's {tensor}"
    if method == "draft_model" and share != tensor:
        yield f"draft_tensor_parallel_size {share}: a draft_model needs the target's {tensor}"
    if own is not None and (found := _read(own)).get("speculators_model_type"):
        kind, known = found["speculators_model_type"], _SPECULATORS.get(method, ())
        if kind not in known:
            yield f"{own.name} is made for the method {kind}, not {method}"
            return
    check = _CHECKS.get(method)
    if check is not None:
        yield from check(options, k, target, own)


def _read(folder: Path) -> Config:
    """Its config.json, as one level: what is said of the text model, or of the draft's layers."""
    path = folder / "config.json"
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        inner = [raw[key] for key in _INNER if isinstance(raw.get(key), dict)]
        return {**raw, **inner[0]} if inner else dict(raw)
    except (OSError, ValueError, AttributeError) as error:
        raise UsageError(
            f"{path}: cannot be read as a configuration ({error})",
            hint="fetch the checkpoint again",
        ) from None


_INNER = ("text_config", "transformer_layer_config", "model")


def _heads(options: Config, k: int, target: Path | None, own: Path | None) -> Iterator[str]:
    """A head reads the target's hidden states and tokens."""
    if target is None or own is None:
        return
    ours, theirs = _read(own), _read(target)
    reads = ours.get("target_hidden_size") or ours.get("hidden_size")
    wide = theirs.get("hidden_size")
    if None not in (reads, wide) and reads != wide:
        yield f"it reads hidden states of {reads} values, and the target's have {wide}"
    knows, says = ours.get("vocab_size"), theirs.get("vocab_size")
    if knows is not None and says is not None and knows < says:
        yield f"it knows {knows} tokens, and the target has {says}"
    drafts = ours.get("draft_vocab_size")
    if drafts is not None and says is not None and drafts > says:
        yield f"it drafts from {drafts} tokens, and the target has {says}"
    layers = theirs.get("num_hidden_layers")
    reads_layers = _layers(ours)
    if layers is not None and any(not 0 <= layer <= layers for layer in reads_layers):
        yield f"it reads layers {reads_layers}, and the target has {layers}"
    yield from _block(options, k, ours)


def _layers(ours: Config) -> list[int]:
    for source in (ours, ours.get("eagle_config"), ours.get("dflash_config")):
        for key in ("eagle_aux_hidden_state_layer_ids", "target_layer_ids"):
            found = source.get(key) if isinstance(source, dict) else None
            if isinstance(found, list) and all(isinstance(layer, int) for layer in found):
                return found
    return []


def _block(options: Config, k: int, ours: Config) -> Iterator[str]:
    """A draft that fills a block at once was trained on blocks of one size, with a mask token."""
    nested = ours.get("dflash_config") or {}
    if options["method"] == "dflash":
        size = nested.get("block_size", ours.get("block_size"))
        if isinstance(size, int) and k > size:
            yield f"K {k} is more than the block of {size} that it was trained on"
    if (options["method"] == "dflash" or options.get("parallel_drafting")) and not any(
        source.get(key) is not None for source in (nested, ours) for key in _MASK_TOKENS
    ):
        yield f"its config.json names no mask token ({', '.join(_MASK_TOKENS)}) to draft at once"


def _small_model(options: Config, k: int, target: Path | None, own: Path | None) -> Iterator[str]:
    if target is None or own is None:
        return
    ours = _read(own)
    if options.get("parallel_drafting"):
        yield from _block(options, k, ours)
    if options.get("use_heterogeneous_vocab"):
        return
    knows, says = ours.get("vocab_size"), _read(target).get("vocab_size")
    if None not in (knows, says) and knows != says:
        yield (
            f"its vocabulary has {knows} entries and the target's {says}; "
            "use_heterogeneous_vocab: true drafts what both have"
        )
        return
    if (difference := tokenizers_differ(own, target)) is not None:
        yield f"its tokenizer is not the target's: {difference}"


def tokenizers_differ(one: Path, other: Path) -> str | None:
    """The first token that two tokenizers number differently; None where none is found to be."""
    ours, theirs = _vocabulary(one), _vocabulary(other)
    if ours is None or theirs is None:
        files = [folder / "tokenizer.model" for folder in (one, other)]
        if all(file.is_file() for file in files):
            same = files[0].read_bytes() == files[1].read_bytes()
            return None if same else "tokenizer.model differs"
        return None
    for token in [*theirs, *ours]:
        if ours.get(token) != theirs.get(token):
            there, here = (found.get(token, "absent") for found in (theirs, ours))
            return f"{token!r} is {here} there and {there} in the target"
    return None


def _vocabulary(folder: Path) -> dict[str, int] | None:
    """Token -> id of tokenizer.json, its added tokens included; None without one."""
    path = folder / "tokenizer.json"
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        stored = raw["model"]["vocab"]
        added = {token["content"]: int(token["id"]) for token in raw.get("added_tokens", [])}
        if isinstance(stored, list):  # Unigram: [token, score]
            stored = {token: n for n, (token, _) in enumerate(stored)}
        return {**stored, **added}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _looking_ahead(options: Config, k: int, target: Path | None, own: Path | None) -> Iterator[str]:
    where = own or target
    if where is None:
        return
    found = _read(where)
    layers = next((found[key] for key in _LOOKING_AHEAD if found.get(key)), None)
    if layers is None:
        if own is None:
            yield f"the target has no layers that look ahead ({', '.join(_LOOKING_AHEAD)})"
    elif k > layers and k % layers:
        yield f"K {k} is no multiple of the {layers} layers that look ahead"


def _suffix(options: Config, k: int, target: Path | None, own: Path | None) -> Iterator[str]:
    if find_spec("arctic_inference") is None:
        yield "suffix decoding needs the package arctic-inference, which is not installed"


def _custom(options: Config, k: int, target: Path | None, own: Path | None) -> Iterator[str]:
    module = options["model"].rpartition(".")[0]
    try:
        found = find_spec(module)
    except (ImportError, ValueError):
        found = None
    if found is None:
        yield f"the module {module} of {options['model']} cannot be found"


_Check = Callable[[Config, int, Path | None, Path | None], Iterator[str]]
_CHECKS: dict[str, _Check] = {
    "eagle3": _heads,
    "eagle": _heads,
    "dflash": _heads,
    "draft_model": _small_model,
    "mtp": _looking_ahead,
    "suffix": _suffix,
    "custom_class": _custom,
}
_NEED_THE_TARGET = ("eagle3", "eagle", "dflash", "draft_model", "mtp")


def check_sampling(task: str, sampling: Config) -> None:
    """Refuse what vLLM takes without drafts only.

    Raises:
        UsageError: a task's generation settings hold one of these.
    """
    for name in REFUSED_SAMPLING:
        if sampling.get(name):
            raise UsageError(
                f"task {task}: its generation setting {name} is refused by vLLM where tokens are "
                "drafted",
                hint="leave the task out, or copy it without that setting (--include-path)",
            )
