"""What each format looks like, kept in golden/. To renew them: GOLDEN=1 pytest this file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mars_cli.cli import main
from tests.unit.report import made

GOLDEN = Path(__file__).parent / "golden"
FIRST, SECOND, KILLED = "20261129-1802-tiny-aaaa", "20261130-0915-tiny-bbbb", "20261128-0900-tiny"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs of the same documents on two machines, and one that was killed."""
    monkeypatch.chdir(tmp_path)
    outputs = tmp_path / "outputs"
    made.make(outputs / FIRST, results=made.by_hand())
    made.make(
        outputs / SECOND,
        answers=made.quality(mars=3),
        results=made.by_hand(faster=0.5),
        created="2026-11-30T09:15:00+00:00",
        engine={"gpu": "NVIDIA A100"},
        plan={"max_tokens": 128, "temperature": 0.7},
    )
    made.make(
        outputs / KILLED, results=False, status="partial", created="2026-11-28T09:00:00+00:00"
    )
    return outputs


def printed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(["report", *arguments])
    out, err = capsys.readouterr()
    assert (stopped.value.code, err) == (0, "")
    return out


@pytest.mark.parametrize("columns", [80, 100, 140])
@pytest.mark.parametrize(
    ("name", "asked"),
    [("one", [FIRST]), ("two", [FIRST, SECOND]), ("killed", [KILLED]), ("list", ["--list"])],
)
def test_on_a_terminal(runs, capsys, monkeypatch, name, asked, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    text = printed(asked, capsys)
    assert max(map(len, text.split("\n"))) <= columns
    same(f"{name}-{columns}.txt", text)


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("one.md", [FIRST, "--format", "md"]),
        ("two.md", [FIRST, SECOND, "--format", "md"]),
        ("killed.md", [KILLED, "--format", "md"]),
        ("list.md", ["--list", "--format", "md"]),
        ("one.tex", [FIRST, "--format", "latex"]),
        ("two.tex", [FIRST, SECOND, "--format", "latex"]),
        ("list.tex", ["--list", "--format", "latex"]),
        ("one.csv", [FIRST, "--format", "csv"]),
        ("list.csv", ["--list", "--format", "csv"]),
        ("killed.json", [KILLED, "--format", "json"]),
        ("list.json", ["--list", "--format", "json"]),
    ],
)
def test_to_paste_and_to_script(runs, capsys, name, asked):
    same(name, printed(asked, capsys))


def same(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("GOLDEN"):
        path.write_bytes(text.encode())
    assert text.encode() == path.read_bytes()
