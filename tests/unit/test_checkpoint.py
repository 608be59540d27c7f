"""A folder is refused before an engine starts on it, when it cannot be a whole checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mars_cli.checkpoint import check_checkpoint
from mars_cli.errors import UsageError


def write_index(folder: Path, weight_map: object) -> None:
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))


def test_a_folder_without_a_config_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no config\.json"):
        check_checkpoint(tmp_path)


def test_every_shard_that_the_index_names_must_be_there(tmp_path: Path) -> None:
    write_index(tmp_path, {"a": "1.safetensors", "b": "2.safetensors", "c": "2.safetensors"})
    (tmp_path / "1.safetensors").touch()
    with pytest.raises(UsageError, match=r"1 of its 2 weight files .* the first 2\.safetensors"):
        check_checkpoint(tmp_path)
    (tmp_path / "2.safetensors").touch()
    check_checkpoint(tmp_path)


def test_a_shard_that_is_a_dangling_link_is_missing(tmp_path: Path) -> None:
    write_index(tmp_path, {"a": "1.safetensors"})
    (tmp_path / "1.safetensors").symlink_to(tmp_path / "gone")
    with pytest.raises(UsageError, match="incomplete"):
        check_checkpoint(tmp_path)


def test_an_index_that_is_none_is_named(tmp_path: Path) -> None:
    write_index(tmp_path, ["not", "a", "map"])
    with pytest.raises(UsageError, match=r"model\.safetensors\.index\.json is no weight index"):
        check_checkpoint(tmp_path)
