"""The HTML report in a real browser: it sorts, filters, opens documents, and obeys no text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mars_cli.analysis.stored import load
from mars_cli.report.gathered import Gathered
from mars_cli.report.html.page import report_page
from tests.unit.analysis.built import MARS, STRICT
from tests.unit.report import made
from tests.unit.report.browser import Browser, find
from tests.unit.report.test_hostile import PIECES

DOCUMENTS, HOSTILE, WRONG = 120, 2, 5
EVIL = "</script><img src=x onerror=alert(1)>" + "".join(PIECES)
ENDS = [1, 3, 4]  # of "a", U+1F600 and "b" as one token, "c"


def answers(lane: str) -> list[dict[str, Any]]:
    """MARS is wrong in one document, by its second token, which is relaxed."""
    found = made.right([1] * DOCUMENTS, token_ids=[5, 6, 7], token_ends=ENDS, text="a\U0001f600bc")
    if lane == MARS:
        other = {"token_ids": [5, 8, 7], "text": "a\U0001f4a9bc", "relaxed_at": [1]}
        found[WRONG] |= {**other, "scores": {"acc,none": 0.0}}
        found[HOSTILE] |= {"token_ids": [9], "text": EVIL, "token_ends": [len(EVIL)]}
    return found


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = find()
    if program is None:
        pytest.skip("no Chromium is installed (Debian: apt install chromium)")
    with Browser(program, tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("html")
    results = made.by_hand()
    results["tasks"][made.TASK]["notes"] = [EVIL]
    quality = {lane: answers(lane) for lane in ("ar", STRICT, MARS)}
    run = made.make(folder / "run", answers=quality, results=results)
    starts = {HOSTILE: EVIL, WRONG: "odd one"}
    prompts = [
        {"doc_id": n, "prompt": f"Question: {starts.get(n, f'number {n}')}\nAnswer:", "hash": ""}
        for n in range(DOCUMENTS)
    ]
    made.write_lines(run / f"records/prompts/{made.TASK}.jsonl", prompts)
    path = folder / "report.html"
    path.write_text(report_page(Gathered([load(run)]), [], []), encoding="utf-8")
    return path


@pytest.fixture
def page(browser: Browser, report: Path) -> Browser:
    browser.view(1200)
    browser.open(report)
    browser.run("localStorage.clear()")
    return browser


OPENED = """(async () => {
  const place = document.querySelector("details.documents");
  place.open = true;
  while (!place.querySelector(".browse")) await new Promise((done) => setTimeout(done, 10));
})()"""
SHOWN_DOCUMENTS = "[...document.querySelectorAll('.browse tbody:not([hidden]) .document')]"


@pytest.fixture
def opened(page: Browser) -> Browser:
    """The page with its list of documents open."""
    page.run(OPENED)
    return page


def documents(page: Browser) -> list[str]:
    return list(page.run(f"{SHOWN_DOCUMENTS}.map((one) => one.textContent)"))


def open_document(page: Browser, name: int) -> None:
    script = f"{SHOWN_DOCUMENTS}.find((one) => one.textContent === '{name}').click()"
    page.run(script)


def column(page: Browser, place: int, table: int = 0) -> list[str]:
    rows = f"[...document.querySelectorAll('table.data')[{table}].tBodies[0].rows]"
    return list(page.run(f"{rows}.map((row) => row.cells[{place}].firstChild.textContent.trim())"))


def header(place: int) -> str:
    return f"document.querySelectorAll('table.data')[0].tHead.rows[0].cells[{place}]"


def test_it_loads_nothing_and_nothing_in_it_is_refused(opened, report):
    open_document(opened, HOSTILE)
    assert opened.run("[...document.images].length") >= 4
    assert opened.run("[...document.images].every((one) => one.naturalWidth > 100)")
    assert opened.complaints() == []
    assert opened.loaded() == [report.as_uri()]


def test_the_policy_refuses_a_script_and_an_image_that_slipped_in(page):
    page.run("document.body.append(Object.assign(new Image(), {src: 'https://example.org/x.png'}))")
    page.run(
        "(() => { const one = document.createElement('script'); one.text = 'window.ran = 1';"
        " document.body.append(one); })()"
    )
    assert page.run("window.ran") is None
    assert page.run("new Promise((done) => setTimeout(done, 50))") is None
    assert sum("Content Security Policy" in said for said in page.complaints()) >= 2


def test_a_header_sorts_by_number_up_then_down_and_dashes_stay_last(page):
    assert column(page, 3) == ["–", "1.8%", "10.0%"]  # noqa: RUF001
    page.run(f"{header(3)}.querySelector('button').click()")
    assert page.run(f"{header(3)}.getAttribute('aria-sort')") == "ascending"
    assert column(page, 3) == ["1.8%", "10.0%", "–"]  # noqa: RUF001
    page.run(f"{header(3)}.querySelector('button').click()")
    assert page.run(f"{header(3)}.getAttribute('aria-sort')") == "descending"
    assert column(page, 3) == ["10.0%", "1.8%", "–"]  # noqa: RUF001
    page.run(f"{header(0)}.querySelector('button').click()")
    assert page.run(f"{header(3)}.getAttribute('aria-sort')") == "none"
    assert column(page, 0) == ["ar", MARS, STRICT]


def test_a_keyboard_sorts_too(page):
    page.run(f"{header(5)}.querySelector('button').focus()")
    page.press("Enter", 13)
    assert column(page, 5) == ["1.00x", "1.03x", "1.22x"]
    page.press(" ", 32)
    assert column(page, 5) == ["1.22x", "1.03x", "1.00x"]


def test_the_filter_hides_the_rows_of_every_table_that_lack_a_word(page):
    def typed(text: str) -> None:
        page.run(
            f"(() => {{ const box = document.getElementById('rows'); box.value = '{text}';"
            " box.dispatchEvent(new Event('input')); })()"
        )

    typed("MARS t0.9")
    shown = "[...document.querySelectorAll('table.data tbody tr:not([hidden]) th')]"
    names = page.run(f"{shown}.map((one) => one.textContent)")
    assert set(names) == {MARS}
    total = page.run("document.querySelectorAll('table.data tbody tr').length")
    told = page.run("document.getElementById('rows-left').textContent")
    assert told == f"{len(names)} of {total}"
    typed("")
    assert page.run(f"{shown}.length") == total


def test_a_document_opens_with_its_prompt_and_answers_side_by_side(opened):
    open_document(opened, WRONG)
    card = "[...document.querySelectorAll('.browse .answer')]"
    assert opened.run(f"{card}.map((one) => one.querySelector('h4').textContent)") == [
        *("ar", STRICT, MARS)
    ]
    said = opened.run("document.querySelector('.prompt pre').textContent")
    assert said == "Question: odd one\nAnswer:"
    texts = opened.run(f"{card}.map((one) => one.querySelector('pre').textContent)")
    assert texts == ["a\U0001f600bc", "a\U0001f600bc", "a\U0001f4a9bc"]
    facts = opened.run(f"{card}.map((one) => one.querySelector('.legend').textContent)")
    assert facts[0].startswith("score 1 · 3 tokens · finish: stop")
    assert facts[1].endswith("as ar")
    assert facts[2].startswith("score 0 · ")
    assert facts[2].endswith("1 relaxed · differs from token 1")
    # The character beyond 16 bits and what follows it: offsets are characters.
    assert opened.run(f"{card}[2].querySelector('mark').textContent") == "\U0001f4a9b"
    assert opened.run(f"{card}[2].querySelector('mark').className") == "relaxed differs"
    assert opened.run(f"{card}[0].querySelectorAll('mark').length") == 0
    tops = opened.run(f"{card}.map((one) => one.getBoundingClientRect().top)")
    assert len(set(tops)) == 1
    open_document(opened, WRONG)
    assert opened.run(f"{card}.length") == 0


def test_a_keyboard_opens_a_document(opened):
    opened.run(f"{SHOWN_DOCUMENTS}[3].focus()")
    opened.press("Enter", 13)
    assert opened.run("document.activeElement.getAttribute('aria-expanded')") == "true"
    assert opened.run("document.querySelectorAll('.browse .answer').length") == 3


def test_documents_are_found_by_text_and_by_what_differs(opened):
    assert len(documents(opened)) == 100
    count = "document.querySelector('.documents output').textContent"
    assert opened.run(count) == f"{DOCUMENTS} of {DOCUMENTS}"
    opened.run("[...document.querySelectorAll('.documents [data-task] > button')].at(-1).click()")
    assert len(documents(opened)) == DOCUMENTS

    def tick(place: int) -> None:
        opened.run(f"document.querySelectorAll('.documents [type=checkbox]')[{place}].click()")

    tick(0)
    assert documents(opened) == [str(HOSTILE), str(WRONG)]
    tick(1)
    assert documents(opened) == [str(WRONG)]
    tick(0)
    tick(1)
    tick(2)
    assert documents(opened) == [str(WRONG)]
    tick(2)
    find = "document.querySelector('.documents [type=search]')"
    for text, found in (("ODD", [WRONG]), ("number 11", [11, *range(110, 120)]), ("7", [7])):
        opened.run(f"{find}.value = '{text}'; {find}.dispatchEvent(new Event('input'))")
        if text == "7":
            assert "7" in documents(opened)
        else:
            assert documents(opened) == [str(one) for one in found]


def test_documents_sort_by_a_lanes_score(opened):
    opened.run("document.querySelectorAll('.browse thead button')[4].click()")
    assert documents(opened)[0] == str(WRONG)
    opened.run("document.querySelectorAll('.browse thead button')[0].click()")
    assert documents(opened)[:12] == [str(one) for one in range(12)]


def test_what_only_some_prompts_say_stands_in_the_list(opened):
    said = f"{SHOWN_DOCUMENTS}[{WRONG}].closest('tr').cells[1].textContent"
    assert opened.run(said) == "odd one"


def test_hostile_text_is_shown_and_not_obeyed(opened):
    open_document(opened, HOSTILE)
    shown = opened.run("[...document.querySelectorAll('.answer pre')].at(-1).textContent")
    for told in (
        "</script><img src=x onerror=alert(1)>",
        "<script>alert(1)</script>",
        "\u241b[31m",
    ):
        assert told in shown
    for hidden in ("\x1b", "\u202e", "\u2066", "\u200f", "\u2028", "\x00", "\x9b"):
        assert hidden not in shown
    assert "U+202E" in shown
    assert "U+009B" in shown
    assert opened.run("document.querySelectorAll('script, img[src=x]').length") == 2
    isolated = "getComputedStyle(document.querySelector('.answer pre')).unicodeBidi"
    assert opened.run(isolated) == "isolate"
    assert opened.complaints() == []


def test_colours_follow_the_system_until_the_reader_chooses(page):
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.run(paper)
    page.view(1200, scheme="dark")
    dark = page.run(paper)
    assert light == "rgb(255, 255, 255)"
    assert max(map(int, dark[4:-1].split(","))) < 60
    theme = "document.getElementById('theme')"
    assert page.run(f"{theme}.textContent") == "Theme: auto"
    page.run(f"{theme}.click()")
    assert (page.run(f"{theme}.textContent"), page.run(paper)) == ("Theme: light", light)
    page.view(1200, scheme="light")
    page.run(f"{theme}.click()")
    assert (page.run(f"{theme}.textContent"), page.run(paper)) == ("Theme: dark", dark)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_on_its_ground(opened, scheme):
    opened.view(1200, scheme=scheme)
    open_document(opened, WRONG)
    ratios = opened.run(CONTRAST)
    assert min(ratios.values()) >= 4.5, ratios


# WCAG 2.1: (lighter + 0.05) / (darker + 0.05) of relative luminances.
CONTRAST = """(() => {
  const light = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map(Number).map((value) => {
      const part = value / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (one) => {
    for (; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return colour;
    }
  };
  const found = {};
  for (const name of ["h1", "td", "td small", "thead th", "nav a", ".legend", ".answer pre",
                      ".answer .legend", "mark.relaxed", "td.worse", "td.worse small",
                      "figcaption", ".document"]) {
    const one = document.querySelector(name);
    const [a, b] = [light(getComputedStyle(one).color), light(ground(one))];
    found[name] = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  }
  return found;
})()"""


@pytest.mark.parametrize("width", [360, 800])
def test_the_page_itself_never_scrolls_sideways(opened, width):
    open_document(opened, HOSTILE)
    opened.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    opened.view(width)
    assert opened.run("document.documentElement.scrollWidth") <= width
    # The list may be wider, and scrolls; what is opened in it is in view all the same.
    assert width > 360 or opened.run("document.querySelector('.browse').offsetWidth") > width
    for side, holds in (("left", min), ("right", max)):
        edges = "[...document.querySelectorAll('.open > *, .answer')].map((one) => one"
        found = opened.run(f"{edges}.getBoundingClientRect().{side})")
        assert 0 <= holds(found) <= width


def test_paper_shows_no_controls(page):
    page.call("Emulation.setEmulatedMedia", media="print")
    display = "[...document.querySelectorAll('nav, .controls')].map((one) => getComputedStyle(one)"
    assert set(page.run(f"{display}.display)")) == {"none"}
    page.call("Emulation.setEmulatedMedia", media="")
