"""Files of JSON lines: what is read, and what is said of one that is broken."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from mars_cli import data
from mars_cli.errors import UsageError

pytest.importorskip("datasets", reason="datasets comes with the extras cpu and gpu")

EXPECTED = 'each line is a JSON object with "q" and "a"'
GOOD = {"q": "one?", "a": "1"}


def pair(row: data.Row) -> data.Document:
    return {"q": row.text("q"), "a": row.text("a", "b")}


def load(path: Path) -> list[Any]:
    return list(data.load("t", pair, EXPECTED, data=str(path))["test"])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(GOOD) + "\n\n", encoding="utf-8")
    return path


def test_each_line_that_is_not_empty_is_a_document(file: Path) -> None:
    assert load(file) == [GOOD]


def test_a_byte_order_mark_and_odd_separators_are_no_obstacle(file: Path) -> None:
    odd = {**GOOD, "q": "a\u2028b"}
    file.write_text(json.dumps(odd, ensure_ascii=False) + "\r\n", encoding="utf-8-sig")
    assert load(file) == [odd]


def test_a_gzipped_file_is_known_by_its_content(file: Path) -> None:
    file.write_bytes(gzip.compress(file.read_bytes()))
    assert load(file) == [GOOD]
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(UsageError, match=r"rows\.jsonl: its compression is damaged") as caught:
        load(file)
    assert "cut off" in (caught.value.hint or "")


def test_a_field_may_have_another_name(file: Path) -> None:
    file.write_text('{"q": "one?", "b": "1"}')
    assert load(file) == [GOOD]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"q": "q", "a', "line 2: not valid JSON"),
        (b"[1]", "line 2: a JSON object was expected, not list"),
        (b'{"a": "3"}', 'line 2, field "q": a non-empty string was expected, but it is missing'),
        (b'{"q": "q"}', 'line 2, field "a": .* it is missing, and so is "b"'),
        (b'{"q": "q", "a": 3}', 'line 2, field "a": .* it is 3'),
        (b'{"q": " ", "a": "3"}', 'line 2, field "q": .* it is " "'),
        (b'{"q": "caf\xe9", "a": "3"}', "line 2: not UTF-8 .byte 0xe9"),
        (b"[" * 100_000, "line 2: not valid JSON"),
    ],
)
def test_a_broken_line_is_named_with_its_number_and_field(
    file: Path, line: bytes, message: str
) -> None:
    file.write_bytes(json.dumps(GOOD).encode() + b"\n" + line + b"\n")
    with pytest.raises(UsageError, match=message) as caught:
        load(file)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.hint


def test_a_last_line_that_nothing_ends_is_said_to_be_cut_off(file: Path) -> None:
    file.write_text(f'{json.dumps(GOOD)}\n{{"q": "tw')
    with pytest.raises(UsageError, match=r"line 2: not valid JSON") as caught:
        load(file)
    assert "it may have been cut off" in (caught.value.hint or "")
    assert EXPECTED in (caught.value.hint or "")


def test_a_file_in_another_encoding_is_refused(file: Path) -> None:
    file.write_text(json.dumps(GOOD), encoding="utf-16")
    with pytest.raises(UsageError, match="line 1: not UTF-8") as caught:
        load(file)
    assert caught.value.hint == "Save the file as UTF-8."


def test_a_file_that_is_absent_or_empty_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.jsonl: cannot be read"):
        load(tmp_path / "nowhere.jsonl")
    with pytest.raises(UsageError, match="cannot be read"):
        load(tmp_path)
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(UsageError, match=r"empty\.jsonl: holds no documents of t"):
        load(tmp_path / "empty.jsonl")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, 'field "reference": a list of non-empty strings .* it is null'),
        ([], 'field "reference": a list of non-empty strings .* it is \\[\\]'),
        (["", "b"], 'field "reference": a list of non-empty strings'),
        ("", 'field "reference": a non-empty string'),
    ],
)
def test_a_reference_is_a_list_of_strings_or_one(value: Any, message: str) -> None:
    for good in (["yes", "no"], "yes"):
        assert data.Row({"reference": good}, "f, line 1", "rows").reference() == "yes"
    with pytest.raises(UsageError, match=f"f, line 1, {message}"):
        data.Row({"reference": value}, "f, line 1", "rows").reference()


# --- MARS_DATA ------------------------------------------------------------------------------------


def test_the_data_folder_is_searched_by_the_tasks_name_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MARS_DATA", raising=False)
    assert data.in_data_folder("t", ["sub/x.jsonl"]) is None
    monkeypatch.setenv("MARS_DATA", str(tmp_path))
    assert data.in_data_folder("t", ["sub/x.jsonl"]) is None
    (tmp_path / "sub").mkdir()
    for name in ("sub/x.jsonl", "t.jsonl.gz", "t.jsonl"):
        (tmp_path / name).touch()
        assert data.in_data_folder("t", ["sub/x.jsonl"]) == tmp_path / name


def test_a_data_folder_that_is_not_there_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARS_DATA", str(tmp_path / "gone"))
    with pytest.raises(UsageError, match=r"MARS_DATA=.*gone: no such folder"):
        data.in_data_folder("t", [])
