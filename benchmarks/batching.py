"""All thetas in one batch, or theta after theta: what a sweep's quality phase had better do.

On the embedded model with its EAGLE-3 draft, one engine: seven thetas answer the same prompts, each
theta by itself, then all of them at once, every request with a theta of its own. Both sides ask
for the same; the order alternates.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

from benchmarks.ratios import Row, rotated
from benchmarks.setting import prepare
from benchmarks.sweep_cost import THETAS
from mars_cli.analysis.stats import log_ratio
from mars_cli.engine.engine import Engine
from mars_cli.engine.protocol import Request
from mars_cli.evaluation.quality import request_for
from mars_cli.verification.spec import RuleSpec

LIMIT, MAX_TOKENS, ROUNDS = 6, 48, 3
IN_FLIGHT = (4, 16)  # requests


def measure() -> list[Row]:
    """A row for each number of requests in flight."""
    return [row for number in IN_FLIGHT for row in _measure(number)]


def _measure(concurrency: int) -> Iterator[Row]:
    setting = prepare("mars_humaneval", LIMIT, concurrency, MAX_TOKENS, draft="eagle3")
    asked = [
        request_for(prompt, str(prompt.doc_id), use_prefix_cache=True, seed=0)
        for prompt in setting.prompts()
    ]
    with (
        tempfile.TemporaryDirectory() as folder,
        Engine(setting.specs[setting.strict.engine_id], Path(folder) / "engine.log") as engine,
    ):

        def apart() -> None:
            for theta in THETAS:
                engine.set_rule(RuleSpec.of("mars", theta=theta))
                list(engine.generate(asked, concurrency))

        def at_once() -> None:
            list(engine.generate([_with(r, theta) for theta in THETAS for r in asked], concurrency))

        sides = {"apart": apart, "at once": at_once}
        found: dict[str, list[float]] = {side: [] for side in sides}
        apart()  # warms up, and fills the prefix cache for both
        for number in range(ROUNDS):
            for side in rotated(list(sides), number):
                started = time.monotonic()
                sides[side]()
                found[side].append(time.monotonic() - started)
    yield Row(
        f"quality of {len(THETAS)} thetas, one batch / apart, {concurrency} in flight",
        f"{mean(found['at once']):.1f} s",
        f"{mean(found['apart']):.1f} s",
        log_ratio(found["at once"], found["apart"]),
        ROUNDS,
    )


def _with(request: Request, theta: float) -> Request:
    """The same request with a theta of its own."""
    return Request(
        id=f"{request.id} {theta}",
        prompt_token_ids=request.prompt_token_ids,
        max_tokens=request.max_tokens,
        stop=request.stop,
        sampling={**request.sampling, "extra_args": {"mars_theta": theta}},
    )
