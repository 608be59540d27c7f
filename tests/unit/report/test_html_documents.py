"""Documents in the HTML report: which are there, what is marked in them, how much of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mars_cli.analysis.stored import load
from mars_cli.report.html import answers
from mars_cli.report.html.answers import DIFFERS, RELAXED, Data, add_answers, spans_of
from tests.unit.analysis.built import MARS, STRICT
from tests.unit.report import made
from tests.unit.report.pages import DOUBLE, small, spelled

pytestmark = pytest.mark.usefixtures("undrawn")

# -- documents ---------------------------------------------------------------------------------


def given_answers(tmp_path: Path, quality: dict[str, Any], **options: Any) -> tuple[Any, list[Any]]:
    run = load(made.make(tmp_path / "run", answers=quality, results=made.by_hand(), **options))
    data = Data()
    found = add_answers(data, run)
    json.loads(data.dumped())
    return data, found


def answer_of(data: Data, lane: str, document: int) -> Any:
    (task,) = data.tasks
    return task["documents"][document]["answers"][task["lanes"].index(lane)]


def test_relaxed_tokens_and_the_first_difference_are_marked_where_they_stand(tmp_path):
    data, (found,) = given_answers(tmp_path, small())
    assert found.summary == "mars_products: 2 documents, lanes differ in 1"
    assert found.notes == []
    wrong = answer_of(data, MARS, 1)
    assert data.texts[wrong["text"]] == "So it is 43"
    assert wrong["marks"] == [(8, 10, RELAXED), (10, 11, RELAXED | DIFFERS)]
    assert wrong["differs"] == {"at": 2, "from": 10, "to": 11, "shorter": False}
    assert (wrong["score"], wrong["tokens"], wrong["finish"]) == (0.0, 3, "stop")
    for lane, document in (("ar", 0), ("ar", 1), (STRICT, 1), (MARS, 0)):
        same_as_ar = answer_of(data, lane, document)
        assert same_as_ar["marks"] == []
        assert same_as_ar["differs"] is None


def test_a_text_of_several_lanes_is_there_once(tmp_path):
    data, _ = given_answers(tmp_path, small())
    assert sorted(data.texts) == sorted(["?", f"It is {DOUBLE}", "So it is 42", "So it is 43"])


@pytest.mark.parametrize(
    ("ends", "size", "spans"),
    [
        ([2, 3, 5], 5, [(0, 2), (2, 3), (3, 5)]),
        # The bytes of a character each have the whole of it; behind the text there is nothing.
        ([1, 1, 1, 2, 2, 2], 2, [(0, 1), (1, 2), (1, 2), (1, 2), (2, 2), (2, 2)]),
        ([0, 0, 1], 1, [(0, 1), (0, 1), (0, 1)]),
        ([0], 0, [(0, 0)]),
        ([], 0, []),
    ],
)
def test_tokens_reach_from_the_end_of_the_one_before(ends, size, spans):
    assert spans_of(ends, size) == spans


def test_an_answer_that_ends_where_ars_goes_on_is_marked_at_its_end(tmp_path):
    quality = {
        "ar": made.right([1], **spelled(8, "a", "b")),
        STRICT: made.right([1], **spelled(5, "a")),
        MARS: made.right([1], **spelled(8, "a", "b") | {"token_ids": [5, 8, 9]}),
    }
    quality[MARS][0]["token_ends"] = [1, 2, 2]  # one token more, which the stop cut off
    data, _ = given_answers(tmp_path, quality)
    assert answer_of(data, STRICT, 0)["differs"] == {"at": 1, "from": 1, "to": 1, "shorter": True}
    assert answer_of(data, STRICT, 0)["marks"] == [(1, 1, DIFFERS)]
    assert answer_of(data, MARS, 0)["differs"] == {"at": 2, "from": 2, "to": 2, "shorter": False}


def test_records_of_an_older_mars_are_shown_unmarked_and_the_page_says_why(tmp_path):
    quality = small()
    for records in quality.values():
        for record in records:
            del record["token_ends"]
    data, (found,) = given_answers(tmp_path, quality)
    assert found.notes == [answers.NO_ENDS]
    wrong = answer_of(data, MARS, 1)
    assert (wrong["relaxed"], wrong["unmarked"]) == (2, True)
    # The difference is told from the texts then.
    assert wrong["marks"] == [(10, 11, DIFFERS)]


@pytest.mark.parametrize(
    "ends", [None, [8, 10], [8, 10, 12], [10, 8, 11], [-1, 10, 11], "x", [8, 10, 11.0], [[8]]]
)
def test_ends_that_do_not_fit_mark_nothing(tmp_path, ends):
    quality = small()
    quality[MARS][1]["token_ends"] = ends
    data, (found,) = given_answers(tmp_path, quality)
    assert answer_of(data, MARS, 1)["unmarked"]
    assert answers.NO_ENDS in found.notes


NONSENSE: list[dict[str, Any]] = [
    {"doc_id": "1"},
    {"doc_id": True},
    {"doc_id": 2**60},
    {"doc_id": 0, "sample": "x"},
]


def test_records_that_are_none_of_ours_are_counted_and_the_rest_is_shown(tmp_path):
    folder = made.make(tmp_path / "run", answers=small(), results=made.by_hand())
    path = folder / f"records/quality/{made.TASK}/{MARS}.jsonl"
    strange = {
        "doc_id": 7,
        "text": 5,
        "token_ids": ["a"],
        "relaxed_at": {"x": 1},
        "scores": [1],
        "finish_reason": {},
    }
    good = path.read_text()
    lines = "".join(json.dumps(one) + "\n" for one in [*NONSENSE, strange])
    path.write_text(good + lines + "{broken\n" + good, encoding="utf-8")
    data = Data()
    (found,) = add_answers(data, load(folder))
    assert [one["id"] for one in data.tasks[0]["documents"]] == [0, 1, 7]
    assert answer_of(data, MARS, 2)["tokens"] == 0
    assert any("line 8: not a record" in note for note in found.notes)
    assert any("4 records without a document" in note for note in found.notes)


def test_samples_and_turns_are_documents_of_their_own(tmp_path):
    ar = [*made.right([1], sample=0), *made.right([1], sample=1), *made.right([1], turn=1)]
    data, _ = given_answers(tmp_path, {"ar": ar})
    keys = [(d["id"], d["sample"], d["turn"]) for d in data.tasks[0]["documents"]]
    assert keys == [(0, 0, 0), (0, 0, 1), (0, 1, 0)]
    assert [d["prompt"] is None for d in data.tasks[0]["documents"]] == [False, True, True]


def test_without_ar_the_page_says_that_differences_cannot_be_told(tmp_path):
    quality = small()
    del quality["ar"]
    data, (found,) = given_answers(tmp_path, quality)
    assert found.summary == "mars_products: 2 documents"
    assert found.notes == ["no answers of ar: where lanes differ from it cannot be told"]
    assert answer_of(data, MARS, 1)["differs"] is None


# -- how much of it ----------------------------------------------------------------------------


def test_documents_beyond_the_most_are_left_out_and_the_summary_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(answers, "MOST_DOCUMENTS", 10)  # the other task has no records
    data, (found,) = given_answers(tmp_path, made.quality())
    assert [one["id"] for one in data.tasks[0]["documents"]] == list(range(10))
    assert found.summary.startswith("mars_products: 10 of 40 documents")


def test_a_long_text_is_cut_its_marks_with_it_and_its_length_is_told(tmp_path):
    size = answers.LONGEST_TEXT
    long = spelled(8, "a" * (size - 1), "bc", "d" * 90_000, relaxed=(1, 2))
    data, (found,) = given_answers(tmp_path, {"ar": made.right([1], **long)})
    shown = answer_of(data, "ar", 0)
    assert data.texts[shown["text"]] == "a" * (size - 1) + "b"
    assert shown["marks"] == [(size - 1, size, RELAXED)]
    assert shown["cut"] == size - 1 + 2 + 90_000
    assert found.notes == [f"of longer texts the first {size:,} characters are here"]


def test_a_page_holds_no_more_texts_than_there_is_room_for(tmp_path, monkeypatch):
    quality = {"ar": made.right([1] * 40)}
    for n, record in enumerate(quality["ar"]):
        record["text"] = f"{n:04}" * 250
    run = load(made.make(tmp_path / "run", answers=quality, results=made.by_hand()))
    data = Data(room=5000)
    (found,) = add_answers(data, run)
    assert len(data.tasks[0]["documents"]) == 5
    assert sum(map(len, data.texts)) < 5000 + 2 * answers.LONGEST_TEXT
    assert found.summary == "mars_products: 5 of 40 documents, lanes differ in 0"
    assert any("no more than" in note for note in found.notes)
