"""Rows of groups: lm-eval's own scores, and totals over the members."""

from __future__ import annotations

import json
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest

from mars_cli.analysis.groups import Aggregate, Group, from_json, group_row


def task(n, **scores):
    """Results of a task with n documents, whose lanes `ar` and `mars` have these scores."""
    names = {name.replace("__", ","): pair for name, pair in scores.items()}
    lanes = {
        lane: {"metrics": {name: {"score": pair[which]} for name, pair in names.items()}}
        for which, lane in enumerate(("ar", "mars"))
    }
    return {"n": n, "lanes": lanes}


def row(group, tasks, **totals):
    asked = []

    def total(lane, members):
        asked.append((lane, list(members)))
        return {"recovery": 99.0, "notes": ["recovery: over 1 of 2 tasks"], **totals}

    found = group_row(group, tasks, ["ar", "mars"], total)
    assert asked == [(lane, found["tasks"]) for lane in ("ar", "mars")]
    return found


TASKS = {
    "a": task(10, acc__none=(0.5, 0.4), f1__none=(0.1, 0.1)),
    "b": task(30, acc__none=(0.9, 0.8)),
}


def test_score_is_weighed_by_documents_or_not():
    for by_size, ar, mars in [(True, 0.8, 0.7), (False, 0.7, 0.6)]:
        group = Group("g", ("a", "b"), (Aggregate("acc", None, by_size),))
        found = row(group, TASKS)
        assert (found["metric"], found["n"]) == ("acc,none", 40)
        assert found["lanes"]["ar"]["score"] == pytest.approx(ar)
        assert found["lanes"]["mars"]["score"] == pytest.approx(mars)
        assert found["lanes"]["mars"]["metrics"]["acc,none"]["score"] == pytest.approx(mars)


@pytest.mark.parametrize("by_size", [True, False])
@pytest.mark.parametrize("filters", [None, ("none",), ("none", "loose")])
def test_scores_are_those_of_lm_evals_own_groups(by_size, filters, monkeypatch):
    from lm_eval.api.group import Group as Theirs
    from lm_eval.config.group import AggMetricConfig

    scores: dict[str, dict[str, Any]] = {
        "a": {"acc,none": 0.25, "acc,loose": 0.5, "f1,none": 0.1, "sample_len": 7},
        "b": {"acc,none": 0.75, "sample_len": 20},
        "c": {"acc,loose": 1.0, "f1,none": 0.6, "sample_len": 3},
    }
    theirs = Theirs(
        "g",
        aggregate_metric_list=[AggMetricConfig(m, filters, "mean", by_size) for m in ("acc", "f1")],
    )
    leaves = [SimpleNamespace(task_name=name) for name in scores]
    monkeypatch.setattr(theirs, "get_all_tasks", lambda: leaves)
    expected = {name: x for name, x in theirs.aggregate(scores).items() if "," in name}
    tasks = {
        name: task(
            one["sample_len"],
            **{key.replace(",", "__"): (x, x) for key, x in one.items() if "," in key},
        )
        for name, one in scores.items()
    }
    group = Group("g", tuple(scores), tuple(Aggregate(m, filters, by_size) for m in ("acc", "f1")))
    found = row(group, tasks)["lanes"]["ar"]["metrics"]
    ours = {name: x["score"] for name, x in found.items() if x["score"] is not None}
    assert ours == pytest.approx({n: x for n, x in expected.items() if "stderr" not in n})
    assert len(ours) >= 2


def test_task_without_a_score_leaves_the_group_without_and_is_named():
    tasks = {**TASKS, "b": task(30, acc__none=(0.9, None))}
    found = row(Group("g", ("a", "b"), (Aggregate("acc"),)), tasks)["lanes"]
    assert found["ar"]["score"] == pytest.approx(0.8)
    assert found["mars"]["score"] is None
    assert "score: b of the group have no acc,none" in found["mars"]["notes"]


def test_group_that_defines_no_score_has_totals_only():
    found = row(Group("g", ("a", "b")), TASKS, speedup=1.5)
    assert found["metric"] is None
    lane = found["lanes"]["mars"]
    assert (lane["score"], lane["metrics"], lane["recovery"]) == (None, {}, 99.0)
    assert lane["speedup"] == 1.5
    assert lane["notes"] == [
        "score: the group defines none of its own",
        "recovery: over 1 of 2 tasks",
    ]


def test_metric_that_no_task_has_is_null_and_said():
    found = row(Group("g", ("a", "b"), (Aggregate("bleu", ("none",)),)), TASKS)
    assert found["metric"] == "bleu,none"
    assert found["lanes"]["ar"]["score"] is None
    assert "score: no task of the group has bleu,none" in found["lanes"]["ar"]["notes"]


def test_tasks_that_were_not_run_are_no_members():
    found = row(Group("g", ("a", "gone"), (Aggregate("acc"),)), TASKS)
    assert (found["tasks"], found["n"]) == (["a"], 10)
    assert found["lanes"]["ar"]["score"] == 0.5


def test_group_comes_back_from_json():
    group = Group("g", ("a", "b"), (Aggregate("acc"), Aggregate("f1", ("x", "y"), by_size=False)))
    assert from_json(json.loads(json.dumps(asdict(group)))) == group
