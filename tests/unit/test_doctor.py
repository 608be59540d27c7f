"""Each check is right about what it sees, says what to do, and never hangs."""

from __future__ import annotations

import dataclasses
import http.server
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mars_cli import doctor
from mars_cli.config import ModelConfig, load_model
from mars_cli.engine.fit import need_of
from mars_cli.engine.probe import probe
from mars_cli.machine import GIB, Gpu, Machine

CPU = Machine((), 16 * GIB, 12 * GIB, 2, "a CPU", ("avx2",))
SMALL = ModelConfig(name="small", weights="/nowhere", parameters=0.1, dtype="float32")
SEEN: dict[str, Any] = {
    **{"vllm": "0.32.0", "torch": "2.13.0", "seam": None},
    **{"device": "cpu", "runner": "V1"},
}


def gpus(count: int, gib: float) -> Machine:
    return dataclasses.replace(CPU, gpus=(Gpu("H", int(gib * GIB)),) * count)


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test asks the real hub, nor finds what lies in a cache."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("MARS_CACHE", str(tmp_path / "mars"))


def test_a_base_install_says_what_is_missing_and_never_looks_for_vllm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    found = list(doctor.checks(SMALL, CPU, lambda: pytest.fail("vLLM was looked at")))
    by_name = {check.name: check for check in found}
    assert by_name["vllm"].status == "problem"
    assert "report, models and tasks can" in by_name["vllm"].found
    assert "mars-eval[gpu]" in str(by_name["vllm"].remedy)
    assert "seam" not in by_name
    assert by_name["memory"].status == "ok"


def test_the_command_works_where_neither_torch_nor_vllm_is(tmp_path: Path) -> None:
    code = (
        "import importlib.util as u, sys\n"
        "heavy = {'torch', 'vllm', 'lm_eval', 'transformers', 'huggingface_hub'}\n"
        "real = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name in heavy else real(name, *rest)\n"
        "from mars_cli.cli import main\n"
        "try: main(['doctor', '--json'])\n"
        "except SystemExit as end: code = end.code\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "sys.exit(code)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert run.returncode == 1, run.stderr
    found = json.loads(run.stdout)
    assert found["ready"] is False
    assert [check["name"] for check in found["checks"] if check["status"] == "problem"] == ["vllm"]


def test_a_missing_package_is_a_problem_only_where_nothing_works_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    absent = {"lm_eval", "rouge_score"}
    monkeypatch.setattr(doctor, "find_spec", lambda name: None if name in absent else object())
    assert [(check.status, check.found.split()[0]) for check in doctor.packages()] == [
        ("problem", "lm_eval"),
        ("warning", "rouge_score"),
    ]


def test_vllm_in_range_names_its_runner() -> None:
    vllm, seam = doctor.engine(SEEN)
    assert (vllm.status, seam.status) == ("ok", "ok")
    assert "0.32.0" in vllm.found
    assert "V1 runner" in vllm.found


def test_vllm_that_cannot_be_imported_is_a_problem_with_its_last_words() -> None:
    (vllm,) = doctor.engine({"error": "ImportError: libcuda.so.1"})
    assert vllm.status == "problem"
    assert "libcuda.so.1" in vllm.found


def test_another_vllm_is_named_by_the_real_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").write_text("__version__ = '0.40.1'\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    vllm, seam = doctor.engine(probe())
    assert vllm.status == "warning"
    assert seam.status == "problem"
    assert "vLLM 0.40.1 is not one that mars knows" in seam.found
    assert "vllm>=0.32,<0.34" in str(seam.remedy)


def test_a_broken_vllm_is_told_from_an_absent_one_by_the_real_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    (tmp_path / "vllm.py").write_text("raise OSError('no such library')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert probe() == {"error": "OSError: no such library"}


@pytest.mark.parametrize(
    ("machine", "seen", "status"),
    [
        (CPU, SEEN, "ok"),
        (dataclasses.replace(CPU, flags=()), SEEN, "problem"),
        (gpus(1, 80), SEEN, "warning"),
        (gpus(1, 80), {**SEEN, "device": "cuda"}, "ok"),
        (CPU, {**SEEN, "device": "cuda"}, "problem"),
        (CPU, {"error": "x"}, "ok"),
        (CPU, None, "ok"),
    ],
)
def test_the_build_of_vllm_must_go_with_the_machine(
    machine: Machine, seen: dict[str, Any] | None, status: str
) -> None:
    found = doctor.device(machine, seen)
    assert found.status == status
    assert (found.remedy is None) == (status == "ok")


@pytest.mark.parametrize(
    ("model", "machine", "status", "said"),
    [
        ("qwen3-8b", gpus(1, 79.6), "ok", "on 1 GPU, engines side by side"),
        ("qwen3-8b", gpus(1, 24), "warning", "engines one at a time"),
        ("qwen3-8b", gpus(1, 16), "problem", "it needs"),
        ("llama-3.3-70b", gpus(2, 79.6), "problem", "spread over 4 GPUs, and 2 are here"),
        ("llama-3.3-70b", gpus(8, 79.6), "warning", "on 4 GPUs, engines one at a time"),
        ("qwen3-235b-a22b", gpus(8, 79.6), "warning", "on 8 GPUs, engines one at a time"),
        ("qwen3-32b", gpus(1, 79.6), "warning", "on 1 GPU, engines one at a time"),
        ("qwen3-1.7b", CPU, "warning", "on the CPU, engines one at a time"),
        ("qwen3-32b", CPU, "problem", "without a GPU it needs"),
    ],
)
def test_memory_is_held_against_the_model(
    model: str, machine: Machine, status: str, said: str
) -> None:
    config = load_model(model).with_drafts([])
    found = doctor.memory(config, need_of(config), machine)
    assert (found.status, said in found.found) == (status, True), found


def test_more_gpus_than_configured_are_proposed_where_they_help() -> None:
    config = load_model("qwen3-32b").with_drafts([])
    found = doctor.memory(config, need_of(config), gpus(4, 40))
    assert found.remedy == "--engine-arg tensor_parallel_size=2"


def test_a_size_that_nobody_gave_is_not_guessed() -> None:
    config = ModelConfig(name="m", weights="hub:a/b")
    found = doctor.memory(config, need_of(config), CPU)
    assert (found.status, "not known" in found.found) == ("warning", True)


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A hub that answers, with an error, as some do without a path."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_error(404)

        def log_message(self, *rest: Any) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("HF_HUB_OFFLINE")
    yield os.environ["HF_ENDPOINT"]
    server.shutdown()
    server.server_close()


LACKING = [("m", "hub:a/b", Path("/nowhere"))]


def test_a_hub_that_answers_is_ok_whatever_it_says(endpoint: str) -> None:
    assert doctor.hub(LACKING) == doctor.Check("hub", "ok", f"{endpoint} answers")


def test_a_hub_that_never_answers_is_given_up(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        began = time.monotonic()
        found = doctor.hub(LACKING, timeout=0.3)
        assert time.monotonic() - began < 3
    assert found.status == "problem"
    assert "out of reach" in found.found
    assert "m (hub:a/b)" in found.found


def test_offline_is_a_problem_only_where_weights_are_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor, "unreachable", lambda *_: pytest.fail("the hub was asked"))
    assert doctor.hub(LACKING).status == "problem"
    assert doctor.hub([("m", "pypi:a==1#b", Path("x"))]).status == "warning"
    assert doctor.hub([]).status == "warning"


def test_a_cache_must_hold_what_is_still_to_be_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    config = load_model("qwen3-8b").with_drafts([])
    need = need_of(config)
    lacking = [("qwen3-8b", config.weights, Path("x")), ("draft eagle3", "hub:a/b", Path("y"))]
    for free, status in ((100, "ok"), (20, "warning"), (10, "problem")):
        monkeypatch.setattr(doctor, "free_space", lambda _, free=free: free * GIB)
        own, hub = doctor.caches(need, lacking)
        assert (own.status, hub.status) == ("ok", status)
        assert "16.0 GiB to download" in hub.found


def test_a_cache_that_cannot_be_written_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.os, "access", lambda *_: False)
    own, _ = doctor.caches(None, [])
    assert (own.status, own.remedy) == ("problem", "set MARS_CACHE")


def test_the_sandbox_is_told_by_its_level(monkeypatch: pytest.MonkeyPatch) -> None:
    from mars_cli.scoring import sandbox

    for level, status in (("namespaces", "ok"), ("limits", "warning")):
        monkeypatch.setattr(sandbox, "isolation", lambda level=level: (level, "no network"))
        assert doctor.sandbox().status == status


def test_a_problem_is_exit_code_1_and_json_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from mars_cli.commands.doctor import command

    found = [doctor.Check("a", "ok", "fine"), doctor.Check("b", "warning", "hm", "do this")]
    monkeypatch.setattr(doctor, "checks", lambda *_: iter(found))
    good = CliRunner().invoke(command, [])
    assert good.exit_code == 0
    assert "do this" in good.stdout
    found.append(doctor.Check("c", "problem", "bad", "do that"))
    assert CliRunner().invoke(command, []).exit_code == 1
    run = CliRunner().invoke(command, ["--json"])
    assert run.exit_code == 1
    told = json.loads(run.stdout)
    assert (told["ready"], [check["status"] for check in told["checks"]]) == (
        False,
        ["ok", "warning", "problem"],
    )
