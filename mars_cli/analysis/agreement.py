"""Agreement with `ar` in tokens, and whether strict verification is lossless here.

At concurrency 1 batching cannot disturb it: a strict lane must deliver `ar`'s very tokens. In
batches `ar` itself may differ from one batch to another; its second pass says how often.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from mars_cli.analysis import metrics
from mars_cli.analysis.fidelity import tolerance
from mars_cli.analysis.figures import NOT_LOSSLESS
from mars_cli.analysis.metrics import BASELINE, Pair, Record
from mars_cli.analysis.speed import timed


def agreement(
    speed: Sequence[Record],
    lane: Mapping[str, Any],
    divergence: Sequence[Record] = (),
    *,
    sampled: bool,
) -> tuple[dict[str, Any], list[str]]:
    """Agreement at concurrency 1, and notes; for `ar`, of its control.

    Args:
        speed: the speed records of concurrency 1, of all lanes.
        lane: as in results.json.
        divergence: the target's logits where outputs leave `ar`'s.
        sampled: decoded at temperature > 0, so that a strict lane may differ from `ar`.
    """
    is_baseline = lane["id"] == BASELINE
    records = timed(speed, lane["id"], control=is_baseline)
    pairs = metrics.pair(records, timed(speed, BASELINE), "repeat")
    match = metrics.exact_match(pairs)
    places = [] if is_baseline else _places(pairs, divergence)
    ratios = [place["z"] / place["z1"] for place in places if place["z1"] > 0]
    values = {
        "exact_match_ar": match,
        "first_divergence_median": metrics.first_divergence_median(pairs),
        "first_divergence_ratio": median(ratios) if ratios else None,
    }
    notes = []
    if match is None and not is_baseline:
        notes.append("agreement with ar: no prompt that both lanes answered alone, timed")
    if match is not None and match < 1 and not sampled:
        if is_baseline:
            notes.append("ar does not repeat itself: its two measurements differ in tokens")
        elif lane.get("rule") == "strict":
            differ = sum(metrics.first_divergence(*pair) is not None for pair in pairs)
            verdict = _verdict(places, (lane.get("engine") or {}).get("dtype"))
            notes.append(
                f"{NOT_LOSSLESS}: {differ} of {len(pairs)} timed outputs differ from ar's{verdict}"
            )
    return values, notes


def batched_agreement(
    records: Sequence[Record],
    base: Sequence[Record],
    control: Sequence[Record],
    lane: Mapping[str, Any],
    *,
    sampled: bool,
) -> tuple[dict[str, Any], list[str]]:
    """Share of a lane's quality answers with `ar`'s very tokens, and notes; for `ar`, its control.

    Over the documents of the control, `ar`'s second pass in another order. A strict lane that
    differs from `ar` in more of them than `ar` does from itself is not lossless beyond numerics.
    """
    again = metrics.pair(control, base, "sample")
    chosen = {record["doc_id"] for record, _ in again}
    is_baseline = lane["id"] == BASELINE
    every = again if is_baseline else metrics.pair(records, base, "sample")
    pairs = [
        pair
        for pair in every
        if pair[0]["doc_id"] in chosen and not (pair[0].get("sample") or pair[0].get("turn"))
    ]
    values = {"batched_match_ar": metrics.exact_match(pairs)}
    if is_baseline or sampled or lane.get("rule") != "strict":
        return values, []
    differ, noise = (
        sum(metrics.first_divergence(*pair) is not None for pair in found)
        for found in (pairs, again)
    )
    if differ == 0:
        return values, []
    heading = f"{NOT_LOSSLESS}, batched" if differ > noise else "batched"
    return values, [
        f"{heading}: {differ} of {len(pairs)} outputs differ from ar's; of ar's own second pass, "
        f"in another order, {noise} of {len(again)} do"
    ]


def _places(pairs: Sequence[Pair], divergence: Sequence[Record]) -> list[Record]:
    """What the target thinks of each token in which an output leaves the baseline's."""
    known = {(one["doc_id"], one["at"], one["token"]): one for one in divergence}
    found = []
    for ours, base in pairs:
        at, tokens = metrics.first_divergence(ours, base), ours.get("token_ids") or []
        if at is not None and at < len(tokens):
            place = known.get((ours["doc_id"], at, tokens[at]))
            found += [] if place is None else [place]
    return found


def _verdict(places: Sequence[Record], dtype: str | None) -> str:
    """In words: numerics where the target's choice is all but a tie, else a fault."""
    if not places:
        return ""
    slack = tolerance(dtype)
    clear = [one for one in places if one["z1"] - one["z"] > slack * max(1.0, abs(one["z1"]))]
    if not clear:
        return "; where they part, the target's choice is all but a tie: numerics"
    worst = max(clear, key=lambda one: float(one["z1"] - one["z"]))
    return (
        f"; in {len(clear)} the target's choice is clear where they part (in document "
        f"{worst['doc_id']} by {worst['z1'] - worst['z']:.2g} of {worst['z1']:.3g} in logits): "
        "a fault, not numerics"
    )
