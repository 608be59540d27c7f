"""MBPP (arXiv 2108.07732): the test split, 500 small functions graded by three asserts each.

One item:

    {"task_id": 11,
     "text": "Write a function to double a number.",
     "code": "def double(n): \\r\\n    return 2 * n",
     "test_setup_code": "",
     "test_list": ["assert double(2) == 4", "assert double(0) == 0", ...]}

The whole release has 974 items in one file: 1-10 are examples for prompts, 11-510 the test split,
the rest is for tuning and training. Of any file only 11-510 are taken, as the hub's test split has
them. Scored as HumanEval is; `challenge_test_list` plays no part.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from mars_cli import data
from mars_cli.scoring import code, sandbox

TEST_SPLIT = range(11, 511)
EXPECTED = (
    "each line is a JSON object with task_id (11 to 510), text, code, test_list and "
    "test_setup_code, as in MBPP"
)


def dataset(**source: Any) -> dict[str, Any]:
    """{"test": items}; arguments and errors as for `mars_cli.data.load`."""
    return data.load("mars_mbpp", document, EXPECTED, **source)


def document(row: data.Row) -> data.Document | None:
    """The item, with plain line ends; None for one outside the test split."""
    number = row.values.get("task_id")
    if not isinstance(number, int):
        raise row.wrong("task_id", "is not a whole number")
    if number not in TEST_SPLIT:
        return None
    setup = row.values.get("test_setup_code", "")
    if not isinstance(setup, str):
        raise row.wrong("test_setup_code", "is not a string")
    return {
        "task_id": number,
        "text": row.text("text"),
        "code": row.text("code").replace("\r\n", "\n"),
        "test_list": row.texts("test_list"),
        "test_setup_code": setup.replace("\r\n", "\n"),
    }


def ahead(answers: Sequence[Sequence[str]], docs: Sequence[Mapping[str, Any]]) -> list[str]:
    """lm-eval's filter: the first answer to each item, all run in parallel for `passes`."""
    firsts = [found[0] for found in answers]
    sandbox.prefetch(map(program, docs, firsts))
    return firsts


def passes(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """{"pass@1": 1.0 | 0.0}, or NaN if generated code may not run."""
    if not sandbox.allowed():
        return {"pass@1": math.nan}
    return {"pass@1": float(sandbox.passes(program(doc, results[0])))}


def program(doc: Mapping[str, Any], answer: str) -> str:
    """What is run to grade an answer."""
    return code.mbpp_program(answer, doc["test_list"], doc["test_setup_code"])
