"""Tasks whose documents are made on the spot."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from typing import Any

import pytest

from mars_cli.errors import UsageError
from mars_cli.resources import tasks_dir
from tests.unit.tasks.loading import grade, load


@pytest.mark.parametrize(
    ("name", "documents", "digest"),
    [
        ("mars_products", 100, "92f4b133a941ce75"),
        ("mars_gsm_symbolic", 200, "409181593efe6b02"),
    ],
)
def test_generated_documents_are_always_the_same_and_none_repeats(
    manager: Any, name: str, documents: int, digest: str
) -> None:
    docs = list(load(manager, name).eval_docs)
    assert len(docs) == documents
    assert len({doc["question"] for doc in docs}) == documents
    assert hashlib.sha256(json.dumps(docs).encode()).hexdigest()[:16] == digest


@pytest.mark.parametrize("name", ["mars_products", "mars_gsm_symbolic"])
def test_generated_gold_answers_score_one_and_wrong_ones_zero(manager: Any, name: str) -> None:
    task = load(manager, name)
    for doc in task.eval_docs:
        gold = doc["answer"]
        assert grade(task, doc, task.doc_to_target(doc)) == 1.0
        assert grade(task, doc, f"There are 3 steps.\n#### {gold}") == 1.0
        assert grade(task, doc, f"The answer is {gold}.") == 1.0
        assert grade(task, doc, f"#### {gold}1") == 0.0
        assert grade(task, doc, "") == 0.0


def test_products_are_right() -> None:
    from reasoning_gym import create_dataset

    for item in create_dataset("products", seed=42, size=20, min_digits=1, max_digits=1):
        left, right = item["metadata"]["expression"].split(" * ")
        assert int(left) * int(right) == int(item["answer"])


@pytest.mark.parametrize("name", ["mars_products", "mars_gsm_symbolic"])
def test_a_data_file_for_a_task_that_reads_none_is_refused(manager: Any, name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} .*reads no file.*x.jsonl"):
        load(manager, name, data_file="x.jsonl")


def test_generated_tasks_need_no_compiler() -> None:
    """pycosat ships as source; a machine that could not build it still has the tasks."""
    code = (
        "import sys, importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'pycosat' else find(name, *a)\n"
        "class Absent:\n"
        "    def find_spec(self, name, *a):\n"
        "        if name == 'pycosat': raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        f"sys.path.insert(0, {str(tasks_dir())!r})\n"
        "import reasoning; assert len(reasoning.products(seed=1, documents=3)['test']) == 3"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
