"""Runs held against each other: what is paired, with what result, and what is not."""

from __future__ import annotations

import json

import pytest

from mars_cli.analysis import stats
from mars_cli.analysis.across import paired
from mars_cli.analysis.comparable import ANSWERS, SPEED, UNKNOWN, differences
from mars_cli.analysis.documents import Documents, write_documents
from mars_cli.analysis.stored import load
from tests.unit.analysis.built import MARS, STRICT
from tests.unit.report import made

TASK = made.TASK


def pairs(base, *others):
    found = paired(Documents(load(base)), [Documents(load(one)) for one in others])
    return {(one.run.id, one.lane): one for one in found}


@pytest.fixture
def two(tmp_path):
    return (
        made.make(tmp_path / "a"),
        made.make(tmp_path / "b", answers=made.quality(mars=3)),
    )


def test_the_ratio_and_the_tests_are_those_of_recovery(two):
    row = pairs(*two)["b", MARS]
    ours, theirs = ([float(flag) for flag in made.all_but(every)] for every in (3, 4))
    expected = stats.paired_ratio_01(ours, theirs)
    assert row.ratio == pytest.approx(100 * expected.value)
    assert row.interval == pytest.approx([100 * end for end in expected.interval])
    assert row.p_value == stats.mcnemar(ours, theirs)
    assert row.largest_loss == pytest.approx(100 - row.interval[0])
    assert (row.n, row.documents, row.note) == (40, 40, None)


def test_every_lane_of_both_is_paired_ar_too_and_holm_counts_them_all(two):
    found = pairs(*two)
    assert [lane for _, lane in found] == ["ar", STRICT, MARS]
    assert found["b", "ar"].ratio == 100
    raw = [one.p_value for one in found.values()]
    assert [one.p_value_holm for one in found.values()] == stats.holm(raw)


def test_only_documents_with_the_same_prompt_are_paired(tmp_path):
    base = made.make(tmp_path / "a")
    hashes = {doc: f"{doc:016x}" if doc < 30 else "other" for doc in range(40)}
    row = pairs(base, made.make(tmp_path / "b", prompts=hashes))["b", MARS]
    assert (row.n, row.documents) == (30, 40)


def test_other_prompts_or_none_at_all_are_not_paired_and_a_note_says_why(tmp_path):
    base = made.make(tmp_path / "a")
    other = made.make(tmp_path / "b", prompts=dict.fromkeys(range(40), "other"))
    row = pairs(base, other)["b", MARS]
    assert (row.ratio, row.note) == (None, "no document has the same prompt in both")
    (other / f"records/prompts/{TASK}.jsonl").unlink()
    assert pairs(base, other)["b", MARS].note == "no prompts are recorded in b"
    assert pairs(other, base)["a", MARS].note == "no prompts are recorded in b"


def test_too_few_right_in_the_base_give_no_ratio(tmp_path):
    few = {**made.quality(), MARS: made.right([1] * 5 + [0] * 35)}
    row = pairs(made.make(tmp_path / "a", answers=few), made.make(tmp_path / "b"))["b", MARS]
    assert row.ratio is None
    assert row.note == "too few right in the base for a ratio"


def test_another_metric_is_not_paired(two):
    made.edit(two[1] / "results.json", lambda found: found["tasks"][TASK].update(metric="f1,none"))
    assert pairs(*two)["b", MARS].note == "other metrics: acc,none and f1,none"


def test_a_metric_that_is_better_when_lower_is_turned_over(two):
    def turn(found):
        found["tasks"][TASK]["higher_is_better"] = False

    for run in two:
        made.edit(run / "results.json", turn)
    assert pairs(*two)["b", MARS].ratio == pytest.approx(100 * 30 / 26)


def test_broken_records_cost_their_own_pairs_only(two):
    (two[1] / f"records/quality/{TASK}/{MARS}.jsonl").write_text("{}\n[]\n")
    found = pairs(*two)
    assert found["b", MARS].ratio is None
    assert "not a record" in found["b", MARS].note
    assert found["b", STRICT].ratio == 100


def test_names_that_lead_out_of_a_run_are_not_followed(two):
    def move(found):
        found["tasks"] = {"../../../secret": found["tasks"][TASK]}

    for run in two:
        made.edit(run / "results.json", move)
    made.write_lines(two[0].parent / "secret.jsonl", [{"doc_id": 0, "hash": "x"}])
    assert {one.note for one in pairs(*two).values()} == {"no prompts are recorded in b"}


def test_documents_json_gives_the_same_pairs_without_the_records(two):
    before = pairs(*two)
    for run in two:
        write_documents(load(run))
        for path in run.glob("records/**/*.jsonl"):
            path.write_text("broken\n")
    after = pairs(*two)
    assert [(one.ratio, one.interval, one.p_value, one.n) for one in after.values()] == [
        (one.ratio, one.interval, one.p_value, one.n) for one in before.values()
    ]


@pytest.mark.parametrize(
    "broken", ["{", "[]", '{"schema": 2}', '{"schema": 1, "tasks": 3}', '{"schema":1,"tasks":{}}']
)
def test_a_documents_json_that_cannot_be_used_is_passed_over(two, broken):
    (two[1] / "documents.json").write_text(broken)
    assert pairs(*two)["b", MARS].n == 40


def test_a_documents_json_with_uneven_columns_is_passed_over(two):
    write_documents(load(two[1]))
    made.edit(two[1] / "documents.json", lambda found: found["tasks"][TASK]["prompts"].pop())
    assert pairs(*two)["b", MARS].n == 40


def test_scores_of_all_documents_together_are_not_kept_by_document(two):
    path = two[0] / f"records/quality/{TASK}/ar.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    made.write_lines(path, [{**one, "parts": {"bleu": [1]}} for one in records])
    write_documents(load(two[0]))
    assert json.loads((two[0] / "documents.json").read_text())["tasks"] == {}


# -- what differs ------------------------------------------------------------------------------


def differing(*runs):
    return {
        (one.what, one.task): (one.changes, one.values)
        for one in differences([Documents(load(run)) for run in runs])
    }


def test_runs_alike_differ_in_nothing(tmp_path):
    assert differing(made.make(tmp_path / "a"), made.make(tmp_path / "b")) == {}


def test_every_kind_of_fact_is_compared(tmp_path):
    base = made.make(tmp_path / "a")
    other = made.make(
        tmp_path / "b",
        engine={"gpu": "NVIDIA A100", "driver": "550", "vllm": "0.33.0", "dtype": "float16"},
        plan={
            "temperature": 0.7,
            "seed": 1,
            "fingerprint": ["beef"],
            "data": {TASK: {"source": "reasoning-gym", "documents_sha256": "0" * 64}},
            "model": {"name": "tiny", "weights": "hub:org/tiny@main"},
        },
        prompts={doc: "x" for doc in range(40)},
    )

    def move(found):
        found["environment"].update(cpu="Intel", packages={"lm-eval": "0.4.14"})
        found["tasks"][TASK].update(concurrency=[1, 8], speed_mode="sequential")

    made.edit(other / "results.json", move)
    found = differing(base, other)
    assert found["gpu", None] == (ANSWERS, ("NVIDIA H200", "NVIDIA A100"))
    assert found["driver", None] == (ANSWERS, (UNKNOWN, "550"))
    assert found["temperature", None] == (ANSWERS, ("the tasks' own", "0.7"))
    assert found["cpu", None] == (SPEED, ("AMD EPYC", "Intel"))
    assert found["concurrency", TASK] == (SPEED, ("[1]", "[1, 8]"))
    assert found["data", TASK] == (
        ANSWERS,
        ("reasoning-gym 5eed5eed5eed", "reasoning-gym 000000000000"),
    )
    assert set(found) == {
        *((name, None) for name in ("gpu", "driver", "vllm", "dtype", "temperature", "seed")),
        *((name, None) for name in ("fingerprint of the weights", "model's weights", "lm-eval")),
        ("cpu", None),
        *((name, TASK) for name in ("data", "prompts", "concurrency", "speed_mode")),
    }


def test_what_can_change_answers_comes_first(tmp_path):
    other = made.make(tmp_path / "b", engine={"threads": 2, "dtype": "float16"})
    found = differences([Documents(load(made.make(tmp_path / "a"))), Documents(load(other))])
    assert [one.changes for one in found] == [ANSWERS, SPEED]


def test_a_task_that_one_run_lacks_is_no_difference_of_that_task(tmp_path):
    base, other = made.make(tmp_path / "a"), made.make(tmp_path / "b")
    third = made.make(tmp_path / "c", prompts={0: "x"})
    made.edit(other / "results.json", lambda found: found["tasks"].clear())
    found = differing(base, other, third)
    assert [value is None for value in found["prompts", TASK][1]] == [False, True, False]
