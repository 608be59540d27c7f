"""Loading tasks by name: groups, data by reference, what is refused before anything is fetched."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from mars_cli.errors import UsageError
from mars_cli.evaluation.tasks import data_facts, load_tasks

LM_EVAL = Path(pytest.importorskip("lm_eval").__file__).parent / "tasks"

ROW = {"question": "How many?", "answer": "#### 3"}
GROUP = "group: pair\ntask: [mars_gsm8k, mars_products]\n"


@pytest.fixture(autouse=True)
def _no_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MARS_DATA", raising=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine" / "rows.jsonl"
    path.parent.mkdir()
    path.write_text(json.dumps(ROW) + "\n")
    return path


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    """A folder with a group of two tasks of ours."""
    folder = tmp_path / "yaml"
    folder.mkdir()
    (folder / "pair.yaml").write_text(GROUP)
    return folder


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The data sets asked of a hub, which holds one row of GSM8K by any name."""
    import datasets

    asked: list[str] = []

    def load_dataset(path: str, name: str | None = None, **how: Any) -> Any:
        asked.append(path)
        rows = datasets.Dataset.from_list([ROW])
        return rows if how.get("split") else datasets.DatasetDict(train=rows, test=rows)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return asked


def test_a_reference_replaces_the_tasks_own_data(file: Path) -> None:
    (task,) = load_tasks(["mars_gsm8k"], data={"mars_gsm8k": str(file)})
    assert [doc["question"] for doc in task.definition.eval_docs] == ["How many?"]


def test_a_group_stands_for_its_members_and_data_for_one_of_them(file: Path, pair: Path) -> None:
    tasks = load_tasks(["pair"], include=[pair], data={"mars_gsm8k": file})
    assert [task.name for task in tasks] == ["mars_gsm8k", "mars_products"]
    assert [len(task.definition.eval_docs) for task in tasks] == [1, 100]
    again = load_tasks(["mars_products", "pair"], include=[pair], data={"mars_gsm8k": file})
    assert [task.name for task in again] == ["mars_products", "mars_gsm8k"]


def test_the_data_folder_serves_every_task_that_reads_data(
    file: Path, pair: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.rename(file.with_name("mars_gsm8k.jsonl"))
    file.with_name("mars_products.jsonl").write_text("not read: this task generates")
    monkeypatch.setenv("MARS_DATA", str(file.parent))
    tasks = load_tasks(["pair"], include=[pair])
    assert [len(task.definition.eval_docs) for task in tasks] == [1, 100]


def test_a_reference_goes_before_the_data_folder(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARS_DATA", str(tmp_path))
    (tmp_path / "mars_gsm8k.jsonl").write_text("broken")
    (task,) = load_tasks(["mars_gsm8k"], data={"mars_gsm8k": file})
    assert len(task.definition.eval_docs) == 1


def test_facts_tell_source_size_and_sha256_of_a_file(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = file.read_bytes()
    expected = {
        "source": str(file),
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "documents": 1,
    }
    tasks = load_tasks(["mars_gsm8k"], data={"mars_gsm8k": file})
    assert data_facts(tasks) == {"mars_gsm8k": expected}

    found = tmp_path / "mars_gsm8k.jsonl"
    found.write_bytes(content)
    monkeypatch.setenv("MARS_DATA", str(tmp_path))
    assert data_facts(load_tasks(["mars_gsm8k"])) == {
        "mars_gsm8k": {**expected, "source": str(found)}
    }


def test_facts_of_what_is_no_file_change_with_the_documents(
    hub: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = data_facts(load_tasks(["mars_gsm8k", "mars_products"]))
    assert before["mars_gsm8k"]["source"] == "hub:openai/gsm8k"
    assert before["mars_products"]["source"] == "generated: reasoning-gym products"
    assert [facts["documents"] for facts in before.values()] == [1, 100]
    monkeypatch.setitem(ROW, "question", "How few?")
    after = data_facts(load_tasks(["mars_gsm8k", "mars_products"]))
    assert after["mars_products"] == before["mars_products"]
    assert after["mars_gsm8k"].keys() == before["mars_gsm8k"].keys()
    assert after["mars_gsm8k"]["documents_sha256"] != before["mars_gsm8k"]["documents_sha256"]


def test_a_reference_may_be_a_data_set_on_the_hub(hub: list[str]) -> None:
    (task,) = load_tasks(["mars_gsm8k"], data={"mars_gsm8k": "hub:me/mine"})
    assert hub == ["me/mine"]
    assert data_facts([task])["mars_gsm8k"]["source"] == "hub:me/mine"


def test_a_task_of_lm_evals_own_is_its_definition_exactly(hub: list[str]) -> None:
    (task,) = load_tasks(["gsm8k"], include=[LM_EVAL / "gsm8k"])
    (doc,) = task.definition.eval_docs
    assert task.definition.doc_to_text(doc) == "Question: How many?\nAnswer:"
    assert task.metric == "exact_match,strict-match"
    assert data_facts([task]) == {"gsm8k": {"source": "openai/gsm8k main", "documents": 1}}


@pytest.mark.parametrize(
    ("names", "data", "message"),
    [
        (["mars_products"], {"mars_gsm8k": "x"}, "--data mars_gsm8k: is not among --tasks"),
        (["mars_gsm8k"], {"mars_gsm8k": "gone.jsonl"}, "--data mars_gsm8k=gone.jsonl: no such"),
        (["mars_gsm8k"], {"mars_gsm8k": "hub:mine"}, "hub:mine is not of the form hub:org/name"),
        (["mars_products"], {"mars_products": __file__}, "mars_products generates its documents"),
    ],
)
def test_a_reference_that_cannot_serve_is_refused(
    names: list[str], data: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        load_tasks(names, data=data)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("name", "folder", "message"),
    [
        ("mbpp", "mbpp", "mbpp: lm-eval scores it by running code .* outside any sandbox"),
        ("humaneval_instruct", "humaneval", "humaneval_instruct: lm-eval scores it by running"),
        ("piqa", "piqa", "piqa: scores the likelihood of given answers"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_before_its_data_is_fetched(
    hub: list[str], name: str, folder: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        load_tasks([name], include=[LM_EVAL / folder])
    assert hub == []


def test_data_for_a_task_that_reads_none_is_refused(hub: list[str], file: Path) -> None:
    with pytest.raises(UsageError, match="--data gsm8k: this task reads no data of yours"):
        load_tasks(["gsm8k"], include=[LM_EVAL / "gsm8k"], data={"gsm8k": file})
    assert hub == []


def test_a_package_that_a_task_needs_is_named(tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text("import no_such_package\ndef dataset(**_): ...\n")
    (tmp_path / "odd.yaml").write_text(
        "task: odd\ncustom_dataset: !function odd.dataset\noutput_type: generate_until\n"
    )
    with pytest.raises(UsageError, match=r"--tasks odd: needs a package .*no_such_package"):
        load_tasks(["odd"], include=[tmp_path])
