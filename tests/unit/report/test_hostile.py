"""Text from models, tasks and other people's machines is data: it breaks no format."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.cells import cell_len
from rich.console import Console

from mars_cli.analysis.across import Paired
from mars_cli.analysis.checked import checked
from mars_cli.analysis.comparable import ANSWERS, Difference
from mars_cli.analysis.figures import FIGURES, Unit
from mars_cli.analysis.stored import Count, Stored
from mars_cli.report.gathered import Gathered
from mars_cli.report.latex import latex
from mars_cli.report.listing import as_rows, listing, run_entry
from mars_cli.report.markdown import blocks_markdown
from mars_cli.report.render import as_text, dumped, on_terminal
from mars_cli.report.terminal import terminal
from mars_cli.report.tidy import COLUMNS, as_csv
from tests.unit.report import made

PIECES = [
    "<script>alert(1)</script>",
    "<!-- ",
    "\x1b[31m\x1b]0;title\x07",
    "\x9b2J",
    "\u202e\u2066\u200f",
    "a|b\\|c`d``e",
    "\r\n\n| x | y |\n|---|---|\n# title\n",
    "\\end{tabular}\\input{/etc/passwd}",
    "$x^2_3 & 5% {}#~\\\\",
    "^^5cinput",
    "[0pt] * -- '' \"",
    "=HYPERLINK(1)",
    '","x"\r\n',
    "\u2028\u2029\x85\x0b\x00",
    "\ud800",
    "[bold]x[/] :smile:",
    "https://example.org ![x](y) &lt; &#60;",
    "名前 e\u0301 \U0001f600",
    "- * 1. > ===\t---",
    "y" * 400,
]
words = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), min_size=1, max_size=3)
strings = words.map("".join)
PRINTED = ["97.5%", "[90.0, 104.8]", "1.22x", "[1.17, 1.27]", "24.4", "10.0%", "1.44", "0.780"]


def hostile(draw: Any, number: int) -> Stored:
    """A run every name and note of which is a stranger's."""
    text = [draw(strings) for _ in range(9)]
    lanes = ("ar", f"s{text[0]}", f"m{text[1]}")
    results = made.by_hand(lanes)
    results["run"] = {"id": text[2], "created": text[3], "status": text[4]}
    results["model"] = {"name": text[5], text[5]: {text[6]: [text[7]]}}
    results["lanes"] = [{"id": lane, "rule": text[6], "draft": text[7]} for lane in lanes]
    results["tasks"][f"t{text[7]}"] = results["tasks"].pop(made.HARD)
    for task in results["tasks"].values():
        task["metric"], task["speed_mode"] = text[8], text[7]
        task["notes"] = [text[0]]
        for found in task["lanes"].values():
            found["notes"] = [text[1]]
    results["notes"], results["engine_differences"] = [text[2]], [text[3]]
    counts = (Count(text[0], text[1], 1, None, 2),) if number == 2 else ()
    return Stored(Path("/nowhere"), {}, checked(results), counts)


@st.composite
def gathered(draw: Any, runs: int) -> Gathered:
    found = [hostile(draw, number) for number in range(runs)]
    if runs == 1:
        return Gathered(found)
    base, other = found[0], found[1]
    values = (*(draw(strings) for _ in found[1:]), None)
    differing = [Difference(ANSWERS, draw(strings), draw(strings), values)]
    lane = next(iter(base.results["tasks"][made.TASK]["lanes"]))
    pairs = [
        Paired(other, base, made.TASK, lane, 40, 40, 97.5, (90.0, 104.76), 10.0, 0.5, 1.0),
        Paired(other, base, made.TASK, draw(strings), note=draw(strings)),
    ]
    return Gathered(found, base, differing, pairs)


many = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
reports = st.sampled_from([1, 2, 3]).flatmap(gathered)


@many
@given(reports, st.sampled_from([40, 80, 100, 140]))
def test_on_a_terminal_no_line_is_too_wide_no_control_is_sent_and_no_figure_is_cut(found, width):
    console = Console(width=width, file=io.StringIO(), color_system=None, legacy_windows=False)
    console.print(on_terminal(found, width))
    text = console.file.getvalue()
    harmless(text)
    assert max(map(cell_len, text.split("\n"))) <= width
    for figure in PRINTED if width >= 80 else PRINTED[:1]:
        assert figure in text


def harmless(text: str) -> None:
    assert all(c == "\n" or c.isprintable() for c in text)


@many
@given(reports)
def test_markdown_has_our_tables_and_no_html(found):
    text = as_text(found, "md", None)
    harmless(text)
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    every = [*tokens, *(child for token in tokens for child in token.children or ())]
    kinds = {token.type for token in every}
    assert not kinds & {"html_block", "html_inline", "link_open", "image", "fence", "strong_open"}
    assert {len(cells) for cells in tables(tokens)} <= {1}
    headings = [token.tag for token in tokens if token.type == "heading_open"]
    assert headings.count("h1") == 1
    if len(found.runs) > 1:
        # The runs, and per task its figures; one paired; overall.
        names = {name for run in found.runs for name in run.results["tasks"]}
        assert len(tables(tokens)) == 3 + len(names)


def tables(tokens: Any) -> list[set[int]]:
    """For each table how many cells its rows have."""
    found: list[set[int]] = []
    cells = 0
    for token in tokens:
        if token.type == "table_open":
            found.append(set())
        elif token.type == "tr_open":
            cells = 0
        elif token.type in ("td_open", "th_open"):
            cells += 1
        elif token.type == "tr_close":
            found[-1].add(cells)
    return found


# Everything that may stand behind a backslash in what we write.
OURS = {
    *("begin", "end", "centering", "footnotesize", "setlength", "tabcolsep", "caption", "label"),
    *("resizebox", "ifdim", "width", "linewidth", "else", "fi"),
    *("toprule", "midrule", "bottomrule", "leq", "cdot"),
    *("textbackslash", "textasciicircum", "textasciitilde", "textless", "textgreater", "textbar"),
    *("{", "}", "$", "&", "#", "%", "_", "`", "\\"),
}


@many
@given(reports)
def test_latex_is_ascii_with_our_commands_only_and_whole_rows(found):
    sound_latex(as_text(found, "latex", None))


def sound_latex(text: str) -> None:
    assert text.isascii()
    harmless(text)
    body = "\n".join(line for line in text.split("\n") if not line.startswith("%"))
    assert "^^" not in body
    commands = re.findall(r"\\([a-zA-Z]+|.)", body)
    assert set(commands) <= OURS
    plain = re.sub(r"\\([a-zA-Z]+|.)", " ", body)
    assert "%" not in plain
    assert plain.count("$") % 2 == 0
    depth = 0
    for c in plain:
        depth += {"{": 1, "}": -1}.get(c, 0)
        assert depth >= 0
    assert depth == 0
    opened = re.findall(r"\\(begin|end)\{(\w+)\}", body)
    assert opened == [
        *[("begin", "table"), ("begin", "tabular"), ("end", "tabular"), ("end", "table")]
        * (len(opened) // 4)
    ]
    for table in re.findall(r"\\begin\{tabular\}\{([lr]+)\}(.*?)\\end\{tabular\}", body, re.DOTALL):
        kinds, rows = table
        for line in rows.strip().split("\n"):
            line = line.strip()
            if line not in (r"\toprule", r"\midrule", r"\bottomrule"):
                assert len(re.findall(r"(?<!\\)&", line)) == len(kinds) - 1
                assert line.endswith(r" \\")
                assert not line.startswith(("[", "*"))


@many
@given(reports)
def test_csv_is_a_line_a_row_and_no_cell_is_a_formula(found):
    text = as_text(found, "csv", None)
    harmless(text.replace("\r\n", "\n"))
    header, *rows = csv.reader(io.StringIO(text))
    assert tuple(header) == COLUMNS
    lanes = sum(len(t["lanes"]) for run in found.runs for t in run.results["tasks"].values())
    assert text.count("\r\n") == text.count("\n") == len(rows) + 1 == lanes + 1
    for row in rows:
        assert len(row) == len(COLUMNS)
        assert not any(re.match(r"[=+@]|-(?![0-9.])", cell) for cell in row)


@many
@given(reports)
def test_json_is_ascii_and_gives_back_what_was_there(found):
    text = as_text(found, "json", None)
    assert text.isascii()
    harmless(text)
    for shown, run in zip(json.loads(text)["runs"], found.runs, strict=True):
        del shown["counts"]
        assert shown == json.loads(json.dumps(run.results))


@many
@given(st.integers(1, 3).flatmap(gathered), st.sampled_from([40, 80, 100, 140]))
def test_the_list_is_as_safe(found, width):
    rows = [run_entry(run) for run in found.runs]
    blocks = listing(rows, Path("outputs"))
    console = Console(width=width, file=io.StringIO(), color_system=None, legacy_windows=False)
    console.print(terminal(blocks, width))
    text = console.file.getvalue()
    harmless(text)
    assert max(map(cell_len, text.split("\n"))) <= width
    sound_latex(latex(blocks))
    tokens = MarkdownIt("commonmark").enable("table").parse(blocks_markdown(blocks))
    assert tables(tokens) == [{7}]
    assert as_csv(as_rows(rows), list(as_rows(rows)[0])).count("\r\n") == len(rows) + 1
    assert len(json.loads(dumped(as_rows(rows)))) == len(rows)


@pytest.mark.parametrize("form", ["table", "md", "latex", "csv"])
def test_a_line_of_100_kilobytes_is_shortened_and_says_how_long_it_was(form):
    results = made.by_hand()
    results["tasks"][made.TASK]["notes"] = ["z" * 100_000]
    found = Gathered([Stored(Path("/nowhere"), {}, results)])
    if form == "table":
        console = Console(width=100, file=io.StringIO(), color_system=None)
        console.print(on_terminal(found, 100))
        text = console.file.getvalue()
    else:
        text = as_text(found, form, None)
    assert 9_000 < text.count("z") < 45_000
    assert "100,000 characters" in text


@pytest.mark.parametrize("value", [1e299, -1e299, 1e-299, 12345678.9])
def test_figures_of_any_size_stay_short(value):
    results = made.by_hand()
    for task in results["tasks"].values():
        for lane in task["lanes"].values():
            lane |= {name: value for name, unit in FIGURES.items() if unit is not Unit.FLAG}
    found = Gathered([Stored(Path("/nowhere"), {}, checked(results))])
    console = Console(width=80, file=io.StringIO(), color_system=None)
    console.print(on_terminal(found, 80))
    for text in (console.file.getvalue(), as_text(found, "md", None)):
        assert not re.search(r"\d{17}", text)
