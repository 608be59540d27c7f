"""GSM8K, zero-shot: the test split of `openai/gsm8k` from the hub, or a file of the same lines.

One line of such a file:

    {"question": "Natalia sold clips to 48 of her friends in April, and then she sold half as many
                  clips in May. How many clips did Natalia sell altogether in April and May?",
     "answer": "Natalia sold 48/2 = <<48/2=24>>24 clips in May.\\nNatalia sold 48+24 =
                <<48+24=72>>72 clips altogether in April and May.\\n#### 72"}

and the document it becomes: {"question": ..., "solution": <the whole answer>, "answer": "72"}.

The file is handed over as `data_file`, in the task's `metadata` or `dataset_kwargs` (lm-eval passes
both to `dataset`). Such an override reaches the YAML only where the task is named as a member of a
group; a bare {"task": "mars_gsm8k", ...} is a new task to lm-eval and does not see the YAML:

    manager.load(
        {"group": "any", "task": [{"task": "mars_gsm8k", "dataset_kwargs": {"data_file": PATH}}]}
    )["tasks"]["mars_gsm8k"]
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mars_cli.errors import UsageError
from mars_cli.scoring.answers import last_number

_EXPECTED = 'each line is a JSON object with "question" and "answer", as in GSM8K'


def dataset(*, data_file: str | None = None, **_: Any) -> dict[str, Any]:
    """{"test": documents}, from `data_file` or else from the hub.

    Raises:
        UsageError: the hub cannot be reached; or what is wrong with the file, where, and what
            was expected there.
    """
    from datasets import Dataset

    rows = from_hub() if data_file is None else from_file(Path(data_file))
    return {"test": Dataset.from_list(rows)}


def from_hub() -> list[dict[str, str]]:
    """The 1,319 test documents from the hub (or its cache)."""
    import datasets

    try:
        source = datasets.load_dataset("openai/gsm8k", "main", split="test")
    except Exception as error:  # whatever the hub's client raises: it differs by version and cause
        raise UsageError(
            f"mars_gsm8k could not get openai/gsm8k from the hub ({_one_line(error)}).",
            hint=f"Give the data yourself: --data mars_gsm8k=FILE ({_EXPECTED}).",
        ) from error
    return [_document(row, f"openai/gsm8k, row {i}") for i, row in enumerate(source)]


def from_file(path: Path) -> list[dict[str, str]]:
    """The documents of a local file; empty lines are skipped."""
    try:
        content = path.read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UsageError(
            f"{path}: cannot be read ({reason}).", hint=f"Expected a file: {_EXPECTED}."
        ) from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UsageError(
            f"{path}, line {line}: not UTF-8 (byte {content[error.start]:#04x}).",
            hint="Save the file as UTF-8.",
        ) from error
    # Not splitlines(): JSON strings may hold other line separators, such as U+2028.
    numbered = enumerate(text.split("\n"), start=1)
    rows = [_line(line, f"{path}, line {number}") for number, line in numbered if line.strip()]
    if not rows:
        raise UsageError(f"{path}: holds no documents.", hint=f"Expected: {_EXPECTED}.")
    return rows


def _line(line: str, where: str) -> dict[str, str]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{where}: not valid JSON ({_one_line(error)}).", hint=f"Expected: {_EXPECTED}."
        ) from error
    if not isinstance(row, dict):
        raise UsageError(
            f"{where}: a JSON object was expected, not {type(row).__name__}.",
            hint=f"Expected: {_EXPECTED}.",
        )
    return _document(row, where)


def _document(row: dict[str, Any], where: str) -> dict[str, str]:
    for field in ("question", "answer"):
        value = row.get(field)
        if not isinstance(value, str) or not value.strip():
            got = "is missing" if field not in row else f"is {json.dumps(value)[:40]}"
            raise UsageError(
                f'{where}, field "{field}": a non-empty string was expected, but it {got}.',
                hint=f"Expected: {_EXPECTED}.",
            )
    _, marker, after = row["answer"].rpartition("####")
    number = last_number(after) if marker else None
    if number is None:
        raise UsageError(
            f'{where}, field "answer": it does not end with "#### " and a number.',
            hint='GSM8K\'s answers end like "... 48+24 = 72 clips.\\n#### 72".',
        )
    return {"question": row["question"], "solution": row["answer"], "answer": number}


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
