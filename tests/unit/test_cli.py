from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest


def mars(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mars_cli", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=120,
        check=False,
    )


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from mars_cli.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "heavy = {'torch', 'vllm', 'lm_eval', 'transformers', 'numpy'} & set(sys.modules)\n"
        "sys.exit(repr(heavy) if heavy else 0)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "eval" in run.stdout


def test_eval_help_imports_no_torch() -> None:
    started = time.monotonic()
    run = mars("eval", "--help")
    assert run.returncode == 0
    assert "--theta" in run.stdout
    assert time.monotonic() - started < 10


def test_version_is_the_package_version() -> None:
    from mars_cli import __version__

    assert mars("--version").stdout.strip() == f"mars, version {__version__}"


def test_models_and_tasks_are_listed() -> None:
    assert "smollm2-135m" in mars("models").stdout
    assert "mars_humaneval" in mars("tasks").stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--theta", "1.5"], "--theta 1.5"),
        (["--theta", "nan"], "--theta nan"),
        (["--theta", "0"], "--theta 0"),
        (["--theta", "high"], "--theta"),
        (["--k", "0"], "--k"),
        (["--limit", "0"], "--limit"),
        (["--colour", "red"], "--colour"),
        (["--temperature", "nan"], "--temperature nan"),
        (["--seed", "-1"], "--seed"),
        (["--data", "mars_gsm8k"], "--data mars_gsm8k"),
    ],
)
def test_wrong_option_is_one_line_and_a_hint(
    tmp_path: Path, arguments: list[str], named: str
) -> None:
    run = mars("eval", *arguments, cwd=tmp_path)
    assert run.returncode == 2
    assert run.stdout == ""
    error, hint = run.stderr.splitlines()
    assert error.startswith("error: ")
    assert named in error
    assert hint.startswith("hint: ")
    assert list(tmp_path.iterdir()) == []
