"""`mars report` as a user types it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mars_cli.cli import main
from tests.unit.report import made

OLD, NEW = "20261128-0900-tiny-1111", "20261129-0900-tiny-2222"
BROKEN = {
    "empty": {},
    "foreign": {"notes.txt": "hello"},
    "newer": {"manifest.json": '{"schema": 2}'},
    "torn": {"manifest.json": '{"schema": 1, "id'},
    "list": {"manifest.json": "[1]"},
    "deep": {"manifest.json": "[" * 100_000},
    "bytes": {"manifest.json": "\udcff"},
    "bare": {"manifest.json": '{"schema": 1}'},
    "newer-results": {"results.json": '{"schema": 2, "tasks": {}}'},
    "other-results": {"results.json": '{"accuracy": 1}'},
    "not-a-number": {"results.json": '{"schema": 1, "tasks": {}, "notes": [NaN]}'},
    "too-large": {"results.json": '{"schema": 1, "tasks": {}, "notes": [1e999]}'},
    "wrong-kind": {"results.json": '{"schema": 1, "tasks": {"x": {"lanes": {"ar": 3}}}}'},
    "half-interval": {
        "results.json": '{"schema": 1, "tasks": {"x": {"lanes": {"ar": {"score_ci": [1]}}}}}'
    },
}


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def outputs(tmp_path):
    made.make(tmp_path / "outputs" / OLD, created="2026-11-28T09:00:00+00:00")
    made.make(tmp_path / "outputs" / NEW, created="2026-11-29T09:00:00+00:00")
    return tmp_path / "outputs"


def report(capsys, *arguments):
    """(exit code, stdout, stderr)"""
    with pytest.raises(SystemExit) as stopped:
        main(["report", *map(str, arguments)])
    out, err = capsys.readouterr()
    return stopped.value.code, out, err


def breaks(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_bytes(text.encode("utf-8", "surrogateescape"))


# -- names -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [NEW, "20261129", "latest", f"outputs/{NEW}", f"outputs/{NEW}/results.json"]
)
def test_a_run_is_named_by_path_prefix_or_latest(outputs, capsys, name):
    code, out, _ = report(capsys, name)
    assert (code, out.split(" ")[0]) == (0, NEW)


def test_a_renamed_run_is_still_found_by_its_id(outputs, capsys):
    (outputs / NEW).rename(outputs / "best")
    for name in ("best", "20261129"):
        assert report(capsys, name)[1].startswith(NEW)


def test_latest_is_the_newest_by_when_it_began_not_by_name(outputs, capsys):
    made.make(outputs / "a", created="2026-11-30T00:00:00+00:00")
    assert report(capsys, "latest")[1].startswith("a ")


@pytest.mark.parametrize(
    ("name", "said"),
    [("2026", "2 runs begin so"), ("nothing", "neither a folder nor"), ("", "neither a folder")],
)
def test_a_name_of_none_or_of_several_is_refused(outputs, capsys, name, said):
    code, out, err = report(capsys, name)
    assert (code, out) == (2, "")
    assert said in err
    assert "hint: " in err


def test_the_same_run_twice_is_one(outputs, capsys):
    code, out, _ = report(capsys, NEW, "latest", f"outputs/{NEW}")
    assert code == 0
    assert "side by side" not in out


# -- what cannot be read -----------------------------------------------------------------------


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_run_has_one_line_and_the_rest_is_reported(outputs, capsys, name):
    breaks(outputs / name, BROKEN[name])
    code, out, err = report(capsys, f"outputs/{name}", NEW)
    assert code == 3
    assert out.startswith(NEW)
    (line,) = err.splitlines()
    assert line.startswith(f"skipped: outputs/{name}")


@pytest.mark.parametrize("name", BROKEN)
def test_where_nothing_can_be_read_the_exit_code_is_2(tmp_path, capsys, name):
    breaks(tmp_path / name, BROKEN[name])
    code, out, err = report(capsys, name)
    assert (code, out, len(err.splitlines())) == (2, "", 1)


def test_a_list_skips_them_all_a_line_each(outputs, capsys):
    for name, files in BROKEN.items():
        breaks(outputs / name, files)
    code, out, err = report(capsys, "--list")
    assert code == 3
    assert len(err.splitlines()) == len(BROKEN)
    assert out.startswith("2 runs in outputs")


def test_sweeps_and_traces_are_in_the_list_and_no_run_to_report(outputs, capsys):
    sweep = {
        "schema": 1,
        "run": {"id": "s", "created": "2026-12-01T00:00:00+00:00", "status": "complete"},
        "plan": {"model": "qwen3-8b"},
        "cells": [{"lane": "mars-eagle3-k7-t0.9", "task": "mars_gsm8k"}],
        "settings": [{"id": "mars-eagle3-k7-t0.9", "speedup": 3.1, "recovery": 99.5}],
        "recommended": {"setting": "mars-eagle3-k7-t0.9"},
    }
    breaks(outputs / "swept", {"sweep.json": json.dumps(sweep)})
    made.make(outputs / "traced", created="2026-12-02T00:00:00+00:00")
    made.edit(
        outputs / "traced" / "manifest.json", lambda found: found["plan"].update(command="trace")
    )
    code, out, err = report(capsys, "--list", "--format", "json")
    assert (code, err) == (0, "")
    first, second, *runs = json.loads(out)["runs"]
    assert (first["kind"], first["run"]) == ("trace", "traced")
    assert (second["kind"], second["lane"], second["speedup"]) == (
        "sweep",
        "mars-eagle3-k7-t0.9",
        3.1,
    )
    assert {one["kind"] for one in runs} == {"eval"}
    assert report(capsys, "latest")[1].startswith(NEW)
    code, _, err = report(capsys, "traced")
    assert (code, err) == (2, "skipped: outputs/traced: a trace; see its trace.json and figures/\n")
    breaks(outputs / "odd", {"sweep.json": json.dumps({**sweep, "settings": 3})})
    code, out, err = report(capsys, "--list")
    assert (code, len(err.splitlines())) == (3, 1)


def test_a_file_or_a_pipe_in_place_of_a_manifest_does_not_stop_it(outputs, capsys):
    import os

    (outputs / "odd").mkdir()
    os.mkfifo(outputs / "odd" / "manifest.json")
    (outputs / "stray.txt").write_text("x")
    code, _, err = report(capsys, "outputs/odd", "outputs/stray.txt", NEW)
    assert code == 3
    assert [line.rpartition(": ")[2] for line in err.splitlines()] == ["not a file", "not a folder"]


def test_a_base_that_cannot_be_read_is_an_error(outputs, capsys):
    breaks(outputs / "empty", {})
    code, out, err = report(capsys, NEW, "--base", "outputs/empty")
    assert (code, out, err.splitlines()[0]) == (2, "", "error: --base outputs/empty: is empty")


# -- runs from elsewhere, and unfinished ones --------------------------------------------------


def test_a_run_of_another_machine_needs_results_json_only(outputs, tmp_path, capsys):
    (tmp_path / "copied").mkdir()
    shutil.copy(outputs / NEW / "results.json", tmp_path / "copied")
    code, out, _ = report(capsys, "copied")
    assert (code, out.split(" ")[0]) == (0, NEW)
    code, out, _ = report(capsys, OLD, "copied")
    assert code == 0
    assert f"no prompts are recorded in {NEW}" in " ".join(out.split())


def test_nothing_is_written_into_a_run(outputs, capsys):
    def seen():
        return {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in outputs.rglob("*")}

    before = seen()
    for form in ("table", "md", "csv", "latex", "json"):
        assert report(capsys, OLD, NEW, "--format", form)[0] == 0
    assert report(capsys, "--list")[0] == 0
    assert seen() == before


def test_a_killed_run_shows_what_is_recorded(outputs, capsys):
    made.make(outputs / "killed", results=False, status="partial")
    quality = outputs / "killed/records/quality/mars_products/mars-ngram-k7-t0.9.jsonl"
    kept = quality.read_text().splitlines(keepends=True)
    quality.write_text("".join(kept[:7]) + kept[7][:20])
    code, out, _ = report(capsys, "killed")
    assert code == 0
    assert "mars-ngram-k7-t0.9   7 of 40     12" in out
    assert "killed" in report(capsys, "--list")[1]


def test_a_run_begun_anew_says_that_its_figures_are_older(outputs, capsys):
    made.edit(outputs / NEW / "manifest.json", lambda found: found.update(status="partial"))
    code, out, _ = report(capsys, NEW)
    assert code == 0
    assert out.split("\n")[0].endswith("partial")
    assert "these figures are from before it" in " ".join(out.split())


def test_a_results_json_of_an_older_mars_is_filled_up(outputs, capsys):
    def cut(found):
        for lane in found["tasks"]["mars_products"]["lanes"].values():
            for name in ("largest_loss", "safe", "by_concurrency", "repetition", "metrics"):
                del lane[name]
        del found["overall"], found["noise"], found["safe_recovery"]

    made.edit(outputs / NEW / "results.json", cut)
    for form in ("table", "md", "csv", "latex", "json"):
        assert report(capsys, NEW, OLD, "--format", form)[0] == 0
        assert report(capsys, NEW, "--format", form)[0] == 0


# -- several -----------------------------------------------------------------------------------


def test_the_base_comes_first_whether_or_not_it_is_among_the_runs(outputs, capsys):
    for asked in ([OLD, NEW, "--base", NEW], [OLD, "--base", NEW]):
        found = json.loads(report(capsys, *asked, "--format", "json")[1])
        assert [one["run"]["id"] for one in found["runs"]] == [NEW, OLD]
        assert found["base"] == NEW
        assert {pair["run"] for pair in found["paired"]} == {OLD}


def test_what_differs_is_said_before_any_figure(outputs, capsys):
    made.make(outputs / "other", engine={"gpu": "NVIDIA A100"}, plan={"temperature": 0.7})
    out = report(capsys, NEW, "outputs/other")[1]
    assert out.index("gpu: NVIDIA H200 (A); NVIDIA A100 (B)") < out.index("recovery")
    assert "temperature: the tasks' own (A); 0.7 (B)" in out


# -- where it goes -----------------------------------------------------------------------------


def test_the_ending_of_out_says_the_format(outputs, tmp_path, capsys):
    for name, begins in (
        ("x.md", f"# mars: {NEW}"),
        ("x.csv", "run,created"),
        ("x.tex", "% needs"),
        ("x.json", "{"),
        ("x.txt", NEW),
    ):
        assert report(capsys, NEW, "--out", name) == (0, "", "")
        assert (tmp_path / name).read_text(encoding="utf-8").startswith(begins)


@pytest.mark.parametrize("name", ["results.json", "manifest.json"])
def test_a_file_of_a_run_is_not_written_over(outputs, capsys, name):
    code, _, err = report(capsys, NEW, "--format", "json", "--out", f"outputs/{NEW}/{name}")
    assert code == 2
    assert "is part of a run" in err


@pytest.mark.parametrize("out", ["outputs", "no/such/folder/x.md", "x.pdf"])
def test_out_must_be_a_file_in_a_folder_that_is(outputs, capsys, out):
    code, printed, err = report(capsys, NEW, "--out", out)
    assert (code, printed) == (2, "")
    assert err.startswith(f"error: --out {out}: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no run is named"),
        (["--list", "x"], "RUN: has no place beside --list"),
        (["--list", "--fail-if", "recovery<98"], "--fail-if: has no place beside --list"),
        (["--list", "--runs", "nowhere"], "--runs nowhere: no such folder"),
        (["x", "--format", "pdf"], "--format"),
    ],
)
def test_wrong_use_is_refused(capsys, arguments, said):
    code, out, err = report(capsys, *arguments)
    assert (code, out) == (2, "")
    assert said in err


def test_an_empty_folder_of_runs_is_no_error(tmp_path, capsys):
    (tmp_path / "outputs").mkdir()
    assert report(capsys, "--list") == (0, "no runs in outputs\n", "")


# -- gates -------------------------------------------------------------------------------------


def test_a_condition_that_comes_true_exits_with_1_and_says_where(outputs, capsys):
    code, out, err = report(capsys, NEW, "--fail-if", "recovery<98", "--fail-if", "speedup<1.2")
    assert code == 1
    assert out.startswith(NEW)
    assert err == (
        f"failed: recovery<98: {NEW}, mars_products, mars-ngram-k7-t0.9: 93.8% [73.0, 120.5]\n"
    )


def test_one_that_does_not_exits_with_0(outputs, capsys):
    code, _, err = report(capsys, NEW, "--fail-if", "recovery<90", "--fail-if", "speedup<1.2")
    assert (code, err) == (0, "")


def test_json_holds_the_gate_and_is_printed_whole(outputs, capsys):
    code, out, _ = report(capsys, NEW, "--fail-if", "recovery<98", "--format", "json")
    gate = json.loads(out)["gate"]
    assert code == 1
    assert gate["fail_if"] == ["recovery<98"]
    assert len(gate["failed"]) == 1


def test_a_wrong_condition_is_refused_before_anything_is_read(capsys):
    code, out, err = report(capsys, "nothing-there", "--fail-if", "recovry<98")
    assert (code, out) == (2, "")
    assert "there is no figure recovry" in err
    assert "did you mean recovery" in err


# -- a base install ----------------------------------------------------------------------------

BLOCKED = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked}:
            raise ImportError(f"blocked: {{name}}")
sys.meta_path.insert(0, Refuse())
from mars_cli.cli import main
main(["report", *sys.argv[1:]])
"""
HEAVY = ("torch", "vllm", "lm_eval", "transformers", "datasets", "reasoning_gym", "pydantic")
# What one run's figures are printed without: importing these takes longer than all the rest.
SLOW = ("scipy", "numpy", "filelock", "psutil")


def blocked(names, *arguments):
    code = BLOCKED.format(blocked=set(names))
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("form", ["table", "md", "csv", "latex", "json"])
def test_several_runs_are_reported_without_torch(outputs, form):
    run = blocked(HEAVY, OLD, NEW, "--format", form, "--fail-if", "base_recovery<90")
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.parametrize("form", ["table", "md", "csv", "latex", "json"])
def test_one_run_and_the_list_are_shown_without_statistics_loaded(outputs, form):
    for asked in ([NEW], ["--list"]):
        run = blocked(HEAVY + SLOW, *asked, "--format", form)
        assert (run.returncode, run.stderr) == (0, "")


def test_a_reader_that_goes_away_is_no_error(outputs):
    code = "from mars_cli.cli import main; main(['report', '--list'])"
    made_many = outputs
    for number in range(3):
        shutil.copytree(outputs / NEW, made_many / f"copy{number}")
    command = f'"{sys.executable}" -c "{code}" | true'
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert run.stderr == ""


def test_a_terminal_without_unicode_gets_question_marks(outputs):
    run = subprocess.run(
        [sys.executable, "-m", "mars_cli", "report", NEW],
        capture_output=True,
        check=False,
        env={
            "PYTHONIOENCODING": "ascii",
            "PATH": "",
            "PYTHONPATH": str(Path(made.__file__).parents[3]),
        },
    )
    assert (run.returncode, run.stderr) == (0, b"")
    assert b"loss ?" in run.stdout
