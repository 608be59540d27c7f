"""Right answers worked out elsewhere, when they lie beside the checkout."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

from mars_cli.verification.rules import mars

FILE = Path(os.environ.get("MARS_TEST_VECTORS", "../shared/vectors/mars_rule.json"))
pytestmark = pytest.mark.skipif(
    not FILE.is_file(), reason="MARS_TEST_VECTORS names no file of rule vectors"
)


def _row(values: list[float | str]) -> list[float]:
    return [float(value) for value in values]


def test_every_single_case() -> None:
    cases = json.loads(FILE.read_text())["single"]
    wrong = [
        case["why"]
        for case in cases
        if mars(
            torch.tensor([_row(case["logits"])]), torch.tensor([case["draft"]]), case["theta"]
        ).item()
        != case["relaxed"]
    ]
    assert cases
    assert wrong == []


def test_every_chain() -> None:
    for case in json.loads(FILE.read_text())["chains"]:
        logits = torch.tensor([_row(row) for row in case["logits"]])
        mask = mars(logits[:-1], torch.tensor(case["drafts"]), case["theta"]).tolist()
        best = logits.argmax(dim=-1).tolist()
        output: list[int] = []
        relaxed = 0
        for position, draft in enumerate(case["drafts"]):
            if draft != best[position] and not mask[position]:
                break
            relaxed += mask[position]
            output.append(draft)
        output.append(best[len(output)])
        assert (output, relaxed) == (case["output"], case["relaxed_accepted"])
