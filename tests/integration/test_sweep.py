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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.engine

Moment = Callable[[], float]  # seconds until the next kill
KILLS = int(os.environ.get("MARS_TEST_KILLS", "1"))
# What differs from one run to the next: times, and what follows from them.
OF_TIME = ("speedup", "ttft", "tpot", "tokens_per_s", "throughput", "noise", "seconds", "front")


def command(checkpoint: Path, out: Path, cells: str = "--theta 0.5,0.9 --k 2,3") -> list[str]:
    options = (
        f"--tasks mars_products --limit 3 {cells} --speed-prompts 1 --repeats 1 "
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


def killed(arguments: list[str], out: Path, log: Path, most: int, moment: Moment) -> int:
    """Kill it, and what resumes it, at random moments; how often, before it came to its end."""
    resume = [sys.executable, "-m", "mars_cli", "sweep", "--resume", str(out)]
    for kills in range(most):
        begun = (out / "sweep.json").exists()
        with log.open("ab") as file:
            process = subprocess.Popen(
                resume if begun else arguments, stdout=file, stderr=file, start_new_session=True
            )
        try:
            process.wait(timeout=moment())
            return kills
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            time.sleep(1)  # its children end with it, but not in the same instant
    return most


def test_a_sweep_that_was_killed_ends_with_the_same_figures(
    tiny_checkpoint: Path, tmp_path: Path
) -> None:
    whole, log = tmp_path / "whole", tmp_path / "log"
    started = time.monotonic()
    done = subprocess.run(
        command(tiny_checkpoint, whole), capture_output=True, text=True, timeout=800, check=False
    )
    seconds = time.monotonic() - started
    assert done.returncode == 0, done.stderr
    assert "recommended: none" in done.stdout
    sweep = json.loads((whole / "sweep.json").read_text())
    assert [group["status"] for group in sweep["groups"]] == ["complete"] * 2
    assert len(sweep["cells"]) == 2 * 3
    assert all(cell["status"] == "done" and cell["speedup"] for cell in sweep["cells"])
    # The second group takes `ar`'s answers from the first: measured once, not once a cell.
    second = json.loads((whole / "groups/k3/manifest.json").read_text())
    assert second["plan"]["baseline"] == "k2"

    chance = random.Random(7)
    kills = sweeps = 0
    while kills < KILLS:
        broken = tmp_path / f"broken-{sweeps}"
        sweeps += 1
        if KILLS == 1:  # the second group is enough to be killed in
            shutil.copytree(whole / "groups/k2", broken / "groups/k2")
            shutil.copy(whole / "sweep.json", broken)
        kills += killed(
            command(tiny_checkpoint, broken),
            broken,
            log,
            KILLS - kills,
            lambda: seconds * chance.uniform(0.1, 0.6),
        )
        finished = subprocess.run(
            [sys.executable, "-m", "mars_cli", "sweep", "--resume", str(broken)],
            capture_output=True,
            text=True,
            timeout=800,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr + log.read_text()
        assert figures(broken) == figures(whole)
    print(f"killed {kills} times in {sweeps} sweeps of {seconds:.0f} s")


def test_a_draft_that_cannot_be_loaded_costs_its_own_cells_alone(
    tiny_checkpoint: Path, tmp_path: Path
) -> None:
    classes = "tests.integration.repeating"
    drafts = " ".join(
        f"--draft {name}=custom_class:{classes}.{name.title()}" for name in ("repeating", "broken")
    )
    done = subprocess.run(
        command(tiny_checkpoint, tmp_path / "out", f"--theta 0.5 --k 2 {drafts}"),
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 3, done.stderr
    sweep = json.loads((tmp_path / "out/sweep.json").read_text())
    assert {(cell["lane"], cell["status"]) for cell in sweep["cells"]} == {
        ("strict-repeating-k2", "done"),
        ("mars-repeating-k2-t0.5", "done"),
        ("strict-broken-k2", "failed"),
        ("mars-broken-k2-t0.5", "failed"),
    }
    assert all("broken on purpose" in cell["reason"] for cell in sweep["cells"] if cell["reason"])
    assert "broken on purpose" in " ".join(done.stdout.split())
    whole, failed = sweep["groups"]
    assert (whole["status"], failed["status"]) == ("complete", "failed")
    assert (tmp_path / "out" / failed["log"]).is_file()
