"""The errors a user sees: one sentence saying what was wrong, and a hint saying what to do."""

from __future__ import annotations


class MarsError(Exception):
    """Something went wrong that a user can act on; shown without a traceback (exit code 3).

    `hint` says what would be right or what to try next.
    """

    exit_code = 3

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(MarsError):
    """Wrong use or configuration, found before anything is run or written (exit code 2)."""

    exit_code = 2


class EngineError(MarsError):
    """An engine could not start, ran out of memory or died; what it had finished is kept."""
