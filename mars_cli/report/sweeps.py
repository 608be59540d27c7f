"""A sweep's folder read again: sweep.json, whoever wrote it, and the run of each group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mars_cli.analysis.stored import Stored
from mars_cli.report.blocks import Block, Heading, Lines, Table
from mars_cli.report.gathered import Gathered, gather, read
from mars_cli.report.single import minute
from mars_cli.report.sweep import LEGEND, confirmation, failures, recommendation, tables
from mars_cli.runs.layout import SCHEMA, SWEEP
from mars_cli.runs.reading import Unreadable, find_run, read_json, run_folders


@dataclass(frozen=True)
class StoredSweep:
    """A sweep that was read: what is said of it, and its groups' runs as far as they can be read.

    `recommended` is a lane's id, None for none; `joined` the groups' results, one a temperature.
    """

    id: str
    found: Mapping[str, Any]  # sweep.json
    blocks: list[Block]
    recommended: str | None
    groups: list[Stored]
    joined: list[dict[str, Any]]


def gather_all(
    names: Sequence[str], base: str | None, root: Path, unread: Callable[[str], None]
) -> tuple[Gathered, list[StoredSweep]]:
    """The named runs as `gather` gives them, and the sweeps among the names, each once.

    Raises:
        UsageError: as `gather`.
    """
    folders = {name: find_run(name, root) for name in names}
    swept = {name: folder for name, folder in folders.items() if (folder / SWEEP).is_file()}
    sweeps = []
    for folder in {folder.resolve(): folder for folder in swept.values()}.values():
        try:
            sweeps.append(read_sweep(folder, unread))
        except Unreadable as error:
            unread(str(error))
    others = [name for name in names if name not in swept]
    found = gather(others, base, root, unread) if others or base else Gathered([])
    return found, sweeps


def read_sweep(folder: Path, unread: Callable[[str], None]) -> StoredSweep:
    """The sweep in a folder; `unread` is told in a line of each group that cannot be read.

    Raises:
        Unreadable: its sweep.json is broken, or not of this version.
    """
    path = folder / SWEEP
    found = read_json(path)
    if not isinstance(found, dict) or "schema" not in found:
        raise Unreadable(f"{path}: not a sweep of mars")
    if found["schema"] != SCHEMA:
        reads = f"written with schema {found['schema']}, this mars reads schema {SCHEMA}"
        raise Unreadable(f"{path}: {reads}")
    try:
        blocks, recommended = _blocks(found), found["recommended"]["setting"]
        if not isinstance(recommended, str | None):
            raise TypeError
        identity = str(found["run"]["id"])
        temperatures = {str(group["id"]): group["temperature"] for group in found["groups"]}
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError):
        raise Unreadable(f"{path}: not a sweep as this mars writes it") from None
    order = list(temperatures)
    folders = [one for one in run_folders(folder / "groups") if one.name in temperatures]
    groups = read(sorted(folders, key=lambda one: order.index(one.name)), unread)
    measured = [
        {"temperature": temperatures[one.folder.name], "results": one.results}
        for one in groups
        if one.results["tasks"]
    ]
    joined = []
    if measured:
        from mars_cli.analysis.sweep import merged  # which loads scipy

        joined = merged(measured)
    again = [folder / "confirm"] if (folder / "confirm").is_dir() else []
    every = [*groups, *read(again, unread)]
    return StoredSweep(identity, found, blocks, recommended, every, joined)


def _blocks(sweep: Mapping[str, Any]) -> list[Block]:
    """What report.md says of it: the recommendation first."""
    run = sweep["run"]
    blocks: list[Block] = [
        Heading(f"Sweep {run['id']} · {minute(str(run['created']))} · {run['status']}"),
        Lines((recommendation(sweep), *confirmation(sweep))),
    ]
    for title, header, rows in tables(sweep):
        # An interval stands in a figure's own cell there.
        cells = tuple(((name,), *(tuple(one.split(" ", 1)) for one in row)) for name, *row in rows)
        blocks += [Heading(title, 3), Table(tuple(header), cells, 1, f"{title}. {LEGEND}")]
    blocks.append(Lines(tuple(failures(sweep))))
    blocks.append(Lines((" ".join([LEGEND, *map(str, sweep["notes"])]),), listed=False))
    groups = tuple(((str(one["id"]),), (str(one["status"]),)) for one in sweep["groups"])
    blocks += [Heading("groups", 3), Table(("group", "status"), groups, 2, "The groups.")]
    return blocks
