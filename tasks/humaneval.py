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

import gzip
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from mars_cli import assets
from mars_cli.errors import UsageError
from mars_cli.scoring import code, sandbox


def dataset(*, data: str, sha256: str, data_file: str | None = None, **_: Any) -> dict[str, Any]:
    """{"test": the 164 items}, from the asset that the task's metadata names (`data`, `sha256`)."""
    if data_file is not None:
        raise UsageError(
            f"mars_humaneval has its own data and reads no file, but got {data_file}.",
            hint="Leave out --data mars_humaneval=...",
        )
    from datasets import Dataset

    with gzip.open(assets.resolve(data, sha256=sha256), "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return {"test": Dataset.from_list(rows)}


def passes(doc: Mapping[str, str], results: Sequence[str]) -> dict[str, float]:
    """{"pass@1": 1.0 | 0.0}, or NaN if generated code may not run."""
    if not sandbox.allowed():
        return {"pass@1": math.nan}
    program = code.program(doc["prompt"], results[0], doc["entry_point"], doc["test"])
    return {"pass@1": float(sandbox.run(program).passed)}
