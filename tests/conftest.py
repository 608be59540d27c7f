from __future__ import annotations

from pathlib import Path

import pytest

from tests import tiny


@pytest.fixture(scope="session")
def tiny_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tokenizer alone."""
    folder = tmp_path_factory.mktemp("tokenizer")
    tiny.save_tokenizer(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A two-layer Llama with random weights: enough for vLLM, nothing to download."""
    folder = tmp_path_factory.mktemp("tiny-llama")
    tiny.save_tokenizer(folder)
    tiny.llama(20).save_pretrained(folder)
    return folder
