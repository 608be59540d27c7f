"""A page under docs/ whose python blocks are doctest examples."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Page:
    def __init__(self, name: str) -> None:
        self.path = Path(__file__).parents[2] / "docs" / name
        self.text = self.path.read_text(encoding="utf-8")
        self.blocks = [block.group(1) for block in BLOCK.finditer(self.text)]
        self.prose = BLOCK.sub("", self.text)

    def examples(self) -> list[doctest.Example]:
        """Those of all python blocks, each with its line in the page."""
        found = []
        for block in BLOCK.finditer(self.text):
            above = self.text.count("\n", 0, block.start(1))
            for example in doctest.DocTestParser().get_examples(block.group(1)):
                example.lineno += above
                found.append(example)
        return found

    def run(self) -> None:
        """Assert that every example gives what the page says, and that blocks hold nothing else."""
        assert len(self.blocks) == self.text.count("```") // 2  # none of another kind, none open
        assert all(block.startswith(">>> ") for block in self.blocks)
        examples = self.examples()
        page = doctest.DocTest(examples, {}, self.path.name, str(self.path), 0, None)
        said: list[str] = []
        results = doctest.DocTestRunner(verbose=False).run(page, out=said.append)
        assert results.failed == 0, "".join(said)
        assert results.attempted == len(examples)
