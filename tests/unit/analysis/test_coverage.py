"""The intervals hold the truth where that is hardest: the worst cells of benchmarks/coverage.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from benchmarks import truths
from benchmarks.coverage import AIM, BEYOND, Cell, cover, cover_percentile, lowest, report
from mars_cli.analysis import stats
from tests.unit.analysis.built import MARS, answer, lane_of, results, scored, task, timing

# About two documents lost and none gained; few of either; all but a few right.
ZERO_ONE = [
    (0.8, 0.99, 0.008, 250),
    (0.9, 0.99, 0.009, 250),
    (0.8, 1.05, 0.04, 50),
    (0.9, 0.98, 0.018, 500),
    (0.95, 1.05, 0.0475, 50),
    (0.9, 0.95, 0.045, 164),
    (0.8, 0.98, 0.02, 100),
    (0.5, 1.0, 0.005, 1319),
    (0.7, 1.05, 0.3, 1319),
    (0.1, 1.0, 0.2, 100),
]
RATIOS = [
    (truths.changes(truths.low, 0.98, 0.05, "cut"), 12),
    (truths.turned_over(truths.changes(truths.low, 0.98, 0.05, "cut")), 20),
    (truths.changes(truths.middle, 0.98, 0.05, "redrawn"), 50),
    (truths.changes(truths.high, 0.95, 0.2, "redrawn"), 12),
    (truths.samples_of(0.6, 8, 0.98, 0.02, "flip"), 50),
    (truths.log_normal(0.3, 0.6, 0.7), 12),
    (truths.exponential(0.8), 8),
    (truths.outliers(0.1, 0.3, 2), 20),
]
MEANS = [
    (truths.mean("low", 0.1, truths.low), 12),
    (truths.mean("high", 0.95, truths.high), 20),
    (truths.few_differ(0.05, skewed=True), 50),
]
# With 400 draws coverage is uncertain by 1.2 points; those of the benchmark are surer.
DRAWS = 400


@pytest.mark.parametrize(("accuracy", "recovery", "changed", "n"), ZERO_ONE)
def test_the_interval_of_recovery_covers(accuracy, recovery, changed, n):
    assert cover(truths.zero_one(accuracy, recovery, changed), n, 5000).share >= AIM


def test_bonett_prices_own_two_documents_do_not_cover(monkeypatch):
    monkeypatch.setattr(stats, "MORE_CHANGED_01", 2)
    truths._bonett_price.cache_clear()
    found = cover(truths.zero_one(0.8, 0.99, 0.008), 250, 5000)
    truths._bonett_price.cache_clear()
    assert found.share < 0.89


@pytest.mark.parametrize(("truth", "n"), [*RATIOS, *MEANS], ids=lambda x: getattr(x, "name", None))
def test_the_interval_of_graded_scores_and_speeds_covers(truth, n):
    assert cover(truth, n, DRAWS).share >= AIM


@pytest.mark.parametrize(
    ("truth", "n"),
    [(truths.zero_one(0.8, 0.99, 0.008), 250), RATIOS[0], RATIOS[5], MEANS[0]],
    ids=lambda x: getattr(x, "name", None),
)
def test_a_percentile_bootstrap_does_not_cover_there(truth, n):
    assert cover_percentile(truth, n, 200).share < 0.88


def test_truths_have_the_value_they_name():
    rng = np.random.default_rng(5)
    every = [truth for row in truths.ROWS for truth in row.truths]
    some = [t for t in every if "accuracy" not in t.name] + every[:300:10]
    assert len(some) > 100
    for truth in some:
        (sample,) = truth.samples(rng, 1, 10_000)
        lane, base = map(np.array, truth.pairs(sample))
        error = np.std(lane / lane.mean() - base / base.mean()) / 100
        off = np.log(lane.mean() / base.mean() / truth.value)
        assert abs(off) < 4.5 * error + 1e-9, truth.name


@pytest.mark.parametrize("table", [(10, 1, 2, 7), (9, 3, 0, 8), (9, 0, 1, 0), (12, 0, 0, 3)])
def test_a_simulated_table_has_the_interval_that_mars_reports(table):
    lane, base = truths._documents(table)
    quality = {
        name: [answer(doc, score) for doc, score in enumerate(scores)]
        for name, scores in (("ar", base), (MARS, lane))
    }
    reported = lane_of(results(task(quality)), MARS)["recovery_ci"]
    simulated = truths.zero_one(0.5, 1.0, 0.1).interval(table)
    assert reported == (simulated and pytest.approx([100 * end for end in simulated]))
    assert (reported is None) == (sum(base) < 10)


def test_simulated_speeds_have_the_interval_that_mars_reports():
    truth = truths.log_normal(0.3, 0.3)
    (sample,) = truth.samples(np.random.default_rng(1), 1, 12)
    speed = [
        timing(doc, name, 3 / value)  # 3 tokens each
        for name, values in zip((MARS, "ar"), sample, strict=True)
        for doc, value in enumerate(values)
    ]
    found = lane_of(results(task({"ar": scored(12)}, speed)), MARS)
    assert found["speedup_ci"] == pytest.approx(truth.interval(sample))


def test_the_page_has_a_line_for_every_row_of_the_benchmark():
    lines = (Path(__file__).parents[3] / "docs" / "coverage.md").read_text("utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]
    tables = {row[0]: len(row) for row in cells if not row[0].startswith("-")}
    for row in truths.ROWS:
        assert tables.pop(row.name) == len(row.sizes) + 2
    assert len(tables) == len({row.group for row in truths.ROWS})  # one head each


def test_a_cell_under_the_aim_is_said_and_fails_the_benchmark(capsys):
    good, low, null = Cell(95, 100, 100), Cell(90, 100, 100), Cell(10, 19, 100)
    cells = {(0, 0, 12): good, (0, 1, 12): low, (0, 2, 12): null}
    assert lowest(cells) == {(0, 12): (0, 1, 12)}
    many = {**cells, (0, 3, 12): Cell(50, 60, 1000)}
    assert report(Console(), many) == 1
    assert "2 cells, 1 under 91.5%, lowest 90.0%" in capsys.readouterr().out
    beyond = next(n for n, row in enumerate(truths.ROWS) if row.group == BEYOND)
    assert (
        report(Console(), {(0, 0, 12): good, (0, 3, 12): Cell(50, 60, 1000), (beyond, 0, 8): low})
        == 0
    )
