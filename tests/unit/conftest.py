from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _no_engine_is_prepared_for() -> Iterator[None]:
    """Commands run here meet no engine: nothing need import vLLM for one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mars_cli.engine.process.begin", lambda: None)
        yield
