"""How the phases report progress, without knowing who watches."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

Step = Callable[[int], None]


class Progress(Protocol):
    """Something that shows named phases with a count each."""

    def phase(self, label: str, total: int, done: int = 0) -> AbstractContextManager[Step]:
        """Show a phase while the context lasts; call the step with how many more are done.

        `done` were recorded by an earlier session: they count, but say nothing of the pace.
        """
        ...

    def note(self, message: str) -> None:
        """Say one line."""
        ...
