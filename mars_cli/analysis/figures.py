"""What a lane's figures in results.json are called, what unit they have, which have an interval.

Plain data, so that whoever only reads results need not load what computes them. Their meaning is in
docs/metrics.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

SCHEMA = 1
SAFE_RECOVERY = 98.0  # a lane is safe where recovery's interval ends here or above, in %
NOT_LOSSLESS = "not lossless here"  # how a note begins that says so of a strict lane


class Unit(Enum):
    """How a figure is measured, and so how it is written."""

    SCORE = "score"
    PERCENT = "percent"  # in percent already
    SHARE = "share"  # 0 to 1
    RATIO = "ratio"
    RATE = "rate"  # a second, or milliseconds
    NUMBER = "number"
    COUNT = "count"
    P_VALUE = "p value"
    FLAG = "yes or no"


# At each concurrency.
SPEEDS: Mapping[str, Unit] = {
    "speedup": Unit.RATIO,
    "decode_speedup": Unit.RATIO,
    "wall_speedup": Unit.RATIO,
    "strict_speedup": Unit.RATIO,
    "within_noise": Unit.FLAG,
    "tokens_per_s": Unit.RATE,
    "ttft_ms": Unit.RATE,
    "tpot_ms": Unit.RATE,
    "throughput": Unit.RATE,
    "throughput_speedup": Unit.RATIO,
}
FIGURES: Mapping[str, Unit] = {
    "score": Unit.SCORE,
    "recovery": Unit.PERCENT,
    "largest_loss": Unit.PERCENT,
    "safe": Unit.FLAG,
    "p_value": Unit.P_VALUE,
    "p_value_holm": Unit.P_VALUE,
    "n_paired": Unit.COUNT,
    "acceptance_length": Unit.NUMBER,
    "acceptance_length_vllm": Unit.NUMBER,
    "acceptance_length_per_request": Unit.NUMBER,
    "draft_acceptance_rate": Unit.SHARE,
    "relaxed_share": Unit.SHARE,
    "relaxed_stop_share": Unit.SHARE,
    "relaxed_per_100_tokens": Unit.NUMBER,
    **SPEEDS,
    "exact_match_ar": Unit.SHARE,
    "batched_match_ar": Unit.SHARE,
    "first_divergence_median": Unit.NUMBER,
    "first_divergence_ratio": Unit.NUMBER,
    "tokens": Unit.COUNT,
    "length_ratio": Unit.NUMBER,
    "truncated_share": Unit.SHARE,
    "empty_share": Unit.SHARE,
    "repetition": Unit.SHARE,
}
# Under `fidelity`; in flat rows they are called fidelity_<name>.
FIDELITY: Mapping[str, Unit] = {
    "rank1_share": Unit.SHARE,
    "rank2_share": Unit.SHARE,
    "violations": Unit.COUNT,
    "nll": Unit.NUMBER,
    "nll_delta": Unit.NUMBER,
    "tokens": Unit.COUNT,
}
# Those that have `<name>_ci` beside them.
INTERVALS = frozenset(
    {
        *("score", "recovery", "nll_delta"),
        *("speedup", "decode_speedup", "wall_speedup", "strict_speedup"),
    }
)
