"""What the page says beyond the other formats' blocks: a run's lanes and its facts."""

from __future__ import annotations

from collections.abc import Iterator

from mars_cli.analysis.stored import Stored
from mars_cli.report import numbers
from mars_cli.report.blocks import Block, Heading, Table
from mars_cli.report.markdown import LANE_FIELDS, flat, parameters


def facts(run: Stored) -> Iterator[Block]:
    """The lanes, the model and the environment, as far as they are known."""
    header = ("lane", *LANE_FIELDS, "parameters")
    rows = tuple(
        (
            (lane["id"],),
            *((_plain(lane.get(name)),) for name in LANE_FIELDS),
            (parameters(lane),),
        )
        for lane in run.results["lanes"]
    )
    if rows:
        yield Heading("Lanes", 3)
        yield Table(header, rows, len(header), "The lanes.")
    for title, known in (
        ("Model", run.results["model"]),
        ("Environment", run.results["environment"]),
    ):
        pairs = tuple(((name,), (str(value),)) for name, value in flat(known))
        if pairs:
            yield Heading(title, 3)
            yield Table(("fact", "value"), pairs, 2, f"{title}.")


def _plain(value: object) -> str:
    return numbers.NULL if value is None else str(value)
