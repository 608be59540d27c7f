"""results.json: every key, worked figures, and records as bad as they come."""

from __future__ import annotations

import json
import math

import pytest

from mars_cli.analysis.compare import SCOPE, TaskInput, build_results, within_noise

METRIC = "acc,none"
STRICT, MARS = "strict-ngram-k7", "mars-ngram-k7-t0.9"
LANES = [
    {"id": "ar", "rule": "none", "draft": None, "k": 0, "temperature": 0.0},
    {"id": STRICT, "rule": "strict", "draft": "ngram", "k": 7, "temperature": 0.0},
    {"id": MARS, "rule": "mars", "draft": "ngram", "k": 7, "theta": 0.9, "temperature": 0.0},
]
RUN = {"id": "20261129-1802-tiny", "created": "2026-11-29T18:02:00Z", "status": "complete"}

# DESIGN section 4, written out.
TASK_KEYS = {"n", "metric", "higher_is_better", "speed_mode", "lanes"}
LANE_KEYS = {
    "score",
    "score_ci",
    "recovery",
    "recovery_ci",
    "recovery_note",
    "p_value",
    "metrics",
    "acceptance_length",
    "acceptance_length_vllm",
    "acceptance_length_per_request",
    "acceptance_per_position",
    "draft_acceptance_rate",
    "relaxed_share",
    "relaxed_stop_share",
    "relaxed_per_100_tokens",
    "speedup",
    "speedup_ci",
    "decode_speedup",
    "decode_speedup_ci",
    "wall_speedup",
    "wall_speedup_ci",
    "tokens_per_s",
    "ttft_ms",
    "tpot_ms",
    "exact_match_ar",
    "first_divergence_median",
    "tokens",
    "length_ratio",
    "truncated_share",
    "empty_share",
    "fidelity",
}
METRIC_KEYS = {"score", "score_ci", "recovery", "recovery_ci"}
FIDELITY_KEYS = {"rank1_share", "rank2_share", "violations", "nll", "nll_delta"}


def answer(doc, score, *, step=2, sample=0, metric=METRIC, **fields):
    """An answer of 1 + 2 * step tokens in two steps after the prefill."""
    drafted = 0 if step == 1 else 7
    return {
        "doc_id": doc,
        "sample": sample,
        "token_ids": list(range(1 + 2 * step)),
        "text": "x",
        "finish_reason": "stop",
        "step_tokens": [1, step, step],
        "drafted": [0, drafted, drafted],
        "accepted": [0, step - 1, step - 1],
        "relaxed_at": [],
        "scores": None if score is None else {metric: score},
        **fields,
    }


def timing(doc, lane, seconds, *, step=1, control=False, repeat=0, **fields):
    found = answer(doc, None, step=step, lane=lane, control=control, repeat=repeat, **fields)
    del found["scores"]
    return {**found, "seconds": seconds, "ttft_s": 0.1}


def task(quality=None, speed=(), **fields):
    given = {
        "name": "mars_products",
        "metric": METRIC,
        "higher_is_better": True,
        "speed_mode": "interleaved",
        "quality": quality or {},
        "speed": speed,
        **fields,
    }
    return TaskInput(**given)


def results(*tasks, lanes=LANES):
    found = build_results(
        RUN, {"id": "tiny"}, {"cpu": "x"}, lanes, {one.name: one for one in tasks}
    )
    json.dumps(found, allow_nan=False)
    return found


def lane_of(found, lane, name="mars_products"):
    return found["tasks"][name]["lanes"][lane]


def scored(right, n=20, **fields):
    return [answer(doc, float(doc < right), **fields) for doc in range(n)]


def full_speed(n=6, repeats=2, strict=0.5, mars=0.25):
    """Of every prompt ar takes about 1 s, its control the same, the others a share of it."""
    speed = []
    for doc in range(n):
        for repeat in range(repeats):
            wobble = 1 + 0.01 * ((3 * doc + repeat) % 4)
            at = {"repeat": repeat}
            speed += [
                timing(doc, "ar", wobble, **at),
                timing(doc, "ar", 1 + 0.01 * (doc % 3), control=True, **at),
                timing(doc, STRICT, strict * (1 + 0.02 * (doc % 2)), **at),
                timing(doc, MARS, mars * (1 + 0.03 * (doc % 3)), **at),
            ]
    return speed


def full_task(**fields):
    quality = {"ar": scored(15, step=1), STRICT: scored(15), MARS: scored(14, step=3)}
    return task(quality, full_speed(), **fields)


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


def test_speedup_is_the_ratio_of_the_mean_speeds_over_prompts():
    # tokens/s of ar 3/1 and 3/3 (mean 2), of strict 3/0.5 and 3/1 (mean 4.5): 2.25.
    # Wall: (1 + 3) s against (0.5 + 1) s.
    speed = [
        timing(0, "ar", 1.0),
        timing(1, "ar", 3.0),
        timing(0, STRICT, 0.5),
        timing(1, STRICT, 1.0),
    ]
    row = lane_of(results(task(speed=speed)), STRICT)
    assert row["speedup"] == pytest.approx(2.25)
    assert row["wall_speedup"] == pytest.approx(4 / 1.5)
    assert row["tokens_per_s"] == pytest.approx(4.5)


def test_the_control_is_never_part_of_the_baseline():
    speed = [timing(0, "ar", 1.0), timing(0, "ar", 4.0, control=True), timing(0, STRICT, 0.5)]
    found = results(task(speed=speed))
    assert lane_of(found, STRICT)["speedup"] == pytest.approx(2.0)
    assert lane_of(found, "ar")["tokens_per_s"] == pytest.approx(3.0)
    assert found["noise"]["mars_products"]["aa_speedup"] == pytest.approx(0.25)


def test_acceptance_comes_from_quality_records_and_else_from_speed_records():
    speed = full_speed()
    both = lane_of(results(task({MARS: scored(5, step=3)}, speed)), MARS)
    timed_only = lane_of(results(task(speed=speed)), MARS)
    assert (both["acceptance_source"], both["acceptance_length"]) == ("quality", 3.0)
    assert (timed_only["acceptance_source"], timed_only["acceptance_length"]) == ("speed", 1.0)


@pytest.mark.parametrize(("right", "note"), [(9, "low_base"), (10, None)])
def test_recovery_needs_ten_documents_that_the_baseline_got_right(right, note):
    row = lane_of(results(task({"ar": scored(right), MARS: scored(right)})), MARS)
    assert row["recovery_note"] == note
    assert (row["recovery"] is None) == (note == "low_base")
    assert any("got only 9 of 20 documents right" in n for n in row["notes"]) == bool(note)


def test_unscored_answers_are_said_to_be_unscored():
    unscored = [answer(doc, None) for doc in range(12)]
    row = lane_of(results(task({"ar": unscored, MARS: unscored})), MARS)
    assert (row["score"], row["recovery"], row["recovery_note"]) == (None, None, "not_scored")
    assert row["acceptance_length"] == 2.0
    assert "score: the answers have no scores" in row["notes"]


def test_recovery_pairs_documents_that_both_lanes_have():
    # MARS was interrupted after 15 documents, all right; ar has 20 right of 40, 15 right of those.
    row = lane_of(results(task({"ar": scored(20, 40), MARS: scored(15, 15)})), MARS)
    assert (row["score"], row["recovery"], row["n_paired"]) == (1.0, 100.0, 15)
    assert "recovery: over 15 documents only, those both lanes have" in row["notes"]


def test_samples_of_a_document_are_averaged_and_documents_are_the_unit():
    # ar: every document 1 of 2 samples right; MARS: document 0 both, the others 1 of 2.
    ar = [answer(d, float(s), sample=s) for d in range(24) for s in (0, 1)]
    mars = [answer(d, float(s or d == 0), sample=s) for d in range(24) for s in (0, 1)]
    row = lane_of(results(task({"ar": ar, MARS: mars})), MARS)
    assert row["n_paired"] == 24
    assert row["score"] == pytest.approx(12.5 / 24)
    assert row["recovery"] == pytest.approx(100 * 12.5 / 12)
    assert row["recovery_ci"][0] < 100 < row["recovery_ci"][1]
    assert row["p_value"] is None
    assert "p value: McNemar's test needs one 0/1 score a document" in row["notes"]


def sampled(rights, n, metric=METRIC):
    """n samples of each document, the first ones right: `rights` says how many of each."""
    return [
        answer(doc, float(sample < right), sample=sample, metric=metric)
        for doc, right in enumerate(rights)
        for sample in range(n)
    ]


def test_few_right_on_average_over_samples_is_a_low_base():
    # 19 documents with 1 of 2 samples right: 9.5 of 20 documents.
    quality = {lane: sampled([1] * 19 + [0], 2) for lane in ("ar", MARS)}
    row = lane_of(results(task(quality, samples=2)), MARS)
    assert row["recovery_note"] == "low_base"
    assert any(
        "got only 9.5 of 20 documents right, averaged over samples" in n for n in row["notes"]
    )


def test_samples_that_only_one_lane_has_are_left_out_of_recovery():
    # The second sample of every document is missing in MARS; ar's first ones are all right.
    ar = sampled([1] * 20, 2)
    mars = [record for record in sampled([1] * 20, 2) if record["sample"] == 0]
    row = lane_of(results(task({"ar": ar, MARS: mars}, samples=2)), MARS)
    assert (row["recovery"], row["n_paired"], row["p_value"]) == (100.0, 20, 1.0)
    assert "recovery: over 20 answers only, those both lanes have" in row["notes"]
    complete = lane_of(results(task({"ar": ar, MARS: ar}, samples=2)), MARS)
    assert not any("both lanes have" in note for note in complete["notes"])


def test_a_document_score_shared_by_its_samples_is_one_score():
    # A task that scores its own repeats together: three records a document, all with its score.
    def together(right):
        return [answer(d, float(d < right), sample=s) for d in range(20) for s in range(3)]

    once = lane_of(results(task({"ar": scored(15), MARS: scored(12)})), MARS)
    thrice = lane_of(results(task({"ar": together(15), MARS: together(12)})), MARS)
    for key in ("score", "score_ci", "recovery", "recovery_ci", "p_value", "n_paired", "metrics"):
        assert thrice[key] == once[key]
    assert thrice["p_value"] == 0.25  # three documents lost, none gained: 2 / 2**3
    assert not any(note.startswith("p value") for note in thrice["notes"])


PASS_1, PASS_4 = "pass@1,none", "pass@4,none"


def passing(rights, n=4):
    return sampled(rights, n, metric=PASS_1)


def test_pass_at_n_is_a_metric_like_any_other():
    # ar: 16 documents with 1 of 4 right, 4 with none. MARS: 12 with 2 of 4 right, 8 with none.
    quality = {"ar": passing([1] * 16 + [0] * 4), MARS: passing([2] * 12 + [0] * 8)}
    found = results(task(quality, metric=PASS_1, samples=4))
    ar, mars = lane_of(found, "ar"), lane_of(found, MARS)
    assert list(mars["metrics"]) == [PASS_1, PASS_4]
    assert (ar["score"], mars["score"]) == (0.2, 0.3)
    ar_pass, mars_pass = ar["metrics"][PASS_4], mars["metrics"][PASS_4]
    assert (ar_pass["score"], ar_pass["recovery"], mars_pass["score"]) == (0.8, 100.0, 0.6)
    assert mars_pass["recovery"] == pytest.approx(75.0)
    assert mars_pass["p_value"] == 0.125  # four documents lost, none gained: 2 / 2**4
    # The same documents, each answered once: what pass@4 is to four answers.
    once = lane_of(results(task({"ar": scored(16), MARS: scored(12)})), MARS)
    assert mars_pass == once["metrics"][METRIC]
    assert mars_pass["recovery_ci"][0] < 75 < mars_pass["recovery_ci"][1]
    # Of the primary one 4 of 20 documents right are too few.
    assert mars["recovery_note"] == "low_base"
    assert found["tasks"]["mars_products"]["samples"] == 4


def test_documents_short_of_samples_are_left_out_of_pass_at_n_and_said():
    short = [r for r in passing([1] * 20) if r["doc_id"] >= 3 or r["sample"] < 2]
    unscored = [r | {"scores": None} if r["doc_id"] == 7 and r["sample"] == 3 else r for r in short]
    quality = {"ar": passing([1] * 20), MARS: unscored}
    row = lane_of(results(task(quality, metric=PASS_1, samples=4)), MARS)
    assert (row["metrics"][PASS_4]["score"], row["metrics"][PASS_4]["n_paired"]) == (1.0, 16)
    assert (
        f"{PASS_4}: 4 of 20 documents have fewer than 4 scored samples and do not count"
        in row["notes"]
    )
    ar = lane_of(results(task(quality, metric=PASS_1, samples=4)), "ar")
    assert not any("fewer than" in note for note in ar["notes"])


def test_pass_at_n_without_a_document_that_has_it_is_null():
    quality = {"ar": passing([1] * 20), MARS: passing([1] * 20, n=3)}
    found = results(task(quality, metric=PASS_1, samples=4))
    values = lane_of(found, MARS)["metrics"][PASS_4]
    assert (values["score"], values["recovery"], values["recovery_note"]) == (
        None,
        None,
        "not_scored",
    )
    assert any("20 of 20 documents have fewer" in note for note in lane_of(found, MARS)["notes"])
    absent = lane_of(found, STRICT)
    assert absent["metrics"][PASS_4]["score"] is None
    assert not any("fewer than" in note for note in absent["notes"])


@pytest.mark.parametrize(
    ("records", "fields"),
    [
        (passing([1] * 20), {}),  # scored together by the task, or a single one
        (passing([1] * 20, n=1), {"samples": 1}),
        (sampled([1] * 20, 4), {"samples": 4}),  # another metric
        (sampled([1] * 20, 4, metric="pass@10,none"), {"samples": 4}),
        (
            [answer(d, 0.5, sample=s, metric=PASS_1) for d in range(20) for s in range(4)],
            {"samples": 4},
        ),
    ],
    ids=["no --samples", "one sample", "other metric", "other k", "graded"],
)
def test_pass_at_n_is_only_of_several_samples_graded_right_or_wrong(records, fields):
    metric = next(iter(records[0]["scores"]))
    row = lane_of(results(task({"ar": records}, metric=metric, **fields)), "ar")
    assert list(row["metrics"]) == [metric]


def test_every_filter_of_pass_at_1_gets_its_own():
    def two(record):
        score = record["scores"][PASS_1]
        return record | {"scores": {PASS_1: score, "pass@1,strict": 0.0}}

    quality = {"ar": [two(record) for record in passing([1] * 12 + [0] * 8)]}
    row = lane_of(results(task(quality, metric=PASS_1, samples=4)), "ar")
    scores = {name: values["score"] for name, values in row["metrics"].items()}
    assert scores == {PASS_1: 0.15, "pass@1,strict": 0.0, PASS_4: 0.6, "pass@4,strict": 0.0}


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


def test_a_metric_better_when_lower_is_turned_over():
    ar = [answer(d, 2.0 + d % 2) for d in range(12)]
    mars = [answer(d, 4.0 + d % 3) for d in range(12)]
    given = task({"ar": ar, MARS: mars}, higher_is_better=False)
    row = lane_of(results(given), MARS)
    assert (row["score"], row["recovery"]) == (5.0, 50.0)
    assert row["recovery_ci"][0] < 50 < row["recovery_ci"][1]


def test_every_metric_gets_a_row_beside_the_primary():
    def two(doc):
        return answer(doc, None) | {"scores": {METRIC: 1.0, "acc,strict": float(doc % 2)}}

    quality = {"ar": [two(d) for d in range(24)], MARS: [two(d) for d in range(24)]}
    row = lane_of(results(task(quality)), MARS)
    assert list(row["metrics"]) == [METRIC, "acc,strict"]
    assert row["metrics"]["acc,strict"]["score"] == 0.5
    assert row["score"] == row["metrics"][METRIC]["score"] == 1.0


def test_equal_graded_scores_have_recovery_but_no_interval_and_say_why():
    quality = {lane: [answer(d, 0.5) for d in range(12)] for lane in ("ar", MARS)}
    row = lane_of(results(task(quality)), MARS)
    assert (row["recovery"], row["recovery_ci"], row["score_ci"]) == (100.0, None, None)
    assert any(n.startswith("recovery: every document gives the same ratio") for n in row["notes"])


def test_a_strict_lane_that_differs_from_ar_is_not_lossless_here():
    speed = full_speed()
    speed[2] = speed[2] | {"token_ids": [0, 9, 2]}
    found = results(task(speed=speed))
    strict, mars = lane_of(found, STRICT), lane_of(found, MARS)
    assert strict["exact_match_ar"] == pytest.approx(11 / 12)
    assert strict["first_divergence_median"] == 1.0
    assert "not lossless here: 1 of 12 outputs differ from ar's" in strict["notes"]
    assert not any("lossless" in note for note in mars["notes"])


def test_sampled_lanes_are_not_called_lossy():
    speed = full_speed()
    speed[2] = speed[2] | {"token_ids": [0, 9, 2]}
    row = lane_of(results(task(speed=speed, sampled=True)), STRICT)
    assert row["exact_match_ar"] < 1
    assert not any("lossless" in note for note in row["notes"])


def test_agreement_of_ar_is_that_of_its_control():
    speed = full_speed()
    speed[1] = speed[1] | {"token_ids": [0, 1, 7]}
    row = lane_of(results(task(speed=speed)), "ar")
    assert row["exact_match_ar"] == pytest.approx(11 / 12)
    assert any("does not repeat itself" in note for note in row["notes"])


def test_truncated_and_empty_answers_are_told():
    cut = [answer(d, 1.0, finish_reason="length" if d < 5 else "stop") for d in range(20)]
    empty = [answer(d, 1.0, text="" if d == 0 else "x") for d in range(20)]
    found = results(task({"ar": cut, MARS: empty}))
    ar, mars = lane_of(found, "ar"), lane_of(found, MARS)
    assert (ar["truncated_share"], mars["empty_share"]) == (0.25, 0.05)
    assert "25% of the answers were cut off by the length limit" in ar["notes"]
    assert "5% of the answers are empty (they count as answers)" in mars["notes"]


def test_few_prompts_and_a_noise_wider_than_the_effect_are_told():
    speed = full_speed(n=4, strict=1.0)
    for record in speed:
        if record["control"]:
            record["seconds"] *= 1 + 0.2 * (record["doc_id"] % 2)
    found = results(task(speed=speed))
    assert (
        "speed: only 4 prompts were timed; intervals need more"
        in (found["tasks"]["mars_products"]["notes"])
    )
    strict = lane_of(found, STRICT)
    assert strict["within_noise"] is True
    assert any("A/A interval is wider than the effect" in note for note in strict["notes"])
    assert not any("wider than the effect" in note for note in lane_of(found, MARS)["notes"])


@pytest.mark.parametrize(
    ("speedup_ci", "aa_ci", "expected"),
    [
        ([1.3, 1.5], [0.97, 1.05], False),
        ([1.04, 1.5], [0.97, 1.05], True),
        ([0.8, 0.96], [0.97, 1.05], False),
        ([0.9, 1.1], None, True),
        ([1.1, 1.2], None, False),
        (None, [0.97, 1.05], None),
    ],
)
def test_a_speedup_is_noise_when_its_interval_overlaps_the_control(speedup_ci, aa_ci, expected):
    assert within_noise(speedup_ci, aa_ci) is expected


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


def spoilt(seconds):
    return [record | {"seconds": seconds} for record in full_speed()]


DEGENERATE = {
    "no records": task(),
    "empty lists": task({lane["id"]: [] for lane in LANES}),
    "single document": task(
        {lane["id"]: scored(1, 1) for lane in LANES}, full_speed(n=1, repeats=1)
    ),
    "all zero": task({lane["id"]: scored(0) for lane in LANES}, full_speed()),
    "all equal": task(
        {lane["id"]: scored(20) for lane in LANES},
        [record | {"seconds": 1.0} for record in full_speed()],
    ),
    "graded zero": task({lane["id"]: [answer(0, 0.0), answer(1, 0.0)] for lane in LANES}),
    "NaN times": task(speed=spoilt(math.nan)),
    "no time at all": task(speed=spoilt(0.0)),
    "NaN scores": task({lane["id"]: [answer(d, math.nan) for d in range(3)] for lane in LANES}),
    "empty answers": task(
        {
            lane["id"]: [
                answer(0, 0.0, token_ids=[], step_tokens=[], drafted=[], accepted=[], text="")
            ]
            for lane in LANES
        }
    ),
    "no baseline": task({MARS: scored(15)}, [r for r in full_speed() if r["lane"] == MARS]),
    "interrupted": task({"ar": scored(15), STRICT: scored(3, 3)}, full_speed()[:6]),
    "disjoint": task({"ar": scored(15), MARS: [answer(99, 1.0)]}),
}


@pytest.mark.parametrize("given", DEGENERATE.values(), ids=DEGENERATE.keys())
def test_bad_records_give_nulls_and_notes(given):
    # `results` refuses NaN and infinity; warnings are errors.
    found = results(given)
    for lane in LANES:
        row = lane_of(found, lane["id"])
        assert row.keys() >= LANE_KEYS
        if None in (row["recovery"], row["speedup"], row["acceptance_length"]):
            assert row["notes"]
        if lane["id"] != "ar" and row["speedup"] is not None and row["speedup_ci"] is None:
            assert any("speedup" in note for note in row["notes"])


def test_times_that_are_not_numbers_leave_every_speed_null():
    row = lane_of(results(DEGENERATE["NaN times"]), MARS)
    for key in ("speedup", "decode_speedup", "wall_speedup", "tokens_per_s", "tpot_ms"):
        assert row[key] is None
    assert row["exact_match_ar"] == 1.0


def test_zero_scores_are_a_low_base_with_an_interval_for_the_score():
    row = lane_of(results(DEGENERATE["all zero"]), MARS)
    assert (row["score"], row["recovery"], row["recovery_note"]) == (0.0, None, "low_base")
    assert row["score_ci"][0] == 0.0 < row["score_ci"][1]


def test_equal_scores_keep_a_width():
    low, high = lane_of(results(DEGENERATE["all equal"]), MARS)["recovery_ci"]
    assert low < 100 < high


def test_no_tasks_is_a_valid_result():
    found = results()
    assert found["tasks"] == {}
    assert found["overall"][MARS]["speedup"] is None
