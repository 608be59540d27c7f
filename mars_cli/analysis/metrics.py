"""Figures over records: pure functions from lists of record dicts to a number or None.

A record is one finished request. The fields read here:

    token_ids      delivered token ids
    step_tokens    delivered tokens of each output, the first output (prefill) first
    drafted        draft tokens verified in the step that made each output (0: prefill or no draft)
    accepted       drafts the verifier accepted in that step, before trimming at a stop
    relaxed_at     indices into token_ids of relaxed tokens
    stops_relaxed  how often an end-of-turn token came up that only the rule accepts (0 if absent)
    finish_reason  "stop", "length", ...
    seconds        wall time of the request (speed records only); ttft_s: to the first token

None means "cannot be measured from these records": there are none, no step of the kind, no valid
time. It is never 0 in place of unknown, never infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, median
from typing import Any

Record = Mapping[str, Any]
Pair = tuple[Record, Record]  # (lane's record, baseline's record) of the same document and repeat

BASELINE = "ar"  # the lane without a draft, against which the others are held
NGRAM = 4  # tokens in the n-grams whose repeats are counted
# Seconds outside of these no clock measures, and scores beyond this no metric gives: not valid.
SHORTEST, LONGEST = 1e-9, 1e9
LARGEST_SCORE = 1e100


# -- acceptance --------------------------------------------------------------------------------


def later_outputs(records: Iterable[Record]) -> tuple[int, int]:
    """Return (tokens, outputs) after each request's first output, outputs that delivered only.

    Both are sums over requests; pooling them over tasks pools the acceptance length.
    """
    tokens = outputs = 0
    for record in records:
        delivered = [n for n in _ints(record, "step_tokens")[1:] if n > 0]
        tokens += sum(delivered)
        outputs += len(delivered)
    return tokens, outputs


def acceptance_length(records: Iterable[Record]) -> float | None:
    """Tau: delivered tokens per step, the first output of each request left out.

    (sum of tokens - those of each request's first output) / (number of later outputs that
    delivered tokens). A request with a single output, or none, adds nothing to either sum.
    1.0 for plain decoding. How others count what they call so: docs/metrics.md.
    """
    return _ratio(*later_outputs(records))


def acceptance_length_per_request(records: Iterable[Record]) -> float | None:
    """Mean over requests of each request's own tau; requests without a later output are left out.

    Short answers weigh as much as long ones here, where `acceptance_length` weighs steps.
    """
    return _mean(_ratio(*later_outputs([record])) for record in records)


def acceptance_length_vllm(records: Iterable[Record]) -> float | None:
    """1 + accepted drafts / drafted steps: vLLM's "mean acceptance length".

    Steps without a draft do not count, and accepted drafts count before trimming at a stop.
    """
    steps = [accepted for _, accepted, _ in _drafted_steps(records)]
    return 1 + sum(steps) / len(steps) if steps else None


def draft_acceptance_rate(records: Iterable[Record]) -> float | None:
    """Accepted draft tokens / drafted tokens, before trimming at a stop; 0 to 1."""
    steps = list(_drafted_steps(records))
    return _ratio(sum(a for _, a, _ in steps), sum(d for d, _, _ in steps))


def acceptance_per_position(records: Iterable[Record]) -> list[float] | None:
    """For j = 0, 1, ...: of the steps that drafted at least j + 1 tokens, the share accepting > j.

    Unconditional on earlier positions; its length is the longest draft seen. vLLM's log divides
    by all drafts, so that it differs where drafts differ in length.
    """
    steps = [(drafted, accepted) for drafted, accepted, _ in _drafted_steps(records)]
    if not steps:
        return None
    shares = []
    for j in range(max(drafted for drafted, _ in steps)):
        reached = [accepted for drafted, accepted in steps if drafted > j]
        shares.append(sum(accepted > j for accepted in reached) / len(reached))
    return shares


def relaxed_share(records: Iterable[Record]) -> float | None:
    """Relaxed tokens / accepted draft tokens, both as delivered; 0 to 1.

    A step that delivered n tokens delivered min(n, accepted) drafts: the last token is the
    target's own unless the step was trimmed at a stop. None where no draft was accepted.
    """
    records = list(records)
    kept = sum(min(n, accepted) for _, accepted, n in _drafted_steps(records))
    return _ratio(sum(len(_ints(r, "relaxed_at")) for r in records), kept)


def relaxed_per_100_tokens(records: Iterable[Record]) -> float | None:
    """Relaxed tokens in every 100 delivered tokens."""
    records = list(records)
    share = _ratio(sum(len(_ints(r, "relaxed_at")) for r in records), tokens(records) or 0)
    return None if share is None else 100 * share


def relaxed_stop_share(records: Iterable[Record]) -> float | None:
    """Share of answers in which an end-of-turn token came up that only the rule accepts; 0 to 1."""
    return _share((record.get("stops_relaxed") or 0) > 0 for record in records)


# -- lengths -----------------------------------------------------------------------------------


def tokens(records: Iterable[Record]) -> int | None:
    """Delivered tokens, summed over requests; None without a request."""
    counts = [_length(record) for record in records]
    return sum(counts) if counts else None


def length_ratio(pairs: Iterable[Pair]) -> float | None:
    """Tokens of the lane / tokens of the baseline over the same documents and samples."""
    pairs = list(pairs)
    return _ratio(sum(_length(lane) for lane, _ in pairs), sum(_length(base) for _, base in pairs))


def truncated_share(records: Iterable[Record]) -> float | None:
    """Share of answers cut off by the length limit (finish_reason "length")."""
    return _share(record.get("finish_reason") == "length" for record in records)


def empty_share(records: Iterable[Record]) -> float | None:
    """Share of answers without visible text; an answer of white space only is empty."""
    return _share(not str(record.get("text") or "").strip() for record in records)


# -- repetition --------------------------------------------------------------------------------


def repeated_share(record: Record) -> float | None:
    """Share of an answer's token 4-grams that came before: 1 - distinct / all; 0 to 1.

    None for fewer than 4 tokens. An answer caught in a loop comes close to 1.
    """
    ids = list(record.get("token_ids") or [])
    grams = list(zip(*(ids[start:] for start in range(NGRAM)), strict=False))
    return 1 - len(set(grams)) / len(grams) if grams else None


def repetition(records: Iterable[Record]) -> float | None:
    """Mean over answers of the share of repeated token 4-grams; answers below 4 tokens left out."""
    return _mean(map(repeated_share, records))


# -- agreement ---------------------------------------------------------------------------------


def first_divergence(lane: Record, base: Record) -> int | None:
    """Token index (from 0) at which two outputs first differ; None where they are equal.

    Where one is the beginning of the other, that is the shorter one's length.
    """
    left, right = list(lane.get("token_ids") or []), list(base.get("token_ids") or [])
    if left == right:
        return None
    shared = zip(left, right, strict=False)
    return next((i for i, (a, b) in enumerate(shared) if a != b), min(len(left), len(right)))


def exact_match(pairs: Iterable[Pair]) -> float | None:
    """Share of pairs with the very same token ids."""
    return _share(first_divergence(lane, base) is None for lane, base in pairs)


def first_divergence_median(pairs: Iterable[Pair]) -> float | None:
    """Median token index (from 0) at which outputs first differ, over the pairs that differ.

    Where one output is the beginning of the other, that is the shorter one's length. None when
    there is no pair, and when no pair differs.
    """
    places = [at for lane, base in pairs if (at := first_divergence(lane, base)) is not None]
    return float(median(places)) if places else None


# -- time --------------------------------------------------------------------------------------


def tokens_per_second(record: Record) -> float | None:
    """Delivered tokens / seconds of one request; None for an empty answer or an invalid time."""
    return _positive(_ratio(_length(record), _seconds(record)))


def decode_tokens_per_second(record: Record) -> float | None:
    """Tokens after the first output / seconds after the first token, of one request."""
    later, spent = _decode_part(record)
    return _positive(_ratio(later, spent))


def request_seconds(record: Record) -> float | None:
    """Wall seconds of one request; None when not a valid time (1e-9 to 1e9 s)."""
    return _seconds(record) or None


def tokens_per_s(records: Iterable[Record]) -> float | None:
    """Tokens/s end to end, mean over prompts (the repeats of a prompt are averaged first)."""
    return _mean(by_document(records, tokens_per_second).values())


def throughput(records: Iterable[Record]) -> float | None:
    """Delivered tokens / wall seconds of the blocks in which they were timed, all in flight.

    A block is a lane's turn: one request at concurrency 1, all prompts of a repeat above.
    """
    counted, blocks = 0, {}
    for record in records:
        alone = (record.get("concurrency") or 1) == 1
        spent = _time(record, "seconds" if alone else "block_seconds")
        if spent is None:
            return None
        counted += _length(record)
        place = (record["doc_id"], record.get("turn") or 0) if alone else None
        blocks[record.get("repeat") or 0, place] = spent
    return _positive(_ratio(counted, sum(blocks.values())))


def ttft_ms(records: Iterable[Record]) -> float | None:
    """Milliseconds to the first token, mean over prompts (repeats averaged first)."""
    return _thousand(_mean(by_document(records, _ttft).values()))


def tpot_ms(records: Iterable[Record]) -> float | None:
    """Milliseconds per output token after the first output, mean over prompts (repeats first)."""
    return _thousand(_mean(by_document(records, _seconds_per_later_token).values()))


# -- scores ------------------------------------------------------------------------------------


def score(record: Record, metric: str) -> float | None:
    """One record's score under "<name>,<filter>"; None where unscored, NaN or not a number.

    A size beyond 1e100 is not a number either: no metric gives it, and sums of it overflow.
    """
    value = (record.get("scores") or {}).get(metric)
    if isinstance(value, int | float) and abs(value) <= LARGEST_SCORE:
        return float(value)
    return None


def metric_names(records: Iterable[Record]) -> list[str]:
    """Every metric that any record has a score under, in order of appearance."""
    return list(dict.fromkeys(name for record in records for name in record.get("scores") or {}))


def pass_at_k(n: int, c: int, k: int) -> float:
    """Unbiased estimate that at least one of k answers is right, from n of which c are right.

    1 - C(n - c, k) / C(n, k): Chen et al. 2021 (arXiv 2107.03374), equation 1.

    Raises:
        ValueError: not 0 <= c <= n, or not 1 <= k <= n.
    """
    if not (0 <= c <= n and 1 <= k <= n):
        raise ValueError(f"no estimate for k = {k} from {c} right of {n}")
    return 1 - math.comb(n - c, k) / math.comb(n, k)


def passes(records: Iterable[Record], metric: str, k: int, name: str) -> tuple[list[Record], int]:
    """One record a document with its pass@k under `name`, and how many documents have none.

    From 0/1 scores under `metric`, one a sample; a document with fewer than k of them has none.
    """
    right: dict[int, list[float]] = {}
    for record in records:
        found = right.setdefault(int(record["doc_id"]), [])
        if (value := score(record, metric)) is not None:
            found.append(value)
    enough = {doc: found for doc, found in right.items() if len(found) >= k}
    derived: list[Record] = [
        {"doc_id": doc, "scores": {name: pass_at_k(len(found), int(sum(found)), k)}}
        for doc, found in enough.items()
    ]
    return derived, len(right) - len(enough)


# -- pairing -----------------------------------------------------------------------------------


def by_document(
    records: Iterable[Record], figure: Callable[[Record], float | None]
) -> dict[int, float]:
    """Mean of `figure` per document; values that are None are left out."""
    values: dict[int, list[float]] = {}
    for record in records:
        if (value := figure(record)) is not None:
            values.setdefault(int(record["doc_id"]), []).append(value)
    return {doc: fmean(found) for doc, found in values.items()}


def pair(lane: Iterable[Record], base: Iterable[Record], within: str) -> list[Pair]:
    """Pairs of records of the same doc_id, turn and `within` ("sample" or "repeat").

    Ordered by all three; of records with the same key the first counts. What only one side has (an
    interrupted run) is left out.
    """

    def index(records: Iterable[Record]) -> dict[tuple[int, int, int], Record]:
        found: dict[tuple[int, int, int], Record] = {}
        for record in records:
            turn, place = int(record.get("turn") or 0), int(record.get(within) or 0)
            found.setdefault((int(record["doc_id"]), turn, place), record)
        return found

    left, right = index(lane), index(base)
    return [(left[key], right[key]) for key in sorted(left.keys() & right.keys())]


def paired_by_document(
    pairs: Sequence[Pair], figure: Callable[[Record], float | None]
) -> tuple[list[float], list[float]]:
    """Two aligned lists (lane, baseline) of `figure`, one entry a document, repeats averaged.

    A pair in which either side has no value is left out on both.
    """
    lane: dict[int, list[float]] = {}
    base: dict[int, list[float]] = {}
    for left, right in pairs:
        a, b = figure(left), figure(right)
        if a is not None and b is not None:
            lane.setdefault(int(left["doc_id"]), []).append(a)
            base.setdefault(int(left["doc_id"]), []).append(b)
    return [fmean(lane[doc]) for doc in lane], [fmean(base[doc]) for doc in lane]


# -- helpers -----------------------------------------------------------------------------------


def _ints(record: Record, field: str) -> list[int]:
    return list(record.get(field) or [])


def _length(record: Record) -> int:
    return len(record.get("token_ids") or [])


def _drafted_steps(records: Iterable[Record]) -> Iterable[tuple[int, int, int]]:
    """(drafted, accepted, delivered tokens) of every step that verified a draft."""
    for record in records:
        columns = (_ints(record, name) for name in ("drafted", "accepted", "step_tokens"))
        for drafted, accepted, delivered in zip(*columns, strict=False):
            if drafted > 0:
                yield drafted, accepted, delivered


def _seconds(record: Record) -> float:
    """Seconds of a request, 0.0 for anything that is not a valid time."""
    return _time(record, "seconds") or 0.0


def _ttft(record: Record) -> float | None:
    return _time(record, "ttft_s")


def _time(record: Record, field: str) -> float | None:
    value = record.get(field)
    if isinstance(value, int | float) and SHORTEST <= value <= LONGEST:
        return float(value)
    return None


def _decode_part(record: Record) -> tuple[int, float]:
    """(tokens after the first output, seconds after the first token); 0 where unknown."""
    steps, first, total = _ints(record, "step_tokens"), _ttft(record), _seconds(record)
    if first is None or not steps:
        return 0, 0.0
    return sum(steps[1:]), max(total - first, 0.0)


def _seconds_per_later_token(record: Record) -> float | None:
    later, spent = _decode_part(record)
    return _positive(_ratio(spent, later))


def _ratio(numerator: float, denominator: float) -> float | None:
    return numerator / denominator if denominator > 0 else None


def _positive(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) and value > 0 else None


def _thousand(value: float | None) -> float | None:
    return None if value is None else 1000 * value


def _mean(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return fmean(found) if found else None


def _share(flags: Iterable[bool]) -> float | None:
    return _mean(float(flag) for flag in flags)
