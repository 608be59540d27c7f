"""Speeds of a lane against the baseline's, and the noise they stand in.

All from speed records of one concurrency: lanes interleaved, the baseline measured twice (A/A
control).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from mars_cli.analysis import metrics, stats
from mars_cli.analysis.metrics import BASELINE, Pair, Record

FARTHEST = 100  # times the repeats made: what lies beyond is not worth a number
_SPEEDUPS: tuple[tuple[str, Callable[[Record], float | None], bool], ...] = (
    ("speedup", metrics.tokens_per_second, False),
    ("decode_speedup", metrics.decode_tokens_per_second, False),
    ("wall_speedup", metrics.request_seconds, True),
)


def speed_ratio(
    pairs: Sequence[Pair], figure: Callable[[Record], float | None], *, inverse: bool = False
) -> stats.Estimate:
    """Mean over prompts of a lane's figure / the same for the baseline, paired by prompt.

    Repeats are averaged within a prompt first. `inverse` turns the quotient over (times: the sum
    of the baseline's seconds / the sum of the lane's).
    """
    lane, base = metrics.paired_by_document(pairs, figure)
    return stats.log_ratio(base, lane) if inverse else stats.log_ratio(lane, base)


def strict_beside(
    lane: Mapping[str, Any], lanes: Iterable[Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """The strict lane with the draft and K of a lane that is another: only their rules differ."""
    if lane["id"] == BASELINE or lane["rule"] == "strict":
        return None
    same = ("draft", "k", "temperature")
    return next(
        (
            other
            for other in lanes
            if other["rule"] == "strict" and all(other.get(key) == lane.get(key) for key in same)
        ),
        None,
    )


def lane_speeds(
    speed: Sequence[Record], lane_id: str, noise: Mapping[str, Any], strict: str | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Speedups, speeds and times of a lane, and notes.

    `noise` is their `noise_floor`, `strict` the id of its `strict_beside`.
    """
    records = timed(speed, lane_id)
    values: dict[str, Any] = {}
    missing: dict[str, list[str]] = {}
    pairs = metrics.pair(records, timed(speed, BASELINE), "repeat")
    for name, figure, inverse in _SPEEDUPS:
        found = speed_ratio(pairs, figure, inverse=inverse)
        if lane_id == BASELINE and found.value is not None:
            found = stats.Estimate(1.0)  # against itself: 1 by definition
        values[name], values[f"{name}_ci"] = found.value, found.interval
        if found.note and records:
            missing.setdefault(found.note, []).append(name)
    over, partly = _over_strict(records, speed, strict)
    values["strict_speedup"], values["strict_speedup_ci"] = over.value, over.interval
    if over.note and records:
        missing.setdefault(over.note, []).append("strict_speedup")
    notes = [f"{', '.join(names)}: {note}" for note, names in missing.items()] + partly
    values["within_noise"] = within_noise(values["speedup_ci"], noise["aa_ci"])
    values["tokens_per_s"] = metrics.tokens_per_s(records)
    values["ttft_ms"] = metrics.ttft_ms(records)
    values["tpot_ms"] = metrics.tpot_ms(records)
    values["throughput"] = metrics.throughput(records)
    values["throughput_speedup"] = _throughput_ratio(records, timed(speed, BASELINE))
    if not records:
        notes.append("speed: not measured for this lane")
    elif lane_id != BASELINE:
        rounds = len({record.get("repeat") or 0 for record in records})
        notes += _noise_notes(noise["aa_ci"], values["speedup"], rounds)
    return values, notes


def _over_strict(
    records: Sequence[Record], speed: Sequence[Record], strict: str | None
) -> tuple[stats.Estimate, list[str]]:
    """A lane's speed over its strict lane's, and a note where fewer prompts have both."""
    if strict is None:
        return stats.Estimate(None), []
    beside = timed(speed, strict)
    if records and not beside:
        return stats.Estimate(None, note="its strict lane was not timed"), []
    found = speed_ratio(metrics.pair(records, beside, "repeat"), metrics.tokens_per_second)
    prompts, shared = ({r["doc_id"] for r in lane} for lane in (records, beside))
    both = len(prompts & shared)
    partly = f"strict_speedup: over {both} of {len(prompts)} prompts, those timed in both lanes"
    return found, [partly] if both < len(prompts) else []


def within_noise(speedup_ci: Sequence[float] | None, aa_ci: Sequence[float] | None) -> bool | None:
    """Whether a speedup's interval overlaps the A/A interval, or 1 where there is no control.

    None when the speedup has no interval: then nothing can be said.
    """
    if speedup_ci is None:
        return None
    low, high = aa_ci or (1.0, 1.0)
    return speedup_ci[0] <= high and low <= speedup_ci[1]


def repeats_needed(repeats: int, noise: float, effect: float) -> int | None:
    """Repeats, in all, after which the A/A interval would about be narrower than an effect.

    An interval shrinks with the square root of the number of timed rounds, so it takes
    repeats * (noise / effect)^2 of them, rounded up, and at least one more than there are.

    Args:
        repeats: how often each prompt was timed, from 1.
        noise: how far the A/A interval reaches from 1 on the log scale; its half-width where it
            lies about 1. Off 1 it is more: that offset is noise too, and shrinks alike.
        effect: absolute log of the speedup.

    Returns:
        None where that is more than 100 times as many, as for an effect of 0.
    """
    if effect <= 0 or (noise / effect) ** 2 > FARTHEST:
        return None
    # Float noise must not add a repeat to a whole number of them.
    return max(repeats + 1, math.ceil(round(repeats * (noise / effect) ** 2, 6)))


def noise_floor(speed: Sequence[Record]) -> dict[str, Any]:
    """The A/A control: the second `ar` measurement of each prompt against the first."""
    control = timed(speed, BASELINE, control=True)
    pairs = metrics.pair(control, timed(speed, BASELINE), "repeat")
    found = speed_ratio(pairs, metrics.tokens_per_second)
    notes = [] if found.note is None else [f"A/A control: {found.note}"]
    return {
        "aa_speedup": found.value,
        "aa_ci": found.interval,
        "aa_throughput_speedup": _throughput_ratio(control, timed(speed, BASELINE)),
        "notes": notes,
    }


def levels(speed: Iterable[Record]) -> dict[int, list[Record]]:
    """The speed records by concurrency, lowest first."""
    found: dict[int, list[Record]] = {}
    for record in speed:
        found.setdefault(int(record.get("concurrency") or 1), []).append(record)
    return dict(sorted(found.items()))


def _throughput_ratio(records: Sequence[Record], base: Sequence[Record]) -> float | None:
    ours, theirs = metrics.throughput(records), metrics.throughput(base)
    return ours / theirs if ours and theirs else None


def _noise_notes(
    aa_ci: Sequence[float] | None, speedup: float | None, repeats: int
) -> Iterator[str]:
    """Says so where the A/A interval is wider than the effect, and what would settle it."""
    if aa_ci is None or speedup is None or speedup <= 0 or aa_ci[0] <= 0:
        return
    noise, effect = max(abs(math.log(end)) for end in aa_ci), abs(math.log(speedup))
    if noise < effect:
        return
    needed = repeats_needed(repeats, noise, effect)
    if needed is None:
        remedy = f"it would take more than {FARTHEST} times as many repeats to settle it"
    else:
        remedy = f"about {needed} repeats in all (now {repeats}) would settle it"
    yield f"speed: the A/A interval is wider than the effect; {remedy}"


def timed(speed: Iterable[Record], lane_id: str, *, control: bool = False) -> list[Record]:
    """A lane's speed records; of `ar` those of its second measurement if `control`."""
    return [r for r in speed if r["lane"] == lane_id and bool(r.get("control")) == control]
