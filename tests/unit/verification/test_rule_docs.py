"""docs/rule.md says what the rules do: its examples run, and its tables are complete."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from mars_cli.verification.rules import RULES
from mars_cli.verification.spec import parameters_of

PAGE = Path(__file__).parents[3] / "docs" / "rule.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples() -> list[doctest.Example]:
    """Those of all python blocks, each with its line in the page."""
    found = []
    for block in BLOCK.finditer(TEXT):
        above = TEXT.count("\n", 0, block.start(1))
        for example in doctest.DocTestParser().get_examples(block.group(1)):
            example.lineno += above
            found.append(example)
    return found


def test_examples_give_what_the_page_says() -> None:
    page = doctest.DocTest(examples(), {}, "rule.md", str(PAGE), 0, None)
    said: list[str] = []
    results = doctest.DocTestRunner(verbose=False).run(page, out=said.append)
    assert results.failed == 0, "".join(said)
    assert results.attempted == len(page.examples)


def test_every_python_block_is_made_of_examples() -> None:
    blocks = [block.group(1) for block in BLOCK.finditer(TEXT)]
    assert len(blocks) == TEXT.count("```") // 2  # no block of another kind, none left open
    assert all(block.startswith(">>> ") for block in blocks)
    assert sum(bool(example.want) for example in examples()) >= len(blocks) - 1  # one sets up


@pytest.mark.parametrize("name", RULES)
def test_the_table_has_each_rule_with_its_parameters(name: str) -> None:
    row = re.search(rf"^\| `{name}` \|[^|]*\|([^|]*)\|", TEXT, re.MULTILINE)
    assert row
    written = [
        f"`{key}`" if default is None else f"`{key}={default}`"
        for key, default in parameters_of(name).items()
    ]
    assert row.group(1).strip() == (", ".join(written) or "none")
