"""The one place that writes files: atomic replacement, and append-only JSON lines."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from mars_cli.errors import MarsError

Record = dict[str, Any]


def write_atomic(path: Path, text: str) -> None:
    """Replace `path` with `text` so that a reader sees the old file or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """Replace `path` with `value` as JSON; NaN and infinity are refused."""
    write_atomic(path, json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def append_records(path: Path, records: Iterable[Record]) -> None:
    """Append records as one line each, in a single write."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(_lines(records).encode())


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Replace `path` with these records."""
    write_atomic(path, _lines(records))


def _lines(records: Iterable[Record]) -> str:
    return "".join(
        json.dumps(record, allow_nan=False, ensure_ascii=False) + "\n" for record in records
    )


def read_records(path: Path) -> Iterator[Record]:
    """The records of a file, oldest first; none when it is absent.

    A torn last line (the writer was killed) is not a record and is left out.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                record = json.loads(line)
            except ValueError:
                record = None
            if not isinstance(record, dict):
                raise MarsError(
                    f"{path}, line {number}: not a record (broken JSON)",
                    hint="restore the file, or delete the line to have it generated again",
                )
            yield record


def drop_torn_line(path: Path) -> None:
    """Cut a last line without its end off, so that the next record starts on a line of its own."""
    if not path.exists():
        return
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole != len(data):
        with path.open("rb+") as file:
            file.truncate(whole)
