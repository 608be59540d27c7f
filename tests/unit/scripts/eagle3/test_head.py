"""The head unrolled for training is the head used one draft after another."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors import safe_open
from torch import Tensor

from mars_cli.assets import resolve
from mars_cli.config import load_model
from scripts.eagle3 import train
from scripts.eagle3.head import HIDDEN, Chain, Given, Head

VOCABULARY = 40


@pytest.fixture
def head() -> Head:
    torch.manual_seed(5)
    return Head(VOCABULARY, torch.randn(VOCABULARY, HIDDEN))


def sequence(length: int, seed: int) -> train.Answered:
    generator = torch.Generator().manual_seed(seed)
    return train.Answered(
        torch.randint(VOCABULARY, (length,), generator=generator),
        start=5,
        hidden=torch.randn(length, 4, HIDDEN, generator=generator).half(),
    )


def one_by_one(head: Head, tokens: Tensor, aux: Tensor, anchor: int, steps: int) -> list[Tensor]:
    """As an engine drafts: each draft is a longer sequence, read from its start."""
    hidden, outputs = head.fc(aux[: anchor + 1]), []
    for _ in range(steps):
        length = len(hidden)
        every = Given(tokens, aux, torch.arange(length))
        out = head.midlayer(head.embedding[tokens[1 : length + 1]], hidden, Chain([every]))
        outputs.append(head.norm(out[-1]))
        hidden = torch.cat([hidden, out[-1:]])
    return outputs


@torch.no_grad()
def test_every_anchor_gets_what_drafting_there_gives(head: Head) -> None:
    steps, scale = 3, torch.ones(3)
    batch = [sequence(14, 1), sequence(11, 2)]
    given = [Given(one.tokens, one.aux(scale), one.anchors(steps)[::2]) for one in batch]
    together = head(given, steps)
    row = 0
    for one in given:
        for anchor in one.anchors.tolist():
            alone = one_by_one(head, one.tokens, one.aux, anchor, steps)
            for step in range(steps):
                torch.testing.assert_close(together[step][row], alone[step])
            row += 1
    assert row == len(together[0])


def test_training_learns_and_validation_counts(head: Head) -> None:
    """Where the target's state tells the token after next, the first draft learns it."""
    rows = 3 * torch.randn(VOCABULARY, HIDDEN)
    batch = [sequence(40, seed) for seed in range(6)]
    for one in batch:
        one.hidden[:-1, 3] = rows[one.tokens[1:]].half()  # the target is sure of what comes
        one.hidden[:-2, 2] = rows[one.tokens[2:]].half()  # and the head can see it
    scale = torch.ones(3)
    before = train.validate(head, batch, scale, torch.arange(VOCABULARY))
    optimiser = torch.optim.AdamW(head.parameters(), 1e-3)
    losses = []
    for _ in range(30):
        loss = train.loss_of(head, batch, scale, rows, steps=2, every=1)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    after = train.validate(head, batch, scale, torch.arange(VOCABULARY))
    assert losses[-1] < losses[0] / 2
    assert after["step 1"] > 0.9 > before["step 1"]
    assert 1 <= before["tau K=3"] < after["tau K=3"] <= 4


def test_the_shipped_draft_is_one_of_these_heads() -> None:
    model = load_model("smollm2-135m")
    folder = resolve(model.draft("eagle3").options["model"])
    weights = folder / "model.safetensors"
    assert weights.stat().st_size <= 20e6
    said = json.loads((folder / "config.json").read_text())
    head = Head(said["draft_vocab_size"], torch.empty(0))
    with safe_open(weights, "pt") as file:
        shapes = {key: file.get_slice(key).get_shape() for key in file.keys()}  # noqa: SIM118
        offsets = file.get_tensor("d2t")
    assert shapes.pop("d2t") == [said["draft_vocab_size"]]
    assert shapes == {name: list(value.shape) for name, value in head.state_dict().items()}
    tokens = offsets + torch.arange(len(offsets))
    assert tokens.unique().equal(tokens)
    assert 0 <= int(tokens[0]) < int(tokens[-1]) < said["vocab_size"]
