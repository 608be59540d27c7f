"""Documents of a task by reference: a file of JSON lines, or a data set on the hub.

    load("mars_gsm8k", document, EXPECTED, data="hub:openai/gsm8k", config="main", split="test")
    -> {"test": Dataset}

All tasks that read data read it here: each only says, in its `document`, which fields it wants of
a `Row`. What is wrong with a file is said with its name, the line, the field and what was expected
there. A file may be gzipped; it is UTF-8, one JSON object a line; empty lines are skipped.

Where the documents come from, the first that there is:

1. the reference that is given with `--data TASK=REFERENCE`;
2. in the folder that the variable `MARS_DATA` names, `<task>.jsonl`, `<task>.jsonl.gz`, or one of
   the `files` in the task's metadata;
3. the reference `data` in the task's metadata.

References are those of `mars_cli.assets`; `hub:` here means a data set.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mars_cli import assets, references
from mars_cli.errors import UsageError

Document = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """One line of a file or one row of a data set, and where it stands.

    `expected` says what such a row should be, for a message about one that is not.
    """

    values: Mapping[str, Any]
    where: str
    expected: str

    def has(self, field: str) -> bool:
        """Whether there is such a field, whatever it holds."""
        return field in self.values

    def text(self, *names: str) -> str:
        """The non-empty string in the first of these fields that there is.

        Raises:
            UsageError: there is none, or it holds something else.
        """
        field = self._first(names)
        value = self.values.get(field)
        if not isinstance(value, str) or not value.strip():
            raise self._unexpected(names, "a non-empty string")
        return value

    def texts(self, *names: str) -> list[str]:
        """Likewise a list of at least one non-empty string."""
        value = self.values.get(self._first(names))
        if (
            not isinstance(value, list)
            or not value
            or not all(isinstance(one, str) and one.strip() for one in value)
        ):
            raise self._unexpected(names, "a list of non-empty strings")
        return value

    def reference(self) -> str:
        """The first answer of a question in Spec-Bench's form: of a list, or a string alone."""
        alone = isinstance(self.values.get("reference"), str)
        return self.text("reference") if alone else self.texts("reference")[0]

    def wrong(self, field: str, problem: str, hint: str | None = None) -> UsageError:
        """What is wrong with a field, as an error to raise; `problem` goes on from "it"."""
        return UsageError(
            f'{self.where}, field "{field}": it {problem}.',
            hint=hint or f"Expected: {self.expected}.",
        )

    def _first(self, names: Sequence[str]) -> str:
        return next((name for name in names if name in self.values), names[0])

    def _unexpected(self, names: Sequence[str], wanted: str) -> UsageError:
        field = self._first(names)
        if field in self.values:
            got = f"is {json.dumps(self.values[field], default=str, ensure_ascii=False)[:40]}"
        else:
            others = [f'"{name}"' for name in names if name != field]
            got = f"is missing{', and so is ' + ' and '.join(others) if others else ''}"
        return UsageError(
            f'{self.where}, field "{field}": {wanted} was expected, but it {got}.',
            hint=f"Expected: {self.expected}.",
        )


def load(
    task: str,
    document: Callable[[Row], Document | None],
    expected: str,
    *,
    data: str,
    data_file: str | None = None,
    sha256: str | None = None,
    config: str | None = None,
    split: str | None = None,
    split_files: str | None = None,
    **_: Any,
) -> dict[str, Any]:
    """{"test": documents}, as lm-eval takes them from a `custom_dataset`.

    Args:
        task: its name, for messages.
        document: makes a document of a row, or None of one that does not belong to the task.
        expected: what a row should be, in words: "each line is a JSON object with ...".
        data: the task's own reference.
        data_file: a reference to use instead: a path, or `hub:`, or `pypi:`.
        sha256: of the file that `data` names.
        config: the data set's configuration on the hub.
        split: its split there, in the words of `datasets.load_dataset`.
        split_files: the files of that split, where the others are too large to fetch beside it.

    Raises:
        UsageError: the hub cannot be reached; or what is wrong with the file, and where.
    """
    from datasets import Dataset

    reference = data if data_file is None else str(data_file)
    if reference.startswith("hub:"):
        same = reference.partition("@")[0] == data.partition("@")[0]
        rows = _from_hub(task, reference, config, split, split_files if same else None, expected)
    else:
        path = Path(reference)
        if reference.startswith("pypi:"):
            path = assets.resolve(reference, sha256=sha256 if data_file is None else None)
        rows = read_rows(path, expected)
    documents = [found for row in rows if (found := document(row)) is not None]
    if not documents:
        raise UsageError(
            f"{reference}: holds no documents of {task}.", hint=f"Expected: {expected}."
        )
    return {"test": Dataset.from_list(documents)}


def in_data_folder(task: str, files: Iterable[str]) -> Path | None:
    """The task's file in the folder that `MARS_DATA` names; None without one.

    Raises:
        UsageError: there is no such folder.
    """
    named = os.environ.get("MARS_DATA")
    if not named:
        return None
    folder = Path(named).expanduser().absolute()
    if not folder.is_dir():
        raise UsageError(
            f"MARS_DATA={named}: no such folder",
            hint="name the folder that holds the tasks' data, such as mars_gsm8k.jsonl",
        )
    candidates = (folder / name for name in (f"{task}.jsonl", f"{task}.jsonl.gz", *files))
    return next((path for path in candidates if path.is_file()), None)


def read_rows(path: Path, expected: str) -> Iterator[Row]:
    """The rows of a file of JSON lines; what is wrong with one is said when its turn comes.

    Raises:
        UsageError: the file cannot be read, is not UTF-8, or a line is no JSON object.
    """
    content = _content(path, expected)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].count(b"\n")
        raise UsageError(
            f"{path}, line {before + 1}: not UTF-8 (byte {content[error.start]:#04x}).",
            hint="Save the file as UTF-8.",
        ) from error
    # Not splitlines(): JSON strings may hold other line separators, such as U+2028.
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if line.strip():
            cut = number == len(lines)  # nothing ends it
            yield _row(line, f"{path}, line {number}", expected, cut=cut)


def _content(path: Path, expected: str) -> bytes:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UsageError(
            f"{path}: its compression is damaged ({one_line(error)}).",
            hint="Fetch the file anew: it may have been cut off.",
        ) from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UsageError(
            f"{path}: cannot be read ({reason}).", hint=f"Expected a file: {expected}."
        ) from error


def _row(line: str, where: str, expected: str, *, cut: bool) -> Row:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{where}: not valid JSON ({one_line(error)}).",
            hint=f"Expected: {expected}."
            + (" The file ends within this line: it may have been cut off." if cut else ""),
        ) from error
    if not isinstance(values, dict):
        raise UsageError(
            f"{where}: a JSON object was expected, not {type(values).__name__}.",
            hint=f"Expected: {expected}.",
        )
    return Row(values, where, expected)


def _from_hub(
    task: str,
    reference: str,
    config: str | None,
    split: str | None,
    split_files: str | None,
    expected: str,
) -> Iterator[Row]:
    import datasets

    ref = references.parse(reference)
    assert isinstance(ref, references.HubRef)
    how: dict[str, Any] = {"split": split, "revision": ref.revision}
    if split_files is not None:
        # Given the name of a configuration, `datasets` would miss that one's other splits.
        config = None
        how |= {"data_files": {split: split_files}, "verification_mode": "no_checks"}
    try:
        rows = datasets.load_dataset(ref.repo, config, **how)
    except Exception as error:  # whatever the hub's client raises: it differs by version and cause
        raise UsageError(
            f"{task} could not get {ref.repo} from the hub ({one_line(error)}).",
            hint=f"Give the data yourself: --data {task}=FILE, or {task}.jsonl in the folder that "
            f"MARS_DATA names ({expected}).",
        ) from error
    for number, row in enumerate(rows):
        yield Row(row, f"{ref.repo}, row {number}", expected)


def one_line(error: BaseException) -> str:
    """What an error of a library says, on one line of bearable length."""
    return " ".join(str(error).split())[:200] or type(error).__name__
