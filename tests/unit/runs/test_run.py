from __future__ import annotations

import json
from pathlib import Path

import pytest

from mars_cli.errors import UsageError
from mars_cli.runs.run import Run, check_folder, read_manifest

PLAN = {"model": "m", "k": 7}


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_sessions_add_up_to_the_records_and_what_was_in_flight(tmp_path: Path) -> None:
    first = Run(tmp_path / "run", PLAN, {})
    first.__enter__()
    first.starting(5)
    for number in range(3):
        first.append(first.quality("t", "ar"), {"key": str(number)})
    first._lock.release()  # killed: __exit__ never ran, the system dropped the lock

    with Run(tmp_path / "run", PLAN, {}) as second:
        second.starting(2)
        for number in range(3, 5):
            second.append(second.quality("t", "ar"), {"key": str(number)})

    manifest = read_manifest(tmp_path / "run")
    assert manifest is not None
    killed, ended = manifest["sessions"]
    assert (killed["ended"], killed["records"], killed["in_flight_at_end"]) == ("killed", 3, 2)
    assert (ended["records"], ended["in_flight_at_end"]) == (2, 0)
    started = sum(session["requests_started"] for session in manifest["sessions"])
    assert started == 5 + killed["in_flight_at_end"]


def test_of_a_batch_only_what_was_in_flight_is_lost(tmp_path: Path) -> None:
    run = Run(tmp_path / "run", PLAN, {})
    run.__enter__()
    for batch, (requests, answered) in enumerate([(9, 2), (9, 8)]):  # the first one failed
        run.starting(requests, in_flight=4)
        for number in range(answered):
            run.append(run.quality("t", "ar"), {"key": f"{batch}-{number}"})
    run._lock.release()  # killed
    with Run(tmp_path / "run", PLAN, {}):
        pass
    manifest = read_manifest(tmp_path / "run")
    assert manifest is not None
    killed = manifest["sessions"][0]
    assert (killed["records"], killed["in_flight_at_end"]) == (10, 4 + 1)
    assert killed["requests_started"] == 15


def test_second_process_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    with Run(tmp_path, PLAN, {}), pytest.raises(UsageError, match="another mars"):
        Run(tmp_path, PLAN, {}).__enter__()


def test_different_plan_is_refused_by_the_key_that_differs(tmp_path: Path) -> None:
    with Run(tmp_path, PLAN, {}):
        pass
    before = snapshot(tmp_path)
    with pytest.raises(UsageError, match=r"different plan \(k; there k is 7, now 3\)"):
        check_folder(tmp_path, {**PLAN, "k": 3})
    assert snapshot(tmp_path) == before


def test_file_and_foreign_folder_are_refused_and_untouched(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="is a file"):
        check_folder(tmp_path / "file", PLAN)
    with pytest.raises(UsageError, match="not empty"):
        check_folder(tmp_path, PLAN)
    assert snapshot(tmp_path) == {str(tmp_path / "file"): b"mine"}


def test_place_that_cannot_hold_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="cannot be made in"):
        check_folder(tmp_path / "file" / "run", PLAN)


@pytest.mark.parametrize("content", ["", "[]", "{}", "not json", '"text"'])
def test_broken_manifest_is_one_clear_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(UsageError, match="not a manifest"):
        check_folder(tmp_path, PLAN)


def test_newer_schema_is_refused_by_number(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps({"schema": 99}))
    with pytest.raises(UsageError, match="schema 99"):
        read_manifest(tmp_path)


def test_scores_are_filled_in_without_touching_anything_else(tmp_path: Path) -> None:
    with Run(tmp_path, PLAN, {}) as run:
        path = run.quality("t", "ar")
        run.append(path, {"key": "a", "text": "x", "scores": None})
        run.append(path, {"key": "b", "text": "y", "scores": None})
        corpus = {"scores": {"ter,none": None}, "parts": {"ter,none": {"ter": [1, 4]}}}
        run.attach_scores(path, {"a": corpus})
        first, _ = (json.loads(line) for line in path.read_text().splitlines())
        assert first == {"key": "a", "text": "x", **corpus, "session": 1}
        run.attach_scores(path, {"a": {"scores": {"exact_match,none": 1.0}}})
    first, second = (json.loads(line) for line in path.read_text().splitlines())
    assert first == {"key": "a", "text": "x", "scores": {"exact_match,none": 1.0}, "session": 1}
    assert second["scores"] is None
