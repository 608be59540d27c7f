"""`mars serve`: vLLM's own server, asked by the official client."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest

from mars_cli.engine.engine import Engine
from mars_cli.engine.protocol import Request
from mars_cli.verification.spec import STRICT, RuleSpec

pytestmark = pytest.mark.engine
PROMPTS = [[0, *(3 + (7 * n + 5 * i) % 40 for i in range(12 + n))] for n in range(8)]
TOKENS = 48


@pytest.fixture(scope="module")
def server(tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with theta 0.5; its process group is ended with the module."""
    folder = tmp_path_factory.mktemp("serve")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (folder / "tiny.yaml").write_text(
        f"name: tiny\nweights: {tiny_checkpoint}\ndtype: float32\nk: 5\nmax_model_len: 512\n"
        "drafts:\n  ngram: {method: ngram, prompt_lookup_min: 1, prompt_lookup_max: 3}\n"
        "engine: {enforce_eager: true}\n"
    )
    command = [sys.executable, "-m", "mars_cli", "serve", "--model", str(folder / "tiny.yaml")]
    command += ["--theta", "0.5", "--", "--port", str(port), "--host", "127.0.0.1"]
    command += ["--generation-config", "vllm", "--max-num-seqs", "8"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, start_new_session=True, env={**os.environ}
        )
    try:
        wait_until_healthy(process, f"http://127.0.0.1:{port}/health", folder / "log")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_until_healthy(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    deadline = time.monotonic() + 500
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()[-3000:]
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(1)
    raise AssertionError(f"no answer from the server: {log.read_text()[-3000:]}")


def complete(address: str, prompt: list[int], wish: dict[str, Any] | None) -> list[int]:
    with openai.OpenAI(base_url=address, api_key="none") as client:
        answer = client.completions.create(
            model="tiny",
            prompt=prompt,
            max_tokens=TOKENS,
            temperature=0,
            extra_body={
                "return_token_ids": True,
                **({} if wish is None else {"vllm_xargs": wish}),
            },
        )
    ids: list[int] = answer.choices[0].model_extra["token_ids"]
    return ids


def offline(engine: Engine, rule: RuleSpec) -> list[list[int]]:
    engine.set_rule(rule)
    asked = [Request(str(n), prompt, max_tokens=TOKENS) for n, prompt in enumerate(PROMPTS)]
    return [generation.token_ids for generation in engine.generate(asked)]


def test_clients_side_by_side_get_what_the_offline_engine_gives(
    server: str, engines: tuple[Engine, Engine]
) -> None:
    asked: list[tuple[dict[str, Any] | None, RuleSpec]] = [
        (None, RuleSpec.of("mars", theta=0.5)),
        ({"mars_theta": 1.0}, RuleSpec.of("mars", theta=1.0)),
        ({"mars_theta": 0.9}, RuleSpec.of("mars", theta=0.9)),
        ({"mars_rule": "strict"}, STRICT),
        ({"mars_rule": "topk:k=3"}, RuleSpec.of("topk", k=3)),
    ]
    expected = [offline(engines[1], rule) for _, rule in asked]
    assert expected[1] == expected[3] != expected[0]
    with ThreadPoolExecutor(len(asked)) as pool:  # the clients are side by side
        found = [
            list(pool.map(lambda one, prompt=prompt: complete(server, prompt, one[0]), asked))
            for prompt in PROMPTS
        ]
    assert [list(one) for one in zip(*found, strict=True)] == expected


def test_a_wrong_wish_is_refused_and_the_server_goes_on(server: str) -> None:
    with pytest.raises(openai.BadRequestError, match="theta must lie in"):
        complete(server, PROMPTS[0], {"mars_theta": 1.5})
    with pytest.raises(openai.BadRequestError, match="mars_thta: unknown"):
        complete(server, PROMPTS[0], {"mars_thta": 0.9})
    assert len(complete(server, PROMPTS[0], None)) > 1
