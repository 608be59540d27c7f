"""How often the 95% intervals hold the truth: `python -m benchmarks.coverage` (5 minutes).

Draws documents whose true recovery, speedup or score is known (benchmarks/truths.py), has
`mars_cli.analysis.stats` take the interval as `mars` does, and counts. A cell is one truth and one
number of documents; a table entry is the lowest cell of its row's, and beside it what a percentile
bootstrap holds there.

So that the lowest of many is not low by chance, cells under 94% are drawn anew with a new seed,
four times as often, and only that counts. Cells of which mars gives no interval in more than 80% of
draws are left out. The exit code is 1 when a cell holds less than 91.5%.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.truths import BEYOND, EXAMPLES, ROWS, ZERO_ONE, Floats, Truth

AIM, REDRAW_BELOW, LEAST_GIVEN = 0.915, 0.94, 0.2
REDRAW_TIMES = 4
SEED = 20260116
PERCENTILE_DRAWS, RESAMPLES = 300, 1000
LARGE = 200  # with more documents than this, a third of the draws: each takes longer


@dataclass(frozen=True)
class Cell:
    """Of `drawn` evaluations `given` had an interval, and `held` of those held the truth."""

    held: int
    given: int
    drawn: int

    @property
    def share(self) -> float:
        return self.held / self.given if self.given else float("nan")

    @property
    def counts(self) -> bool:
        return self.given >= LEAST_GIVEN * self.drawn


def cover(truth: Truth, n: int, draws: int, seed: Sequence[int] = ()) -> Cell:
    """How often mars's interval of n documents holds the truth, of so many draws.

    Raises:
        ValueError: an interval has no width.
    """
    held = given = 0
    for sample in truth.samples(np.random.default_rng([SEED, n, *seed]), draws, n):
        found = truth.interval(sample)
        if found is not None:
            if not found[0] < found[1]:
                raise ValueError(f"{truth.name}, n = {n}: an interval without width, {found}")
            given += 1
            held += found[0] <= truth.value <= found[1]
    return Cell(held, given, draws)


def cover_percentile(truth: Truth, n: int, draws: int, seed: Sequence[int] = ()) -> Cell:
    """The same of a percentile bootstrap, where mars gives an interval."""
    held = given = 0
    for sample in truth.samples(np.random.default_rng([SEED, n, *seed]), draws, n):
        if truth.interval(sample) is None:
            continue
        lane, base = (_resamples(n) @ np.asarray(side) for side in truth.pairs(sample))
        ratios = lane[base > 0] / base[base > 0]
        low, high = np.quantile(ratios, [0.025, 0.975])
        given += 1
        held += bool(low <= truth.value <= high)
    return Cell(held, given, draws)


@lru_cache(maxsize=1)
def _resamples(n: int) -> Floats:
    rng = np.random.default_rng([SEED, n])
    return rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES).astype(np.float64)


Job = tuple[int, int, int]  # row, truth, n


def _draws(row: int, n: int) -> int:
    slow = n > LARGE and ROWS[row].group not in (ZERO_ONE, EXAMPLES)
    return ROWS[row].draws // (3 if slow else 1)


def _first(job: Job) -> Cell:
    row, truth, n = job
    return cover(ROWS[row].truths[truth], n, _draws(row, n), (row, truth))


def _again(job: Job) -> Cell:
    row, truth, n = job
    return cover(ROWS[row].truths[truth], n, REDRAW_TIMES * _draws(row, n), (row, truth, 1))


def _percentile(job: Job) -> Cell:
    row, truth, n = job
    return cover_percentile(ROWS[row].truths[truth], n, PERCENTILE_DRAWS, (row, truth))


def main() -> int:
    jobs = [
        (number, truth, n)
        for number, row in enumerate(ROWS)
        for n in row.sizes
        for truth in range(len(row.truths))
    ]
    # Each process on one core: two with two threads each would get in each other's way.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    with get_context("spawn").Pool(initializer=warnings.simplefilter, initargs=("error",)) as pool:
        cells = dict(zip(jobs, pool.map(_first, jobs, chunksize=8), strict=True))
        again = [j for j, c in cells.items() if c.counts and c.share < REDRAW_BELOW]
        cells.update(zip(again, pool.map(_again, again, chunksize=1), strict=True))
        worst = lowest(cells)
        compared = dict(zip(worst, pool.map(_percentile, worst.values(), 8), strict=True))
    console = Console(width=130)
    console.print(
        "lowest coverage of the row's cells, % (a percentile bootstrap's on the same cell)"
    )
    for group in dict.fromkeys(row.group for row in ROWS):
        console.print(table(group, cells, worst, compared))
    return report(console, cells)


def lowest(cells: dict[Job, Cell]) -> dict[tuple[int, int], Job]:
    """Of every row and n the cell that holds least, among those that count."""
    found: dict[tuple[int, int], Job] = {}
    for job, cell in cells.items():
        key = job[0], job[2]
        if cell.counts and (key not in found or cell.share < cells[found[key]].share):
            found[key] = job
    return found


def table(
    group: str,
    cells: dict[Job, Cell],
    worst: dict[tuple[int, int], Job],
    compared: dict[tuple[int, int], Cell],
) -> Table:
    """Per row and n the lowest coverage in %, and in brackets a percentile bootstrap's."""
    numbers = [number for number, row in enumerate(ROWS) if row.group == group]
    sizes = ROWS[numbers[0]].sizes
    shown = Table(title=group, box=box.SIMPLE_HEAD, collapse_padding=True, title_justify="left")
    shown.add_column("n =", no_wrap=True)
    for n in sizes:
        shown.add_column(str(n), justify="right")
    shown.add_column("mean", justify="right")
    for number in numbers:
        entries = []
        for n in sizes:
            if (job := worst.get((number, n))) is None:
                entries.append("-")
                continue
            mark = "[red]![/red]" if cells[job].share < AIM else ""
            entries.append(
                f"{mark}{100 * cells[job].share:.1f} ({100 * compared[number, n].share:.0f})"
            )
        of_row = [c.share for job, c in cells.items() if job[0] == number and c.counts]
        shown.add_row(ROWS[number].name, *entries, f"{100 * np.mean(of_row):.1f}")
    return shown


def report(console: Console, cells: dict[Job, Cell]) -> int:
    """Says how many cells there are, which are under the aim, and which were left out."""
    inside = {job: cell for job, cell in cells.items() if ROWS[job[0]].group != BEYOND}
    counted = {job: cell for job, cell in inside.items() if cell.counts}
    under = {job: cell for job, cell in counted.items() if cell.share < AIM}
    left_out = [cell.share for cell in inside.values() if not cell.counts and cell.given >= 50]
    console.print(
        f"{len(counted)} cells, {len(under)} under {AIM:.1%}, lowest "
        f"{min(cell.share for cell in counted.values()):.1%}. Left out, for no interval in over "
        f"{1 - LEAST_GIVEN:.0%} of draws: {len(inside) - len(counted)}, lowest {min(left_out):.1%}"
    )
    for (row, truth, n), cell in under.items():
        console.print(f"{ROWS[row].truths[truth].name}, n = {n}: {cell.share:.1%} of {cell.given}")
    return 1 if under else 0


if __name__ == "__main__":
    sys.exit(main())
