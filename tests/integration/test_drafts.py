"""Each draft method that runs on a CPU, in real vLLM: only the rule decides what is kept."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from mars_cli.drafts import METHODS
from mars_cli.engine.engine import Engine
from mars_cli.engine.lane import Draft
from mars_cli.engine.protocol import EngineSpec, Generation, Request
from mars_cli.engine.setup import speculative_config
from mars_cli.verification.spec import STRICT, RuleSpec
from tests import tiny
from tests.integration.conftest import spec

pytestmark = pytest.mark.engine
K = 3
RULES = {
    "strict": STRICT,
    "theta 1": RuleSpec.of("mars", theta=1.0),
    "theta 0.3": RuleSpec.of("mars", theta=0.3),
}
REQUESTS = [
    Request(f"{n}", [0, *(3 + (7 * n + 5 * i) % 40 for i in range(12 + n))], max_tokens=40)
    for n in range(8)
]
Lanes = dict[str, dict[str, Generation]]


def options(method: str, folder: Path) -> dict[str, Any]:
    """What a configuration would say of the draft."""
    target = tiny.llama(20)
    if method == "eagle3":
        tiny.save_eagle3(folder / method, target)
        return {"model": str(folder / method)}
    if method == "draft_model":
        tiny.save_noisy(folder / method, target, noise=0.02)
        return {"model": str(folder / method)}
    if method == "custom_class":
        return {"model": "tests.integration.repeating.Repeating"}
    return {"suffix_decoding_max_spec_factor": 4.0}  # K drafts behind any match


def ask(engine: Engine) -> dict[str, Generation]:
    return {generation.id: generation for generation in engine.generate(REQUESTS, concurrency=4)}


@pytest.fixture(scope="module")
def plain(engines: tuple[Engine, Engine]) -> dict[str, list[int]]:
    return {key: generation.token_ids for key, generation in ask(engines[0]).items()}


@pytest.fixture(scope="module", params=["eagle3", "draft_model", "suffix", "custom_class"])
def lanes(
    request: pytest.FixtureRequest, tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory
) -> Lanes:
    method = request.param
    if method == "suffix" and find_spec("arctic_inference") is None:
        pytest.skip("suffix needs the package arctic-inference")
    folder = tmp_path_factory.mktemp(method)
    written = METHODS[method].model_validate({"method": method, **options(method, folder)})
    speculative = speculative_config(Draft(method, written.options()), K)
    made = spec(tiny_checkpoint, method, speculative)
    root = str(Path(__file__).parents[2])
    found = {}
    with Engine(EngineSpec(made.name, made.args, {"PYTHONPATH": root}), folder / "log") as engine:
        for name, rule in RULES.items():
            engine.set_rule(rule)
            found[name] = ask(engine)
    return found


def test_strict_is_lossless(lanes: Lanes, plain: dict[str, list[int]]) -> None:
    assert {key: one.token_ids for key, one in lanes["strict"].items()} == plain
    assert sum(sum(one.accepted) for one in lanes["strict"].values()) > 0
    assert max(max(one.drafted) for one in lanes["strict"].values()) == K


def test_theta_one_is_strict(lanes: Lanes) -> None:
    for key, strict in lanes["strict"].items():
        one = lanes["theta 1"][key]
        assert (one.token_ids, one.step_tokens) == (strict.token_ids, strict.step_tokens)


def test_relaxed_tokens_are_counted(lanes: Lanes, plain: dict[str, list[int]]) -> None:
    relaxed = lanes["theta 0.3"]
    assert sum(len(one.relaxed_at) for one in relaxed.values()) > 0
    for key, one in relaxed.items():
        differing = (
            n for n, (a, b) in enumerate(zip(one.token_ids, plain[key], strict=False)) if a != b
        )
        first = next(differing, None)
        assert one.relaxed_at[:1] == ([] if first is None else [first])
