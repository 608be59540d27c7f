"""Real files, where they are to be had: each is read whole, and its gold answers score full."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from mars_cli.scoring import sandbox
from tests.unit.tasks.loading import grade, load

pytestmark = pytest.mark.data


@pytest.fixture
def folder() -> Path:
    named = os.environ.get("MARS_TEST_DATA")
    if not named:
        pytest.skip("MARS_TEST_DATA is not set: a folder with gsm8k/test.jsonl and others")
    return Path(named)


def read(manager: Any, name: str, path: Path) -> Any:
    if not path.exists():
        pytest.skip(f"MARS_TEST_DATA holds no {path.parent.name}/{path.name}")
    return load(manager, name, data_file=str(path))


@pytest.mark.parametrize(
    ("name", "file", "documents"),
    [
        ("mars_gsm8k", "gsm8k/test.jsonl", 1319),
        ("mars_gsm8k", "gsm8k/train-first60.jsonl", 60),
        ("mars_aime25", "prompts/aime2025.jsonl", 30),
        ("mars_cnndm", "prompts/sum.jsonl", 80),
    ],
)
def test_every_gold_answer_scores_one_and_none_zero(
    manager: Any, folder: Path, name: str, file: str, documents: int
) -> None:
    task = read(manager, name, folder / file)
    assert len(task.eval_docs) == documents
    for doc in task.eval_docs:
        assert grade(task, doc, task.doc_to_target(doc)) == pytest.approx(1.0)
        assert grade(task, doc, "") == 0.0


@pytest.mark.parametrize(
    ("name", "file", "turns"),
    [
        ("mars_mtbench", "prompts/mt_bench.jsonl", 2),
        ("mars_alpaca", "prompts/alpaca.jsonl", 1),
        ("mars_alpaca", "prompts/qa.jsonl", 1),
    ],
)
def test_questions_are_read_with_all_their_turns(
    manager: Any, folder: Path, name: str, file: str, turns: int
) -> None:
    task = read(manager, name, folder / file)
    assert len(task.eval_docs) == 80
    assert {len(doc["turns"]) for doc in task.eval_docs} == {turns}
    assert len({task.doc_to_text(doc) for doc in task.eval_docs}) == 80


def test_references_of_wmt19_have_bleu_and_chrf_100(manager: Any, folder: Path) -> None:
    task = read(manager, "mars_wmt19_zhen", folder / "prompts" / "wmt19.jsonl")
    assert len(task.eval_docs) == 100
    parts = [task.process_results(doc, [task.doc_to_target(doc)]) for doc in task.eval_docs]
    for name, aggregate in task.aggregation().items():
        assert aggregate([part[name] for part in parts]) == pytest.approx(100.0)


def test_code_of_mbpp_passes_its_own_tests(manager: Any, folder: Path) -> None:
    task = read(manager, "mars_mbpp", folder / "mbpp" / "mbpp.jsonl")
    assert len(task.eval_docs) == 500
    sandbox.allow()
    for doc in task.eval_docs:
        assert grade(task, doc, task.doc_to_target(doc)) == 1.0, doc["task_id"]
    assert grade(task, doc, "```python\npass\n```") == 0.0
