"""lm-eval adapter: prompts are prepared exactly as lm-eval's own `vllm` model prepares them.

Scores are only comparable if prompt ids, stop strings, length limits and what is cut from an
answer afterwards are the same, so these rules follow `lm_eval/models/vllm_causallms.py` (0.4.13):
no second BOS, EOS added to the stop strings, special tokens kept, prompts truncated from the left.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.models.utils import (
    handle_stop_sequences,
    maybe_truncate,
    normalize_gen_kwargs,
    postprocess_generated_text,
)

from mars_cli.errors import UsageError
from mars_cli.runs.provenance import digest

DEFAULT_MAX_TOKENS = 256  # lm-eval's own, for tasks that set none


@dataclass(frozen=True)
class Prompt:
    """One generation asked for by a task: what every lane gets, to the token."""

    task: str
    doc_id: int
    sample: int
    text: str
    token_ids: list[int]
    until: list[str]
    max_tokens: int
    temperature: float
    sampling: dict[str, Any] = field(default_factory=dict)
    truncated: bool = False
    turn: int = 0  # of a conversation; later ones hold the lane's own earlier answers

    @property
    def hash(self) -> str:
        """Identifies the prompt and its limits; part of a record's key."""
        return digest(
            [self.token_ids, self.until, self.max_tokens, self.temperature, self.sampling]
        )

    @property
    def varies(self) -> bool:
        """Whether samples of it can differ: decoded by chance, and not from a seed of the task."""
        return self.temperature > 0 and self.sampling.get("seed") is None

    def record(self) -> dict[str, Any]:
        """As it stands in records/prompts."""
        return {
            "doc_id": self.doc_id,
            "sample": self.sample,
            "turn": self.turn,
            "prompt": self.text,
            "prompt_token_ids": self.token_ids,
            "until": self.until,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "truncated": self.truncated,
            "hash": self.hash,
        }


@dataclass(frozen=True)
class Settings:
    """What the command line overrides in a task's own generation settings."""

    max_model_len: int
    chat_template: bool
    chat_template_kwargs: dict[str, Any] = field(default_factory=dict)
    max_tokens: int | None = None
    temperature: float | None = None
    refuse_overflow: bool = False


class MarsLM(LM):  # type: ignore[misc]
    """Hands a task's prompts to `generate`, which returns one answer text each, in order."""

    def __init__(
        self,
        tokenizer: Any,
        settings: Settings,
        generate: Callable[[list[Prompt]], list[str]],
    ) -> None:
        super().__init__()
        self._tokenizer = tokenizer
        self._settings = settings
        self._generate = generate
        self._eos = tokenizer.decode(tokenizer.eos_token_id) or tokenizer.eos_token

    @property
    def tokenizer_name(self) -> str:
        """Name of the tokenizer, for lm-eval's request fingerprints."""
        return str(self._tokenizer.name_or_path).replace("/", "__")

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        """The model's own chat template, empty when it is not used."""
        return str(self._tokenizer.chat_template) if self._settings.chat_template else ""

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        """The conversation as one prompt string."""
        text = self._tokenizer.apply_chat_template(
            chat_history,
            tokenize=False,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=not add_generation_prompt,
            **self._settings.chat_template_kwargs,
        )
        return str(text)

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        """Refused: a rule changes which tokens are generated, never a likelihood."""
        raise _likelihood(requests)

    def loglikelihood_rolling(self, requests: list[Instance]) -> list[float]:
        """Refused, as `loglikelihood`."""
        raise _likelihood(requests)

    def generate_until(self, requests: list[Instance]) -> list[str]:
        """One answer for each request, cut at its stop strings."""
        prompts = self.prepare(requests)
        answers = self._generate(prompts)
        return [self.cut(one, prompt) for prompt, one in zip(prompts, answers, strict=True)]

    def cut(self, answer: str, prompt: Prompt) -> str:
        """An answer up to the first of the prompt's stop strings."""
        return str(postprocess_generated_text(answer, prompt.until, None))

    def render(self, messages: Sequence[dict[str, str]]) -> str:
        """A conversation as one prompt string, without a chat template blank lines between."""
        if self._settings.chat_template:
            return self.apply_chat_template(list(messages))
        return "\n\n".join(message["content"] for message in messages)

    def prepare(self, requests: list[Instance]) -> list[Prompt]:
        """The prompts of lm-eval's requests; one repeated k times becomes samples 0 to k-1."""
        seen: dict[tuple[str, int], int] = {}
        prompts = []
        for request in requests:
            key = (request.task_name, request.doc_id)
            seen[key] = seen.get(key, -1) + 1
            text, given = request.args
            prompt = self.prompt(request.task_name, request.doc_id, text, given)
            prompts.append(dataclasses.replace(prompt, sample=seen[key]))
        return prompts

    def prompt(self, task: str, doc_id: int, text: str, given: Mapping[str, Any]) -> Prompt:
        """One prompt with a task's generation settings, and what overrides them.

        Raises:
            UsageError: a setting is none of vLLM's, or the answer cannot fit the context.
        """
        kwargs: dict[str, Any] = dict(normalize_gen_kwargs(given, DEFAULT_MAX_TOKENS))
        until = handle_stop_sequences(kwargs.pop("until", None), self._eos)
        max_tokens = int(kwargs.pop("max_gen_toks"))
        temperature = float(kwargs.pop("temperature", 0.0))
        kwargs.pop("do_sample", None)
        if self._settings.max_tokens is not None:
            max_tokens = self._settings.max_tokens
        if self._settings.temperature is not None:
            temperature = self._settings.temperature
        _check_sampling(task, kwargs)
        limit = self._settings.max_model_len
        if max_tokens >= limit:
            raise UsageError(
                f"task {task} asks for {max_tokens} tokens, and the model's context "
                f"is set to {limit}",
                hint=f"give --max-tokens below {limit}, or a larger --engine-arg max_model_len=N",
            )
        fitted = self._fit(
            Prompt(
                task=task,
                doc_id=doc_id,
                sample=0,
                text=text,
                token_ids=self._encode(text),
                until=[stop for stop in until if stop],
                max_tokens=max_tokens,
                temperature=temperature,
                sampling=kwargs,
            )
        )
        if fitted.truncated and self._settings.refuse_overflow:
            raise UsageError(
                f"task {task}, document {doc_id}: its prompt leaves no room for an answer of "
                f"{max_tokens} tokens in a context of {limit}",
                hint="--on-overflow truncate, a smaller --max-tokens, or a larger --engine-arg "
                "max_model_len=N",
            )
        return fitted

    def next_turn(self, first: Prompt, turn: int, text: str) -> Prompt:
        """The prompt of a later turn, with the settings of the first one."""
        ids = self._encode(text)
        return self._fit(dataclasses.replace(first, turn=turn, text=text, token_ids=ids))

    def _fit(self, prompt: Prompt) -> Prompt:
        """The prompt cut from the left so that the context holds it and the answer."""
        ids, max_tokens = maybe_truncate(
            prompt.token_ids,
            max_gen_toks=prompt.max_tokens,
            max_model_len=self._settings.max_model_len,
            side="left",
            verbose=False,
        )
        return dataclasses.replace(
            prompt,
            token_ids=list(ids),
            max_tokens=max_tokens,
            truncated=len(ids) < len(prompt.token_ids),
        )

    def _encode(self, text: str) -> list[int]:
        bos = self._tokenizer.bos_token
        if bos and text.startswith(bos):
            return list(self._tokenizer.encode(text, add_special_tokens=False))
        return list(self._tokenizer.encode(text))


def _check_sampling(task: str, settings: dict[str, Any]) -> None:
    """Refuse here what would end the engine there."""
    if not settings:
        return
    from vllm import SamplingParams

    for name in settings:
        if name not in SamplingParams.__struct_fields__:
            raise UsageError(
                f"task {task}: its generation setting {name!r} is none that vLLM has",
                hint="see vLLM's SamplingParams for those there are",
            )


def _likelihood(requests: list[Instance]) -> UsageError:
    return likelihood_refusal(requests[0].task_name)


def likelihood_refusal(task: str) -> UsageError:
    """Why a task that scores likelihoods cannot be evaluated here."""
    return UsageError(
        f"--tasks {task}: scores the likelihood of given answers, and a verification rule "
        "changes only what is generated",
        hint="choose a task that generates, such as gsm8k; `mars tasks` lists ours",
    )
