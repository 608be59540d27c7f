"""docs/models.md names every method with its options, and its example is a valid configuration."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from mars_cli.config import Defaults, ModelConfig, load_model
from mars_cli.drafts import METHODS, DraftConfig, Loaded

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")


def row(method: str) -> tuple[str, str]:
    found = re.search(rf"^\| `{method}` \| ([^|]*) \| ([^|]*) \|$", PAGE, re.MULTILINE)
    assert found, method
    return found[1], found[2]


@pytest.mark.parametrize("method", METHODS)
def test_the_table_has_each_method_with_its_own_options(method: str) -> None:
    what, options = row(method)
    kind = METHODS[method]
    assert what == kind.about
    shared = Loaded if issubclass(kind, Loaded) else DraftConfig
    own = {name for name in kind.model_fields if name not in shared.model_fields}
    assert set(re.findall(r"`(\w+)`", options)) == own


def test_the_page_names_the_options_that_methods_share() -> None:
    shared = set(Loaded.model_fields) - {"method"}
    assert shared <= set(re.findall(r"`(\w+)`", PAGE))


def test_the_example_is_valid_and_shows_every_key(tmp_path: Path) -> None:
    block = re.search(r"^    name: my-model.*\n(?:    .*\n)+", PAGE, re.MULTILINE)
    assert block
    path = tmp_path / "mine.yaml"
    path.write_text(textwrap.dedent(block[0]))
    shown = load_model(str(path))
    assert shown.model_fields_set == set(ModelConfig.model_fields) - {"sha256"}
    assert shown.defaults.model_fields_set == set(Defaults.model_fields)
