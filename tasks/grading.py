"""Grades answers that are one number.

    doc      {"question": "Natalia sold 48 clips in April, ...", "answer": "72", ...}
    results  ["She sold 48 / 2 = 24 clips in May, so 48 + 24 = 72.\\n#### 72"]
    score    {"exact_match": 1.0}

How the number is found in the text is said in `mars_cli.scoring.answers`. A text without a number,
the empty one included, counts as wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mars_cli.scoring.answers import final_answer, same_number


def exact_number(doc: Mapping[str, str], results: Sequence[str]) -> dict[str, float]:
    """1.0 if the answer in `results[0]` is exactly the number `doc["answer"]`, else 0.0."""
    return {"exact_match": float(same_number(final_answer(results[0]), doc["answer"]))}
