from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from mars_cli.analysis.trace import Tally, build_trace
from mars_cli.report import numbers
from mars_cli.report.figures import write_trace_figures
from mars_cli.report.figures.trace import BARS, KINDS, SPAN, margins
from mars_cli.report.terminal import terminal
from mars_cli.report.trace import blocks

LANES = {
    "strict-eagle3-k10": None,
    "mars-eagle3-k10-t0.84": 0.84,
    "mars-eagle3-k10-t0.96": 0.96,
}


def positions(number: int) -> dict[str, np.ndarray[Any, Any]]:
    chance = np.random.default_rng(number)
    z1 = chance.uniform(2, 30, number).astype(np.float32)
    gap = chance.exponential(3, number).astype(np.float32)
    p1 = 1 / (1 + np.exp(-gap))
    rank = chance.choice([1, 2, 3], number, p=[0.6, 0.3, 0.1])
    return {
        "accepted": rank == 1,
        "relaxed": np.zeros(number, dtype=bool),
        "rank": rank,
        "z1": z1,
        "z2": z1 - gap,
        "p1": p1,
        "p2": 1 - p1,
    }


def trace(number: int = 2_000) -> dict[str, Any]:
    lane = {"rule": "mars", "draft": "eagle3", "k": 10, "parameters": {}}
    manifest = {
        **{"id": "run", "created": "2026-11-30T10:00:00+00:00", "status": "complete"},
        "plan": {"model": {"name": "qwen3-8b", "weights": "hub:a/b"}},
        "lanes": [{"id": name, **lane, "theta": theta} for name, theta in LANES.items()],
    }
    tallies = {}
    for task in ("mars_gsm8k", "mars_humaneval"):
        for name in LANES:
            tallies[task, name] = tally = Tally([0.84, 0.96])
            tally.answers = 12
            if number:
                tally.add(positions(number))
    return build_trace(manifest, tallies)


@pytest.mark.parametrize("width", [80, 100, 140])
def test_the_table_fits_and_every_figure_is_whole(width: int) -> None:
    console = Console(width=width, file=io.StringIO())
    console.print(terminal(blocks(trace()), width))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, text.splitlines())) <= width
    for name in ("0.84", "0.96", "2,000", "wasteful"):
        assert name in text


def test_nothing_verified_is_dashes_and_no_figure(tmp_path: Path) -> None:
    console = Console(width=100, file=io.StringIO())
    console.print(terminal(blocks(trace(0)), 100))
    assert numbers.NULL in console.file.getvalue()  # type: ignore[attr-defined]
    said: list[str] = []
    assert write_trace_figures(trace(0), tmp_path, say=said.append) == []
    assert len(said) == 2


def test_figures_are_written_for_slides_and_for_papers(tmp_path: Path) -> None:
    written = write_trace_figures(trace(), tmp_path)
    assert sorted(path.name for path in written) == [
        *("decoupling.png", "decoupling.svg", "margins.png", "margins.svg"),
    ]


def test_bars_hold_every_position_with_an_r() -> None:
    figure = margins(trace())
    drawn = figure.axes[0].patches
    assert len(drawn) == len(KINDS) * BARS
    assert sum(bar.get_height() for bar in drawn) == pytest.approx(100)  # type: ignore[attr-defined]
    assert figure.axes[0].get_xlim() == SPAN
