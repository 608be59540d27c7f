"""What a trace says of a lane: pure sums over its positions, taken part by part.

Quantiles and the correlation are read off histograms, to the width of a bin: 0.005 of r = z2/z1,
a twelfth of a power of ten of p2/p1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

SCHEMA = 1
DEFAULT_THETA = 0.9  # of a trace without a lane that has one
R_EDGES = np.linspace(0.0, 1.0, 201)
LOG_EDGES = np.linspace(-8.0, 0.0, 97)  # of log10(p2/p1)
KINDS = ("accepted", "runner_up", "other")  # by strict, the target's second choice, any below
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
CLEAR = 0.5  # below this p2/p1 the first choice is more than twice as likely as the second

Columns = Mapping[str, np.ndarray[Any, Any]]
Histogram = np.ndarray[Any, Any]


class Tally:
    """Sums over the positions of one lane on one task; `add` takes them in parts of any size."""

    def __init__(self, thetas: Sequence[float]) -> None:
        self.thetas = list(thetas)
        self.answers = 0
        self.positions = self.accepted = self.relaxed = self.nonpositive = 0
        self.by_r = {kind: np.zeros(len(R_EDGES) - 1, dtype=np.int64) for kind in KINDS}
        self.joint = np.zeros((len(R_EDGES) - 1, len(LOG_EDGES) - 1), dtype=np.int64)
        self.low = {theta: dict.fromkeys(("all", "clear", *KINDS), 0) for theta in self.thetas}
        self.rejected = dict.fromkeys(KINDS[1:], 0)

    def add(self, columns: Columns) -> None:
        """Count rows with the columns accepted, relaxed, rank, z1, z2 and r, p1, p2."""
        z1 = columns["z1"].astype(np.float64)
        defined = z1 > 0
        r = np.divide(columns["z2"], z1, out=np.full(len(z1), np.nan), where=defined)
        ratio = columns["p2"].astype(np.float64) / columns["p1"]
        log = np.log10(np.maximum(ratio, 1e-300))
        strict = columns["accepted"] & ~columns["relaxed"]
        which = {
            "accepted": strict,
            "runner_up": ~strict & (columns["rank"] <= 2),
            "other": ~strict & (columns["rank"] > 2),
        }
        self.positions += len(z1)
        self.accepted += int(columns["accepted"].sum())
        self.relaxed += int(columns["relaxed"].sum())
        self.nonpositive += int((~defined).sum())
        inside = np.clip(r, R_EDGES[0], R_EDGES[-1])
        for kind, rows in which.items():
            self.by_r[kind] += np.histogram(inside[rows & defined], R_EDGES)[0]
            if kind in self.rejected:
                self.rejected[kind] += int(rows.sum())
        logs = np.clip(log[defined], LOG_EDGES[0], LOG_EDGES[-1])
        self.joint += np.histogram2d(inside[defined], logs, (R_EDGES, LOG_EDGES))[0].astype(
            np.int64
        )
        for theta, found in self.low.items():
            low = np.nan_to_num(r, nan=-1.0) > theta
            found["all"] += int(low.sum())
            found["clear"] += int((low & (ratio < CLEAR)).sum())
            for kind, rows in which.items():
                found[kind] += int((low & rows).sum())

    def figures(self) -> dict[str, Any]:
        """The lane's entry in trace.json; what has nothing to be counted in is null."""
        rejections = sum(self.rejected.values())
        return {
            "answers": self.answers,
            "positions": self.positions,
            "accepted_share": _share(self.accepted, self.positions),
            "relaxed_share": _share(self.relaxed, self.positions),
            "nonpositive_top_share": _share(self.nonpositive, self.positions),
            "r_quantiles": _quantiles(self.joint.sum(axis=1), R_EDGES),
            "p2_over_p1_quantiles": _powers(_quantiles(self.joint.sum(axis=0), LOG_EDGES)),
            "rank_correlation": rank_correlation(self.joint),
            "strict_rejections": rejections,
            "runner_up_share_of_rejections": _share(self.rejected["runner_up"], rejections),
            "thetas": [
                {
                    "theta": theta,
                    "low_margin_share": _share(found["all"], self.positions),
                    "clear_share_of_low_margin": _share(found["clear"], found["all"]),
                    "low_margin_share_of_rejections": _share(
                        found["runner_up"] + found["other"], rejections
                    ),
                    "wasteful_share_of_rejections": _share(found["runner_up"], rejections),
                }
                for theta, found in self.low.items()
            ],
            "histograms": {
                "r_edges": [round(float(edge), 6) for edge in R_EDGES],
                "r": {kind: counts.tolist() for kind, counts in self.by_r.items()},
                "log10_p2_over_p1_edges": [round(float(edge), 6) for edge in LOG_EDGES],
                "joint": self.joint.tolist(),
            },
        }


def build_trace(
    manifest: Mapping[str, Any], tallies: Mapping[tuple[str, str], Tally]
) -> dict[str, Any]:
    """trace.json: each lane's figures on each task; `tallies` by task and lane."""
    tasks: dict[str, Any] = {}
    for (task, lane), tally in tallies.items():
        tasks.setdefault(task, {"lanes": {}})["lanes"][lane] = tally.figures()
    plan = manifest["plan"]
    return {
        "schema": SCHEMA,
        "run": {key: manifest[key] for key in ("id", "created", "status")},
        "model": {"name": plan["model"]["name"], "weights": plan["model"]["weights"]},
        "lanes": [
            {key: lane[key] for key in ("id", "rule", "theta", "draft", "k", "parameters")}
            for lane in manifest["lanes"]
        ],
        "tasks": tasks,
    }


def thetas_of(lanes: Sequence[Mapping[str, Any]]) -> list[float]:
    """The thetas that the lanes have, rising; the paper's 0.9 where none has one."""
    found = {lane["theta"] for lane in lanes if lane["theta"] is not None}
    return sorted(found) or [DEFAULT_THETA]


def rank_correlation(joint: Histogram) -> float | None:
    """Spearman's, of the two variables of a joint histogram; those in a bin count as tied.

    None where either does not vary.
    """
    total = joint.sum()
    if total < 2:
        return None
    ranks = []
    for axis in (1, 0):
        counts = joint.sum(axis=axis)
        ranks.append(np.cumsum(counts) - (counts - 1) / 2)
    means = [
        (joint.sum(axis=1) @ ranks[0]) / total,
        (joint.sum(axis=0) @ ranks[1]) / total,
    ]
    first, second = ranks[0] - means[0], ranks[1] - means[1]
    spread = (joint.sum(axis=1) @ first**2) * (joint.sum(axis=0) @ second**2)
    if spread <= 0:
        return None
    return float(first @ joint @ second / np.sqrt(spread))


def _share(count: int, total: int) -> float | None:
    return count / total if total else None


def _quantiles(counts: Histogram, edges: Histogram) -> dict[str, float] | None:
    """Each of QUANTILES as the middle of the bin that it falls into."""
    total = counts.sum()
    if total == 0:
        return None
    reached = np.cumsum(counts) / total
    middles = (edges[1:] + edges[:-1]) / 2
    bins = [int(np.searchsorted(reached, q)) for q in QUANTILES]
    return {f"{q:g}": float(middles[b]) for q, b in zip(QUANTILES, bins, strict=True)}


def _powers(quantiles: dict[str, float] | None) -> dict[str, float] | None:
    return None if quantiles is None else {q: 10**value for q, value in quantiles.items()}
