"""Intervals that cover, and a paired test. 95% throughout, documents as the unit.

A percentile bootstrap does not cover here (few changed documents, a dozen skewed speeds), so:

    0/1 scores          Wilson for one score; Bonett-Price, widened, for the ratio of two paired
    graded, averaged    studentised bootstrap, of the mean or on the log of the ratio of means,
    scores and speeds   at neither end narrower than a widened Student's t on the same scale

"Widened": as if some documents more had changed, for a sample may hold too few of those that do.
`python -m benchmarks.coverage` measures how often they cover; docs/coverage.md has the figures.

Intervals describe the documents at hand: not engine restarts, not other machines.
Everything is deterministic: the bootstrap draws from a fixed seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
# Documents that might have changed beside those that did: of 0/1 scores, and of all others.
# Bonett and Price's 2 cover only 87% where documents get lost, about two of them, and none gained,
# for then one sample in seven has no changed one at all.
MORE_CHANGED_01 = 3
MORE_CHANGED = 4
# Below this many documents a resample is too often one document repeated: Student's t alone.
FEWEST_FOR_BOOTSTRAP = 8  # with fewer, resamples of few values reach absurd limits
# A resample's standard error counts as at least this share of the sample's own: resamples that
# happen to hold no changed document would otherwise send a limit to infinity.
LEAST_SE = 0.1
# Without one of the documents the others count as at least this much of an average one.
LEAST_LEFT = 0.1
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

    Interval: `bonett_price`. It keeps a width when no document is discordant, and is missing only
    when base is all wrong, and then the value is None too.
    """
    n = _same_length(lane, base)
    both = sum(1 for a, b in zip(lane, base, strict=True) if a and b)
    right, base_right = sum(map(bool, lane)), sum(map(bool, base))
    if base_right == 0:
        return Estimate(None, None, NO_RATIO)
    value = right / base_right
    if n < 2:
        return Estimate(value, None, TOO_FEW)
    return Estimate(value, bonett_price(both, right - both, base_right - both))


def bonett_price(both: int, gained: int, lost: int) -> Interval:
    """Interval of (both + gained) / (both + lost), of which at least the latter is not 0.

    Bonett & Price 2006, Statistics in Medicine 25, eq. 8: two Wilson intervals over the n*
    documents that at least one of the two got right, at a z shrunk so that their quotient has the
    variance of the log ratio, (gained + lost + 2) / ((both + gained + 1) (both + lost + 1)).
    Documents both got wrong carry nothing about a ratio. Unlike theirs, 3 takes the place of the
    2: with no document changed out of n it then ends near 1 - 3/n, the rule of three.
    """
    right, base_right, union = both + gained, both + lost, both + gained + lost
    changed = gained + lost + MORE_CHANGED_01
    log_error = math.sqrt(changed / ((right + 1) * (base_right + 1)))
    parts = [math.sqrt((1 - (k + 1) / (union + 2)) / (k + 1)) for k in (right, base_right)]
    z = _z() * log_error / sum(parts)
    low, high = _wilson(right, union, z)
    base_low, base_high = _wilson(base_right, union, z)
    return low / base_high, high / base_low


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
    """Interval of a mean of graded scores, or of differences; None for n < 2 or equal values.

    Student's t, each end moved out to that of the studentised bootstrap from 8 values on. Where
    only m of the n values are not 0 (documents that changed, where these are differences), t's
    error is taken sqrt(1 + 4/m) times.
    """
    x = _finite(values)
    if x is None or len(x) < 2:
        return None
    n, mean, spread = len(x), float(x.mean()), float(x.std(ddof=1))
    if spread <= NO_SPREAD * max(1.0, float(np.abs(x).max())):
        return None
    few = np.count_nonzero(x)
    wider = math.sqrt(1 + MORE_CHANGED / few) if few < n else 1.0
    scaled = (x - mean) / spread

    def studentised(means: Floats, squares: Floats) -> Floats:
        errors = np.sqrt(np.maximum(squares - means**2, 0.0) / (n - 1))
        t: Floats = means / np.maximum(errors, LEAST_SE / math.sqrt(n))
        return t

    columns = np.stack([scaled, scaled**2], axis=1)
    below, above = _reaches(columns, studentised, _t(n - 1) * wider)
    error = spread / math.sqrt(n)
    return mean - below * error, mean + above * error


def log_ratio(numerator: Sequence[float], denominator: Sequence[float]) -> Estimate:
    """Ratio of means, mean(numerator) / mean(denominator), of aligned per-document values >= 0.

    Interval, on the log scale: the error is that of the delta method, sqrt(sum d^2 / (n (n - 1)))
    with d = v - u, the values over their own mean, or the jackknife's where that is larger (it
    weighs long documents for what they are: Efron & Tibshirani 1993, ch. 11). The studentised log
    ratios of 4000 resamples of documents give the limits (bootstrap-t: the same, ch. 12.5); each
    is moved out to Student's t limit where that is wider. The t limits take sum d^2 as if four
    documents more had changed (see `_another`). Fewer than 8 documents: t alone.

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
    squares = float(np.square(v - u).sum())
    delta = math.sqrt(squares / (n * (n - 1)))
    if delta <= NO_SPREAD:
        return Estimate(value, None, ALL_ALIKE)
    wider = math.sqrt(1 + MORE_CHANGED * _another(u, v, x != y) / squares)

    def studentised(*moments: Floats) -> Floats:
        return _log_ratios_over_errors(moments, n, LEAST_SE * delta)

    columns = np.stack([u, v, u * u, u * v, v * v], axis=1)
    below, above = _reaches(columns, studentised, _t(n - 1) * wider)
    error, centre = max(delta, _jackknife(u, v)), math.log(value)
    return Estimate(value, (_exp(centre - below * error), _exp(centre + above * error)))


def _another(u: Floats, v: Floats, changed: NDArray[np.bool_]) -> float:
    """What one changed document more would add to sum (v - u)^2; u, v have mean 1.

    As much as the changed ones did on average; or, where that is more, what a document of average
    size adds when it changes by the share that they did: those seen may all have been small.
    """
    size, squares = np.maximum(u, v), np.square(v - u)
    alike = float(squares[changed].mean())
    # The mean squared share of its size that a document lost or gained, weighted by that size.
    share = float((squares[changed] / size[changed]).sum() / size[changed].sum())
    return max(alike, share * float(np.square(size).mean()))


def _jackknife(u: Floats, v: Floats) -> float:
    """The jackknife's standard error of the log ratio; u, v have mean 1."""
    n = len(u)
    left = np.log(np.maximum(n - v, LEAST_LEFT) / np.maximum(n - u, LEAST_LEFT))
    return float(np.sqrt(np.square(left - left.mean()).sum() * (n - 1) / n))


def _log_ratios_over_errors(moments: Sequence[Floats], n: int, least: float) -> Floats:
    """Of each resample the log ratio over its standard error, which is at least `least`."""
    mu, mv, uu, uv, vv = moments
    whole, lost = (mu > TINY) & (mv > TINY), mv < mu
    mu, mv = np.where(whole, mu, 1.0), np.where(whole, mv, 1.0)
    squares = np.maximum(vv / mv**2 - 2 * uv / (mu * mv) + uu / mu**2, 0.0)
    t = np.log(mv / mu) / np.maximum(np.sqrt(squares / (n - 1)), least)
    # A resample in which a lane scores nothing at all is as extreme as any.
    return np.where(whole, t, np.where(lost, -1 / least, 1 / least))


def _reaches(columns: Floats, studentised: Callable[..., Floats], least: float) -> Interval:
    """How many errors an interval reaches below and above its figure: `least`, or more.

    Args:
        columns: values of the documents, [n, k].
        studentised: from the k columns' means in each resample, k arrays, to (figure of the
            resample - figure) / (error of the resample).
        least: Student's t, widened.
    """
    n = len(columns)
    if n < FEWEST_FOR_BOOTSTRAP:
        return least, least
    rows = max(1, BLOCK // n)
    found = []
    for block in range(math.ceil(DRAWS / rows)):
        counts = resamples(n, block, min(rows, DRAWS - block * rows))
        found.append(studentised(*(counts @ (columns / n)).T))
    every = np.concatenate(found)
    tail = (1 - LEVEL) / 2
    low = float(np.quantile(every, tail, method="inverted_cdf"))
    high = float(np.quantile(every, 1 - tail, method="inverted_cdf"))
    return max(least, high), max(least, -low)


@lru_cache(maxsize=4)
def resamples(n: int, block: int, rows: int) -> Floats:
    """How often each of n documents is drawn, [rows, n]; the same for every figure of that n."""
    drawn = np.random.default_rng([SEED, block]).integers(n, size=(rows, n))
    drawn += n * np.arange(rows)[:, None]
    return np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)


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
