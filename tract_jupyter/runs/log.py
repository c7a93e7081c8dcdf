"""The log of a run. Events are added at once, and stored together before the run waits."""

from __future__ import annotations

import contextlib
import json
import threading
from collections import Counter
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from tract_jupyter.exceptions import ContentError, StoreCorruptError, UnknownRunError
from tract_jupyter.models import brief_repr, canonical_json, one_line
from tract_jupyter.runs.events import EVENTS, VERSION, CommitFinished, OperationProgress, RunEvent, RunStarted
from tract_jupyter.runs.store import add_artifacts, read_artifacts
from tract_jupyter.runs.terms import MAX_PROGRESS, MAX_PROGRESS_EVENTS, Persistence
from tract_jupyter.storage import (
    RunObjectRows,
    StoredRunEvent,
    from_text,
    read_dict,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import Connection

    from tract_jupyter.runs.events import EventData
    from tract_jupyter.runs.model import ArtifactView
    from tract_jupyter.storage import Database, RunEventRows

_LARGEST: Final = 1e15  # of a progress number
_MESSAGE: Final = 500  # characters of a problem
_NAME: Final = 100
_WITH_ARTIFACTS: Final = {"run.started", "commit.finished"}
_BESIDE: Final = {"type", "artifacts"}
"""Fields that are stored outside the event: the type has its own column, and artifacts are separate objects."""


class EventLog:
    """The events of one run, in order, in memory.

    Any thread may call `add`. Only the thread of the run calls `flush`.

    Args:
        run_id: the id of the run.
        events: the events of a resumed run, from `load`.
        on_event: called with each new event. Its exceptions are ignored, so an observer cannot break a run (R53).
        clock: returns the time, with a time zone.
    """

    def __init__(
        self,
        run_id: str,
        events: Sequence[RunEvent] = (),
        *,
        on_event: Callable[[RunEvent], object] | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self.run_id = run_id
        self._events = list(events)
        self._texts = [""] * len(events)  # JSON of each event
        self._on_event = on_event
        self._clock = clock or partial(datetime.now, UTC)
        self._adding = threading.Lock()
        self._progress: Counter[tuple[str, str]] = Counter()

    @property
    def events(self) -> tuple[RunEvent, ...]:
        """All events, stored or not."""
        return tuple(self._events)

    def add(self, data: EventData) -> RunEvent | None:
        """Add an event. The next `flush` stores it.

        Returns:
            The event; None if it is progress beyond the limit.

        Raises:
            ContentError: it has no JSON form, such as invalid Unicode.
        """
        if isinstance(data, OperationProgress):
            key = (data.hook.value, data.operation_id)
            self._progress[key] += 1
            if self._progress[key] > MAX_PROGRESS_EVENTS:
                return None
            data = _bounded(data)
        try:  # JSON need not be canonical: events are not hashed as text
            text = data.model_dump_json(by_alias=True, exclude_defaults=True, exclude=_BESIDE)
        except PydanticSerializationError as error:
            if str(error).endswith("KeyboardInterrupt: "):  # pydantic reports an interrupt in this way
                raise KeyboardInterrupt from error
            raise ContentError(f"the event {data.type} has no JSON form: {error}") from error
        if "NaN" in text or "Infinity" in text:  # part of a text, or an invalid number
            canonical_json(data.to_dict())
        with self._adding:
            event = RunEvent(self.run_id, len(self._events) + 1, self._clock().astimezone(UTC), data)
            self._texts.append(text)
            self._events.append(event)
        if self._on_event is not None:
            with contextlib.suppress(Exception):
                self._on_event(event)
        return event

    def flush(self) -> None:
        """Store the new events, if this log has a store."""


class RunLog(EventLog):
    """The events of one run, in the store.

    Args:
        database: the database.
        rows: the event rows of the tract.
        run_id: see `EventLog`.
        events: see `EventLog`; these are stored already.
        options: see `EventLog`.
    """

    def __init__(
        self,
        database: Database,
        rows: RunEventRows,
        run_id: str,
        events: Sequence[RunEvent] = (),
        **options: Any,
    ) -> None:
        super().__init__(run_id, events, **options)
        self._database = database
        self._rows = rows
        self._objects = RunObjectRows(rows.tract_id)
        self._stored = len(events)

    @property
    def is_stored(self) -> bool:
        """True if all events are stored."""
        return self._stored == len(self._events)

    def flush(self) -> None:
        """Store the new events in one transaction; raises as `store` does."""
        if not self.is_stored:
            with self._database.write() as connection:
                self.store(connection)

    def store(self, connection: Connection) -> None:
        """Store the new events in the caller's transaction.

        Raises:
            StoreError: they cannot be stored, or another process continues the run. The next call tries again.
        """
        first = self._stored
        fresh = self._events[first:]
        texts = self._texts[first : first + len(fresh)]
        rows = [
            StoredRunEvent(
                event.run_id, event.seq, event.data.type,
                _with_artifacts(self._objects, connection, event.data.artifacts, text)
                if isinstance(event.data, RunStarted | CommitFinished) and event.data.artifacts else text,
                event.at.isoformat(timespec="microseconds"),  # as `to_text`
            )
            for event, text in zip(fresh, texts, strict=True)
        ]  # fmt: skip
        self._rows.append(connection, rows)
        self._database.if_rolled_back(lambda: self._back_to(first))
        self._stored = first + len(fresh)

    def _back_to(self, stored: int) -> None:
        self._stored = min(self._stored, stored)


def load(database: Database, rows: RunEventRows, run_id: str) -> list[RunEvent]:
    """Read the events of a run.

    Raises:
        UnknownRunError: no such run.
        StoreCorruptError: an event is damaged or missing, or a newer version wrote it.
    """
    with database.read() as connection:
        stored = unpacked(rows, connection, rows.of(connection, run_id))
    if not stored:
        raise UnknownRunError(
            f"This tract has no run {run_id!r}. tract.runs() or %tract runs lists its runs."
        )
    return read_events(stored)


def unpacked(
    rows: RunEventRows, connection: Connection, stored: Sequence[StoredRunEvent]
) -> list[StoredRunEvent]:
    """Return the rows with the artifacts that their events name.

    Raises:
        StoreCorruptError: an artifact is damaged or missing.
    """
    named: dict[int, dict[str, Any]] = {}
    for place, row in enumerate(stored):
        data = read_dict(row.data_json) if row.event_type in _WITH_ARTIFACTS else {}
        artifacts = data.get("artifacts")
        if isinstance(artifacts, dict):
            named[place] = data
    names = [name for data in named.values() for name in data["artifacts"].values() if isinstance(name, str)]
    artifacts_by_name = read_artifacts(RunObjectRows(rows.tract_id), connection, names)
    unpacked_rows = list(stored)
    for place, data in named.items():
        artifacts = {
            tag: artifacts_by_name[one].to_dict() if isinstance(one, str) else one
            for tag, one in data["artifacts"].items()
        }
        unpacked_rows[place] = stored[place]._replace(
            data_json=canonical_json({**data, "artifacts": artifacts})
        )
    return unpacked_rows


def read_events(stored: Sequence[StoredRunEvent]) -> list[RunEvent]:
    """Read the rows of one run.

    Raises:
        StoreCorruptError: see `load`.
    """
    for number, row in enumerate(stored, 1):
        if row.seq != number:
            raise StoreCorruptError(
                f"Event {number} of run {one_line(row.run_id, _NAME)} is missing from the store. Restore a backup to "
                "see this run."
            )
    return [read_event(row) for row in stored]


def read_event(row: StoredRunEvent) -> RunEvent:
    """Read one row.

    Raises:
        StoreCorruptError: it is damaged, or a newer version wrote it.
    """
    where = f"Event {row.seq} of run {one_line(row.run_id, _NAME)}"
    kind = one_line(row.event_type, _NAME)
    try:
        data = json.loads(row.data_json)
        if row.seq == 1 and isinstance(data, dict) and data.get("version", VERSION) != VERSION:
            raise StoreCorruptError(
                f"{where} has format version {brief_repr(data['version'])}; this tract_jupyter reads {VERSION}. "
                "Upgrade with 'python -m pip install -U tract_jupyter'."
            )
        at = from_text(row.created_at)
        return RunEvent(row.run_id, row.seq, at, EVENTS.validate_python({**data, "type": row.event_type}))
    except (ValidationError, ValueError, TypeError, RecursionError) as error:
        raise StoreCorruptError(f"{where} ({kind}) is damaged: {_brief(error)}. Restore a backup.") from error


def _brief(error: Exception) -> str:
    """Return a short reason. It is cleaned because it may quote the store."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return one_line(f"{'.'.join(map(str, first['loc'])) or 'it'}: {first['msg']}", _MESSAGE)
    return one_line(f"{type(error).__name__}: {error}", _MESSAGE)


def _with_artifacts(
    objects: RunObjectRows, connection: Connection, artifacts: Mapping[str, ArtifactView], text: str
) -> str:
    """Return the text with the artifacts. A persisted one is stored once, as a separate object, and named here."""
    persisted = [one for one in artifacts.values() if one.persistence is Persistence.PERSISTED]
    names = iter(add_artifacts(objects, connection, persisted) if persisted else ())
    parts = [
        f"{json.dumps(tag)}:" + (
            f'"{next(names)}"' if one.persistence is Persistence.PERSISTED
            else one.model_dump_json(by_alias=True, exclude_defaults=True)
        )
        for tag, one in artifacts.items()
    ]  # fmt: skip
    return f'{text[:-1]},"artifacts":{{{",".join(parts)}}}}}'


def _bounded(event: OperationProgress) -> OperationProgress:
    """Return the event, or only its numbers if it is too large. Progress never fails an operation."""
    try:
        fits = len(canonical_json(event.data)) <= MAX_PROGRESS
    except ContentError:
        fits = False
    if fits:
        return event
    numbers = {key: value for key, value in event.data.items() if _is_number(value)}
    return event.model_copy(update={"data": {**dict(list(numbers.items())[:20]), "leftOut": True}})


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and abs(value) < _LARGEST
