from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Mars = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def mars() -> Mars:
    """Runs the command line in a process of its own."""

    def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "mars_cli", *arguments],
            capture_output=True,
            text=True,
            cwd=cwd,
            timeout=840,
            check=False,
            env={**os.environ, "COLUMNS": "100"},
        )

    return run
