"""What all benchmarks that start an engine share: the embedded model, a task, three lanes."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mars_cli.assets import resolve_weights
from mars_cli.config import load_model
from mars_cli.engine.lane import Lane, plan_lanes
from mars_cli.engine.protocol import EngineSpec
from mars_cli.engine.setup import engine_specs
from mars_cli.evaluation.lm import Prompt, Settings
from mars_cli.evaluation.quality import prepare_prompts
from mars_cli.evaluation.tasks import Task, load_tasks
from mars_cli.runs.run import Run
from mars_cli.verification.spec import RuleSpec


@dataclass(frozen=True)
class Setting:
    """A task on the embedded model: all that an evaluation of it needs before an engine starts."""

    task: Task
    limit: int
    concurrency: int
    ar: Lane
    strict: Lane
    relaxed: Lane  # theta 1: the rule is computed on every verified row and relaxes nothing
    specs: dict[str, EngineSpec]
    tokenizer: Any
    settings: Settings

    def prompts(self) -> list[Prompt]:
        """The prompts of the task's first `limit` documents, in the order in which lm-eval asks.

        How full the last batches are depends on the order: 10% of the time of a few documents.
        """
        found = prepare_prompts(self.task, self.tokenizer, self.settings, self.limit)
        return sorted(found, key=lambda prompt: (-len(prompt.token_ids), prompt.text))


def prepare(
    task: str, limit: int, concurrency: int, max_tokens: int | None = None, draft: str = "ngram"
) -> Setting:
    """As `mars eval` prepares it."""
    from transformers import AutoTokenizer

    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    config = load_model("smollm2-135m")
    (loaded,) = load_tasks([task])
    weights = resolve_weights(config.weights, sha256=config.sha256)
    ar, strict, relaxed = plan_lanes(
        config.draft(draft), config.k_of(draft), [RuleSpec.of("mars", theta=1.0)], None, 0
    )
    specs = engine_specs(config, weights, [ar, strict], max_num_seqs=concurrency, overrides={})
    settings = Settings(
        max_model_len=specs[ar.engine_id].args["max_model_len"],
        chat_template=True,
        max_tokens=max_tokens,
    )
    tokenizer = AutoTokenizer.from_pretrained(weights)
    return Setting(loaded, limit, concurrency, ar, strict, relaxed, specs, tokenizer, settings)


def open_run(folder: Path) -> Run:
    """A run directory of its own, for figures that include what writing one costs."""
    from mars_cli.runs.provenance import environment

    return Run(folder, {"benchmark": folder.name}, environment())
