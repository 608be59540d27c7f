"""`mars eval` killed and interrupted, and run again: on a tiny model, in real vLLM."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

pytestmark = pytest.mark.engine
LIMIT, SPEED_PROMPTS, REPEATS = 5, 3, 2
LANES = 3


def command(checkpoint: Path, out: Path) -> list[str]:
    options = (
        f"--tasks mars_products --limit {LIMIT} --max-tokens 400 --speed-prompts {SPEED_PROMPTS} "
        f"--repeats {REPEATS} --rule topk:k=3,protect-stop --k 3 --dtype float32 --max-num-seqs 2 "
        "--engine-arg enforce_eager=true"
    )
    return [
        *(sys.executable, "-m", "mars_cli", "eval", "--model", str(checkpoint)),
        *(*options.split(), "--out", str(out)),
    ]


def rows(out: Path) -> list[dict[str, Any]]:
    """Whole records; a torn last line is none."""
    found = []
    for kind in ("quality", "control", "fidelity", "speed", "divergence"):
        for path in (out / "records" / kind).rglob("*.jsonl"):
            lines = path.read_text().split("\n")[:-1]
            found += [{**json.loads(line), "kind": kind} for line in lines]
    return found


def engines_of(process: psutil.Process) -> list[psutil.Process]:
    """And the server that they are forked from."""
    running = [(child, " ".join(child.cmdline())) for child in process.children(recursive=True)]
    return [
        child
        for child, command in running
        if command.startswith("mars engine ") or "mars_cli.engine.server" in command
    ]


def stop_when(
    arguments: list[str], log: Path, ready: Callable[[], bool], by: signal.Signals
) -> tuple[list[psutil.Process], int]:
    """Start, wait until `ready`, send the signal.

    Returns the engines that were running then, with their server, and the exit code.
    """
    with log.open("ab") as file:
        process = subprocess.Popen(arguments, stdout=file, stderr=file)
    try:
        deadline = time.monotonic() + 500
        while not ready():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        engines = engines_of(psutil.Process(process.pid))
        os.kill(process.pid, by)
        process.wait(60)
    finally:
        process.kill()
        process.wait()
    return engines, process.returncode


def test_stopped_run_loses_and_repeats_nothing_and_leaves_no_engine(
    tiny_checkpoint: Path, tmp_path: Path
) -> None:
    """Killed while engines load, interrupted in the quality phase, killed in the speed phase."""
    out, log = tmp_path / "run", tmp_path / "log"
    arguments = command(tiny_checkpoint, out)

    def both_load() -> bool:
        return sum(path.stat().st_size > 0 for path in (out / "logs").glob("*.log")) == 2

    def some_answers() -> bool:
        return len(rows(out)) >= 7

    def some_timed() -> bool:
        return sum(row["kind"] == "speed" for row in rows(out)) >= 5

    survived: list[dict[str, Any]] = []
    for ready, by, code in (
        (both_load, signal.SIGKILL, -9),
        (some_answers, signal.SIGINT, 130),
        (some_timed, signal.SIGKILL, -9),
    ):
        engines, found = stop_when(arguments, log, ready, by)
        assert found == code
        assert len(engines) == 3
        psutil.wait_procs(engines, timeout=10)
        assert [e for e in engines if e.is_running()] == [], "an engine outlived its parent"
        if by == signal.SIGINT:
            last = log.read_text().splitlines()[-1]
            assert last.startswith("resume with: mars eval")
            assert f"--out {out}" in last
        now = rows(out)
        assert {row["key"] for row in survived} <= {row["key"] for row in now}
        survived = now

    finished = subprocess.run(arguments, capture_output=True, text=True, timeout=600, check=False)
    assert finished.returncode == 0, finished.stderr
    final = rows(out)
    keys = [row["key"] for row in final]
    assert len(keys) == len(set(keys))
    kinds = Counter(row["kind"] for row in final)
    assert kinds["quality"] == kinds["fidelity"] == LANES * LIMIT
    assert kinds["control"] == LIMIT
    assert kinds["speed"] == SPEED_PROMPTS * REPEATS * (LANES + 1)
    kept = {row["key"]: row for row in final}
    for row in survived:
        for what in ("token_ids", "z"):
            assert kept[row["key"]].get(what) == row.get(what)

    # The same answer of two lanes is re-scored once: the other's record is a copy.
    made = [row for row in final if "same_as" not in row]
    assert 0 < len(final) - len(made) < LANES * LIMIT
    sessions = json.loads((out / "manifest.json").read_text())["sessions"]
    assert [session["ended"] == "killed" for session in sessions] == [True, False, True, False]
    for session in sessions:
        assert session["records"] == sum(row["session"] == session["number"] for row in made)
        assert session["in_flight_at_end"] == session["requests_started"] - session["records"] >= 0
    started = sum(session["requests_started"] for session in sessions)
    in_flight = sum(session["in_flight_at_end"] for session in sessions)
    assert started == len(made) + in_flight
    results = json.loads((out / "results.json").read_text())
    assert results["run"]["status"] == "complete"
