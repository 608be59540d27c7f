"""Our quality phase beside what others do with the same prompts and the same engine arguments.

Engines loaded and warm, the sides in turn, round by round:

1. tokens/s of `run_quality` into a run directory (all but the scoring: prompts and answers
   recorded, keys) over those of one `vllm.LLM.generate`, autoregressive and strict;
2. wall time of preparing the prompts, generating, recording and scoring over that of lm-eval's
   own `evaluate` on its own `vllm` model.

Then whole processes (benchmarks/once.py): imports, loading and exit included.

Both sides must have given the same tokens and the same scores, and have run as many threads.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.ratios import Bar, Row, rotated
from benchmarks.reference import ENVIRONMENT, Reference, opening
from benchmarks.setting import Setting, open_run, prepare
from mars_cli.analysis.stats import log_ratio
from mars_cli.engine.engine import Engine
from mars_cli.engine.lane import Lane
from mars_cli.evaluation.lm import Prompt
from mars_cli.evaluation.quality import run_quality
from mars_cli.runs.files import read_records
from mars_cli.runs.run import Run

TASK = "mars_products"
PLAIN = (32, 16)  # documents, requests in flight
DRAFTED = (12, 4)  # verifying K + 1 tokens of each fills the cores of a small machine with fewer
ROUNDS = 6
STARTS = 3
OURS, GENERATE, LM_EVAL = "ours", "LLM.generate", "lm-eval"


@dataclass(frozen=True)
class Done:
    """What one side did in one turn; nan or None where it has nothing of the kind."""

    wall: float = nan  # seconds of the whole phase
    rate: float = nan  # tokens/s of generating alone
    tokens: dict[int, list[int]] | None = None  # by document
    scores: dict[int, Any] | None = None


Round = dict[str, Done]


class Clock:
    """Watches a quality phase: when generation was done."""

    generated = 0.0

    @contextlib.contextmanager
    def phase(self, label: str, total: int, done: int = 0) -> Iterator[Callable[[int], None]]:
        yield lambda count: None
        self.generated = time.monotonic()

    def note(self, message: str) -> None:
        print(message, file=sys.stderr)


def measure() -> list[Row]:
    """Two rows of tokens/s, two of wall time."""
    setting, other = prepare(TASK, *PLAIN), prepare(TASK, *DRAFTED)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        plain = _rounds(setting, setting.ar, place, scored=True)
        drafted = _rounds(other, other.strict, place, scored=False)
        ours, theirs = _processes(setting, place)
    our_walls, their_walls = ([turns[side].wall for turns in plain] for side in (OURS, LM_EVAL))
    return [
        _rate_row("autoregressive", plain),
        _rate_row("strict n-gram", drafted),
        _wall_row("engines loaded", our_walls, their_walls),
        _wall_row("whole process", ours, theirs),
    ]


def generate_and_score(
    setting: Setting, lane: Lane, engine: Engine, run: Run, prompts: list[Prompt]
) -> Done:
    """The quality phase into an open run; its wall time is without that of the prompts."""
    clock = Clock()
    started = time.monotonic()
    run_quality(
        run,
        setting.task,
        lane,
        engine,
        prompts=prompts,
        tokenizer=setting.tokenizer,
        settings=setting.settings,
        identity="benchmark",
        limit=setting.limit,
        samples=None,
        concurrency=setting.concurrency,
        progress=clock,
    )
    wall = time.monotonic() - started
    records = list(read_records(run.quality(setting.task.name, lane.id)))
    tokens = {record["doc_id"]: record["token_ids"] for record in records}
    return Done(
        wall=wall,
        rate=_count(tokens) / (clock.generated - started),
        tokens=tokens,
        scores={record["doc_id"]: record["scores"][setting.task.metric] for record in records},
    )


def _rounds(setting: Setting, lane: Lane, folder: Path, *, scored: bool) -> list[Round]:
    """The sides in rotating order, lm-eval only with `scored`. A first round warms up."""
    spec, prompts = setting.specs[lane.engine_id], setting.prompts()
    with (
        Engine(spec, folder / f"{lane.id}.log") as engine,
        Reference(spec, TASK, setting.limit, folder / f"{lane.id}-reference.log") as reference,
    ):
        _check_same("threads", engine.facts["threads"], reference.threads)

        def ours() -> Done:
            with open_run(Path(tempfile.mkdtemp(dir=folder))) as run:
                started = time.monotonic()
                prepared = setting.prompts()
                preparing = time.monotonic() - started
                done = generate_and_score(setting, lane, engine, run, prepared)
            return replace(done, wall=preparing + done.wall)

        def generate() -> Done:
            seconds, answers = reference.generate(prompts)
            tokens = {p.doc_id: answer for p, answer in zip(prompts, answers, strict=True)}
            return Done(rate=_count(tokens) / seconds, tokens=tokens)

        def lm_eval() -> Done:
            seconds, scores = reference.evaluate()
            return Done(wall=seconds, scores=scores)

        sides = {OURS: ours, GENERATE: generate, **({LM_EVAL: lm_eval} if scored else {})}
        rounds = [
            {side: sides[side]() for side in rotated(list(sides), number)}
            for number in range(ROUNDS + 1)
        ]
    for turns in rounds:
        _check_same("tokens", turns[OURS].tokens, turns[GENERATE].tokens)
        if scored:
            _check_same("scores", turns[OURS].scores, turns[LM_EVAL].scores)
    return rounds[1:]


def _processes(setting: Setting, folder: Path) -> tuple[list[float], list[float]]:
    """Seconds of whole processes, ours and lm-eval's, in turn."""
    found: dict[str, list[float]] = {OURS: [], LM_EVAL: []}
    spec = setting.specs[setting.ar.engine_id]
    asked = json.dumps(opening(spec, TASK, setting.limit))
    for number in range(STARTS):
        for side in rotated(list(found), number):
            place = folder / f"{side}-{number}"
            argument = str(place) if side == OURS else asked
            with place.with_suffix(".log").open("wb") as log:
                started = time.monotonic()
                subprocess.run(
                    [sys.executable, "-m", "benchmarks.once", side, argument],
                    env={**os.environ, **ENVIRONMENT},
                    stdout=log,
                    stderr=log,
                    check=True,
                )
                found[side].append(time.monotonic() - started)
    return found[OURS], found[LM_EVAL]


def _rate_row(name: str, rounds: list[Round]) -> Row:
    ours, theirs = ([turns[side].rate for turns in rounds] for side in (OURS, GENERATE))
    return Row(
        f"tokens/s, quality phase / LLM.generate, {name}",
        f"{mean(ours):.0f}/s",
        f"{mean(theirs):.0f}/s",
        log_ratio(ours, theirs),
        len(rounds),
        Bar(0.97),
    )


def _wall_row(name: str, ours: list[float], theirs: list[float]) -> Row:
    return Row(
        f"wall time, quality phase / lm-eval, {name}",
        f"{mean(ours):.1f} s",
        f"{mean(theirs):.1f} s",
        log_ratio(ours, theirs),
        len(ours),
        Bar(1.0, at_most=True),
    )


def _count(tokens: dict[int, list[int]]) -> int:
    return sum(map(len, tokens.values()))


def _check_same(what: str, ours: Any, theirs: Any) -> None:
    if ours != theirs:
        raise SystemExit(f"the two sides do not have the same {what}: their times do not compare")
