"""Summaries and translations, scored by what they share with a reference.

CNN/DailyMail (arXiv 1704.04368, version 3.0.0, test split):

    {"article": "(CNN) It rained on Monday ...", "highlights": "Rain on Monday ."}

WMT19, Chinese to English (the hub has no test split: its validation split is newstest2018):

    {"translation": {"zh": "...", "en": "..."}}

or, of either, a question in Spec-Bench's form, which brings its own instruction:

    {"turns": ["Summarize: It rained on Monday ..."], "reference": ["Rain on Monday."]}

The document is {"article" or "source": ... or "", "turns": [...] or [], "reference": ...}.

ROUGE-L is the F measure of the package rouge-score with its stemmer, from 0 to 1, and a task's
score the mean over documents. BLEU and chrF are sacrebleu's over the whole corpus, from 0 to 100,
by lm-eval's own aggregations: a document only hands on its (reference, answer).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from mars_cli import data
from mars_cli.scoring.answers import strip_thinking

ARTICLE = (
    'each line is a JSON object with "article" and "highlights", or with "turns" and "reference" '
    "as in Spec-Bench"
)
PAIR = (
    'each line is a JSON object with "translation": {"zh": ..., "en": ...}, or with "turns" and '
    '"reference" as in Spec-Bench'
)


def cnndm(**source: Any) -> dict[str, Any]:
    """{"test": documents}; arguments and errors as for `mars_cli.data.load`."""
    return data.load("mars_cnndm", article, ARTICLE, **source)


def wmt19_zhen(**source: Any) -> dict[str, Any]:
    """Likewise."""
    return data.load("mars_wmt19_zhen", pair, PAIR, **source)


def article(row: data.Row) -> data.Document:
    """One article and its summary."""
    if row.has("turns"):
        return {"article": "", "turns": row.texts("turns"), "reference": row.reference()}
    return {"article": row.text("article"), "turns": [], "reference": row.text("highlights")}


def pair(row: data.Row) -> data.Document:
    """One sentence and its translation."""
    if row.has("turns"):
        return {"source": "", "turns": row.texts("turns"), "reference": row.reference()}
    both = row.values.get("translation")
    if not isinstance(both, Mapping):
        raise row.wrong("translation", "is missing" if both is None else "is not an object")
    inner = data.Row(both, f'{row.where}, "translation"', row.expected)
    return {"source": inner.text("zh"), "turns": [], "reference": inner.text("en")}


def rouge_l(doc: Mapping[str, str], results: Sequence[str]) -> dict[str, float]:
    """{"rougeL": 0.0 to 1.0} of the answer, its thinking left out."""
    scores = _scorer().score(doc["reference"], strip_thinking(results[0]))
    return {"rougeL": float(scores["rougeL"].fmeasure)}


def translation(doc: Mapping[str, str], results: Sequence[str]) -> dict[str, tuple[str, str]]:
    """(reference, answer) for each metric, the answer's thinking left out."""
    both = doc["reference"], strip_thinking(results[0]).strip()
    return {"bleu": both, "chrf": both}


@cache
def _scorer() -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rougeL"], use_stemmer=True)
