"""What pairing two runs takes of each: prompt hashes and scores by document.

documents.json, derived as results.json is, has them without the bulk of the records:

    {"schema": 1, "tasks": {"<task>": {"metric", "doc_ids": [..], "prompts": [hash ..],
                                       "lanes": {"<lane id>": [score ..]}}}}

for tasks that give each document one score. What is not there is read from the records.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from mars_cli.analysis import metrics
from mars_cli.analysis.figures import SCHEMA
from mars_cli.analysis.metrics import Record
from mars_cli.analysis.stored import Stored
from mars_cli.runs.files import read_records, write_atomic
from mars_cli.runs.layout import DOCUMENTS, by_lane, prompts_path
from mars_cli.runs.reading import Unreadable, inside, read_json

_FIELDS = ("doc_id", "sample", "turn", "scores", "parts")


class Documents:
    """The documents of a run, read as they are asked for.

    What is asked for raises MarsError where a record is broken, KeyError or TypeError where it is
    none of ours.
    """

    def __init__(self, run: Stored) -> None:
        self.run = run
        self._hashes: dict[str, dict[int, str]] = {}
        self._kept: dict[str, Any] = _kept(run) if run.from_file else {}

    def hashes(self, task: str) -> dict[int, str]:
        """The hash of each document's (first) prompt, by doc_id; empty where none is recorded."""
        if task not in self._hashes:
            if task in self._kept:
                kept = self._kept[task]
                found = dict(zip(kept["doc_ids"], kept["prompts"], strict=True))
            else:
                found = {
                    int(one["doc_id"]): str(one["hash"])
                    for one in self._read(prompts_path(self.run.folder, task))
                    if not (one.get("turn") or one.get("sample"))
                }
            self._hashes[task] = found
        return self._hashes[task]

    def scores(self, task: str, lane: str, metric: str) -> dict[int, float]:
        """The score of each document that has one, where documents.json tells; else empty."""
        kept = self._kept.get(task, {})
        if kept.get("metric") != metric or lane not in kept["lanes"]:
            return {}
        pairs = zip(kept["doc_ids"], kept["lanes"][lane], strict=True)
        return {doc: score for doc, score in pairs if score is not None}

    def answers(self, task: str, lane: str, metric: str) -> list[Record]:
        """The lane's answers to the task, without what is not about scores."""
        if scores := self.scores(task, lane, metric):
            return [{"doc_id": doc, "scores": {metric: score}} for doc, score in scores.items()]
        path = by_lane(self.run.folder, "quality", task, lane)
        return [{name: one.get(name) for name in _FIELDS} for one in self._read(path)]

    def _read(self, path: Path) -> Iterator[Record]:
        return read_records(path) if inside(self.run.folder, path) else iter(())


def write_documents(run: Stored) -> None:
    """Write the run's documents.json from its records."""
    found = Documents(replace(run, from_file=False))
    tasks = {}
    for name, task in run.results["tasks"].items():
        metric, hashes = task["metric"], found.hashes(name)
        lanes = {lane: found.answers(name, lane, metric) for lane in task["lanes"]}
        if any(record.get("parts") for records in lanes.values() for record in records):
            continue  # a score of all documents together is no mean over them
        score = partial(metrics.score, metric=metric)
        by_document = {lane: metrics.by_document(records, score) for lane, records in lanes.items()}
        tasks[name] = {
            "metric": metric,
            "doc_ids": list(hashes),
            "prompts": list(hashes.values()),
            "lanes": {
                lane: [scores.get(doc) for doc in hashes] for lane, scores in by_document.items()
            },
        }
    text = json.dumps({"schema": SCHEMA, "tasks": tasks}, allow_nan=False, separators=(",", ":"))
    write_atomic(run.folder / DOCUMENTS, text + "\n")


def _is_one_each(records: Sequence[Record]) -> bool:
    """Whether documents have one answer each, and none a part of a score of all together."""
    once = len({record["doc_id"] for record in records}) == len(records)
    return once and not any(record.get("parts") for record in records)


def _kept(run: Stored) -> dict[str, Any]:
    """The tasks of its documents.json; none where that is absent or not what it should be."""
    try:
        found = read_json(run.folder / DOCUMENTS)
    except Unreadable:
        return {}
    if not (isinstance(found, dict) and found.get("schema") == SCHEMA):
        return {}
    tasks = found.get("tasks")
    if not isinstance(tasks, dict):
        return {}
    return {name: kept for name, kept in tasks.items() if _is_task(kept)}


def _is_task(kept: Any) -> bool:
    if not (isinstance(kept, dict) and isinstance(kept.get("lanes"), dict)):
        return False
    columns = [kept.get("doc_ids"), kept.get("prompts"), *kept["lanes"].values()]
    if not all(isinstance(column, list) for column in columns):
        return False
    whole = all(isinstance(doc, int) for doc in columns[0] or ())
    return whole and len(set(map(len, columns))) == 1
