"""HumanEval (arXiv 2107.03374): 164 functions to write, each graded by running its tests.

One item:

    {"task_id": "HumanEval/53",
     "prompt": "\\n\\ndef add(x: int, y: int):\\n    \\"\\"\\"Add two numbers x and y\\n
                >>> add(2, 3)\\n    5\\n ... \\"\\"\\"\\n",
     "entry_point": "add",
     "canonical_solution": "    return x + y\\n",
     "test": "\\n\\nMETADATA = {}\\n\\n\\ndef check(candidate):\\n    import random\\n\\n
              assert candidate(0, 1) == 1\\n ..."}

The model is asked, as in a chat, for the whole function in a code block. `pass@1` is 1.0 if the
item's `check` ran to its end in the sandbox, 0.0 if not, and NaN ("not scored") if code execution
was not allowed: lm-eval's `mean` then is NaN as well, which reports write as null.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from mars_cli import data
from mars_cli.scoring import code, sandbox

FIELDS = ("task_id", "prompt", "entry_point", "canonical_solution", "test")
EXPECTED = f"each line is a JSON object with {', '.join(FIELDS)}, as in HumanEval"


def dataset(**source: Any) -> dict[str, Any]:
    """{"test": items}; arguments and errors as for `mars_cli.data.load`."""
    return data.load("mars_humaneval", document, EXPECTED, **source)


def document(row: data.Row) -> data.Document:
    """The item as it is."""
    return {field: row.text(field) for field in FIELDS}


def ahead(answers: Sequence[Sequence[str]], docs: Sequence[Mapping[str, str]]) -> list[str]:
    """lm-eval's filter: the first answer to each item, all run in parallel for `passes`."""
    firsts = [found[0] for found in answers]
    sandbox.prefetch(map(program, docs, firsts))
    return firsts


def passes(doc: Mapping[str, str], results: Sequence[str]) -> dict[str, float]:
    """{"pass@1": 1.0 | 0.0}, or NaN if generated code may not run."""
    if not sandbox.allowed():
        return {"pass@1": math.nan}
    return {"pass@1": float(sandbox.passes(program(doc, results[0])))}


def program(doc: Mapping[str, str], answer: str) -> str:
    """What is run to grade an answer."""
    return code.program(doc["prompt"], answer, doc["entry_point"], doc["test"])
