"""Numbers are read as people and models write them, and compared exactly."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mars_cli.scoring.answers import final_answer, last_number, same_number, strip_thinking


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("#### 18", "18"),
        ("#### 18 dollars", "18"),
        ("$18.00", "18.00"),
        (r"\$18", "18"),
        ("**18**", "18"),
        (r"\boxed{18}", "18"),
        (r"$\boxed{\text{70}}$", "70"),
        (r"336^\circ", "336"),
        ("1,234", "1234"),
        ("$1,234,567.89.", "1234567.89"),
        (r"1{,}234 and 5", "5"),
        (r"so 1{,}234", "1234"),
        ("1\u202f234", "1234"),
        ("18.", "18"),
        ("It is 18...", "18"),
        ("...18", "18"),
        ("-3", "-3"),
        ("(-3)", "-3"),
        ("+3", "3"),
        ("\u22123", "-3"),
        ("it is \u20133 degrees", "-3"),
        ("-$5", "-5"),
        ("$-5.50", "-5.50"),
        ("7/8", "7/8"),
        ("7 / 8 of it.", "7/8"),
        (r"\frac{7}{8}", "7/8"),
        (r"-\dfrac{7}{8}", "-7/8"),
        ("3 1/2 cups", "7/2"),
        (r"2\frac{1}{2}", "5/2"),
        (".5", "0.5"),
        ("-.5", "-0.5"),
        ("50%", "50"),
        ("1.5e3", "1.5e3"),
        ("18km", "18"),
    ],
)
def test_a_number_is_read_in_each_spelling(text: str, number: str) -> None:
    assert last_number(text) == number
    assert final_answer(text) == number or text.startswith("1{,}")


@pytest.mark.parametrize("text", ["", "none", "H2O", "x_1 is a name", "eighteen"])
def test_what_is_no_number_is_not_taken_for_one(text: str) -> None:
    assert final_answer(text) is None


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("16-3", "3"),  # subtraction, not minus three
        ("pages 5\u201310", "10"),  # a range
        ("1,2,3", "3"),  # a list
        ("12/25/2020", "2020"),  # a date
        ("1.2.3", "1.2"),  # a version: nothing sensible, but no invented 2.3
    ],
)
def test_what_looks_like_a_sign_or_separator_is_told_apart(text: str, number: str) -> None:
    assert last_number(text) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("#### 3\nno, wait\n#### 5", "5"),
        ("#### 18 dollars for 3 days\nThat is what 2 people earn.", "18"),
        ("#### 3 * 6 = 18 dollars", "18"),
        ("#### **$18**", "18"),
        ("#### Answer: $1,234.50 for 3 of them", "1234.50"),
        ("#### Step 3: add them\nThe sum is 18", "18"),
        ("#### 7\n#### Step 2: check it", "7"),
        ("####\n18", "18"),
        (r"\boxed{5} apples, of which \boxed{\frac{1}{2}} is left; 3 remain", "1/2"),
        (r"\boxed{x = 18} of 20", "18"),
        (r"\boxed{18 \text{ in 3 days}}", "18"),
        (r"\boxed{18", "18"),
        (r"The answer is 4. But #### 5 and \boxed{6}", "5"),
        (r"The answer is 4. But \boxed{6}", "6"),
        ("The answer is 4. I used 3 steps.", "4"),
        ("**Answer:** 18 apples in 3 bags", "18"),
        ("**Answer**: 18 apples in 3 bags", "18"),
        ("Answer:\n\n18\n\nI used 3 steps", "18"),
        ("The answer to the problem is: 5 + 3 = 8. So 4 = 4", "8"),
        ("The answer is 4, no: the answer is 5, see page 9", "5"),
        ("There are 3 bags, so 18 in all.", "18"),
    ],
)
def test_the_stated_order_of_preference_holds(text: str, number: str) -> None:
    assert final_answer(text) == number


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("<think>\n#### 4\n</think>\n5", "\n5"),
        ("#### 4 it was</think>5", "5"),
        ("<think>a</think><think>b</think>5", "5"),
        ("before <think> 4, I think", "before "),
        ("5", "5"),
    ],
)
def test_thinking_is_not_part_of_the_answer(text: str, rest: str) -> None:
    assert strip_thinking(text) == rest


def test_thinking_that_never_ended_gives_no_answer() -> None:
    assert final_answer("<think>so far 4, and #### 5") is None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("18.00", "18"),
        ("$1,234", "1234"),
        ("1/2", ".5"),
        ("-0", "0"),
        ("1e3", "1000"),
        ("6/4", "3/2"),
    ],
)
def test_equal_values_in_different_spellings_are_the_same(first: str, second: str) -> None:
    assert same_number(first, second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("18", "-18"),
        ("0.33", "1/3"),
        ("0.1", "0.10000000000000000555"),  # equal as floats
        ("9007199254740993", "9007199254740992"),  # equal as floats
        ("18", None),
        (None, None),
        ("", ""),
        ("5/0", "5/0"),
        ("9" * 5000, "9" * 5000),  # more digits than Python converts: no one's answer
    ],
)
def test_different_or_absent_values_are_not_the_same(first: str | None, second: str | None) -> None:
    assert not same_number(first, second)


@settings(deadline=None)
@given(st.integers(-(10**12), 10**12), st.sampled_from(["{:d}", "{:,d}", "{:d}.00", "{:,d}."]))
def test_every_integer_comes_back_from_every_format(value: int, form: str) -> None:
    assert Fraction(final_answer(f"So #### {form.format(value)}\n") or "nan/1") == value


@settings(deadline=None)
@given(st.decimals(-(10**9), 10**9, places=4))
def test_every_decimal_comes_back_exactly(value: Decimal) -> None:
    assert Fraction(last_number(f"It is {value:f}.") or "nan/1") == Fraction(value)


@settings(deadline=None)
@given(st.text())
def test_no_text_makes_the_reader_fail(text: str) -> None:
    number = final_answer(text)
    assert number is None or same_number(number, number) or number.endswith("0")


@pytest.mark.data
def test_every_gold_answer_of_gsm8k_is_graded_right_in_each_style() -> None:
    folder = os.environ.get("MARS_TEST_DATA")
    if not folder:
        pytest.skip("MARS_TEST_DATA is not set: a folder with gsm8k/test.jsonl")
    lines = (Path(folder) / "gsm8k" / "test.jsonl").read_text(encoding="utf-8").splitlines()
    answers = [json.loads(line)["answer"] for line in lines]
    assert len(answers) == 1319
    for answer in answers:
        gold = answer.rpartition("#### ")[2].replace(",", "").strip()
        value = int(gold)
        written = [
            answer,
            f"The steps take 3 lines.\n#### {value}",
            f"#### {value} dollars",
            f"#### ${value:,}.00",
            f"So there are **{value}** in all.",
            rf"Thus $\boxed{{{value}}}$ in 3 steps",
            rf"\boxed{{\text{{{value:,}}}}}",
            f"#### 1\nNo, that was wrong.\n#### {value}",
            f"The answer is {value}.",
            f"Answer: {value:,} (7 more than before)",
            f"#### {value}".replace("-", "\u2212"),
            f"<think>#### 99999999</think>{value}%",
        ]
        for text in written:
            assert same_number(final_answer(text), gold), text
            assert not same_number(final_answer(text), str(value + 1)), text
