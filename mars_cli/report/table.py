"""The table at the end of a run, and what a reader must know beneath it. Fits 80 columns and up."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mars_cli.analysis.figures import NOT_LOSSLESS
from mars_cli.analysis.metrics import BASELINE
from mars_cli.report import numbers

NARROWEST, NARROWEST_LANE = 40, 8
NOISE_MARK, SAFE = "~", "safe"
LANE, LOSS, SPEEDUP = "lane", "loss ≤", "speedup"
COLUMNS = (LANE, "score", "recovery", LOSS, "tau", SPEEDUP, "tok/s")
INDENT, HANGING = "  ", "    "
GAP = 2
RECOVERY_NOTES = {
    "low_base": "low base",
    "not_scored": "not scored",
    "no_baseline": "no ar",
    "undefined": "undefined",
}
LEGEND = "tau: acceptance length, delivered tokens per step. Brackets: 95% intervals."
NOISE_LEGEND = f"{NOISE_MARK} the interval overlaps the A/A noise: no difference is shown."
Row = Mapping[str, str]  # a lane's cells under their titles


def summary_table(results: Mapping[str, Any], width: int) -> RenderableType:
    """Render `results.json` as one block a task (lanes, noise floor, notes), then the totals.

    `width` is in terminal columns; an interval stands beside its figure where all of them fit so,
    else underneath. Lane, task and model names are text: markup and control characters in them
    are shown, not obeyed.
    """
    width = max(width, NARROWEST)
    tasks: Mapping[str, Any] = results["tasks"]
    rows, widths = _layout(tasks, width)
    parts: list[RenderableType] = [
        Text(f"beside the draft, {numbers.printable(line)}", style="yellow")
        for line in results.get("engine_differences", [])
    ]
    for position, (name, task) in enumerate(tasks.items()):
        if position or parts:
            parts.append(Text())
        parts.append(_heading(name, task))
        parts.append(_block(task, rows[name], widths))
        parts.append(
            Padding(
                Text(noise_line(results["noise"].get(name)), style="cyan"),
                (0, 0, 0, 2),
                expand=False,
            )
        )
        parts.extend(bullets(task_lines(task, results["noise"].get(name))))
    if not tasks:
        parts.append(Text("No task has results."))
    if len(tasks) > 1:
        parts.append(Text())
        parts.append(Text("overall", style="bold"))
        parts.extend(bullets(overall_lines(results)))
    parts.append(Text())
    legend = [LEGEND]
    if LOSS in widths:
        legend.append(loss_legend(results))
    if any(is_noise(found) for task in tasks.values() for found in task["lanes"].values()):
        legend.append(NOISE_LEGEND)
    legend.extend(map(numbers.printable, results.get("notes", [])))
    parts.append(Text(" ".join(legend), style="dim"))
    return Group(*parts)


def lane_row(lane: str, found: Mapping[str, Any], *, beside: bool) -> Row:
    """One lane's cells; what goes with a figure stands after a space or on a second line."""
    between = " " if beside else "\n"
    speedup = numbers.ratio(found["speedup"])
    speedup += _after(between, numbers.interval(found["speedup_ci"]))
    loss = loss_words(found)
    cells = (
        numbers.printable(lane),
        numbers.score(found["score"]),
        _recovery(found, between),
        # Beside a figure the word comes first: figures line up at the right.
        " ".join(reversed(loss)) if beside else "\n".join(loss),
        numbers.number(found["acceptance_length"]),
        f"{speedup} {NOISE_MARK}" if is_noise(found) else speedup,
        numbers.rate(found["tokens_per_s"]),
    )
    return dict(zip(COLUMNS, cells, strict=True))


def _recovery(found: Mapping[str, Any], between: str) -> str:
    text = numbers.percent(found["recovery"])
    if found["recovery"] is None and found["recovery_note"]:
        note = RECOVERY_NOTES.get(found["recovery_note"], found["recovery_note"])
        text = f"{numbers.NULL} {numbers.printable(note)}"
    return text + _after(between, numbers.interval(found["recovery_ci"], 1))


def loss_words(found: Mapping[str, Any]) -> list[str]:
    """The largest loss that the data do not exclude, and the word "safe" where it is."""
    return [numbers.at_most(found.get("largest_loss")), *([SAFE] if found.get("safe") else [])]


def has_loss(tasks: Mapping[str, Any]) -> bool:
    """Whether any lane has a largest loss."""
    return any(
        found.get("largest_loss") is not None
        for task in tasks.values()
        for found in task["lanes"].values()
    )


def loss_legend(results: Mapping[str, Any]) -> str:
    """What the largest loss is, and when a lane is called safe."""
    most = f"{100 - results['safe_recovery']:.4g}"
    return (
        f"{LOSS}: the largest loss of recovery, in % points, that the data do not exclude; "
        f"{SAFE}: at most {most}."
    )


def is_noise(found: Mapping[str, Any]) -> bool:
    """Whether the lane's speedup cannot be told from the A/A noise."""
    return found.get("within_noise") is True


def noise_line(noise: Mapping[str, Any] | None) -> str:
    """The noise floor of a task: what `ar` measured twice gives."""
    if not noise or noise["aa_speedup"] is None:
        return "noise floor not measured: no prompt was timed twice with ar"
    value = numbers.ratio(noise["aa_speedup"])
    if noise["aa_ci"] is None:
        return f"A/A {value} (ar against itself), no interval: its noise is unknown"
    return (
        f"A/A {value} {numbers.interval(noise['aa_ci'])} (ar against itself): "
        "differences inside are noise"
    )


def task_lines(task: Mapping[str, Any], noise: Mapping[str, Any] | None) -> Iterator[str]:
    """All that stands beneath the noise floor of a task: what no column has room for, its notes."""
    yield from concurrency_lines(task, noise)
    yield from category_lines(task)
    yield from pass_lines(task)
    yield from strict_lines(task)
    yield from fidelity_lines(task)
    yield from task_notes(task)


def concurrency_lines(task: Mapping[str, Any], noise: Mapping[str, Any] | None) -> Iterator[str]:
    """Where several concurrencies were timed, a line each: speedup and throughput of each lane."""
    levels = task.get("concurrency") or []
    for level in levels if len(levels) > 1 else ():
        figures = []
        for lane, found in task["lanes"].items():
            at = found["by_concurrency"][str(level)]
            text = f"{lane} {numbers.rate(at['throughput'])} tok/s"
            if lane != BASELINE:
                text += f" in all ({numbers.ratio(at['throughput_speedup'])})"
                text += f", each {numbers.ratio(at['speedup'])}"
                text += _after(" ", numbers.interval(at["speedup_ci"]))
                text += f" {NOISE_MARK}" if is_noise(at) else ""
            figures.append(text)
        floor = (noise or {}).get("by_concurrency", {}).get(str(level), {})
        if floor.get("aa_speedup") is not None:
            ends = _after(" ", numbers.interval(floor["aa_ci"]))
            figures.append(f"A/A {numbers.ratio(floor['aa_speedup'])}{ends}")
        yield numbers.printable(f"{level} in flight: {'; '.join(figures)}")


def category_lines(task: Mapping[str, Any]) -> Iterator[str]:
    """One line a category of documents: speedup, acceptance length and recovery of each lane."""
    for name, part in (task.get("categories") or {}).items():
        figures = []
        for lane, found in part["lanes"].items():
            if lane == BASELINE:
                continue
            text = f"{lane} {numbers.ratio(found['speedup'])}"
            text += _after(" ", numbers.interval(found["speedup_ci"]))
            text += f", tau {numbers.number(found['acceptance_length'])}"
            if found["recovery"] is not None:
                text += f", recovery {_recovery(found, between=' ')}"
            figures.append(text)
        yield numbers.printable(f"{name} ({part['n']}): {'; '.join(figures)}")


def pass_lines(task: Mapping[str, Any]) -> Iterator[str]:
    """Of a task with several samples a document, one line a metric pass@k: score and recovery."""
    samples, lanes = task.get("samples") or 1, task["lanes"]
    names = dict.fromkeys(name for found in lanes.values() for name in found.get("metrics", {}))
    for name in names:
        if samples == 1 or name.partition(",")[0] != f"pass@{samples}":
            continue
        figures = []
        for lane, found in lanes.items():
            values = found["metrics"][name]
            text = f"{lane} {numbers.score(values['score'])}"
            text += _after(" ", numbers.interval(values["score_ci"], 3))
            if lane != BASELINE:
                text += f", recovery {_recovery(values, between=' ')}"
            figures.append(text)
        yield numbers.printable(f"{name}: {'; '.join(figures)}")


def strict_lines(task: Mapping[str, Any]) -> Iterator[str]:
    """One line a lane that was timed beside strict: what the rule alone does to its speed."""
    levels = task.get("concurrency") or []
    for lane, found in task["lanes"].items():
        several = len(levels) > 1 and found["strict_speedup"] is not None
        at = {level: found["by_concurrency"][str(level)] for level in levels} if several else {}
        figures = [
            f"{_over_strict(values)} with {level} in flight" for level, values in at.items()
        ] or [_over_strict(found)]
        if any(figures):
            yield numbers.printable(
                f"{lane}: {', '.join(figures)}: speed over strict with the same draft and K, "
                "on the same prompts"
            )


def _over_strict(values: Mapping[str, Any]) -> str:
    if values["strict_speedup"] is None:
        return ""
    ends = values["strict_speedup_ci"]
    same = " (not told apart)" if ends is None or ends[0] <= 1 <= ends[1] else ""
    return numbers.ratio(values["strict_speedup"]) + _after(" ", numbers.interval(ends)) + same


def fidelity_lines(task: Mapping[str, Any]) -> Iterator[str]:
    """One line a lane whose answers were re-scored: second choices, violations, likelihood."""
    for lane, found in task["lanes"].items():
        checked = found.get("fidelity") or {}
        if lane == BASELINE or checked.get("violations") is None:
            continue
        second, wrong = checked["rank2_share"], checked["violations"]
        line = (
            f"fidelity of {lane}: {numbers.share(second)} of tokens are the target's second "
            f"choice, {numbers.count(wrong)} none that the rule allows"
        )
        if checked["nll_delta"] is not None:
            ends = numbers.interval(checked["nll_delta_ci"], 3)
            line += f"; {checked['nll_delta']:+.3f} nats a token against ar"
            line += _after(" ", ends)
        yield numbers.printable(line)


def task_notes(task: Mapping[str, Any]) -> list[str]:
    """Notes of a task and its lanes, a sentence said of several lanes once with their names."""
    said: dict[str, list[str]] = {}
    for lane, found in task["lanes"].items():
        for note in found["notes"]:
            said.setdefault(note, []).append(lane)
    lanes = len(task["lanes"])
    lines = list(task["notes"])
    for note, who in said.items():
        # Every lane but ar, which is what the others are held against, is "all lanes" too.
        everyone = len(who) == lanes or (len(who) == lanes - 1 > 1 and BASELINE not in who)
        lines.append(f"{'all lanes' if everyone else ', '.join(who)}: {note}")
    return [numbers.printable(line) for line in lines]


def overall_lines(results: Mapping[str, Any]) -> Iterator[str]:
    """One line a lane but ar: geometric mean speedup, mean recovery, pooled acceptance length."""
    for lane, found in results["overall"].items():
        if lane == BASELINE:
            continue
        over = found["strict_speedup"]
        rule = "" if over is None else f", {numbers.ratio(over)} over strict"
        figures = (
            f"speedup {numbers.ratio(found['speedup'])}{rule} (geometric mean), "
            f"recovery {numbers.percent(found['recovery'])} (mean), "
            f"tau {numbers.number(found['acceptance_length'])} (pooled)"
        )
        yield f"{numbers.printable(lane)}: " + "; ".join([figures, *found["notes"]])


def task_title(name: str, task: Mapping[str, Any]) -> str:
    """Task name, primary metric, and how many documents and timed prompts stand behind it."""
    direction = "" if task["higher_is_better"] else " (lower is better)"
    speed = f"{numbers.counted(task['n_speed'], 'timed prompt')} ({task['speed_mode']})"
    return numbers.printable(
        f"{name} · {task['metric']}{direction} · {documents_text(task)}, {speed}"
    )


def documents_text(task: Mapping[str, Any]) -> str:
    """Such as "12 documents", or with --samples 4 "12 documents, 4 samples each"."""
    samples = task.get("samples") or 1
    documents = numbers.counted(task["n"], "document")
    return documents + (f", {samples} samples each" if samples > 1 else "")


def _heading(name: str, task: Mapping[str, Any]) -> Text:
    title = task_title(name, task)
    text = Text(title, overflow="fold")
    text.stylize("bold", 0, len(numbers.printable(name)))
    return text


def _block(task: Mapping[str, Any], rows: list[Row], widths: Mapping[str, int]) -> Table:
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="dim")
    for title, wide in widths.items():
        left = title == LANE
        table.add_column(
            f"{INDENT}{title}" if left else title,
            width=wide,
            justify="left" if left else "right",
            overflow="fold",
            no_wrap=False,
        )
    for row, found in zip(rows, task["lanes"].values(), strict=True):
        cells = {title: Text(row[title]) for title in widths}
        cells[LANE] = Text(indented(row[LANE], widths[LANE]))
        if is_noise(found):
            cells[SPEEDUP].stylize("dim")
        table.add_row(*cells.values())
    return table


def _layout(tasks: Mapping[str, Any], width: int) -> tuple[dict[str, list[Row]], dict[str, int]]:
    """Rows of each task, and the width of each column that is shown, the same for all tasks.

    What goes with a figure stands beside it where that fits without breaking a lane's name, else
    underneath. The largest loss has a column if any lane has one.
    """
    shown = [title for title in COLUMNS if title != LOSS or has_loss(tasks)]
    for beside in (True, False):
        rows = {
            name: [lane_row(lane, found, beside=beside) for lane, found in task["lanes"].items()]
            for name, task in tasks.items()
        }
        every = [row for found in rows.values() for row in found]
        widths = {title: _widest([title, *(row[title] for row in every)]) for title in shown}
        widths[LANE] += len(INDENT)
        spare = width - sum(widths.values()) - GAP * (len(shown) - 1)
        if spare >= 0:
            break
    widths[LANE] = max(NARROWEST_LANE, widths[LANE] + min(spare, 0))
    return rows, widths


def _widest(cells: Sequence[str]) -> int:
    return max(cell_len(line) for cell in cells for line in cell.split("\n"))


def indented(name: str, width: int, indent: str = INDENT) -> str:
    """A name in lines of `width` columns, broken after hyphens and spaces: no number is cut."""
    lines = [indent]
    for part in re.split(r"(?<=[- ])(?<!\de-)", name):
        if cell_len((lines[-1] + part).rstrip()) > width and lines[-1].strip():
            lines.append(HANGING)
        lines[-1] += part
    return "\n".join(lines)


def bullets(lines: list[str] | Iterator[str]) -> list[RenderableType]:
    """Each line as a bullet whose later lines are indented under the first."""
    bullets: list[RenderableType] = []
    for line in lines:
        grid = Table.grid(padding=0)
        grid.add_column(width=4)
        grid.add_column(overflow="fold")
        loud = "bold red" if NOT_LOSSLESS in line else ""
        grid.add_row("  - ", Text(line, overflow="fold", style=loud))
        bullets.append(grid)
    return bullets


def _after(between: str, interval: str) -> str:
    return f"{between}{interval}" if interval else ""
