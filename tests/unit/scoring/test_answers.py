"""Numbers are read as people and models write them, and compared exactly."""

from __future__ import annotations

import time
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mars_cli.scoring.answers import (
    boxed,
    final_answer,
    last_number,
    plain_number,
    same_number,
    strip_thinking,
)


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
        (r"\frac{-7}{8}", "-7/8"),
        (r"\tfrac78", "7/8"),
        (r"\frac{ 7 }{ 8 }", "7/8"),
        ("3 1/2 cups", "7/2"),
        (r"2\frac{1}{2}", "5/2"),
        (r"2\frac12", "5/2"),
        (".5", "0.5"),
        ("-.5", "-0.5"),
        ("$.50", "0.50"),
        ("50%", "50"),
        (r"50\%", "50"),
        (r"\(18\)", "18"),
        (r"336^{\circ}", "336"),
        (r"11,\! 111,\! 100", "11111100"),
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
        ("####18", "18"),
        ("#### 5 #### 6", "6"),
        (r"#### $\boxed{18}$ in 3 days", "18"),
        (r"\boxed{5} apples, of which \boxed{\frac{1}{2}} is left; 3 remain", "1/2"),
        (r"\boxed{x = 18} of 20", "18"),
        (r"\boxed{18 \text{ in 3 days}}", "18"),
        (r"\boxed{18", "18"),
        ("\\boxed{\n18\n} in 3 days", "18"),
        (r"\boxed{\boxed{18}} of 20", "18"),
        (r"\boxed{18} and \boxed{} of 20", "18"),
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


@pytest.mark.parametrize(
    ("text", "contents"),
    [
        (r"\boxed{\frac{1}{2}} or \fbox{3}", [r"\frac{1}{2}", "3"]),
        (r"\boxed{\{1, 2\}}", [r"\{1, 2\}"]),
        (r"\boxed{\left\{ x \right.} {}", [r"\left\{ x \right."]),
        ("{ \\boxed{1} } } \\boxed{2 and {\n3", ["1", "2 and {"]),
        ("no box {5}", []),
    ],
)
def test_boxes_end_where_their_braces_balance(text: str, contents: list[str]) -> None:
    assert boxed(text) == contents


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("18", Fraction(18)),
        (r"\$1,234.50", Fraction("1234.5")),
        ("\u22123", Fraction(-3)),
        (r"\frac{3}{4}", Fraction(3, 4)),
        ("18 apples", None),
        ("1, 2", None),
        ("1 2", None),
        ("5x", None),
        ("5/0", None),
        ("", None),
    ],
)
def test_a_plain_number_is_a_number_and_nothing_else(text: str, value: Fraction | None) -> None:
    assert plain_number(text) == value


@pytest.mark.parametrize(
    "line",
    ["The answer is that ", "The answer is 5. ", r"\boxed{", "#### x ", "1/", "<think>", "9"],
)
def test_an_answer_that_goes_round_in_circles_is_read_in_no_time(line: str) -> None:
    begin = time.process_time()
    final_answer(line * (100_000 // len(line)))
    assert time.process_time() - begin < 5


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
