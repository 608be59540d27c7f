"""A reference is one of four forms, or one sentence says what is wrong with it."""

from __future__ import annotations

import re

import pytest

from mars_cli import references
from mars_cli.errors import UsageError
from mars_cli.resources import configs_dir


@pytest.mark.parametrize(
    ("reference", "parsed"),
    [
        ("hub:Qwen/Qwen3-8B", references.HubRef("Qwen/Qwen3-8B", None)),
        ("hub:a/b.c@refs/pr/1", references.HubRef("a/b.c", "refs/pr/1")),
        ("pypi:a-b==1.0+x#c/d.gguf", references.PypiRef("a-b", "1.0+x", "c/d.gguf")),
    ],
)
def test_a_reference_is_read_into_its_parts(reference: str, parsed: object) -> None:
    assert references.parse(reference) == parsed


@pytest.mark.parametrize(
    ("reference", "complaint"),
    [
        ("", "empty reference"),
        ("hub:", "not of the form hub:"),
        ("hub:justaname", "not of the form hub:"),
        ("hub:../../etc", "not of the form hub:"),
        ("hub:a/b@", "not of the form hub:"),
        ("pypi:a#b", "not of the form pypi:"),
        ("pypi:a==1.0", "not of the form pypi:"),
        ("pypi:a>=1.0#b", "not of the form pypi:"),
        ("pypi:--index-url=x==1#b", "not of the form pypi:"),
        ("pypi:a==1#../../etc/passwd", "not a plain path inside"),
        ("pypi:a==1#/etc/passwd", "not a plain path inside"),
        ("pypi:a==1#b/", "not a plain path inside"),
        ("pypi:a==1#b\\..\\c", "not a plain path inside"),
        ("shipped:../models", "not a plain path inside"),
        ("shipped:drafts/nosuch", "no such file or folder: shipped:drafts/nosuch"),
        ("ftp://host/file", "unknown kind of reference ftp:"),
        ("/no/such/folder", "no such file or folder: /no/such/folder"),
    ],
)
def test_a_malformed_reference_is_one_sentence_and_a_hint(reference: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=re.escape(complaint)) as caught:
        references.parse(reference)
    assert "\n" not in str(caught.value)
    assert caught.value.hint


def test_what_is_shipped_lies_among_the_configurations() -> None:
    found = references.parse("shipped:models/smollm2-135m.yaml")
    assert found == configs_dir() / "models" / "smollm2-135m.yaml"
