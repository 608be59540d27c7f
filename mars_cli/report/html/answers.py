"""Prompts and answers of a run as data for the page's script, which shows them one by one.

The data are plain JSON: texts stand in one list, each once, and everything else points into it.
Offsets count characters (code points), not UTF-16 units. How much is taken is bounded, and what
is left out is said.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mars_cli.analysis import metrics
from mars_cli.analysis.metrics import BASELINE, Record
from mars_cli.analysis.stored import Stored
from mars_cli.errors import MarsError
from mars_cli.report.numbers import counted
from mars_cli.runs.files import read_records
from mars_cli.runs.layout import by_lane, prompts_path
from mars_cli.runs.reading import inside

MOST_DOCUMENTS = 500  # of a run, shared among its tasks
MOST_CHARACTERS = 20_000_000  # of all texts of a page
LONGEST_TEXT = 20_000  # characters of one
LARGEST_ID = 2**53  # beyond it no number is exact in JavaScript
RELAXED, DIFFERS = 1, 2  # what a mark says, as bits

Key = tuple[int, int, int]  # doc_id, sample, turn
Mark = tuple[int, int, int]  # from and to which character, and what
NO_ENDS = (
    "relaxed tokens are counted, not marked, where the records do not say where tokens end "
    "(token_ends): of an older mars, or of a tokenizer that does not decode step by step"
)


@dataclass
class Data:
    """What a page's script is given: texts, each once, and tasks whose answers point into them."""

    texts: list[str] = field(default_factory=list)
    tasks: list[Mapping[str, Any]] = field(default_factory=list)
    room: int = MOST_CHARACTERS
    _places: dict[str, int] = field(default_factory=dict)

    def place(self, text: str) -> int:
        """Where the text stands in `texts`, cut to LONGEST_TEXT."""
        text = text[:LONGEST_TEXT]
        if text not in self._places:
            self._places[text] = len(self.texts)
            self.texts.append(text)
            self.room -= len(text)
        return self._places[text]

    def dumped(self) -> str:
        """As JSON that can stand in a script element: ASCII, with nothing that could end it."""
        given = {"texts": self.texts, "tasks": self.tasks}
        found = json.dumps(given, allow_nan=False, separators=(",", ":"))
        for sign in "<>&":
            found = found.replace(sign, f"\\u{ord(sign):04x}")
        return found


@dataclass(frozen=True)
class Answers:
    """What a page has of one task: the place of it in `Data.tasks`, and what is said of it.

    `summary` is such as "mars_products: 40 documents, lanes differ in 12".
    """

    place: int
    summary: str
    notes: list[str]


def add_answers(data: Data, run: Stored) -> list[Answers]:
    """Add the documents of each task of a run; a broken file is shown as far as it can be read."""
    known = dict.fromkeys([*run.results["tasks"], *(count.task for count in run.counts)])
    tasks = [task for task in known if any(map(_exists, _files(run, task)))]
    return [_add(data, run, task, max(1, MOST_DOCUMENTS // len(tasks))) for task in tasks]


def _files(run: Stored, task: str) -> list[Path]:
    """Where a task's prompts are recorded, then each lane's answers."""
    lanes = [by_lane(run.folder, "quality", task, lane["id"]) for lane in run.results["lanes"]]
    return [prompts_path(run.folder, task), *lanes]


def _exists(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a stranger's name that is too long for one
        return False


def _add(data: Data, run: Stored, task: str, most: int) -> Answers:
    notes: list[str] = []
    prompts, *read = [_by_key(run.folder, path, notes) for path in _files(run, task)]
    ids = [lane["id"] for lane in run.results["lanes"]]
    lanes = {lane: records for lane, records in zip(ids, read, strict=True) if records}
    keys = sorted({key for records in (prompts, *lanes.values()) for key in records})
    facts = run.results["tasks"].get(task, {})
    metric = str(facts.get("metric") or "")
    documents: list[dict[str, Any]] = []
    for key in keys[:most]:
        if data.room <= 0:
            notes.append(f"the page holds no more than {MOST_CHARACTERS:,} characters of texts")
            break
        documents.append(_document(data, key, prompts.get(key, {}), lanes, metric))
    data.tasks.append(
        {
            "lanes": list(lanes),
            "metric": metric,
            "higher": bool(facts.get("higher_is_better", True)),
            "documents": documents,
        }
    )
    given = [one for document in documents for one in document["answers"] if one]
    if any(one["unmarked"] for one in given):
        notes.append(NO_ENDS)
    if any(one["cut"] for one in (*given, *documents)):
        notes.append(f"of longer texts the first {LONGEST_TEXT:,} characters are here")
    of = f" of {len(keys):,}" if len(documents) < len(keys) else ""
    summary = f"{task}: {len(documents):,}{of} {'document' if len(keys) == 1 else 'documents'}"
    if BASELINE in lanes:
        differing = [any(one and one["differs"] for one in d["answers"]) for d in documents]
        summary += f", lanes differ in {sum(differing):,}"
    elif lanes:
        notes.append(f"no answers of {BASELINE}: where lanes differ from it cannot be told")
    return Answers(len(data.tasks) - 1, summary, notes)


def _document(
    data: Data,
    key: Key,
    prompt: Record,
    lanes: Mapping[str, Mapping[Key, Record]],
    metric: str,
) -> dict[str, Any]:
    """A prompt and each lane's answer to it, None where there is none."""
    text, base = _text(prompt, "prompt"), lanes.get(BASELINE, {}).get(key)
    return {
        **dict(zip(("id", "sample", "turn"), key, strict=True)),
        "prompt": data.place(text) if text else None,
        "cut": _cut(text),
        "answers": [
            _answer(records[key], None if lane == BASELINE else base, metric, data)
            if key in records
            else None
            for lane, records in lanes.items()
        ],
    }


def _answer(record: Record, base: Record | None, metric: str, data: Data) -> dict[str, Any]:
    """One lane's answer to one prompt, held against `ar`'s."""
    text = _text(record)
    tokens, relaxed = _ints(record, "token_ids"), sorted(set(_ints(record, "relaxed_at")))
    ends = _ends(record, len(tokens), len(text))
    spans = spans_of(ends, len(text)) if ends else []
    marks: dict[tuple[int, int], int] = {}
    for place in relaxed:
        if place < len(spans):
            marks[spans[place]] = RELAXED
    differs = None if base is None else _difference(record, base, spans)
    if differs is not None:
        span = (differs["from"], differs["to"])
        marks[span] = marks.get(span, 0) | DIFFERS
    scores = record.get("scores")
    named = list(scores) if isinstance(scores, dict) else []
    finish = record.get("finish_reason")
    return {
        "text": data.place(text),
        "cut": _cut(text),
        "tokens": len(tokens),
        "finish": finish[:40] if isinstance(finish, str) else None,
        "score": _score(record, metric),
        "scores": [[name[:80], _score(record, name)] for name in named[:8] if name != metric],
        "relaxed": len(relaxed),
        "unmarked": bool(relaxed) and not spans,
        "marks": _within(marks),
        "differs": differs,
    }


def _difference(record: Record, base: Record, spans: Sequence[tuple[int, int]]) -> Any:
    """Where an answer first leaves `ar`'s, None where it does not.

    `at` is the token (None where tokens are not recorded), `from` and `to` the characters to mark,
    `shorter` whether this answer is over where `ar`'s goes on.
    """
    text, other = _text(record), _text(base)
    ours, theirs = _ints(record, "token_ids"), _ints(base, "token_ids")
    at = metrics.first_divergence({"token_ids": ours}, {"token_ids": theirs})
    if at is None and text == other:
        return None
    if at is not None and spans:
        start, end = spans[at] if at < len(spans) else (len(text), len(text))
    else:
        shared = zip(text, other, strict=False)
        start = next((n for n, (a, b) in enumerate(shared) if a != b), min(len(text), len(other)))
        end = min(start + 1, len(text))
    shorter = len(ours) == at if at is not None else len(text) == start
    return {"at": at, "from": start, "to": end, "shorter": shorter}


def spans_of(ends: Sequence[int], size: int) -> list[tuple[int, int]]:
    """From which to which character each token reaches, of a text of so many.

    A token that ends within a character has the whole of it; what lies behind the text is empty.
    """
    found: list[tuple[int, int]] = []
    after = size
    for place in range(len(ends) - 1, -1, -1):
        start = ends[place - 1] if place else 0
        after = ends[place] if ends[place] > start else after
        found.append((start, max(start, after)))
    return found[::-1]


def _within(marks: Mapping[tuple[int, int], int]) -> list[Mark]:
    """The marks in order, as far as the text is shown; one is empty only where the text ends."""
    return [
        (start, min(end, LONGEST_TEXT), what)
        for (start, end), what in sorted(marks.items())
        if start < LONGEST_TEXT and (start < end or what & DIFFERS)
    ]


def _by_key(folder: Path, path: Path, notes: list[str]) -> dict[Key, Record]:
    """A file's records, the first of each document, sample and turn; a note if it is broken."""
    found: dict[Key, Record] = {}
    if not inside(folder, path):
        return found
    strange = 0
    try:
        for record in read_records(path):
            values = (record.get("doc_id"), record.get("sample") or 0, record.get("turn") or 0)
            if all(type(value) is int and 0 <= value < LARGEST_ID for value in values):
                found.setdefault(values, record)  # type: ignore[arg-type]
            else:
                strange += 1
    except MarsError as error:
        notes.append(str(error))
    except (OSError, RecursionError) as error:
        notes.append(f"{path}: cannot be read ({type(error).__name__})")
    if strange:
        notes.append(f"{path}: {counted(strange, 'record')} without a document")
    return found


def _ends(record: Record, tokens: int, size: int) -> list[int]:
    """The record's `token_ends`; empty where it has none that its text and tokens allow."""
    ends = _ints(record, "token_ends")
    fits = len(ends) == tokens and ends == sorted(ends)
    return ends if fits and ends and ends[-1] <= size else []


def _ints(record: Record, name: str) -> list[int]:
    """A list of whole numbers from 0 on; empty where the record has something else."""
    found = record.get(name)
    whole = isinstance(found, list) and all(type(one) is int and one >= 0 for one in found)
    return found if whole and isinstance(found, list) else []


def _text(record: Record, name: str = "text") -> str:
    text = record.get(name)
    return text if isinstance(text, str) else ""


def _score(record: Record, metric: str) -> float | None:
    scores = record.get("scores")
    return metrics.score(record, metric) if isinstance(scores, dict) else None


def _cut(text: str) -> int:
    """How long a text is whose end is not shown, else 0."""
    return len(text) if len(text) > LONGEST_TEXT else 0
