"""Scores of a lane, and recovery: what is left of the baseline's.

Recovery compares the documents and samples that both lanes have. Where a document has several
samples, its score is their mean; where each was scored on its own, 0/1 scores under pass@1 also
give the metric pass@N. Of a corpus score (`corpus`) documents have parts in place of scores.

"Not significant" is not "safe": `largest_loss` says how much recovery may be lost for all that the
data show, and `safe` whether that is little enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from mars_cli.analysis import corpus, metrics, stats
from mars_cli.analysis.figures import SAFE_RECOVERY
from mars_cli.analysis.metrics import BASELINE, Record

FEWEST_RIGHT = 10
PASS = "pass@1"
FIGURES = (
    *("score", "score_ci", "recovery", "recovery_ci", "recovery_note", "largest_loss", "safe"),
    *("p_value", "n_paired"),
)


def lane_scores(
    quality: Mapping[str, Sequence[Record]],
    lane_id: str,
    metric: str,
    directions: Mapping[str, bool],
    samples: int | None,
) -> tuple[dict[str, Any], list[str]]:
    """Figures of the primary metric, the same of every metric under `metrics`, and notes.

    Args:
        quality: the quality records of every lane.
        lane_id: the lane whose figures are wanted.
        metric: the primary one, "<name>,<filter>".
        directions: whether higher is better; true for metrics it does not name.
        samples: answers to each document that were scored on their own; None: not several.
    """
    every = [record for records in quality.values() for record in records]
    names = dict.fromkeys([metric, *metrics.metric_names(every)])
    records, base = (list(quality.get(lane, ())) for lane in (lane_id, BASELINE))
    is_baseline = lane_id == BASELINE
    found, notes = {}, []
    for name in names:
        found[name], said = _metric(
            records, base, name, directions.get(name, True), is_baseline=is_baseline
        )
        notes += said if name == metric else []
    unknown = {name: how for name in names if (how := _not_computed(records, name)) is not None}
    if others := [f"{name} ({how})" for name, how in unknown.items() if name != metric]:
        notes.append(f"not computed here, by the function that aggregates it: {', '.join(others)}")
    k = samples or 1
    for name, new in _pass_names(names, every, k).items():
        ours, left_out = metrics.passes(records, name, k, new)
        theirs, _ = metrics.passes(base, name, k, new)
        found[new], _ = _metric(ours, theirs, new, True, is_baseline=is_baseline)
        if left_out:
            notes.append(
                f"{new}: {left_out} of {left_out + len(ours)} documents have fewer than "
                f"{k} scored samples and do not count"
            )
    return {**found[metric], "metrics": found}, notes


def primary(quality: Mapping[str, Sequence[Record]], metric: str) -> str:
    """The metric, or where no record has it the first that one has.

    A task may name a function, and score under the names that the function gives.
    """
    names = metrics.metric_names(record for records in quality.values() for record in records)
    return metric if metric in names or not names else names[0]


def largest_loss(recovery_ci: Sequence[float] | None) -> float | None:
    """The largest loss, in % points of recovery, that the data do not exclude.

    From 100 down to the lower end of recovery's interval (in %), 0 where that lies above 100;
    None without an interval.
    """
    return None if recovery_ci is None else max(0.0, 100.0 - recovery_ci[0])


def is_safe(recovery_ci: Sequence[float] | None) -> bool | None:
    """Whether recovery's interval ends at 98% or above at its lower end; None without one.

    Of one lane on one task: among many lanes that lose a little more, some will seem safe.
    """
    return None if recovery_ci is None else recovery_ci[0] >= SAFE_RECOVERY


def _pass_names(names: Iterable[str], records: Sequence[Record], k: int) -> dict[str, str]:
    """Of every metric pass@1 with 0/1 scores, the name of the pass@k that k samples give."""
    new = {
        name: f"pass@{k},{name.partition(',')[2]}"
        for name in names
        if name.partition(",")[0] == PASS
        and all(metrics.score(record, name) in (None, 0, 1) for record in records)
    }
    return {name: derived for name, derived in new.items() if derived not in names}


def _metric(
    records: Sequence[Record],
    base: Sequence[Record],
    metric: str,
    higher_is_better: bool,
    *,
    is_baseline: bool,
) -> tuple[dict[str, Any], list[str]]:
    unknown, how = _not_computed(records, metric), corpus.aggregation(records, metric)
    if how is not None:
        records, base = (corpus.with_parts(side, metric, how) for side in (records, base))

    def figure(record: Record) -> float | None:
        return metrics.score(record, metric)

    per_document = list(metrics.by_document(records, figure).values())
    plain = [s for r in [*records, *base] if (s := figure(r)) is not None]
    zero_one = how is None and all(s in (0, 1) for s in plain)
    values: dict[str, Any] = dict.fromkeys(FIGURES)
    if not per_document:
        what = "the answers have no scores" if records else "no answers recorded"
        if unknown is not None:
            what = f"{metric} is aggregated by {unknown}, which is not computed here"
        return {**values, "recovery_note": "not_scored"}, [f"score: {what}"]
    total, n = sum(per_document), len(per_document)
    if how is None:
        ci = stats.wilson(total, n) if zero_one else stats.mean_interval(per_document)
        whole = stats.Estimate(total / n, ci)
    else:
        whole = corpus.score(how, corpus.by_document(records))
    values["score"], values["score_ci"] = whole.value, whole.interval
    notes = []
    if missing := sum(figure(r) is None for r in records):
        notes.append(f"score: {missing} of {len(records)} answers have no score and do not count")
    pairs = [p for p in metrics.pair(records, base, "sample") if None not in map(figure, p)]
    ours, theirs = metrics.paired_by_document(pairs, figure)
    values["n_paired"] = len(ours)
    averaged = len(pairs) > len(ours)
    if not ours:
        return {**values, "recovery_note": "no_baseline"}, [
            *notes,
            "recovery: ar has no scored answer to the same documents",
        ]
    answered = max(_answers(records, figure), _answers(base, figure))
    if len(ours) < max(n, len(metrics.by_document(base, figure))):
        notes.append(f"recovery: over {len(ours)} documents only, those both lanes have")
    elif len(pairs) < answered:
        notes.append(f"recovery: over {len(pairs)} answers only, those both lanes have")
    right = sum(theirs) if higher_is_better else len(theirs) - sum(theirs)
    if zero_one and right < FEWEST_RIGHT:
        notes.append(
            f"recovery: ar got {right:.4g} of {len(theirs)} documents right"
            f"{', averaged over samples' if averaged else ''}; "
            f"below {FEWEST_RIGHT} no ratio is given"
        )
        return {**values, "recovery_note": "low_base"}, notes
    if is_baseline:  # against itself: 100% by definition
        return {**values, "recovery": 100.0 if (whole.value or 0) > 0 else None}, notes
    single = how is None and all(s in (0, 1) for s in [*ours, *theirs])
    if how is not None:
        parts = [corpus.by_document(side) for side in zip(*pairs, strict=True)]
        found = corpus.ratio(how, *(parts if higher_is_better else parts[::-1]))
    else:
        top, bottom = (ours, theirs) if higher_is_better else (theirs, ours)
        found = stats.paired_ratio_01(top, bottom) if single else stats.log_ratio(top, bottom)
    values["recovery"] = None if found.value is None else 100 * found.value
    values["recovery_ci"] = found.interval and [100 * end for end in found.interval]
    values["largest_loss"] = largest_loss(values["recovery_ci"])
    values["safe"] = is_safe(values["recovery_ci"])
    values["recovery_note"] = "undefined" if found.value is None else None
    if found.note:
        notes.append(f"recovery: {found.note}")
    if single:
        values["p_value"] = stats.mcnemar(ours, theirs)
    else:
        notes.append("p value: McNemar's test needs one 0/1 score a document")
    return values, notes


def _not_computed(records: Iterable[Record], metric: str) -> str | None:
    """What aggregates the metric, where no record has a part for it."""
    records = list(records)
    how = corpus.aggregation(records, metric)
    found = how and any(corpus.part(record, metric, how) is not None for record in records)
    return None if found else how


def _answers(records: Iterable[Record], figure: Callable[[Record], float | None]) -> int:
    """How many samples of documents are scored."""
    return len({(r["doc_id"], r.get("sample") or 0) for r in records if figure(r) is not None})
