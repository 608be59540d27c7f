"""What the rule costs: `python -m benchmarks.hook_cost` (`make bench`).

On the embedded model, the HumanEval prompts, K = 7 n-gram drafts, concurrency 1:

1. seconds spent in the seam outside the engine's own sampler, per step, as a share of the step,
   for a lane whose rule is computed on every verified row (theta 1 relaxes nothing);
2. wall time strict / theta 1, pair by pair. Both give the same tokens, so the rule is all that
   differs; the order within a pair alternates.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from pathlib import Path
from typing import Any

from mars_cli.analysis.stats import log_ratio
from mars_cli.assets import resolve_weights
from mars_cli.config import load_model
from mars_cli.engine.engine import Engine
from mars_cli.engine.lane import Lane, plan_lanes
from mars_cli.engine.protocol import Generation, Request
from mars_cli.engine.setup import engine_specs
from mars_cli.evaluation.tasks import load_tasks
from mars_cli.verification.spec import RuleSpec

PROMPTS = 12
MAX_TOKENS = 96


def requests(weights: str) -> list[Request]:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(weights)
    (task,) = load_tasks(["mars_humaneval"])
    found = []
    for number, document in enumerate(task.definition.eval_docs):
        if number == PROMPTS:
            break
        message = [{"role": "user", "content": task.definition.doc_to_text(document)}]
        text = tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
        ids = tokenizer.encode(text, add_special_tokens=False)
        found.append(Request(str(number), ids, MAX_TOKENS, use_prefix_cache=False))
    return found


def timed(engine: Engine, lane: Lane, request: Request) -> tuple[Generation, float, int]:
    """One generation, and what the seam added to it: seconds and verified steps."""
    engine.set_rule(lane.rule)
    seconds, calls = engine.cost()
    (generation,) = engine.generate([request])
    more_seconds, more_calls = engine.cost()
    return generation, more_seconds - seconds, more_calls - calls


def main() -> int:
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    config = load_model("smollm2-135m")
    weights = resolve_weights(config.weights, sha256=config.sha256)
    lanes = plan_lanes(config.draft("ngram"), config.k, [RuleSpec.of("mars", theta=1.0)], None, 0)
    specs = engine_specs(config, weights, lanes, concurrency=4, overrides={})
    strict, one = lanes[1:]
    pairs: list[dict[str, tuple[Generation, float, int]]] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        Engine(specs[strict.engine_id], Path(folder) / "engine.log") as engine,
    ):
        asked = requests(weights)
        for lane in (strict, one):
            timed(engine, lane, asked[0])
        for number, request in enumerate(asked):
            order = (strict, one) if number % 2 else (one, strict)
            pairs.append({lane.id: timed(engine, lane, request) for lane in order})
    return report(pairs, strict.id, one.id)


def report(pairs: list[dict[str, tuple[Any, float, int]]], strict: str, one: str) -> int:
    if any(pair[strict][0].token_ids != pair[one][0].token_ids for pair in pairs):
        print("theta 1 did not give the tokens of strict", file=sys.stderr)
        return 1
    walls = {lane: [pair[lane][0].seconds for pair in pairs] for lane in (strict, one)}
    steps = sum(len(pair[one][0].step_tokens) for pair in pairs)
    for lane in (strict, one):
        seam = sum(pair[lane][1] for pair in pairs)
        wall = sum(walls[lane])
        print(
            f"{lane}: {1e6 * seam / steps:.0f} us in the seam of a step of "
            f"{1e3 * wall / steps:.1f} ms: {100 * seam / wall:.2f}%"
        )
    ratio = log_ratio(walls[strict], walls[one])
    low, high = ratio.interval or (float("nan"), float("nan"))
    print(
        f"wall time strict / theta 1: {ratio.value:.3f} [{low:.3f}, {high:.3f}], n = {len(pairs)}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
