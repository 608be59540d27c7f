"""Questions that are asked to time the answers: nothing scores them.

MT-Bench (arXiv 2306.05685), 80 questions of two turns, as FastChat or Spec-Bench have them; the hub
calls the turns "prompt":

    {"question_id": 81, "category": "writing",
     "turns": ["Write a poem about rain.", "Now without the letter e."]}

Alpaca, as it was published or in Spec-Bench's form ("turns"):

    {"instruction": "Translate to French.", "input": "Good morning.", "output": ...}

The document is {"question_id": ..., "category": ..., "turns": [...]}; each later turn is asked
behind the lane's own earlier answers (`mars_cli.evaluation.conversations`).
Their one metric, "unscored", is NaN ("not scored"), which reports write as null.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from mars_cli import data

TURNS = 'each line is a JSON object with "turns", a list of questions, as in MT-Bench'
INSTRUCTION = (
    'each line is a JSON object with "instruction" and perhaps "input", or with "turns" as in '
    "Spec-Bench"
)


def mtbench(**source: Any) -> dict[str, Any]:
    """{"test": documents}; arguments and errors as for `mars_cli.data.load`."""
    return data.load("mars_mtbench", question, TURNS, **source)


def alpaca(**source: Any) -> dict[str, Any]:
    """Likewise."""
    return data.load("mars_alpaca", instruction, INSTRUCTION, **source)


def question(row: data.Row) -> data.Document:
    """All the turns of one conversation."""
    number = row.values.get("question_id", row.values.get("prompt_id"))
    category = row.values.get("category")
    return {
        "question_id": "" if number is None else str(number),
        "category": category if isinstance(category, str) else "",
        "turns": row.texts("turns", "prompt"),
    }


def instruction(row: data.Row) -> data.Document:
    """One instruction, followed by its input if it has one."""
    if row.has("turns"):
        return question(row)
    given = row.values.get("input") or ""
    if not isinstance(given, str):
        raise row.wrong("input", "is not a string")
    text = row.text("instruction")
    turn = f"{text}\n\n{given}" if given.strip() else text
    return {"question_id": "", "category": "", "turns": [turn]}


def unscored(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """{"unscored": NaN}: there is no scorer."""
    return {"unscored": math.nan}
