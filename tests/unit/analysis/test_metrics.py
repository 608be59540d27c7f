"""Each figure against an example worked by hand, and against records that cannot give it."""

from __future__ import annotations

import itertools
import math

import pytest

from mars_cli.analysis import metrics


def request(step_tokens, drafted=None, accepted=None, **fields):
    plain = [0] * len(step_tokens)
    return {
        "doc_id": 0,
        "token_ids": list(range(sum(step_tokens))),
        "step_tokens": step_tokens,
        "drafted": drafted or plain,
        "accepted": accepted or plain,
        "relaxed_at": [],
        **fields,
    }


# Prefill 1 token; a step with 2 of 3 drafts accepted delivers 3; a step delivers nothing (held
# back for a stop string); a step accepts 2 of 3 but is cut to 2 tokens; a draftless step, 1 token.
DRAFTED = request([1, 3, 0, 2, 1], [0, 3, 2, 3, 0], [0, 2, 0, 2, 0], relaxed_at=[2])
RESUMED = request([2, 1, 1])  # prefill gave 2 tokens, then two plain steps
SINGLE = request([1])
EMPTY = request([])
REQUESTS = [DRAFTED, RESUMED, SINGLE, EMPTY]


def test_acceptance_length_is_later_tokens_over_later_outputs_that_delivered():
    # DRAFTED: (3 + 2 + 1) tokens over 3 outputs; RESUMED: 2 over 2; the others have no later one.
    assert metrics.later_outputs(REQUESTS) == (8, 5)
    assert metrics.acceptance_length(REQUESTS) == 8 / 5
    assert metrics.acceptance_length([RESUMED]) == 1.0


def test_acceptance_length_equals_the_designs_sum_over_requests():
    total = sum(len(r["token_ids"]) - (r["step_tokens"] or [0])[0] for r in REQUESTS)
    steps = sum(1 for r in REQUESTS for n in r["step_tokens"][1:] if n)
    assert metrics.acceptance_length(REQUESTS) == total / steps


def test_acceptance_length_per_request_weighs_requests_alike():
    # DRAFTED 6/3 = 2, RESUMED 2/2 = 1: mean 1.5. Requests without a later output have no tau.
    assert metrics.acceptance_length_per_request(REQUESTS) == 1.5


def test_vllm_acceptance_length_is_one_plus_accepted_per_drafted_step():
    # three drafted steps accepted 2 + 0 + 2
    assert metrics.acceptance_length_vllm(REQUESTS) == pytest.approx(1 + 4 / 3)


def test_draft_acceptance_rate_is_accepted_over_drafted():
    assert metrics.draft_acceptance_rate(REQUESTS) == 4 / (3 + 2 + 3)


def test_acceptance_per_position_counts_only_steps_that_drafted_that_far():
    # drafted 3, 2, 3 with 2, 0, 2 accepted: first 2 of 3, second 2 of 3, third 0 of 2.
    assert metrics.acceptance_per_position(REQUESTS) == [2 / 3, 2 / 3, 0.0]


def test_relaxed_figures_count_delivered_tokens():
    # accepted drafts delivered: min(3, 2) + min(0, 0) + min(2, 2) = 4; tokens 7 + 4 + 1 = 12
    assert metrics.relaxed_share(REQUESTS) == 1 / 4
    assert metrics.relaxed_per_100_tokens(REQUESTS) == pytest.approx(100 / 12)


def test_relaxed_stops_are_a_share_of_answers_however_many_each_met():
    answers = [request([1], stops_relaxed=n) for n in (0, 3, 1, 0)]
    assert metrics.relaxed_stop_share(answers) == 2 / 4
    assert metrics.relaxed_stop_share([*answers, SINGLE]) == 2 / 5  # absent: none
    assert metrics.relaxed_stop_share([SINGLE]) == 0.0
    assert metrics.relaxed_stop_share([]) is None


def test_plain_decoding_has_tau_one_and_no_draft_figures():
    plain = [request([1, 1, 1, 1])]
    assert metrics.acceptance_length(plain) == 1.0
    assert metrics.relaxed_per_100_tokens(plain) == 0.0
    for figure in (
        metrics.acceptance_length_vllm,
        metrics.draft_acceptance_rate,
        metrics.acceptance_per_position,
        metrics.relaxed_share,
    ):
        assert figure(plain) is None


@pytest.mark.parametrize("records", [[], [EMPTY], [EMPTY, EMPTY]])
@pytest.mark.parametrize(
    "figure",
    [
        metrics.acceptance_length,
        metrics.acceptance_length_per_request,
        metrics.acceptance_length_vllm,
        metrics.acceptance_per_position,
        metrics.draft_acceptance_rate,
        metrics.relaxed_share,
        metrics.relaxed_per_100_tokens,
        metrics.tokens_per_s,
        metrics.ttft_ms,
        metrics.tpot_ms,
    ],
)
def test_nothing_delivered_gives_none(figure, records):
    assert figure(records) is None


def test_lengths_and_shares():
    answers = [
        request([1, 2], finish_reason="length", text="ab"),
        request([1], finish_reason="stop", text=" \n"),
        request([], finish_reason="stop", text=""),
        request([1, 1, 1], finish_reason="stop", text="x"),
    ]
    assert metrics.tokens(answers) == 7
    assert metrics.truncated_share(answers) == 1 / 4
    assert metrics.empty_share(answers) == 2 / 4
    assert metrics.length_ratio([(answers[3], answers[1])]) == 3.0
    assert metrics.length_ratio([(answers[3], answers[2])]) is None
    assert metrics.tokens([]) is metrics.truncated_share([]) is metrics.empty_share([]) is None


@pytest.mark.parametrize(
    ("token_ids", "expected"),
    [
        ([1, 2, 3, 4, 1, 2, 3, 4], 1 / 5),  # 1234 2341 3412 4123 1234
        ([7] * 10, 6 / 7),
        ([1, 2, 3, 4], 0.0),
        ([1, 2, 3, 9, 1, 2, 3, 8], 0.0),  # three tokens again are no four
        ([1, 1, 1], None),
        ([], None),
        (None, None),
    ],
)
def test_repeated_share_worked_by_hand(token_ids, expected):
    share = metrics.repeated_share({"token_ids": token_ids})
    assert share == (expected if expected is None else pytest.approx(expected))


def test_repetition_is_the_mean_over_the_answers_that_have_one():
    answers = [{"token_ids": ids} for ids in ([1, 2, 3, 4, 1, 2, 3, 4], [5] * 9, [1, 2], [])]
    assert metrics.repetition(answers) == pytest.approx((1 / 5 + 5 / 6) / 2)
    assert metrics.repetition(answers[2:]) is metrics.repetition([]) is None


def ids(*token_ids, doc=0, repeat=0):
    return {"doc_id": doc, "repeat": repeat, "token_ids": list(token_ids)}


def test_agreement_counts_equal_outputs_and_finds_the_first_difference():
    pairs = [
        (ids(1, 2, 3), ids(1, 2, 3)),
        (ids(1, 9, 3), ids(1, 2, 3)),  # differ at 1
        (ids(1, 2), ids(1, 2, 3)),  # one is the beginning of the other: differ at 2
        (ids(), ids(7)),  # differ at 0
    ]
    assert metrics.exact_match(pairs) == 1 / 4
    assert metrics.first_divergence_median(pairs) == 1.0
    assert metrics.first_divergence_median(pairs[:1]) is None
    assert metrics.exact_match([]) is metrics.first_divergence_median([]) is None


def test_pairs_are_of_the_same_document_and_repeat_and_the_first_record_counts():
    lane = [ids(5, doc=1), ids(6, doc=0, repeat=1), ids(7, doc=0, repeat=1), ids(8, doc=3)]
    base = [ids(1, doc=0), ids(2, doc=0, repeat=1), ids(3, doc=1)]
    found = [(a["token_ids"], b["token_ids"]) for a, b in metrics.pair(lane, base, "repeat")]
    assert found == [([6], [2]), ([5], [3])]


def timed(tokens, seconds, ttft=0.5, doc=0):
    return request([1] * tokens, doc_id=doc, seconds=seconds, ttft_s=ttft)


def test_tokens_per_second_is_the_mean_over_prompts_with_repeats_averaged_first():
    # prompt 0: 10/2 = 5 and 10/1 = 10, mean 7.5; prompt 1: 10/4 = 2.5; mean over prompts 5.
    records = [timed(10, 2.0), timed(10, 1.0), timed(10, 4.0, doc=1)]
    assert metrics.tokens_per_s(records) == 5.0


def test_times_after_and_to_the_first_token():
    # 5 tokens in 2.5 s, the first after 0.5 s: 4 later tokens in 2 s.
    record = timed(5, 2.5)
    assert metrics.decode_tokens_per_second(record) == 2.0
    assert metrics.tpot_ms([record]) == 500.0
    assert metrics.ttft_ms([record]) == 500.0


@pytest.mark.parametrize("seconds", [math.nan, math.inf, 0.0, -1.0, None, 1e-300, 1e300])
def test_an_invalid_time_gives_none(seconds):
    record = timed(5, seconds)
    assert metrics.tokens_per_second(record) is None
    assert metrics.decode_tokens_per_second(record) is None
    assert metrics.request_seconds(record) is None
    assert metrics.tokens_per_s([record]) is metrics.tpot_ms([record]) is None


def test_an_invalid_time_does_not_hide_the_valid_ones():
    assert metrics.tokens_per_s([timed(5, math.nan), timed(5, 1.0, doc=1)]) == 5.0
    assert metrics.ttft_ms([timed(5, 1.0, ttft=math.nan)]) is None


def test_a_single_token_has_a_speed_but_no_decode_speed():
    record = timed(1, 0.5)
    assert metrics.tokens_per_second(record) == 2.0
    assert metrics.decode_tokens_per_second(record) is None
    assert metrics.tpot_ms([record]) is None


def test_a_pair_with_one_invalid_time_leaves_both_sides():
    pairs = [(timed(4, 2.0), timed(4, 4.0)), (timed(4, math.nan, doc=1), timed(4, 1.0, doc=1))]
    assert metrics.paired_by_document(pairs, metrics.tokens_per_second) == ([2.0], [1.0])


@pytest.mark.parametrize(
    "value", [None, math.nan, math.inf, [True, False], "0.5", 1e101, 10**400, -(10**400)]
)
def test_a_score_that_is_no_number_is_no_score(value):
    assert metrics.score({"scores": {"acc,none": value}}, "acc,none") is None


def test_scores_are_read_by_name_and_filter():
    assert metrics.score({"scores": {"acc,none": True}}, "acc,none") == 1.0
    assert metrics.score({"scores": None}, "acc,none") is None
    assert metrics.metric_names([{"scores": None}, {"scores": {"b": 1, "a": 0}}]) == ["b", "a"]


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [
        (4, 0, 4, 0.0),
        (4, 1, 4, 1.0),
        (4, 1, 1, 1 / 4),
        (5, 1, 4, 4 / 5),  # 1 - C(4, 4)/C(5, 4): the right one is left out in 1 of 5 choices
        (6, 2, 3, 4 / 5),  # 1 - C(4, 3)/C(6, 3) = 1 - 4/20
        (10, 3, 5, 11 / 12),  # 1 - C(7, 5)/C(10, 5) = 1 - 21/252
        (5, 2, 4, 1.0),  # no four of five without one of the two
        (1, 1, 1, 1.0),
    ],
)
def test_pass_at_k_worked_by_hand(n, c, k, expected):
    assert metrics.pass_at_k(n, c, k) == pytest.approx(expected)


@pytest.mark.parametrize(("n", "c"), [(6, 2), (7, 1), (5, 4)])
@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_pass_at_k_is_the_share_of_choices_with_a_right_answer(n, c, k):
    choices = list(itertools.combinations(range(n), k))
    right = sum(any(index < c for index in chosen) for chosen in choices)
    assert metrics.pass_at_k(n, c, k) == pytest.approx(right / len(choices))


def test_pass_at_k_of_many_answers_is_finite():
    assert metrics.pass_at_k(2000, 1, 1000) == pytest.approx(0.5)


@pytest.mark.parametrize(("n", "c", "k"), [(3, 1, 4), (3, 4, 2), (3, -1, 2), (3, 1, 0), (0, 0, 1)])
def test_pass_at_k_of_too_few_answers_is_refused(n, c, k):
    with pytest.raises(ValueError, match=f"k = {k} from {c} right of {n}"):
        metrics.pass_at_k(n, c, k)


def test_documents_with_too_few_scored_samples_have_no_pass_at_k():
    def of(doc, *scores):
        return [{"doc_id": doc, "scores": s if s is None else {"m,none": s}} for s in scores]

    records = [
        *of(0, 1.0, 0.0, 0.0, 0.0, 0.0),  # 5 samples, 1 right: 0.8
        *of(1, 0.0, 0.0, 0.0, 0.0),  # 0
        *of(2, 1.0, 1.0, 1.0),  # too few
        *of(3, 1.0, None, 1.0, math.nan),  # too few that are scored
    ]
    found, left_out = metrics.passes(records, "m,none", 4, "new")
    assert [(r["doc_id"], r["scores"]) for r in found] == [
        (0, {"new": pytest.approx(0.8)}),
        (1, {"new": 0.0}),
    ]
    assert left_out == 2
    assert metrics.passes([], "m,none", 4, "new") == ([], 0)
