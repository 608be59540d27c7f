from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mars_cli.engine.engine import Engine
from mars_cli.engine.protocol import EngineSpec

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
