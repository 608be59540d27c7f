from __future__ import annotations

import io

import pytest
from rich.console import Console

from benchmarks.ratios import Bar, Row, rotated, table
from mars_cli.analysis.stats import Estimate


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [((0.97, 1.1), "met"), ((0.9, 0.969), "missed"), ((0.96, 1.0), "open"), (None, "open")],
)
def test_a_least_ratio_is_judged_by_the_whole_interval(
    interval: tuple[float, float] | None, verdict: str
) -> None:
    assert Bar(0.97).verdict(Estimate(1.0, interval)) == verdict


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [((0.9, 1.0), "met"), ((1.01, 1.2), "missed"), ((0.9, 1.01), "open"), (None, "open")],
)
def test_a_largest_ratio_is_judged_by_the_whole_interval(
    interval: tuple[float, float] | None, verdict: str
) -> None:
    assert Bar(1.0, at_most=True).verdict(Estimate(0.95, interval)) == verdict


def test_every_side_goes_first_in_turn() -> None:
    assert [rotated("abc", turn) for turn in range(4)] == [
        ["a", "b", "c"],
        ["b", "c", "a"],
        ["c", "a", "b"],
        ["a", "b", "c"],
    ]


def test_the_table_says_what_could_not_be_measured_and_what_has_no_bar() -> None:
    share, few = Estimate(0.00291, (0.0028, 0.003)), Estimate(2.0, None, "too few")
    rows = [
        Row("seam", "90 us", "31.2 ms", share, 12, Bar(0.01, at_most=True)),
        Row("start-up", "0.20 s", "0.10 s", few, 1),
    ]
    console = Console(width=100, file=io.StringIO())
    console.print(table(rows))
    assert isinstance(console.file, io.StringIO)
    lines = [" ".join(line.split()) for line in console.file.getvalue().splitlines()]
    assert lines[-2:] == [
        "seam 90 us 31.2 ms 0.00291 0.00280 to 0.00300 12 <= 0.01 met",
        "start-up 0.20 s 0.10 s 2.000 - 1",
    ]
