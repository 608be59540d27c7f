"""Tasks that reasoning-gym generates: no download, the same documents for the same seed.

products
    {"question": "Solve the following multiplication: 4 * 3. Give only the result as your final
                  answer.",
     "answer": "12"}

gsm_symbolic (the templates of GSM-Symbolic, arXiv 2410.05229, filled in anew)
    {"question": "There are 12 students playing basketball and twice that number playing
                  volleyball. ... how many students are there in total? Give the result as your
                  final answer. Do not include units.",
     "answer": "70"}

Questions that repeat are dropped, the first one stays. `seed` and `documents` (how many) are the
task's `metadata`, all of which lm-eval hands over.
"""

from __future__ import annotations

from typing import Any

from mars_cli.errors import UsageError


def products(
    *, seed: int, documents: int, data_file: str | None = None, **_: Any
) -> dict[str, Any]:
    """One-digit products of two factors: there are 100, so `documents` is 100 at most."""
    options = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}
    return _generated("products", seed, documents, data_file, **options)


def gsm_symbolic(
    *, seed: int, documents: int, data_file: str | None = None, **_: Any
) -> dict[str, Any]:
    """Grade-school word problems from templates."""
    return _generated("gsm_symbolic", seed, documents, data_file)


def _generated(
    name: str, seed: int, documents: int, data_file: str | None, **options: int
) -> dict[str, Any]:
    if data_file is not None:
        raise UsageError(
            f"mars_{name} generates its documents and reads no file, but got {data_file}.",
            hint=f"Leave out --data mars_{name}=...",
        )
    from datasets import Dataset

    reasoning_gym = generator()

    # gsm_symbolic draws its templates for `size` items at once: the size is part of what defines
    # the documents, so it follows from their number alone.
    size = 20 * documents
    source = reasoning_gym.create_dataset(name, seed=seed, size=size, **options)
    found: dict[str, str] = {}
    for index in range(size):
        if len(found) == documents:
            break
        item = source[index]
        found.setdefault(item["question"], item["answer"])
    rows = [{"question": question, "answer": answer} for question, answer in found.items()]
    return {"test": Dataset.from_list(rows)}


def generator() -> Any:
    """The package; it imports pycosat, which only one of its puzzles uses.

    pycosat ships as source, so a machine without a C compiler has none: an empty stand-in does.
    """
    import importlib.util
    import sys
    from types import ModuleType

    if importlib.util.find_spec("pycosat") is None:
        sys.modules.setdefault("pycosat", ModuleType("pycosat"))
    import reasoning_gym

    return reasoning_gym
