"""What a report says of one run, as blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mars_cli.analysis.figures import FIGURES, INTERVALS, Unit
from mars_cli.analysis.stored import Stored
from mars_cli.report import numbers
from mars_cli.report.blocks import Block, Cell, Heading, Lines, Table, figure, recovery
from mars_cli.report.markdown import LANE_FIELDS, flat, parameters
from mars_cli.report.table import (
    LEGEND,
    LOSS,
    NOISE_LEGEND,
    NOISE_MARK,
    SAFE,
    is_noise,
    loss_legend,
    loss_words,
    noise_line,
    overall_lines,
    task_lines,
    task_title,
)

MAIN = ("score", "recovery", LOSS, "tau", "speedup", "tok/s")
DETAILS = (
    {
        "decode": "decode_speedup",
        "wall": "wall_speedup",
        "/ strict": "strict_speedup",
        "TTFT ms": "ttft_ms",
        "TPOT ms": "tpot_ms",
    },
    {
        "p": "p_value",
        "Holm p": "p_value_holm",
        "relaxed": "relaxed_per_100_tokens",
        "= ar": "exact_match_ar",
        "length": "length_ratio",
        "cut off": "truncated_share",
        "repeats": "repetition",
    },
)
DETAILS_LEGEND = (
    "decode, wall: speedup after the first token, and of the time for the same prompts. / strict: "
    "speedup over strict with the same draft and K, on the same prompts. p: McNemar's; Holm p: for "
    "all lanes and tasks of the run; large, it is no sign that a lane is safe. relaxed: in 100 "
    "tokens. = ar: timed outputs with ar's very tokens. length: against ar's. cut off: by the "
    "length limit. repeats: of token 4-grams."
)


def opening(run: Stored) -> list[Block]:
    """Which run it is; of one without figures, what is recorded."""
    facts = run.results["run"]
    model = model_name(run)
    title = " · ".join([run.id, minute(facts["created"]), model, facts["status"]])
    blocks: list[Block] = [Heading(title, 1)]
    if run.counts:
        rows = tuple(
            (
                (count.task,),
                (count.lane,),
                (count.answers,),
                (str(count.timed),),
            )
            for count in run.counts
        )
        blocks.append(Table(("task", "lane", "answers", "timed"), rows, 2, "what is recorded"))
    if not run.results["tasks"]:
        blocks.append(Lines(tuple(run.results["notes"])))
    return blocks


def details(run: Stored) -> Iterator[Block]:
    """The figures that the summary has no room for, task by task."""
    for name, task in run.results["tasks"].items():
        yield Heading(f"{name}, in detail")
        for columns in DETAILS:
            yield _table(task["lanes"], columns)
        positions = tuple(
            f"{lane}: accepted by position {' '.join(map(numbers.share, shares))}"
            for lane, found in task["lanes"].items()
            if (shares := found["acceptance_per_position"])
        )
        if positions:
            yield Lines(positions)
    if run.results["tasks"]:
        yield Lines((DETAILS_LEGEND,), listed=False)


def task_blocks(run: Stored) -> Iterator[Block]:
    """Each task's main table and all that is said of it; then the totals and the run's notes."""
    results = run.results
    if results["engine_differences"]:
        yield Lines(tuple(f"beside the draft, {line}" for line in results["engine_differences"]))
    for name, task in results["tasks"].items():
        title, noise = task_title(name, task), results["noise"].get(name)
        yield Heading(name)
        yield Lines((title.removeprefix(f"{numbers.printable(name)} · "),), listed=False)
        rows = tuple(((lane,), *main_cells(found)) for lane, found in task["lanes"].items())
        yield Table(("lane", *MAIN), rows, 1, f"{title}. {legend([run])}")
        yield Lines((noise_line(noise), *task_lines(task, noise)))
    if len(results["tasks"]) > 1:
        yield Heading("Overall")
        yield Lines(tuple(overall_lines(results)))
    if results["tasks"]:
        yield Heading("Notes")
        yield Lines(tuple(results["notes"]))
        yield Lines((legend([run]),), listed=False)


def facts(run: Stored) -> Iterator[Block]:
    """The lanes, the model and the environment, as far as they are known."""
    header = ("lane", *LANE_FIELDS, "parameters")
    rows = tuple(
        (
            (lane["id"],),
            *((_plain(lane.get(name)),) for name in LANE_FIELDS),
            (parameters(lane),),
        )
        for lane in run.results["lanes"]
    )
    if rows:
        yield Heading("Lanes", 3)
        yield Table(header, rows, len(header), "The lanes.")
    for title, known in (
        ("Model", run.results["model"]),
        ("Environment", run.results["environment"]),
    ):
        pairs = tuple(((name,), (str(value),)) for name, value in flat(known))
        if pairs:
            yield Heading(title, 3)
            yield Table(("fact", "value"), pairs, 2, f"{title}.")


def main_cells(found: Mapping[str, Any]) -> tuple[Cell, ...]:
    """A lane's cells under MAIN."""
    loss = loss_words(found)
    mark = NOISE_MARK if is_noise(found) else ""
    return (
        figure(found["score"], Unit.SCORE),
        recovery(found),
        (loss[0], *([SAFE] if SAFE in loss[1:] else [])),
        figure(found["acceptance_length"], Unit.NUMBER),
        figure(found["speedup"], Unit.RATIO, found["speedup_ci"], mark),
        figure(found["tokens_per_s"], Unit.RATE),
    )


def legend(runs: Sequence[Stored]) -> str:
    """What the columns of MAIN are, and the mark."""
    rows = [
        found for run in runs for task in run.results["tasks"].values() for found in lanes(task)
    ]
    said = [LEGEND, loss_legend(runs[0].results)]
    said += [NOISE_LEGEND] if any(map(is_noise, rows)) else []
    return " ".join(said)


def lanes(task: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The figures of each lane."""
    yield from task["lanes"].values()


def minute(moment: str) -> str:
    """An ISO 8601 moment to the minute: 2026-11-29 18:02."""
    return moment[:16].replace("T", " ")


def model_name(run: Stored) -> str:
    """How the model is called, "unknown" where nothing says so."""
    model = run.plan.get("model") or run.results["model"]
    return str(model.get("name") or model.get("id") or "unknown")


def _table(found: Mapping[str, Any], columns: Mapping[str, str]) -> Table:
    rows = tuple(
        (
            (lane,),
            *(
                figure(
                    values[name],
                    FIGURES[name],
                    values[f"{name}_ci"] if name in INTERVALS else None,
                )
                for name in columns.values()
            ),
        )
        for lane, values in found.items()
    )
    return Table(("lane", *columns), rows)


def _plain(value: object) -> str:
    return numbers.NULL if value is None else str(value)
