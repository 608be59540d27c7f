"""A sweep with a real engine: killed again and again, it ends with the figures of a whole one."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.engine

KILLS = int(os.environ.get("MARS_TEST_KILLS", "1"))
# What differs from one run to the next: times, and what follows from them.
OF_TIME = ("speedup", "ttft", "tpot", "tokens_per_s", "throughput", "noise", "seconds", "front")


def command(checkpoint: Path, out: Path) -> list[str]:
    options = (
        "--tasks mars_products --limit 3 --theta 0.5,0.9 --k 2,3 --speed-prompts 1 --repeats 1 "
        "--max-tokens 24 --dtype float32 --max-num-seqs 2 --engine-arg enforce_eager=true"
    )
    model = ["--model", str(checkpoint)]
    return [
        *(sys.executable, "-m", "mars_cli", "sweep"),
        *model,
        *options.split(),
        "--out",
        str(out),
    ]


def untimed(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: untimed(inner)
            for key, inner in value.items()
            if not any(word in key for word in OF_TIME) and key not in ("log", "notes", "memory")
        }
    return [untimed(inner) for inner in value] if isinstance(value, list) else value


def figures(out: Path) -> Any:
    sweep = json.loads((out / "sweep.json").read_text())
    return untimed({key: sweep[key] for key in ("groups", "cells", "settings")})


def killed_and_resumed(arguments: list[str], out: Path, log: Path) -> int:
    """Kill it at random moments of its life, then let it end; how often it was killed."""
    chance = random.Random(7)
    kills = 0
    resume = [sys.executable, "-m", "mars_cli", "sweep", "--resume", str(out)]
    while kills < KILLS:
        begun = (out / "sweep.json").exists()
        with log.open("ab") as file:
            process = subprocess.Popen(
                resume if begun else arguments, stdout=file, stderr=file, start_new_session=True
            )
        try:
            process.wait(timeout=chance.uniform(8, 40))
            return kills  # it came to its end before the next kill
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
            time.sleep(1)  # its children end with it, but not in the same instant
    return kills


def test_a_sweep_that_was_killed_ends_with_the_same_figures(
    tiny_checkpoint: Path, tmp_path: Path
) -> None:
    whole, broken, log = tmp_path / "whole", tmp_path / "broken", tmp_path / "log"
    done = subprocess.run(
        command(tiny_checkpoint, whole), capture_output=True, text=True, timeout=800, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "recommended: none" in done.stdout
    sweep = json.loads((whole / "sweep.json").read_text())
    assert [group["status"] for group in sweep["groups"]] == ["complete"] * 2
    assert len(sweep["cells"]) == 2 * 3
    assert all(cell["status"] == "done" and cell["speedup"] for cell in sweep["cells"])
    # The second group takes `ar`'s answers from the first: measured once, not once a cell.
    second = json.loads((whole / "groups/k3/manifest.json").read_text())
    assert second["plan"]["baseline"] == "k2"

    if KILLS == 1:  # the second group is enough to be killed in: the first costs a minute
        shutil.copytree(whole / "groups/k2", broken / "groups/k2")
        begun = json.loads((whole / "sweep.json").read_text())
        (broken / "sweep.json").write_text(json.dumps(begun))
    assert killed_and_resumed(command(tiny_checkpoint, broken), broken, log) > 0
    finished = subprocess.run(
        [sys.executable, "-m", "mars_cli", "sweep", "--resume", str(broken)],
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr + log.read_text()
    assert figures(broken) == figures(whole)
