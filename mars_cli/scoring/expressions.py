r"""Answers that are formulas, words or numbers, as in MATH: finding them, and comparing two.

`final_expression` looks, in the text after its thinking block, for

1. `\boxed{...}`: the last one that is not empty;
2. `#### ...`, or else "the answer is ...", "Answer: ...": the last one, of it the first formula, or
   else the sentence;
3. the last formula ($...$, \(...\), \[...\]);
4. otherwise the last number of the text.

Two answers are the same if they are equal

- as numbers, exactly, where both are nothing but a number;
- as words, whatever their case, where the right answer is words (`\text{Evelyn}`, `\text{(C)}`);
- otherwise as mathematics, which the package math-verify decides: `\frac{3}{4}` and `0.75`,
  `1, -2` and `-2, 1`, `x^2+1` and `1+x^2`. Units, degrees and currencies do not count.

What cannot be shown to be equal within seconds counts as different.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import re
import subprocess
import sys
import threading
from functools import lru_cache
from pathlib import Path

from mars_cli.errors import MarsError
from mars_cli.scoring.answers import (
    after_answer,
    after_hashes,
    boxed,
    first_sentence,
    last_number,
    plain_number,
    strip_thinking,
)

# An answer cut off in the middle of a loop is longer, an exact answer never.
_LONGEST = 1000
_INNER = f"(.{{1,{_LONGEST}}}?)"
_FORMULA = re.compile(
    rf"\$\${_INNER}\$\$|(?<!\\)\${_INNER}(?<!\\)\$|\\\({_INNER}\\\)|\\\[{_INNER}\\\]", re.DOTALL
)
_TEXT = re.compile(r"\\(?:text|textbf|textit|textrm|mbox|mathrm|mathbf)\s*\{([^{}]*)\}")
_WORDS = re.compile(r"[^\W\d_]+(?:[ '-][^\W\d_]+)*")

_CHILD = Path(__file__).with_name("expressions_child.py")
_lock = threading.Lock()
_worker: subprocess.Popen[str] | None = None


def final_expression(text: str) -> str | None:
    """What `text` gives as its answer, as it is written there, by the order above, or None."""
    text = strip_thinking(text)
    for content in reversed(boxed(text)):
        if found := _bare(content):
            return found
    for line in reversed(after_hashes(text) or after_answer(text)):
        sentence = first_sentence(line)
        if found := next(iter(_formulas(sentence)), _bare(sentence)):
            return found
    formulas = _formulas(text)
    return formulas[-1] if formulas else last_number(text)


def same_expression(gold: str, answer: str | None) -> bool:
    """Whether `answer` is the right one, `gold`; an empty or absent one never is.

    Raises:
        MarsError: formulas have to be compared, and math-verify cannot be imported.
    """
    gold, answer = _bare(gold), _bare(answer or "")
    if not gold or not answer:
        return False
    is_words = _TEXT.search(gold) or re.search(r"(?<![\\A-Za-z])[A-Za-z]{3}", gold)
    words = _words(gold) if is_words else None
    gold, answer = _unwrapped(gold), _unwrapped(answer)
    if gold == answer:
        return True
    if words is not None:
        return words == _words(answer)
    numbers = plain_number(gold), plain_number(answer)
    if None not in numbers:
        return numbers[0] == numbers[1]
    return len(answer) <= _LONGEST and _equal(gold, answer)


def _formulas(text: str) -> list[str]:
    found = (_bare(next(filter(None, match.groups()))) for match in _FORMULA.finditer(text))
    return [formula for formula in found if formula]


def _bare(text: str) -> str:
    r"""`text` on one line without what only surrounds it: `$`, `\(`, `**`, a last point."""
    text = " ".join(text.split()).strip("*_ ").rstrip(". ")
    return re.sub(r"(?<!\\)\$|^\\[(\[]|\\[)\]]$", "", text).strip("*_ ").rstrip(". ")


def _unwrapped(text: str) -> str:
    r"""What `\text{...}` holds, if that is all there is."""
    whole = _TEXT.fullmatch(text)
    return whole[1].strip() if whole else text


def _words(text: str) -> str | None:
    r"""The words that `text` consists of, in small letters: "c" for `\text{(C)}`; or None."""
    words = " ".join(_TEXT.sub(r" \1 ", text).strip("()., ").split())
    return words.casefold() if _WORDS.fullmatch(words) else None


@lru_cache(maxsize=4096)  # lanes give many of the same answers
def _equal(gold: str, answer: str) -> bool:
    """What the worker says; False if it died of the question."""
    with _lock:
        worker = _running()
        assert worker.stdin is not None
        assert worker.stdout is not None
        print(json.dumps([gold, answer]), file=worker.stdin, flush=True)
        reply = worker.stdout.readline()
        if not reply:
            _stop()
        return reply == "true\n"


def _running() -> subprocess.Popen[str]:
    """The worker, started where there is none: importing math-verify takes seconds, once."""
    global _worker
    if _worker is None or _worker.poll() is not None:
        _stop()
        _worker = subprocess.Popen(
            # -P: beside the script lies a code.py, which is not the one of the standard library.
            [sys.executable, "-P", str(_CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert _worker.stdout is not None
        if _worker.stdout.readline() != '"ready"\n':
            _stop()
            raise MarsError(
                "Answers that are formulas cannot be compared: math-verify cannot be imported.",
                hint="It comes with the extras cpu and gpu: pip install 'mars-eval[cpu]'.",
            )
    return _worker


@atexit.register
def _stop() -> None:
    global _worker
    if _worker is not None:
        _worker.kill()
        with contextlib.suppress(OSError), _worker:
            pass
        _worker = None
