"""docs/rule.md says what the rules do: its examples run, and its tables are complete."""

from __future__ import annotations

import re

import pytest

from mars_cli.verification.rules import RULES
from mars_cli.verification.spec import parameters_of
from tests.unit.doc_page import Page

PAGE = Page("rule.md")


def test_examples_give_what_the_page_says() -> None:
    PAGE.run()
    wanted = sum(bool(example.want) for example in PAGE.examples())
    assert wanted >= len(PAGE.blocks) - 1  # one sets up


@pytest.mark.parametrize("name", RULES)
def test_the_table_has_each_rule_with_its_parameters(name: str) -> None:
    row = re.search(rf"^\| `{name}` \|[^|]*\|([^|]*)\|", PAGE.text, re.MULTILINE)
    assert row
    written = [
        f"`{key}`" if default is None else f"`{key}={default}`"
        for key, default in parameters_of(name).items()
    ]
    assert row.group(1).strip() == (", ".join(written) or "none")
