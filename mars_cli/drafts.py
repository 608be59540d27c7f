"""What proposes tokens, as a configuration says it: one class a method, with vLLM's options.

Options are those of vLLM's `speculative_config`, by its names. What is wrong in what is written is
refused here; what only the checkpoints tell, in `engine/draft_checks.py`.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)


class Strict(BaseModel):
    """Nothing but its fields, each of its own type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Whole = Annotated[int, Field(ge=1)]
Billions = Annotated[float, Field(gt=0)]


class DraftConfig(Strict):
    """A draft of any method; an option that is not said is left to vLLM."""

    about: ClassVar[str]  # the method in a few words
    ours: ClassVar[frozenset[str]] = frozenset({"k", "parameters"})  # which vLLM does not get

    method: str
    k: Whole | None = None  # where it differs from the model's
    # Others decide without the target's logits, or by ratios that a rule would distort.
    rejection_sample_method: Literal["standard"] | None = None

    @model_serializer(mode="wrap")
    def _as_said(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in serialize(self).items() if value is not None}

    def options(self) -> dict[str, Any]:
        """The `speculative_config` of vLLM without K; `model` still as it is written."""
        return {name: value for name, value in self.model_dump().items() if name not in self.ours}


class Loaded(DraftConfig):
    """A draft of layers that vLLM loads; its `model` is a reference, as a model's `weights`."""

    parameters: Billions | None = None  # in billions; for what `mars models` says of memory
    draft_tensor_parallel_size: Whole | None = None
    quantization: str | None = None
    max_model_len: Whole | None = None
    enforce_eager: bool | None = None
    attention_backend: str | None = None
    kv_cache_dtype: str | None = None
    moe_backend: str | None = None
    draft_sample_method: Literal["greedy", "probabilistic"] | None = None

    @field_validator("model", check_fields=False)
    @classmethod
    def _is_a_reference(cls, model: str | None) -> str | None:
        from mars_cli import references
        from mars_cli.errors import UsageError

        if model is not None:
            try:
                references.read(model)
            except UsageError as error:
                raise ValueError(str(error)) from None
        return model


class Trained(Loaded):
    """One with weights of its own."""

    model: str


class Eagle3(Trained):
    """EAGLE-3; with `parallel_drafting`, P-EAGLE."""

    about = "a head trained on three of the target's layers (EAGLE-3)"

    method: Literal["eagle3"]
    parallel_drafting: bool | None = None


class Eagle(Trained):
    """EAGLE and EAGLE-2."""

    about = "a head trained on the target's last layer (EAGLE, EAGLE-2)"

    method: Literal["eagle"]


class DraftModel(Trained):
    """A small model with the target's tokenizer; with `parallel_drafting`, PARD."""

    about = "a small model with the same tokenizer"

    method: Literal["draft_model"]
    parallel_drafting: bool | None = None
    use_heterogeneous_vocab: bool | None = None

    @model_validator(mode="after")
    def _drafts_greedily_in_another_vocabulary(self) -> DraftModel:
        if self.use_heterogeneous_vocab and self.draft_sample_method == "probabilistic":
            raise ValueError("use_heterogeneous_vocab needs draft_sample_method: greedy")
        return self


class Mtp(Loaded):
    """Multi-token prediction, by layers of the target or a checkpoint of its own."""

    about = "layers of the target's own, trained to look ahead (MTP)"

    method: Literal["mtp"]
    model: str | None = None
    index_share_for_mtp_iteration: bool | None = None


class DFlash(Trained):
    """DFlash: a block of drafts at once."""

    about = "a head that drafts a whole block at once (DFlash)"

    method: Literal["dflash"]


class Ngram(DraftConfig):
    """Prompt lookup: what followed the last tokens when they stood there before."""

    about = "what followed the same tokens earlier in the text; needs no weights"

    method: Literal["ngram"]
    prompt_lookup_min: Whole | None = None
    prompt_lookup_max: Whole | None = None

    @model_validator(mode="after")
    def _least_is_not_above_most(self) -> Ngram:
        least, most = self.prompt_lookup_min, self.prompt_lookup_max
        if least is not None and most is not None and least > most:
            raise ValueError(f"prompt_lookup_min {least} is above prompt_lookup_max {most}")
        return self


class Suffix(DraftConfig):
    """Suffix decoding: prompt lookup with counts, in each request's own text.

    Its memory of earlier answers is off: lanes answer the same prompts, so that one lane's answer
    would be the next one's draft.
    """

    about = "likely continuations of the text itself; needs the package arctic-inference"

    method: Literal["suffix"]
    suffix_decoding_max_tree_depth: Whole | None = None
    suffix_decoding_max_cached_requests: int = 0
    suffix_decoding_max_spec_factor: Annotated[float, Field(ge=0)] | None = None
    suffix_decoding_min_token_prob: Annotated[float, Field(ge=0, le=1)] | None = None

    @field_validator("suffix_decoding_max_cached_requests")
    @classmethod
    def _lanes_share_no_answers(cls, requests: int) -> int:
        if requests:
            raise ValueError(
                "must be 0: with answers kept, one lane's answer is the draft of the next lane's"
            )
        return requests


class CustomClass(DraftConfig):
    """A proposer of one's own, by its import path."""

    about = "a class of your own, by its import path"

    method: Literal["custom_class"]
    model: Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")]


AnyDraft = Annotated[
    Eagle3 | Eagle | DraftModel | Mtp | DFlash | Ngram | Suffix | CustomClass,
    Field(discriminator="method"),
]
METHODS: dict[str, type[DraftConfig]] = {
    "eagle3": Eagle3,
    "eagle": Eagle,
    "draft_model": DraftModel,
    "ngram": Ngram,
    "suffix": Suffix,
    "mtp": Mtp,
    "dflash": DFlash,
    "custom_class": CustomClass,
}
NGRAM = Ngram(method="ngram", prompt_lookup_min=2, prompt_lookup_max=4)


def weights_of(options: dict[str, Any]) -> str | None:
    """Where a draft with these options has weights of its own, or None."""
    loaded = issubclass(METHODS[options["method"]], Loaded)
    model: str | None = options.get("model") if loaded else None
    return model
