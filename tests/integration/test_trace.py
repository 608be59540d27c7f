"""What a trace says of each verified position, on both model runners, and the command itself."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from mars_cli.engine.protocol import Generation, Request
from mars_cli.verification.rows import FIELDS
from mars_cli.verification.spec import STRICT, RuleSpec
from tests import tiny
from tests.integration import oracle

pytestmark = pytest.mark.engine
SEED = 3
PROMPTS = ([0, 12, 13], [0, 5, 99, 7, 40])


def ask(lab: Any) -> list[Generation]:
    requests = [Request(f"{n}", list(prompt), max_tokens=24) for n, prompt in enumerate(PROMPTS)]
    return sorted(lab.generate(requests, 2), key=lambda found: found.id)


@pytest.mark.parametrize("rule", [STRICT, RuleSpec.of("mars", theta=0.5)], ids=str)
def test_positions_are_what_a_plain_model_says(lab: Any, rule: RuleSpec) -> None:
    lab.ask("reseed", SEED, SEED)
    lab.set_rule(rule)
    untraced = ask(lab)
    assert all(found.positions == [] for found in untraced)
    lab.trace(True)
    try:
        traced = ask(lab)
    finally:
        lab.trace(False)
    model = tiny.llama(SEED)
    for prompt, before, found in zip(PROMPTS, untraced, traced, strict=True):
        assert found.token_ids == before.token_ids  # looking changes nothing
        assert [p.at for p in found.positions if p.relaxed] == found.relaxed_at
        assert sum(p.accepted for p in found.positions) > 0
        assert any(not p.accepted for p in found.positions)
        for position in found.positions:
            delivered = found.token_ids[position.at]
            assert position.accepted == (position.draft == delivered)
            z = oracle.next_logits(model, [*prompt, *found.token_ids[: position.at]])
            ranked = sorted(z, reverse=True)
            of = dict(zip(FIELDS, position.values, strict=True))
            expected = {
                "z": z[position.draft],
                "z1": ranked[0],
                "z2": ranked[1],
                "lse": math.log(math.fsum(map(math.exp, z))),
            }
            assert {name: of[name] for name in expected} == pytest.approx(expected, abs=1e-4)
            assert of["above"] == sum(v > z[position.draft] for v in z)
        # Each step is followed from its first draft to the first that was not accepted.
        places = [p.place for p in found.positions]
        ends = [n for n, place in enumerate(places) if place == 0]
        for first, after in zip(ends, [*ends[1:], len(places)], strict=True):
            step = found.positions[first:after]
            assert [p.place for p in step] == list(range(len(step)))
            assert all(p.accepted for p in step[:-1])


def test_the_command_traces_and_keeps_every_position(tiny_checkpoint: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    options = (
        "--tasks mars_products --limit 4 --max-tokens 48 --rule topk:k=40 --k 3 --dtype float32 "
        "--max-num-seqs 2 --engine-arg enforce_eager=true"
    )
    command = [sys.executable, "-m", "mars_cli", "trace", "--model", str(tiny_checkpoint)]
    command += [*options.split(), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert "wasteful" in done.stdout
    assert "mars trace tiny-llama0: strict-ngram-k3, topk-ngram-k3-k=40 -> " in done.stderr
    found = json.loads((out / "trace.json").read_text())
    lanes = found["tasks"]["mars_products"]["lanes"]
    assert list(lanes) == ["strict-ngram-k3", "topk-ngram-k3-k=40"]
    assert lanes["strict-ngram-k3"]["relaxed_share"] == 0
    assert lanes["topk-ngram-k3-k=40"]["relaxed_share"] > 0
    for lane, figures in lanes.items():
        folder = out / "records/trace/mars_products"
        answers = [json.loads(line) for line in (folder / f"{lane}.jsonl").read_text().splitlines()]
        table = pq.read_table(folder / lane).to_pylist()
        assert len(answers) == figures["answers"] == 4
        assert len(table) == figures["positions"] == sum(one["positions"] for one in answers)
        tokens = {one["doc_id"]: one["token_ids"] for one in answers}
        for row in table:
            assert row["accepted"] == (tokens[row["doc_id"]][row["at"]] == row["draft"])
            assert row["relaxed"] == (lane.startswith("topk") and 1 < row["rank"] <= 40)
    for name in ("decoupling", "margins"):
        assert (out / f"figures/{name}.png").stat().st_size > 5_000
