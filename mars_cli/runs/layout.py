"""What is where in a run directory."""

from __future__ import annotations

from pathlib import Path

SCHEMA = 1  # of the manifest
MANIFEST, RESULTS, DOCUMENTS = "manifest.json", "results.json", "documents.json"
SWEEP = "sweep.json"
TRACE = "trace"  # kind of records, and what a traced run's plan calls itself


def prompts_path(folder: Path, task: str) -> Path:
    """Where the run in `folder` records a task's prompts."""
    return folder / "records" / "prompts" / f"{task}.jsonl"


def by_task(folder: Path, kind: str, task: str) -> Path:
    """Records of one file a task: speed, control, divergence."""
    return folder / "records" / kind / f"{task}.jsonl"


def by_lane(folder: Path, kind: str, task: str, lane: str) -> Path:
    """Records of one file a task and lane: quality, fidelity, trace."""
    return folder / "records" / kind / task / f"{lane}.jsonl"
