"""What is asked of the hub, and which of its fields are read: against a stand-in for it."""

from __future__ import annotations

from typing import Any

import pytest

from mars_cli.errors import UsageError
from tests.unit.tasks.loading import load

ROWS: dict[str, dict[str, Any]] = {
    "mars_aime25": {"problem": "p", "answer": "70", "id": "0"},
    "mars_alpaca": {"instruction": "i", "input": "", "output": "o", "text": "t"},
    "mars_cnndm": {"article": "a", "highlights": "h", "id": "f"},
    "mars_gsm8k": {"question": "q", "answer": "#### 3"},
    "mars_math500": {
        **{"problem": "p", "solution": "s", "answer": "\\pi", "subject": "Algebra"},
        **{"level": 1, "unique_id": "test/algebra/1.json"},
    },
    "mars_mbpp": {
        **{"task_id": 11, "text": "t", "code": "c = 1", "test_list": ["assert c"]},
        **{"test_setup_code": "", "challenge_test_list": []},
    },
    "mars_mtbench": {
        **{"prompt": ["one", "two"], "prompt_id": 7, "category": "writing", "reference": []},
    },
    "mars_wmt19_zhen": {"translation": {"zh": "好", "en": "good"}},
}
ASKED: dict[str, tuple[tuple[str, str | None], dict[str, Any]]] = {
    "mars_aime25": (("math-ai/aime25", None), {"split": "test"}),
    "mars_alpaca": (("tatsu-lab/alpaca", None), {"split": "train[:80]"}),
    "mars_cnndm": (
        ("abisee/cnn_dailymail", None),
        {
            "split": "test",
            "data_files": {"test": "3.0.0/test-*"},
            "verification_mode": "no_checks",
        },
    ),
    "mars_gsm8k": (("openai/gsm8k", "main"), {"split": "test"}),
    "mars_math500": (("HuggingFaceH4/MATH-500", None), {"split": "test"}),
    "mars_mbpp": (("google-research-datasets/mbpp", "full"), {"split": "test"}),
    "mars_mtbench": (("HuggingFaceH4/mt_bench_prompts", None), {"split": "train"}),
    "mars_wmt19_zhen": (
        ("wmt/wmt19", None),
        {
            "split": "validation",
            "data_files": {"validation": "zh-en/validation-*"},
            "verification_mode": "no_checks",
        },
    ),
}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """What `datasets.load_dataset` is called with; it gives one row of the data set's fields."""
    import datasets

    found: list[tuple[Any, Any]] = []
    rows = {asked[0][0]: ROWS[name] for name, asked in ASKED.items()}

    def load_dataset(repo: str, config: str | None = None, **how: Any) -> Any:
        found.append(((repo, config), how))
        return datasets.Dataset.from_list([rows.get(repo, ROWS["mars_gsm8k"])])

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return found


@pytest.mark.parametrize("name", ROWS)
def test_the_data_set_is_asked_for_by_its_split_and_its_fields_are_read(
    manager: Any, calls: list[tuple[Any, Any]], name: str
) -> None:
    task = load(manager, name)
    ((repo, how),) = calls
    assert (repo, how) == (ASKED[name][0], {**ASKED[name][1], "revision": None})
    assert len(task.eval_docs) == 1
    assert task.doc_to_text(task.eval_docs[0])


def test_another_data_set_is_asked_for_in_the_same_way(
    manager: Any, calls: list[tuple[Any, Any]]
) -> None:
    load(manager, "mars_gsm8k", data_file="hub:me/mine@v2")
    assert calls == [(("me/mine", "main"), {"split": "test", "revision": "v2"})]


def test_a_row_without_a_field_is_named_with_its_number(
    manager: Any, calls: list[tuple[Any, Any]]
) -> None:
    expected = 'me/mine, row 0, field "article": a non-empty string was expected, but it is missing'
    with pytest.raises(UsageError, match=expected):
        load(manager, "mars_cnndm", data_file="hub:me/mine")
    assert calls == [(("me/mine", "3.0.0"), {"split": "test", "revision": None})]


def test_without_a_hub_it_is_said_how_to_give_the_data(
    manager: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datasets

    def unreachable(*_: Any, **__: Any) -> None:
        raise ConnectionError("no route\nto the hub")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    with pytest.raises(UsageError, match=r"openai/gsm8k .*no route to the hub") as caught:
        load(manager, "mars_gsm8k")
    assert "--data mars_gsm8k=FILE" in (caught.value.hint or "")
    assert "MARS_DATA" in (caught.value.hint or "")
