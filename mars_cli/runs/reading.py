"""Finding run directories, and reading what may have been made elsewhere: nothing in it is trusted.

A run is named by a path, by the beginning of its folder's name or id, or as `latest`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mars_cli.errors import MarsError, UsageError
from mars_cli.runs.layout import MANIFEST, RESULTS, SCHEMA, TRACE

LATEST = "latest"
DEEPEST = 40  # levels of nesting; ours has 8
LARGEST = 1e300
_HINT = "`mars report --list` shows what there is"


class Unreadable(MarsError):
    """A folder that holds no run this version can read; the message is one line that names it."""


def find_run(name: str, root: Path) -> Path:
    """The folder of the run called `name`; `root` is where runs are.

    Raises:
        UsageError: there is no such run, or several begin so.
    """
    if name == LATEST:
        dated = [(created, folder.name, folder) for folder, _, created in _known(root)]
        if not dated:
            raise UsageError(f"{LATEST}: {root} holds no run", hint="`mars eval` makes one")
        return max(dated)[-1]
    path = Path(name)
    if name and _exists(path):
        return path.parent if path.name in (MANIFEST, RESULTS) and path.is_file() else path
    folders = run_folders(root)
    found = [folder for folder in folders if folder.name == name] or [
        folder for folder in folders if name and folder.name.startswith(name)
    ]
    found = found or [folder for folder, id_, _ in _known(root) if name and id_.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        some = ", ".join(folder.name for folder in found[:4])
        more = f" and {len(found) - 4} more" if len(found) > 4 else ""
        raise UsageError(f"{name}: {len(found)} runs begin so: {some}{more}", hint=_HINT)
    raise UsageError(f"{name}: neither a folder nor the beginning of a run in {root}", hint=_HINT)


def run_folders(root: Path) -> list[Path]:
    """Every folder in `root` that is not hidden, by name."""
    try:
        return sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))
    except OSError:
        return []


def manifest_of(folder: Path) -> dict[str, Any]:
    """The manifest, its main parts of the right kinds; empty where only results.json is there.

    Raises:
        Unreadable: no run is there, or none that this version reads.
    """
    if not folder.is_dir():
        raise Unreadable(f"{folder}: {'not a folder' if _exists(folder) else 'no such folder'}")
    try:
        there = {path.name: path.is_file() for path in folder.iterdir()}
    except OSError as error:
        raise Unreadable(f"{folder}: cannot be read ({error.strerror})") from None
    if MANIFEST not in there:
        if there.get(RESULTS):
            return {}
        what = "holds no run of mars" if set(there) - {".lock"} else "is empty"
        raise Unreadable(f"{folder}: {what}")
    manifest = read_json(folder / MANIFEST)
    try:
        _check_manifest(manifest)
    except ValueError as error:
        raise Unreadable(f"{folder / MANIFEST}: {error}") from None
    assert isinstance(manifest, dict)
    return manifest


def is_trace(manifest: Mapping[str, Any]) -> bool:
    """Whether the run is a trace, whose answers nobody scored or timed."""
    return (manifest.get("plan") or {}).get("command") == TRACE


def read_json(path: Path) -> Any:
    """The JSON in a file, None where there is none; numbers are finite, nesting is bounded.

    Raises:
        Unreadable: it is not such JSON, or cannot be read.
    """
    if not path.exists():
        return None
    if not path.is_file():
        raise Unreadable(f"{path}: not a file")
    try:
        value = json.loads(path.read_bytes(), parse_constant=_no_number)
        check_plain(value)
    except OSError as error:
        raise Unreadable(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise Unreadable(f"{path}: not UTF-8") from None
    except json.JSONDecodeError as error:
        raise Unreadable(f"{path}: broken JSON at line {error.lineno}") from None
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else "nested too deep"
        raise Unreadable(f"{path}: {reason}") from None
    return value


def check_plain(value: Any, depth: int = 0) -> None:
    """Refuse what no run has and a renderer could stumble over.

    Raises:
        ValueError: a number is beyond 1e300, or the value is nested deeper than 40 levels.
    """
    if depth > DEEPEST:
        raise ValueError("nested too deep")
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in items:
        if isinstance(item, str):
            continue
        if isinstance(item, float | int):
            if not -LARGEST <= item <= LARGEST:
                raise ValueError("holds a number that is none")
        elif item is not None:
            check_plain(item, depth + 1)


def inside(folder: Path, path: Path) -> bool:
    """Whether a path made of a stranger's names stays in the folder."""
    if not path.is_relative_to(folder) or "\0" in str(path):
        return False
    return ".." not in path.relative_to(folder).parts


def _known(root: Path) -> Iterator[tuple[Path, str, str]]:
    """(folder, id, created) of every run in `root` that can be read."""
    for folder in run_folders(root):
        try:
            facts: Mapping[str, Any] = manifest_of(folder)
            if is_trace(facts):
                continue
            if not facts:
                found = read_json(folder / RESULTS)
                facts = found["run"]
            yield folder, str(facts["id"]), str(facts["created"])
        except (Unreadable, KeyError, TypeError):
            continue


def _check_manifest(manifest: Any) -> None:
    if not (isinstance(manifest, dict) and "schema" in manifest):
        raise ValueError("not a manifest of mars")
    if manifest["schema"] != SCHEMA:
        raise ValueError(f"written with schema {manifest['schema']}, this mars reads {SCHEMA}")
    for name in ("id", "created", "status"):
        if not isinstance(manifest.get(name), str):
            raise ValueError(f"{name} is missing")
    if not isinstance(manifest.get("plan"), dict):
        raise ValueError("plan is missing")
    for name in ("lanes", "sessions"):
        found = manifest.get(name)
        if not (isinstance(found, list) and all(isinstance(item, dict) for item in found)):
            raise ValueError(f"{name} is no list of objects")
    if not all(isinstance(lane.get("id"), str) for lane in manifest["lanes"]):
        raise ValueError("a lane has no id")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name too long, or with a null byte
        return False


def _no_number(constant: str) -> Any:
    raise ValueError(f"holds {constant}, which is no number")
