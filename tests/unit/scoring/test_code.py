"""The program that is graded holds the answer's code, as the model meant it."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from mars_cli.scoring import code

PROMPT = '''from typing import List

def helper(x: int) -> int:
    return x + 1


def double(xs: List[int]) -> List[int]:
    """Double each number.
    >>> double([1, 2])
    [2, 4]
    """
'''
TEST = """
def check(candidate):
    assert candidate([1, 2]) == [2, 4]
    assert candidate([]) == []
"""
WHOLE = "def double(xs: List[int]) -> List[int]:\n    return [2 * x for x in xs]\n"
BODY = "    return [2 * x for x in xs]\n"


def passes(answer: str, *, prompt: str = PROMPT, test: str = TEST) -> bool:
    """Whether the program runs to its end; the answers of this file are harmless."""
    namespace: dict[str, Any] = {"__name__": "program"}
    source = code.program(prompt, answer, "double", test)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(source, namespace)
        except Exception:
            return False
    return True


@pytest.mark.parametrize(
    "answer",
    [
        f"```python\n{WHOLE}```",
        f"Sure!\n\n```python\n{WHOLE}```\n\nIt doubles each number.",
        f"```python\n{PROMPT}{BODY}```",
        f"```\n{WHOLE}```",
        f"```py\n{WHOLE}```",
        f"~~~python\n{WHOLE}~~~",
        f"Here it is: ```python\n{WHOLE}```",
        f"{WHOLE}```\nIt doubles each number.",  # the prompt had opened the fence
        f"{BODY}```\nIt doubles each number.",
        f"{WHOLE}\nFor example:\n```python\nprint(double([1]))\n```",
        f" Here is the body:\n```python\n{BODY}```",
        f"1. Like this:\n\n   ```python\n   {WHOLE.replace(chr(10), chr(10) + '   ')}```",
        f"```python\r\n{WHOLE}```".replace("\n", "\r\n").replace("\r\r", "\r"),
        f"```python\n{WHOLE}",  # cut off before the fence closed
        f"```python\n{WHOLE}\nprint(double([1,",  # cut off in a later statement
        WHOLE,
        PROMPT + BODY,
        f"Here it is:\n\n{WHOLE}\nIt isn't hard.",
        BODY,
        BODY + "\nIt isn't hard.",
        BODY + "\n\ndef other():\n    return 1\n",
        BODY.strip(),  # the first line lost its indentation
        "out = []\n    for x in xs:\n        out.append(2 * x)\n    return out",
        f"```python\n{BODY}```",
        "```python\nout = []\nfor x in xs:\n    out.append(2 * x)\nreturn out\n```",
        "  return [2 * x for x in xs]\n",  # indented by two
        "double = lambda xs: [2 * x for x in xs]",
        f"<think>\n```python\ndef double(xs): return 0\n```\n</think>\n```python\n{WHOLE}```",
        f"Or\n```python\ndef double(xs): return 0\n```?\n</think>\n{BODY}",
        f"<think>\n\n</think>\n\n{WHOLE}",
    ],
)
def test_a_right_answer_passes_however_it_is_laid_out(answer: str) -> None:
    assert passes(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "   \n",
        "I cannot do that.",
        "```python\n```",
        f"```python\n{PROMPT}```",
        f"```python\n{PROMPT}    pass\n```",
        "    pass",
        "```python\ndef double(xs):\n    return xs\n```",
        f"```python\n{WHOLE.replace('double', 'twice')}```",
        "<think>```python\n" + WHOLE + "```",
    ],
)
def test_a_wrong_or_empty_answer_fails(answer: str) -> None:
    assert not passes(answer)


def test_an_empty_answer_does_not_become_a_function_that_returns_none() -> None:
    lenient = "def check(candidate):\n    candidate([1])\n"
    assert passes(BODY, test=lenient)
    assert not passes("", test=lenient)
    assert not passes("```python\n```", test=lenient)


def test_the_last_fence_that_defines_the_entry_point_counts() -> None:
    wrong = "def double(xs):\n    return xs\n"
    usage = "print(double([1, 2]))\n"
    assert passes(
        f"```python\n{wrong}```\nBetter:\n```python\n{WHOLE}```\nUse:\n```python\n{usage}```"
    )
    assert not passes(f"```python\n{WHOLE}```\nOr:\n```python\n{wrong}```")


def test_a_python_fence_is_preferred_to_another_that_defines_the_entry_point() -> None:
    assert passes(f"```python\n{WHOLE}```\nOutput:\n```\ndouble = [2, 4]\n```")


def test_imports_that_the_model_added_are_kept() -> None:
    answer = (
        "import itertools\n\ndef double(xs):\n    return [2 * x for x in itertools.chain(xs)]\n"
    )
    assert passes(answer)
    assert passes(f"```python\n{answer}```")
    assert passes("    import itertools\n    return [2 * x for x in itertools.chain(xs)]\n")


def test_a_future_import_of_the_answer_stays_first() -> None:
    assert passes(f"```python\nfrom __future__ import annotations\n{WHOLE}```")


def test_helpers_and_imports_of_the_prompt_are_there_for_an_answer_without_them() -> None:
    assert passes(
        "```python\ndef double(xs: List[int]):\n    return [2 * helper(x - 1) for x in xs]\n```"
    )


def test_the_indentation_of_a_bare_body_is_kept() -> None:
    body = "    if not xs:\n        return []\n    return [2 * x for x in xs]\n"
    assert code.extract(body, "double") == body
    assert body in code.program(PROMPT, body, "double", TEST)


def test_a_prompt_is_not_needed() -> None:
    assert passes("def double(xs):\n    return [2 * x for x in xs]\n", prompt="")
    assert not passes(BODY, prompt="")


@pytest.mark.parametrize(
    ("source", "defined"),
    [
        ("def f(x):\n    pass", True),
        ("async def f():\n    pass", True),
        ("class f:\n    pass", True),
        ("f = 3", True),
        ("f: int = 3", True),
        ("f == 3", False),
        ("def ff(x): pass", False),
        ("class A:\n    def f(self): pass", False),
        ("# def f(x):", False),
    ],
)
def test_defines_looks_at_the_top_level_only(source: str, defined: bool) -> None:
    assert code.defines(source, "f") is defined


def test_sources_that_warn_or_nest_deeply_are_handled_quietly() -> None:
    assert passes('    "\\d"\n    return [2 * x for x in xs]\n')
    assert not passes("    return " + "(" * 500 + "1" + ")" * 500)
    assert not passes("    x = '\0'\n    return x\n")


def mbpp_passes(answer: str, tests: list[str], setup: str = "") -> bool:
    try:
        exec(code.mbpp_program(answer, tests, setup), {"__name__": "program"})
    except Exception:
        return False
    return True


@pytest.mark.parametrize(
    ("test", "name"),
    [
        ("assert double([1]) == [2]", "double"),
        ("assert set(double([1])) == set([2])", "double"),
        ("assert not double(3)", "double"),
        ("assert (double(root)) == 3", "double"),
        ("assert math.isclose(double(0.5), 1.0)", "double"),
        ("assert abs(double(len([1])) - 2) < 1e-6", "double"),
        ("assert double([Pair(1, 2), Pair(3, 4)], 2) == 3", "double"),
        ("assert sum(10, 15) == 6", "sum"),
        ("assert True", ""),
    ],
)
def test_the_tested_function_is_the_outermost_that_is_not_builtin(test: str, name: str) -> None:
    assert code.tested_function([test]) == name


@pytest.mark.parametrize(
    "answer",
    [
        f"```python\n{WHOLE.replace('List[int]', 'list')}```",
        "def double(xs):\n    return [2 * x for x in xs]\n\nThat is all.",
        "```python\ndef double(xs):\n    return [2 * x for x in xs]\n```\n"
        "Test it:\n```python\nassert double([1]) == [2]\n```",
        "```python\nimport math\n\ndef double(n):\n    return [math.prod([2, x]) for x in n]\n```",
        "<think>```python\ndef double(xs): ...\n```</think>double = lambda xs: [2 * x for x in xs]",
    ],
)
def test_an_answer_to_mbpp_passes_by_its_asserts(answer: str) -> None:
    tests = ["assert double([1, 2]) == [2, 4]", "assert double([]) == []"]
    assert mbpp_passes(answer, tests)
    assert not mbpp_passes(answer, [*tests, "assert double([1]) == [3]"])


@pytest.mark.parametrize("answer", ["", "  \n", "```python\n```", "<think>\ndef double(xs): ..."])
def test_an_empty_answer_fails_even_tests_that_need_no_answer(answer: str) -> None:
    assert not mbpp_passes(answer, ["assert sum([1, 2]) == 3"])


def test_an_answer_that_only_compiles_fails() -> None:
    tests = ["assert double([1]) == [2]"]
    assert not mbpp_passes("```python\ndef double(xs):\n    pass\n```", tests)
    assert not mbpp_passes("```python\ndef twice(xs):\n    return [2]\n```", tests)
    assert not mbpp_passes("I would double each of them.", tests)


def test_the_setup_may_use_classes_of_the_answer() -> None:
    answer = "```python\nclass Node:\n    size = 1\n\ndef size(node):\n    return node.size\n```"
    assert mbpp_passes(answer, ["assert size(root) == 1"], "root = Node()")
