from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mars_cli.engine.engine import Engine
from mars_cli.engine.protocol import EngineSpec

ON_V2 = re.compile(r"[\[-]V2[]-]")  # in a test's id


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """One worker's is all that Triton's interpreter runs, which is slow; else a file is.

    xdist's own groups do nothing with this pytest.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByEngine(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "V2" if ON_V2.search(nodeid) else nodeid.partition("::")[0]

    return ByEngine(config, log)


DRAFT = {"method": "ngram", "prompt_lookup_min": 1, "prompt_lookup_max": 3}


def spec(
    checkpoint: Path, name: str, speculative: dict[str, Any] | None, **more: Any
) -> EngineSpec:
    return EngineSpec(
        name,
        {
            "model": str(checkpoint),
            "dtype": "float32",
            "max_model_len": 512,
            "max_num_seqs": 8,
            "enforce_eager": True,
            "enable_prefix_caching": True,
            "kv_cache_memory_bytes": 2**26,
            "speculative_config": speculative,
            **more,
        },
    )


@pytest.fixture(scope="session")
def make_spec() -> Callable[..., EngineSpec]:
    return spec


@pytest.fixture(scope="session")
def engines(
    tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Engine, Engine]]:
    """The autoregressive and the speculating engine, loaded once and side by side."""
    logs = tmp_path_factory.mktemp("logs")
    drafted = {**DRAFT, "num_speculative_tokens": 5}
    plain = Engine(spec(tiny_checkpoint, "ar", None), logs / "ar.log")
    speculating = Engine(spec(tiny_checkpoint, "ngram-k5", drafted), logs / "ngram.log")
    try:
        plain.start()
        speculating.start()
        for engine in (plain, speculating):
            engine.ready()
            engine.facts["seam calls after loading"] = engine.cost()[1]
        yield plain, speculating
    finally:
        plain.stop()
        speculating.stop()


class LabEngine(Engine):
    """An engine whose process (lab_host.py) can be asked for more."""

    host = "tests.integration.lab_host:LabHost"

    def ask(self, method: str, *arguments: Any) -> Any:
        return self._call(method, *arguments)


SCRIPTED = {"method": "custom_class", "model": "tests.integration.scripted.ScriptedProposer"}
INTERPRETED = {
    "TRITON_INTERPRET": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "VLLM_USE_V2_MODEL_RUNNER": "1",
    "MARS_TEST_SCRIPT": "1",
}


def lab_spec(checkpoint: Path, runner: str, **more: Any) -> EngineSpec:
    """A speculating engine with K = 4, of runner V1 or V2."""
    speculative = SCRIPTED if runner == "V1" else DRAFT
    made = spec(
        checkpoint,
        f"scripted-{runner}",
        {**speculative, "num_speculative_tokens": 4},
        logprobs_mode="processed_logits",
        max_num_batched_tokens=64,  # longer prompts come in chunks
        block_size=32,
        kv_cache_memory_bytes=20 * 32 * 1024,  # 20 blocks: long requests evict one another
        **more,
    )
    return EngineSpec(made.name, made.args, INTERPRETED if runner == "V2" else {})


@pytest.fixture(scope="session", params=["V1", "V2"])
def lab(
    request: pytest.FixtureRequest,
    tiny_checkpoint: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[LabEngine]:
    """An engine with scripted drafts for each runner, V2 under Triton's interpreter."""
    log = tmp_path_factory.mktemp("lab") / f"{request.param}.log"
    with LabEngine(lab_spec(tiny_checkpoint, request.param), log) as engine:
        assert engine.facts["runner"] == request.param
        yield engine
