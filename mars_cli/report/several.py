"""What a report says of several runs side by side: first what makes them less than comparable."""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mars_cli.analysis.figures import Unit
from mars_cli.analysis.metrics import BASELINE
from mars_cli.analysis.stored import Stored
from mars_cli.report import numbers
from mars_cli.report.blocks import Block, Cell, Heading, Lines, Table, figure
from mars_cli.report.single import MAIN, legend, main_cells, minute, model_name
from mars_cli.report.table import LOSS, documents_text, noise_line, strict_lines, task_notes

if TYPE_CHECKING:
    from mars_cli.analysis.across import Paired
    from mars_cli.analysis.comparable import Difference

Lanes = Mapping[str, Mapping[str, Any]]
NAMED = 4  # runs named in a sentence before "and 12 more"
CAN_CHANGE = {"answers": "may change answers and speed", "speed": "may change speed"}
PAIRED_LEGEND = (
    "Paired by document: the score as a share of the same lane's in the base, with its 95% "
    "interval; McNemar's p, and Holm's for all rows of all tasks here. A large p is no sign that "
    "nothing differs. Speedups are each run's own, over its own ar: compare them only where "
    "machine and engine are the same."
)


def labels(count: int) -> list[str]:
    """A, B, ... Z, AA, AB, ... for so many runs."""
    found = []
    for number in range(count):
        label, left = "", number + 1
        while left:
            left, digit = divmod(left - 1, 26)
            label = string.ascii_uppercase[digit] + label
        found.append(label)
    return found


def several(
    runs: Sequence[Stored],
    differing: Sequence[Difference],
    pairs: Sequence[Paired],
    base: Stored | None,
) -> Iterator[Block]:
    """The runs, what differs between them, and per task their figures and the paired tests.

    `base` is one of the runs; None where nothing is paired.
    """
    of = {id(run): label for run, label in zip(runs, labels(len(runs)), strict=True)}
    yield Heading(f"{len(runs)} runs side by side", 1)
    yield Table(
        ("", "run", "created", "model", "status"),
        tuple(
            (
                (of[id(run)],),
                (run.id,),
                (minute(run.results["run"]["created"]),),
                (model_name(run),),
                (run.results["run"]["status"],),
            )
            for run in runs
        ),
        5,
        "The runs.",
    )
    yield Heading("What makes them less than comparable")
    yield Lines(tuple(_differences(differing, list(of.values()))))
    tasks = dict.fromkeys(name for run in runs for name in run.results["tasks"])
    for task in tasks:
        having = [run for run in runs if run.has(task)]
        yield from _task(task, having, of)
        found = [pair for pair in pairs if pair.task == task]
        if base is not None and found:
            yield from _paired(task, found, of, of[id(base)])
    if len(tasks) > 1:
        yield from _overall(runs, of)
    notes = [
        (note, of[id(run)]) for run in runs for note in (*run.results["notes"], *_counted(run))
    ]
    yield Heading("Notes")
    yield Lines(tuple(_grouped(notes, len(runs))))
    said = [legend(runs), *([PAIRED_LEGEND] if pairs else [])]
    yield Lines((" ".join(said),), listed=False)


def _differences(differing: Sequence[Difference], names: Sequence[str]) -> Iterator[str]:
    for one in differing:
        by_value: dict[str, list[str]] = {}
        for label, value in zip(names, one.values, strict=True):
            if value is not None:
                by_value.setdefault(value, []).append(label)
        told = "; ".join(f"{value} ({_some(who)})" for value, who in by_value.items())
        what = one.what if one.task is None else f"{one.what} of {one.task}"
        yield f"{CAN_CHANGE[one.changes]}: {what}: {told}"
    if not differing:
        yield "nothing that is recorded differs"


def _task(task: str, having: Sequence[Stored], of: Mapping[int, str]) -> Iterator[Block]:
    facts = [run.results["tasks"][task] for run in having]
    title = f"{task} · {facts[0]['metric']}"
    yield Heading(title)
    rows = _rows(having, of, {id(run): run.results["tasks"][task]["lanes"] for run in having})
    caption = f"{title}. {legend(having)}"
    cells = ((*names, *main_cells(found)) for names, found in rows)
    yield Table(("lane", "run", *MAIN), tuple(cells), 2, caption)
    notes: list[tuple[str, str]] = []
    for run, found in zip(having, facts, strict=True):
        label = of[id(run)]
        prompts = numbers.counted(found["n_speed"], "timed prompt")
        size = f"{documents_text(found)}, {prompts} ({found['speed_mode']})"
        floor = noise_line(run.results["noise"].get(task))
        said = (size, floor, *strict_lines(found), *task_notes(found))
        notes += [(note, label) for note in said]
    yield Lines(tuple(_grouped(notes, len(having))))


def _rows(
    runs: Sequence[Stored], of: Mapping[int, str], found: Mapping[int, Lanes]
) -> Iterator[tuple[tuple[Cell, Cell], Mapping[str, Any]]]:
    """Names and figures of every lane in every run that has it: lane by lane."""
    for lane in dict.fromkeys(lane for run in runs for lane in found[id(run)]):
        for run in runs:
            if lane in found[id(run)]:
                yield ((lane,), (of[id(run)],)), found[id(run)][lane]


def _paired(
    task: str, pairs: Sequence[Paired], of: Mapping[int, str], base: str
) -> Iterator[Block]:
    title = f"{task}: against {base}, document by document"
    yield Heading(title, 3)
    order = {lane: place for place, lane in enumerate(dict.fromkeys(p.lane for p in pairs))}
    shown = [pair for pair in pairs if pair.note is None]
    rows = tuple(
        (
            (pair.lane,),
            (of[id(pair.run)],),
            (f"{pair.n}/{pair.documents}",),
            figure(pair.ratio, Unit.PERCENT, pair.interval),
            figure(pair.largest_loss, Unit.PERCENT),
            figure(pair.p_value, Unit.P_VALUE),
            figure(pair.p_value_holm, Unit.P_VALUE),
        )
        for pair in sorted(shown, key=lambda one: order[one.lane])
    )
    if rows:
        header = ("lane", "run", "paired", f"score / {base}'s", LOSS, "p", "Holm p")
        yield Table(header, rows, 2, f"{title}. {PAIRED_LEGEND}")
    notes: dict[tuple[str, str], list[str]] = {}
    for pair in pairs:
        if pair.note is not None:
            notes.setdefault((of[id(pair.run)], pair.note), []).append(pair.lane)
    said = ((f"no ratio for {_some(lanes)}: {note}", who) for (who, note), lanes in notes.items())
    yield Lines(tuple(_grouped(list(said), len({id(pair.run) for pair in pairs}))))


def _overall(runs: Sequence[Stored], of: Mapping[int, str]) -> Iterator[Block]:
    rows = _rows(runs, of, {id(run): run.results["overall"] for run in runs})
    cells = tuple(
        (
            *names,
            figure(found["recovery"], Unit.PERCENT),
            figure(found["acceptance_length"], Unit.NUMBER),
            figure(found["speedup"], Unit.RATIO),
        )
        for names, found in rows
        if names[0] != (BASELINE,)
    )
    yield Heading("overall")
    caption = "Over all tasks: recovery (mean), tau (pooled), speedup (geometric mean)."
    yield Table(("lane", "run", "recovery", "tau", "speedup"), cells, 2, caption)
    yield Lines((caption,), listed=False)


def _grouped(notes: Sequence[tuple[str, str]], count: int) -> Iterator[str]:
    """Each sentence once, with the runs that it is said of, unless that is all of them."""
    said: dict[str, list[str]] = {}
    for note, label in notes:
        who = said.setdefault(note, [])
        who += [label] if label not in who else []
    for note, who in said.items():
        yield note if len(who) == count > 1 else f"{_some(who)}: {note}"


def _counted(run: Stored) -> Iterator[str]:
    """What is recorded of a run without figures, a sentence a task."""
    for task in dict.fromkeys(count.task for count in run.counts):
        told = (f"{one.lane} {one.answers}" for one in run.counts if one.task == task)
        yield f"answers recorded of {task}: {', '.join(told)}"


def _some(who: Sequence[str]) -> str:
    """Such as "A, B, C, D and 12 more"."""
    more = len(who) - NAMED
    return ", ".join(who) if more < 2 else f"{', '.join(who[:NAMED])} and {more} more"
