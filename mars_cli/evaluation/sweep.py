"""A sweep: the groups of a grid, each run as a `mars eval` of its own, to one sweep.json.

outputs/<id>/
  sweep.json              what was asked for, and all figures; written anew as groups end
  groups/<group>/         a run directory like any other, and eval.log, what its command said
  report.md  figures/

A process for each group keeps failures apart, lets groups run side by side on their own GPUs, and
is all that a cluster would have to do: `start` is the one place that starts them.
"""

from __future__ import annotations

import ctypes
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mars_cli.analysis.sweep import build_sweep, merged
from mars_cli.errors import UsageError
from mars_cli.evaluation.grid import Group
from mars_cli.runs.files import write_json
from mars_cli.runs.layout import by_lane, by_task, prompts_path
from mars_cli.runs.run import read_manifest

EVAL = (sys.executable, "-m", "mars_cli", "eval")
POLL_S = 1.0
PATIENCE_S = 30.0  # for a group to save its state when it is interrupted
CellName = tuple[str, str, str]  # group, task, lane
Start = Callable[[Sequence[str], Path, Mapping[str, str]], "subprocess.Popen[bytes]"]
Watch = Callable[[dict[CellName, str]], None]  # what has become of each cell


@dataclass
class Sweep:
    """A sweep in its folder. `slots` are what groups may run on side by side, as environments.

    `refused`: of groups that could not even begin, or go on, why; by id.
    """

    folder: Path
    plan: dict[str, Any]
    created: str
    groups: list[Group]
    slots: list[dict[str, str]] = field(default_factory=lambda: [{}])
    refused: dict[str, str] = field(default_factory=dict)

    def of(self, group: Group) -> Path:
        """The group's run directory."""
        return self.folder / "groups" / group.id

    def command(self, group: Group) -> list[str]:
        """The `mars eval` that the group is."""
        own = [*group.rules, *self._baseline(group), "--out", str(self.of(group))]
        return [*EVAL, *group.arguments, *own]

    def _baseline(self, group: Group) -> list[str]:
        """Where the answers of `ar` come from, if not from the group itself.

        Those of the first group that shares the temperature, once it is whole. A group that has
        begun keeps to what it began with.
        """
        if "--baseline" in group.arguments:
            return []
        begun = read_manifest(self.of(group))
        first = next(one for one in self.groups if one.temperature == group.temperature)
        if begun is not None:
            return ["--baseline", str(self.of(first))] if begun["plan"]["baseline"] else []
        whole = first is not group and len(self.slots) == 1 and self.status(first) == "complete"
        return ["--baseline", str(self.of(first))] if whole else []

    def status(self, group: Group) -> str:
        """How the group's run stands: complete, failed, partial; waiting where none is begun."""
        manifest = read_manifest(self.of(group))
        return "waiting" if manifest is None else str(manifest["status"])

    def expected(self, group: Group) -> list[tuple[str, str]]:
        """The group's cells (task, lane), known once it has begun."""
        manifest = read_manifest(self.of(group))
        if manifest is None:
            return []
        names = manifest.get("tasks", {})
        return [(task, lane) for task in names for lane in manifest["plan"]["lanes"]]

    def write(self, *, confirmed: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Write and return sweep.json as it stands."""
        found = [self._described(group) for group in self.groups]
        confirmed = confirmed or self._confirmed()
        states = {group["status"] for group in found}
        status = "partial" if states & {"waiting", "partial"} else "complete"
        run = {
            "id": self.folder.resolve().name,
            "created": self.created,
            "status": "failed" if "failed" in states else status,
        }
        sweep = build_sweep(run, self.plan, found, self.plan["min_recovery"], confirmed)
        write_json(self.folder / "sweep.json", sweep)
        return sweep

    def _confirmed(self) -> dict[str, Any] | None:
        """What an earlier session confirmed."""
        path = self.folder / "sweep.json"
        if not path.exists():
            return None
        found: dict[str, Any] | None = json.loads(path.read_text(encoding="utf-8"))["confirmed"]
        return found

    def results(self) -> list[dict[str, Any]]:
        """What each group has, as `build_sweep` takes it."""
        return [self._described(group) for group in self.groups]

    def _described(self, group: Group) -> dict[str, Any]:
        folder = self.of(group)
        manifest, status = read_manifest(folder) or {}, self.status(group)
        log = folder.parent / f"{group.id}.log"
        reason, refused = None, self.refused.get(group.id)
        if status in ("failed", "partial") or (status == "waiting" and log.exists()):
            reason = refused or _last_words(log)
            status = "failed" if status == "waiting" or refused else status
        failures = manifest.get("failures", [])
        if refused:  # what it died of before is not what holds it up now
            now = {"phase": "not run again", "reason": refused}
            failures = [{**failure, **now} for failure in failures]
        return {
            "id": group.id,
            "temperature": group.temperature,
            "status": status,
            "reason": reason,
            "log": str(log.relative_to(self.folder)) if log.exists() else None,
            "expected": self.expected(group),
            "failures": failures,
            "results": _results(folder),
        }


def run_sweep(sweep: Sweep, watch: Watch, start: Start | None = None) -> dict[str, Any]:
    """Run the groups that are not complete yet, as many at a time as there are slots.

    A group that fails leaves the others whole. Interrupted, the running groups are told to save
    their state; the next call goes on from it. Returns sweep.json.
    """
    start = start or start_group
    waiting = [group for group in sweep.groups if sweep.status(group) != "complete"]
    running: dict[int, tuple[Group, subprocess.Popen[bytes]]] = {}
    try:
        while waiting or running:
            for slot, environment in enumerate(sweep.slots):
                if slot not in running and waiting:
                    group = waiting.pop(0)
                    log = sweep.of(group).parent / f"{group.id}.log"
                    running[slot] = group, start(sweep.command(group), log, environment)
            time.sleep(POLL_S)
            watch(progress(sweep, {group.id for group, _ in running.values()}))
            for slot, (group, process) in list(running.items()):
                if process.poll() is not None:
                    if process.returncode == UsageError.exit_code:
                        log = sweep.of(group).parent / f"{group.id}.log"
                        sweep.refused[group.id] = _last_words(log) or "refused"
                    del running[slot]
                    sweep.write()
    except BaseException:
        for _, process in running.values():
            process.terminate()  # a run takes it as Ctrl-C, and saves its state
        for _, process in running.values():
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        sweep.write()
        raise
    return sweep.write()


def confirm(sweep: Sweep, found: Mapping[str, Any], start: Start | None = None) -> dict[str, Any]:
    """Measure the recommended setting of `found` on the documents after those of the sweep.

    Returns sweep.json with it under `confirmed`: `skip`, `status`, `reason`, the figures of each
    of the `tasks`, and whether the recovery `holds` there (None where it cannot be told).
    """
    chosen = next(s for s in found["settings"] if s["id"] == found["recommended"]["setting"])
    cells = [cell for cell in found["cells"] if cell["lane"] == chosen["id"]]
    group = next(one for one in sweep.groups if one.id == cells[0]["group"])
    skip = max(cell["n"] for cell in cells)
    folder = sweep.folder / "confirm"
    settings = [f"{key}={value!r}" for key, value in chosen["parameters"].items()]
    settings += ["protect-stop"] if chosen["protect_stop"] else []
    rule = ":".join(filter(None, [chosen["rule"], ",".join(settings)]))
    own = ["--skip", str(skip), "--rule", rule, "--out", str(folder)]
    log = folder.with_suffix(".log")
    process = (start or start_group)([*EVAL, *group.arguments, *own], log, sweep.slots[0])
    try:
        process.wait()
    except BaseException:
        process.terminate()  # a run takes it as Ctrl-C, and saves its state
        process.wait()
        raise
    manifest, results = read_manifest(folder), _results(folder)
    whole = results is not None and manifest is not None and manifest["status"] == "complete"
    names = ("n", "recovery", "recovery_ci", "largest_loss", "speedup", "speedup_ci")
    tasks = {
        task: {**entry["lanes"][chosen["id"]], "n": entry["n"]}
        for task, entry in (results or {"tasks": {}})["tasks"].items()
        if chosen["id"] in entry["lanes"]
    }
    ends = [row["recovery_ci"] for row in tasks.values() if row["recovery_note"] != "not_scored"]
    least = found["recommended"]["min_recovery"]
    known = bool(ends) and all(ends) and whole
    confirmed = {
        "setting": chosen["id"],
        "skip": skip,
        "status": "complete" if whole else "failed",
        "reason": None if whole else _last_words(log),
        "tasks": {task: {name: row[name] for name in names} for task, row in tasks.items()},
        "holds": all(end[0] >= least for end in ends) if known else None,
    }
    return sweep.write(confirmed=confirmed)


def draw(sweep: Sweep, recommended: str | None) -> list[Path]:
    """Draw the sweep's figures, those of each temperature in a folder of its own."""
    from mars_cli.report.figures import write_figures

    drawn: list[Path] = []
    joined = merged(sweep.results())
    for results in joined:
        temperature = results["lanes"][0]["temperature"]
        name = "" if len(joined) == 1 else f"T{temperature}"
        folder = sweep.folder / "figures" / name
        drawn += write_figures(results, folder, recommended=recommended, say=lambda line: None)
    return drawn


def start_group(
    command: Sequence[str], log: Path, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a group's command; it ends with us, and what it says is added to `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        file.write(f"$ {shlex.join(command)}\n".encode())
        file.flush()
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env={**os.environ, **environment},
            start_new_session=True,  # Ctrl-C is for us; we interrupt it ourselves
            preexec_fn=_end_with_parent,
        )


def _end_with_parent() -> None:
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def progress(sweep: Sweep, running: set[str]) -> dict[CellName, str]:
    """Of each cell known so far: "waiting", "running 43%", "done" or "failed"."""
    found: dict[CellName, str] = {}
    for group in sweep.groups:
        folder, status = sweep.of(group), sweep.status(group)
        manifest = read_manifest(folder)
        if manifest is None:
            continue
        for task, lane in sweep.expected(group):
            name = (group.id, task, lane)
            if status == "complete":
                found[name] = "done"
            elif group.id in running:
                share = _share(folder, manifest["plan"], task, lane)
                found[name] = f"running {share:.0%}" if share else "waiting"
            else:
                found[name] = "failed" if status == "failed" else "waiting"
    return found


def _share(folder: Path, plan: Mapping[str, Any], task: str, lane: str) -> float:
    """Records that a cell has, of those it will have: answers, and timings."""
    prompts = _lines(prompts_path(folder, task))
    timed = min(prompts, plan["speed_prompts"]) * plan["repeats"] * len(plan["concurrency"])
    timed *= 2 if lane == "ar" else 1
    speed = by_task(folder, "speed", task)
    mark = f'"lane": {json.dumps(lane)}'.encode()
    done = _lines(by_lane(folder, "quality", task, lane)) + _lines(speed, mark)
    return min(1.0, done / (prompts + timed)) if prompts else 0.0


def _lines(path: Path, mark: bytes = b"") -> int:
    if not path.exists():
        return 0
    with path.open("rb") as file:
        return sum(mark in line for line in file)


def _results(folder: Path) -> dict[str, Any] | None:
    path = folder / "results.json"
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _last_words(log: Path) -> str | None:
    """What a group's command said of its failure, and its hint."""
    if not log.exists():
        return None
    text = log.read_text(encoding="utf-8", errors="replace")
    lines = [line for line in text.splitlines() if line.strip()]
    told = [n for n, line in enumerate(lines) if line.startswith(("error: ", "failed: "))]
    words = lines[told[-1] if told else -1 :][:2]
    return "; ".join(words[:1] + [line for line in words[1:] if line.startswith("hint: ")]) or None


def open_sweep(folder: Path) -> dict[str, Any]:
    """The sweep.json in a folder.

    Raises:
        UsageError: there is none, or none that this version reads.
    """
    path = folder / "sweep.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["schema"] != 1 or "arguments" not in found["plan"]:
            raise ValueError
    except (OSError, ValueError, TypeError, KeyError):
        raise UsageError(f"{path}: no sweep of this mars", hint="give a sweep's folder") from None
    assert isinstance(found, dict)
    return found
