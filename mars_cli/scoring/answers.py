r"""Numbers as people and models write them: finding the answer in a text, and comparing two.

Order of preference of `final_answer`, each looked for in the text after its thinking block:

1. `#### 18`: the last such marker that a number follows, not the words of a heading;
2. `\boxed{18}`: the last one that holds a number;
3. "the answer is 18", "Answer: 18": the last one with a number in its sentence;
4. otherwise the last number of the text.

In the segment that 1 to 3 point at, the first number counts (`#### 18 dollars for 3 days` is 18),
or the first one after the last `=` (`#### 3 * 6 = 18`).

Numbers are returned in one plain spelling ("1234", "-3", "7/8", "0.5"): no thousands separators,
no currency, no trailing point. Units and percent signs are not part of a number: `50%` is 50.
Comparison is exact (fractions, never floats): 18.00 equals 18, 0.33 does not equal 1/3.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from fractions import Fraction

# Commas count only as thousands separators ("1,234" but not "1,2"), so a list of numbers stays a
# list; a point belongs to a number only when a digit follows it, so "18." is 18.
_DIGITS = r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)"
# A sign is one only where no operand stands right before it: "16-3" ends in 3, not in -3. A number
# is not glued to a letter, or to another number's decimal point ("H2O", "x_1", "1.2.3").
_NUMBER = re.compile(
    rf"""
    (?:(?<![0-9A-Za-z_.)\]}}%])(?P<sign>[+-])(?:[$€£¥][ ]?)?)?
    (?<![0-9A-Za-z_])(?<![0-9]\.)
    (?:
        (?P<whole>[0-9]+)[ ](?P<part>[0-9]+/[0-9]+)(?!\.?[0-9]|/)
      | (?<![0-9]/)(?P<top>{_DIGITS})[ ]?/[ ]?(?P<bottom>{_DIGITS})(?!\.?[0-9]|/)
      | (?P<decimal>(?:{_DIGITS}(?:\.[0-9]+)?|(?<!\.)\.[0-9]+)
                    (?:[eE][+-]?[0-9]{{1,3}}(?![0-9A-Za-z]))?)
    )
    """,
    re.VERBOSE,
)

_HASHES = re.compile(r"(?<!#)####(?!#)\s*([^\n]*)")
_BOX = re.compile(r"\\f?box(?:ed)?\s*\{")
_ANSWER = re.compile(
    r"\banswer\b[^.\n:=]{0,60}?(?:\bis\b|\bwas\b|[:=])[\s*_:]*(?=([^\n]*))", re.IGNORECASE
)
_SENTENCE_END = re.compile(r"\.(?=\s|$)")
_ANSWER_WORDS = re.compile(r"\\[A-Za-z]+|\b(?:the|final|answer|is)\b", re.IGNORECASE)

# The minus sign, the en dash and two typographic variants, all used for "minus".
_MINUS = str.maketrans(dict.fromkeys("\u2212\u2013\ufe63\uff0d", "-") | {"\u2044": "/"})
_SPELLINGS = (
    (re.compile(r"(?<=[0-9])(?:\{,\}|,\\!)(?=[0-9])"), ","),  # LaTeX 1{,}234
    (re.compile(r"(?<=[0-9])(?:\\[,!;: ]|[\u00a0\u2009\u202f])(?=[0-9]{3}(?![0-9]))"), ""),
    (re.compile(r"\\\$"), "$"),
    (re.compile(r"(?<=[0-9])\s*\\[dt]?frac\s*\{(\d+)\}\s*\{(\d+)\}"), r" \1/\2"),
    (re.compile(r"\\[dt]?frac\s*\{(\d+)\}\s*\{(\d+)\}"), r"\1/\2"),
)


def strip_thinking(text: str) -> str:
    """The text after its `<think>` block; "" if the thinking never ended (so: no answer yet).

    A lone `</think>` counts too: some chat templates put the opening tag into the prompt.
    """
    _, closed, rest = text.rpartition("</think>")
    return rest if closed else text.partition("<think>")[0]


def last_number(text: str) -> str | None:
    """The last number of `text` in plain spelling, or None."""
    return next(iter(deque(_numbers(text), maxlen=1)), None)


def final_answer(text: str) -> str | None:
    """The number that `text` gives as its answer, by the module's order of preference, or None."""
    text = strip_thinking(text)
    for segments in (_after_hashes(text), _boxed(text), _after_answer(text)):
        for segment in reversed(list(segments)):
            if (number := _first_number(segment)) is not None:
                return number
    return last_number(text)


def same_number(first: str | None, second: str | None) -> bool:
    """Whether both hold a number and their (last) numbers are exactly equal."""
    values = [None if text is None else _value(last_number(text)) for text in (first, second)]
    return values[0] is not None and values[0] == values[1]


def _numbers(text: str) -> Iterator[str]:
    text = text.translate(_MINUS)
    for pattern, replacement in _SPELLINGS:
        text = pattern.sub(replacement, text)
    for match in _NUMBER.finditer(text):
        sign = "-" if match["sign"] == "-" else ""
        if match["whole"]:
            number = _mixed(match["whole"], match["part"])
        elif match["top"]:
            number = f"{match['top']}/{match['bottom']}"
        else:
            decimal = match["decimal"].lower()
            number = f"0{decimal}" if decimal.startswith(".") else decimal
        yield sign + number.replace(",", "")


def _mixed(whole: str, part: str) -> str:
    top, _, bottom = part.partition("/")
    try:
        return f"{int(whole) * int(bottom) + int(top)}/{bottom}"
    except ValueError:  # more digits than Python converts: no number that anyone meant
        return part


def _value(number: str | None) -> Fraction | None:
    try:
        return None if number is None else Fraction(number)
    except (ValueError, ZeroDivisionError):  # thousands of digits; 5/0
        return None


def _first_number(segment: str) -> str | None:
    sentence = _SENTENCE_END.split(segment, maxsplit=1)[0]
    after_equals = next(_numbers(sentence.rpartition("=")[2]), None)
    return after_equals if after_equals is not None else next(_numbers(sentence), None)


def _after_hashes(text: str) -> Iterator[str]:
    """The rest of the line after each `####`, leaving out headings (`#### Step 3: ...`)."""
    for match in _HASHES.finditer(text):
        before_digits = re.split(r"[0-9]", _ANSWER_WORDS.sub("", match[1]), maxsplit=1)[0]
        if "=" in match[1] or not re.search(r"[A-Za-z]", before_digits):
            yield match[1]


def _boxed(text: str) -> Iterator[str]:
    r"""What each `\boxed{...}` holds, braces balanced; to the end of the line if never closed."""
    for match in _BOX.finditer(text):
        depth, end = 1, match.end()
        while end < len(text) and text[end] != "\n" and depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        yield text[match.end() : end if depth else end - 1]


def _after_answer(text: str) -> Iterator[str]:
    for match in _ANSWER.finditer(text):
        yield match[1]
