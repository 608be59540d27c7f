from __future__ import annotations

from pathlib import Path

import pytest

from mars_cli.report.html import page
from tests.unit.report import made
from tests.unit.report.pages import RUN, small


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages without figures, which have tests of their own, and take seconds."""
    monkeypatch.setattr(page, "pictures", lambda *given, **more: '<div class="pictures"></div>')


@pytest.fixture
def outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    made.make(tmp_path / "outputs" / RUN, answers=small(), results=made.by_hand())
    return tmp_path / "outputs"
