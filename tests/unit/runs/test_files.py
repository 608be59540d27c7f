from __future__ import annotations

import json
from pathlib import Path

import pytest

from mars_cli.errors import MarsError
from mars_cli.runs.files import (
    append_records,
    drop_torn_line,
    read_records,
    write_json,
    write_records,
)


def test_appended_records_are_read_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "records.jsonl"
    for number in range(3):
        append_records(path, [{"n": number, "text": "line\nbreak é"}])
    assert [record["n"] for record in read_records(path)] == [0, 1, 2]


def test_torn_last_line_is_not_a_record(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    append_records(path, [{"n": 0}])
    with path.open("a") as file:
        file.write('{"n": 1, "te')
    assert list(read_records(path)) == [{"n": 0}]


def test_record_after_a_torn_line_starts_on_its_own(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    append_records(path, [{"n": 0}])
    with path.open("a") as file:
        file.write('{"n": 1, "te')
    drop_torn_line(path)
    append_records(path, [{"n": 2}])
    assert [record["n"] for record in read_records(path)] == [0, 2]


def test_failed_write_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    write_json(path, {"a": 1})
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(path, {"a": float("nan")})
    with pytest.raises(TypeError):
        write_records(path, [{"a": object()}])
    assert json.loads(path.read_text()) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["results.json"]


def test_absent_file_has_no_records(tmp_path: Path) -> None:
    assert list(read_records(tmp_path / "none.jsonl")) == []


def test_broken_line_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text('{"n": 0}\n{"n": \n{"n": 2}\n')
    with pytest.raises(MarsError, match=r"records\.jsonl, line 2"):
        list(read_records(path))
