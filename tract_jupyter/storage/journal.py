"""Rows of events: what happened, by whom, when. Append-only."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import bindparam, func, select
from sqlalchemy.exc import IntegrityError

from tract_jupyter.exceptions import StoreError
from tract_jupyter.models.canonical import canonical_json
from tract_jupyter.storage.clock import from_text, now_text
from tract_jupyter.storage.columns import from_json
from tract_jupyter.storage.schema import compile_records, events, hook_log, run_events, script_calls

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import datetime

    from sqlalchemy import Connection, Row


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened. `event_type` is `custom:<operation>`, `operation.activated`, `decision`, ..."""

    event_id: int
    event_type: str
    actor: str
    data: dict[str, Any]
    created_at: datetime


_triggered_by: ContextVar[str | None] = ContextVar("triggered_by", default=None)


@contextmanager
def triggered(by: str | None) -> Iterator[None]:
    """Have the events of a block say what set it off; None leaves that to an outer block."""
    token = _triggered_by.set(by if by is not None else _triggered_by.get())
    try:
        yield
    finally:
        _triggered_by.reset(token)


def what_triggered() -> str | None:
    """What set off what this block does, if anybody has said so."""
    return _triggered_by.get()


class EventRows:
    """The events of one tract."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def append(self, connection: Connection, event_type: str, actor: str, data: dict[str, Any]) -> None:
        """Add an event, in the caller's transaction."""
        by = _triggered_by.get()
        if by is not None:
            data = {"triggered_by": by, **data}
        row = {
            "tract_id": self.tract_id,
            "event_type": event_type,
            "actor": actor,
            "data_json": canonical_json(data),
            "created_at": now_text(),
        }
        connection.execute(events.insert(), row)

    def newest(self, connection: Connection, event_type: str | None, limit: int) -> list[Event]:
        """The newest events first; with a type that ends in `*`, those whose type begins so."""
        query = select(events).where(events.c.tract_id == self.tract_id)
        if event_type is not None and event_type.endswith("*"):
            query = query.where(events.c.event_type.startswith(event_type[:-1], autoescape=True))
        elif event_type is not None:
            query = query.where(events.c.event_type == event_type)
        rows = connection.execute(query.order_by(events.c.id.desc()).limit(limit))
        return [
            Event(
                row.id, row.event_type, row.actor, from_json(row.data_json, dict), from_text(row.created_at)
            )
            for row in rows
        ]


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


KEPT_FIRINGS = 10_000
_SLACK = 100  # rows more before some go: deleting at each write would cost more than the writing


class HookLogRows:
    """The hook log of one tract."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id
        self._added = _SLACK  # looks at the first writing: what only short processes write is bounded too

    def add(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
        """Add rows, oldest first."""
        connection.execute(hook_log.insert(), [{"tract_id": self.tract_id, **row} for row in rows])
        self._added += len(rows)
        if self._added >= _SLACK:
            self._added = 0
            self._shorten(connection)

    def newest(
        self,
        connection: Connection,
        *,
        operation: str | None,
        handler: str | None,
        outcome: str | None,
        pending_id: str | None,
        limit: int,
    ) -> list[Row[Any]]:
        """The newest rows first, of those that fit."""
        wanted = {"operation": operation, "handler": handler, "outcome": outcome, "pending_id": pending_id}
        where = [hook_log.c[name] == value for name, value in wanted.items() if value is not None]
        query = select(hook_log).where(hook_log.c.tract_id == self.tract_id, *where)
        return list(connection.execute(query.order_by(hook_log.c.id.desc()).limit(limit)))

    def _shorten(self, connection: Connection) -> None:
        mine = hook_log.c.tract_id == self.tract_id
        oldest_kept = (
            select(hook_log.c.id).where(mine).order_by(hook_log.c.id.desc()).offset(KEPT_FIRINGS - 1).limit(1)
        )
        oldest = connection.scalar(oldest_kept)
        if oldest is not None:
            connection.execute(hook_log.delete().where(mine, hook_log.c.id < oldest))


KEPT_SCRIPTS = 100
"""Runs of one tract."""


class StoredCalls(NamedTuple):
    """Some calls of one run, as they lie in the store: those from `position` on.

    `running` is the process that runs it, None once it has ended there; `created_at` is a text, as it is signed.
    """

    run_id: str
    position: int
    calls_json: str
    signature: str
    running: str | None
    created_at: str


_TABLE = script_calls.c
# made once: building a statement takes longer than running it
_OF_SCRIPT = (
    select(*(_TABLE[name] for name in StoredCalls._fields))
    .where(
        _TABLE.tract_id == bindparam("tract"),
        _TABLE.script_hash == bindparam("script"),
        _TABLE.notebook_id == bindparam("notebook"),
    )
    .order_by(_TABLE.id)
)


class ScriptCallRows:
    """The calls of one tract's scripts."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

    def of(self, connection: Connection, script_hash: str, notebook_id: str) -> list[StoredCalls]:
        """All rows of a script in a notebook, oldest first."""
        values = {"tract": self.tract_id, "script": script_hash, "notebook": notebook_id}
        return [StoredCalls(*row) for row in connection.execute(_OF_SCRIPT, values)]

    def add(self, connection: Connection, script_hash: str, notebook_id: str, stored: StoredCalls) -> None:
        """Add some calls of a run; with the first of them, the oldest runs go."""
        row = {"tract_id": self.tract_id, "script_hash": script_hash, "notebook_id": notebook_id}
        connection.execute(script_calls.insert(), {**row, **stored._asdict()})
        if stored.position == 0:
            self._shorten(connection)

    def release(self, connection: Connection, run_id: str) -> None:
        """Say that a run has ended."""
        connection.execute(script_calls.update().where(*self._those([run_id])).values(running=None))

    def remove(self, connection: Connection, run_ids: Collection[str]) -> None:
        """Forget some runs."""
        connection.execute(script_calls.delete().where(*self._those(run_ids)))

    def _those(self, run_ids: Collection[str]) -> tuple[Any, ...]:
        return _TABLE.tract_id == self.tract_id, _TABLE.run_id.in_(run_ids)

    def _shorten(self, connection: Connection) -> None:
        first = (_TABLE.tract_id == self.tract_id, _TABLE.position == 0)
        newest = select(_TABLE.run_id).where(*first).order_by(_TABLE.id.desc())
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
    """What `compile` was called with, and `commits` where the head alone does not say which."""
    created_at: datetime


class CompileRows:
    """The compile records of one tract."""

    def __init__(self, tract_id: str) -> None:
        self.tract_id = tract_id

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
        connection.execute(
            compile_records.insert().values(
                record_id=record_id,
                tract_id=self.tract_id,
                head_hash=head,
                token_count=tokens,
                message_count=messages,
                token_source=source,
                params_json=canonical_json(params),
                created_at=now_text(),
            )
        )
        return record_id

    def newest(self, connection: Connection, limit: int) -> list[CompileRecord]:
        """The newest records first."""
        query = select(compile_records).where(compile_records.c.tract_id == self.tract_id)
        rows = connection.execute(query.order_by(compile_records.c.created_at.desc()).limit(limit))
        return [_record(row) for row in rows]

    def get(self, connection: Connection, record_id: str) -> CompileRecord | None:
        """One record."""
        where = (compile_records.c.tract_id == self.tract_id, compile_records.c.record_id == record_id)
        row = connection.execute(select(compile_records).where(*where)).first()
        return _record(row) if row else None


def _record(row: Any) -> CompileRecord:
    return CompileRecord(
        record_id=row.record_id,
        head=row.head_hash,
        token_count=row.token_count,
        message_count=row.message_count,
        token_source=row.token_source,
        params=from_json(row.params_json, dict),
        created_at=from_text(row.created_at),
    )
