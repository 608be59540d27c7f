from __future__ import annotations

from pathlib import Path

import pytest

from mars_cli.config import configured_models, load_model
from mars_cli.errors import UsageError


def test_every_configuration_that_ships_is_valid() -> None:
    names = list(configured_models())
    assert {"smollm2-135m", "qwen3-8b"} <= set(names)
    for name in names:
        assert load_model(name).name == name


def test_first_draft_is_the_default_and_an_unknown_one_is_refused() -> None:
    config = load_model("qwen3-8b")
    assert config.draft(None).name == "eagle3"
    assert config.draft("ngram").options["method"] == "ngram"
    with pytest.raises(UsageError, match="--draft nosuch") as caught:
        config.draft("nosuch")
    assert caught.value.hint == "its drafts are: eagle3, ngram"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("name: m\nweights: hub:a/b\nk: 0\n", "key k"),
        ("name: m\nweights: hub:a/b\ncolour: red\n", "key colour"),
        ("name: m\n", "key weights"),
        ("name: m\nweights: hub:a/b\ndrafts: {x: {}}\n", "draft 'x' needs a 'method'"),
        ("name: m\nweights: hub:a/b\ndtype: int3\n", "key dtype"),
        ("name: [\n", "line 2: not valid YAML"),
        ("- a\n", "expected a mapping"),
    ],
)
def test_wrong_yaml_is_named_by_file_and_key(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        load_model(str(path))
    assert str(path) in str(caught.value)
    assert named in str(caught.value)


def test_hub_id_needs_no_configuration() -> None:
    config = load_model("Qwen/Qwen3-0.6B")
    assert (config.name, config.weights) == ("Qwen3-0.6B", "hub:Qwen/Qwen3-0.6B")
    assert config.draft(None).options["method"] == "ngram"


@pytest.mark.parametrize("reference", ["nosuch", "nosuch.yaml", "a/b/c"])
def test_unknown_model_is_refused_with_the_known_ones(reference: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_model(reference)
    assert "smollm2-135m" in str(caught.value.hint)


def test_folder_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no config\.json"):
        load_model(str(tmp_path))
