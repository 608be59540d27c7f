"""The results of a run directory as every reader may rely on them, whoever wrote it.

results.json where it is there and of the manifest's last session, else what the records give, else
a count of the records. What is missing in a results.json is filled in as None; what is of the wrong
kind makes it unreadable.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mars_cli.analysis.checked import Results, checked
from mars_cli.analysis.figures import SCHEMA
from mars_cli.errors import MarsError
from mars_cli.runs.files import read_records
from mars_cli.runs.layout import RESULTS, by_lane, by_task, prompts_path
from mars_cli.runs.reading import Unreadable, inside, is_trace, manifest_of, read_json


@dataclass(frozen=True)
class Count:
    """What is recorded of one lane in one task; `asked` None where no prompts are recorded."""

    task: str
    lane: str
    answered: int
    asked: int | None
    timed: int

    @property
    def answers(self) -> str:
        """Such as "8 of 12"."""
        return f"{self.answered}" if self.asked is None else f"{self.answered} of {self.asked}"


@dataclass(frozen=True)
class Stored:
    """A run that was read. `manifest` is empty where only results.json was copied.

    `counts` are given for a run without figures: it was killed before they were made. `from_file`:
    the figures are those of its results.json. `broken`: why its records give no figures.
    """

    folder: Path
    manifest: Mapping[str, Any]
    results: Results
    counts: tuple[Count, ...] = field(default=())
    from_file: bool = True
    broken: str | None = None

    @property
    def id(self) -> str:
        """The run's id."""
        return str(self.results["run"]["id"])

    @property
    def plan(self) -> Mapping[str, Any]:
        """The plan, empty where it is not known."""
        plan: Mapping[str, Any] = self.manifest.get("plan") or {}
        return plan

    def has(self, task: str) -> bool:
        """Whether there are figures of this task."""
        return task in self.results["tasks"]


def load(folder: Path, *, records: bool = True) -> Stored:
    """Read the run in `folder`; nothing is written there.

    Without `records` none are read: a run without a results.json has neither figures nor counts.

    Raises:
        Unreadable: no run is there, or none that this version reads.
    """
    manifest = manifest_of(folder)
    if is_trace(manifest):
        raise Unreadable(f"{folder}: a trace; see its trace.json and figures/")
    try:
        results = _read_results(folder)
    except Unreadable as error:
        if not manifest.get("tasks"):
            raise
        raise Unreadable(f"{error}; without that file, figures come from the records") from None
    status = manifest.get("status")
    if results is not None and status in (None, results["run"]["status"]):
        return Stored(folder, manifest, results)
    broken = None
    if manifest.get("tasks") and records:
        rebuilt = _rebuilt(folder, manifest)
        broken = rebuilt if isinstance(rebuilt, str) else None
        if isinstance(rebuilt, dict):
            rebuilt["notes"].append(f"The run is {status}: these are the figures of its records.")
            return Stored(folder, manifest, rebuilt, from_file=False)
        note = f"the records do not give results ({rebuilt})"
    elif results is not None:
        note = "another session began since; these figures are from before it"
    else:
        note = "no results.json, and the manifest does not say how to make one from the records"
    known = results is not None
    counts = tuple(_counts(folder, manifest)) if records and not known else ()
    results = results or _without_figures(folder, manifest)
    results["run"]["status"] = status
    results["notes"].append(f"the run is {status}: {note}")
    return Stored(folder, manifest, results, counts, from_file=known, broken=broken)


def _rebuilt(folder: Path, manifest: Mapping[str, Any]) -> Results | str:
    """The results that the records give, or why they give none."""
    from mars_cli.analysis.rebuild import rebuild

    try:
        return checked(rebuild(folder, manifest))
    except MarsError as error:
        return str(error)
    except (ValueError, TypeError, LookupError, AttributeError, OSError, RecursionError) as error:
        return f"{type(error).__name__}: {error}"


def _read_results(folder: Path) -> Results | None:
    found = read_json(folder / RESULTS)
    if found is None:
        return None
    try:
        return checked(found)
    except ValueError as error:
        raise Unreadable(f"{folder / RESULTS}: {error}") from None


def _without_figures(folder: Path, manifest: Mapping[str, Any]) -> Results:
    sessions = manifest["sessions"]
    return checked(
        {
            "schema": SCHEMA,
            "run": {key: manifest[key] for key in ("id", "created", "status")},
            "model": manifest["plan"].get("model") or {},
            "environment": (sessions[-1].get("environment") or {}) if sessions else {},
            "lanes": manifest["lanes"],
            "tasks": {},
        }
    )


def _counts(folder: Path, manifest: Mapping[str, Any]) -> list[Count]:
    """What is recorded, by task and lane; a file that is broken counts as far as it can be read."""
    names = sorted(path.stem for path in (folder / "records" / "prompts").glob("*.jsonl"))
    lanes = [lane["id"] for lane in manifest["lanes"]]
    found = []
    for task in names:
        asked = len(_read(folder, prompts_path(folder, task)))
        timed = _read(folder, by_task(folder, "speed", task))
        for lane in lanes:
            answered = len(_read(folder, by_lane(folder, "quality", task, lane)))
            speed = sum(one.get("lane") == lane and not one.get("control") for one in timed)
            found.append(Count(task, lane, answered, asked or None, speed))
    return found


def _read(folder: Path, path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if inside(folder, path):
        with contextlib.suppress(MarsError, OSError, RecursionError):
            found.extend(read_records(path))
    return found
