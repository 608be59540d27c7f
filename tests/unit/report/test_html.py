"""The HTML report: what is in the page, and that nothing in it breaks out.

Its documents are in test_html_documents.py, sweeps in test_html_sweeps.py; what the page does in a
browser in test_html_browser.py.
"""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from mars_cli.analysis.checked import checked
from mars_cli.analysis.stored import Stored, load
from mars_cli.errors import MarsError
from mars_cli.report import numbers
from mars_cli.report.blocks import Lines
from mars_cli.report.gathered import Gathered
from mars_cli.report.html import page
from mars_cli.report.html.pictures import pictures
from mars_cli.report.html.tables import sort_key
from mars_cli.report.listing import listing, run_entry
from tests.unit.analysis.built import LANES, MARS
from tests.unit.report import made
from tests.unit.report.pages import RUN, Parsed, data_of, parsed, reported, small
from tests.unit.report.test_golden import same
from tests.unit.report.test_hostile import PIECES, many, reports

pytestmark = pytest.mark.usefixtures("undrawn")

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


def test_a_line_of_100_kilobytes_is_shortened_and_says_how_long_it_was(tmp_path):
    results = made.by_hand()
    results["tasks"][made.TASK]["notes"] = ["z" * 100_000]
    text = page.report_page(Gathered([Stored(tmp_path, {}, results)]), [], [])
    assert 9_000 < text.count("z") < 45_000
    assert "100,000 characters" in text


def test_lines_without_any_are_no_list():
    assert page.as_html([Lines(()), Lines((), listed=False)]) == ""


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
