"""Rows of the events of runs: append-only, numbered from 1 within each run."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import bindparam, func, select
from sqlalchemy.exc import IntegrityError

from tract_jupyter.exceptions import StoreError
from tract_jupyter.storage.schema import run_events

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection, Row


class StoredRunEvent(NamedTuple):
    """An event as it lies in the store; `created_at` is a text, as `clock` writes it."""

    run_id: str
    seq: int
    event_type: str
    data_json: str
    created_at: str


_first, _last = run_events.alias("first"), run_events.alias("last")
_COUNT = len(StoredRunEvent._fields)
# made once: building a statement takes longer than running it
_MINE = select(*(run_events.c[name] for name in StoredRunEvent._fields)).where(
    run_events.c.tract_id == bindparam("tract")
)
_OF = _MINE.where(run_events.c.run_id == bindparam("run")).order_by(run_events.c.seq)
_ALL = _MINE.order_by(run_events.c.run_id, run_events.c.seq)
_LONGEST = select(func.max(run_events.c.seq)).where(run_events.c.run_id == _first.c.run_id).scalar_subquery()
_NEWEST = (
    select(*(table.c[name] for table in (_first, _last) for name in StoredRunEvent._fields))
    .select_from(_first)
    .join(_last, (_last.c.run_id == _first.c.run_id) & (_last.c.seq == _LONGEST))
    .where(_first.c.tract_id == bindparam("tract"), _first.c.seq == 1)
    .order_by(_first.c.id.desc())
    .limit(bindparam("most"))
)
_IDS = (
    select(run_events.c.run_id)
    .where(
        run_events.c.tract_id == bindparam("tract"),
        run_events.c.seq == 1,
        run_events.c.run_id.startswith(bindparam("start"), autoescape=False),
    )
    .order_by(run_events.c.run_id)
    .limit(2)
)
_INSERT = run_events.insert()
_ANY_NUMBER = 2**31 - 1  # neither database takes the same word for no limit


class RunEventRows:
    """The events of one tract's runs."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def append(self, connection: Connection, events: Sequence[StoredRunEvent]) -> None:
        """Add events.

        Raises:
            StoreError: a run has an event of that number already: it goes on somewhere else.
        """
        if not events:
            return
        try:
            connection.execute(_INSERT, [{"tract_id": self.tract_id, **event._asdict()} for event in events])
        except IntegrityError as error:
            raise StoreError(
                f"run {events[0].run_id} has an event {events[0].seq} already: it goes on in another process, and "
                "this one has stored nothing more; look at the run there"
            ) from error

    def of(self, connection: Connection, run_id: str) -> list[StoredRunEvent]:
        """The events of a run in their order; none if there is no such run."""
        rows = connection.execute(_OF, {"tract": self.tract_id, "run": run_id})
        return [StoredRunEvent._make(row) for row in rows]

    def ids(self, connection: Connection, start: str) -> list[str]:
        """Up to two runs whose ids begin with hex digits; more than one means that these are too few."""
        return list(connection.scalars(_IDS, {"tract": self.tract_id, "start": start}))

    def newest(
        self, connection: Connection, limit: int | None = None
    ) -> list[tuple[StoredRunEvent, StoredRunEvent]]:
        """The first and the last event of each run, the newest run first."""
        rows = connection.execute(
            _NEWEST, {"tract": self.tract_id, "most": _ANY_NUMBER if limit is None else limit}
        )
        return [_pair(row) for row in rows]

    def by_run(self, connection: Connection) -> Iterator[tuple[str, list[StoredRunEvent]]]:
        """The events of each run, one run after the other; read on only as far as it is looked at."""
        with connection.execute(_ALL, {"tract": self.tract_id}) as rows:
            for run_id, group in groupby(map(StoredRunEvent._make, rows), key=lambda event: event.run_id):
                yield run_id, list(group)


def _pair(row: Row[tuple[object, ...]]) -> tuple[StoredRunEvent, StoredRunEvent]:
    return StoredRunEvent._make(row[:_COUNT]), StoredRunEvent._make(row[_COUNT:])
