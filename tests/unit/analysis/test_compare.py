"""results.json: every key, and a complete task worked by hand."""

from __future__ import annotations

import math

import pytest

from mars_cli.analysis.compare import SCOPE
from tests.unit.analysis.built import (
    LANE_KEYS,
    LANES,
    MARS,
    METRIC,
    RUN,
    STRICT,
    answer,
    full_speed,
    full_task,
    lane_of,
    results,
    scored,
    task,
)

TASK_KEYS = {"n", "metric", "higher_is_better", "speed_mode", "lanes"}
METRIC_KEYS = {"score", "score_ci", "recovery", "recovery_ci"}
FIDELITY_KEYS = {"rank1_share", "rank2_share", "violations", "nll", "nll_delta"}


@pytest.mark.parametrize(
    "given",
    [full_task(), task(), task({"ar": scored(15)}), task(speed=full_speed())],
    ids=["complete", "empty", "ar only", "speed only"],
)
def test_every_key_of_the_schema_is_there_whatever_was_recorded(given):
    found = results(given)
    assert found["schema"] == 1
    assert {"schema", "run", "model", "environment", "lanes", "tasks", "noise", "overall"} <= (
        found.keys()
    )
    assert found["run"] == RUN
    assert found["lanes"] == LANES
    assert {"aa_speedup", "aa_ci"} <= found["noise"]["mars_products"].keys()
    assert found["overall"].keys() == {lane["id"] for lane in LANES}
    assert found["tasks"]["mars_products"].keys() >= TASK_KEYS
    for lane in LANES:
        row = lane_of(found, lane["id"])
        assert row.keys() >= LANE_KEYS
        assert row["fidelity"].keys() >= FIDELITY_KEYS
        assert all(values.keys() >= METRIC_KEYS for values in row["metrics"].values())
        assert METRIC in row["metrics"]


def test_a_complete_task_gives_the_figures_worked_by_hand():
    found = results(full_task())
    ar, strict, mars = (lane_of(found, lane["id"]) for lane in LANES)
    assert found["tasks"]["mars_products"]["n"] == 20
    assert (ar["score"], strict["score"], mars["score"]) == (0.75, 0.75, 0.7)
    assert (ar["recovery"], strict["recovery"]) == (100.0, 100.0)
    assert mars["recovery"] == pytest.approx(100 * 14 / 15)
    assert mars["recovery_ci"][0] < mars["recovery"] < mars["recovery_ci"][1]
    assert mars["p_value"] == 1.0  # one discordant document
    # steps of 1, 2 and 3 tokens; drafted steps accepted step - 1 drafts of 7
    assert [x["acceptance_length"] for x in (ar, strict, mars)] == [1.0, 2.0, 3.0]
    assert (ar["draft_acceptance_rate"], mars["draft_acceptance_rate"]) == (None, 2 / 7)
    assert (strict["tokens"], strict["length_ratio"]) == (100, 5 / 3)
    # all timed answers have 3 tokens: tokens/s end to end and wall time say the same
    assert strict["speedup"] == pytest.approx(2.0, rel=0.02)
    assert mars["speedup"] == pytest.approx(4.0, rel=0.04)
    assert mars["wall_speedup"] == pytest.approx(4.0, rel=0.04)
    assert mars["decode_speedup"] == pytest.approx(0.915 / 0.1575, rel=0.05)
    assert mars["speedup_ci"][0] > strict["speedup_ci"][1]
    assert strict["ttft_ms"] == pytest.approx(100.0)
    assert (strict["exact_match_ar"], strict["first_divergence_median"]) == (1.0, None)
    assert found["noise"]["mars_products"]["aa_speedup"] == pytest.approx(1.0, abs=0.02)
    assert (ar["speedup"], ar["speedup_ci"]) == (1.0, None)
    assert mars["within_noise"] is False


def test_acceptance_comes_from_quality_records_and_else_from_speed_records():
    speed = full_speed()
    both = lane_of(results(task({MARS: scored(5, step=3)}, speed)), MARS)
    timed_only = lane_of(results(task(speed=speed)), MARS)
    assert (both["acceptance_source"], both["acceptance_length"]) == ("quality", 3.0)
    assert (timed_only["acceptance_source"], timed_only["acceptance_length"]) == ("speed", 1.0)


def stopped(shares, n=25):
    return {
        lane: [answer(d, 1.0, stops_relaxed=2 if d < share * n else 0) for d in range(n)]
        for lane, share in shares.items()
    }


def test_stops_that_only_the_rule_accepts_are_told():
    found = results(task(stopped({"ar": 0, STRICT: 0, MARS: 0.12})))
    shares = [lane_of(found, lane["id"])["relaxed_stop_share"] for lane in LANES]
    assert shares == [None, 0.0, 0.12]
    said = "12% of the answers met an end-of-turn token that only the rule accepts"
    assert said in lane_of(found, MARS)["notes"]
    assert not any("end-of-turn" in note for note in lane_of(found, STRICT)["notes"])


def test_a_lane_kept_from_accepting_stops_is_told_so():
    lanes = [{**lane, "protect_stop": lane["id"] == MARS} for lane in LANES]
    found = results(task(stopped({"ar": 0, STRICT: 0.04, MARS: 0.12})), lanes=lanes)
    kept = "; this lane is kept from accepting it"
    notes = {lane: " ".join(lane_of(found, lane)["notes"]) for lane in (STRICT, MARS)}
    assert (
        f"12% of the answers met an end-of-turn token that only the rule accepts{kept}"
        in (notes[MARS])
    )
    assert kept not in notes[STRICT]


def test_relaxed_stops_of_records_without_the_field_are_none_seen():
    found = results(full_task())
    assert [lane_of(found, lane["id"])["relaxed_stop_share"] for lane in LANES] == [None, 0.0, 0.0]
    assert lane_of(results(task()), MARS)["relaxed_stop_share"] is None


def test_a_small_share_is_never_said_to_be_nothing():
    found = results(task(stopped({"ar": 0, MARS: 0.004}, n=250)))
    assert (
        "under 1% of the answers met an end-of-turn token that only the rule accepts"
        in lane_of(found, MARS)["notes"]
    )


def test_truncated_and_empty_answers_are_told():
    cut = [answer(d, 1.0, finish_reason="length" if d < 5 else "stop") for d in range(20)]
    empty = [answer(d, 1.0, text="" if d == 0 else "x") for d in range(20)]
    found = results(task({"ar": cut, MARS: empty}))
    ar, mars = lane_of(found, "ar"), lane_of(found, MARS)
    assert (ar["truncated_share"], mars["empty_share"]) == (0.25, 0.05)
    assert "25% of the answers were cut off by the length limit" in ar["notes"]
    assert "5% of the answers are empty (they count as answers)" in mars["notes"]


def told(notes, what):
    return [note for note in notes if note.startswith(what)]


@pytest.mark.parametrize(
    ("lengths", "ratio"),
    [
        ([6] * 20, None),  # 120 tokens against 100: 1.2
        ([6] * 19 + [7], "1.21"),
        ([4] * 20, None),
        ([4] * 19 + [3], "0.79"),
    ],
)
def test_answers_much_longer_or_shorter_than_those_of_ar_are_told(lengths, ratio):
    mars = [answer(d, 1.0, token_ids=list(range(n))) for d, n in enumerate(lengths)]
    found = results(task({"ar": scored(20), MARS: mars}))
    notes = [f"length ratio: the answers are {ratio} times as long as ar's"] if ratio else []
    assert told(lane_of(found, MARS)["notes"], "length ratio") == notes
    assert told(lane_of(found, "ar")["notes"], "length ratio") == []


@pytest.mark.parametrize("lanes", [(MARS,), ("ar", MARS)])
def test_an_engine_that_gives_one_token_a_request_is_noticed(lanes):
    """As a chat endpoint may, whose answers then look fast and whole: every lane's, or one's."""
    one = [
        answer(doc, 1.0, token_ids=[3], step_tokens=[1], drafted=[0], accepted=[0])
        for doc in range(20)
    ]
    found = results(task({"ar": scored(20), **dict.fromkeys(lanes, one)}))
    for lane in lanes:
        row = lane_of(found, lane)
        assert (row["tokens"], row["acceptance_length"]) == (20, None)
        assert told(row["notes"], "acceptance length: no answer went beyond its first output")
    if "ar" not in lanes:
        assert told(lane_of(found, MARS)["notes"], "length ratio: the answers are 0.20 times")


@pytest.mark.parametrize(("looping", "told_of"), [(2, False), (3, True)])
def test_a_lane_that_repeats_itself_more_than_ar_is_told(looping, told_of):
    # Of five tokens alike one of two 4-grams is a repeat: 2 of 20 such answers make 0.05.
    mars = [answer(d, 1.0, token_ids=[7] * 5 if d < looping else [*range(5)]) for d in range(20)]
    found = results(task({"ar": scored(20), MARS: mars}))
    row = lane_of(found, MARS)
    assert row["repetition"] == pytest.approx(looping * 0.5 / 20)
    assert lane_of(found, "ar")["repetition"] == 0.0
    assert told(row["notes"], "repetition") == (
        [
            "repetition: 8% of an answer's token 4-grams are repeats, 0% with ar; "
            "a speedup may be bought with loops"
        ]
        if told_of
        else []
    )


def test_repetition_is_compared_over_the_documents_that_both_lanes_have():
    loop = {"token_ids": [7] * 20}
    mars = [*scored(10, 10), *(answer(d, 1.0, **loop) for d in range(10, 20))]
    row = lane_of(results(task({"ar": scored(10, 10), MARS: mars})), MARS)
    assert row["repetition"] == pytest.approx(0.5 * 16 / 17)
    assert told(row["notes"], "repetition") == []


def test_a_lane_that_repeats_itself_as_ar_does_is_no_news():
    both = [answer(d, 1.0, token_ids=[7] * 20) for d in range(20)]
    row = lane_of(results(task({"ar": both, MARS: both})), MARS)
    assert row["repetition"] == pytest.approx(16 / 17)
    assert told(row["notes"], "repetition") == []


def test_answers_too_short_to_repeat_anything_have_no_repetition():
    quality = {lane: scored(20, step=1) for lane in ("ar", MARS)}
    row = lane_of(results(task(quality)), MARS)
    assert row["repetition"] is None
    assert told(row["notes"], "repetition") == ["repetition: no answer has 4 tokens"]


def test_overall_takes_the_geometric_mean_of_speedups_and_pools_acceptance():
    easy = task({lane: scored(20) for lane in ("ar", MARS)}, full_speed(mars=0.5), name="easy")
    hard = task({"ar": scored(2), MARS: scored(2, step=5)}, full_speed(mars=0.125), name="hard")
    found = results(easy, hard)
    whole = found["overall"][MARS]
    first, second = (lane_of(found, MARS, name) for name in ("easy", "hard"))
    assert whole["speedup"] == pytest.approx(math.sqrt(first["speedup"] * second["speedup"]))
    assert whole["acceptance_length"] == (20 * 2 * 2 + 20 * 2 * 5) / 80
    assert whole["recovery"] == 100.0
    assert whole["tasks"]["recovery"] == 1
    over_strict = [row["strict_speedup"] for row in (first, second)]
    assert whole["strict_speedup"] == pytest.approx(math.sqrt(math.prod(over_strict)))
    strict = found["overall"][STRICT]  # which has no such figure, and no note that says so
    assert (strict["strict_speedup"], strict["tasks"]["strict_speedup"]) == (None, 0)
    assert not any("strict_speedup" in note for note in strict["notes"])
    assert "recovery: over 1 of 2 tasks, the others have none" in whole["notes"]


def test_an_engine_that_differs_from_that_of_ar_is_named():
    engines = ({"runner": "V1", "eager": True}, {"runner": "V2", "eager": True})
    lanes = [{**lane, "engine": engines[min(position, 1)]} for position, lane in enumerate(LANES)]
    found = results(task(), lanes=lanes)
    assert found["engine_differences"] == [f"{STRICT}, {MARS}: runner is V2, with ar V1"]


def test_the_scope_of_intervals_and_missing_fidelity_are_stated():
    found = results(full_task())
    assert found["notes"] == [SCOPE]
    row = lane_of(found, MARS)
    assert row["fidelity"]["notes"] == ["fidelity: not measured in this run"]
    assert all(row["fidelity"][key] is None for key in FIDELITY_KEYS)


def test_no_tasks_is_a_valid_result():
    found = results()
    assert found["tasks"] == {}
    assert found["overall"][MARS]["speedup"] is None
