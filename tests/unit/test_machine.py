"""GPUs are found by nvidia-smi alone, those that CUDA would show."""

from __future__ import annotations

from pathlib import Path

import pytest

from mars_cli.machine import Gpu, free_space, machine

LISTED = "NVIDIA H100 80GB HBM3, 81559\nNVIDIA A10, 24564\n"


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\nprintf '{LISTED}'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tool


def test_each_gpu_has_its_name_and_memory(smi: Path) -> None:
    assert machine().gpus == (
        Gpu("NVIDIA H100 80GB HBM3", 81559 * 2**20),
        Gpu("NVIDIA A10", 24564 * 2**20),
    )


@pytest.mark.parametrize(
    ("visible", "names"),
    [("1", ["NVIDIA A10"]), ("", []), ("1,0", ["NVIDIA A10", "NVIDIA H100 80GB HBM3"])],
)
def test_gpus_that_cuda_hides_do_not_count(
    smi: Path, monkeypatch: pytest.MonkeyPatch, visible: str, names: list[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [gpu.name for gpu in machine().gpus] == names


def test_a_driver_that_fails_is_no_gpu(smi: Path) -> None:
    smi.write_text("#!/bin/sh\necho 'could not talk to the driver'; exit 9\n")
    assert machine().gpus == ()


def test_space_is_that_of_where_a_folder_would_be(tmp_path: Path) -> None:
    assert free_space(tmp_path / "not" / "there") > 0
