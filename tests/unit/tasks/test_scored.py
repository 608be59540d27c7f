"""Right answers score 1 (or 100) and wrong ones 0, task by task, over made-up documents."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from tests.unit.tasks.loading import grade, load_rows

GSM8K = {
    "question": "How many are 48 and 24?",
    "answer": "They are 48+24 = <<48+24=72>>72.\n#### 72",
}
BOXED = "put your final answer within \\boxed{}."


def test_gsm8k_takes_the_number_after_the_marker(manager: Any, tmp_path: Path) -> None:
    task = load_rows(manager, "mars_gsm8k", tmp_path / "f.jsonl", GSM8K)
    (doc,) = task.eval_docs
    assert doc == {**GSM8K, "solution": GSM8K["answer"], "answer": "72"}
    assert task.doc_to_text(doc).startswith(GSM8K["question"])
    assert "####" in task.doc_to_text(doc)
    assert grade(task, doc, task.doc_to_target(doc)) == 1.0
    assert grade(task, doc, "#### 72 of them") == 1.0
    assert grade(task, doc, "#### 71") == 0.0
    assert grade(task, doc, "") == 0.0


def test_math500_takes_any_form_of_the_same_value(manager: Any, tmp_path: Path) -> None:
    row = {"problem": "Halve $1$.", "answer": "\\frac{1}{2}", "unique_id": "test/algebra/1"}
    task = load_rows(manager, "mars_math500", tmp_path / "f.jsonl", row)
    (doc,) = task.eval_docs
    assert task.doc_to_text(doc) == f"Halve $1$.\n\nPlease reason step by step, and {BOXED}"
    assert task.doc_to_target(doc) == "The answer is $\\boxed{\\frac{1}{2}}$."
    assert grade(task, doc, task.doc_to_target(doc)) == 1.0
    assert grade(task, doc, "It is $\\boxed{0.5}$.") == 1.0
    assert grade(task, doc, "It is $\\boxed{\\frac{1}{3}}$.") == 0.0
    assert grade(task, doc, "") == 0.0


@pytest.mark.parametrize(
    "row",
    [
        {"problem": "Turn round.", "answer": "336", "id": "19"},
        {"turns": ["Turn round."], "reference": ["336^\\circ"]},
    ],
)
def test_aime_takes_the_number_alone(manager: Any, tmp_path: Path, row: dict[str, Any]) -> None:
    task = load_rows(manager, "mars_aime25", tmp_path / "f.jsonl", row)
    (doc,) = task.eval_docs
    asked = "Turn round." if "turns" in row else f"step by step, and {BOXED}"
    assert task.doc_to_text(doc).endswith(asked)
    assert grade(task, doc, task.doc_to_target(doc)) == 1.0
    assert grade(task, doc, "Hence $\\boxed{336^\\circ}$.") == 1.0
    assert grade(task, doc, "Hence $\\boxed{36}$.") == 0.0
    assert grade(task, doc, "") == 0.0


def test_rouge_l_is_of_the_longest_common_subsequence(manager: Any, tmp_path: Path) -> None:
    row = {"article": "It rained all day.", "highlights": "Rain fell all day ."}
    task = load_rows(manager, "mars_cnndm", tmp_path / "f.jsonl", row)
    (doc,) = task.eval_docs
    assert task.doc_to_text(doc) == "Summarize: It rained all day."
    assert grade(task, doc, task.doc_to_target(doc)) == 1.0
    assert grade(task, doc, "<think>Rain?</think>rain fell, all day") == 1.0
    # 3 of 4 words of the reference, 3 of 6 of the answer: 2PR / (P + R) = 0.6
    assert grade(task, doc, "rain came down all long day") == pytest.approx(0.6)
    assert grade(task, doc, "Snow.") == 0.0
    assert grade(task, doc, "") == 0.0


def test_a_translation_like_the_reference_has_bleu_and_chrf_100(
    manager: Any, tmp_path: Path
) -> None:
    pairs = [("下雨了。", "It is raining on the old town."), ("你好。", "Good morning to you all.")]
    rows = [{"translation": {"zh": zh, "en": en}} for zh, en in pairs]
    task = load_rows(manager, "mars_wmt19_zhen", tmp_path / "f.jsonl", *rows)
    docs = list(task.eval_docs)
    asked = "Translate this from Chinese to English:\nChinese: 下雨了。\nEnglish:"
    assert task.doc_to_text(docs[0]) == asked

    def score(answers: list[str]) -> dict[str, float]:
        pairs = zip(docs, answers, strict=True)
        parts = [task.process_results(doc, [answer]) for doc, answer in pairs]
        how = task.aggregation()
        return {name: how[name]([part[name] for part in parts]) for name in ("bleu", "chrf")}

    right = [task.doc_to_target(doc) for doc in docs]
    assert score(right) == pytest.approx({"bleu": 100.0, "chrf": 100.0})
    assert score([f"<think>hm</think>\n{text}\n" for text in right]) == score(right)
    assert score(["", ""]) == {"bleu": 0.0, "chrf": 0.0}
    assert 0 < score([right[0], "Good evening to you all."])["bleu"] < 100


@pytest.mark.parametrize("name", ["mars_mtbench", "mars_alpaca"])
def test_a_task_without_a_scorer_is_not_scored_rather_than_zero(
    manager: Any, tmp_path: Path, name: str
) -> None:
    task = load_rows(manager, name, tmp_path / "f.jsonl", {"turns": ["Hello?"]})
    (doc,) = task.eval_docs
    assert math.isnan(grade(task, doc, "Hello."))
    assert math.isnan(task.aggregation()["unscored"]([math.nan, math.nan]))


def test_an_alpaca_instruction_is_followed_by_its_input(manager: Any, tmp_path: Path) -> None:
    rows = [
        {"instruction": "Shout.", "input": "hello", "output": "HELLO"},
        {"instruction": "Shout.", "input": "", "output": "AH"},
    ]
    task = load_rows(manager, "mars_alpaca", tmp_path / "f.jsonl", *rows)
    assert [task.doc_to_text(doc) for doc in task.eval_docs] == ["Shout.\n\nhello", "Shout."]
