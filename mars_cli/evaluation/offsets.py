"""Where each token of an answer ends in its text: what marking tokens in a report needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# A character has four bytes at most: a decoder that holds back more tokens than this makes no text.
MOST_PENDING = 64


def token_ends(
    tokenizer: Any, prompt_token_ids: Sequence[int], token_ids: Sequence[int], text: str
) -> list[int] | None:
    """For each token the number of characters of `text` up to its end: never less than before it.

    Decoded as vLLM does, token by token behind the prompt, special tokens kept. A token that ends
    within a character ends where that character begins; one that a stop string cut off, or EOS,
    ends where the text does. Linear in the number of tokens.

    Args:
        tokenizer: of transformers.
        prompt_token_ids: what the answer was generated behind.
        token_ids: the delivered tokens.
        text: the delivered text.

    Returns:
        As many ends as tokens; None where that cannot be told: the tokenizer does not decode
        incrementally (it is none of the library tokenizers), or gives another text.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return None
    from tokenizers.decoders import DecodeStream

    stream = DecodeStream(ids=list(prompt_token_ids), skip_special_tokens=False)
    ends: list[int] = []
    end = pending = 0
    for token in token_ids:
        if end < len(text):
            try:
                piece = stream.step(backend, token) or ""
            except Exception:  # the library raises nothing narrower, for ids and for bytes
                return None
            pending = 0 if piece else pending + 1
            seen = text[end : end + len(piece)]
            if not piece.startswith(seen) or pending > MOST_PENDING:
                return None
            end += len(seen)
        ends.append(end)
    return ends if end == len(text) else None
