"""What handlers did: written to the store at the end of each routing, bounded there, and queryable."""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from tract_jupyter.storage.clock import from_text, to_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.storage.database import Database
    from tract_jupyter.storage.hook_log import HookLogRows


class HookEvent(NamedTuple):
    """What a handler did.

    Attributes:
        operation: what was routed.
        handler: the handler's name; empty for the routing as a whole.
        outcome: `approved`, `rejected`, `failed`, `passed_through`, `undecided`, `too_late`, `raised`, `skipped` (it
            runs already, further up the stack), `not_approved` (a saved one: a person is asked in its place), or, of
            the whole, `unresolved`.
        pending_id: of the pending.
        error: of a handler that raised, or would have approved what is left to a person.
        nanoseconds: when, since 1970.
    """

    operation: str
    handler: str
    outcome: str
    pending_id: str
    error: str | None
    nanoseconds: int

    @property
    def timestamp(self) -> datetime:
        """When, in UTC."""
        return datetime.fromtimestamp(self.nanoseconds / 1e9, UTC)


_Entry = tuple[str, str, str, str, str | None, int]
"""The values of a `HookEvent`."""


class HookLog:
    """The log of one tract."""

    def __init__(self, database: Database, rows: HookLogRows) -> None:
        self._database = database
        self._rows = rows
        self._unwritten: deque[_Entry] = deque()  # other threads add to it while it is written

    def add(
        self, operation: str, handler: str, outcome: str, pending_id: str, error: str | None = None
    ) -> None:
        """Note what a handler did; `flush` writes it."""
        self._unwritten.append((operation, handler, outcome, pending_id, error, time.time_ns()))

    def flush(self) -> None:
        """Write what was noted; kept for the next time if the store cannot take it.

        Raises:
            StoreError: it is locked, or cannot be written.
        """
        entries = list(self._taken())
        if not entries:
            return
        try:
            with self._database.write() as connection:
                self._rows.add(connection, [_row(HookEvent._make(entry)) for entry in entries])
        except BaseException:
            self._unwritten.extendleft(reversed(entries))  # for the next time
            raise

    def _taken(self) -> Iterator[_Entry]:
        with suppress(IndexError):  # another thread may take the last one
            while self._unwritten:
                yield self._unwritten.popleft()

    def newest(
        self,
        *,
        operation: str | None = None,
        handler: str | None = None,
        outcome: str | None = None,
        pending_id: str | None = None,
        limit: int,
    ) -> list[HookEvent]:
        """The newest entries that fit, oldest first."""
        with self._database.read() as connection:
            rows = self._rows.newest(
                connection,
                operation=operation,
                handler=handler,
                outcome=outcome,
                pending_id=pending_id,
                limit=limit,
            )
        return [
            HookEvent(
                row.operation, row.handler, row.outcome, row.pending_id, row.error,
                round(from_text(row.created_at).timestamp() * 1e6) * 1_000,
            )
            for row in reversed(rows)
        ]  # fmt: skip


def _row(event: HookEvent) -> dict[str, str | None]:
    return {
        "operation": event.operation,
        "handler": event.handler,
        "outcome": event.outcome,
        "pending_id": event.pending_id,
        "error": event.error,
        "created_at": to_text(event.timestamp),
    }
