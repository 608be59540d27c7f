"""Groups as lm-eval's index has them, and its own loader."""

from __future__ import annotations

from pathlib import Path

import pytest
from lm_eval.tasks import TaskManager

from mars_cli.analysis.groups import Aggregate, Group
from mars_cli.evaluation.groups import groups_of
from tests.unit.evaluation.conftest import CODE, TASK

GROUPS = {
    "all": """
group: all
task: [inner, echo_c, drawn]
aggregate_metric_list:
  - {metric: exact_match, weight_by_size: false}
  - {metric: exact_match, filter_list: none}
""",
    "inner": """
group: inner
task: [echo_a, echo_b]
aggregate_metric_list: {metric: exact_match, filter_list: [strict, loose]}
""",
    "changing": """
group: changing
task: [{task: echo_a, num_fewshot: 1}, {group: deeper, task: [echo_b]}]
""",
}


@pytest.fixture
def manager(tmp_path: Path) -> TaskManager:
    (tmp_path / "echo.py").write_text(CODE)
    for name in "abcd":
        tag = "tag: drawn\n" if name in "cd" else ""
        text = TASK.replace("task: echo", f"task: echo_{name}\n{tag}")
        (tmp_path / f"echo_{name}.yaml").write_text(text)
    for name, text in GROUPS.items():
        (tmp_path / f"_{name}.yaml").write_text(text)
    return TaskManager(include_path=[tmp_path], include_defaults=False)


ONE_EACH = {f"echo_{name}": [f"echo_{name}"] for name in "abcd"}


def test_groups_have_their_tasks_at_any_depth_once(manager: TaskManager) -> None:
    outer, inner = groups_of(manager, ["all", "inner", "echo_a"], ONE_EACH)
    assert outer == Group(
        "all",
        ("echo_a", "echo_b", "echo_c", "echo_d"),
        (Aggregate("exact_match", None, False), Aggregate("exact_match", ("none",), True)),
    )
    assert inner == Group(
        "inner", ("echo_a", "echo_b"), (Aggregate("exact_match", ("strict", "loose"), True),)
    )


def test_tasks_are_those_of_lm_evals_own_groups(manager: TaskManager) -> None:
    theirs = manager.load(["all"])["groups"]
    ours = groups_of(manager, ["all"], ONE_EACH)
    assert [group.name for group in ours] == list(theirs)
    for group in ours:
        expected = [task.task_name for task in theirs[group.name].get_all_tasks()]
        assert list(group.tasks) == list(dict.fromkeys(expected))


def test_group_that_changes_its_members_is_what_was_loaded(manager: TaskManager) -> None:
    loaded = {"changing": list(manager.load(["changing"])["tasks"])}
    (group,) = groups_of(manager, ["changing"], loaded)
    assert group == Group("changing", tuple(loaded["changing"]))
    assert len(group.tasks) == 2


def test_tasks_and_tags_are_no_groups(manager: TaskManager) -> None:
    assert groups_of(manager, ["echo_a", "drawn"], ONE_EACH) == []
