"""GSM8K's own answers, written in the ways models write, are graded right, and others wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mars_cli.scoring.answers import final_answer, same_number

pytestmark = pytest.mark.data

STYLES: dict[str, Callable[[int], str]] = {
    "hashes": lambda n: f"The steps take 3 lines.\n#### {n}",
    "hashes and a unit": lambda n: f"#### {n} dollars\n\nThat is for 2 days.",
    "dollars and cents": lambda n: f"#### ${n}.00",
    "bold": lambda n: f"Over 7 days that makes **{n}**",
    "bold at the end of a sentence": lambda n: f"Over 7 days, she earns **${n:,}.00**.",
    "boxed": lambda n: rf"Thus, in 3 steps, $\boxed{{{n}}}$ remain of 99.",
    "text in a box": lambda n: rf"\boxed{{\text{{{n} apples}}}}",
    "a degree": lambda n: rf"It turns by \({n}^\circ\).",
    "thousands": lambda n: f"The answer is {n:,}, which is 7 more than before.",
    "thousands in LaTeX": lambda n: f"So ${n:,}$".replace(",", "{,}"),
    "a full stop": lambda n: f"From 12 of them follows {n}.",
    "a label": lambda n: f"**Answer:** {n:,} (after 2 days)",
    "percent": lambda n: f"Of 150 it is {n}%",
    "unicode minus": lambda n: f"#### {n}".replace("-", "\u2212"),
    "corrected": lambda n: f"#### {n + 3}\nNo, that was wrong.\n#### {n}",
    "after thinking": lambda n: f"<think>\nIs it #### {n + 4}?\n</think>\n\nIt is {n}",
    "after a closing tag only": lambda n: rf"Is it \boxed{{{n + 4}}}? No.</think>It is {n}",
    "an equation": lambda n: f"#### {n - 5} + 5 = {n}",
}


@pytest.fixture(scope="module")
def golds() -> list[str]:
    folder = os.environ.get("MARS_TEST_DATA")
    if not folder:
        pytest.skip("MARS_TEST_DATA is not set: a folder with gsm8k/test.jsonl")
    lines = (Path(folder) / "gsm8k" / "test.jsonl").read_text(encoding="utf-8").splitlines()
    answers = [json.loads(line)["answer"] for line in lines]
    assert len(answers) == 1319
    return answers


@pytest.mark.parametrize("style", STYLES.values(), ids=list(STYLES))
def test_gold_numbers_are_right_in_this_style_and_others_wrong(
    golds: list[str], style: Callable[[int], str]
) -> None:
    for answer in golds:
        gold = answer.rpartition("#### ")[2]
        value = int(gold.replace(",", ""))
        assert same_number(final_answer(style(value)), gold), style(value)
        for wrong in (value + 1, value * 10 + 1, -value - 1):
            assert not same_number(final_answer(style(wrong)), gold), style(wrong)


def test_whole_gold_answers_are_right_unless_the_thinking_never_ended(
    golds: list[str],
) -> None:
    for answer in golds:
        gold = answer.rpartition("#### ")[2]
        assert same_number(final_answer(answer), gold)
        assert not same_number(final_answer(f"<think>{answer}"), gold)
