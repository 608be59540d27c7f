"""The installed data wins, the checkout is next, and neither is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from mars_cli import resources
from mars_cli.errors import MarsError

ROOT = Path(__file__).resolve().parents[2]


def test_a_checkout_reads_its_own_top_level_folders() -> None:
    assert resources.configs_dir() == ROOT / "configs"
    assert resources.tasks_dir() == ROOT / "tasks"


def test_data_inside_the_package_wins_over_what_lies_beside_it(tmp_path: Path) -> None:
    package = tmp_path / "mars_cli"
    (tmp_path / "tasks").mkdir()
    assert resources._shipped("tasks", package) == tmp_path / "tasks"
    (package / "_data" / "tasks").mkdir(parents=True)
    assert resources._shipped("tasks", package) == package / "_data" / "tasks"


def test_data_that_is_nowhere_names_both_places(tmp_path: Path) -> None:
    package = tmp_path / "mars_cli"
    with pytest.raises(MarsError, match="shipped with mars is missing") as caught:
        resources._shipped("tasks", package)
    assert str(package / "_data" / "tasks") in str(caught.value)
    assert str(tmp_path / "tasks") in str(caught.value)
