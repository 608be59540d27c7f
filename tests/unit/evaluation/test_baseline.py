"""`--baseline`: which answers of an earlier run are taken, and what they count as."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from mars_cli.cli import main
from mars_cli.config import ModelConfig
from mars_cli.engine.lane import Draft
from mars_cli.evaluation import evaluate as module
from mars_cli.evaluation.evaluate import evaluate
from mars_cli.evaluation.job import Job
from mars_cli.runs.files import read_records
from mars_cli.runs.run import Run, read_manifest
from tests.unit.evaluation.conftest import CODE, TASK, Silent
from tests.unit.evaluation.taking import (
    AR,
    MARS,
    NOTE,
    STRICT,
    MakeJob,
    plan_of,
    quality,
    quality_asked,
    rerun,
    run_job,
    taking,
    with_lanes,
    without,
)


def test_answers_of_ar_and_the_same_strict_are_copied_and_all_else_is_made(
    job: Job, fake: Any, first: Path, tmp_path: Path
) -> None:
    results = rerun(job, first, tmp_path / "second", fake)
    assert results["run"]["status"] == "complete"
    for lane in (AR, STRICT):
        copied = quality(tmp_path / "second", lane)
        assert {record["from"] for record in copied} == {"first"}
        assert all("session" not in record for record in copied)
        assert [without(record, "from") for record in copied] == [
            without(record, "session") for record in quality(first, lane)
        ]
        assert all(record["scores"] is not None for record in copied)
    assert all("from" not in record for record in quality(tmp_path / "second", MARS))
    assert quality_asked(fake, job, tmp_path / "second") == {MARS: 6}
    timed = list(read_records(tmp_path / "second/records/speed/echo.jsonl"))
    assert len(timed) == 2 * 2 * 4
    assert {record["session"] for record in timed} == {1}


def test_results_are_those_of_a_run_of_its_own_and_say_what_was_taken(
    job: Job, fake: Any, first: Path, tmp_path: Path
) -> None:
    whole = json.loads((first / "results.json").read_text())["tasks"]["echo"]
    found = rerun(job, first, tmp_path / "second", fake)["tasks"]["echo"]
    assert found["lanes"] == whole["lanes"]
    said = [f"{AR}: {NOTE}", f"{STRICT}: {NOTE}"]
    assert [note for note in found["notes"] if note not in whole["notes"]] == said
    assert f"{AR}: {NOTE}" in (tmp_path / "second/report.md").read_text()


def test_copies_are_scored_as_this_run_scores(
    make_job: MakeJob, fake: Any, first: Path, tmp_path: Path
) -> None:
    job = make_job(code=CODE.replace("% 2 == 0", "% 2 == 1"))
    rerun(job, first, tmp_path / "second", fake)
    for before, after in zip(quality(first, AR), quality(tmp_path / "second", AR), strict=True):
        assert after["text"] == before["text"]
        score = before["scores"]["exact_match,none"]
        assert after["scores"] == {"exact_match,none": 1 - score}


def test_sessions_count_what_was_generated_only(
    job: Job, fake: Any, first: Path, tmp_path: Path
) -> None:
    rerun(job, first, tmp_path / "second", fake)
    manifest = read_manifest(tmp_path / "second")
    assert manifest is not None
    assert manifest["plan"]["baseline"] == "first"
    (session,) = manifest["sessions"]
    assert session["records"] == session["requests_started"] == 6 + 2 * 2 * 4 + 6  # and the control
    assert session["in_flight_at_end"] == 0


def test_killed_session_is_settled_without_the_copies(
    job: Job, fake: Any, first: Path, tmp_path: Path
) -> None:
    class Killed(BaseException):
        pass

    class Dying(fake):
        def generate(self, requests: Any, concurrency: int = 1) -> Iterator[Any]:
            for done, generation in enumerate(super().generate(requests, concurrency)):
                if done == 2:
                    raise Killed
                yield generation

    out = tmp_path / "second"
    run = Run(out, plan_of(job, baseline="first"), {})
    run.__enter__()
    with pytest.raises(Killed):
        evaluate(taking(job, first, out), run, Silent(), make_engine=Dying)
    run._lock.release()  # __exit__ never ran
    fake.asked.clear()
    rerun(job, first, out, fake)
    manifest = read_manifest(out)
    assert manifest is not None
    killed, ended = manifest["sessions"]
    assert (killed["ended"], killed["records"], killed["in_flight_at_end"]) == ("killed", 2, 4)
    assert (ended["records"], ended["in_flight_at_end"]) == (4 + 2 * 2 * 4 + 6, 0)
    assert quality_asked(fake, job, out) == {MARS: 4}
    assert [len(quality(out, lane)) for lane in (AR, STRICT, MARS)] == [6, 6, 6]


def test_resume_copies_and_generates_nothing_again(
    job: Job, fake: Any, first: Path, tmp_path: Path
) -> None:
    out = tmp_path / "second"
    rerun(job, first, out, fake)
    before = [quality(out, lane) for lane in (AR, STRICT, MARS)]
    fake.asked.clear()
    results = rerun(job, first, out, fake)
    assert fake.asked == []
    assert [quality(out, lane) for lane in (AR, STRICT, MARS)] == before
    assert f"{AR}: {NOTE}" in results["tasks"]["echo"]["notes"]


def test_interrupted_copy_is_completed(job: Job, fake: Any, first: Path, tmp_path: Path) -> None:
    out = tmp_path / "second"
    rerun(job, first, out, fake)
    path = out / f"records/quality/echo/{AR}.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:2]) + lines[2][:30])
    fake.asked.clear()
    rerun(job, first, out, fake)
    assert fake.asked == []
    assert path.read_text().splitlines(keepends=True) == lines


def test_only_the_documents_that_this_run_needs_are_copied(
    job: Job, fake: Any, first: Path, tmp_path: Path
) -> None:
    few = dataclasses.replace(
        job, prompts={"echo": job.prompts["echo"][:4]}, limits={"echo": 4}, samples=None
    )
    results = rerun(few, first, tmp_path / "second", fake)
    assert [record["doc_id"] for record in quality(tmp_path / "second", AR)] == [0, 1, 2, 3]
    assert results["tasks"]["echo"]["n"] == 4
    assert quality_asked(fake, few, tmp_path / "second") == {MARS: 4}


def test_fewer_samples_are_taken_from_more(make_job: MakeJob, fake: Any, tmp_path: Path) -> None:
    run_job(make_job(samples=3, temperature=1.0), tmp_path / "first", fake)
    job = make_job(samples=2, temperature=1.0)
    rerun(job, tmp_path / "first", tmp_path / "second", fake)
    wanted = [(doc, sample) for doc in range(6) for sample in range(2)]
    copied = quality(tmp_path / "second", AR)
    assert [(record["doc_id"], record["sample"]) for record in copied] == wanted
    texts = {(r["doc_id"], r["sample"]): r["text"] for r in quality(tmp_path / "first", AR)}
    assert all(texts[r["doc_id"], r["sample"]] == r["text"] for r in copied)


@pytest.mark.parametrize(
    ("draft", "k"),
    [
        (ModelConfig(name="x", weights="y").draft("ngram"), 3),
        (Draft("ngram", {"method": "ngram", "prompt_lookup_max": 9}), 7),
        (Draft("other", {"method": "suffix"}), 7),
    ],
)
def test_only_ar_is_taken_where_strict_is_another(
    job: Job, fake: Any, first: Path, tmp_path: Path, draft: Draft, k: int
) -> None:
    other = with_lanes(job, draft, k)
    rerun(other, first, tmp_path / "second", fake)
    strict, mars = other.lanes[1].id, other.lanes[2].id
    assert quality_asked(fake, other, tmp_path / "second") == {strict: 6, mars: 6}
    assert all("from" in record for record in quality(tmp_path / "second", AR))


def test_weights_of_a_draft_are_nothing_to_ar(
    job: Job, fake: Any, first: Path, tmp_path: Path
) -> None:
    other = dataclasses.replace(job, fingerprint=["f", "draft"])
    rerun(other, first, tmp_path / "second", fake)
    assert quality_asked(fake, other, tmp_path / "second") == {STRICT: 6, MARS: 6}


def test_strict_that_was_never_reached_is_generated(
    job: Job, fake: Any, first: Path, tmp_path: Path
) -> None:
    (first / f"records/quality/echo/{STRICT}.jsonl").unlink()
    rerun(job, first, tmp_path / "second", fake)
    assert quality_asked(fake, job, tmp_path / "second") == {STRICT: 6, MARS: 6}


def test_baseline_of_a_baseline(job: Job, fake: Any, first: Path, tmp_path: Path) -> None:
    rerun(job, first, tmp_path / "second", fake)
    rerun(job, tmp_path / "second", tmp_path / "third", fake)
    assert {record["from"] for record in quality(tmp_path / "third", AR)} == {"second"}


# -- the command -------------------------------------------------------------------------------


@pytest.fixture
def command(
    tiny_checkpoint: Path, fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., int]]:
    """`mars eval` of the task with these arguments, in engines that pretend; gives its code."""
    tasks = tmp_path / "tasks"
    tasks.mkdir()
    (tasks / "echo.yaml").write_text(TASK)
    (tasks / "echo.py").write_text(CODE)
    monkeypatch.setattr(module.evaluate, "__defaults__", (fake,))

    def run(*arguments: str) -> int:
        common = ["--model", str(tiny_checkpoint), "--include-path", str(tasks), "--tasks", "echo"]
        sizes = ["--limit", "6", "--engine-arg", "max_model_len=64", "--speed-prompts", "2"]
        with pytest.raises(SystemExit) as ended:
            main(["eval", *common, *sizes, *arguments])
        assert isinstance(ended.value.code, int)
        return ended.value.code

    handler = signal.getsignal(signal.SIGTERM)
    levels = {name: logging.getLogger(name).level for name in ("lm_eval", "torch", "vllm")}
    with mock.patch.dict(os.environ):
        yield run
    signal.signal(signal.SIGTERM, handler)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def test_command_takes_what_it_may_and_resumes(
    command: Callable[..., int], fake: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    assert command("--out", first) == 0
    fake.asked.clear()
    again = ("--theta", "0.8", "--out", second, "--baseline", first)
    assert command(*again) == 0
    assert f"answers taken from {first}: ar, strict-ngram-k7" in capsys.readouterr().err
    assert {record["from"] for record in quality(tmp_path / "second", AR)} == {"first"}
    assert "from" not in quality(tmp_path / "second", "mars-ngram-k7-t0.8")[0]
    manifest = read_manifest(tmp_path / "second")
    assert manifest is not None
    assert manifest["plan"]["baseline"] == "first"
    fake.asked.clear()
    assert command(*again) == 0
    assert fake.asked == []


def test_command_refuses_and_writes_nothing(
    command: Callable[..., int], fake: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    assert command("--out", first) == 0
    capsys.readouterr()
    fake.asked.clear()
    for arguments, said in [
        (("--seed", "4"), "its seed is 0 and this run's is 4"),
        (("--max-tokens", "5"), "its max_tokens of echo is 8 and this run's is 5"),
        (("--limit", "12"), "its number of documents of echo is 6 and this run's is 12"),
    ]:
        assert command(*arguments, "--out", second, "--baseline", first) == 2
        told = capsys.readouterr().err
        assert f"error: --baseline {first}: {said}\n" in told
        assert ("preparing weights" in told) == ("seed" not in said)  # what the plan tells is first
    assert command("--out", first, "--baseline", first) == 2
    assert fake.asked == []
    assert not (tmp_path / "second").exists()


def test_command_does_not_go_on_with_other_files(
    command: Callable[..., int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = str(tmp_path / "run")
    assert command("--theta", "0.9", "--out", out) == 0
    monkeypatch.setattr("mars_cli.evaluation.plan.fingerprint", lambda path: "other")
    capsys.readouterr()
    assert command("--theta", "0.9", "--out", out) == 2
    said = capsys.readouterr().err
    assert "has changed since this run began" in said
    assert "--baseline" not in said  # which would be refused too: the target is another
