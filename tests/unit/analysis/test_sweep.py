"""Cells, fronts and the recommendation, from results.json of groups."""

from __future__ import annotations

import json

import pytest

from mars_cli.analysis.sweep import build_sweep, merged, recommend
from mars_cli.report.sweep import sweep_markdown
from tests.unit.analysis import built

STRICT, MARS = built.STRICT, built.MARS


def group(name="ngram-k7", results=None, status="complete", lanes=None, **fields):
    lanes = lanes or [lane["id"] for lane in built.LANES]
    return {
        "id": name,
        "temperature": None,
        "status": status,
        "reason": None,
        "log": f"groups/{name}.log",
        "expected": [("mars_products", lane) for lane in lanes],
        "failures": [],
        "results": built.results(built.full_task()) if results is None else results,
        **fields,
    }


def sweep(*groups, min_recovery=98.0, confirmed=None):
    found = build_sweep(
        {"id": "s", "created": "now", "status": "complete"}, {}, groups, min_recovery, confirmed
    )
    json.dumps(found, allow_nan=False)
    return found


def setting(name, speedup, low, rule="mars", **fields):
    return {
        "id": name,
        "rule": rule,
        "speedup": speedup,
        "recovery": None if low is None else low + 1,
        "recovery_low": low,
        "lowest_on": "gsm8k",
        "n_lowest": 40,
        "complete": True,
        **fields,
    }


def test_a_cell_is_a_lane_on_a_task_and_ar_is_none() -> None:
    cells = sweep(group())["cells"]
    assert [(cell["task"], cell["lane"]) for cell in cells] == [
        ("mars_products", STRICT),
        ("mars_products", MARS),
    ]
    assert cells[1]["theta"] == 0.9
    assert cells[1]["speedup"] == pytest.approx(3.9, abs=0.2)
    assert cells[1]["status"] == "done"


def test_a_group_that_failed_leaves_the_others_whole() -> None:
    lost = group("ngram-k9", {}, "failed", reason="failed: out of memory", lanes=["ar", "x", "y"])
    lost["results"] = None
    found = sweep(group(), lost)
    states = {cell["lane"]: (cell["status"], cell["reason"]) for cell in found["cells"]}
    assert states == {
        STRICT: ("done", None),
        MARS: ("done", None),
        "x": ("failed", "failed: out of memory"),
        "y": ("failed", "failed: out of memory"),
    }
    told = sweep_markdown(found).replace("\\", "")
    assert told.count("failed: mars_products x, y: failed: out of memory") == 1


def test_a_failed_cell_names_its_own_reason() -> None:
    failure = {"phase": "quality", "task": "mars_products", "lanes": [MARS], "reason": "died"}
    cells = {c["lane"]: c for c in sweep(group(status="failed", failures=[failure]))["cells"]}
    assert (cells[MARS]["status"], cells[MARS]["reason"]) == ("failed", "quality: died")
    assert cells[STRICT]["status"] == "done"


def test_the_fastest_that_stays_above_the_least_recovery_is_recommended() -> None:
    settings = [setting("a", 2.0, 98.5), setting("b", 3.0, 97.0), setting("c", 1.5, 99.9)]
    assert recommend(settings, 98.0)["setting"] == "a"
    assert recommend(settings, 96.0)["setting"] == "b"


def test_strict_is_never_recommended_and_neither_is_what_is_not_whole() -> None:
    settings = [
        setting("strict", 2.0, 99.0, rule="strict"),
        setting("a", 3.0, 99.0, complete=False),
    ]
    found = recommend(settings, 98.0)
    assert found["setting"] is None


def test_none_says_what_comes_nearest() -> None:
    found = recommend([setting("a", 2.0, 90.0), setting("b", 3.0, 80.0)], 98.0)
    assert found["setting"] is None
    assert "the nearest, a, may go down to 90.0% on gsm8k" in found["reason"]
    assert recommend([], 98.0)["reason"] == "no setting has a speedup"
    unknown = recommend([setting("a", 2.0, None)], 98.0)["reason"]
    assert unknown == "no setting has a recovery with an interval on every scored task"


def test_the_front_holds_what_nothing_beats() -> None:
    settings = {s["id"]: s["on_front"] for s in sweep(group())["settings"]}
    assert settings[MARS] is True  # the fastest
    assert settings[STRICT] is True  # the best recovery


def test_p_values_are_adjusted_over_the_whole_sweep() -> None:
    alone = sweep(group())["cells"]
    twice = sweep(group(), group("ngram-k9"))["cells"]
    for one, other in zip(alone, twice, strict=False):
        assert other["p_value"] == one["p_value"]
        assert other["p_value_holm"] >= one["p_value_holm"]


def test_that_the_best_of_many_is_optimistic_is_said() -> None:
    found = sweep(group())
    assert any(
        "2 settings were compared" in note and "--confirm" in note for note in found["notes"]
    )


def test_groups_of_one_temperature_are_joined_for_figures() -> None:
    other = built.results(built.full_task())
    task = other["tasks"]["mars_products"]
    task["lanes"] = {"ar": task["lanes"]["ar"], "mars-ngram-k9-t0.9": task["lanes"][MARS]}
    other["lanes"] = [other["lanes"][0], {**other["lanes"][2], "id": "mars-ngram-k9-t0.9", "k": 9}]
    (joined,) = merged([group(), group("ngram-k9", other)])
    assert list(joined["tasks"]["mars_products"]["lanes"]) == [
        "ar",
        STRICT,
        MARS,
        "mars-ngram-k9-t0.9",
    ]
    assert len(joined["lanes"]) == 4


def test_nothing_measured_gives_nulls() -> None:
    empty = group()
    empty["results"] = None
    found = sweep({**empty, "status": "waiting", "expected": []})
    assert found["cells"] == found["settings"] == []
    assert found["recommended"]["setting"] is None
    assert sweep_markdown(found)
