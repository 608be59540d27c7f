"""The names that readers go by are those that results have."""

from __future__ import annotations

from mars_cli.analysis import agreement, compare, figures, scores
from mars_cli.analysis.checked import checked
from mars_cli.runs import layout, run
from tests.unit.analysis.built import LANE_KEYS, MARS, full_task, lane_of, results

# Not one number each.
OTHERS = {"recovery_note", "metrics", "by_concurrency", "fidelity", "acceptance_per_position"}


def test_every_figure_of_a_lane_is_known_with_its_unit_and_whether_it_has_an_interval():
    named = {name for name in LANE_KEYS if not name.endswith("_ci")} - OTHERS
    assert named <= figures.FIGURES.keys()
    lane = lane_of(results(full_task()), MARS)
    assert figures.FIGURES.keys() <= lane.keys()
    assert figures.FIDELITY.keys() <= lane["fidelity"].keys()
    everywhere = [*lane, *lane["fidelity"]]
    ends = {name.removesuffix("_ci") for name in everywhere if name.endswith("_ci")}
    assert ends == figures.INTERVALS


def test_results_as_they_are_made_need_no_filling_up():
    made = results(full_task())
    parts = ("run", "tasks", "noise", "overall", "notes")
    before = repr([made[part] for part in parts])
    assert repr([checked(made)[part] for part in parts]) == before


def test_what_is_said_twice_is_the_same():
    assert figures.NOT_LOSSLESS == agreement.NOT_LOSSLESS
    assert figures.SAFE_RECOVERY == scores.SAFE_RECOVERY
    assert figures.SCHEMA == compare.SCHEMA
    assert layout.SCHEMA == run.SCHEMA
