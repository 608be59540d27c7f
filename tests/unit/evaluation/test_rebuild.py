"""results.json can be made again from the manifest and the records alone."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from mars_cli.analysis.groups import Aggregate, Group
from mars_cli.analysis.rebuild import rebuild
from mars_cli.analysis.stored import load
from mars_cli.evaluation.evaluate import evaluate
from mars_cli.evaluation.job import Job
from mars_cli.report.gathered import read
from mars_cli.runs.reading import Unreadable
from mars_cli.runs.run import Run, read_manifest
from tests.unit.evaluation.conftest import Silent

PLAN = {"model": {"name": "fake"}, "allow_code_execution": False}


@pytest.fixture
def done(job: Job, fake: Any, tmp_path: Path) -> Path:
    """A finished run whose manifest keeps what records do not tell."""
    whole = Group("all", ("echo",), (Aggregate("exact_match", ("none",)), Aggregate("exact_match")))
    tasks = [dataclasses.replace(task, groups=(whole,)) for task in job.tasks]
    job = dataclasses.replace(job, tasks=tasks)
    with Run(tmp_path, PLAN, {"cpu": "x"}) as run:
        evaluate(job, run, Silent(), make_engine=fake)
    return tmp_path


def results_of(folder: Path) -> Any:
    return json.loads((folder / "results.json").read_text())


def test_the_records_give_the_very_results_that_the_run_wrote(done: Path) -> None:
    manifest = read_manifest(done)
    assert manifest is not None
    written = results_of(done)
    assert json.loads(json.dumps(rebuild(done, manifest))) == written
    assert written["groups"]["all"]["lanes"]["ar"]["score"] is not None


def test_a_killed_run_is_reported_from_its_records(done: Path) -> None:
    written = results_of(done)
    (done / "results.json").unlink()
    manifest = json.loads((done / "manifest.json").read_text())
    (done / "manifest.json").write_text(json.dumps({**manifest, "status": "partial"}))
    found = load(done)
    assert found.counts == ()
    assert found.results["run"]["status"] == "partial"
    assert found.results["notes"][-1] == (
        "The run is partial: these are the figures of its records."
    )
    lanes = found.results["tasks"]["echo"]["lanes"]
    assert {lane: one["score"] for lane, one in lanes.items()} == {
        lane: one["score"] for lane, one in written["tasks"]["echo"]["lanes"].items()
    }


def test_records_that_give_no_results_are_counted(done: Path) -> None:
    (done / "results.json").unlink()
    (done / "records/speed/echo.jsonl").write_text("[]\n")
    found = load(done)
    assert "the records do not give results" in found.results["notes"][-1]
    told: list[str] = []
    read([done], told.append)
    assert told == [f"{done}: figures, which its records do not give ({found.broken})"]
    assert {(one.lane, one.answers) for one in found.counts} == {
        ("ar", "6 of 6"),
        ("strict-ngram-k7", "6 of 6"),
        ("mars-ngram-k7-t0.9", "6 of 6"),
    }


def test_broken_results_say_that_the_records_can_take_their_place(done: Path) -> None:
    written = results_of(done)
    broken = done / "results.json"
    broken.write_text(broken.read_text()[:200])
    with pytest.raises(Unreadable, match="without that file, figures come from the records"):
        load(done)
    broken.unlink()
    assert load(done).results["tasks"].keys() == written["tasks"].keys()
