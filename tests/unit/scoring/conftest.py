from __future__ import annotations

from collections.abc import Iterator

import pytest

from mars_cli.scoring import sandbox
from mars_cli.scoring.sandbox import LEVELS, Level
from tests.unit.scoring.sandboxed import OWN_FILES, offered


@pytest.fixture
def allowed() -> Iterator[None]:
    sandbox.allow()
    yield
    sandbox.allow(False)


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> Level:
    return offered(request.param)


@pytest.fixture(params=OWN_FILES)
def own_files(request: pytest.FixtureRequest) -> Level:
    return offered(request.param)
