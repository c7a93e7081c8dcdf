"""Append-only rows: events, events of runs, firings of hooks, calls of scripts, compiles.

All are based on `Journal`. It appends rows in the caller's transaction, and reads the newest first. Some journals are
bounded and delete the oldest rows.
"""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from sqlalchemy import bindparam, func, literal_column, select

from tract_jupyter.exceptions import StoreError
from tract_jupyter.models import canonical_json
from tract_jupyter.storage.columns import from_json, from_text, now_text
from tract_jupyter.storage.connections import Prepared
from tract_jupyter.storage.rows import Rows, Stored, selected
from tract_jupyter.storage.schema import compile_records, events, hook_log, run_events, script_calls

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import datetime

    from sqlalchemy import ColumnElement, Connection, Row, Select, Table


@dataclass(frozen=True, slots=True)
class Event:
    """A recorded event. `event_type` is `custom:<operation>`, `operation.activated`, `decision`, ..."""

    event_id: int
    event_type: str
    actor: str
    data: dict[str, Any]
    created_at: datetime


_NO_LIMIT = 2**31 - 1  # SQLite and PostgreSQL have different keywords for no limit
_SLACK = 100  # the number of new entries between deletions

_triggered_by: ContextVar[str | None] = ContextVar("triggered_by", default=None)


@contextmanager
def triggered(by: str | None) -> Iterator[None]:
    """Set the trigger of the events in a block. None uses the outer block's trigger."""
    token = _triggered_by.set(by if by is not None else _triggered_by.get())
    try:
        yield
    finally:
        _triggered_by.reset(token)


def current_trigger() -> str | None:
    """Return the trigger of the current block, if known."""
    return _triggered_by.get()


class Journal(Rows[Stored]):
    """One tract's entries of one kind.

    Attributes:
        most: the maximum number of entries; None for no limit. Old entries are deleted from time to time, because a
            deletion costs more than a write.
    """

    most: ClassVar[int | None] = None

    def __init__(self, tract_id: str) -> None:
        super().__init__(tract_id)
        self._added = _SLACK  # the first write deletes old entries; short processes may have no other one

    def _write(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
        """Append entries, oldest first."""
        order, statement = _insert(self.table, ("tract_id", *rows[0]))
        common = {"tract_id": self.tract_id}
        statement.run_all(connection, [[{**common, **row}[name] for name in order] for row in rows])
        if self.most is not None:
            self._added += len(rows)
            if self._added >= _SLACK:
                self._added = 0
                self.keep_newest(connection, self.most)

    def latest(
        self, connection: Connection, limit: int | None, *where: ColumnElement[bool], **equal: object
    ) -> list[Stored]:
        """Return the entries that match all conditions, newest first. `equal` are values of columns."""
        query = _newest(self.table, self.row._fields, tuple(equal), self.order)
        parameters = {"tract_id": self.tract_id, **equal, "most": _NO_LIMIT if limit is None else limit}
        return [self.row._make(row) for row in connection.execute(query.where(*where), parameters)]


@cache
def _newest(
    table: Table, names: tuple[str, ...], where: tuple[str, ...], order: tuple[str, ...]
) -> Select[Any]:
    """Return a query like `selected` for the `most` newest rows."""
    query = selected(table, names, where, ())
    return query.order_by(*(table.c[name].desc() for name in order)).limit(bindparam("most"))


@cache
def _insert(table: Table, names: tuple[str, ...]) -> tuple[list[str], Prepared]:
    """Return the columns in the statement's order, and the statement that adds rows with them."""
    order = [column.name for column in table.c if column.name in names]
    values: dict[str, Any] = {name: bindparam(name) for name in order}
    return order, Prepared(lambda dialect: dialect.insert(table).values(values), order)


class _StoredEvent(NamedTuple):
    id: int
    event_type: str
    actor: str
    data_json: str
    created_at: str


class EventRows(Journal[_StoredEvent]):
    """The events of one tract."""

    table = events
    row = _StoredEvent

    def append(self, connection: Connection, event_type: str, actor: str, data: dict[str, Any]) -> None:
        """Add an event, in the caller's transaction."""
        by = _triggered_by.get()
        if by is not None:
            data = {"triggered_by": by, **data}
        row = {
            "event_type": event_type,
            "actor": actor,
            "data_json": canonical_json(data),
            "created_at": now_text(),
        }
        self._write(connection, [row])

    def newest(
        self, connection: Connection, event_type: str | None, limit: int | None, containing: str = ""
    ) -> list[Event]:
        """Return events, newest first. A final `*` of the type selects by prefix, `containing` by part of the data."""
        where: list[ColumnElement[bool]] = []
        equal: dict[str, object] = {}
        if event_type is not None and event_type.endswith("*"):
            where.append(events.c.event_type.startswith(event_type[:-1], autoescape=True))
        elif event_type is not None:
            equal["event_type"] = event_type
        if containing:
            where.append(events.c.data_json.contains(containing, autoescape=True))
        return [
            Event(
                row.id, row.event_type, row.actor, from_json(row.data_json, dict), from_text(row.created_at)
            )
            for row in self.latest(connection, limit, *where, **equal)
        ]


class StoredRunEvent(NamedTuple):
    """A stored event of a run. `created_at` is a text, in the format of `clock`."""

    run_id: str
    seq: int
    event_type: str
    data_json: str
    created_at: str


_first, _last = run_events.alias("first"), run_events.alias("last")
_COUNT = len(StoredRunEvent._fields)
# built once: building a statement takes longer than running it
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
_OF_RUN_EVENT = ("tract_id", *StoredRunEvent._fields)
_ADD_RUN_EVENTS = Prepared(
    lambda dialect: (
        dialect.insert(run_events)
        .values({name: bindparam(name) for name in _OF_RUN_EVENT})
        .on_conflict_do_nothing()
    ),
    _OF_RUN_EVENT,
)


class RunEventRows(Journal[StoredRunEvent]):
    """The events of one tract's runs."""

    table = run_events
    row = StoredRunEvent
    order = ("run_id", "seq")

    def append(self, connection: Connection, events: Sequence[StoredRunEvent]) -> None:
        """Add events.

        Raises:
            StoreError: the event's number exists already. Another process continues the run.
        """
        if not events:
            return
        added = _ADD_RUN_EVENTS.run_all(connection, [(self.tract_id, *event) for event in events])
        if added != len(events):
            raise StoreError(
                f"run {events[0].run_id} has an event {events[0].seq} already: it continues in another process, and "
                "this one has stored nothing more; see the run there"
            )

    def of(self, connection: Connection, run_id: str) -> list[StoredRunEvent]:
        """Return the events of a run in order. The list is empty if the run does not exist."""
        return self.find(connection, run_id=run_id)

    def ids(self, connection: Connection, start: str) -> list[str]:
        """Return at most two run ids that begin with these digits. Two ids mean that the digits are ambiguous."""
        return list(connection.scalars(_IDS, {"tract": self.tract_id, "start": start}))

    def newest(
        self, connection: Connection, limit: int | None = None
    ) -> list[tuple[StoredRunEvent, StoredRunEvent]]:
        """Return the first and the last event of each run, the newest run first."""
        rows = connection.execute(
            _NEWEST, {"tract": self.tract_id, "most": _NO_LIMIT if limit is None else limit}
        )
        return [_pair(row) for row in rows]

    def by_run(self, connection: Connection) -> Iterator[tuple[str, list[StoredRunEvent]]]:
        """Yield the events of each run, one run after the other. Read rows lazily."""
        with connection.execute(self._select(()), {"tract_id": self.tract_id}) as rows:
            for run_id, group in groupby(map(StoredRunEvent._make, rows), key=lambda event: event.run_id):
                yield run_id, list(group)


def _pair(row: Row[tuple[object, ...]]) -> tuple[StoredRunEvent, StoredRunEvent]:
    return StoredRunEvent._make(row[:_COUNT]), StoredRunEvent._make(row[_COUNT:])


KEPT_FIRINGS = 10_000


class StoredFiring(NamedTuple):
    """A stored outcome of one handler in a firing."""

    pending_id: str
    operation: str
    handler: str
    outcome: str
    error: str | None
    created_at: str


class HookLogRows(Journal[StoredFiring]):
    """The hook log of one tract."""

    table = hook_log
    row = StoredFiring
    most = KEPT_FIRINGS

    def add(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
        """Add rows, oldest first."""
        self._write(connection, rows)

    def newest(self, connection: Connection, limit: int, **wanted: str | None) -> list[StoredFiring]:
        """Return the rows with these values, newest first. None matches any value."""
        return self.latest(
            connection, limit, **{name: value for name, value in wanted.items() if value is not None}
        )


KEPT_SCRIPTS = 100
"""The maximum number of script runs per tract."""
_LAST_POSITION = Prepared(
    lambda _: select(func.coalesce(func.max(script_calls.c.position), literal_column("-1"))).where(
        script_calls.c.tract_id == bindparam("tract"), script_calls.c.run_id == bindparam("run")
    )
)


class StoredCalls(NamedTuple):
    """Stored calls of one run, from `position` on.

    `running` is the process that runs it; None after its end. `created_at` is a text, because the signature covers it.
    """

    run_id: str
    position: int
    calls_json: str
    signature: str
    running: str | None
    created_at: str


class ScriptCallRows(Journal[StoredCalls]):
    """The calls of the newest script runs of one tract."""

    table = script_calls
    row = StoredCalls

    def of(self, connection: Connection, script_hash: str, notebook_id: str) -> list[StoredCalls]:
        """Return all rows of a script in a notebook, oldest first."""
        return self.find(connection, script_hash=script_hash, notebook_id=notebook_id)

    def add(self, connection: Connection, script_hash: str, notebook_id: str, stored: StoredCalls) -> None:
        """Add calls of a run. The first calls of a run also delete the oldest runs."""
        self._write(
            connection, [{"script_hash": script_hash, "notebook_id": notebook_id, **stored._asdict()}]
        )
        if stored.position == 0:
            self._shorten(connection)

    def last_position(self, connection: Connection, run_id: str) -> int:
        """Return the position of the last row of a run; -1 if it has none."""
        ((position,),) = _LAST_POSITION.rows(connection, {"tract": self.tract_id, "run": run_id})
        return int(position)

    def release(self, connection: Connection, run_id: str) -> None:
        """Record that a run has ended."""
        self.update(connection, {"run_id": run_id}, running=None)

    def remove(self, connection: Connection, run_ids: Collection[str]) -> None:
        """Delete the calls of some runs."""
        of = self.table.c
        connection.execute(self.table.delete().where(of.tract_id == self.tract_id, of.run_id.in_(run_ids)))

    def _shorten(self, connection: Connection) -> None:
        of = self.table.c
        first = (of.tract_id == self.tract_id, of.position == 0)
        newest = select(of.run_id).where(*first).order_by(of.id.desc())
        oldest = list(connection.scalars(newest.offset(KEPT_SCRIPTS)))
        if oldest:
            self.remove(connection, oldest)


@dataclass(frozen=True, slots=True)
class CompileRecord:
    """One context that was sent to a model."""

    record_id: str
    head: str | None
    token_count: int
    message_count: int
    token_source: str
    params: dict[str, Any]
    """The arguments of `compile`. Also `commits`, if the head does not determine them."""
    created_at: datetime


class _StoredCompile(NamedTuple):
    record_id: str
    head_hash: str | None
    token_count: int
    message_count: int
    token_source: str
    params_json: str
    created_at: str

    def read(self) -> CompileRecord:
        """Return the record with parsed values."""
        return CompileRecord(
            record_id=self.record_id,
            head=self.head_hash,
            token_count=self.token_count,
            message_count=self.message_count,
            token_source=self.token_source,
            params=from_json(self.params_json, dict),
            created_at=from_text(self.created_at),
        )


class CompileRows(Journal[_StoredCompile]):
    """The compile records of one tract."""

    table = compile_records
    row = _StoredCompile
    order = ("created_at",)

    def add(
        self,
        connection: Connection,
        head: str | None,
        tokens: int,
        messages: int,
        source: str,
        params: dict[str, Any],
    ) -> str:
        """Add a record, and return its id."""
        record_id = secrets.token_hex(8)
        self._write(
            connection,
            [
                {
                    "record_id": record_id,
                    "head_hash": head,
                    "token_count": tokens,
                    "message_count": messages,
                    "token_source": source,
                    "params_json": canonical_json(params),
                    "created_at": now_text(),
                }
            ],
        )
        return record_id

    def newest(self, connection: Connection, limit: int) -> list[CompileRecord]:
        """Return the newest records first."""
        return [row.read() for row in self.latest(connection, limit)]

    def get(self, connection: Connection, record_id: str) -> CompileRecord | None:
        """Return one record."""
        row = self.find_one(connection, record_id=record_id)
        return None if row is None else row.read()
