"""Our tasks, loaded through lm-eval, and their grades."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[3] / "tasks"


def load(manager: Any, name: str, **metadata: Any) -> Any:
    """One task; `metadata` is merged into its own, as the command line does for --data."""
    if not metadata:
        return manager.load([name])["tasks"][name]
    own = manager.task_index[name].cfg["metadata"]
    member = {"task": name, "metadata": {**own, **metadata}}
    return manager.load([{"group": "any", "task": [member]}])["tasks"][name]


def load_rows(manager: Any, name: str, file: Path, *rows: Mapping[str, Any]) -> Any:
    """The task over these rows, written to `file` as lines of JSON."""
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return load(manager, name, data_file=str(file))


def grade(task: Any, doc: Mapping[str, Any], text: str) -> float:
    (score,) = task.process_results(doc, [text]).values()
    return float(score)
