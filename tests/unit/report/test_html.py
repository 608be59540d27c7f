"""The HTML report: what is in the page, that nothing in it breaks out, and how much of it there is.

What the page does in a browser is in test_html_browser.py.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from mars_cli.analysis.checked import checked
from mars_cli.analysis.stored import Stored, load
from mars_cli.analysis.sweep import build_sweep
from mars_cli.cli import main
from mars_cli.errors import MarsError
from mars_cli.report import numbers, sweeps
from mars_cli.report.blocks import Lines
from mars_cli.report.gathered import Gathered
from mars_cli.report.html import answers, page
from mars_cli.report.html.answers import DIFFERS, RELAXED, Data, add_answers, spans_of
from mars_cli.report.html.pictures import pictures
from mars_cli.report.html.tables import sort_key
from mars_cli.report.listing import listing, run_entry
from tests.unit.analysis.built import LANES, MARS, STRICT
from tests.unit.report import made
from tests.unit.report.test_golden import same
from tests.unit.report.test_hostile import PIECES, harmless, many, reports

RUN = "20261129-1802-tiny-aaaa"
DOUBLE = "né 名\U0001f600"
VOID = {"meta", "input", "img"}
TAGS = {
    *("html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "h3", "h4", "h5"),
    *("div", "label", "input", "output", "button", "nav", "ul", "li", "a", "main", "noscript"),
    *("section", "p", "table", "caption", "thead", "tbody", "tr", "th", "td", "small", "details"),
    *("summary", "script", "figure", "img", "figcaption"),
}
ATTRIBUTES = {
    *("class", "id", "href", "scope", "data-key", "data-task", "type", "hidden", "lang", "charset"),
    *("http-equiv", "content", "name", "placeholder", "autocomplete", "aria-live", "aria-label"),
    *("alt", "src"),
}


class Parsed(HTMLParser):
    """Elements in order, the text of each, and whether every one is closed in its place."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def parsed(text: str) -> Parsed:
    """The page, once it is sure to hold our elements only, and to load nothing."""
    assert text.isascii()
    harmless(text)
    found = Parsed(text)
    assert {tag for tag, _ in found.elements} <= TAGS
    assert {name for _, attributes in found.elements for name in attributes} <= ATTRIBUTES
    assert [one.get("type") for one in found.all("script")] == ["application/json", None]
    assert all(str(one["href"]).startswith("#s") for one in found.all("a"))
    assert all(str(one["src"]).startswith("data:image/svg+xml;base64,") for one in found.all("img"))
    assert len(found.all("h1")) == len(found.all("title")) == len(found.all("style")) == 1
    return found


def data_of(text: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def spelled(token: int, *words: str, relaxed: tuple[int, ...] = (), **fields: Any) -> Any:
    """Fields of an answer of these words; the last is the token `token`."""
    ends = [len("".join(words[: n + 1])) for n in range(len(words))]
    given = {
        "token_ids": [*range(5, 4 + len(words)), token],
        "text": "".join(words),
        "token_ends": ends,
        "relaxed_at": list(relaxed),
        "step_tokens": [len(words)],
        "drafted": [0],
        "accepted": [0],
    }
    return {**given, **fields}


def small() -> dict[str, list[dict[str, Any]]]:
    """Two documents; MARS gets the second wrong by a relaxed token."""

    def lane(second: float, **last: Any) -> list[dict[str, Any]]:
        return [
            {**made.right([1])[0], **spelled(9, "It is ", DOUBLE)},
            {**made.right([0, int(second)])[1], **last},
        ]

    right = spelled(8, "So it is", " 4", "2")
    wrong = spelled(7, "So it is", " 4", "3", relaxed=(1, 2))
    return {"ar": lane(1, **right), STRICT: lane(1, **right), MARS: lane(0, **wrong)}


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures have tests of their own, and take seconds."""
    monkeypatch.setattr(page, "pictures", lambda *given, **more: '<div class="pictures"></div>')


@pytest.fixture
def outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    made.make(tmp_path / "outputs" / RUN, answers=small(), results=made.by_hand())
    return tmp_path / "outputs"


def reported(arguments: list[str], capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(["report", *arguments])
    out, err = capsys.readouterr()
    assert stopped.value.code == code, err
    return str(out)


# -- what it looks like ------------------------------------------------------------------------


def test_a_small_run_looks_so(outputs, capsys):
    text = reported([RUN, "--format", "html"], capsys)
    parsed(text)
    text = re.sub(r"(?s)<style>.*?</style>", "<style></style>", text)
    text = re.sub(r"(?s)<script>.*?</script>", "<script></script>", text)
    same("one.html", re.sub(r"'sha256-[^']*'", "'sha256-'", text))


def test_the_ending_of_out_says_html_and_nothing_is_written_into_the_run(outputs, capsys):
    before = sorted(path.name for path in (outputs / RUN).rglob("*"))
    reported([RUN, "--out", "report.html"], capsys)
    assert Path("report.html").read_text().startswith("<!DOCTYPE html>")
    assert sorted(path.name for path in (outputs / RUN).rglob("*")) == before


def test_every_figure_and_note_of_the_terminal_is_in_the_page(outputs):
    results = made.by_hand()
    task = results["tasks"][made.TASK]
    task["categories"] = {"writing": {"n": 3, "lanes": task["lanes"]}}
    results["engine_differences"] = ["async scheduling is off"]
    text = page.report_page(Gathered([Stored(outputs / RUN, {}, checked(results))]), [], [])
    for told in (
        *("100.0% <small>[98.2, 101.8]</small>", "1.03x <small>[0.99, 1.07] ~</small>"),
        *("1.8% <small>safe</small>", "A/A 1.01x [0.97, 1.05]", "async scheduling is off"),
        *("writing (3): ", "3.1% of tokens are the target&#x27;s second choice", "geometric mean"),
        *("accepted by position 50.0% 25.0%", "the answers are 1.25 times", "AMD EPYC"),
    ):
        assert told in text


def test_the_policy_allows_this_style_and_this_script_and_nothing_else(outputs, capsys):
    text = reported([RUN, "--format", "html"], capsys)
    found = parsed(text)
    policy = next(one for one in found.all("meta") if "http-equiv" in one)["content"]

    def allowed(tag: str) -> str:
        inside = re.search(rf"(?s)<{tag}>(.*?)</{tag}>", text)
        assert inside is not None
        digest = hashlib.sha256(inside[1].encode()).digest()
        return f"'sha256-{base64.b64encode(digest).decode()}'"

    assert policy == (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        f"style-src {allowed('style')}; script-src {allowed('script')}"
    )
    script = "".join(found.texts["script"])
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", script)


def test_several_runs_are_compared_and_each_has_its_documents(outputs, capsys):
    made.make(outputs / "20261130-0915-tiny-bbbb", answers=made.quality(), results=made.by_hand())
    text = reported([RUN, "20261130", "--format", "html"], capsys)
    found = parsed(text)
    told = "".join(found.texts["h2"])
    assert "What makes them less than comparable" in told
    assert "A: 20261129-1802-tiny-aaaa" in told
    assert "B: 20261130-0915-tiny-bbbb" in told
    assert [len(task["documents"]) for task in data_of(text)["tasks"]] == [2, 40]


def test_runs_beyond_the_most_have_their_figures_compared_and_no_documents(
    outputs, capsys, monkeypatch
):
    monkeypatch.setattr(page, "MOST_RUNS", 1)
    made.make(outputs / "20261130-0915-tiny-bbbb", results=made.by_hand())
    text = reported([RUN, "20261130", "--format", "html"], capsys)
    assert len(data_of(text)["tasks"]) == 1
    assert "figures and documents are those of the first 1 of 2 runs" in text
    assert text.count("20261130-0915-tiny-bbbb") >= 1


def test_a_killed_run_shows_what_is_recorded(outputs, capsys):
    made.make(outputs / "20261128-0900-tiny", answers=small(), results=False, status="partial")
    text = reported(["20261128", "--format", "html"], capsys)
    found = parsed(text)
    assert "the run is partial" in "".join(found.texts["li"])
    assert len(data_of(text)["tasks"][0]["documents"]) == 2
    assert "Figures" not in found.texts["h2"]


def test_results_alone_make_a_page_that_says_there_are_no_answers(tmp_path, capsys):
    made.write(tmp_path / "results.json", made.by_hand())
    text = reported([str(tmp_path), "--format", "html"], capsys)
    parsed(text)
    assert page.NO_ANSWERS in text
    assert data_of(text) == {"texts": [], "tasks": []}


def test_the_list_is_a_page_too(outputs, capsys):
    found = parsed(reported(["--list", "--format", "html"], capsys))
    assert found.texts["h1"] == ["1 run in outputs"]
    assert RUN in found.texts["th"]


def test_what_cannot_be_read_has_a_line_and_the_rest_is_reported(outputs, capsys):
    (outputs / "empty").mkdir()
    made.make(outputs / "newer", results=made.by_hand())
    made.edit(outputs / "newer/manifest.json", lambda found: found.update(schema=2))
    (outputs / "foreign").mkdir()
    (outputs / "foreign" / "notes.txt").write_text("x")
    names = [RUN, "empty", "newer", "foreign", "--format", "html"]
    text = reported(names, capsys, code=3)
    found = parsed(text)
    lines = "".join(found.texts["li"])
    for told in ("empty: is empty", "written with schema 2", "foreign: holds no run of mars"):
        assert lines.count(told) == 1
    assert "mars_products" in found.texts["h2"]


# -- tables ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("printed", "key"),
    [
        *(("0.250", 0.25), ("97.5%", 97.5), ("1.22x", 1.22), ("12,345", 12345), ("1.5e+06", 1.5e6)),
        *(("<0.001", 0.001), ("-0.125", -0.125), ("8 of 12", 8), ("40/40", 40)),
        *((numbers.NULL, None), (f"{numbers.NULL} low base", None), ("yes", None), ("", None)),
    ],
)
def test_a_figure_sorts_by_the_number_that_is_printed(printed, key):
    assert sort_key(printed) == key


def test_figures_carry_their_number_and_names_do_not(outputs, capsys):
    found = parsed(reported([RUN, "--format", "html"], capsys))
    keys = [one["data-key"] for one in found.all("td") if "data-key" in one]
    assert {"0.8", "97.5", "1.22", "24.4"} <= set(keys)
    assert all("data-key" not in one for one in found.all("th"))


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


# -- sweeps ------------------------------------------------------------------------------------


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


# -- strangers ---------------------------------------------------------------------------------


@many
@given(reports)
def test_no_name_or_note_becomes_markup(found):
    parsed(page.report_page(found, [], [PIECES[0], PIECES[3]]))


@many
@given(reports)
def test_nor_in_the_list(found):
    parsed(page.blocks_page(listing([*map(run_entry, found.runs)], Path("outputs"))))


def test_no_text_of_a_model_leaves_the_data(tmp_path):
    texts = [*PIECES, "</script><script>alert(1)</script>", "<!--<script>", "]]>&amp;\u2028"]
    quality = {"ar": made.right([1] * len(texts)), MARS: made.right([1] * len(texts))}
    for record, piece in zip(quality["ar"], texts, strict=True):
        record["text"] = piece
    folder = made.make(tmp_path / "run", answers=quality, results=made.by_hand())
    prompts = [{"doc_id": n, "prompt": piece, "hash": ""} for n, piece in enumerate(texts)]
    made.write_lines(folder / f"records/prompts/{made.TASK}.jsonl", prompts)
    text = page.report_page(Gathered([load(folder)]), [], [])
    parsed(text)
    found = data_of(text)
    (task,) = found["tasks"]
    for piece, document in zip(texts, task["documents"], strict=True):
        assert found["texts"][document["prompt"]] == piece
        assert found["texts"][document["answers"][0]["text"]] == piece


def test_names_that_no_file_can_have_are_shown_all_the_same(tmp_path, capsys):
    long = "y" * 300
    results = made.by_hand(("ar", long, "a\0b"))
    results["lanes"] = [{"id": lane} for lane in ("ar", long, "a\0b")]
    results["tasks"][long] = results["tasks"][f"../{long}"] = results["tasks"].pop(made.HARD)
    made.write(tmp_path / "results.json", checked(results))
    for folder in ("prompts", f"quality/{made.TASK}"):
        (tmp_path / "records" / folder).mkdir(parents=True)
    text = reported([str(tmp_path), "--format", "html"], capsys)
    assert long in parsed(text).texts["h2"]
    found = Gathered([load(tmp_path)])
    drawn = pictures(found.runs[0].results, page._records(found.runs[0]))
    assert "the other figures: not drawn" in drawn


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


def test_nor_does_a_sweep(hostile_sweep, capsys):
    parsed(reported([str(hostile_sweep), "--format", "html"], capsys))


def test_a_line_of_100_kilobytes_is_shortened_and_says_how_long_it_was(tmp_path):
    results = made.by_hand()
    results["tasks"][made.TASK]["notes"] = ["z" * 100_000]
    text = page.report_page(Gathered([Stored(tmp_path, {}, results)]), [], [])
    assert 9_000 < text.count("z") < 45_000
    assert "100,000 characters" in text


def test_lines_without_any_are_no_list():
    assert page.as_html([Lines(()), Lines((), listed=False)]) == ""


def test_a_group_on_disk_that_the_sweep_does_not_name_is_not_read(sweep):
    made.make(sweep / "groups" / "stray", results=made.by_hand())
    told: list[str] = []
    found = sweeps.read_sweep(sweep, told.append)
    assert [run.folder.name for run in found.groups] == ["ngram-k7"]
    assert told == []


# -- figures -----------------------------------------------------------------------------------


def test_figures_are_images_in_the_page_and_broken_records_cost_their_own_only():
    def broken() -> Any:
        yield small()[MARS][0]
        raise MarsError("records.jsonl, line 2: not a record", hint="")

    text = pictures({**made.by_hand(), "lanes": LANES}, {made.TASK: {MARS: broken()}})
    found = Parsed(text)
    titles = [one["alt"] for one in found.all("img")]
    assert {"Recovery", "Speedup, and the A/A noise"} < set(titles)
    for one in found.all("img"):
        head, _, data = str(one["src"]).partition(",")
        assert head == "data:image/svg+xml;base64"
        svg = base64.b64decode(data).decode()
        assert "<svg" in svg
        assert not re.search(r"<script|<image|<foreignObject|href=\"(?!#)", svg)
    assert "the other figures: not drawn. records.jsonl, line 2" in "".join(found.texts["li"])


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
