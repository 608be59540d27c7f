"""Pages read again as elements, and a small run to make them of."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from mars_cli.cli import main
from tests.unit.analysis.built import MARS, STRICT
from tests.unit.report import made
from tests.unit.report.test_hostile import harmless

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


def reported(arguments: list[str], capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(["report", *arguments])
    out, err = capsys.readouterr()
    assert stopped.value.code == code, err
    return str(out)
