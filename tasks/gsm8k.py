"""GSM8K (arXiv 2110.14168): the test split, 1,319 grade-school word problems.

One row:

    {"question": "Natalia sold clips to 48 of her friends in April, and then she sold half as many
                  clips in May. How many clips did Natalia sell altogether in April and May?",
     "answer": "Natalia sold 48/2 = <<48/2=24>>24 clips in May.\\nNatalia sold 48+24 =
                <<48+24=72>>72 clips altogether in April and May.\\n#### 72"}

and the document it becomes: {"question": ..., "solution": <the whole answer>, "answer": "72"}.
"""

from __future__ import annotations

from typing import Any

from mars_cli import data
from mars_cli.scoring.answers import last_number

EXPECTED = 'each line is a JSON object with "question" and "answer", as in GSM8K'


def dataset(**source: Any) -> dict[str, Any]:
    """{"test": documents}; arguments and errors as for `mars_cli.data.load`."""
    return data.load("mars_gsm8k", document, EXPECTED, **source)


def document(row: data.Row) -> data.Document:
    """One problem, its solution, and the number that it ends with."""
    question, solution = row.text("question"), row.text("answer")
    _, marker, after = solution.rpartition("####")
    number = last_number(after) if marker else None
    if number is None:
        raise row.wrong(
            "answer",
            'does not end with "#### " and a number',
            hint='GSM8K\'s answers end like "... 48+24 = 72 clips.\\n#### 72".',
        )
    return {"question": question, "solution": solution, "answer": number}
