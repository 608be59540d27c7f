"""What the rule costs a step.

On the embedded model, the HumanEval prompts, K = 7 n-gram drafts, concurrency 1:

1. seconds spent in the seam outside the engine's own sampler, per step, as a share of the step,
   for a lane whose rule is computed on every verified row (theta 1 relaxes nothing);
2. wall time strict / theta 1, pair by pair. Both give the same tokens, so the rule is all that
   differs; the order within a pair alternates.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.ratios import Bar, Row
from benchmarks.setting import prepare
from mars_cli.analysis.stats import log_ratio
from mars_cli.engine.engine import Engine
from mars_cli.engine.lane import Lane
from mars_cli.engine.protocol import Generation, Request
from mars_cli.evaluation.quality import request_for

PROMPTS = 12
MAX_TOKENS = 96
Timed = tuple[Generation, float, int]  # and what the seam added: seconds, verified steps


def measure() -> list[Row]:
    """The share of strict and of theta 1, and the ratio of their wall times."""
    setting = prepare("mars_humaneval", PROMPTS, concurrency=4, max_tokens=MAX_TOKENS)
    strict, one = setting.strict, setting.relaxed
    asked = [
        request_for(prompt, str(prompt.doc_id), use_prefix_cache=False, seed=0)
        for prompt in setting.prompts()
    ]
    pairs: list[dict[str, Timed]] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        Engine(setting.specs[strict.engine_id], Path(folder) / "engine.log") as engine,
    ):
        for lane in (strict, one):
            _timed(engine, lane, asked[0])
        for number, request in enumerate(asked):
            order = (strict, one) if number % 2 else (one, strict)
            pairs.append({lane.id: _timed(engine, lane, request) for lane in order})
    if any(pair[strict.id][0].token_ids != pair[one.id][0].token_ids for pair in pairs):
        raise SystemExit("theta 1 did not give the tokens of strict")
    return _rows(pairs, strict.id, one.id)


def _timed(engine: Engine, lane: Lane, request: Request) -> Timed:
    engine.set_rule(lane.rule)
    seconds, calls = engine.cost()
    (generation,) = engine.generate([request])
    more_seconds, more_calls = engine.cost()
    return generation, more_seconds - seconds, more_calls - calls


def _rows(pairs: list[dict[str, Timed]], strict: str, one: str) -> list[Row]:
    rows = []
    walls = {lane: [pair[lane][0].seconds for pair in pairs] for lane in (strict, one)}
    steps = sum(len(pair[one][0].step_tokens) for pair in pairs)
    for lane, name in ((strict, "strict"), (one, "theta 1")):
        seam = [pair[lane][1] for pair in pairs]
        rows.append(
            Row(
                f"seam / step, {name}",
                f"{1e6 * sum(seam) / steps:.0f} us",
                f"{1e3 * sum(walls[lane]) / steps:.1f} ms",
                log_ratio(seam, walls[lane]),
                len(pairs),
                Bar(0.01, at_most=True),
            )
        )
    rows.append(
        Row(
            "wall time, strict / theta 1",
            f"{sum(walls[strict]):.1f} s",
            f"{sum(walls[one]):.1f} s",
            log_ratio(walls[strict], walls[one]),
            len(pairs),
        )
    )
    return rows
