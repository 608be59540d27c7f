"""What failed in a session: said at once, kept for the manifest, traced in the logs."""

from __future__ import annotations

import traceback
from typing import Any

from mars_cli.errors import MarsError
from mars_cli.evaluation.progress import Progress
from mars_cli.runs.run import Run


class Failures:
    """The failures of one session so far."""

    def __init__(self, run: Run, progress: Progress) -> None:
        self.found: list[dict[str, Any]] = []
        self._log = run.folder / "logs" / "failures.log"
        self._progress = progress

    def note(self, phase: str, task: str | None, lanes: list[str], error: Exception) -> None:
        """Note one; `task` None means that it concerns them all."""
        known = isinstance(error, MarsError)
        reason = str(error) if known else f"{type(error).__name__}: {error}"
        self.found.append({"phase": phase, "task": task, "lanes": lanes, "reason": reason})
        hint = getattr(error, "hint", None) or (None if known else f"the trace is in {self._log}")
        where = phase if task is None else f"{phase} {task}"
        self._progress.note(
            f"failed: {where} ({', '.join(lanes)}): {reason}" + (f" ({hint})" if hint else "")
        )
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("a", encoding="utf-8") as file:
            traceback.print_exception(error, file=file)
