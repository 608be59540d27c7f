"""What an evaluation is to do: everything checked, nothing started."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mars_cli.config import ModelConfig
from mars_cli.engine.lane import Lane
from mars_cli.engine.protocol import EngineSpec
from mars_cli.evaluation.baseline import Baseline
from mars_cli.evaluation.lm import Prompt, Settings
from mars_cli.evaluation.tasks import Task


@dataclass(frozen=True)
class Job:
    """A resolved evaluation."""

    config: ModelConfig
    weights: str
    fingerprint: list[str]  # of the target, and of a draft with weights of its own
    lanes: list[Lane]
    tasks: list[Task]
    specs: dict[str, EngineSpec]
    tokenizer: Any
    settings: Settings
    prompts: dict[str, list[Prompt]]
    limits: dict[str, int | None]  # documents of each task; None for all
    speed_prompts: int
    repeats: int
    max_num_seqs: int  # requests in flight in the quality phase
    concurrency: tuple[int, ...] = (1,)  # requests in flight in the speed phase, one after another
    skip: int = 0  # documents of each task, before those
    samples: int | None = None  # of each document; None for each task's own number
    baseline: Baseline | None = None  # an earlier run to take answers from, settled
    fidelity: bool = True
    sequential: bool = False  # the engines do not fit side by side
    cell_timeout: float | None = None  # seconds for a lane on a task in the quality phase, and
    # for what is timed at once in the speed phase; None for as long as it takes

    def identity(self, facts: dict[str, Any], *, drafted: bool = True) -> list[Any]:
        """What a record depends on: model, dtype, engine version and setup.

        Without `drafted` a draft's weights play no part.
        """
        weights = self.fingerprint if drafted else self.fingerprint[:1]
        return [self.config.name, weights, setup(facts)]

    def greedy(self, task: str) -> bool:
        """Whether no prompt of the task is decoded by chance."""
        return all(prompt.temperature == 0 for prompt in self.prompts[task])

    def to_time(self, task: str) -> list[Prompt]:
        """The prompts of a task that the speed phase times, of conversations the first turns."""
        return [one for one in self.prompts[task] if one.sample == 0][: self.speed_prompts]


def setup(facts: dict[str, Any]) -> dict[str, Any]:
    """What of an engine's facts its records depend on."""
    return {key: facts.get(key) for key in ("vllm", "runner", "dtype", "device", "graphs")}


def differing(facts: dict[str, Any], before: dict[str, Any]) -> str | None:
    """The first key in which an engine is set up otherwise than one before."""
    return next((key for key, value in setup(facts).items() if value != before.get(key)), None)
