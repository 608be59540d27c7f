"""What the embedded model's draft is trained on: the same each time, and nothing evaluated."""

from __future__ import annotations

import ast
import itertools
import random

import pytest

from scripts.eagle3 import prompts

CODE = '''Reply with code.

```python
def total(values):
    """Add up what is left of the values once the smallest and the largest of them are gone."""
```'''


def asked(seed: int) -> list[str]:
    """Without those of reasoning-gym, which takes long to import."""
    rng = random.Random(seed)
    makers = (prompts._code(rng), prompts._general(rng))
    return [text for maker in makers for text in itertools.islice(maker, 60)]


def test_the_same_seed_gives_the_same_prompts() -> None:
    assert asked(3) == asked(3) != asked(4)
    assert len(set(asked(3))) > 100


def test_code_is_python_without_a_body() -> None:
    for text in asked(3)[:60]:
        stub = text.removesuffix("\n```").partition("```python\n")[2]
        if stub:
            (*_, function) = ast.parse(stub).body
            assert isinstance(function, ast.FunctionDef)
            assert ast.get_docstring(function)
            assert len(function.body) == 1


def test_examples_are_what_the_code_would_give() -> None:
    stubs = [prompts._digits(random.Random(n)) for n in range(200)]
    shown = [line for stub in stubs for line in stub.splitlines() if "sum_of_digits(" in line]
    said = [line.strip() for line in shown if " => " in line]
    assert said
    for line in said:
        given, result = line.removeprefix("sum_of_digits(").split(") => ")
        assert sum(map(int, given)) == int(result)


@pytest.mark.parametrize(
    "copy", [CODE, CODE.upper(), CODE.replace("total", "f").replace("Reply with code", "Write it")]
)
def test_an_evaluated_prompt_is_refused(copy: str) -> None:
    with pytest.raises(SystemExit, match="is an evaluated one"):
        prompts.check(["What is rain?", copy], [CODE], set())


def test_shared_wording_is_no_copy() -> None:
    other = CODE.replace("Add up what is left", "Count what is left").replace("largest", "last")
    prompts.check([other, "What is rain?"], [CODE, "What is snow?"], {42})


def test_a_seed_of_a_task_is_refused() -> None:
    with pytest.raises(SystemExit, match="one of the seeds"):
        prompts.check([], [], {42, prompts.SEEDS[3]})
