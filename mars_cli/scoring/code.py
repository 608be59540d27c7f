"""From a model's answer to a program that can be run: for tasks in the manner of HumanEval.

An item gives a `prompt` (imports, perhaps helpers, then the head of the function and its
docstring), an `entry_point` and a `test` that defines `check(candidate)`. A chat model may answer
with the whole function in a fence, with only the body, with prose around either, with the prompt
repeated or not. The program that is graded:

    what stands before the function in the prompt (imports, helpers)
    the answer's code, whole; or, if it is only a body, the function's head and that body
    the test, and `check(<entry_point>)`

Which part of the answer is its code, in this order: the last python fence that defines the entry
point; the last fence of any kind that defines it; if no fence does, the last python fence, or the
last fence; without a fence, the text itself. Thinking blocks are dropped first. A fence that never
closes (a truncated answer) reaches to the end; there, and without fences, what follows the last
top-level statement that can be parsed (prose, half a statement) is left out. An answer without
code makes a program that fails.
"""

from __future__ import annotations

import ast
import re
import textwrap
import threading
import warnings

from mars_cli.scoring.answers import strip_thinking

_FENCE = re.compile(
    r"^(?P<indent>[ \t]*)(?P<ticks>`{3,}|~{3,})[ \t]*(?P<language>[^\s`]*)[^\n`]*\n"
    r"(?P<body>.*?)(?:^[ \t]*(?P=ticks)[ \t]*$|(?P<unclosed>\Z))",
    re.DOTALL | re.MULTILINE,
)
_PYTHON = frozenset({"python", "python3", "py"})
_CODE_LINE = re.compile(r"(?:from|import|def|async|class)\s|@|#")
_FUTURE = re.compile(r"^from __future__ import [^\n]*\n?", re.MULTILINE)
# Parsing swaps the process-wide list of warning filters for a moment.
_WARNING_FILTERS = threading.Lock()


def program(prompt: str, answer: str, entry_point: str, test: str) -> str:
    """The Python source that runs `test`'s `check` on `entry_point` as `answer` defines it.

    `prompt` may be empty (then the answer has to bring the whole function); `test` defines
    `check(candidate)`. Nothing is executed here.
    """
    solution = _solution(prompt, extract(answer, entry_point), entry_point)
    # Only valid at the top of a file, and the prompt's own imports come before the answer's.
    future = "".join(line.rstrip("\n") + "\n" for line in _FUTURE.findall(solution))
    return f"{future}{_FUTURE.sub('', solution)}\n\n{test}\n\ncheck({entry_point})\n"


def extract(answer: str, entry_point: str) -> str:
    """The code in `answer`, its indentation kept; "" if there is none."""
    answer = strip_thinking(answer).replace("\r\n", "\n")
    fences = [_fence(match, entry_point) for match in _FENCE.finditer(answer)]
    if not fences:
        return _unfenced(answer, entry_point)
    # A stable sort: among equals the one that stands last in the answer stays last.
    return sorted(fences, key=lambda fence: (defines(fence[1], entry_point), fence[0]))[-1][1]


def defines(code: str, name: str) -> bool:
    """Whether `code` binds `name` at its top level (def, async def, class or assignment)."""
    name = re.escape(name)
    pattern = rf"^(?:(?:async +)?def +{name}\s*\(|class +{name}\b|{name}\s*(?::[^=\n]+)?=(?!=))"
    return re.search(pattern, code, re.MULTILINE) is not None


def _fence(match: re.Match[str], entry_point: str) -> tuple[bool, str]:
    """Whether the fence says python, and its code without the indentation of a list item."""
    code = re.sub(f"^{match['indent']}", "", match["body"], flags=re.MULTILINE)
    if match["unclosed"] is not None:
        code = _without_tail(code, entry_point)
    return match["language"].lower() in _PYTHON, code


def _solution(prompt: str, code: str, entry_point: str) -> str:
    if not code.strip():
        return ""  # not the bare prompt: a function that returns None would satisfy some tests
    if defines(code, entry_point):
        return _before(prompt, entry_point) + "\n" + code
    if not prompt.strip():
        return code
    head = prompt if prompt.endswith("\n") else prompt + "\n"
    # Bodies lose their indentation whole (in a fence) or on the first line (a stripped answer).
    indented = code.lstrip("\n")[:1].isspace()
    reindented = textwrap.indent(textwrap.dedent(code), "    ")
    bodies = [*([code] if indented else []), reindented, "    " + code.lstrip()]
    return next((head + body for body in bodies if _parses(head + body)), head + code)


def _before(prompt: str, entry_point: str) -> str:
    """What the prompt holds before the function: the imports and helpers it may rely on."""
    head = rf"^(?:async +)?def +{re.escape(entry_point)}\b"
    starts = [match.start() for match in re.finditer(head, prompt, re.MULTILINE)]
    return prompt[: starts[-1]] if starts else prompt


def _unfenced(text: str, entry_point: str) -> str:
    """The code of an answer without fences: a whole function, or only a body."""
    if not defines(text, entry_point):
        return _without_tail(text, entry_point)
    lines = text.splitlines()
    first = next((i for i, line in enumerate(lines) if _CODE_LINE.match(line)), 0)
    return _without_tail("\n".join(lines[first:]), entry_point)


def _without_tail(code: str, entry_point: str) -> str:
    """`code` up to the last unindented line before which everything parses; else all of it."""
    whole = defines(code, entry_point)
    head = "" if whole else "def _():\n"
    lines = code.splitlines()
    cuts = [i for i, line in enumerate(lines) if i and line[:1].strip()]
    for cut in [len(lines), *reversed(cuts)]:
        kept = "\n".join(lines[:cut]) + "\n"
        if whole and not defines(kept, entry_point):
            break
        if kept.strip() and _parses(head + kept):
            return kept
    return code


def _parses(source: str) -> bool:
    with _WARNING_FILTERS, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as an invalid escape: it still runs
        try:
            ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True
