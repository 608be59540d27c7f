"""Corpus scores: not a mean over documents, but a function of sums over them, such as BLEU.

A quality record holds its document's part of such a score beside `scores`:

    "parts": {"bleu,none": {"bleu": [25, 25, 16, 9, 5, 2, 25, 24, 23, 22]}}

by metric, then by the name of the aggregation, the numbers that are summed over documents:

    bleu            tokens of answer and reference; n-grams in common of orders 1 to 4; n-grams of
                    the answer of orders 1 to 4 (Papineni et al. 2002)
    chrf, chrf++    of each order of n-grams: those of the answer, of the reference, in common
                    (Popovic 2015, 2017); of characters 1 to 6, then for chrf++ of words 1 and 2
    ter             edits, and tokens of the reference (Snover et al. 2006)
    f1              true positives, false positives, false negatives
    flattened_mean  sum and number of the values of a document that has a list of them

A part of None: the task aggregates by a function of its own, under whose name it stands.

Intervals are 95% with the document as the unit, on the scale of the logarithm, from what leaving
out each document does (the jackknife) and from resamples of documents, in each of which the score
is taken anew. Deterministic: the resamples come from a fixed seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Any

import numpy as np
from scipy.stats import t as student

from mars_cli.analysis.metrics import LARGEST_SCORE, Record
from mars_cli.analysis.stats import (
    ALL_ALIKE,
    BLOCK,
    FEWEST_FOR_BOOTSTRAP,
    LEAST_SE,
    LEVEL,
    MORE_CHANGED,
    NO_RATIO,
    NO_SPREAD,
    TOO_FEW,
    Estimate,
    Floats,
    Interval,
    resamples,
)

DRAWS = 2000
LEAST = 1e-12  # a resample's score of 0 counts as this: as extreme as any, and has a logarithm
ZERO = "the numerator is 0: no interval on a log scale"


# -- scores from sums; all take [..., numbers of a part] and give [...] ------------------------


def _bleu(sums: Floats) -> Floats:
    """In %, with sacrebleu's default smoothing: the k-th order without a match counts 1 / 2**k."""
    length, reference, common, grams = sums[..., 0], sums[..., 1], sums[..., 2:6], sums[..., 6:]
    precision = np.where(common > 0, common, 0.5 ** np.cumsum(common == 0, axis=-1)) / grams
    brevity = np.exp(np.minimum(0.0, 1 - reference / length))
    found = 100 * brevity * np.exp(np.log(precision).mean(axis=-1))
    return np.where(common.any(axis=-1) & grams.all(axis=-1), found, 0.0)


def _chrf(sums: Floats) -> Floats:
    """In %: F score with beta 2 of the means, over orders that both have, of precision, recall."""
    answer, reference, common = sums[..., 0::3], sums[..., 1::3], sums[..., 2::3]
    both = (answer > 0) & (reference > 0)
    precision, recall = (
        np.where(both, common / given, 0.0).sum(axis=-1) / both.sum(axis=-1)
        for given in (answer, reference)
    )
    found: Floats = np.nan_to_num(100 * 5 * precision * recall / (4 * precision + recall))
    return found


def _ter(sums: Floats) -> Floats:
    """In %; without a reference 100 for any edit, 0 for none."""
    edits, reference = sums[..., 0], sums[..., 1]
    return 100 * np.where(reference > 0, edits / reference, np.sign(edits))


def _f1(sums: Floats) -> Floats:
    right, false, missed = sums[..., 0], sums[..., 1], sums[..., 2]
    return np.nan_to_num(2 * right / (2 * right + false + missed))


def _quotient(sums: Floats) -> Floats:
    return sums[..., 0] / sums[..., 1]


# Of each aggregation, how many numbers its parts have and the score of their sums.
AGGREGATIONS: dict[str, tuple[int, Callable[[Floats], Floats]]] = {
    "bleu": (10, _bleu),
    "chrf": (18, _chrf),
    "chrf++": (24, _chrf),
    "ter": (2, _ter),
    "f1": (3, _f1),
    "flattened_mean": (2, _quotient),
}


# -- reading records ---------------------------------------------------------------------------


def aggregation(records: Iterable[Record], metric: str) -> str | None:
    """The name of what aggregates the metric; None where that is the mean of `scores`."""
    for record in records:
        for name in (record.get("parts") or {}).get(metric) or {}:
            return str(name)
    return None


def part(record: Record, metric: str, name: str) -> list[float] | None:
    """The record's part of a metric that `name` aggregates; None where it has no valid one."""
    found = ((record.get("parts") or {}).get(metric) or {}).get(name)
    width, _ = AGGREGATIONS.get(name, (0, None))
    if not (isinstance(found, list) and len(found) == width > 0 and all(map(_is_number, found))):
        return None
    return [float(number) for number in found]


def with_parts(records: Iterable[Record], metric: str, name: str) -> list[Record]:
    """The records with their `part` of a metric, and in place of a score 1, None without one."""
    found = ((record, part(record, metric, name)) for record in records)
    return [
        {**record, "part": numbers, "scores": {metric: None if numbers is None else 1.0}}
        for record, numbers in found
    ]


def by_document(records: Iterable[Record]) -> list[list[float]]:
    """Parts of documents, by doc_id, from records `with_parts`: means over a document's samples."""
    found: dict[int, list[list[float]]] = {}
    for record in records:
        if record["part"] is not None:
            found.setdefault(int(record["doc_id"]), []).append(record["part"])
    every = [found[doc] for doc in sorted(found)]
    return [
        parts[0] if len(parts) == 1 else [fmean(column) for column in zip(*parts, strict=True)]
        for parts in every
    ]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) <= LARGEST_SCORE


# -- figures -----------------------------------------------------------------------------------


def value(name: str, parts: Sequence[Sequence[float]]) -> float | None:
    """The corpus score of documents' parts, [documents][numbers].

    None where there is no document, or where it is undefined (a mean of no values).
    """
    if len(parts) == 0:
        return None
    found = float(_of_sums(name, np.array(parts, dtype=np.float64).sum(axis=0)))
    return found if math.isfinite(found) else None


def score(name: str, parts: Sequence[Sequence[float]]) -> Estimate:
    """The corpus score and its interval: none for a score of 0 or less, and without spread."""
    found = value(name, parts)
    if found is None or found <= 0 or len(parts) < 2:
        return Estimate(found)
    columns = np.array(parts, dtype=np.float64)
    reach = _reach(lambda sums: _log(name, sums), columns, len(columns))
    return Estimate(found, reach and _around(found, *reach))


def ratio(
    name: str, numerator: Sequence[Sequence[float]], denominator: Sequence[Sequence[float]]
) -> Estimate:
    """Ratio of two corpus scores of the same documents, whose parts align.

    No interval for fewer than 2 documents, for a score of 0, and where leaving out one document
    is like leaving out any other.

    Raises:
        ValueError: they do not align.
    """
    top, bottom = np.array(numerator, dtype=np.float64), np.array(denominator, dtype=np.float64)
    if top.shape != bottom.shape:
        raise ValueError(f"paired values must align: {top.shape} against {bottom.shape}")
    over, under = value(name, numerator), value(name, denominator)
    if over is None or under is None or over < 0 or under <= 0:
        return Estimate(None, None, NO_RATIO)
    found, width = over / under, top.shape[1]
    if len(top) < 2:
        return Estimate(found, None, TOO_FEW)
    if found == 0:
        return Estimate(found, None, ZERO)
    changed = int((top != bottom).any(axis=1).sum())
    reach = _reach(
        lambda sums: _log(name, sums[..., :width]) - _log(name, sums[..., width:]),
        np.concatenate([top, bottom], axis=1),
        changed,
    )
    if reach is None:
        return Estimate(found, None, ALL_ALIKE)
    return Estimate(found, _around(found, *reach))


def _reach(
    figure: Callable[[Floats], Floats], columns: Floats, changed: int
) -> tuple[float, float] | None:
    """How far the interval of a figure of sums goes below and above it; None without spread.

    The standard error is the jackknife's (Efron and Tibshirani 1993, ch. 11). Each end is the
    farther of Student's t and of the bootstrap-t (ch. 12.5), in which a resample's standard error
    is that of its documents' influences. Where only m documents `changed` at all, t has m degrees
    of freedom, and both reach sqrt(1 + 4/m) times as far: as if four documents more had changed.
    """
    n, total = len(columns), columns.sum(axis=0)
    left_out = figure(total - columns)
    influence = (n - 1) * (left_out.mean() - left_out)
    error = math.sqrt(float(np.square(influence).sum()) / (n * (n - 1)))
    if error <= NO_SPREAD:
        return None
    wider = math.sqrt(1 + MORE_CHANGED / changed) if changed < n else 1.0
    below = above = float(student.ppf((1 + LEVEL) / 2, min(n - 1, changed)))
    if n >= FEWEST_FOR_BOOTSTRAP:
        low, high = _studentised(figure, columns, influence, error)
        below, above = max(below, high), max(above, -low)
    return below * wider * error, above * wider * error


def _studentised(
    figure: Callable[[Floats], Floats], columns: Floats, influence: Floats, error: float
) -> Interval:
    """Outer 2.5% points of (figure of a resample - the figure) / (the resample's error)."""
    n, whole = len(columns), figure(columns.sum(axis=0))
    moments = np.stack([influence, np.square(influence)], axis=1) / n
    rows = max(1, BLOCK // n)
    found = []
    for block, start in enumerate(range(0, DRAWS, rows)):
        counts = resamples(n, block, min(rows, DRAWS - start))
        mean, square = (counts @ moments).T
        errors = np.sqrt(np.maximum(square - np.square(mean), 0.0) / (n - 1))
        found.append((figure(counts @ columns) - whole) / np.maximum(errors, LEAST_SE * error))
    low, high = np.quantile(np.concatenate(found), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _around(value: float, below: float, above: float) -> Interval:
    """From distances on the log scale: the interval may be useless, never infinite."""
    return value * math.exp(-below), value * math.exp(min(above, 300.0))


def _of_sums(name: str, sums: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return AGGREGATIONS[name][1](sums)


def _log(name: str, sums: Floats) -> Floats:
    found: Floats = np.log(np.maximum(np.nan_to_num(_of_sums(name, sums)), LEAST))
    return found
