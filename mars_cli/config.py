"""Typed, validated settings: model configurations from YAML, an id or a folder.

Errors name the file, the key and what was expected.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from mars_cli.engine.lane import Draft
from mars_cli.errors import UsageError
from mars_cli.resources import configs_dir

NGRAM: dict[str, Any] = {"method": "ngram", "prompt_lookup_min": 2, "prompt_lookup_max": 4}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Defaults(_Strict):
    """What `mars eval` does for this model when nothing else is asked for."""

    tasks: list[str] = ["mars_products", "mars_gsm_symbolic", "mars_humaneval"]
    limit: int | None = Field(default=50, ge=1)
    limits: dict[str, Annotated[int, Field(ge=1)]] = {}  # of tasks that differ from `limit`
    max_tokens: int | None = Field(default=None, ge=1)
    speed_prompts: int = Field(default=10, ge=0)
    repeats: int = Field(default=2, ge=1)
    max_num_seqs: int = Field(default=16, ge=1)  # in flight in the quality phase
    concurrency: list[Annotated[int, Field(ge=1)]] = Field(default=[1], min_length=1)  # timed


class ModelConfig(_Strict):
    """One target model, its drafts, and how its engine is set up."""

    name: str
    weights: str
    sha256: str | None = None
    license: str | None = None
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    max_model_len: int | None = Field(default=None, ge=16)
    chat_template: bool = True
    chat_template_kwargs: dict[str, Any] = {}
    k: int = Field(default=7, ge=1)
    drafts: dict[str, dict[str, Any]] = Field(default={"ngram": NGRAM}, min_length=1)
    engine: dict[str, Any] = {}
    defaults: Defaults = Defaults()

    @field_validator("drafts")
    @classmethod
    def _each_draft_has_a_method(cls, drafts: dict[str, dict[str, Any]]) -> Any:
        for name, options in drafts.items():
            if not isinstance(options.get("method"), str):
                raise ValueError(f"draft {name!r} needs a 'method', such as ngram or eagle3")
            if "num_speculative_tokens" in options:
                raise ValueError(f"draft {name!r}: K is set by 'k' or --k, not in the draft")
        return drafts

    def draft(self, name: str | None) -> Draft:
        """The draft of this name; the first one configured when no name is given."""
        if name is None:
            name = next(iter(self.drafts))
        if name not in self.drafts:
            known = ", ".join(self.drafts)
            raise UsageError(
                f"--draft {name}: {self.name} has no such draft", hint=f"its drafts are: {known}"
            )
        return Draft(name, self.drafts[name])


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
        return ModelConfig(name=path.resolve().name, weights=str(path.resolve()))
    if path.suffix == ".gguf" and path.is_file():
        return ModelConfig(name=path.stem, weights=str(path.resolve()), dtype="float32")
    if re.fullmatch(r"(hub:)?[\w.-]+/[\w.-]+(@[\w./-]+)?", reference) and not path.exists():
        name = reference.removeprefix("hub:")
        return ModelConfig(name=name.split("/")[1], weights=f"hub:{name}")
    raise UsageError(f"--model {reference}: no such model", hint=_choices(known))


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
        return ModelConfig(**data)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "(top level)"
        message = first["msg"].removeprefix("Value error, ")
        raise UsageError(
            f"{path}: key {key}: {message[0].lower()}{message[1:]}",
            hint="see configs/models for examples",
        ) from None
