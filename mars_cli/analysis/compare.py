"""From records to `results.json`: every figure of every lane against the lane `ar`.

Which records a figure is taken from:

    scores, recovery, p_value            quality records
    acceptance, relaxed, lengths, shares quality records, or speed records where a lane has no
                                         quality records; `acceptance_source` says which
    speeds, times, exact_match_ar,       speed records
    first_divergence_median, noise

Units: recovery in percent; speedups as ratios; shares from 0 to 1; times in milliseconds.
`recovery` compares documents and samples that both lanes have; where a metric is better when
lower it is baseline / lane, so that 100 and above always means no loss.

Where a document has several samples, its score is their mean. Where each was scored on its own
(`TaskInput.samples` = N), 0/1 scores under pass@1 also give the metric pass@N.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from statistics import fmean
from typing import Any

from mars_cli.analysis import metrics, stats
from mars_cli.analysis.metrics import Pair, Record

SCHEMA = 1
BASELINE = "ar"
FEWEST_RIGHT = 10
PASS = "pass@1"
FEWEST_SPEED_PROMPTS = 5
MUCH_TRUNCATED = 0.2
SCOPE = "Intervals are 95% over documents; they do not cover engine restarts or other machines."
FIDELITY = ("rank1_share", "rank2_share", "violations", "nll", "nll_delta")


@dataclass(frozen=True)
class TaskInput:
    """What was recorded for one task.

    `metric` is the primary one, "<name>,<filter>"; `directions` says for other metrics whether
    higher is better (true where it is silent). `sampled`: decoded at temperature > 0, so that
    lanes may differ in tokens. `quality` has a list of records per lane id. `samples`: answers to
    each document, where every answer was scored on its own; None for one answer, or for several
    that the task scored together.
    """

    name: str
    metric: str
    higher_is_better: bool
    speed_mode: str
    quality: Mapping[str, Sequence[Record]]
    speed: Sequence[Record]
    notes: Sequence[str] = ()
    directions: Mapping[str, bool] = field(default_factory=dict)
    sampled: bool = False
    samples: int | None = None


def build_results(
    run: Mapping[str, Any],
    model: Mapping[str, Any],
    environment: Mapping[str, Any],
    lanes: Sequence[Mapping[str, Any]],
    tasks: Mapping[str, TaskInput],
) -> dict[str, Any]:
    """Build the whole of `results.json` (schema 1): plain JSON values, every number finite.

    A figure that could not be measured is None and a note beside it says why.
    """
    per_task = {name: task_results(task, lanes) for name, task in tasks.items()}
    results = {
        "schema": SCHEMA,
        "run": dict(run),
        "model": dict(model),
        "environment": dict(environment),
        "lanes": [dict(lane) for lane in lanes],
        "tasks": per_task,
        "noise": {name: _noise(task.speed) for name, task in tasks.items()},
        "overall": {
            lane["id"]: _overall(
                lane["id"], tasks, [t["lanes"][lane["id"]] for t in per_task.values()]
            )
            for lane in lanes
        },
        "engine_differences": engine_differences(lanes),
        "notes": [SCOPE],
    }
    cleaned: dict[str, Any] = _clean(results)
    return cleaned


def task_results(task: TaskInput, lanes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Results of one task: its facts, and for every lane all figures of the schema."""
    noise = _noise(task.speed)
    base_quality = task.quality.get(BASELINE, ())
    counted = base_quality or next((q for q in task.quality.values() if q), task.speed)
    return {
        "n": len({record["doc_id"] for record in counted}),
        "metric": task.metric,
        "higher_is_better": task.higher_is_better,
        "speed_mode": task.speed_mode,
        "n_speed": len({record["doc_id"] for record in task.speed}),
        "samples": task.samples,
        "notes": [*task.notes, *_task_notes(task, noise)],
        "lanes": {lane["id"]: _lane_results(task, lane, noise) for lane in lanes},
    }


def _lane_results(
    task: TaskInput, lane: Mapping[str, Any], noise: Mapping[str, Any]
) -> dict[str, Any]:
    lane_id = lane["id"]
    quality = list(task.quality.get(lane_id, ()))
    scored, score_notes = _scores(task, lane_id)
    decoded, decode_notes = _decoding(task, lane, quality)
    timed, time_notes = _timing(task.speed, lane_id, noise)
    agreed, agree_notes = _agreement(task.speed, lane, sampled=task.sampled)
    return {
        **scored,
        **decoded,
        **timed,
        **agreed,
        "fidelity": {
            **dict.fromkeys(FIDELITY),
            "notes": ["fidelity: not measured in this run"],
        },
        "notes": [*score_notes, *decode_notes, *time_notes, *agree_notes],
    }


# -- scores ------------------------------------------------------------------------------------


def _scores(task: TaskInput, lane_id: str) -> tuple[dict[str, Any], list[str]]:
    """The primary metric's figures, the same of every metric under `metrics`, and notes."""
    every = [record for records in task.quality.values() for record in records]
    names = dict.fromkeys([task.metric, *metrics.metric_names(every)])
    directions = {**task.directions, task.metric: task.higher_is_better}
    records, base = (list(task.quality.get(lane, ())) for lane in (lane_id, BASELINE))
    is_baseline = lane_id == BASELINE
    found, notes = {}, []
    for name in names:
        found[name], said = _metric(
            records, base, name, directions.get(name, True), is_baseline=is_baseline
        )
        notes += said if name == task.metric else []
    k = task.samples or 1
    for name, new in _pass_names(names, every, k).items():
        ours, left_out = metrics.passes(records, name, k, new)
        theirs, _ = metrics.passes(base, name, k, new)
        found[new], _ = _metric(ours, theirs, new, True, is_baseline=is_baseline)
        if left_out:
            notes.append(
                f"{new}: {left_out} of {left_out + len(ours)} documents have fewer than "
                f"{k} scored samples and do not count"
            )
    return {**found[task.metric], "metrics": found}, notes


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
    def figure(record: Record) -> float | None:
        return metrics.score(record, metric)

    per_document = list(metrics.by_document(records, figure).values())
    plain = [s for r in [*records, *base] if (s := figure(r)) is not None]
    zero_one = all(s in (0, 1) for s in plain)
    values: dict[str, Any] = dict.fromkeys(
        ("score", "score_ci", "recovery", "recovery_ci", "recovery_note", "p_value", "n_paired")
    )
    if not per_document:
        what = "the answers have no scores" if records else "no answers recorded"
        return {**values, "recovery_note": "not_scored"}, [f"score: {what}"]
    total, n = sum(per_document), len(per_document)
    values["score"] = total / n
    interval = stats.wilson(total, n) if zero_one else stats.mean_interval(per_document)
    values["score_ci"] = _pair_list(interval)
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
            f"recovery: ar got only {right:.4g} of {len(theirs)} documents right"
            f"{', averaged over samples' if averaged else ''}; "
            f"below {FEWEST_RIGHT} no ratio is given"
        )
        return {**values, "recovery_note": "low_base"}, notes
    if is_baseline:  # against itself: 100% by definition
        return {**values, "recovery": 100.0 if total > 0 else None}, notes
    single = all(s in (0, 1) for s in [*ours, *theirs])
    top, bottom = (ours, theirs) if higher_is_better else (theirs, ours)
    found = stats.paired_ratio_01(top, bottom) if single else stats.log_ratio(top, bottom)
    values["recovery"] = None if found.value is None else 100 * found.value
    values["recovery_ci"] = found.interval and [100 * end for end in found.interval]
    values["recovery_note"] = "undefined" if found.value is None else None
    if found.note:
        notes.append(f"recovery: {found.note}")
    if single:
        values["p_value"] = stats.mcnemar(ours, theirs)
    else:
        notes.append("p value: McNemar's test needs one 0/1 score a document")
    return values, notes


def _answers(records: Iterable[Record], figure: Callable[[Record], float | None]) -> int:
    """How many samples of documents are scored."""
    return len({(r["doc_id"], r.get("sample") or 0) for r in records if figure(r) is not None})


# -- acceptance and lengths --------------------------------------------------------------------


def _decoding(
    task: TaskInput, lane: Mapping[str, Any], quality: list[Record]
) -> tuple[dict[str, Any], list[str]]:
    lane_id = lane["id"]
    source = "quality" if quality else "speed"
    records = quality or _timed(task.speed, lane_id)
    base = task.quality.get(BASELINE, ()) if quality else _timed(task.speed, BASELINE)
    pairs = metrics.pair(records, base, "sample" if quality else "repeat")
    truncated, empty = metrics.truncated_share(records), metrics.empty_share(records)
    stops = None if lane_id == BASELINE else metrics.relaxed_stop_share(records)
    values = {
        "acceptance_length": metrics.acceptance_length(records),
        "acceptance_length_vllm": metrics.acceptance_length_vllm(records),
        "acceptance_length_per_request": metrics.acceptance_length_per_request(records),
        "acceptance_per_position": metrics.acceptance_per_position(records),
        "draft_acceptance_rate": metrics.draft_acceptance_rate(records),
        "relaxed_share": metrics.relaxed_share(records),
        "relaxed_stop_share": stops,
        "relaxed_per_100_tokens": metrics.relaxed_per_100_tokens(records),
        "tokens": metrics.tokens(records),
        "length_ratio": metrics.length_ratio(pairs),
        "truncated_share": truncated,
        "empty_share": empty,
        "acceptance_source": source if records else None,
    }
    notes = []
    if not records:
        notes.append("no answers recorded for this lane")
    elif values["acceptance_length"] is None:
        notes.append("acceptance length: no answer went beyond its first output")
    elif lane_id != BASELINE and values["draft_acceptance_rate"] is None:
        notes.append("no step had a draft: nothing to accept")
    if records and not pairs:
        notes.append("length ratio: ar has no answer to the same documents")
    if truncated is not None and truncated > MUCH_TRUNCATED:
        notes.append(f"{truncated:.0%} of the answers were cut off by the length limit")
    if empty:
        notes.append(f"{_percent(empty)} of the answers are empty (they count as answers)")
    if stops:
        kept = "; this lane is kept from accepting it" if lane.get("protect_stop") else ""
        notes.append(
            f"{_percent(stops)} of the answers met an end-of-turn token that only the rule "
            f"accepts{kept}"
        )
    return values, notes


def _percent(share: float) -> str:
    """A share above 0 in whole percent, never said to be 0%."""
    return f"{share:.0%}" if share >= 0.005 else "under 1%"


# -- speed -------------------------------------------------------------------------------------

_SPEEDUPS: tuple[tuple[str, Callable[[Record], float | None], bool], ...] = (
    ("speedup", metrics.tokens_per_second, False),
    ("decode_speedup", metrics.decode_tokens_per_second, False),
    ("wall_speedup", metrics.request_seconds, True),
)


def speed_ratio(
    pairs: Sequence[Pair], figure: Callable[[Record], float | None], *, inverse: bool = False
) -> stats.Estimate:
    """Mean over prompts of a lane's figure / the same for the baseline, paired by prompt.

    Repeats are averaged within a prompt first. `inverse` turns the quotient over (times: the sum
    of the baseline's seconds / the sum of the lane's).
    """
    lane, base = metrics.paired_by_document(pairs, figure)
    return stats.log_ratio(base, lane) if inverse else stats.log_ratio(lane, base)


def _timing(
    speed: Sequence[Record], lane_id: str, noise: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    records = _timed(speed, lane_id)
    values: dict[str, Any] = {}
    missing: dict[str, list[str]] = {}
    pairs = metrics.pair(records, _timed(speed, BASELINE), "repeat")
    for name, figure, inverse in _SPEEDUPS:
        found = speed_ratio(pairs, figure, inverse=inverse)
        if lane_id == BASELINE and found.value is not None:
            found = stats.Estimate(1.0)  # against itself: 1 by definition
        values[name], values[f"{name}_ci"] = found.value, _pair_list(found.interval)
        if found.note and records:
            missing.setdefault(found.note, []).append(name)
    notes = [f"{', '.join(names)}: {note}" for note, names in missing.items()]
    values["within_noise"] = within_noise(values["speedup_ci"], noise["aa_ci"])
    values["tokens_per_s"] = metrics.tokens_per_s(records)
    values["ttft_ms"] = metrics.ttft_ms(records)
    values["tpot_ms"] = metrics.tpot_ms(records)
    if not records:
        notes.append("speed: not measured for this lane")
    elif _wider(noise["aa_ci"], values["speedup"]) and lane_id != BASELINE:
        notes.append("speed: the A/A interval is wider than the effect; more repeats are needed")
    return values, notes


def within_noise(speedup_ci: Sequence[float] | None, aa_ci: Sequence[float] | None) -> bool | None:
    """Whether a speedup's interval overlaps the A/A interval, or 1 where there is no control.

    None when the speedup has no interval: then nothing can be said.
    """
    if speedup_ci is None:
        return None
    low, high = aa_ci or (1.0, 1.0)
    return speedup_ci[0] <= high and low <= speedup_ci[1]


def _noise(speed: Sequence[Record]) -> dict[str, Any]:
    """The A/A control: the second `ar` measurement of each prompt against the first."""
    control = _timed(speed, BASELINE, control=True)
    pairs = metrics.pair(control, _timed(speed, BASELINE), "repeat")
    found = speed_ratio(pairs, metrics.tokens_per_second)
    notes = [] if found.note is None else [f"A/A control: {found.note}"]
    return {"aa_speedup": found.value, "aa_ci": _pair_list(found.interval), "notes": notes}


def _wider(aa_ci: Sequence[float] | None, speedup: float | None) -> bool:
    if aa_ci is None or speedup is None or speedup <= 0 or aa_ci[0] <= 0:
        return False
    reach: float = max(abs(math.log(end)) for end in aa_ci)
    return reach >= abs(math.log(speedup))


def _timed(speed: Iterable[Record], lane_id: str, *, control: bool = False) -> list[Record]:
    return [r for r in speed if r["lane"] == lane_id and bool(r.get("control")) == control]


# -- agreement ---------------------------------------------------------------------------------


def _agreement(
    speed: Sequence[Record], lane: Mapping[str, Any], *, sampled: bool
) -> tuple[dict[str, Any], list[str]]:
    """Agreement with `ar` at concurrency 1; for `ar` itself, of its control with it."""
    is_baseline = lane["id"] == BASELINE
    records = _timed(speed, lane["id"], control=is_baseline)
    pairs = metrics.pair(records, _timed(speed, BASELINE), "repeat")
    match = metrics.exact_match(pairs)
    differ = sum(
        1 for lane_record, base in pairs if metrics.exact_match([(lane_record, base)]) == 0
    )
    values = {
        "exact_match_ar": match,
        "first_divergence_median": metrics.first_divergence_median(pairs),
    }
    notes = []
    if match is None and not is_baseline:
        notes.append("agreement with ar: no prompt that both lanes answered in the speed phase")
    if match is not None and match < 1 and not sampled:
        if is_baseline:
            notes.append("ar does not repeat itself: its two measurements differ in tokens")
        elif lane.get("rule") == "strict":
            notes.append(f"not lossless here: {differ} of {len(pairs)} outputs differ from ar's")
    return values, notes


# -- notes, totals, cleaning -------------------------------------------------------------------


def _task_notes(task: TaskInput, noise: Mapping[str, Any]) -> list[str]:
    notes = []
    prompts = len({record["doc_id"] for record in task.speed})
    if 0 < prompts < FEWEST_SPEED_PROMPTS:
        notes.append(f"speed: only {prompts} prompts were timed; intervals need more")
    if task.speed_mode == "sequential":
        notes.append("speed: lanes ran one after another (sequential), not interleaved")
    if task.speed:
        notes.extend(noise["notes"])
    return notes


def _overall(
    lane_id: str, tasks: Mapping[str, TaskInput], rows: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """One lane over all tasks that have the figure; `tasks` counts them.

    Speedups: geometric mean over tasks. Recovery and agreement: mean over tasks, each task alike.
    Acceptance length: pooled, all later tokens / all later outputs of all tasks.
    """
    pooled = [
        metrics.later_outputs(list(task.quality.get(lane_id, ())) or _timed(task.speed, lane_id))
        for task in tasks.values()
    ]
    later, outputs = sum(n for n, _ in pooled), sum(n for _, n in pooled)
    values: dict[str, Any] = {"acceptance_length": later / outputs if outputs else None}
    counts = {"acceptance_length": sum(1 for _, n in pooled if n)}
    for name in ("speedup", "decode_speedup", "wall_speedup"):
        found = [row[name] for row in rows if row[name]]
        counts[name] = len(found)
        values[name] = math.exp(fmean(map(math.log, found))) if found else None
    for name in ("recovery", "exact_match_ar"):
        found = [row[name] for row in rows if row[name] is not None]
        counts[name] = len(found)
        values[name] = fmean(found) if found else None
    notes = [
        f"{name}: over {count} of {len(rows)} tasks, the others have none"
        for name, count in counts.items()
        if count < len(rows)
    ]
    return {**values, "tasks": counts, "notes": notes}


def engine_differences(lanes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Sentences naming engine facts in which lanes differ from `ar` (they are not the rule)."""
    base = next((lane for lane in lanes if lane["id"] == BASELINE), {}).get("engine") or {}
    found: dict[str, list[str]] = {}
    for lane in lanes:
        facts = lane.get("engine") or {}
        for name in sorted(base.keys() & facts.keys()):
            old, new = base[name], facts[name]
            if old != new and not isinstance(old, dict | list):
                found.setdefault(f"{name} is {new}, with ar {old}", []).append(lane["id"])
    return [f"{', '.join(ids)}: {difference}" for difference, ids in found.items()]


def _pair_list(interval: stats.Interval | None) -> list[float] | None:
    return None if interval is None else list(interval)


def _clean(value: Any) -> Any:
    """Plain JSON values: NaN and infinity become None, tuples lists, keys strings."""
    if isinstance(value, Mapping):
        return {str(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_clean(item) for item in value]
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value) if math.isfinite(value) else None
    return str(value)
