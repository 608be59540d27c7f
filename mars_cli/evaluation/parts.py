"""What is kept of a document's metric: its score, or its part of a corpus score.

lm-eval has for each metric a value a document and a function that aggregates them. What is kept
gives the same aggregate again, or it is not kept as such: that is checked each time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from lm_eval.api.metrics import _sacreformat
from lm_eval.api.registry import AGGREGATION_REGISTRY

from mars_cli.analysis import corpus

EQUAL = 1e-6  # relative: what tasks compute in float32 has seven digits
ABSENT = -1  # what some tasks give to documents that a metric does not concern


def keep(
    how: Callable[..., Any], values: Sequence[Any], aggregate: Any
) -> tuple[str | None, list[Any]]:
    """Scores (with None), or the name of an aggregation of `analysis.corpus` and its parts.

    A task's own function is taken for what gives the same number on these values: the mean, the
    mean without `ABSENT`, or the mean of all elements of lists. One that is nothing of the kind
    keeps its name, and no parts.

    Args:
        how: lm-eval's function from the values of all documents to the aggregate.
        values: of each document what lm-eval has for the metric.
        aggregate: what `how` gave for them.
    """
    name = next((name for name, known in AGGREGATION_REGISTRY.items() if known is how), None)
    scores = [score(value) for value in values]
    if name in ("mean", "nanmean"):
        return None, scores
    if name is None and None not in scores:
        numbers = [number for number in scores if number is not None]
        present = [number for number in numbers if number != ABSENT]
        if present and _same(fmean(numbers), aggregate):
            return None, scores
        if _same(fmean(present) if present else ABSENT, aggregate):
            return None, [None if number == ABSENT else number for number in numbers]
    name = name or ("flattened_mean" if all(map(_is_list, values)) else None)
    parts = _PARTS[name](values) if name in _PARTS else None
    if name is not None and parts is not None and _same(corpus.value(name, parts), aggregate):
        return name, parts
    return getattr(how, "__name__", type(how).__name__), [None] * len(values)


def score(value: Any) -> float | None:
    """A document's score as a finite number; None for anything else."""
    value = _plain(value)
    if isinstance(value, bool | int | float) and math.isfinite(value):
        return float(value)
    return None


def _sacrebleu(metric: str, **settings: Any) -> Callable[[Sequence[Any]], list[list[float]] | None]:
    """Parts of a metric of sacrebleu, from its own counts and from texts as lm-eval gives them."""

    def parts(values: Sequence[Any]) -> list[list[float]]:
        import sacrebleu.metrics

        references, answers = _sacreformat(*zip(*values, strict=True))
        counts = getattr(sacrebleu.metrics, metric)(**settings)
        found: list[list[float]] = counts._extract_corpus_statistics(answers, references)
        return found

    return parts


def _f1(values: Sequence[Any]) -> list[list[float]] | None:
    """None where a label is neither 0 nor 1."""
    pairs = [(_plain(gold), _plain(found)) for gold, found in values]
    if any(label not in (0, 1) for pair in pairs for label in pair):
        return None
    return [[int(g and f), int(f and not g), int(g and not f)] for g, f in pairs]


def _sum_and_number(values: Sequence[Any]) -> list[list[float]] | None:
    """None where an element of a list is no number."""
    lists = [[score(element) for element in value] for value in values]
    numbers = [[number for number in found if number is not None] for found in lists]
    return [[sum(found), len(found)] for found in numbers] if numbers == lists else None


_PARTS: dict[str, Callable[[Sequence[Any]], list[list[float]] | None]] = {
    "bleu": _sacrebleu("BLEU", force=True),  # lm-eval's own pass has warned of what looks odd
    "chrf": _sacrebleu("CHRF"),
    "chrf++": _sacrebleu("CHRF", word_order=2),
    "ter": _sacrebleu("TER"),
    "f1": _f1,
    "flattened_mean": _sum_and_number,
}


def _plain(value: Any) -> Any:
    """Numbers and arrays of numpy as Python's own."""
    return value.tolist() if hasattr(value, "tolist") else value


def _is_list(value: Any) -> bool:
    return isinstance(_plain(value), list)  # a tuple is one thing of several fields


def _same(ours: float | None, theirs: Any) -> bool:
    theirs = score(theirs)
    if ours is None or theirs is None:
        return False
    return math.isclose(ours, theirs, rel_tol=EQUAL, abs_tol=1e-12)
