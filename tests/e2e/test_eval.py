"""The embedded model through the command line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

pytestmark = pytest.mark.engine

STRICT, RELAXED, ONE = "strict-eagle3-k5", "mars-eagle3-k5-t0.9", "mars-eagle3-k5-t1"
LANES = ("ar", STRICT, RELAXED, ONE)
PLAN = "--tasks mars_products,mars_humaneval --limit 4 --max-tokens 64 --theta 0.9 --theta 1.0"
SPEED = "--speed-prompts 2 --repeats 1 --allow-code-execution"
ARGUMENTS = ["eval", *PLAN.split(" "), *SPEED.split(" ")]


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def run(mars: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    out = tmp_path_factory.mktemp("eval") / "run"
    return out, mars(*ARGUMENTS, "--out", str(out))


@pytest.fixture(scope="module")
def results(run: tuple[Path, Any]) -> dict[str, Any]:
    out, finished = run
    assert finished.returncode == 0, finished.stderr
    return json.loads((out / "results.json").read_text())


def test_run_is_complete_and_its_table_fits(run: tuple[Path, Any], results: dict[str, Any]) -> None:
    assert results["run"]["status"] == "complete"
    assert [lane["id"] for lane in results["lanes"]] == list(LANES)
    lines = run[1].stdout.splitlines()
    assert max(map(len, lines[:-1])) <= 100
    for lane in LANES:
        assert sum(line.split()[:1] == [lane] for line in lines) == 2


def test_strict_is_lossless_here(results: dict[str, Any]) -> None:
    for task in results["tasks"].values():
        assert task["lanes"][STRICT]["exact_match_ar"] == 1.0


def test_theta_one_is_strict_token_by_token(run: tuple[Path, Any], results: dict[str, Any]) -> None:
    for task in results["tasks"]:
        rows = records(run[0] / f"records/speed/{task}.jsonl")
        by_lane = {
            lane: {row["doc_id"]: row["token_ids"] for row in rows if row["lane"] == lane}
            for lane in (STRICT, ONE)
        }
        assert by_lane[STRICT] == by_lane[ONE]
        answers = [
            [row["token_ids"] for row in records(run[0] / f"records/quality/{task}/{lane}.jsonl")]
            for lane in (STRICT, ONE)
        ]
        assert sorted(answers[0]) == sorted(answers[1])


def test_acceptance_length_is_what_the_steps_say(
    run: tuple[Path, Any], results: dict[str, Any]
) -> None:
    for task, found in results["tasks"].items():
        for lane in LANES:
            rows = records(run[0] / f"records/quality/{task}/{lane}.jsonl")
            later = [tokens for row in rows for tokens in row["step_tokens"][1:]]
            assert found["lanes"][lane]["acceptance_length"] == pytest.approx(
                sum(later) / len(later)
            )


def test_relaxing_accepts_more(results: dict[str, Any]) -> None:
    lanes = results["tasks"]["mars_humaneval"]["lanes"]
    assert lanes[RELAXED]["acceptance_length"] > lanes[STRICT]["acceptance_length"] > 1
    assert lanes[RELAXED]["relaxed_per_100_tokens"] > 0
    assert lanes[STRICT]["relaxed_per_100_tokens"] == 0


def test_every_token_follows_its_lanes_rule(results: dict[str, Any]) -> None:
    for task in results["tasks"].values():
        for lane in LANES:
            checked = task["lanes"][lane]["fidelity"]
            assert checked["violations"] == 0
            assert checked["tokens"] == task["lanes"][lane]["tokens"]
        strict, relaxed = (task["lanes"][lane] for lane in (STRICT, RELAXED))
        assert strict["fidelity"]["rank1_share"] >= 0.99  # near ties fall either way
        second = 100 * relaxed["fidelity"]["rank2_share"]
        assert second == pytest.approx(relaxed["relaxed_per_100_tokens"], abs=0.5)


def test_every_record_was_scored(run: tuple[Path, Any], results: dict[str, Any]) -> None:
    for task, found in results["tasks"].items():
        for lane in LANES:
            rows = records(run[0] / f"records/quality/{task}/{lane}.jsonl")
            assert len(rows) == found["n"] == 4
            assert all(row["scores"][found["metric"]] in (0.0, 1.0) for row in rows)


def test_running_again_generates_nothing(
    mars: Any, run: tuple[Path, Any], results: dict[str, Any]
) -> None:
    out = run[0]
    before = {p: p.read_bytes() for p in (out / "records").rglob("*.jsonl")}
    again = mars(*ARGUMENTS, "--out", str(out), "--json")
    assert again.returncode == 0, again.stderr
    assert {p: p.read_bytes() for p in (out / "records").rglob("*.jsonl")} == before
    assert json.loads(again.stdout)["tasks"] == results["tasks"]
    sessions = json.loads((out / "manifest.json").read_text())["sessions"]
    assert [session["requests_started"] > 0 for session in sessions] == [True, False]
    assert sessions[1].get("warm_up_requests", 0) == 0


@pytest.fixture
def refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., str]]:
    """Runs the command line within this process, which imports what is heavy only once."""
    from mars_cli.cli import main
    from mars_cli.scoring import sandbox

    def run(*arguments: str, cwd: Path | None = None) -> str:
        monkeypatch.chdir(cwd or Path.cwd())
        # The command quiets libraries through the environment, which must not outlive it here.
        with pytest.raises(SystemExit) as ended, mock.patch.dict(os.environ):
            main(["eval", *arguments])
        assert ended.value.code == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        return captured.err

    yield run
    sandbox.allow(False)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--model", "nosuch"], "--model nosuch"),
        (["--tasks", "nosuch_task"], "--tasks nosuch_task"),
        (["--tasks", "hellaswag"], "--tasks hellaswag"),
        (["--tasks", "mbpp", "--allow-code-execution"], "--tasks mbpp"),
        (["--draft", "nosuch"], "--draft nosuch"),
        (["--rule", "typical:foo=1"], "--rule typical:foo=1"),
        (["--samples", "4", "--temperature", "0"], "--samples 4"),
        (["--baseline", "nosuch"], "--baseline nosuch"),
        (["--data", "mars_gsm8k=missing.jsonl", "--tasks", "mars_gsm8k"], "missing.jsonl"),
        (["--data", "mars_gsm8k=file", "--tasks", "mars_gsm8k"], "line 1"),
        (["--data", "mars_products=file", "--tasks", "mars_products"], "mars_products"),
        (["--engine-arg", "colour=red"], "--engine-arg colour"),
        (["--engine-arg", "max_model_len=8k"], "--engine-arg max_model_len=8k"),
        (["--out", "file"], "--out file"),
    ],
)
def test_wrong_input_is_one_line_and_a_hint(
    refused: Callable[..., str], tmp_path: Path, arguments: list[str], named: str
) -> None:
    (tmp_path / "file").write_text("mine")
    error, hint = refused(*arguments, cwd=tmp_path).splitlines()
    assert named in error
    assert hint.startswith("hint: ")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "mine"


def test_length_that_does_not_fit_is_refused_before_a_run_begins(
    refused: Callable[..., str], tmp_path: Path
) -> None:
    assert "asks for 4096 tokens" in refused("--max-tokens", "4096", cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_other_plan_in_the_same_folder_is_refused(
    refused: Callable[..., str], run: tuple[Path, Any], results: dict[str, Any]
) -> None:
    out = run[0]
    before = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}
    assert "different plan" in refused("--theta", "0.8", "--out", str(out))
    assert {p: p.read_bytes() for p in out.rglob("*") if p.is_file()} == before
