"""MATH-500 (arXiv 2305.20050) and AIME 2025: problems with one short answer.

One row, of either:

    {"problem": "Solve $x^2 = 1/4$ for $x > 0$.", "answer": "\\\\frac{1}{2}", ...}

or a question in Spec-Bench's form, which brings its own instruction:

    {"question_id": 0, "category": "math", "turns": ["Solve this: ..."], "reference": ["70"]}

The document is {"problem": ... or "", "turns": [...] or [], "answer": ...}. AIME's answers are
whole numbers from 0 to 999; of a reference such as "336^\\\\circ" the number counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mars_cli import data
from mars_cli.scoring.answers import last_number

EXPECTED = (
    'each line is a JSON object with "problem" and "answer", or with "turns" and "reference" as in '
    "Spec-Bench"
)


def math500(**source: Any) -> dict[str, Any]:
    """{"test": documents}; arguments and errors as for `mars_cli.data.load`."""
    return data.load("mars_math500", document, EXPECTED, **source)


def aime25(**source: Any) -> dict[str, Any]:
    """Likewise, of problems whose answers are numbers."""
    return data.load("mars_aime25", numbered, EXPECTED, **source)


def document(row: data.Row) -> data.Document:
    """One problem and its answer."""
    if row.has("turns"):
        return {"problem": "", "turns": row.texts("turns"), "answer": row.reference()}
    return {"problem": row.text("problem", "question"), "turns": [], "answer": row.text("answer")}


def numbered(row: data.Row) -> data.Document:
    """One problem and the number that is its answer."""
    found = document(row)
    number = last_number(found["answer"])
    if number is None:
        field = "reference" if row.has("turns") else "answer"
        raise row.wrong(field, f"holds no number, but {found['answer'][:40]!r}")
    return {**found, "answer": number}


def boxed(doc: Mapping[str, str]) -> str:
    """The answer as a model is asked to write it."""
    return f"The answer is $\\boxed{{{doc['answer']}}}$."
