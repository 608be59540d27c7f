"""Train the EAGLE-3 head of SmolLM2-135M on what `collect` kept, and write it as vLLM loads it.

    python -m scripts.eagle3.train DATA DRAFT [--epochs N]

The loss is the cross entropy of each draft step's distribution to the target's own, over the
draft's vocabulary (the tokens that the answers use most). Later steps count less, by DECAY.
Validation reads the answers that ended first, which are short ones, sampled ones among them: `tau`
there is the tokens a step that strict decoding with K drafts would take to deliver those answers.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional

from scripts.eagle3.collect import AUX_LAYERS, SEED
from scripts.eagle3.head import HIDDEN, Given, Head, config

VOCAB = 6144
BATCH = 8  # sequences
UNROLL = 4
DECAY = 0.8
RATE = 6e-4
KEPT_APART = 80  # sequences


@dataclass
class Answered:
    """One prompt with its answer."""

    tokens: Tensor  # int64 [T]
    start: int  # where the answer begins
    hidden: Tensor  # float16 [T, 4, H]

    def anchors(self, steps: int) -> Tensor:
        """Where that many drafts in a row can be compared to what the target says."""
        return torch.arange(self.start - 1, len(self.tokens) - 1 - steps)

    def aux(self, scale: Tensor) -> Tensor:
        """The head's inputs: float32 [T, 3 H], each layer's states divided by its `scale`."""
        return (self.hidden[:, :3].float() / scale[:, None]).flatten(1)


def read(folder: Path) -> list[Answered]:
    """All sequences of all shards, in order."""
    found = []
    for path in sorted(folder.glob("*.safetensors")):
        shard = load_file(path)
        lengths = shard["lengths"].tolist()
        parts = zip(
            torch.split(shard["tokens"].long(), lengths),
            shard["prompt_lengths"].tolist(),
            torch.split(shard["hidden"], lengths),
            strict=True,
        )
        found += [Answered(*part) for part in parts]
    return found


def target_weights(folder: Path) -> dict[str, Tensor]:
    """What the head starts from: the embedding, the last layer, the final norm."""
    found = {}
    with safe_open(folder / "model.safetensors", "pt") as file:
        names = list(file.keys())
        last = max(int(name.split(".")[2]) for name in names if ".layers." in name)
        for key in names:
            if f".layers.{last}." in key or "layers" not in key:
                found[key.replace(f"model.layers.{last}.", "").removeprefix("model.")] = (
                    file.get_tensor(key).float()
                )
    return found


def warm_start(head: Head, target: dict[str, Tensor], vocabulary: Tensor, scale: float) -> None:
    """The target's last layer on the latest of the states; nothing read from the embedding yet."""
    started = {
        "fc": torch.cat([torch.zeros(HIDDEN, 2 * HIDDEN), torch.eye(HIDDEN)], dim=1),
        "norm": target["norm.weight"],
        "lm_head": target["embed_tokens.weight"][vocabulary],
        "midlayer.hidden_norm": target["input_layernorm.weight"],
        "midlayer.input_layernorm": head.midlayer.input_layernorm.weight,
        "midlayer.post_attention_layernorm": target["post_attention_layernorm.weight"],
        "midlayer.self_attn.o_proj": target["self_attn.o_proj.weight"] / scale,
        "midlayer.mlp.gate_proj": target["mlp.gate_proj.weight"],
        "midlayer.mlp.up_proj": target["mlp.up_proj.weight"],
        "midlayer.mlp.down_proj": target["mlp.down_proj.weight"] / scale,
    }
    for name in ("q_proj", "k_proj", "v_proj"):
        weight = target[f"self_attn.{name}.weight"]
        started[f"midlayer.self_attn.{name}"] = torch.cat([0.0 * weight, weight], dim=1)
    head.load_state_dict({f"{name}.weight": value for name, value in started.items()})


def loss_of(
    head: Head, batch: Sequence[Answered], scale: Tensor, rows: Tensor, steps: int, every: int
) -> Tensor:
    """Mean loss of a batch; of the anchors one in `every`, `rows` [V, H] the target's output."""
    given, kept = [], []
    for one in batch:
        anchors = one.anchors(steps)
        if every > 1:
            anchors = anchors[torch.rand(len(anchors)) < 1 / every]
        if len(anchors):
            given.append(Given(one.tokens, one.aux(scale), anchors))
            kept.append(one)
    outputs = head(given, steps)
    total = torch.zeros(())
    for step in range(steps):
        with torch.no_grad():
            pairs = zip(kept, given, strict=True)
            states = torch.cat([one.hidden[at.anchors + step + 1, 3] for one, at in pairs])
            wanted = functional.softmax(states.float() @ rows.T, dim=-1)
        loss = functional.cross_entropy(head.lm_head(outputs[step]), wanted)
        total = total + DECAY**step * loss
    return total


@torch.no_grad()
def validate(
    head: Head, kept: Sequence[Answered], scale: Tensor, vocabulary: Tensor
) -> dict[str, float]:
    """Share of right drafts at each step where those before were right, and tau for some K."""
    deepest, chances, right = 7, [0] * 7, [0] * 7
    emitted, taken = Counter[int](), Counter[int]()
    for one in kept:
        anchors = one.anchors(deepest)
        if not len(anchors):
            continue
        outputs = head([Given(one.tokens, one.aux(scale), anchors)], deepest)
        hits = torch.stack(
            [
                vocabulary[head.lm_head(out).argmax(-1)] == one.tokens[anchors + step + 2]
                for step, out in enumerate(outputs)
            ]
        )
        runs = hits.long().cumprod(0)  # [deepest, A]
        for step in range(deepest):
            chances[step] += int(runs[step - 1].sum()) if step else runs.shape[1]
            right[step] += int(runs[step].sum())
        for k in (3, 4, 5, 7):
            place = 0
            while place < runs.shape[1]:
                gained = 1 + int(runs[:k, place].sum())
                emitted[k] += gained
                taken[k] += 1
                place += gained
    found = {f"step {n + 1}": right[n] / max(1, chances[n]) for n in range(4)}
    return {**found, **{f"tau K={k}": emitted[k] / taken[k] for k in emitted}}


def export(
    head: Head, folder: Path, vocabulary: Tensor, scale: Tensor, target: dict[str, object]
) -> None:
    """Write config.json and bfloat16 weights; `scale` becomes part of `fc`."""
    weights = {name: value.detach().clone() for name, value in head.state_dict().items()}
    weights["fc.weight"] /= scale.repeat_interleave(HIDDEN)
    tensors = {name: value.to(torch.bfloat16).contiguous() for name, value in weights.items()}
    tensors["d2t"] = vocabulary - torch.arange(len(vocabulary))
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    said = config(len(vocabulary), target, AUX_LAYERS)
    (folder / "config.json").write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    """Train, printing losses and validation, and keep the epoch with the best tau."""
    from mars_cli.assets import resolve_weights
    from mars_cli.config import load_model

    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("draft", type=Path)
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args()
    torch.manual_seed(SEED)
    rng = random.Random(SEED)

    model = load_model("smollm2-135m")
    checkpoint = Path(resolve_weights(model.weights, sha256=model.sha256))
    target = target_weights(checkpoint)
    sequences = read(options.data)
    kept, taught = sequences[:KEPT_APART], sequences[KEPT_APART:]
    counts = Counter(t for one in taught for t in one.tokens[one.start :].tolist())
    vocabulary = torch.tensor(sorted(token for token, _ in counts.most_common(VOCAB)))
    covered = sum(counts[int(t)] for t in vocabulary) / counts.total()
    sample = torch.cat([one.hidden[one.start :, :3].float() for one in taught[:200]])
    scale = sample.pow(2).mean((0, 2)).sqrt()
    rows = target["embed_tokens.weight"][vocabulary]
    head = Head(VOCAB, target["embed_tokens.weight"])
    warm_start(head, target, vocabulary, float(scale[2]))
    print(
        f"{len(taught)} sequences, {counts.total()} tokens of answers, {covered:.1%} in the "
        f"vocabulary; {sum(p.numel() for p in head.parameters()) / 1e6:.2f}M parameters",
        flush=True,
    )

    optimiser = torch.optim.AdamW(head.parameters(), RATE, (0.9, 0.95), weight_decay=0.05)
    batches = len(taught) // BATCH
    total, done, best = batches * options.epochs, 0, 0.0
    warm = max(1, total // 50)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser,
        lambda n: (
            min(1.0, (n + 1) / warm) * (0.03 + 0.97 * (1 + math.cos(math.pi * n / total)) / 2)
        ),
    )
    begun = time.monotonic()
    for epoch in range(options.epochs):
        order = rng.sample(range(len(taught)), len(taught))
        steps = min(UNROLL, epoch + 1)
        for n in range(batches):
            batch = [taught[i] for i in order[BATCH * n : BATCH * (n + 1)]]
            loss = loss_of(head, batch, scale, rows, steps, every=1 if steps < 3 else 2)
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            torch.nn.utils.clip_grad_norm_(head.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            done += 1
            if done % 25 == 0:
                seconds = time.monotonic() - begun
                print(f"{done}/{total} loss {loss.item():.3f} {seconds:.0f} s", flush=True)
        figures = validate(head, kept, scale, vocabulary)
        print(f"epoch {epoch + 1}:", {k: round(v, 3) for k, v in figures.items()}, flush=True)
        if figures["tau K=3"] > best:
            best = figures["tau K=3"]
            said = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
            export(head, options.draft, vocabulary, scale, said)


if __name__ == "__main__":
    main()
