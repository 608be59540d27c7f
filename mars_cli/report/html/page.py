"""The page: its sections, the data of its documents, and the style and script that go into it.

A Content-Security-Policy allows the style and the script by their hashes, images that lie in the
page, and nothing else: what slipped through in spite of all could neither run nor load a thing.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from importlib.resources import files
from string import Template

from mars_cli.analysis.stored import Stored
from mars_cli.report.blocks import Block, Heading, Lines
from mars_cli.report.figures import Answers
from mars_cli.report.gathered import Gathered
from mars_cli.report.html.answers import Data, add_answers
from mars_cli.report.html.pictures import pictures
from mars_cli.report.html.tables import Section, as_html, folded, sections, text
from mars_cli.report.numbers import counted
from mars_cli.report.several import labels, several
from mars_cli.report.single import details, facts, opening, task_blocks
from mars_cli.report.sweeps import StoredSweep
from mars_cli.runs.files import read_records
from mars_cli.runs.layout import by_lane
from mars_cli.runs.reading import inside

MOST_RUNS = 12  # with figures and documents: each adds seconds and megabytes
NO_ANSWERS = "No answers are here: the folder holds no quality records."


def report_page(found: Gathered, sweeps: Sequence[StoredSweep], unread: Sequence[str]) -> str:
    """The page of some runs and sweeps; `unread` are lines on those that could not be read."""
    data = Data()
    if len(found.runs) == 1 and not sweeps:
        (run,) = found.runs
        title, *others = opening(run)
        parts = [*sections([*others, *task_blocks(run)]), *_of_run(data, run)]
    else:
        title, parts = _title(found, sweeps), list(_side_by_side(data, found, sweeps))
    assert isinstance(title, Heading)
    if unread:
        parts.insert(0, Section("Not in this report", as_html([Lines(tuple(unread))])))
    return _page(title.text, parts, data)


def blocks_page(blocks: Sequence[Block]) -> str:
    """The page of blocks alone, the first of which is its title."""
    title, *others = blocks
    assert isinstance(title, Heading)
    return _page(title.text, sections(others), Data())


def _title(found: Gathered, sweeps: Sequence[StoredSweep]) -> Block:
    if len(sweeps) == 1 and not found.runs:
        return Heading(f"mars sweep: {sweeps[0].id}", 1)
    given = [(found.runs, "run"), (sweeps, "sweep")]
    told = " and ".join(counted(len(ones), what) for ones, what in given if ones)
    return Heading(f"{told} side by side", 1)


def _side_by_side(data: Data, found: Gathered, sweeps: Sequence[StoredSweep]) -> Iterator[Section]:
    """What compares runs, each sweep, then what is each run's own."""
    if len(found.runs) > 1:
        _, *blocks = several(found.runs, found.differences, found.pairs, found.base)
        yield from sections(blocks)
    names = labels(len(found.runs))
    own = [(label, run, True) for label, run in zip(names, found.runs, strict=True)]
    for sweep in sweeps:
        first, *others = sections(sweep.blocks)
        figures = [pictures(results, recommended=sweep.recommended) for results in sweep.joined]
        yield Section(first.title, "\n".join([first.body, *figures]))
        yield from others
        own += [(sweep.id, run, False) for run in sweep.groups]
    for label, run, drawn in own[:MOST_RUNS]:
        title, *rest = opening(run)
        assert isinstance(title, Heading)
        parts = _of_run(data, run, drawn=drawn, tables=True)
        body = "\n".join(
            [as_html(rest), *(f"<h3>{text(part.title)}</h3>\n{part.body}" for part in parts)]
        )
        yield Section(f"{label}: {title.text}", body)
    if len(own) > MOST_RUNS:
        said = f"figures and documents are those of the first {MOST_RUNS} of {len(own)} runs"
        yield Section("Left out", as_html([Lines((said,))]))


def _of_run(data: Data, run: Stored, *, drawn: bool = True, tables: bool = False) -> list[Section]:
    """A run's figures if `drawn`, its documents, and what few look for; `tables`: all of them."""
    found = []
    if drawn and run.results["tasks"]:
        found.append(Section("Figures", pictures(run.results, _records(run))))
    found.append(Section("Documents", _documents(data, run)))
    blocks = [*(task_blocks(run) if tables else ()), *details(run)]
    if blocks:
        found.append(
            Section("In detail", folded("all figures of all lanes", as_html(blocks, 1 + tables)))
        )
    known = list(facts(run))
    if known:
        known_blocks = as_html(known, int(tables))
        found.append(
            Section("Lanes and environment", folded("what was run, and on what", known_blocks))
        )
    return found


def _records(run: Stored) -> Answers:
    """The quality records by task and lane, read as they are asked for."""
    lanes = [lane["id"] for lane in run.results["lanes"]]
    paths = {
        task: {lane: by_lane(run.folder, "quality", task, lane) for lane in lanes}
        for task in run.results["tasks"]
    }
    return {
        task: {lane: read_records(path) for lane, path in of.items() if inside(run.folder, path)}
        for task, of in paths.items()
    }


def _documents(data: Data, run: Stored) -> str:
    """A list a task, closed; the page's script fills it from the data when it is opened."""
    found = []
    for answers in add_answers(data, run):
        said = as_html([Lines(tuple(answers.notes))])
        place = f'<div data-task="{answers.place}"></div>'
        found.append(folded(answers.summary, f"{said}\n{place}", "documents"))
    return "\n".join(found) or f'<p class="legend">{text(NO_ANSWERS)}</p>'


def _page(title: str, parts: Sequence[Section], data: Data) -> str:
    style, script = _asset("page.css"), _asset("page.js")
    body, contents = [], []
    for number, part in enumerate(parts, start=1):
        heading = ""
        if part.title:
            heading = f"<h2>{text(part.title)}</h2>\n"
            contents.append(f'<li><a href="#s{number}">{text(_brief(part.title))}</a></li>')
        body.append(f'<section id="s{number}">\n{heading}{part.body}\n</section>')
    page = Template(_asset("page.html")).substitute(
        title=text(title),
        policy=(
            "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
            f"style-src '{_hash(style)}'; script-src '{_hash(script)}'"
        ),
        style=style,
        script=script,
        contents="\n".join(contents),
        body="\n".join(body),
        data=data.dumped(),
    )
    # ASCII, whatever the encoding it is written in; style, script and data are ASCII already.
    return page.encode("ascii", "xmlcharrefreplace").decode("ascii")


def _brief(title: str) -> str:
    """A heading as the contents have it: its first part."""
    return title.partition(" · ")[0]


def _asset(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    """As a Content-Security-Policy names what it allows inline."""
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"
