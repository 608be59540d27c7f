"""Intervals that cover, and a paired test. 95% throughout, documents as the unit.

A percentile bootstrap does not cover here (few discordant documents, a dozen skewed speeds), so:

    0/1 scores          Wilson for one score; Bonett-Price for the ratio of two paired ones
    graded, averaged    studentised bootstrap on the log of the ratio of means, never narrower
    scores and speeds   than Student's t on the same scale, at either end

Intervals describe the documents at hand: not engine restarts, not other machines.
Everything is deterministic: the bootstrap draws from a fixed seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Interval = tuple[float, float]
Floats = NDArray[np.float64]

LEVEL = 0.95
DRAWS = 4000
SEED = 20260115
# Below this many documents a resample is too often one document repeated: Student's t alone.
FEWEST_FOR_BOOTSTRAP = 8  # with fewer, resamples of few values reach absurd limits
# A resample's standard error counts as at least this share of the sample's own: resamples that
# happen to hold no changed document would otherwise send a limit to infinity.
LEAST_SE = 0.1
# Relative differences below this are float noise, not spread.
NO_SPREAD = 1e-12
# No figure is of a size below this, or above its inverse: squares and quotients stay in range.
TINY = 1e-100
# Values in one block of resamples (8 bytes each): memory stays bounded however many documents.
BLOCK = 500_000

TOO_FEW = "fewer than 2 documents: no interval"
NO_RATIO = "the score to divide by is 0, or one is negative: no ratio"
ALL_ALIKE = "every document gives the same ratio: no spread to take an interval from"


@dataclass(frozen=True)
class Estimate:
    """A figure, its 95% interval (None where there is none) and, then, why not."""

    value: float | None
    interval: Interval | None = None
    note: str | None = None


def wilson(successes: float, n: int) -> Interval | None:
    """Wilson's score interval for a proportion; None for n < 1.

    `successes` may be fractional (documents whose samples were averaged): with n the number of
    documents that is conservative, for an average varies no more than a single 0/1 score.
    Wilson 1927, J. Am. Stat. Assoc. 22.
    """
    if n < 1:
        return None
    low, high = _wilson(successes, n, _z())
    return low, high


def paired_ratio_01(lane: Sequence[float], base: Sequence[float]) -> Estimate:
    """Ratio of two paired proportions, lane / base, from aligned 0/1 scores.

    Interval: Bonett & Price 2006, Statistics in Medicine 25, eq. 8. Two Wilson intervals over
    the n* documents that at least one of the two got right, at a z shrunk so that their quotient
    has the variance of the log ratio, which is estimated from (n11 + n10 + 1)/(n* + 2) and
    (n11 + n01 + 1)/(n* + 2). Documents both got wrong carry nothing about a ratio. It keeps a
    width when no document is discordant; its upper end is missing only when base is all wrong,
    and then the value is None too.
    """
    n = _same_length(lane, base)
    both = sum(1 for a, b in zip(lane, base, strict=True) if a and b)
    right, base_right = sum(map(bool, lane)), sum(map(bool, base))
    if base_right == 0:
        return Estimate(None, None, NO_RATIO)
    value = right / base_right
    if n < 2:
        return Estimate(value, None, TOO_FEW)
    return Estimate(value, _bonett_price(both, right - both, base_right - both))


def mcnemar(lane: Sequence[float], base: Sequence[float]) -> float | None:
    """Two-sided p of McNemar's exact test on aligned 0/1 scores; 1.0 without a discordant pair.

    None without documents. A large p is no evidence that a lane is safe: read the interval.
    """
    if _same_length(lane, base) == 0:
        return None
    gained = sum(1 for a, b in zip(lane, base, strict=True) if a and not b)
    lost = sum(1 for a, b in zip(lane, base, strict=True) if b and not a)
    if gained + lost == 0:
        return 1.0
    return float(stats.binomtest(gained, gained + lost, 0.5).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """P values adjusted for their number, in the order given: Holm's step-down procedure.

    The i-th smallest of m is multiplied by m - i + 1, then raised to the largest before it and
    cut at 1. Rejecting those at or below 0.05 keeps the chance of any false rejection at 5%,
    however the tests depend on each other. Holm 1979, Scandinavian Journal of Statistics 6.

    Raises:
        ValueError: a value is not from 0 to 1.
    """
    if wrong := [p for p in p_values if not 0 <= p <= 1]:
        raise ValueError(f"a p value must be from 0 to 1, not {wrong[0]}")
    adjusted, least = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = least
    return adjusted


def mean_interval(values: Sequence[float]) -> Interval | None:
    """Student's t interval for a mean of graded scores; None for n < 2 or equal values."""
    x = _finite(values)
    if x is None or len(x) < 2:
        return None
    spread = float(x.std(ddof=1))
    if spread <= NO_SPREAD * max(1.0, float(np.abs(x).max())):
        return None
    half = _t(len(x) - 1) * spread / math.sqrt(len(x))
    mean = float(x.mean())
    return mean - half, mean + half


def log_ratio(numerator: Sequence[float], denominator: Sequence[float]) -> Estimate:
    """Ratio of means, mean(numerator) / mean(denominator), of aligned per-document values >= 0.

    Interval: with u, v the values over their own mean and d = v_num - u_den, the log ratio has
    the standard error sqrt(sum d^2 / (n (n - 1))) (delta method). The studentised log ratios of
    4000 resamples of documents give the limits (bootstrap-t: Efron & Tibshirani 1993, ch. 12.5);
    each is moved out to Student's t limit where that is wider. Where only m of the n documents
    changed at all, the t limits use the error times sqrt(1 + 2/m): two documents more might have
    changed (Bonett and Price's adjustment, carried over). Fewer than 8 documents: t alone.

    No interval for n < 2, for a mean of 0, and where all documents give the same ratio.
    """
    n = _same_length(numerator, denominator)
    y, x = _finite(numerator), _finite(denominator)
    if n == 0 or y is None or x is None:
        return Estimate(None, None, "no document has a valid value in both lanes")
    if x.mean() <= 0 or min(float(x.min()), float(y.min())) < 0:
        return Estimate(None, None, NO_RATIO)
    value = float(y.mean() / x.mean())
    if n < 2:
        return Estimate(value, None, TOO_FEW)
    if value == 0:
        return Estimate(value, None, "the numerator is 0: no interval on a log scale")
    u, v = x / x.mean(), y / y.mean()
    error = math.sqrt(float(np.square(v - u).sum()) / (n * (n - 1)))
    if error <= NO_SPREAD:
        return Estimate(value, None, ALL_ALIKE)
    changed = int(np.count_nonzero(x != y))
    few = math.sqrt(1 + 2 / changed) if changed < n else 1.0
    below = above = _t(n - 1) * few
    if n >= FEWEST_FOR_BOOTSTRAP:
        low_t, high_t = _studentised(u, v, error)
        below, above = max(below, high_t), max(above, -low_t)
    centre = math.log(value)
    return Estimate(value, (_exp(centre - below * error), _exp(centre + above * error)))


def _studentised(u: Floats, v: Floats, error: float) -> Interval:
    """Outer 2.5% points of (log ratio of a resample) / (its standard error); u, v have mean 1."""
    n = len(u)
    columns = np.stack([u, v, u * u, u * v, v * v], axis=1) / n
    rows = max(1, BLOCK // n)
    found = []
    for block in range(math.ceil(DRAWS / rows)):
        counts = _resamples(n, block, min(rows, DRAWS - block * rows))
        mu, mv, uu, uv, vv = (counts @ columns).T
        whole, lost = (mu > TINY) & (mv > TINY), mv < mu
        mu, mv = np.where(whole, mu, 1.0), np.where(whole, mv, 1.0)
        squares = np.maximum(vv / mv**2 - 2 * uv / (mu * mv) + uu / mu**2, 0.0)
        errors = np.maximum(np.sqrt(squares / (n - 1)), LEAST_SE * error)
        t = np.log(mv / mu) / errors
        # A resample in which a lane scores nothing at all is as extreme as any.
        worst = 1 / (LEAST_SE * error)
        found.append(np.where(whole, t, np.where(lost, -worst, worst)))
    every = np.concatenate(found)
    tail = (1 - LEVEL) / 2
    low = float(np.quantile(every, tail, method="inverted_cdf"))
    high = float(np.quantile(every, 1 - tail, method="inverted_cdf"))
    return low, high


@lru_cache(maxsize=4)
def _resamples(n: int, block: int, rows: int) -> Floats:
    """How often each of n documents is drawn, [rows, n]; the same for every figure of that n."""
    rng = np.random.default_rng([SEED, block])
    return rng.multinomial(n, np.full(n, 1 / n), size=rows).astype(np.float64)


def _bonett_price(both: int, gained: int, lost: int) -> Interval:
    right, base_right, union = both + gained, both + lost, both + gained + lost
    log_error = math.sqrt((gained + lost + 2) / ((right + 1) * (base_right + 1)))
    parts = [math.sqrt((1 - (k + 1) / (union + 2)) / (k + 1)) for k in (right, base_right)]
    z = _z() * log_error / sum(parts)
    low, high = _wilson(right, union, z)
    base_low, base_high = _wilson(base_right, union, z)
    return low / base_high, high / base_low


def _wilson(k: float, n: int, z: float) -> Interval:
    centre, reach = 2 * k + z * z, z * math.sqrt(z * z + 4 * k * (1 - k / n))
    scale = 2 * (n + z * z)
    return max((centre - reach) / scale, 0.0), min((centre + reach) / scale, 1.0)


def _finite(values: Sequence[float]) -> Floats | None:
    """The values, None where there is none or one is too large; tiny ones count as 0."""
    array = np.array(values, dtype=np.float64)
    array[np.abs(array) < TINY] = 0.0
    return array if array.size and bool((np.abs(array) <= 1 / TINY).all()) else None


def _same_length(left: Sequence[float], right: Sequence[float]) -> int:
    if len(left) != len(right):
        raise ValueError(f"paired values must align: {len(left)} against {len(right)}")
    return len(left)


@cache
def _z() -> float:
    return float(stats.norm.ppf((1 + LEVEL) / 2))


@cache
def _t(freedom: int) -> float:
    return float(stats.t.ppf((1 + LEVEL) / 2, freedom))


def _exp(x: float) -> float:
    """Exponential held within the finite floats: an interval may be useless, never infinite."""
    return math.exp(min(max(x, -700.0), 700.0))
