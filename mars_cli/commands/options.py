"""Options that several commands take, and what they mean."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

import click

from mars_cli.errors import UsageError

if TYPE_CHECKING:
    from mars_cli.verification.spec import RuleSpec

DEFAULT_MODEL = "smollm2-135m"
DEFAULT_THETA = 0.9

model = click.option(
    "--model",
    default=DEFAULT_MODEL,
    show_default=True,
    metavar="NAME|ID|PATH|YAML",
    help="A configured name (`mars models`), a hub id, a checkpoint folder or a YAML file.",
)
theta = click.option(
    "--theta",
    type=float,
    multiple=True,
    help="A MARS lane with this theta; repeat for several.  [default: 0.9, unless --rule is given]",
)
rule = click.option(
    "--rule",
    multiple=True,
    metavar="NAME:KEY=VALUE,..",
    help="A lane with this rule: mars, prob-ratio, typical, topk-delta, topk; repeat for several.",
)
k = click.option(
    "--k", type=click.IntRange(min=1), help="Draft tokens a step.  [default: the model's]"
)
_WHICH = "The model's draft of this name, or METHOD:REFERENCE"
_DRAFT: dict[str, Any] = {"metavar": "NAME|METHOD:REF"}
draft = click.option(
    "--draft",
    multiple=True,
    help=f"{_WHICH}; repeat for several side by side.  [default: its first]",
    **_DRAFT,
)
one_draft = click.option("--draft", help=f"{_WHICH}.  [default: its first]", **_DRAFT)


def rules_of(thetas: tuple[float, ...], rules: tuple[str, ...]) -> list[RuleSpec]:
    """The rules that `--theta` and `--rule` ask for, in that order; the default for none.

    Raises:
        UsageError: one of them is not written as a rule, or out of range.
    """
    from mars_cli.verification.spec import RuleSpec

    asked = [("--theta", f"{theta:g}", f"mars:theta={theta!r}") for theta in thetas]
    asked += [("--rule", text, text) for text in rules]
    if not asked:
        asked = [("--theta", f"{DEFAULT_THETA}", f"mars:theta={DEFAULT_THETA}")]
    found = []
    for option, given, text in asked:
        try:
            found.append(RuleSpec.parse(text))
        except ValueError as error:
            raise UsageError(f"{option} {given}: {error}", hint=_RULE_HINTS[option]) from None
    return found


_RULE_HINTS = {
    "--theta": "the paper uses 0.84 to 0.96; 1 is strict",
    "--rule": "NAME or NAME:key=value,..., such as typical:epsilon=0.09,alpha=0.3",
}


def require_engine() -> None:
    """Refuse where vLLM and lm-eval are not installed."""
    from importlib.util import find_spec

    if find_spec("vllm") is None or find_spec("lm_eval") is None:
        raise UsageError(
            "this command needs vLLM and lm-eval, which are not installed here",
            hint="pip install 'mars-eval[gpu]', or `make venv` in a checkout for the CPU build",
        )


def quiet() -> None:
    """Keep libraries' chatter off our progress; engines write theirs to their logs."""
    os.environ["TQDM_DISABLE"] = "1"
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    for name in ("lm_eval", "torch", "vllm"):
        logging.getLogger(name).setLevel(logging.ERROR)
