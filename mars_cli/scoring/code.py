"""From a model's answer to a program that can be run: for tasks like HumanEval and MBPP.

An item of HumanEval gives a `prompt` (imports, perhaps helpers, then the head of the function and
its docstring), an `entry_point` and a `test` that defines `check(candidate)`; an item of MBPP only
the tests, a list of `assert f(...) == ...`, whose entry point is the function they call. A chat
model may answer with the whole function in a fence, with only the body, with prose around either,
with the prompt repeated or not. The program that is graded:

    what stands before the function in the prompt (imports, helpers)
    the answer's code, whole; or, if it is only a body, the function's head and that body
    the test, and `check(<entry_point>)`; or the asserts

Which part of the answer is its code, in this order: the last python fence that defines the entry
point; the last fence of any kind that defines it; what stands before the first fence, if that
defines it or is an indented body (the prompt had opened the fence); the last python fence, or the
last fence; without a fence, the text itself. Thinking blocks are dropped first. A fence that never
closes (a truncated answer) reaches to the end; there, and without fences, what follows the last
top-level statement that can be parsed (prose, half a statement) is left out. An answer without
code makes a program that fails.
"""

from __future__ import annotations

import ast
import builtins
import re
import textwrap
import threading
import warnings
from collections.abc import Sequence

from mars_cli.scoring.answers import strip_thinking

# A python fence may open behind prose ("Here it is: ```python"), others start their line.
_FENCE = re.compile(
    r"^(?P<indent>[ \t]*)(?:[^\n`]*(?=```python))?(?P<ticks>`{3,}|~{3,})[ \t]*"
    r"(?P<language>[^\s`]*)[^\n`]*\n"
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
    return _program(solution, f"{test}\n\ncheck({entry_point})")


def mbpp_program(answer: str, tests: Sequence[str], setup: str = "") -> str:
    """The Python source that runs `tests`, assert statements, on what `answer` defines.

    `setup` (imports, or objects made from the answer's own classes) runs between the two.
    """
    return _program(extract(answer, tested_function(tests)), "\n".join([setup, *tests]))


def tested_function(tests: Sequence[str]) -> str:
    """The function that `tests` are about: "f" for `assert set(f([1])) == set(g(1))`.

    It is the outermost call of the first test that is not of a builtin; or, where all are of
    builtins (`assert sum(10, 15) == 6`), the outermost. "" if the test calls nothing by name.
    """
    names = [
        node.func.id
        for node in ast.walk(ast.parse(tests[0]))  # breadth first
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    return next((name for name in names if not hasattr(builtins, name)), next(iter(names), ""))


def extract(answer: str, entry_point: str) -> str:
    """The code in `answer`, its indentation kept; "" if there is none."""
    answer = strip_thinking(answer).replace("\r\n", "\n")
    fences = list(_FENCE.finditer(answer))
    if not fences:
        return _unfenced(answer, entry_point)
    codes = [_fenced(match, entry_point) for match in fences]
    # A stable sort: among equals the one that stands last in the answer stays last.
    best = sorted(codes, key=lambda code: (defines(code[1], entry_point), code[0]))[-1][1]
    before = answer[: fences[0].start()]
    if defines(best, entry_point):
        return best
    is_body = before.lstrip("\n")[:1].isspace() and _parses(f"def _():\n{before}")
    return _unfenced(before, entry_point) if is_body or defines(before, entry_point) else best


def defines(code: str, name: str) -> bool:
    """Whether `code` binds `name` at its top level (def, async def, class or assignment)."""
    name = re.escape(name)
    pattern = rf"^(?:(?:async +)?def +{name}\s*\(|class +{name}\b|{name}\s*(?::[^=\n]+)?=(?!=))"
    return re.search(pattern, code, re.MULTILINE) is not None


def _program(solution: str, tests: str) -> str:
    if not solution.strip():  # what tests only builtins, or nothing, would pass
        solution = 'raise AssertionError("the answer holds no code")'
    # Only valid at the top of a file, and the prompt's own imports come before the answer's.
    future = "".join(line.rstrip("\n") + "\n" for line in _FUTURE.findall(solution))
    return f"{future}{_FUTURE.sub('', solution)}\n\n{tests}\n"


def _fenced(match: re.Match[str], entry_point: str) -> tuple[bool, str]:
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
