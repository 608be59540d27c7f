"""What is wrong in a configuration, in one sentence: the key, what was expected, what is meant."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from mars_cli.drafts import METHODS

# Names that people know from vLLM or elsewhere, and how the same is said here.
_SAID_OTHERWISE = {
    "num_speculative_tokens": "K is set by 'k', or --k",
    "num_speculative_tokens_per_batch_size": "K is fixed here: 'k', or --k",
    "revision": "written into the reference: hub:org/name@revision",
    "thinking": "written chat_template_kwargs: {enable_thinking: false}",
    "enable_thinking": "written chat_template_kwargs: {enable_thinking: false}",
    "context": "called max_model_len",
    "tensor_parallel_size": "written engine: {tensor_parallel_size: N}; of a draft, "
    "draft_tensor_parallel_size",
    "gpu_memory_utilization": "written engine: {gpu_memory_utilization: X}",
    "synthetic_acceptance_length": "acceptance that does not ask the target is not measured here",
    "synthetic_acceptance_rates": "acceptance that does not ask the target is not measured here",
}
# What a value is to look like, where a regular expression or a union would say it badly.
_SHAPES = {
    "chat_template": "expected true, false, or the template itself, in Jinja",
    ".model": "expected an import path, such as package.module.Class",
    "drafts": "expected drafts by name, such as {ngram: {method: ngram}}",
}
_A_NAME = "expected a name of letters, digits, dots and underscores"


def explain(
    error: ValidationError, root: type[BaseModel], within: Sequence[str] = ()
) -> tuple[str, str]:
    """(key, message) of the first thing wrong; `within` is where in `root` the value lies."""
    first = error.errors()[0]
    loc = (*within, *first["loc"])
    tags = _tags(loc)
    key = ".".join(str(part) for n, part in enumerate(loc) if n not in tags)
    kind = first["type"]
    if kind == "extra_forbidden":
        return key, _unknown(str(loc[-1]), _fields(root, loc))
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return f"{key}.method", _method(first)
    if kind == "missing":
        return key, "is required"
    message = str(first["msg"]).removeprefix("Value error, ").replace("Input should be", "expected")
    message = message[0].lower() + message[1:]
    if loc[-1] == "[key]":
        message = _A_NAME
    elif kind != "value_error":
        message = next((said for end, said in _SHAPES.items() if key.endswith(end)), message)
    found = first["input"]
    if kind != "value_error" and isinstance(found, str | int | float | bool | None):
        message += f", found {'nothing' if found is None else repr(found)}"
    return key, message


def _tags(loc: Sequence[Any]) -> set[int]:
    """Where pydantic put in which alternative it means: no key of the file's."""
    found = {2} if len(loc) > 2 and loc[0] == "drafts" and loc[2] in METHODS else set()
    last = len(loc) - 1
    return found | ({last} if loc and loc[-1] in ("bool", "str", "int", "[key]") else set())


def _fields(root: type[BaseModel], loc: Sequence[Any]) -> list[str]:
    """The fields that the mapping at `loc` may have."""
    where: type[BaseModel] = root
    if len(loc) > 3 and loc[0] == "drafts":
        where = METHODS[loc[2]]
    elif len(loc) > 1:
        inner = root.model_fields[str(loc[0])].annotation
        where = next(one for one in (inner, *get_args(inner)) if hasattr(one, "model_fields"))
    return list(where.model_fields)


def _unknown(name: str, known: list[str]) -> str:
    if name in _SAID_OTHERWISE:
        return f"is no key here: {_SAID_OTHERWISE[name]}"
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if close:
        return f"is no key here: did you mean {close[0]}?"
    return f"is no key here: expected one of {', '.join(known)}"


def _method(first: Any) -> str:
    known = ", ".join(METHODS)
    found = first.get("ctx", {}).get("tag")
    if found is None:
        return f"is required: one of {known}"
    close = difflib.get_close_matches(found, METHODS, n=1, cutoff=0.6)
    meant = f"; did you mean {close[0]}?" if close else ""
    return f"{found!r} is none of {known}{meant}"
