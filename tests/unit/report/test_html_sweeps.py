"""Sweeps in the HTML report, and beside runs in every format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mars_cli.analysis.sweep import build_sweep
from mars_cli.report import sweeps
from tests.unit.analysis.built import LANES
from tests.unit.report import made
from tests.unit.report.pages import RUN, data_of, parsed, reported, small
from tests.unit.report.test_hostile import PIECES

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """A sweep of one group that is done and one that never began."""
    folder = tmp_path / "grid"
    made.make(folder / "groups/ngram-k7", answers=small(), results=made.by_hand())
    results = json.loads((folder / "groups/ngram-k7/results.json").read_text())
    lanes = [lane["id"] for lane in LANES]
    done = {
        "id": "ngram-k7",
        "temperature": None,
        "status": "complete",
        "reason": None,
        "log": None,
        "expected": [(made.TASK, lane) for lane in lanes],
        "results": results,
    }
    lost = {**done, "id": "ngram-k9", "status": "failed", "reason": "out of memory"}
    lost |= {"expected": [], "results": None}
    run = {"id": "grid", "created": made.CREATED, "status": "failed"}
    made.write(folder / "sweep.json", build_sweep(run, {}, [done, lost], 98.0))
    return folder


def test_a_sweep_has_its_cells_its_recommendation_and_the_documents_of_its_groups(sweep, capsys):
    text = reported([str(sweep), "--format", "html"], capsys)
    found = parsed(text)
    assert found.texts["h1"] == ["mars sweep: grid"]
    told = "".join(found.texts["li"])
    assert "recommended: none; " in told
    assert "failed: group ngram-k9: out of memory" in told
    assert "97.5% <small>[90.0, 104.8]</small>" in text
    assert any(title.startswith("grid: ngram-k7") for title in found.texts["h2"])
    (task,) = data_of(text)["tasks"]
    assert len(task["documents"]) == 2


def test_a_sweep_stands_beside_runs(sweep, outputs, capsys):
    text = reported([RUN, str(sweep), str(sweep), "--format", "html"], capsys)
    assert parsed(text).texts["h1"] == ["1 run and 1 sweep side by side"]
    assert len(data_of(text)["tasks"]) == 2


@pytest.mark.parametrize("option", [["--fail-if", "recovery<98"], ["--figures", "figures"]])
def test_what_looks_at_runs_alone_is_refused_beside_a_sweep(sweep, capsys, option):
    reported([str(sweep), "--format", "html", *option], capsys, code=2)


BREAKS: list[tuple[Any, str]] = [
    (lambda found: found.update(schema=2), "written with schema 2"),
    (lambda found: found.pop("schema"), "not a sweep of mars"),
    (lambda found: found.pop("recommended"), "not a sweep as this mars writes it"),
    (lambda found: found["cells"][0].update(speedup="fast"), "not a sweep as this mars"),
    (lambda found: found.update(cells=[1]), "not a sweep as this mars"),
    (lambda found: found["groups"].append({}), "not a sweep as this mars"),
    (lambda found: found["recommended"].update(setting={"id": 1}), "not a sweep as this mars"),
]


@pytest.mark.parametrize(("change", "told"), BREAKS)
def test_a_sweep_that_cannot_be_read_has_a_line_and_the_rest_is_reported(
    sweep, outputs, capsys, change, told
):
    made.edit(sweep / "sweep.json", change)
    text = reported([RUN, str(sweep), "--format", "html"], capsys, code=3)
    lines = [line for line in parsed(text).texts["li"] if told in line]
    assert len(lines) == 1
    assert "mars_products" in text


def test_a_group_that_cannot_be_read_has_a_line_and_the_sweep_is_reported(sweep, capsys):
    (sweep / "groups/ngram-k7/manifest.json").write_text("{")
    text = reported([str(sweep), "--format", "html"], capsys, code=3)
    assert "broken JSON at line 1" in "".join(parsed(text).texts["li"])
    assert "97.5%" in text


@pytest.fixture
def hostile_sweep(sweep: Path) -> Path:
    def change(found: Any) -> None:
        found["run"]["id"] = found["notes"][0] = PIECES[0]
        found["cells"][0]["lane"] = "".join(PIECES)
        found["cells"][1]["task"] = PIECES[3]
        found["groups"][1].update(id=PIECES[0], reason=PIECES[2])
        found["recommended"]["reason"] = PIECES[1] + PIECES[4]

    made.edit(sweep / "sweep.json", change)
    return sweep


def test_no_name_or_note_of_a_sweep_becomes_markup(hostile_sweep, capsys):
    parsed(reported([str(hostile_sweep), "--format", "html"], capsys))


def test_a_group_on_disk_that_the_sweep_does_not_name_is_not_read(sweep):
    made.make(sweep / "groups" / "stray", results=made.by_hand())
    told: list[str] = []
    found = sweeps.read_sweep(sweep, told.append)
    assert [run.folder.name for run in found.groups] == ["ngram-k7"]
    assert told == []


@pytest.mark.parametrize("form", ["table", "md", "latex", "csv", "json"])
def test_a_sweep_is_reported_in_every_format(sweep, outputs, capsys, form):
    alone = reported([str(sweep), "--format", form], capsys)
    beside = reported([RUN, str(sweep), "--format", form], capsys)
    if form == "json":
        found = json.loads(alone)
        assert (found["runs"], len(found["sweeps"])) == ([], 1)
        assert found["sweeps"][0]["recommended"]["min_recovery"] == 98.0
        assert len(json.loads(beside)["runs"]) == 1
    elif form == "csv":
        assert "ngram-k7" in alone
        assert len(beside.splitlines()) > len(alone.splitlines()) > 1
    else:
        assert "recommended: none" in alone
        assert alone.strip().splitlines()[-1] in beside
