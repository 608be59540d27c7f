from __future__ import annotations

import pytest

from mars_cli.errors import UsageError
from mars_cli.evaluation.grid import groups, values, whole_values


def test_a_range_has_both_ends_and_no_float_noise() -> None:
    assert values("--theta", ["0.84:0.96:0.02"]) == [0.84, 0.86, 0.88, 0.9, 0.92, 0.94, 0.96]


def test_an_end_that_no_step_meets_is_left_out() -> None:
    assert values("--theta", ["0.8:0.95:0.1"]) == [0.8, 0.9]


def test_numbers_and_ranges_mix_and_come_once() -> None:
    assert values("--theta", ["0.9,0.8:0.9:0.05", "1"]) == [0.9, 0.8, 0.85, 1.0]


@pytest.mark.parametrize(
    "bad", ["", "x", "1:2", "0.9:0.8:0.1", "0:1:0", "0:1:-1", "nan", "0:9:1e-9"]
)
def test_what_is_no_range_is_refused(bad: str) -> None:
    with pytest.raises(UsageError, match="--theta"):
        values("--theta", [bad])


@pytest.mark.parametrize("bad", ["0", "7.5", "-1"])
def test_k_is_a_whole_number_above_0(bad: str) -> None:
    with pytest.raises(UsageError, match="--k"):
        whole_values("--k", [bad])


def test_thetas_share_a_group_and_each_k_and_temperature_has_its_own() -> None:
    found = groups(
        drafts=["ngram"],
        ks=[7, 10],
        temperatures=[0.0, 1.0],
        rules=[("--theta", "0.9"), ("--theta", "0.95")],
        common=["--limit", "3"],
    )
    assert [group.id for group in found] == [
        "ngram-k7-T0",
        "ngram-k10-T0",
        "ngram-k7-T1",
        "ngram-k10-T1",
    ]
    assert found[1].arguments == (
        *("--limit", "3", "--draft", "ngram", "--k", "10", "--temperature", "0"),
    )
    assert all(g.rules == ("--theta", "0.9", "--theta", "0.95") for g in found)


def test_a_group_is_called_after_its_draft_and_gets_it_as_it_was_given() -> None:
    given = ["ngram", "eagle3:org/head", "mine=eagle3:/a/path"]
    found = groups(drafts=given, ks=[3], temperatures=[None], rules=[], common=[])
    assert [group.id for group in found] == ["ngram-k3", "eagle3-k3", "mine-k3"]
    assert [group.arguments[:2] for group in found] == [("--draft", one) for one in given]


def test_the_models_own_settings_need_no_option() -> None:
    (one,) = groups(drafts=[None], ks=[None], temperatures=[None], rules=[], common=[])
    assert (one.id, one.arguments, one.rules) == ("all", (), ())
