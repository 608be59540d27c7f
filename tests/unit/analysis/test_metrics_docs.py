"""docs/metrics.md defines each figure: its examples run, and it names all that results.json has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from mars_cli.analysis.compare import TaskInput, build_results
from tests.unit.doc_page import Page

PAGE = Page("metrics.md")
NAME = re.compile(r"`([a-z0-9_]+)`")
FIRST_CELL = re.compile(r"^\| (`[^|]*) \|", re.MULTILINE)
NO_FIGURES = {"run", "model", "environment"}
KEYED_BY_NAME = {"tasks", "metrics", "noise", "overall", "by_concurrency", "groups"}


def answers(lane: str, drafted: int) -> list[dict[str, Any]]:
    """Of two documents, with a time: good for either phase."""
    return [
        {
            "doc_id": doc,
            "lane": lane,
            "token_ids": [1, 2, 3, 4],
            "step_tokens": [1, 2, 1] if drafted else [1, 1, 1, 1],
            "drafted": [0, drafted, 0] if drafted else [0, 0, 0, 0],
            "accepted": [0, 1, 0] if drafted else [0, 0, 0, 0],
            "scores": {"acc,none": 1.0},
            "seconds": 1.0 + doc,
            "ttft_s": 0.5,
        }
        for doc in (0, 1)
    ]


def results(recorded: bool) -> Mapping[str, Any]:
    """Of ar, timed twice, and mars on one task; without records if not `recorded`."""
    ar, mars = answers("ar", 0), answers("mars", 3)
    speed = [*ar, *mars, *({**record, "control": True} for record in ar)]
    quality = {"ar": ar, "mars": mars}
    scored = {"z": [2.0], "z1": [2.0], "z2": [1.0], "lse": [2.5], "entropy": [0.9], "above": [0]}
    fidelity = {lane: [{"doc_id": 0, **scored}] for lane in quality}
    given = (quality, speed) if recorded else ({}, [])
    task = TaskInput(
        "t", "acc,none", True, "interleaved", *given, fidelity=fidelity if recorded else {}
    )
    lanes = [
        {"id": "ar", "rule": "none", "parameters": {}},
        {"id": "mars", "rule": "mars", "parameters": {"theta": 0.9}},
    ]
    return build_results({}, {}, {}, lanes, {"t": task})


def keys(found: Mapping[str, Any]) -> Iterator[str]:
    """The keys at every depth, without the names of tasks, lanes and metrics."""
    for key, value in found.items():
        yield key
        if not isinstance(value, Mapping) or key in NO_FIGURES:
            continue
        named = key in KEYED_BY_NAME or (key == "lanes" and "ar" in value)
        for inner in value.values() if named else [value]:
            if isinstance(inner, Mapping):
                yield from keys(inner)


def test_examples_give_what_the_page_says() -> None:
    PAGE.run()
    assert len(PAGE.examples()) > len(PAGE.blocks) > 1


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "nothing recorded"])
def test_the_page_names_every_key_of_the_results(recorded: bool) -> None:
    found = set(keys(results(recorded)))
    assert {"p_value_holm", "n_paired", "aa_ci", "nll_delta", "n_speed"} <= found  # each depth
    assert not {"ar", "mars", "t", "acc,none"} & found
    assert sorted(found - set(NAME.findall(PAGE.prose))) == []


def test_the_tables_name_no_figure_that_the_results_lack() -> None:
    figures = {name for cell in FIRST_CELL.findall(PAGE.prose) for name in NAME.findall(cell)}
    assert len(figures) > 40
    assert sorted(figures - set(keys(results(recorded=True)))) == []


def test_every_figure_of_the_tables_has_an_example() -> None:
    figures = {name for cell in FIRST_CELL.findall(PAGE.prose) for name in NAME.findall(cell)}
    code = "\n".join(example.source for example in PAGE.examples())
    shown = set(re.findall(r'"([a-z0-9_]+)"', code)) | set(re.findall(r"metrics\.(\w+)\(", code))
    assert sorted(figures - shown) == []
