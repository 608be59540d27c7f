"""Fidelity: what the plain target thinks of each token that a lane delivered.

A fidelity record holds, for one answer, a list for each of z (the token's logit), z1 and z2 (the
row's two largest), lse (log-sum-exp), entropy (nats) and above (tokens with a larger logit), one
entry a token, from a teacher-forced pass of the target over prompt and answer.

Each rule is stated here once more, over these numbers and without torch: what a lane delivered is
checked against the rule, not against the code that applied it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from mars_cli.analysis import stats
from mars_cli.analysis.metrics import Record

FIGURES = (
    "rank1_share",
    "rank2_share",
    "violations",
    "nll",
    "nll_delta",
    "nll_delta_ci",
    "tokens",
)
FIELDS = ("z", "z1", "z2", "lse", "entropy", "above")
# Logits of one pass over all tokens and of many passes over few differ in their last bits. A
# decision within this share of the top logit is taken for numerics: [by dtype].
TOLERANCE = {"float32": 1e-3}
HALF_TOLERANCE = 2e-2

Row = Mapping[str, float]


def tolerance(dtype: str | None) -> float:
    """The share of the top logit within which a decision is taken for numerics."""
    return TOLERANCE.get(dtype or "", HALF_TOLERANCE)


def is_allowed(row: Row, rule: str, parameters: Mapping[str, float], slack: float) -> bool:
    """Whether greedy decoding under this rule may deliver the row's token.

    The target's best always; else what the rule accepts. `slack` is in logits: everything that
    would be right if the token's logit were larger by as much is right.

    Raises:
        ValueError: the rule is unknown.
    """
    if row["z1"] - row["z"] <= slack:
        return True
    if rule not in _ACCEPTS:
        raise ValueError(f"unknown rule {rule!r}")
    near = {**row, "z": row["z"] + slack}
    return _ACCEPTS[rule](near, parameters)


def _second(row: Row) -> bool:
    return row["z"] >= row["z2"]


def _in_top(row: Row, k: float) -> bool:
    return row["above"] < k or (k >= 2 and _second(row))


def _mars(row: Row, parameters: Mapping[str, float]) -> bool:
    z1 = row["z1"]
    return z1 > 0 and _second(row) and row["z"] / z1 > parameters["theta"]


def _prob_ratio(row: Row, parameters: Mapping[str, float]) -> bool:
    return _second(row) and math.exp(row["z"] - row["z1"]) > parameters["ratio"]


def _typical(row: Row, parameters: Mapping[str, float]) -> bool:
    least = min(parameters["epsilon"], parameters["alpha"] * math.exp(-row["entropy"]))
    return math.exp(row["z"] - row["lse"]) > least


def _topk_delta(row: Row, parameters: Mapping[str, float]) -> bool:
    p, best = math.exp(row["z"] - row["lse"]), math.exp(row["z1"] - row["lse"])
    return _in_top(row, parameters["k"]) and p >= best - parameters["delta"]


_ACCEPTS: dict[str, Callable[[Row, Mapping[str, float]], bool]] = {
    "none": lambda row, parameters: False,
    "strict": lambda row, parameters: False,
    "mars": _mars,
    "prob-ratio": _prob_ratio,
    "typical": _typical,
    "topk-delta": _topk_delta,
    "topk": lambda row, parameters: _in_top(row, parameters["k"]),
}


def rows_of(record: Record) -> list[dict[str, float]]:
    """A record's tokens, one dict of FIELDS each."""
    columns = [record[name] for name in FIELDS]
    return [dict(zip(FIELDS, values, strict=True)) for values in zip(*columns, strict=True)]


def nll(record: Record) -> float | None:
    """Mean negative log-likelihood of an answer's tokens under the target, in nats a token."""
    losses = [lse - z for lse, z in zip(record["lse"], record["z"], strict=True)]
    return fmean(losses) if losses else None


def fidelity(
    records: Sequence[Record], base: Sequence[Record], lane: Mapping[str, Any]
) -> dict[str, Any]:
    """The fidelity figures of a lane (as described in results.json); `base` are records of `ar`.

    rank1_share, rank2_share: of all tokens, those with no and with one larger logit (0 to 1).
    violations: tokens that the lane's rule does not allow, beyond the tolerance. nll: mean over
    answers of `nll`. nll_delta: its mean difference to `ar` over documents both answered, with a
    95% interval (Student's t). All None without records.
    """
    figures: dict[str, Any] = dict.fromkeys(FIGURES)
    notes: list[str] = []
    rows = [row for record in records for row in rows_of(record)]
    if not rows:
        return {**figures, "notes": ["fidelity: not measured in this run"]}
    rule, parameters = lane["rule"], lane.get("parameters") or {}
    relative = tolerance((lane.get("engine") or {}).get("dtype"))
    wrong = [
        (record, place)
        for record in records
        for place, row in enumerate(rows_of(record))
        if not is_allowed(row, rule, parameters, relative * max(1.0, abs(row["z1"])))
    ]
    if wrong:
        record, place = wrong[0]
        notes.append(
            f"fidelity: {len(wrong)} of {len(rows)} tokens are none that the rule "
            f"{rule} allows (the first: document {record['doc_id']}, token {place})"
        )
    figures["rank1_share"] = fmean(row["above"] == 0 for row in rows)
    figures["rank2_share"] = fmean(row["above"] == 1 for row in rows)
    figures["violations"] = len(wrong)
    per_answer = [loss for record in records if (loss := nll(record)) is not None]
    figures["nll"] = fmean(per_answer)
    ours, theirs = _by_document(records), _by_document(base)
    shared = sorted(ours.keys() & theirs.keys())
    differences = [ours[document] - theirs[document] for document in shared]
    if rule != "none" and differences:
        figures["nll_delta"] = fmean(differences)
        interval = stats.mean_interval(differences)
        figures["nll_delta_ci"] = None if interval is None else list(interval)
        if interval is None:
            notes.append("fidelity: the difference in likelihood is the same in every document")
    return {**figures, "tokens": len(rows), "notes": notes}


def _by_document(records: Sequence[Record]) -> dict[int, float]:
    found: dict[int, list[float]] = {}
    for record in records:
        if (loss := nll(record)) is not None:
            found.setdefault(int(record["doc_id"]), []).append(loss)
    return {document: fmean(losses) for document, losses in found.items()}
