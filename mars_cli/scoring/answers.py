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

_HASHES = re.compile(r"(?<!#)####(?!#)\s*((?:(?!####)[^\n])*)")
# An escaped brace belongs to a set, not to a box.
_BRACE = re.compile(r"(?P<box>\\f?box(?:ed)?\s*\{)|\\.|(?P<open>\{)|(?P<close>\})", re.DOTALL)
# Answers that go round in circles on one line make these overlap: hence the limit.
_ANSWER = re.compile(
    r"\banswer\b[^.\n:=]{0,60}?(?:\bis\b|\bwas\b|[:=])[\s*_:]*(?=([^\n]{0,300}))", re.IGNORECASE
)
_SENTENCE_END = re.compile(r"\.(?=\s|$)")
_ANSWER_WORDS = re.compile(r"\\[A-Za-z]+|\b(?:the|final|answer|is)\b", re.IGNORECASE)

# The minus sign, the en dash and two typographic variants, all used for "minus".
_MINUS = str.maketrans(dict.fromkeys("\u2212\u2013\ufe63\uff0d", "-") | {"\u2044": "/"})
_SPELLINGS = (
    (re.compile(r"(?<=[0-9])(?:\{,\}|,\\!)\s*(?=[0-9])"), ","),  # LaTeX 1{,}234
    (re.compile(r"(?<=[0-9])(?:\\[,!;: ]|[\u00a0\u2009\u202f])(?=[0-9]{3}(?![0-9]))"), ""),
    (re.compile(r"\\\$"), "$"),
    (re.compile(r"\\[cdt]?frac\s*(\d)\s*(\d)"), r"\\frac{\1}{\2}"),
    (re.compile(r"(?<=[0-9])\s*\\[cdt]?frac\s*\{\s*(\d+)\s*\}\s*\{\s*(\d+)\s*\}"), r" \1/\2"),
    (re.compile(r"\\[cdt]?frac\s*\{\s*(-?\d+)\s*\}\s*\{\s*(\d+)\s*\}"), r"\1/\2"),
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


def plain_number(text: str) -> Fraction | None:
    """The value of `text` if it is one number and nothing else (but for a `$`), or None."""
    match = _NUMBER.fullmatch(_plainly(text).strip("$ "))
    return None if match is None else _value(_spelt(match))


def after_hashes(text: str) -> list[str]:
    """The rest of the line after each `####`, without those of headings (`#### Step 3: ...`)."""

    def is_heading(line: str) -> bool:
        before_digits = re.split(r"[0-9]", _ANSWER_WORDS.sub("", line), maxsplit=1)[0]
        return "=" not in line and re.search(r"[A-Za-z]", before_digits) is not None

    return [match[1] for match in _HASHES.finditer(text) if not is_heading(match[1])]


def boxed(text: str) -> list[str]:
    r"""What each `\boxed{...}` holds, in order; if it is never closed, to the end of its line."""
    opened: list[tuple[bool, int]] = []
    found: list[tuple[int, int]] = []
    for token in _BRACE.finditer(text):
        if token["box"] or token["open"]:
            opened.append((bool(token["box"]), token.end()))
        elif token["close"] and opened:
            is_box, start = opened.pop()
            if is_box:
                found.append((start, token.start()))
    unclosed = [start for is_box, start in opened if is_box]
    if unclosed:
        end = text.find("\n", unclosed[-1])
        found.append((unclosed[-1], end if end >= 0 else len(text)))
    return [text[start:end] for start, end in sorted(found)]


def after_answer(text: str) -> list[str]:
    """The rest of the line after each "the answer is" or "Answer:", in order."""
    return [match[1] for match in _ANSWER.finditer(text)]


def first_sentence(text: str) -> str:
    """`text` up to its first full stop."""
    return _SENTENCE_END.split(text, maxsplit=1)[0]


def final_answer(text: str) -> str | None:
    """The number that `text` gives as its answer, by the module's order of preference, or None."""
    text = strip_thinking(text)
    for segments in (after_hashes(text), boxed(text), after_answer(text)):
        for segment in reversed(segments):
            if (number := _first_number(segment)) is not None:
                return number
    return last_number(text)


def same_number(first: str | None, second: str | None) -> bool:
    """Whether both hold a number and their (last) numbers are exactly equal."""
    values = [None if text is None else _value(last_number(text)) for text in (first, second)]
    return values[0] is not None and values[0] == values[1]


def _numbers(text: str) -> Iterator[str]:
    return map(_spelt, _NUMBER.finditer(_plainly(text)))


def _plainly(text: str) -> str:
    text = text.translate(_MINUS)
    for pattern, replacement in _SPELLINGS:
        text = pattern.sub(replacement, text)
    return text


def _spelt(match: re.Match[str]) -> str:
    sign = "-" if match["sign"] == "-" else ""
    if match["whole"]:
        number = _mixed(match["whole"], match["part"])
    elif match["top"]:
        number = f"{match['top']}/{match['bottom']}"
    else:
        decimal = match["decimal"].lower()
        number = f"0{decimal}" if decimal.startswith(".") else decimal
    return sign + number.replace(",", "")


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
    sentence = first_sentence(segment)
    after_equals = next(_numbers(sentence.rpartition("=")[2]), None)
    return after_equals if after_equals is not None else next(_numbers(sentence), None)
