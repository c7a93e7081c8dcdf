"""A run that begins where an earlier one, which did not complete, had come: that one's calls are not made again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.exceptions import TractError
from tract_jupyter.scripts.call_log import CallLog
from tract_jupyter.scripts.stored_log import Earlier

if TYPE_CHECKING:
    from tract_jupyter.scripts.stored_log import StoredLog


class Replay:
    """What a run has of the run before it, and leaves to the next one.

    Args:
        stored: its rows.
        anew: make all calls, whatever is known.

    Attributes:
        log: answers calls, and keeps them.
    """

    def __init__(self, stored: StoredLog, *, anew: bool) -> None:
        self._stored = stored
        self._troubles: list[str] = []
        try:
            self._earlier = stored.earlier()
        except TractError as error:
            self._earlier = Earlier()
            self._troubles.append(f"What is known of an earlier run cannot be read: {_words(error)}.")
        self.log = CallLog(stored, () if anew else self._earlier.calls)

    def end(self, *, completed: bool) -> None:
        """Forget what is known of a script that completed; leave that of any other to the next run."""
        try:
            self.log.end(completed=completed)
        except TractError as error:
            self._troubles.append(f"What is known of this run cannot be brought up to date: {_words(error)}.")
        if self.log.closed and not completed:
            self._troubles.append(
                f"Not all of its calls are kept, and run again, it makes the rest a second time: {self.log.closed}."
            )

    def notes(self) -> tuple[str, ...]:
        """What a person has to know of it, in sentences."""
        notes, ran_at = [], self._earlier.ran_at
        if self.log.replayed and ran_at is not None:
            notes.append(
                f"{self.log.replayed:,} calls were answered from the run of {ran_at.astimezone():%Y-%m-%d %H:%M:%S}, "
                "which did not complete; nothing was called for them."
            )
        if self._earlier.doubtful:
            notes.append(
                "Of an earlier run, the store holds what you did not sign, or what was changed; that was not taken up."
            )
        return (*notes, *self._troubles)


def _words(error: Exception) -> str:
    return str(error).rstrip(".")
