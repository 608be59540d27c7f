"""A run directory: created or resumed under a lock, with sessions that count what they generate.

outputs/<id>/
  manifest.json      the plan, resolved; environment; lanes; sessions; status
  records/           prompts, quality, control, fidelity, speed, divergence: JSON lines
  logs/              one file an engine
  results.json  report.md      derived; can be rebuilt from the records at any time
"""

from __future__ import annotations

import datetime
import json
import os
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from mars_cli.errors import UsageError
from mars_cli.runs.files import (
    Record,
    append_records,
    drop_torn_line,
    read_records,
    write_json,
    write_records,
)
from mars_cli.runs.layout import SCHEMA, by_lane, by_task, prompts_path
from mars_cli.runs.provenance import digest


def now() -> str:
    """This moment, UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def new_run_id(model: str) -> str:
    """Such as 20261129-1802-qwen3-8b-3f9a."""
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M")
    return f"{stamp}-{model}-{secrets.token_hex(2)}"


class Run:
    """An open run. Use as a context manager: entering locks and starts a session."""

    def __init__(self, folder: Path, plan: dict[str, Any], environment: dict[str, Any]) -> None:
        self.folder = folder
        self.plan = plan
        self._environment = environment
        self._lock = FileLock(folder / ".lock", timeout=0)
        self.manifest: dict[str, Any] = {}

    def __enter__(self) -> Run:
        check_folder(self.folder, self.plan)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
        except Timeout:
            raise UsageError(
                f"--out {self.folder}: another mars is running in it",
                hint="wait for it, or give another folder",
            ) from None
        except OSError as error:
            raise UsageError(
                f"--out {self.folder}: cannot be written ({error.strerror})",
                hint="give a folder that you may write to",
            ) from None
        found = read_manifest(self.folder)
        self.manifest = found or {
            "schema": SCHEMA,
            "id": self.folder.resolve().name,
            "created": now(),
            "plan": self.plan,
            "plan_hash": digest(self.plan),
            "lanes": [],
            "sessions": [],
            "status": "partial",
        }
        for path in (self.folder / "records").rglob("*.jsonl"):
            drop_torn_line(path)
        self._settle_dead_sessions()
        self.manifest["status"] = "partial"
        self.manifest["sessions"].append(
            {
                "number": len(self.manifest["sessions"]) + 1,
                "started": now(),
                "ended": None,
                "environment": self._environment,
                "requests_started": 0,
                "records": 0,
                "in_flight_at_end": None,
            }
        )
        self.save()
        return self

    def __exit__(self, *exception: object) -> None:
        session = self.session
        session["ended"] = now()
        _settle(session)
        self.save()
        self._lock.release()

    @property
    def session(self) -> dict[str, Any]:
        """This session's entry in the manifest."""
        entry: dict[str, Any] = self.manifest["sessions"][-1]
        return entry

    def save(self) -> None:
        """Write the manifest, atomically."""
        write_json(self.folder / "manifest.json", self.manifest)

    def starting(self, requests: int, in_flight: int | None = None) -> None:
        """Note, before it happens, that an engine works on these next, so many at a time (or all).

        One note serves for all: as each is recorded the engine takes up another.
        """
        session = self.session
        session["requests_started"] = _started(session)
        session["batch"] = {
            "requests": requests,
            "in_flight": requests if in_flight is None else in_flight,
            "records_before": session["records"],
        }
        self.save()

    def append(self, path: Path, record: Record) -> None:
        """Append a generated record, marked with this session."""
        self.append_all(path, [record])

    def append_all(self, path: Path, records: Sequence[Record]) -> None:
        """Append generated records, marked with this session, in a single write."""
        number = self.session["number"]
        append_records(path, ({**record, "session": number} for record in records))
        self.session["records"] += len(records)

    def prompts(self, task: str) -> Path:
        """Where a task's prompts are recorded."""
        return prompts_path(self.folder, task)

    def quality(self, task: str, lane: str) -> Path:
        """Where a lane's quality records of a task are."""
        return by_lane(self.folder, "quality", task, lane)

    def fidelity(self, task: str, lane: str) -> Path:
        """Where a lane's fidelity records of a task are."""
        return by_lane(self.folder, "fidelity", task, lane)

    def control(self, task: str) -> Path:
        """Where the second answers of `ar` to a task are."""
        return by_task(self.folder, "control", task)

    def divergence(self, task: str) -> Path:
        """Where it is recorded how timed outputs leave `ar`'s."""
        return by_task(self.folder, "divergence", task)

    def speed(self, task: str) -> Path:
        """Where a task's speed records are."""
        return by_task(self.folder, "speed", task)

    def attach_scores(self, path: Path, scored: Mapping[str, Record]) -> None:
        """Fill in `scores`, and `parts` if any, by record key, replacing the file at once."""
        records = list(read_records(path))
        for record in records:
            if record["key"] in scored:
                record.pop("parts", None)
                record.update(scored[record["key"]])
        write_records(path, records)

    def _settle_dead_sessions(self) -> None:
        """A killed session could not say what it left behind: its records do.

        Prompts, and records `from` another run, are no session's.
        """
        found: Counter[int] = Counter()
        for path in (self.folder / "records").rglob("*.jsonl"):
            found.update(r["session"] for r in read_records(path) if "session" in r)
        for session in self.manifest["sessions"]:
            if session["ended"] is None:
                session["ended"] = "killed"
                session["records"] = found[session["number"]]
                _settle(session)


def _started(session: Mapping[str, Any]) -> int:
    """Requests that engines have begun: of the batch, what is recorded and what is in flight."""
    started: int = session["requests_started"]
    batch = session.get("batch")
    if batch is None:
        return started
    recorded: int = session["records"] - batch["records_before"]
    in_flight: int = min(batch["in_flight"], batch["requests"] - recorded)
    return started + recorded + in_flight


def _settle(session: dict[str, Any]) -> None:
    """Say of a session that is over how many requests it had begun, and how many were lost."""
    session["requests_started"] = _started(session)
    session.pop("batch", None)
    session["in_flight_at_end"] = session["requests_started"] - session["records"]


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a run directory, None when there is none.

    Raises:
        UsageError: it is not a manifest that this version can read.
    """
    path = folder / "manifest.json"
    if not path.exists():
        return None
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        schema = manifest["schema"]
    except (OSError, ValueError, TypeError, KeyError):
        raise UsageError(f"{path}: not a manifest of mars", hint="give another folder") from None
    if schema != SCHEMA:
        raise UsageError(
            f"{path}: written with schema {schema}, this mars reads schema {SCHEMA}",
            hint="use the version of mars that wrote it",
        )
    assert isinstance(manifest, dict)
    return manifest


def check_folder(folder: Path, plan: dict[str, Any]) -> None:
    """Refuse a folder that cannot take this plan; nothing is written or changed.

    The plan may still lack keys that take long to find out; those it has must agree.

    Raises:
        UsageError: it is a file, holds something else, or holds a run of a different plan.
    """
    place = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    if place != folder and not (place.is_dir() and os.access(place, os.W_OK)):
        raise UsageError(
            f"--out {folder}: cannot be made in {place}", hint="give a folder that you may write to"
        )
    if folder.exists() and not folder.is_dir():
        raise UsageError(
            f"--out {folder}: is a file", hint="give a folder, new or of this same run"
        )
    manifest = read_manifest(folder)
    if manifest is None:
        strangers = [p for p in folder.iterdir() if p.name != ".lock"] if folder.exists() else []
        if strangers:
            raise UsageError(
                f"--out {folder}: is not empty and holds no run of mars",
                hint="give a new folder, or the one of a run to resume",
            )
        return
    differing = sorted(key for key, value in plan.items() if value != manifest["plan"].get(key))
    if differing:
        key = differing[0]
        raise UsageError(
            f"--out {folder}: holds a run of a different plan ({', '.join(differing)}; "
            f"there {key} is {manifest['plan'].get(key)!r}, now {plan.get(key)!r})",
            hint="give another folder, or the options of that run",
        )
