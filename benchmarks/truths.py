"""Truths for benchmarks/coverage.py: documents whose true recovery, speedup or score is known.

Scores and speeds are drawn from simple laws; which documents change, and how much they lose or
gain, is set so that the true ratio is exactly the one named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from mars_cli.analysis import stats
from mars_cli.analysis.scores import FEWEST_RIGHT
from mars_cli.analysis.stats import Interval

Floats = NDArray[np.float64]
# Draws so many evaluations of n documents, of a shape [draws, n]: one lane's values ...
Values = Callable[[Generator, tuple[int, int]], Floats]
# ... or a lane's and the baseline's.
Pairs = Callable[[Generator, tuple[int, int]], tuple[Floats, Floats]]


class Truth(NamedTuple):
    """A true value, how to draw samples that have it, and what mars makes of one."""

    name: str
    value: float
    samples: Callable[[Generator, int, int], Iterable[Any]]
    interval: Callable[[Any], Interval | None]
    pairs: Callable[[Any], tuple[Sequence[float], Sequence[float]]]  # lane, base; base 1: a mean


# -- 0/1 scores ---------------------------------------------------------------------------------


def zero_one(accuracy: float, recovery: float, changed: float) -> Truth | None:
    """A base of that accuracy; a lane that differs from it on a share `changed` of documents.

    None where no such shares exist.
    """
    moved = accuracy * (recovery - 1)
    gained, lost = (changed + moved) / 2, (changed - moved) / 2
    shares = [accuracy - lost, gained, lost, 1 - accuracy - gained]
    if min(shares) < -1e-9:
        return None
    chances = np.clip(shares, 0, 1) / np.clip(shares, 0, 1).sum()

    def samples(rng: Generator, draws: int, n: int) -> Iterator[tuple[int, ...]]:
        return map(tuple, rng.multinomial(n, chances, size=draws).tolist())

    def interval(table: tuple[int, int, int, int]) -> Interval | None:
        both, gained, lost, _ = table
        return _bonett_price(both, gained, lost) if both + lost >= FEWEST_RIGHT else None

    name = f"accuracy {accuracy:.0%}, recovery {recovery:.0%}, {changed:.2%} changed"
    return Truth(name, recovery, samples, interval, _documents)


_bonett_price = lru_cache(maxsize=200_000)(stats.bonett_price)


def _documents(table: tuple[int, int, int, int]) -> tuple[list[float], list[float]]:
    lane, base = np.repeat([1.0, 1.0, 0.0, 0.0], table), np.repeat([1.0, 0.0, 1.0, 0.0], table)
    return lane.tolist(), base.tolist()


# -- ratios of means ----------------------------------------------------------------------------


def ratio(name: str, value: float, draw: Pairs, *, averaged: bool = False) -> Truth:
    """Graded scores, `averaged` 0/1 ones (with which a low base has no recovery), or speeds."""

    def samples(rng: Generator, draws: int, n: int) -> Iterator[tuple[list[float], list[float]]]:
        lane, base = draw(rng, (draws, n))
        return zip(lane.tolist(), base.tolist(), strict=True)

    def interval(pair: tuple[list[float], list[float]]) -> Interval | None:
        if averaged and sum(pair[1]) < FEWEST_RIGHT:
            return None
        return stats.log_ratio(*pair).interval

    return Truth(name, value, samples, interval, lambda pair: pair)


def mean(name: str, value: float, draw: Values) -> Truth:
    """Graded scores of one lane, or differences between two."""

    def samples(rng: Generator, draws: int, n: int) -> list[list[float]]:
        found: list[list[float]] = draw(rng, (draws, n)).tolist()
        return found

    return Truth(name, value, samples, stats.mean_interval, lambda x: (x, [1.0] * len(x)))


def wilson(accuracy: float) -> Truth:
    """0/1 scores of one lane."""

    def samples(rng: Generator, draws: int, n: int) -> list[tuple[int, int]]:
        return [(right, n) for right in rng.binomial(n, accuracy, size=draws).tolist()]

    def pairs(sample: tuple[int, int]) -> tuple[list[float], list[float]]:
        right, n = sample
        return [1.0] * right + [0.0] * (n - right), [1.0] * n

    return Truth(f"accuracy {accuracy}", accuracy, samples, lambda s: stats.wilson(*s), pairs)


def partial(rng: Generator, shape: tuple[int, int]) -> Floats:
    """Partial credit: 15% nothing, 35% full marks, the rest between. Mean 0.6."""
    which = rng.random(shape)
    return np.where(which < 0.15, 0.0, np.where(which < 0.5, 1.0, rng.beta(2, 2, shape)))


def high(rng: Generator, shape: tuple[int, int]) -> Floats:
    return np.where(rng.random(shape) < 0.9, 1.0, rng.beta(2, 2, shape))


def low(rng: Generator, shape: tuple[int, int]) -> Floats:
    return rng.beta(0.3, 2.7, shape)


def middle(rng: Generator, shape: tuple[int, int]) -> Floats:
    return rng.beta(4, 4, shape)


def changes(
    scores: Values,
    recovery: float,
    changed: float,
    how: str,
) -> Truth:
    """A share `changed` of documents differs: they lose ("cut") of their score, or are "redrawn".

    Whichever, the result is multiplied by what makes the recovery: 0 where `changed` is just
    enough, else a random share.
    """
    kept = 1 - (1 - recovery) / changed

    def draw(rng: Generator, shape: tuple[int, int]) -> tuple[Floats, Floats]:
        base, hit = scores(rng, shape), rng.random(shape) < changed
        left = rng.beta(2 * kept, 2 - 2 * kept, shape) if 1e-9 < kept < 1 else round(kept)
        new = (base if how == "cut" else scores(rng, shape)) * left
        return np.where(hit, new, base), base

    return ratio(f"{scores.__name__}: {changed:.0%} {how}, {recovery:.0%}", recovery, draw)


def turned_over(truth: Truth) -> Truth:
    """The lane as base and the base as lane: gains."""

    def samples(rng: Generator, draws: int, n: int) -> Iterator[Any]:
        return ((base, lane) for lane, base in truth.samples(rng, draws, n))

    return truth._replace(name=f"{truth.name}, over", value=1 / truth.value, samples=samples)


def all_move(scores: Values, spread: float) -> Truth:
    def draw(rng: Generator, shape: tuple[int, int]) -> tuple[Floats, Floats]:
        base = scores(rng, shape)
        return base * 0.98 * 2 * rng.beta(spread, spread, shape), base

    return ratio(f"{scores.__name__}: all move, 98%", 0.98, draw)


def samples_of(accuracy: float, k: int, recovery: float, changed: float, how: str) -> Truth:
    """Means of k 0/1 samples a document, documents from hopeless to easy.

    "flip": each sample changes by itself, from the baseline's. "whole": a share of documents is
    answered anew. "apart": all are, as at a temperature.
    """

    def draw(rng: Generator, shape: tuple[int, int]) -> tuple[Floats, Floats]:
        ease = rng.beta(0.5 * accuracy, 0.5 * (1 - accuracy), shape)
        base = rng.binomial(k, ease)
        if how == "flip":
            moved = accuracy * (recovery - 1)
            lost = rng.binomial(base, (changed - moved) / 2 / accuracy)
            lane = base - lost + rng.binomial(k - base, (changed + moved) / 2 / (1 - accuracy))
        elif how == "whole":
            other = rng.beta(0.5 * accuracy, 0.5 * (1 - accuracy), shape)
            kept = max(0.0, 1 - (1 - recovery) / changed)
            lane = np.where(rng.random(shape) < changed, rng.binomial(k, other * kept), base)
        else:
            lane = rng.binomial(k, ease * recovery)
        return lane / k, base / k

    name = f"{k} samples, accuracy {accuracy:.0%}: {changed:.1%} {how}, {recovery:.0%}"
    return ratio(name, recovery, draw, averaged=True)


def speeds(
    prompts: float,
    ratios: Callable[[Generator, Floats], Floats],
    true: float,
    name: str,
) -> Truth:
    """Base speeds log-normal with sd `prompts`; `ratios` may depend on their standard scores."""

    def draw(rng: Generator, shape: tuple[int, int]) -> tuple[Floats, Floats]:
        score = rng.standard_normal(shape)
        base = np.exp(prompts * score)
        return base * ratios(rng, score), base

    return ratio(f"prompts {prompts}, {name}", true, draw)


def log_normal(prompts: float, sd: float, correlation: float = 0.0) -> Truth:
    def ratios(rng: Generator, score: Floats) -> Floats:
        own = rng.standard_normal(score.shape)
        noise = correlation * score + np.sqrt(1 - correlation**2) * own
        found: Floats = 1.7 * np.exp(sd * noise - sd**2 / 2)
        return found

    true = 1.7 * float(np.exp(prompts * sd * correlation))
    return speeds(prompts, ratios, true, f"log-normal {sd}, correlation {correlation}")


def gamma(prompts: float, shape: float) -> Truth:
    return speeds(
        prompts, lambda rng, s: rng.gamma(shape, 1.7 / shape, s.shape), 1.7, f"gamma {shape}"
    )


def exponential(prompts: float) -> Truth:
    return speeds(prompts, lambda rng, s: 1 + rng.exponential(0.7, s.shape), 1.7, "1 + exponential")


def outliers(prompts: float, sd: float, times: float) -> Truth:
    """One prompt in 20 is `times` as fast as it would be."""

    def ratios(rng: Generator, score: Floats) -> Floats:
        hit = np.where(rng.random(score.shape) < 0.05, times, 1.0)
        found: Floats = hit * np.exp(sd * rng.standard_normal(score.shape) - sd**2 / 2)
        return found

    return speeds(prompts, ratios, 0.95 + 0.05 * times, f"log-normal {sd}, outliers {times}")


def few_differ(share: float, skewed: bool) -> Truth:
    """Differences in nll: 0 but for a share of documents."""

    def draw(rng: Generator, shape: tuple[int, int]) -> Floats:
        moved = rng.exponential(0.3, shape) if skewed else rng.normal(0.3, 0.2, shape)
        return np.where(rng.random(shape) < share, moved, 0.0)

    return mean(f"{share:.0%} differ", 0.3 * share, draw)


# -- the grid: each row is one of a table ------------------------------------------------------


@dataclass(frozen=True)
class Row:
    group: str
    name: str
    truths: tuple[Truth, ...]
    sizes: tuple[int, ...]
    draws: int


RECOVERIES = (0.9, 0.95, 0.98, 0.99, 1.0, 1.02, 1.05)
ACCURACIES = (0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
CHANGED = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3)
SIZES_01 = (12, 20, 30, 50, 100, 164, 250, 500, 1319)
SIZES = (12, 20, 50, 100, 200, 500)
SIZES_SPEED = (5, 8, 12, 20, 50, 100, 200)
ZERO_ONE = "0/1 scores, by true recovery"
EXAMPLES = "0/1 scores, by accuracy, true recovery and share changed"
GRADED = "Recovery of graded and averaged scores"
SPEED = "Speedups"
MEANS = "Scores of one lane, and differences"
BEYOND = "Beyond what a sample shows"


def _grid_01(recovery: float) -> Iterator[Truth]:
    for accuracy in ACCURACIES:
        least = round(abs(accuracy * (1 - recovery)), 6)
        for changed in sorted({least, *(c for c in CHANGED if c > least)} - {0.0}):
            if truth := zero_one(accuracy, recovery, changed):
                yield truth


def _named(accuracy: float, recovery: float, changed: float) -> Iterator[Truth]:
    if truth := zero_one(accuracy, recovery, changed):
        yield truth


def _grid_graded(scores: Values) -> Iterator[Truth]:
    for recovery, changed in ((0.99, 0.01), (0.98, 0.02), (0.98, 0.05), (0.9, 0.2)):
        yield changes(scores, recovery, changed, "cut")
    yield turned_over(changes(scores, 0.95, 0.05, "cut"))
    for recovery, changed in ((0.98, 0.05), (0.95, 0.2), (1.0, 0.05)):
        yield changes(scores, recovery, changed, "redrawn")
    yield all_move(scores, 1)
    yield all_move(scores, 50)


def _grid_samples(accuracy: float) -> Iterator[Truth]:
    for k in (2, 8):
        yield samples_of(accuracy, k, 0.98, 0.02, "flip")
        yield samples_of(accuracy, k, 0.98, 0.05, "whole")
        yield samples_of(accuracy, k, 0.98, 1.0, "apart")
    yield samples_of(accuracy, 8, 0.95, 0.05, "flip")
    yield samples_of(accuracy, 8, 1.0, 0.05, "flip")


ROWS = (
    *(Row(ZERO_ONE, f"{r:.0%}", tuple(_grid_01(r)), SIZES_01, 3000) for r in RECOVERIES),
    *(
        Row(EXAMPLES, f"{a:.0%}, {r:.0%}, {c:.1%}", tuple(_named(a, r, c)), SIZES_01, 3000)
        for a, r, c in ((0.8, 0.99, 0.008), (0.8, 0.98, 0.02), (0.7, 1.0, 0.02), (0.3, 0.95, 0.1))
    ),
    *(
        Row(GRADED, name, tuple(_grid_graded(scores)), SIZES, 600)
        for name, scores in (
            ("partial credit, mean 0.6", partial),
            ("mostly full marks, mean 0.95", high),
            ("mostly near 0, mean 0.1", low),
            ("about the middle, mean 0.5", middle),
        )
    ),
    *(
        Row(GRADED, f"2 or 8 samples each, {a:.0%} right", tuple(_grid_samples(a)), SIZES, 600)
        for a in (0.3, 0.6, 0.9)
    ),
    Row(
        SPEED,
        "log-normal",
        tuple(log_normal(prompts, sd) for prompts in (0.1, 0.4, 0.8) for sd in (0.1, 0.3, 0.6)),
        SIZES_SPEED,
        600,
    ),
    Row(
        SPEED,
        "log-normal, tied to the prompt",
        (
            *(log_normal(0.3, sd, c) for sd in (0.3, 0.6) for c in (-0.7, 0.7)),
            *(log_normal(0.5, 0.3, c) for c in (-0.5, 0.5)),
            log_normal(0.5, 0.6, 0.5),
            *(log_normal(0.8, 0.3, c) for c in (-0.7, 0.5)),
        ),
        SIZES_SPEED,
        600,
    ),
    Row(
        SPEED,
        "gamma, 1 + exponential",
        (
            *(gamma(prompts, shape) for prompts in (0.1, 0.5) for shape in (1, 2, 4)),
            *(exponential(prompts) for prompts in (0.1, 0.5, 0.8)),
        ),
        SIZES_SPEED,
        600,
    ),
    Row(
        SPEED,
        "1 in 20 at 0.1, 0.5, 2 times",
        tuple(outliers(p, 0.3, times) for p in (0.1, 0.4) for times in (0.1, 0.5, 2)),
        SIZES_SPEED,
        600,
    ),
    Row(MEANS, "0/1: Wilson", tuple(map(wilson, ACCURACIES)), SIZES, 3000),
    Row(
        MEANS,
        "graded",
        tuple(mean(f.__name__, m, f) for f, m in ((partial, 0.6), (high, 0.95), (middle, 0.5))),
        SIZES,
        600,
    ),
    Row(MEANS, "graded, mostly near 0", (mean("low", 0.1, low),), SIZES, 600),
    Row(
        MEANS,
        "differences, 5 or 20% not 0",
        tuple(few_differ(share, skewed) for share in (0.05, 0.2) for skewed in (False, True)),
        SIZES,
        600,
    ),
    Row(BEYOND, "1 in 20 at 4 times, sd 0.05", (outliers(0.1, 0.05, 4),), SIZES_SPEED, 600),
    Row(BEYOND, "1 in 20 at 3 times, sd 0.3", (outliers(0.1, 0.3, 3),), SIZES_SPEED, 600),
    Row(
        BEYOND,
        "tied by 0.7, prompts sd 0.8",
        tuple(log_normal(0.8, sd, 0.7) for sd in (0.3, 0.6)),
        SIZES_SPEED,
        600,
    ),
)
