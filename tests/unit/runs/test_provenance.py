from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mars_cli.errors import UsageError
from mars_cli.runs.provenance import environment, file_facts, fingerprint


def test_copy_has_the_same_fingerprint_and_other_weights_another(tmp_path: Path) -> None:
    first = tmp_path / "a"
    first.mkdir()
    (first / "config.json").write_text("{}")
    (first / "model.safetensors").write_bytes(bytes(3 * 2**20))
    shutil.copytree(first, tmp_path / "b")
    assert fingerprint(first) == fingerprint(tmp_path / "b")
    for offset in (0, 3 * 2**20 - 1):
        content = bytearray(3 * 2**20)
        content[offset] = 1
        (tmp_path / "b" / "model.safetensors").write_bytes(content)
        assert fingerprint(first) != fingerprint(tmp_path / "b")


def test_a_single_file_has_a_fingerprint_too(tmp_path: Path) -> None:
    module = tmp_path / "mine.py"
    module.write_text("x = 1")
    before = fingerprint(module)
    module.write_text("x = 2")
    assert fingerprint(module) != before


def test_data_file_is_known_by_its_contents(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text("abc")
    facts = file_facts(path)
    assert facts["bytes"] == 3
    assert facts["sha256"].startswith("ba7816bf")  # FIPS 180-2's example
    with pytest.raises(UsageError, match="cannot be read"):
        file_facts(tmp_path / "missing")


def test_environment_names_versions() -> None:
    found = environment()
    assert found["cores"] >= 1
    assert "numpy" in found["packages"]
