"""What a trace found, as blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mars_cli.report import numbers
from mars_cli.report.blocks import Block, Heading, Lines, Table

LEGEND = (
    "positions: verified, as far as each draft was followed. z1 ≤ 0: the largest logit is not "
    "positive, where no r is defined. r = z2/z1 and p2/p1: medians; rank corr.: Spearman's between "
    "them. The rule sees r, a user feels p2/p1: where they part, a near-tie is none."
)
THETA_LEGEND = (
    "low-margin: r > theta. clear there: of low-margin positions, those whose first choice is "
    "more than twice as likely as the second. Of strict's rejections: those at low-margin "
    "positions, and the wasteful ones, where the draft was the second choice too, which MARS "
    "would accept."
)


def blocks(trace: Mapping[str, Any]) -> list[Block]:
    """Each task's lanes: what was verified, and what each theta would say of it."""
    run = trace["run"]
    title = f"{run['id']} · {trace['model']['name']} · {run['status']}"
    return [Heading(title, 1), *_tasks(trace), Lines((LEGEND, THETA_LEGEND), listed=False)]


def _tasks(trace: Mapping[str, Any]) -> Iterator[Block]:
    own = {lane["id"]: lane["theta"] for lane in trace["lanes"]}
    for task, entry in trace["tasks"].items():
        yield Heading(task)
        lanes = entry["lanes"].items()
        yield Table(
            (
                "lane",
                "answers",
                "positions",
                "accepted",
                "relaxed",
                "z1 ≤ 0",
                "r",
                "p2/p1",
                "rank corr.",
            ),
            tuple(
                (
                    (lane,),
                    (numbers.count(found["answers"]),),
                    (numbers.count(found["positions"]),),
                    (numbers.share(found["accepted_share"]),),
                    (numbers.share(found["relaxed_share"]),),
                    (numbers.share(found["nonpositive_top_share"]),),
                    (numbers.number(_median(found["r_quantiles"]), 3),),
                    (_small(_median(found["p2_over_p1_quantiles"])),),
                    (numbers.number(found["rank_correlation"]),),
                )
                for lane, found in lanes
            ),
            caption=f"{task}. {LEGEND}",
        )
        yield Heading(f"{task}: what strict verification rejects")
        yield Table(
            ("lane", "theta", "low-margin", "clear there", "rejections", "low-margin", "wasteful"),
            tuple(
                (
                    (lane,),
                    (f"{at['theta']:g}",),
                    (numbers.share(at["low_margin_share"]),),
                    (numbers.share(at["clear_share_of_low_margin"]),),
                    (numbers.count(found["strict_rejections"]),),
                    (numbers.share(at["low_margin_share_of_rejections"]),),
                    (numbers.share(at["wasteful_share_of_rejections"]),),
                )
                for lane, found in lanes
                for at in found["thetas"]
                if own[lane] in (None, at["theta"])
            ),
            caption=f"{task}. {THETA_LEGEND}",
        )


def _median(quantiles: Mapping[str, float] | None) -> float | None:
    return None if quantiles is None else quantiles["0.5"]


def _small(value: float | None) -> str:
    return numbers.NULL if value is None else f"{value:.2g}"
