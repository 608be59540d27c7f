"""Typed, validated settings: model configurations from YAML, an id or a folder.

Errors name the file, the key and what was expected.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, TypeAdapter, ValidationError, field_validator

from mars_cli.drafts import METHODS, NGRAM, AnyDraft, Billions, Strict, Whole
from mars_cli.engine.lane import Draft
from mars_cli.errors import UsageError
from mars_cli.resources import configs_dir
from mars_cli.schema import explain

_HUB = r"(hub:)?[\w.-]+/[\w.-]+(@[\w./-]+)?"
_NAME = r"[A-Za-z0-9][\w.]*"  # of a draft: part of lanes' ids, which join theirs by "-"

_DraftName = Annotated[str, Field(pattern=f"^{_NAME}$")]


class Defaults(Strict):
    """What `mars eval` does for this model when nothing else is asked for."""

    tasks: list[str] = Field(default=["mars_products", "mars_gsm_symbolic", "mars_humaneval"])
    limit: Whole | None = 50
    limits: dict[str, Whole] = Field(default={})  # of tasks that differ from `limit`
    max_tokens: Whole | None = None
    speed_prompts: int = Field(default=10, ge=0)
    repeats: Whole = 2
    max_num_seqs: Whole = 16  # in flight in the quality phase
    concurrency: list[Whole] = Field(default=[1], min_length=1)  # timed


class ModelConfig(Strict):
    """One target model, its drafts, and how its engine is set up."""

    name: Annotated[str, Field(pattern=r"^[\w.-]+$")]
    weights: str
    sha256: str | None = None
    license: str | None = None
    parameters: Billions | None = None  # in billions, all experts counted
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    max_model_len: int | None = Field(default=None, ge=16)
    chat_template: bool | str = True  # the checkpoint's own, none, or this one (Jinja)
    chat_template_kwargs: dict[str, Any] = Field(default={})
    k: Whole = 7
    drafts: dict[_DraftName, AnyDraft] = Field(default={})  # the default first
    engine: dict[str, Any] = Field(default={})
    defaults: Defaults = Defaults()

    @field_validator("weights")
    @classmethod
    def _is_a_reference(cls, weights: str) -> str:
        from mars_cli import references

        try:
            references.read(weights)
        except UsageError as error:
            raise ValueError(str(error)) from None
        return weights

    @field_validator("chat_template")
    @classmethod
    def _is_a_template(cls, template: bool | str) -> bool | str:
        if isinstance(template, str) and "{" not in template:
            raise ValueError("expected true, false, or the template itself, in Jinja")
        return template

    @field_validator("engine")
    @classmethod
    def _splits_are_whole(cls, engine: dict[str, Any]) -> dict[str, Any]:
        for name in SPLITS:
            value = engine.get(name, 1)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name}: expected a whole number above 0, found {value!r}")
        return engine

    @property
    def every_draft(self) -> dict[str, Any]:
        """Its drafts by name, the default first; n-gram where it has none."""
        return self.drafts or {"ngram": NGRAM}

    def draft(self, name: str | None) -> Draft:
        """The draft of this name; the first one configured when no name is given."""
        drafts = self.every_draft
        name = next(iter(drafts)) if name is None else name
        if name not in drafts:
            raise UsageError(
                f"--draft {name}: {self.name} has no such draft",
                hint=f"its drafts are: {', '.join(drafts)}; or METHOD:REFERENCE, such as "
                "eagle3:org/name",
            )
        return Draft(name, drafts[name].options())

    def k_of(self, name: str) -> int:
        """How many tokens this draft proposes a step."""
        k: int | None = self.every_draft[name].k
        return self.k if k is None else k

    def with_k(self, k: int) -> ModelConfig:
        """The configuration with this K for every draft."""
        drafts = {name: one.model_copy(update={"k": None}) for name, one in self.drafts.items()}
        return self.model_copy(update={"k": k, "drafts": drafts})

    def with_drafts(self, given: Sequence[str]) -> ModelConfig:
        """The configuration with these drafts and no others; its first where none is given.

        Each is the NAME of one of its own, METHOD:REFERENCE (METHOD alone where it needs no
        weights), or NAME=METHOD:REFERENCE.

        Raises:
            UsageError: one of them is none of these, or two have one name.
        """
        if not given:
            name, first = next(iter(self.every_draft.items()))
            return self.model_copy(update={"drafts": {name: first}})
        chosen: dict[str, Any] = {}
        for text in given:
            name, draft = self._given(text)
            if name in chosen and chosen[name] != draft:
                raise _same_name(text, name)
            chosen[name] = draft
        return self.model_copy(update={"drafts": chosen})

    def _given(self, text: str) -> tuple[str, Any]:
        drafts = self.every_draft
        if text in drafts:
            return text, drafts[text]
        name = draft_name(text)
        method, colon, reference = text.rpartition("=")[2].partition(":")
        if method not in METHODS:
            self.draft(text)  # says what there is
        if not re.fullmatch(_NAME, name):
            raise UsageError(
                f"--draft {text}: {name!r} is no name for a draft",
                hint="letters, digits, dots and underscores",
            )
        if name in self.drafts:
            raise _same_name(text, name)
        options: dict[str, Any] = {"method": method}
        if method == "ngram" and not colon:
            return name, NGRAM
        if colon:
            options["model"] = hub_or_path(reference)
        try:
            draft: Any = TypeAdapter(AnyDraft).validate_python(options)
        except ValidationError as error:
            key, message = explain(error, ModelConfig, ("drafts", name))
            what = key.rpartition(".")[2]
            raise UsageError(f"--draft {text}: {what} {message}", hint=_DRAFT_HINT) from None
        return name, draft


SPLITS = ("tensor_parallel_size", "pipeline_parallel_size")  # over so many GPUs each
_DRAFT_HINT = (
    "METHOD:REFERENCE, such as eagle3:org/name or draft_model:/path; ngram, suffix and mtp stand "
    "alone"
)


def draft_name(text: str) -> str:
    """What a draft is called that is given as NAME, METHOD:REFERENCE or NAME=METHOD:REFERENCE."""
    name, _, rest = text.rpartition("=")
    return name or rest.partition(":")[0]


def _same_name(text: str, name: str) -> UsageError:
    return UsageError(
        f"--draft {text}: there is another draft named {name}",
        hint=f"give this one a name of its own: --draft NAME={text.rpartition('=')[2]}",
    )


def hub_or_path(reference: str) -> str:
    """A reference as people type it: `org/name` means the hub unless it lies here."""
    path = Path(reference).expanduser()
    if path.exists():
        return str(path.resolve())
    if re.fullmatch(_HUB, reference):
        return f"hub:{reference.removeprefix('hub:')}"
    return reference


def configured_models() -> dict[str, Path]:
    """Name -> YAML file of the models that come with mars."""
    return {path.stem: path for path in sorted((configs_dir() / "models").glob("*.yaml"))}


def load_model(reference: str) -> ModelConfig:
    """A configured name, a YAML file, a folder with weights, or a hub id `org/name`.

    Raises:
        UsageError: nothing of that kind is there, or the YAML does not fit the schema.
    """
    known = configured_models()
    if reference in known:
        return _read(known[reference])
    path = Path(reference).expanduser()
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise UsageError(f"--model {reference}: no such file", hint=_choices(known))
        return _read(path)
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise UsageError(
                f"--model {reference}: this folder has no config.json",
                hint="give the folder of a Hugging Face checkpoint, or a YAML file",
            )
        return ModelConfig(name=_plain(path.resolve().name), weights=str(path.resolve()))
    if path.suffix == ".gguf" and path.is_file():
        return ModelConfig(name=_plain(path.stem), weights=str(path.resolve()), dtype="float32")
    if re.fullmatch(_HUB, reference) and not path.exists():
        name = reference.removeprefix("hub:")
        return ModelConfig(name=name.split("/")[1].partition("@")[0], weights=f"hub:{name}")
    raise UsageError(f"--model {reference}: no such model", hint=_choices(known))


def _plain(name: str) -> str:
    return re.sub(r"[^\w.-]+", "_", name)


def _choices(known: dict[str, Path]) -> str:
    names = ", ".join(known)
    return f"use one of {names}; a hub id org/name; a checkpoint folder; or a YAML file"


def _read(path: Path) -> ModelConfig:
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read ({error})") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}, line {mark.line + 1}" if mark else str(path)
        raise UsageError(
            f"{where}: not valid YAML", hint="see configs/models for examples"
        ) from None
    if not isinstance(data, dict):
        raise UsageError(f"{path}: expected a mapping of keys such as name and weights")
    try:
        return ModelConfig.model_validate(data)
    except ValidationError as error:
        key, message = explain(error, ModelConfig)
        raise UsageError(
            f"{path}: key {key}: {message}", hint="see docs/models.md, and configs/models"
        ) from None
