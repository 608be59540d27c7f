"""The EAGLE-3 head (arXiv 2503.01840) as vLLM loads it, in plain torch, unrolled for training.

At position p the first draft step reads the embedding of token p + 1 and three hidden states of
the target at p, and predicts token p + 2. Step s + 1 reads the embedding of token p + s + 1 and
what step s put out, and predicts token p + s + 2: what inference does where every draft so far was
right. Its queries see the first step's keys up to p, and their own chain's.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

HIDDEN, INNER, HEADS, KV_HEADS, SIZE = 576, 1536, 9, 3, 64
ROPE_THETA, EPS = 100_000.0, 1e-5


class Head(nn.Module):
    """One decoder layer over [embedding, hidden state], with an output head over `vocab` tokens."""

    embedding: Tensor

    def __init__(self, vocab: int, embedding: Tensor) -> None:
        super().__init__()
        self.register_buffer("embedding", embedding, persistent=False)
        self.fc = nn.Linear(3 * HIDDEN, HIDDEN, bias=False)
        self.midlayer = Layer()
        self.norm = nn.RMSNorm(HIDDEN, EPS)
        self.lm_head = nn.Linear(HIDDEN, vocab, bias=False)

    def forward(self, batch: Sequence[Given], steps: int) -> list[Tensor]:
        """Normed outputs of each draft step at all anchors in order: `steps` tensors [A, H]."""
        chain = Chain(batch)
        aux = torch.cat([one.aux[: one.length] for one in batch])
        tokens = torch.cat([one.tokens[1 : one.length + 1] for one in batch])
        hidden = self.midlayer(self.embedding[tokens], self.fc(aux), chain)
        outputs = [self.norm(hidden)]
        for step in range(2, steps + 1):
            tokens = torch.cat([one.tokens[one.anchors + step] for one in batch])
            hidden = self.midlayer(self.embedding[tokens], hidden, chain)
            outputs.append(self.norm(hidden))
        return outputs


@dataclass(frozen=True)
class Given:
    """What the head reads of one sequence of T tokens.

    tokens [T], aux [T, 3 H] the target's states, anchors [A] ascending positions p from which
    `steps` drafts are made: p + steps < T.
    """

    tokens: Tensor
    aux: Tensor
    anchors: Tensor

    @property
    def length(self) -> int:
        """How many positions there are up to the last anchor."""
        return int(self.anchors[-1]) + 1


class Chain:
    """Keys and values of sequences one after another: the first step's, then an anchor's own."""

    def __init__(self, batch: Sequence[Given]) -> None:
        self.lengths = [one.length for one in batch]
        self.counts = [len(one.anchors) for one in batch]
        self.positions = torch.cat([torch.arange(length) for length in self.lengths])
        self.anchors = torch.cat([one.anchors for one in batch])  # within their sequences
        starts = itertools.accumulate(self.lengths, initial=0)
        pairs = zip(batch, starts, strict=False)
        self.rows = torch.cat([one.anchors + start for one, start in pairs])  # among all
        self.hides = [
            torch.arange(one.length)[None, None, :] > one.anchors[:, None, None] for one in batch
        ]
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []


class Layer(nn.Module):
    """The decoder layer; where its input is a whole sequence, its output is at the anchors only."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden_norm = nn.RMSNorm(HIDDEN, EPS)
        self.input_layernorm = nn.RMSNorm(HIDDEN, EPS)
        self.post_attention_layernorm = nn.RMSNorm(HIDDEN, EPS)
        self.self_attn = nn.ModuleDict(
            {
                "q_proj": nn.Linear(2 * HIDDEN, HEADS * SIZE, bias=False),
                "k_proj": nn.Linear(2 * HIDDEN, KV_HEADS * SIZE, bias=False),
                "v_proj": nn.Linear(2 * HIDDEN, KV_HEADS * SIZE, bias=False),
                "o_proj": nn.Linear(HEADS * SIZE, HIDDEN, bias=False),
            }
        )
        self.mlp = nn.ModuleDict(
            {
                "gate_proj": nn.Linear(HIDDEN, INNER, bias=False),
                "up_proj": nn.Linear(HIDDEN, INNER, bias=False),
                "down_proj": nn.Linear(INNER, HIDDEN, bias=False),
            }
        )

    def forward(self, embeds: Tensor, hidden: Tensor, chain: Chain) -> Tensor:
        """[A, H], before the final norm; `chain` takes this step's keys and values."""
        step = len(chain.keys)
        at = torch.cat([self.input_layernorm(embeds), self.hidden_norm(hidden)], dim=-1)
        places = chain.anchors + step if step else chain.positions
        keys = self.self_attn["k_proj"](at).view(-1, KV_HEADS, SIZE)
        chain.keys.append(rotated(keys, places))
        chain.values.append(self.self_attn["v_proj"](at).view(-1, KV_HEADS, SIZE))
        if step == 0:
            at, hidden = at[chain.rows], hidden[chain.rows]
        query = rotated(self.self_attn["q_proj"](at).view(-1, HEADS, SIZE), chain.anchors + step)
        hidden = hidden + self.self_attn["o_proj"](attention(query, chain))
        at = self.post_attention_layernorm(hidden)
        inner = functional.silu(self.mlp["gate_proj"](at)) * self.mlp["up_proj"](at)
        out: Tensor = hidden + self.mlp["down_proj"](inner)
        return out


def attention(query: Tensor, chain: Chain) -> Tensor:
    """[A, HEADS * SIZE] of queries [A, HEADS, SIZE]."""
    group, out = HEADS // KV_HEADS, []
    own = [torch.split(kept, chain.counts) for kept in (*chain.keys[1:], *chain.values[1:])]
    first = zip(
        torch.split(query, chain.counts),
        torch.split(chain.keys[0], chain.lengths),
        torch.split(chain.values[0], chain.lengths),
        strict=True,
    )
    for n, (asked, keys, values) in enumerate(first):
        # Queries that share a head of keys lie side by side: [A, KV_HEADS, group, SIZE].
        grouped = asked.view(-1, KV_HEADS, group, SIZE)
        scores = torch.einsum("akgd,tkd->akgt", grouped, keys)
        scores = scores.masked_fill(chain.hides[n][:, None], -torch.inf)
        later, half = [part[n] for part in own], len(own) // 2
        chained = [(grouped * key[:, :, None]).sum(-1, keepdim=True) for key in later[:half]]
        weights = torch.softmax(torch.cat([scores, *chained], dim=-1) * SIZE**-0.5, dim=-1)
        attended = torch.einsum("akgt,tkd->akgd", weights[..., : len(keys)], values)
        for step, value in enumerate(later[half:]):
            share = weights[..., len(keys) + step, None]
            attended = attended + share * value[:, :, None]
        out.append(attended.flatten(1))
    return torch.cat(out)


def rotated(vectors: Tensor, positions: Tensor) -> Tensor:
    """Rotary embedding, halves paired (the layout of Llama in transformers), of [T, n, SIZE]."""
    rates = ROPE_THETA ** (-torch.arange(0, SIZE, 2) / SIZE)
    angles = positions[:, None, None] * rates
    cos, sin = angles.cos(), angles.sin()
    a, b = vectors.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def config(vocab: int, target: dict[str, Any], aux_layers: tuple[int, ...]) -> dict[str, Any]:
    """The config.json that vLLM reads beside the weights."""
    return {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": SIZE,
        "num_hidden_layers": 1,
        "hidden_act": "silu",
        "rms_norm_eps": EPS,
        "max_position_embeddings": target["max_position_embeddings"],
        "rope_parameters": {"rope_theta": ROPE_THETA, "rope_type": "default"},
        "vocab_size": target["vocab_size"],
        "draft_vocab_size": vocab,
        "target_hidden_size": HIDDEN,
        "tie_word_embeddings": False,
        "dtype": "bfloat16",
        "eagle_config": {
            "eagle_aux_hidden_state_layer_ids": list(aux_layers),
            "use_aux_hidden_state": True,
        },
    }
