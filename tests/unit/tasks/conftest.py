from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mars_cli.scoring import sandbox
from tests.unit.tasks.loading import FOLDER


@pytest.fixture(autouse=True)
def _forbidden() -> Iterator[None]:
    """Code may not run unless a test allows it."""
    sandbox.allow(False)
    yield
    sandbox.allow(False)


@pytest.fixture(scope="session")
def manager() -> Any:
    tasks = pytest.importorskip("lm_eval.tasks", reason="lm-eval comes with the extras cpu and gpu")
    return tasks.TaskManager(include_path=str(FOLDER), include_defaults=False)
