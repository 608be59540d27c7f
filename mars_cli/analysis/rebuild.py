"""results.json from what a run directory holds: its manifest and its records, and nothing else.

What records do not tell the manifest keeps under `tasks`, by task, from before anything is
generated:

    metric, higher_is_better, directions   of its scores (see `TaskInput`)
    sampled, fidelity_obstacle             of its decoding
    categories                             of its documents, by doc_id
    notes                                  what its readers must know, as far as known beforehand

and under `groups` the groups that tasks belong to (see `groups.Group`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mars_cli.analysis.compare import TaskInput, build_results
from mars_cli.analysis.groups import from_json
from mars_cli.analysis.metrics import Record
from mars_cli.runs.files import read_records
from mars_cli.runs.layout import by_lane, by_task
from mars_cli.runs.reading import inside


def rebuild(folder: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The results of the run in `folder`, as `build_results` gives them; nothing is written.

    Raises:
        MarsError: a record is broken.
        ValueError, TypeError, KeyError, AttributeError: one is none of ours.
    """
    return build_results(
        run={key: manifest[key] for key in ("id", "created", "status")},
        model=manifest["plan"].get("model") or {},
        environment=manifest["sessions"][-1]["environment"],
        lanes=manifest["lanes"],
        tasks={
            name: task_input(folder, manifest, name, kept)
            for name, kept in manifest["tasks"].items()
        },
        groups=[from_json(group) for group in manifest.get("groups") or ()],
    )


def task_input(
    folder: Path, manifest: Mapping[str, Any], task: str, kept: Mapping[str, Any]
) -> TaskInput:
    """What is recorded of one task; `kept` is what the manifest keeps of it."""
    lanes = [lane["id"] for lane in manifest["lanes"]]
    quality = {lane: _read(folder, by_lane(folder, "quality", task, lane)) for lane in lanes}
    speed = _read(folder, by_task(folder, "speed", task))
    sequential = bool(manifest.get("sequential"))
    return TaskInput(
        name=task,
        metric=kept["metric"],
        higher_is_better=kept["higher_is_better"],
        speed_mode="sequential" if sequential else "interleaved",
        quality=quality,
        speed=speed,
        notes=[
            *_failures(manifest, task),
            *_taken(quality),
            *kept.get("notes", ()),
            *_mixed(speed, sequential=sequential),
        ],
        directions=kept.get("directions") or {},
        sampled=bool(kept.get("sampled")),
        samples=manifest["plan"].get("samples"),
        fidelity={lane: _read(folder, by_lane(folder, "fidelity", task, lane)) for lane in lanes},
        fidelity_obstacle=kept.get("fidelity_obstacle"),
        control=_read(folder, by_task(folder, "control", task)),
        divergence=_read(folder, by_task(folder, "divergence", task)),
        categories={int(doc): name for doc, name in (kept.get("categories") or {}).items()},
    )


def _read(folder: Path, path: Path) -> list[Record]:
    if not inside(folder, path):
        raise ValueError(f"{path} leads out of the run")
    return list(read_records(path))


def _failures(manifest: Mapping[str, Any], task: str) -> Iterator[str]:
    for failure in manifest.get("failures") or ():
        if failure["task"] in (None, task):
            lanes = ", ".join(failure["lanes"])
            yield f"{failure['phase']} failed for {lanes}: {failure['reason']}"


def _taken(quality: Mapping[str, list[Record]]) -> Iterator[str]:
    """From which runs a lane's answers were taken."""
    for lane, records in quality.items():
        for earlier in dict.fromkeys(record["from"] for record in records if "from" in record):
            yield f"{lane}: answers taken from run {earlier}"


def _mixed(speed: list[Record], *, sequential: bool) -> Iterator[str]:
    """Timed rounds in which more than one session took part."""
    sessions: dict[tuple[int, ...], set[int]] = {}
    for record in speed:
        level = record.get("concurrency") or 1
        prompt = (record["doc_id"], record.get("turn") or 0) if level == 1 else (0, 0)
        place = (level, *prompt, record.get("repeat") or 0)
        sessions.setdefault(place, set()).add(record.get("session", 0))
    mixed = sum(len(numbers) > 1 for numbers in sessions.values())
    if mixed and not sequential:
        yield f"{mixed} of {len(sessions)} timed rounds were interrupted and went on later"
