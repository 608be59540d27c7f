"""`mars models`: the list, one model in full, and both as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from mars_cli.commands.models import command
from mars_cli.config import configured_models


@pytest.fixture(autouse=True)
def _no_caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("MARS_CACHE", str(tmp_path / "mars"))


def told(*arguments: str) -> str:
    run = CliRunner().invoke(command, list(arguments), catch_exceptions=False)
    assert run.exit_code == 0
    return run.stdout


def test_every_model_is_a_line_with_what_it_takes() -> None:
    lines = told().splitlines()
    assert len(lines) == 1 + len(configured_models())
    (line,) = (line for line in lines if line.split()[0] == "qwen3-8b")
    assert "eagle3, redhat, ngram" in line
    assert "15.3 GiB" in line


def test_one_model_tells_its_memory_by_number_of_gpus() -> None:
    one = json.loads(told("llama-3.3-70b", "--json"))
    assert (one["gpus"], one["cached"], one["license"]) == (4, False, "Llama 3.3 Community License")
    assert list(one["memory_gib"]) == ["1", "2", "4", "8"]
    # 70.55 and 1.4 billion values of two bytes over four GPUs, 3 GiB beside, of 0.9 of the memory.
    alone = ((70.55e9 + 1.4e9) * 2 / 4 / 2**30 + 3) / 0.9
    assert one["memory_gib"]["4"]["one_at_a_time"] == pytest.approx(alone, abs=0.06)
    text = told("llama-3.3-70b")
    assert "tensor_parallel_size=4" in text
    assert "(as configured)" in text


def test_a_model_of_ones_own_is_told_too(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\nweights: hub:a/b\n")
    text = told(str(path))
    assert "ngram: ngram, K 7" in text
    assert "not known" in text


def test_a_half_fetched_snapshot_is_not_cached(tmp_path: Path) -> None:
    snapshot = tmp_path / "hub" / "models--Qwen--Qwen3-8B" / "snapshots" / "c"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    assert json.loads(told("qwen3-8b", "--json"))["cached"] is False
    (snapshot / "model.bin").write_bytes(b"x")
    assert json.loads(told("qwen3-8b", "--json"))["cached"] is True
