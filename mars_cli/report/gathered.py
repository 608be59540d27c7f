"""The runs that a report is about, read, and how they stand to each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mars_cli.analysis.stored import Stored, load
from mars_cli.errors import UsageError
from mars_cli.runs.reading import Unreadable, find_run

if TYPE_CHECKING:
    from mars_cli.analysis.across import Paired
    from mars_cli.analysis.comparable import Difference


@dataclass(frozen=True)
class Gathered:
    """Runs in the order asked for; several are held against `base`, which is one of them."""

    runs: list[Stored]
    base: Stored | None = None
    differences: list[Difference] = field(default_factory=list)
    pairs: list[Paired] = field(default_factory=list)


def read(
    folders: Sequence[Path], unread: Callable[[str], None], *, records: bool = True
) -> list[Stored]:
    """The runs in these folders (see `load`); `unread` is told in a line of each that is none."""
    found = []
    for folder in folders:
        try:
            found.append(load(folder, records=records))
            if (broken := found[-1].broken) is not None:
                unread(f"{folder}: figures, which its records do not give ({broken})")
        except Unreadable as error:
            unread(str(error))
    return found


def gather(
    names: Sequence[str], base: str | None, root: Path, unread: Callable[[str], None]
) -> Gathered:
    """The named runs, each once, and of several what differs and the paired tests.

    The base is read first, and one of the runs; the first that can be read unless it is named.

    Raises:
        UsageError: a name is of no run, or of several, or the base cannot be read.
    """
    folders = [find_run(name, root) for name in names]
    asked = None if base is None else find_run(base, root)
    if asked is not None:
        try:
            load(asked)
        except Unreadable as error:
            raise UsageError(f"--base {error}", hint="give another run") from None
        folders = [asked, *(one for one in folders if one.resolve() != asked.resolve())]
    once = {folder.resolve(): folder for folder in reversed(folders)}
    runs = read([folder for folder in folders if once.pop(folder.resolve(), None)], unread)
    if len(runs) < 2:
        return Gathered(runs)
    from mars_cli.analysis.across import paired
    from mars_cli.analysis.comparable import differences
    from mars_cli.analysis.documents import Documents

    documents = [Documents(run) for run in runs]
    pairs = paired(documents[0], documents[1:])
    return Gathered(runs, runs[0], differences(documents), pairs)
