r"""Grades answers that are one number, or one formula.

    doc      {"question": "Natalia sold 48 clips in April, ...", "answer": "72", ...}
    results  ["She sold 48 / 2 = 24 clips in May, so 48 + 24 = 72.\n#### 72"]
    score    {"exact_match": 1.0}

    doc      {"problem": "What fraction of ...", "answer": "\\frac{3}{4}", ...}
    results  ["That makes $\\boxed{\\dfrac34}$."]
    score    {"exact_match": 1.0}

How the answer is found in the text is said in `mars_cli.scoring.answers` (numbers) and
`mars_cli.scoring.expressions` (formulas). A text without one, the empty one included, counts as
wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mars_cli.scoring.answers import final_answer, same_number
from mars_cli.scoring.expressions import final_expression, same_expression


def exact_number(doc: Mapping[str, str], results: Sequence[str]) -> dict[str, float]:
    """1.0 if the answer in `results[0]` is exactly the number `doc["answer"]`, else 0.0."""
    return {"exact_match": float(same_number(final_answer(results[0]), doc["answer"]))}


def exact_answer(doc: Mapping[str, str], results: Sequence[str]) -> dict[str, float]:
    """1.0 if the answer in `results[0]` equals `doc["answer"]` (LaTeX, words, number), else 0.0."""
    return {"exact_match": float(same_expression(doc["answer"], final_expression(results[0])))}
