"""Re-scoring given tokens with the plain target, on both model runners."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from mars_cli.analysis.fidelity import fidelity
from mars_cli.engine.protocol import ScoreRequest
from mars_cli.verification.rows import FIELDS, ROWS, summary
from mars_cli.verification.spec import RuleSpec
from tests import tiny
from tests.integration import oracle

pytestmark = pytest.mark.engine
SEED = 3


def test_rows_are_what_a_plain_model_says(lab: Any) -> None:
    """A long prompt, which comes in chunks, and an answer of any tokens."""
    lab.ask("reseed", SEED, SEED)
    prompt, answer = [0, *(2 + 7 * i % 250 for i in range(90))], [9, 200, 9, 31, 77, 140, 5, 6]
    found = dict(lab.score([ScoreRequest("a", prompt, answer), ScoreRequest("b", [0], [17])]))
    assert len(found["b"]) == 1
    model = tiny.llama(SEED)
    for place, row in enumerate(found["a"]):
        z = oracle.next_logits(model, [*prompt, *answer[:place]])
        ranked = sorted(z, reverse=True)
        lse = math.log(math.fsum(map(math.exp, z)))
        p = [math.exp(v - lse) for v in z]
        expected = {
            "z": z[answer[place]],
            "z1": ranked[0],
            "z2": ranked[1],
            "lse": lse,
            "entropy": -math.fsum(v * math.log(v) for v in p),
            "above": sum(v > z[answer[place]] for v in z),
        }
        assert dict(zip(FIELDS, row, strict=True)) == pytest.approx(expected, abs=1e-4)


def test_an_answer_of_a_relaxed_lane_has_runners_up_just_where_it_says(lab: Any) -> None:
    lab.ask("reseed", SEED, SEED)
    lab.set_rule(RuleSpec.of("mars", theta=0.5))
    asked = {"prompt": [0, 12, 13], "temperature": 0.0, "max_tokens": 40, "ignore_eos": True}
    (answer,) = lab.ask("probe", [asked])
    ((_, rows),) = lab.score([ScoreRequest("a", asked["prompt"], answer["tokens"])])
    above = [int(row[FIELDS.index("above")]) for row in rows]
    assert [place for place, count in enumerate(above) if count == 1] == answer["relaxed_at"]
    assert set(above) == {0, 1}


def test_rows_beyond_one_block_are_all_there() -> None:
    logits = torch.randn(ROWS + 5, 50, generator=torch.Generator().manual_seed(1))
    targets = logits.argmax(dim=-1)
    rows = summary(logits, targets)
    assert rows.shape == (ROWS + 5, len(FIELDS))
    assert rows[:, FIELDS.index("above")].sum() == 0


def test_a_wrong_rule_is_caught_by_what_the_engine_delivered(lab: Any) -> None:
    """A lane that calls itself mars and accepts the third; and a strict one that relaxes."""
    lab.ask("reseed", SEED, SEED)
    asked = {"prompt": [0, 12, 13], "temperature": 0.0, "max_tokens": 60, "ignore_eos": True}

    def violations(rule: str, claimed: str) -> int:
        lab.set_rule(RuleSpec.parse(rule))
        (answer,) = lab.ask("probe", [asked])
        ((_, rows),) = lab.score([ScoreRequest("a", asked["prompt"], answer["tokens"])])
        columns = {name: [row[n] for row in rows] for n, name in enumerate(FIELDS)}
        record = {"doc_id": 0, "sample": 0, **columns}
        spec = RuleSpec.parse(claimed)
        lane = {
            "rule": spec.name,
            "parameters": dict(spec.parameters),
            "engine": {"dtype": "float32"},
        }
        found: int = fidelity([record], [], lane)["violations"]
        return found

    for rule in ("strict", "mars:theta=0.5", "topk:k=3", "typical", "topk-delta:k=3"):
        assert violations(rule, rule) == 0, rule
    assert violations("topk:k=3", "mars:theta=0.5") > 0
    assert violations("mars:theta=0.5", "strict") > 0
