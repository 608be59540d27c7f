"""A sweep on the terminal and in report.md: cells by task, settings, and what is recommended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mars_cli.report import numbers
from mars_cli.report.markdown import code, text
from mars_cli.report.table import NOISE_MARK, is_noise

FRONT = "*"
CELL_COLUMNS = ("setting", "score", "recovery", "loss ≤", "tau", "speedup")
SETTING_COLUMNS = ("setting", "T", "recovery", "at least", "speedup")
LEGEND = (
    f"{FRONT} on the Pareto front of speedup against recovery. {NOISE_MARK} the interval overlaps "
    "the A/A noise. at least: the lowest end of a recovery interval over the tasks."
)


def sweep_table(sweep: Mapping[str, Any], width: int) -> RenderableType:
    """sweep.json as a table for each task, one of the settings, and the recommendation."""
    parts: list[RenderableType] = []
    for title, header, rows in tables(sweep):
        parts.append(Text(title, style="bold"))
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        for number, name in enumerate(header):
            table.add_column(name, justify="left" if number == 0 else "right", overflow="fold")
        for row in rows:
            table.add_row(*map(Text, row))
        parts += [table, Text()]
    parts += [Text(f"  - {line}", overflow="fold") for line in failures(sweep)]
    parts.append(Text(recommendation(sweep), style="bold"))
    parts += [Text(line, style="bold") for line in confirmation(sweep)]
    parts.append(Text(" ".join([LEGEND, *map(numbers.printable, sweep["notes"])]), style="dim"))
    return Group(*parts)


def sweep_markdown(sweep: Mapping[str, Any]) -> str:
    """The same as report.md."""
    lines = [f"# mars sweep: {text(sweep['run']['id'])}", ""]
    lines += [f"created {text(sweep['run']['created'])}, status {text(sweep['run']['status'])}"]
    lines += ["", f"**{text(recommendation(sweep))}**", ""]
    lines += [f"**{text(line)}**\n" for line in confirmation(sweep)]
    for title, header, rows in tables(sweep):
        lines += [f"## {text(title)}", "", f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
        lines += [f"| {code(row[0])} | {' | '.join(map(text, row[1:]))} |" for row in rows]
        lines.append("")
    lines += [f"- {text(line)}" for line in failures(sweep)]
    lines += ["", text(" ".join([LEGEND, *sweep["notes"]])), "", "## Groups", ""]
    lines += [
        f"- {code(group['id'])}: {text(group['status'])}, `groups/{text(group['id'])}`"
        for group in sweep["groups"]
    ]
    return "\n".join(lines) + "\n"


def recommendation(sweep: Mapping[str, Any]) -> str:
    """In one sentence."""
    found = sweep["recommended"]
    return numbers.printable(f"recommended: {found['setting'] or 'none'}; {found['reason']}")


def confirmation(sweep: Mapping[str, Any]) -> Iterator[str]:
    """What the winner's second measurement gave, a line a task."""
    found = sweep["confirmed"]
    if found is None:
        return
    verdict = {True: "holds", False: "does not hold", None: "cannot be told"}[found["holds"]]
    why = f" ({found['reason']})" if found["reason"] else ""
    yield numbers.printable(
        f"on the documents after the first {found['skip']}, its recovery {verdict}{why}"
    )
    for task, row in found["tasks"].items():
        yield numbers.printable(
            f"  {task}: recovery {numbers.percent(row['recovery'])} "
            f"{numbers.interval(row['recovery_ci'], 1)}, speedup {numbers.ratio(row['speedup'])} "
            f"{numbers.interval(row['speedup_ci'])}"
        )


def failures(sweep: Mapping[str, Any]) -> Iterator[str]:
    """The cells, and the groups that never began, which failed; a reason once a task."""
    failed: dict[tuple[str, str], list[str]] = {}
    for cell in sweep["cells"]:
        if cell["status"] == "failed":
            key = (cell["task"], cell["reason"] or "not measured yet")
            failed.setdefault(key, []).append(cell["lane"])
    for (task, reason), lanes in failed.items():
        yield numbers.printable(f"failed: {task} {', '.join(lanes)}: {reason}")
    measured = {cell["group"] for cell in sweep["cells"]}
    for group in sweep["groups"]:
        if group["id"] not in measured and group["status"] == "failed":
            yield numbers.printable(f"failed: group {group['id']}: {group['reason']}")


def tables(
    sweep: Mapping[str, Any],
) -> Iterator[tuple[str, Sequence[str], list[Sequence[str]]]]:
    """Title, header and rows of each task's cells; of several tasks, of the settings too."""
    temperatures = {cell["temperature"] for cell in sweep["cells"]}
    several = len(temperatures) > 1
    for task in dict.fromkeys(cell["task"] for cell in sweep["cells"]):
        rows = [_cell_row(c, several) for c in sweep["cells"] if c["task"] == task]
        yield numbers.printable(task), CELL_COLUMNS, rows
    if len({cell["task"] for cell in sweep["cells"]}) > 1:
        yield "all tasks", SETTING_COLUMNS, [_setting_row(s) for s in sweep["settings"]]


def _cell_row(cell: Mapping[str, Any], several: bool) -> Sequence[str]:
    name = cell["lane"]
    if several and cell["temperature"] is not None:
        name += f" T={cell['temperature']:g}"
    figures = {key: cell.get(key) for key in ("score", "recovery", "recovery_ci", "speedup")}
    speedup = f"{numbers.ratio(figures['speedup'])} {numbers.interval(cell.get('speedup_ci'))}"
    recovery = (
        f"{numbers.percent(figures['recovery'])} {numbers.interval(figures['recovery_ci'], 1)}"
    )
    return (
        numbers.printable(name) + (f" {FRONT}" if cell["on_front"] else ""),
        numbers.score(figures["score"]),
        recovery.rstrip(),
        numbers.at_most(cell.get("largest_loss")),
        numbers.number(cell.get("acceptance_length")),
        speedup.rstrip() + (f" {NOISE_MARK}" if is_noise(cell) else ""),
    )


def _setting_row(setting: Mapping[str, Any]) -> Sequence[str]:
    temperature = setting["temperature"]
    return (
        numbers.printable(setting["id"]) + (f" {FRONT}" if setting["on_front"] else ""),
        numbers.NULL if temperature is None else f"{temperature:g}",
        numbers.percent(setting["recovery"]),
        numbers.percent(setting["recovery_low"]),
        numbers.ratio(setting["speedup"]),
    )
