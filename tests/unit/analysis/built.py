"""Records of a tiny run, and its results."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from mars_cli.analysis.compare import TaskInput, build_results

METRIC = "acc,none"
STRICT, MARS = "strict-ngram-k7", "mars-ngram-k7-t0.9"
LANES = [
    {"id": "ar", "rule": "none", "draft": None, "k": 0, "temperature": 0.0},
    {"id": STRICT, "rule": "strict", "draft": "ngram", "k": 7, "temperature": 0.0},
    {"id": MARS, "rule": "mars", "draft": "ngram", "k": 7, "theta": 0.9, "temperature": 0.0},
]
RUN = {"id": "20261129-1802-tiny", "created": "2026-11-29T18:02:00Z", "status": "complete"}

# DESIGN section 4, written out, and what came since.
LANE_KEYS = {
    "score",
    "score_ci",
    "recovery",
    "recovery_ci",
    "recovery_note",
    "largest_loss",
    "safe",
    "p_value",
    "p_value_holm",
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
    "strict_speedup",
    "strict_speedup_ci",
    "tokens_per_s",
    "ttft_ms",
    "tpot_ms",
    "throughput",
    "throughput_speedup",
    "by_concurrency",
    "exact_match_ar",
    "first_divergence_median",
    "first_divergence_ratio",
    "batched_match_ar",
    "tokens",
    "length_ratio",
    "truncated_share",
    "empty_share",
    "repetition",
    "fidelity",
}


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


def sampled(rights, n, metric=METRIC):
    """n samples of each document, the first ones right: `rights` says how many of each."""
    return [
        answer(doc, float(sample < right), sample=sample, metric=metric)
        for doc, right in enumerate(rights)
        for sample in range(n)
    ]


def tasks(name="mars_products"):
    """Whatever may have been recorded: lanes and fields missing, nonsense for scores and times."""
    metric_names = st.sampled_from([METRIC, "pass@1,none"])
    number = st.one_of(st.none(), st.floats(), st.sampled_from([0.0, 1.0, 0.5, 1e-300, 1e300]))
    steps = st.lists(st.integers(0, 4), max_size=4)
    common = {
        "doc_id": st.integers(0, 11),
        "token_ids": st.one_of(st.none(), st.lists(st.integers(0, 2), max_size=9)),
        "step_tokens": st.one_of(st.none(), steps),
        "drafted": steps,
        "accepted": steps,
        "relaxed_at": st.one_of(st.none(), steps),
        "text": st.one_of(st.none(), st.just("x")),
        "finish_reason": st.sampled_from([None, "stop", "length"]),
    }
    scored_record = st.fixed_dictionaries(
        {**common, "sample": st.integers(0, 1)},
        optional={
            "scores": st.one_of(st.none(), st.dictionaries(metric_names, number, max_size=2))
        },
    )
    timed_record = st.fixed_dictionaries(
        {
            **common,
            "lane": st.sampled_from([lane["id"] for lane in LANES]),
            "repeat": st.integers(0, 2),
        },
        optional={
            "control": st.booleans(),
            "seconds": number,
            "ttft_s": number,
            "concurrency": st.sampled_from([1, 8]),
            "block_seconds": number,
        },
    )
    return st.builds(
        task,
        quality=st.dictionaries(
            st.sampled_from([lane["id"] for lane in LANES]), st.lists(scored_record, max_size=24)
        ),
        speed=st.lists(timed_record, max_size=24),
        name=st.just(name),
        higher_is_better=st.booleans(),
        speed_mode=st.sampled_from(["interleaved", "sequential"]),
        metric=metric_names,
        sampled=st.booleans(),
        samples=st.sampled_from([None, 1, 2]),
    )
