from __future__ import annotations

import io

from rich.console import Console

from mars_cli.commands.progress import Lines, clock, eta


def test_eta_is_unknown_before_anything_is_done() -> None:
    assert eta(0, 10, 5.0) is None
    assert clock(None) == "-"


def test_eta_goes_by_the_pace_so_far() -> None:
    assert eta(2, 10, 30.0) == 120.0
    assert clock(120.0) == "2:00"


def test_lines_say_what_an_earlier_session_recorded() -> None:
    out = io.StringIO()
    with Lines(Console(file=out, width=100)).phase("quality t ar", 12, 5) as step:
        step(7)
    assert out.getvalue().splitlines() == [
        "quality t ar: 12 to do, 5 recorded before",
        "quality t ar: 12/12 in 0:00",
    ]
