"""From records to `results.json`: every figure of every lane against the lane `ar`.

Which records a figure is taken from:

    scores, recovery, p values           quality records
    acceptance, relaxed, lengths, shares quality records, or speed records where a lane has no
                                         quality records; `acceptance_source` says which
    speeds, times, noise                 speed records, each concurrency apart: a row's figures are
                                         the lowest's, `by_concurrency` has them all
    exact_match_ar, first_divergence_*   speed records of concurrency 1, divergence records
    batched_match_ar                     quality records, control records

Units: recovery in percent; speedups as ratios; shares from 0 to 1; times in milliseconds.
`recovery` compares documents and samples that both lanes have; where a metric is better when
lower it is baseline / lane, so that 100 and above always means no loss. `p_value_holm` is
`p_value` adjusted for all of the run: every lane but the baseline on every task.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from statistics import fmean
from typing import Any

from mars_cli.analysis import metrics, stats
from mars_cli.analysis.agreement import agreement, batched_agreement
from mars_cli.analysis.fidelity import FIGURES as FIDELITY
from mars_cli.analysis.fidelity import fidelity
from mars_cli.analysis.figures import SAFE_RECOVERY, SCHEMA
from mars_cli.analysis.groups import Group, group_row
from mars_cli.analysis.metrics import BASELINE, Pair, Record
from mars_cli.analysis.scores import lane_scores, primary
from mars_cli.analysis.speed import lane_speeds, levels, noise_floor, strict_beside, timed

FEWEST_SPEED_PROMPTS = 5
MUCH_TRUNCATED = 0.2
MUCH_REPETITION = 0.05  # above the baseline's
MUCH_SHORTER, MUCH_LONGER = 0.8, 1.2
SCOPE = "Intervals are 95% over documents; they do not cover engine restarts or other machines."


@dataclass(frozen=True)
class TaskInput:
    """What was recorded for one task.

    `metric` is the primary one, "<name>,<filter>"; `directions` says for other metrics whether
    higher is better (true where it is silent). `sampled`: decoded at temperature > 0, so that
    lanes may differ in tokens. `quality` has a list of records per lane id, `control` those of
    `ar`'s second answers. `samples`: answers to
    each document, where every answer was scored on its own; None for one answer, or for several
    that the task scored together. `fidelity_obstacle` says why answers could not be re-scored.
    `categories` are of documents, by doc_id.
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
    fidelity: Mapping[str, Sequence[Record]] = field(default_factory=dict)
    fidelity_obstacle: str | None = None
    control: Sequence[Record] = ()
    divergence: Sequence[Record] = ()
    categories: Mapping[int, str] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Documents that `ar` answered, else the first lane that answered any, else timed ones."""
        answered = self.quality.get(BASELINE) or next(filter(None, self.quality.values()), None)
        return len({record["doc_id"] for record in answered or self.speed})


def build_results(
    run: Mapping[str, Any],
    model: Mapping[str, Any],
    environment: Mapping[str, Any],
    lanes: Sequence[Mapping[str, Any]],
    tasks: Mapping[str, TaskInput],
    groups: Sequence[Group] = (),
) -> dict[str, Any]:
    """Build the whole of `results.json` (schema 1): plain JSON values, every number finite.

    A figure that could not be measured is None and a note beside it says why.
    """
    tasks = {
        name: replace(task, metric=primary(task.quality, task.metric))
        for name, task in tasks.items()
    }
    per_task = {name: task_results(task, lanes) for name, task in tasks.items()}
    _adjust_p_values(per_task)

    def total(lane: str, names: Sequence[str]) -> dict[str, Any]:
        rows = [per_task[name]["lanes"][lane] for name in names]
        return _overall(lane, {name: tasks[name] for name in names}, rows)

    lane_ids = [lane["id"] for lane in lanes]
    results = {
        "schema": SCHEMA,
        "safe_recovery": SAFE_RECOVERY,
        "run": dict(run),
        "model": dict(model),
        "environment": dict(environment),
        "lanes": [dict(lane) for lane in lanes],
        "tasks": per_task,
        "noise": {name: noise_by_concurrency(task) for name, task in tasks.items()},
        "overall": {lane: total(lane, list(tasks)) for lane in lane_ids},
        "groups": {group.name: group_row(group, per_task, lane_ids, total) for group in groups},
        "engine_differences": engine_differences(lanes),
        "notes": [SCOPE],
    }
    cleaned: dict[str, Any] = _clean(results)
    return cleaned


def task_results(task: TaskInput, lanes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Results of one task: its facts, and for every lane all figures of the schema.

    But for `p_value_holm`, which is None: it takes all tasks of the run.
    """
    noise = noise_by_concurrency(task)
    return {
        "n": task.n,
        "metric": task.metric,
        "higher_is_better": task.higher_is_better,
        "speed_mode": task.speed_mode,
        "n_speed": len({record["doc_id"] for record in task.speed}),
        "concurrency": list(levels(task.speed)),
        "samples": task.samples,
        "notes": [*task.notes, *_task_notes(task, noise)],
        "lanes": _lanes_results(task, lanes),
        "categories": {
            category: {"n": part.n, "lanes": _lanes_results(part, lanes)}
            for category, part in _by_category(task).items()
            if part.n
        },
    }


def _lanes_results(task: TaskInput, lanes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    noise = noise_by_concurrency(task)
    return {lane["id"]: _lane_results(task, lane, lanes, noise) for lane in lanes}


def _by_category(task: TaskInput) -> dict[str, TaskInput]:
    """The task's records split by the category of their document."""

    def of(records: Sequence[Record], category: str) -> list[Record]:
        return [r for r in records if task.categories.get(int(r["doc_id"])) == category]

    return {
        category: replace(
            task,
            quality={lane: of(records, category) for lane, records in task.quality.items()},
            speed=of(task.speed, category),
            fidelity={lane: of(records, category) for lane, records in task.fidelity.items()},
            control=of(task.control, category),
            divergence=of(task.divergence, category),
            categories={},
        )
        for category in dict.fromkeys(task.categories.values())
    }


def _lane_results(
    task: TaskInput,
    lane: Mapping[str, Any],
    lanes: Sequence[Mapping[str, Any]],
    noise: Mapping[str, Any],
) -> dict[str, Any]:
    lane_id = lane["id"]
    quality = list(task.quality.get(lane_id, ()))
    directions = {**task.directions, task.metric: task.higher_is_better}
    scored, score_notes = lane_scores(task.quality, lane_id, task.metric, directions, task.samples)
    decoded, decode_notes = _decoding(task, lane, quality)
    speeds, speed_notes = _speeds(task, lane, lanes, noise)
    alone = levels(task.speed).get(1, [])
    agreed, agree_notes = agreement(alone, lane, task.divergence, sampled=task.sampled)
    base = task.quality.get(BASELINE, ())
    batched, batch_notes = batched_agreement(
        quality, base, task.control, lane, sampled=task.sampled
    )
    checked = _fidelity(task, lane)
    return {
        **scored,
        "p_value_holm": None,
        **decoded,
        **speeds,
        **agreed,
        **batched,
        "fidelity": checked,
        "notes": [
            *score_notes,
            *decode_notes,
            *speed_notes,
            *agree_notes,
            *batch_notes,
            *(checked["notes"] if checked["violations"] else []),
        ],
    }


def _lowest(task: TaskInput) -> Sequence[Record]:
    """The speed records of the lowest concurrency."""
    return next(iter(levels(task.speed).values()), [])


def noise_by_concurrency(task: TaskInput) -> dict[str, Any]:
    """The noise floor at the lowest concurrency, and under `by_concurrency` at each."""
    floors = {str(level): noise_floor(records) for level, records in levels(task.speed).items()}
    lowest = next(iter(floors.values()), None) or noise_floor([])
    return {**lowest, "by_concurrency": floors}


def _speeds(
    task: TaskInput,
    lane: Mapping[str, Any],
    lanes: Sequence[Mapping[str, Any]],
    noise: Mapping[str, Any],
) -> tuple[dict[str, Any], list[str]]:
    """A lane's speeds at the lowest concurrency, under `by_concurrency` at each, and notes."""
    lane_id, strict = lane["id"], strict_beside(lane, lanes)
    beside = None if strict is None else strict["id"]
    found = {
        level: lane_speeds(records, lane_id, noise["by_concurrency"][str(level)], beside)
        for level, records in levels(task.speed).items()
    }
    values, notes = next(iter(found.values()), None) or lane_speeds([], lane_id, noise)
    by_concurrency = {str(level): speeds for level, (speeds, _) in found.items()}
    others = [
        f"concurrency {level}: {note}"
        for level, (_, said) in list(found.items())[1:]
        for note in said
        if note not in notes
    ]
    return {**values, "by_concurrency": by_concurrency}, [*notes, *others]


def _fidelity(task: TaskInput, lane: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of the fidelity phase, and their own notes."""
    if task.fidelity_obstacle is not None:
        return {**dict.fromkeys(FIDELITY), "notes": [task.fidelity_obstacle]}
    records, base = (task.fidelity.get(lane_id, ()) for lane_id in (lane["id"], BASELINE))
    return fidelity(records, base, lane)


def _adjust_p_values(per_task: Mapping[str, Mapping[str, Any]]) -> None:
    """Fill in `p_value_holm` of every lane but the baseline, over all that have a p value."""
    rows = [
        row
        for task in per_task.values()
        for lane, row in task["lanes"].items()
        if lane != BASELINE and row["p_value"] is not None
    ]
    adjusted = stats.holm([row["p_value"] for row in rows])
    for row, p_value in zip(rows, adjusted, strict=True):
        row["p_value_holm"] = p_value


# -- acceptance and lengths --------------------------------------------------------------------


def _decoding(
    task: TaskInput, lane: Mapping[str, Any], quality: list[Record]
) -> tuple[dict[str, Any], list[str]]:
    lane_id = lane["id"]
    source = "quality" if quality else "speed"
    records = quality or timed(_lowest(task), lane_id)
    base = task.quality.get(BASELINE, ()) if quality else timed(_lowest(task), BASELINE)
    pairs = metrics.pair(records, base, "sample" if quality else "repeat")
    truncated, empty = metrics.truncated_share(records), metrics.empty_share(records)
    stops = None if lane_id == BASELINE else metrics.relaxed_stop_share(records)
    ratio = metrics.length_ratio(pairs)
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
        "length_ratio": ratio,
        "truncated_share": truncated,
        "empty_share": empty,
        "repetition": metrics.repetition(records),
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
    if ratio is not None and not MUCH_SHORTER <= ratio <= MUCH_LONGER:
        notes.append(f"length ratio: the answers are {ratio:.2f} times as long as ar's")
    if records and values["repetition"] is None:
        notes.append(f"repetition: no answer has {metrics.NGRAM} tokens")
    return values, [*notes, *_repetition_notes(pairs)]


def _repetition_notes(pairs: Sequence[Pair]) -> Iterator[str]:
    """Says so where a lane repeats itself more than the baseline does over the same documents."""
    ours, theirs = metrics.paired_by_document(pairs, metrics.repeated_share)
    if ours and (share := fmean(ours)) - (base := fmean(theirs)) > MUCH_REPETITION:
        yield (
            f"repetition: {_percent(share)} of an answer's token {metrics.NGRAM}-grams are "
            f"repeats, {_percent(base)} with ar; a speedup may be bought with loops"
        )


def _percent(share: float) -> str:
    """A share in whole percent; above 0, never said to be 0%."""
    return f"{share:.0%}" if share == 0 or share >= 0.005 else "under 1%"


# -- notes, totals, cleaning -------------------------------------------------------------------


def _task_notes(task: TaskInput, noise: Mapping[str, Any]) -> list[str]:
    notes = []
    prompts = len({record["doc_id"] for record in task.speed})
    if 0 < prompts < FEWEST_SPEED_PROMPTS:
        timed_ones = "1 prompt was" if prompts == 1 else f"{prompts} prompts were"
        notes.append(f"speed: only {timed_ones} timed; intervals need more")
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
        metrics.later_outputs(list(task.quality.get(lane_id, ())) or timed(_lowest(task), lane_id))
        for task in tasks.values()
    ]
    later, outputs = sum(n for n, _ in pooled), sum(n for _, n in pooled)
    values: dict[str, Any] = {"acceptance_length": later / outputs if outputs else None}
    counts = {"acceptance_length": sum(1 for _, n in pooled if n)}
    for name in ("speedup", "decode_speedup", "wall_speedup", "strict_speedup"):
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
        # A lane that has no strict lane beside it lacks that figure by its nature.
        if count < len(rows) and (count or name != "strict_speedup")
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
