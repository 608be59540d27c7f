"""Real vLLM on a tiny random model."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from mars_cli.engine.engine import Engine
from mars_cli.engine.protocol import EngineSpec, Generation, Request
from mars_cli.errors import EngineError
from mars_cli.verification.spec import STRICT, RuleSpec

pytestmark = pytest.mark.engine
Engines = tuple[Engine, Engine]
MakeSpec = Callable[..., EngineSpec]
HALF = RuleSpec.of("mars", theta=0.5)
PROMPTS = [[0, *(3 + (7 * n + 5 * i) % 40 for i in range(12 + n))] for n in range(8)]


def ask(engine: Engine, concurrency: int = 1, **changes: Any) -> dict[str, Generation]:
    requests = [
        dataclasses.replace(Request(f"{number}", prompt, max_tokens=48), **changes)
        for number, prompt in enumerate(PROMPTS)
    ]
    return {generation.id: generation for generation in engine.generate(requests, concurrency)}


def tokens(generations: dict[str, Generation]) -> dict[str, list[int]]:
    return {key: generation.token_ids for key, generation in generations.items()}


def holds_identity(generation: Generation) -> bool:
    """tokens = 1 + plain steps + sum over drafted steps of (1 + accepted) - discarded."""
    steps = list(zip(generation.drafted, generation.accepted, strict=True))[1:]
    plain = sum(drafted == 0 for drafted, _ in steps)
    emitted = 1 + plain + sum(1 + accepted for drafted, accepted in steps if drafted)
    discarded = (1 + generation.accepted[-1]) - generation.step_tokens[-1]
    return len(generation.token_ids) == sum(generation.step_tokens) == emitted - discarded


@pytest.fixture(scope="module")
def lanes(engines: Engines) -> dict[str, dict[str, Generation]]:
    plain, speculating = engines
    found = {"ar": ask(plain)}
    for name, rule in (
        ("strict", STRICT),
        ("theta 1", RuleSpec.of("mars", theta=1.0)),
        ("theta 0.5", HALF),
    ):
        speculating.set_rule(rule)
        found[name] = ask(speculating)
    return found


def test_strict_output_is_autoregressive_output(lanes: dict[str, dict[str, Generation]]) -> None:
    assert tokens(lanes["strict"]) == tokens(lanes["ar"])
    assert any(sum(generation.accepted) for generation in lanes["strict"].values())


def test_theta_one_has_the_very_tokens_and_steps_of_strict(
    lanes: dict[str, dict[str, Generation]],
) -> None:
    for key, strict in lanes["strict"].items():
        one = lanes["theta 1"][key]
        assert (one.token_ids, one.step_tokens) == (strict.token_ids, strict.step_tokens)
        assert one.relaxed_at == []


def test_relaxing_changes_the_output_and_is_seen(lanes: dict[str, dict[str, Generation]]) -> None:
    relaxed = lanes["theta 0.5"]
    assert tokens(relaxed) != tokens(lanes["strict"])
    assert sum(len(generation.relaxed_at) for generation in relaxed.values()) > 0
    for generation in relaxed.values():
        assert all(0 <= place < len(generation.token_ids) for place in generation.relaxed_at)


def test_first_difference_to_strict_is_a_relaxed_token(
    lanes: dict[str, dict[str, Generation]],
) -> None:
    for key, relaxed in lanes["theta 0.5"].items():
        strict = lanes["strict"][key]
        pairs = zip(relaxed.token_ids, strict.token_ids, strict=False)
        first = next((place for place, (a, b) in enumerate(pairs) if a != b), None)
        if first is None:
            assert relaxed.relaxed_at == []
        else:
            assert relaxed.relaxed_at[0] == first


def test_rule_changes_at_run_time_without_reloading(
    engines: Engines, lanes: dict[str, dict[str, Generation]]
) -> None:
    speculating = engines[1]
    pid = speculating.pid
    speculating.set_rule(HALF)
    assert tokens(ask(speculating)) == tokens(lanes["theta 0.5"])
    speculating.set_rule(STRICT)
    assert tokens(ask(speculating)) == tokens(lanes["strict"])
    assert speculating.pid == pid


@pytest.mark.parametrize("theta", [0.5, 1.0])
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"max_tokens": 1}, id="one token"),
        pytest.param({"max_tokens": 7}, id="max tokens inside a step"),
        pytest.param({"sampling": {"ignore_eos": True}, "max_tokens": 64}, id="no EOS"),
        pytest.param({"stop": list("etaoinshrdlu")}, id="stop strings"),
    ],
)
@pytest.mark.parametrize("concurrency", [1, 8])
def test_every_request_holds_the_identity(
    engines: Engines, theta: float, changes: dict[str, Any], concurrency: int
) -> None:
    speculating = engines[1]
    speculating.set_rule(RuleSpec.of("mars", theta=theta))
    generations = ask(speculating, concurrency, **changes)
    assert len(generations) == len(PROMPTS)
    assert all(holds_identity(generation) for generation in generations.values())
    assert all(g.seconds >= g.ttft_s > 0 for g in generations.values())


def test_draftless_steps_are_steps(engines: Engines) -> None:
    speculating = engines[1]
    speculating.set_rule(STRICT)
    generations = ask(speculating, 8).values()
    assert any(0 in generation.drafted[1:] for generation in generations)
    assert any(any(generation.drafted) for generation in generations)


def test_request_ends_at_end_of_sequence(
    engines: Engines, lanes: dict[str, dict[str, Generation]]
) -> None:
    """Each engine stops at a token that we name as EOS, in the middle of accepted drafts."""
    plain, speculating = engines
    longest = max(lanes["ar"].values(), key=lambda generation: len(set(generation.token_ids)))
    stop = longest.token_ids[len(longest.token_ids) // 2]
    speculating.set_rule(STRICT)
    stopped = {"sampling": {"stop_token_ids": [stop]}}
    ar, strict = ask(plain, **stopped), ask(speculating, **stopped)
    assert tokens(ar) == tokens(strict)
    assert ar[longest.id].token_ids[-1] == stop
    assert ar[longest.id].finish_reason == "stop"
    assert all(holds_identity(generation) for generation in strict.values())


def test_warm_up_is_not_counted(engines: Engines) -> None:
    assert [engine.facts["seam calls after loading"] for engine in engines] == [0, 0]


def test_engine_left_in_the_middle_does_nothing_else_and_its_death_is_one_clear_error(
    make_spec: MakeSpec, tiny_checkpoint: Path, tmp_path: Path
) -> None:
    with Engine(make_spec(tiny_checkpoint, "victim", None), tmp_path / "victim.log") as engine:
        pid = engine.pid
        assert pid is not None
        requests = [Request(str(n), PROMPTS[0], 400, sampling={"ignore_eos": True}) for n in "ab"]
        generation = engine.generate(requests, concurrency=1)
        next(generation)
        with pytest.raises(EngineError, match="in the middle of its work"):
            engine.set_rule(STRICT)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(EngineError, match="victim was killed by signal 9") as caught:
            list(generation)
        assert "victim.log" in str(caught.value.hint)
    assert not psutil.pid_exists(pid)


def test_engine_that_died_idle_is_an_error_when_used_and_none_when_stopped(
    make_spec: MakeSpec, tiny_checkpoint: Path, tmp_path: Path
) -> None:
    with Engine(make_spec(tiny_checkpoint, "idle", None), tmp_path / "idle.log") as engine:
        assert engine.pid is not None
        os.kill(engine.pid, signal.SIGKILL)
        with pytest.raises(EngineError, match="idle was killed by signal 9"):
            engine.set_rule(STRICT)


def test_model_that_is_none_is_one_clear_error(make_spec: MakeSpec, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with (
        pytest.raises(EngineError, match="failed:") as caught,
        Engine(make_spec(tmp_path, "broken", None), tmp_path / "broken.log"),
    ):
        pass
    assert "\n" not in str(caught.value)
    assert (tmp_path / "broken.log").read_text()
