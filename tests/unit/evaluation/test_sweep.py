"""Orchestration of groups, with commands that only pretend to be `mars eval`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from mars_cli.evaluation import sweep as module
from mars_cli.evaluation.grid import Group
from mars_cli.evaluation.sweep import Sweep, confirm, run_sweep
from tests.unit.analysis import built

LANES = [lane["id"] for lane in built.LANES]


def group(name: str, temperature: float | None = None) -> Group:
    return Group(name, None, None, temperature, ("--limit", "3"), ("--theta", "0.9"))


def sweep_in(folder: Path, *names: str, slots: int = 1) -> Sweep:
    plan = {"min_recovery": 98.0, "arguments": []}
    environments = [{"CUDA_VISIBLE_DEVICES": str(n)} for n in range(slots)]
    return Sweep(folder, plan, "now", [group(name) for name in names], environments)


def write_run(folder: Path, status: str, command: Sequence[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    given = command[command.index("--baseline") + 1] if "--baseline" in command else None
    plan = {"lanes": LANES, "baseline": given and Path(given).name, "concurrency": [1]}
    plan |= {"speed_prompts": 6, "repeats": 2}
    manifest = {"schema": 1, "id": folder.name, "status": status, "plan": plan}
    manifest["tasks"] = {"mars_products": {}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "results.json").write_text(json.dumps(built.results(built.full_task())))


class Starting:
    """Starts processes that end as told, and keeps what was asked for."""

    def __init__(self, codes: Mapping[str, int] | None = None, sleep: float = 0.0) -> None:
        self.codes = codes or {}
        self.sleep = sleep
        self.commands: list[list[str]] = []
        self.environments: list[Mapping[str, str]] = []
        self.most = 0
        self._running: list[subprocess.Popen[bytes]] = []

    def __call__(
        self, command: Sequence[str], log: Path, environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        folder = Path(command[command.index("--out") + 1])
        self.commands.append(list(command))
        self.environments.append(environment)
        code = self.codes.get(folder.name, 0)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("error: no such weights\n" if code else "fine\n")
        if code == 0:
            write_run(folder, "complete", command)
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"import time; time.sleep({self.sleep}); raise SystemExit({code})",
            ]
        )
        self._running = [one for one in self._running if one.poll() is None] + [process]
        self.most = max(self.most, len(self._running))
        return process

    @property
    def names(self) -> list[str]:
        return [Path(command[command.index("--out") + 1]).name for command in self.commands]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_S", 0.02)


def test_groups_run_in_turn_and_later_ones_take_the_answers_of_the_first(tmp_path: Path) -> None:
    start = Starting(sleep=0.1)
    found = run_sweep(sweep_in(tmp_path, "k7", "k9", "k10"), lambda cells: None, start)
    assert start.names == ["k7", "k9", "k10"]
    assert start.most == 1
    baselines = [
        c[c.index("--baseline") + 1] if "--baseline" in c else None for c in start.commands
    ]
    assert baselines == [None, *[str(tmp_path / "groups/k7")] * 2]
    assert found["run"]["status"] == "complete"
    assert json.loads((tmp_path / "sweep.json").read_text()) == found
    assert len(found["cells"]) == 3 * 2


def test_a_group_that_fails_leaves_the_others_whole_and_runs_again(tmp_path: Path) -> None:
    start = Starting({"k9": 1})
    found = run_sweep(sweep_in(tmp_path, "k7", "k9", "k10"), lambda cells: None, start)
    assert found["run"]["status"] == "failed"
    states = {one["id"]: (one["status"], one["reason"]) for one in found["groups"]}
    assert states["k9"] == ("failed", "error: no such weights")
    assert states["k7"] == states["k10"] == ("complete", None)

    again = Starting()
    found = run_sweep(sweep_in(tmp_path, "k7", "k9", "k10"), lambda cells: None, again)
    assert again.names == ["k9"]
    assert found["run"]["status"] == "complete"


def test_a_group_that_may_not_go_on_says_why_and_not_what_it_died_of(tmp_path: Path) -> None:
    folder = tmp_path / "groups/k7"
    write_run(folder, "failed", [])
    manifest = json.loads((folder / "manifest.json").read_text())
    lanes = manifest["plan"]["lanes"]
    died = {"phase": "quality", "task": None, "lanes": lanes, "reason": "boom"}
    (folder / "manifest.json").write_text(json.dumps({**manifest, "failures": [died]}))

    def refuse(command: Any, log: Path, environment: Any) -> subprocess.Popen[bytes]:
        log.write_text("error: mine.py has changed\nhint: another folder\n")
        return subprocess.Popen([sys.executable, "-c", "raise SystemExit(2)"])

    found = run_sweep(sweep_in(tmp_path, "k7"), lambda cells: None, refuse)
    said = "error: mine.py has changed; hint: another folder"
    assert found["groups"][0]["reason"] == said
    assert {cell["reason"] for cell in found["cells"]} == {f"not run again: {said}"}
    assert "boom" not in json.dumps(found)


def test_slots_run_groups_side_by_side_each_with_its_own_environment(tmp_path: Path) -> None:
    start = Starting(sleep=1.0)
    run_sweep(sweep_in(tmp_path, "k7", "k9", slots=2), lambda cells: None, start)
    assert start.most == 2
    assert [e["CUDA_VISIBLE_DEVICES"] for e in start.environments] == ["0", "1"]
    assert not any("--baseline" in command for command in start.commands)


def test_a_group_that_has_begun_keeps_to_what_it_began_with(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path, "k7", "k9")
    write_run(tmp_path / "groups/k7", "complete", [])
    write_run(tmp_path / "groups/k9", "partial", [])
    assert "--baseline" not in sweep.command(sweep.groups[1])
    write_run(tmp_path / "groups/k9", "partial", ["--baseline", "k7"])
    assert "--baseline" in sweep.command(sweep.groups[1])


def test_interrupted_groups_are_told_to_save_their_state(tmp_path: Path) -> None:
    waiting = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.default_int_handler)\n"
        "try:\n print('ready', flush=True)\n time.sleep(60)\n"
        "except KeyboardInterrupt:\n sys.exit(130)"
    )
    processes = []

    def start(command: Any, log: Path, environment: Any) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", waiting], stdout=subprocess.PIPE)
        assert process.stdout is not None
        with process.stdout:
            process.stdout.readline()  # its handler is in place
        processes.append(process)
        return process

    calls = []

    def watch(cells: Any) -> None:
        calls.append(cells)
        if len(calls) == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sweep(sweep_in(tmp_path, "k7"), watch, start)
    assert processes[0].returncode == 130
    assert json.loads((tmp_path / "sweep.json").read_text())["run"]["status"] == "partial"


def test_what_has_become_of_each_cell_is_told(tmp_path: Path) -> None:
    seen: list[dict[Any, str]] = []
    run_sweep(sweep_in(tmp_path, "k7"), seen.append, Starting(sleep=0.3))
    assert set(seen[-1]) == {("k7", "mars_products", lane) for lane in LANES}
    assert set(seen[-1].values()) == {"done"}


def test_the_winner_is_measured_again_on_the_documents_after(tmp_path: Path) -> None:
    sweep = sweep_in(tmp_path, "k7")
    found = run_sweep(sweep, lambda cells: None, Starting())
    found["recommended"] = {"setting": built.MARS, "min_recovery": 80.0, "reason": ""}
    found["settings"][1] |= {"parameters": {"theta": 0.9}, "protect_stop": False}
    start = Starting()
    confirmed = confirm(sweep, found, start)["confirmed"]
    (command,) = start.commands
    assert command[command.index("--skip") + 1] == "20"
    assert command[command.index("--rule") + 1] == "mars:theta=0.9"
    assert "--theta" not in command
    assert confirmed["status"] == "complete"
    assert confirmed["tasks"]["mars_products"]["n"] == 20
    assert confirmed["holds"] is False
    assert sweep.write()["confirmed"] == confirmed  # kept when written anew
