"""Two runs, document by document: the same lane's answers to the same prompts.

Paired are documents of the same doc_id and prompt hash (the prompt's tokens, stop strings, limits
and sampling), over the task's primary metric. The ratio and the tests are those of recovery, with
the base run's lane in the place of `ar`. Speeds are never compared so: each run's own speedup
stands against its own `ar`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mars_cli.analysis import stats
from mars_cli.analysis.documents import Documents
from mars_cli.analysis.metrics import BASELINE
from mars_cli.analysis.scores import FEWEST_RIGHT, lane_scores, largest_loss
from mars_cli.analysis.stored import Stored
from mars_cli.errors import MarsError

_OTHER = "other"
_NOTES = {
    "low_base": "too few right in the base for a ratio",
    "not_scored": "not scored",
    "no_baseline": "not scored in the base",
    "undefined": "no ratio to such scores",
}


@dataclass(frozen=True)
class Paired:
    """A lane of a run against the same lane of the base run, on one task.

    `ratio` (of the scores, in %; 100 and above: no loss), its `interval` and `largest_loss` are
    what they are for recovery. `n` documents are paired, of `documents` that the larger of the two
    has. `note` says why there is no ratio.
    """

    run: Stored
    base: Stored
    task: str
    lane: str
    n: int = 0
    documents: int = 0
    ratio: float | None = None
    interval: Sequence[float] | None = None
    largest_loss: float | None = None
    p_value: float | None = None
    p_value_holm: float | None = None
    note: str | None = None


def paired(base: Documents, others: Sequence[Documents]) -> list[Paired]:
    """Every lane of the others against the same lane of the base, task by task.

    `p_value_holm` is adjusted for all of them.
    """
    rows = [row for other in others for row in _rows(base, other)]
    tested = [p for row in rows if (p := row.p_value) is not None]
    adjusted = iter(stats.holm(tested))
    return [
        row if row.p_value is None else replace(row, p_value_holm=next(adjusted)) for row in rows
    ]


def _rows(base: Documents, other: Documents) -> Iterator[Paired]:
    for task, before in base.run.results["tasks"].items():
        now = other.run.results["tasks"].get(task, {"lanes": {}})
        for lane in before["lanes"]:
            if lane not in now["lanes"]:
                continue
            row = Paired(other.run, base.run, task, lane)
            try:
                yield _row(row, other, base)
            except MarsError as error:
                yield replace(row, note=str(error))
            except (OSError, ValueError, KeyError, TypeError, RecursionError):
                yield replace(row, note="its records are not as they should be")


def _row(row: Paired, ours: Documents, theirs: Documents) -> Paired:
    before, now = (run.results["tasks"][row.task] for run in (row.base, row.run))
    metric, higher_is_better = before["metric"], bool(before["higher_is_better"])
    if metric != now["metric"]:
        return replace(row, note=f"other metrics: {metric} and {now['metric']}")
    left, right = ours.hashes(row.task), theirs.hashes(row.task)
    row = replace(row, documents=max(len(left), len(right)))
    if not (left and right):
        where = row.base.id if left else row.run.id
        return replace(row, note=f"no prompts are recorded in {where}")
    shared = {doc for doc, _ in left.items() & right.items()}
    if not shared:
        return replace(row, note="no document has the same prompt in both")
    kept = [side.scores(row.task, row.lane, metric) for side in (ours, theirs)]
    if all(set(found.values()) <= {0, 1} for found in kept) and all(kept):
        found = _zero_one(shared, *kept, higher_is_better=higher_is_better)
    else:
        answers = [
            [one for one in side.answers(row.task, row.lane, metric) if one["doc_id"] in shared]
            for side in (ours, theirs)
        ]
        sides = dict(zip((_OTHER, BASELINE), answers, strict=True))
        found, _ = lane_scores(sides, _OTHER, metric, {metric: higher_is_better}, None)
    return replace(
        row,
        n=found["n_paired"] or 0,
        ratio=found["recovery"],
        interval=found["recovery_ci"],
        largest_loss=largest_loss(found["recovery_ci"]),
        p_value=found["p_value"],
        note=_NOTES.get(found["recovery_note"] or ""),
    )


def _zero_one(
    shared: set[int],
    ours: Mapping[int, float],
    theirs: Mapping[int, float],
    *,
    higher_is_better: bool,
) -> dict[str, Any]:
    """What `lane_scores` gives for one 0/1 score a document, at a tenth of its time."""
    scored = sorted(shared & ours.keys() & theirs.keys())
    left, right = [ours[doc] for doc in scored], [theirs[doc] for doc in scored]
    figures: dict[str, Any] = dict.fromkeys(
        ("recovery", "recovery_ci", "recovery_note", "p_value"), None
    )
    figures["n_paired"] = len(scored)
    if not scored:
        return {**figures, "recovery_note": "no_baseline"}
    if (sum(right) if higher_is_better else len(right) - sum(right)) < FEWEST_RIGHT:
        return {**figures, "recovery_note": "low_base"}
    found = stats.paired_ratio_01(*((left, right) if higher_is_better else (right, left)))
    return {
        **figures,
        "recovery": None if found.value is None else 100 * found.value,
        "recovery_ci": found.interval and [100 * end for end in found.interval],
        "recovery_note": "undefined" if found.value is None else None,
        "p_value": stats.mcnemar(left, right),
    }
