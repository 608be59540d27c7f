"""Which lanes a condition holds for, what it looks at, and that nothing passes unmeasured."""

from __future__ import annotations

from pathlib import Path

import pytest

from mars_cli.analysis.across import Paired
from mars_cli.analysis.stored import Stored
from mars_cli.errors import UsageError
from mars_cli.report.gate import failures, parse
from mars_cli.report.tidy import rows
from tests.unit.analysis.built import LANES, MARS, STRICT
from tests.unit.report import made


def run(lanes=tuple(LANES)):
    results = made.by_hand()
    results["run"]["id"] = "r"
    results["lanes"] = list(lanes)
    kept = {lane["id"] for lane in lanes}
    for task in results["tasks"].values():
        task["lanes"] = {lane: one for lane, one in task["lanes"].items() if lane in kept}
    return Stored(Path("/nowhere"), {}, results)


def failed(*conditions, on="point", of=None, pairs=()):
    of = of or run()
    return list(failures([parse(text) for text in conditions], [(of, list(rows([of], pairs)))], on))


def test_the_figure_itself_is_held_against_the_limit_unless_the_interval_is_asked_for():
    assert failed("speedup<1.2") == [f"speedup<1.2: r, mars_humaneval, {MARS}: not measured"]
    assert failed("speedup<1.2", on="lower")[0] == (
        f"speedup<1.2: r, mars_products, {MARS}: 1.22x [1.17, 1.27]"
    )


@pytest.mark.parametrize(
    ("condition", "fails"),
    [
        ("recovery<97.5", False),
        ("recovery<=97.5", True),
        ("recovery<98%", True),
        ("recovery > 97", True),
        ("recovery>=97.6", False),
        ("speedup<1.3x", True),
        ("largest_loss>5", True),
        ("safe<1", True),
        ("fidelity.violations>0", False),
        ("fidelity_violations>=0", True),
        ("tokens<2e4", True),
    ],
)
def test_signs_and_units(condition, fails):
    found = [line for line in failed(condition) if "mars_products" in line]
    assert bool(found) == fails


def test_with_lower_a_limit_from_above_looks_at_the_upper_end():
    assert [line for line in failed("recovery>100", on="lower") if "mars_products" in line]
    assert not [line for line in failed("recovery>100") if "mars_products" in line]


def test_a_figure_that_has_no_intervals_is_held_as_it_is():
    assert not [line for line in failed("largest_loss>10", on="lower") if "mars_products" in line]


def test_a_figure_whose_interval_is_missing_fails_where_it_is_asked_for():
    of = run()
    lane = of.results["tasks"]["mars_products"]["lanes"][MARS]
    lane["speedup_ci"], lane["notes"] = None, ["speedup, wall_speedup: fewer than 2 documents"]
    assert failed("speedup<1", on="lower", of=of)[0] == (
        f"speedup<1: r, mars_products, {MARS}: 1.22x has no interval "
        "(speedup, wall_speedup: fewer than 2 documents)"
    )


def test_a_figure_that_is_null_fails_with_its_reason():
    assert failed("recovery<98")[1] == (
        f"recovery<98: r, mars_humaneval, {MARS}: not measured ({made.LOW_BASE})"
    )
    of = run()
    of.results["tasks"]["mars_humaneval"]["lanes"][MARS]["notes"] = []
    assert failed("recovery<98", of=of)[1].endswith("not measured (low base)")
    of.results["tasks"]["mars_humaneval"]["lanes"][MARS]["fidelity"]["notes"] = [
        "fidelity: not measured in this run"
    ]
    assert failed("fidelity_violations>0", of=of) == [
        f"fidelity_violations>0: r, mars_humaneval, {MARS}: not measured "
        "(fidelity: not measured in this run)"
    ]


def test_ar_and_strict_are_not_under_test_unless_strict_is_all_there_is():
    assert {line.split(", ")[2].split(":")[0] for line in failed("score>0")} == {MARS}
    assert {line.split(", ")[2].split(":")[0] for line in failed("score>0", of=run(LANES[:2]))} == {
        STRICT
    }


def test_a_lane_can_be_named_by_a_glob():
    assert len(failed("strict-*:exact_match_ar<1")) == 1  # null on the second task only
    assert len(failed("*:score>0")) == 6
    assert failed("eagle*:score>0") == ["eagle*:score>0: r: no figures of a lane eagle* to test"]


def test_a_run_without_figures_does_not_pass():
    of = Stored(Path("/nowhere"), {}, {**run().results, "tasks": {}})
    assert failed("recovery<98", of=of) == ["recovery<98: r: no figures of a lane to test"]


def test_paired_figures_can_be_conditions_and_the_base_is_not_held_against_itself():
    base, other = run(), run()
    pair = Paired(other, base, "mars_products", MARS, 40, 40, 97.5, (90.0, 104.76), 10.0, 0.5, 1.0)
    both = [(one, list(rows([one], [pair]))) for one in (base, other)]
    found = list(failures([parse("base_recovery<98")], both, "point", base))
    assert found == [
        f"base_recovery<98: r, mars_products, {MARS}: 97.5% [90.0, 104.8]",
        f"base_recovery<98: r, mars_humaneval, {MARS}: not measured "
        "(no base run to hold it against)",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("recovery", "expected FIGURE<NUMBER"),
        ("recovery=98", "expected FIGURE<NUMBER"),
        ("recovery<", "expected FIGURE<NUMBER"),
        ("<98", "expected FIGURE<NUMBER"),
        ("recovery<high", "high is no number"),
        ("recovery<nan", "nan is no number"),
        ("recovery<1e999", "1e999 is no number"),
        ("tokens<98%", "98% is no number"),
        ("speed<1", "there is no figure speed"),
        ("score_low<1", "there is no figure score_low"),
    ],
)
def test_what_is_no_condition_is_refused(text, said):
    with pytest.raises(UsageError, match=said) as refused:
        parse(text)
    assert str(refused.value).startswith(f"--fail-if {text}: ")
    assert refused.value.hint
