"""`report.md`: the same figures and notes as the terminal's table, with lanes and environment."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mars_cli.report import numbers
from mars_cli.report.blocks import Block, Heading, Lines, clipped
from mars_cli.report.table import (
    LOSS,
    RECOVERY_NOTES,
    documents_text,
    has_loss,
    is_noise,
    loss_legend,
    loss_words,
    noise_line,
    overall_lines,
    task_lines,
)

COLUMNS = (
    *("lane", "score", "recovery", LOSS, "McNemar p", "Holm p", "tau", "speedup", "decode"),
    *("wall", "tok/s", "relaxed/100", "= ar", "truncated"),
)
LANE_FIELDS = ("rule", "draft", "k", "temperature", "seed")
KEY = (
    "Recovery: score as a share of ar's. Tau: delivered tokens per step. Speedup: mean tokens/s of "
    "the prompts against ar's, end to end; decode: after the first token; wall: time for the same "
    "prompts. Relaxed/100: relaxed tokens in 100. = ar: timed outputs with ar's very tokens. "
    "Brackets: "
    "95% intervals. ~: the interval overlaps the A/A noise. Holm p: McNemar's p adjusted for all "
    "lanes and tasks of this run; a large p is no sign that a lane is safe."
)


def markdown(results: Mapping[str, Any]) -> str:
    """Build report.md from `results.json`. All text in it is escaped; ends with a newline."""
    run = results["run"]
    lines = [f"# mars: {text(run.get('id', 'run'))}", ""]
    facts = [f"{name} {text(run[name])}" for name in ("created", "status") if run.get(name)]
    lines += [", ".join(facts), ""] if facts else []
    for note in [*results.get("engine_differences", []), *results.get("notes", [])]:
        lines += [f"- {text(note)}"]
    for name, task in results["tasks"].items():
        lines += ["", f"## {text(name)}", "", *_task(task, results["noise"].get(name))]
    if len(results["tasks"]) > 1:
        lines += ["", "## Overall", ""]
        lines += [f"- {text(line)}" for line in overall_lines(results)]
    key = [KEY, *([loss_legend(results)] if has_loss(results["tasks"]) else [])]
    lines += ["", text(" ".join(key)), "", "## Lanes", ""]
    lines += _table(
        ("lane", *LANE_FIELDS, "parameters"),
        [
            (
                code(lane["id"]),
                *(_plain(lane.get(name)) for name in LANE_FIELDS),
                text(parameters(lane)),
            )
            for lane in results["lanes"]
        ],
    )
    for title, facts_of in (("Model", results["model"]), ("Environment", results["environment"])):
        lines += ["", f"## {title}", ""]
        lines += [f"- {text(name)}: {code(value)}" for name, value in flat(facts_of)]
    return "\n".join(lines) + "\n"


def blocks_markdown(blocks: Sequence[Block]) -> str:
    """Set blocks as Markdown; ends with a newline."""
    lines: list[str] = []
    for block in blocks:
        if block == Lines(()):
            continue
        lines += [""] if lines else []
        if isinstance(block, Heading):
            lines.append(f"{'#' * block.level} {text(block.text)}")
        elif isinstance(block, Lines):
            lines += [f"{'- ' if block.listed else ''}{text(line)}" for line in block.lines]
        else:
            rows = [
                [
                    *(code(clipped(" ".join(cell))) for cell in row[: block.names]),
                    *(" ".join(cell) for cell in row[block.names :]),
                ]
                for row in block.rows
            ]
            lines += _table(block.header, rows)
    return "\n".join(lines) + "\n"


def parameters(lane: Mapping[str, Any]) -> str:
    """A lane's parameters in words: theta=0.9, protect-stop."""
    found = [f"{name}={value:g}" for name, value in (lane.get("parameters") or {}).items()]
    found += ["protect-stop"] if lane.get("protect_stop") else []
    return ", ".join(found) or numbers.NULL


def text(value: Any) -> str:
    """Escape a stranger's text for Markdown: one line, no markup, no HTML."""
    plain = html.escape(numbers.printable(value), quote=False)
    # An underscore inside a word is no emphasis: task names stay readable.
    return re.sub(r"([\\`*\[\]|~#]|(?<!\w)_|_(?!\w))", r"\\\1", plain)


def code(value: Any) -> str:
    """A stranger's text as a code span that survives inside a table cell."""
    plain = numbers.printable(value).replace("`", "'").replace("|", "\\|")
    return f"`{plain or ' '}`"


def _task(task: Mapping[str, Any], noise: Mapping[str, Any] | None) -> Iterator[str]:
    better = "higher" if task["higher_is_better"] else "lower"
    yield (
        f"{code(task['metric'])} ({better} is better), {documents_text(task)}; "
        f"{numbers.counted(task['n_speed'], 'timed prompt')}, {text(task['speed_mode'])}."
    )
    yield ""
    rows = [_row(lane, found) for lane, found in task["lanes"].items()]
    yield from _table(COLUMNS, rows)
    yield ""
    yield f"- {text(noise_line(noise))}"
    yield from (f"- {text(line)}" for line in task_lines(task, noise))


def _row(lane: str, found: Mapping[str, Any]) -> Sequence[str]:
    recovery = _with(numbers.percent(found["recovery"]), found["recovery_ci"], 1)
    if found["recovery"] is None and found["recovery_note"]:
        note = found["recovery_note"]
        recovery = f"{numbers.NULL} {text(RECOVERY_NOTES.get(note, note))}"
    speedups = [
        _with(numbers.ratio(found[name]), found[f"{name}_ci"], 2)
        for name in ("speedup", "decode_speedup", "wall_speedup")
    ]
    if is_noise(found):
        speedups[0] += " ~"
    return (
        code(lane),
        _with(numbers.score(found["score"]), found["score_ci"], 3),
        recovery,
        " ".join(loss_words(found)),
        numbers.p_value(found["p_value"]),
        numbers.p_value(found.get("p_value_holm")),
        numbers.number(found["acceptance_length"]),
        *speedups,
        numbers.rate(found["tokens_per_s"]),
        numbers.number(found["relaxed_per_100_tokens"], 1),
        numbers.share(found["exact_match_ar"]),
        numbers.share(found["truncated_share"]),
    )


def _with(figure: str, ends: Sequence[float] | None, digits: int) -> str:
    return f"{figure} {numbers.interval(ends, digits)}".rstrip()


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _plain(value: Any) -> str:
    return numbers.NULL if value is None else text(value)


def flat(facts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested facts as dotted names, in order."""
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
