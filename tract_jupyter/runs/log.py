"""The log of a run: events are added at once, and stored together before the run waits for anything."""

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
from tract_jupyter.runs.terms import MAX_PROGRESS, MAX_PROGRESS_EVENTS
from tract_jupyter.storage import RunObjectRows, StoredRunEvent, from_text, read_dict, to_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import Connection

    from tract_jupyter.runs.events import EventData
    from tract_jupyter.runs.model import ArtifactView
    from tract_jupyter.storage import Database, RunEventRows

_LARGEST: Final = 1e15  # of a number that tells progress
_MESSAGE: Final = 500  # characters of what is wrong with an event
_NAME: Final = 100
_WITH_ARTIFACTS: Final = {"run.started", "commit.finished"}
_BESIDE: Final = {"type", "artifacts"}
"""What is not stored within the event: its type has a column, and artifacts are objects of their own."""


class EventLog:
    """The events of one run, in the order in which they happened, in this process alone.

    `add` may be called from any thread; `flush` is for the one that runs the run.

    Args:
        run_id: of a new run, or of one that goes on.
        events: what it has so far, as `load` gives it.
        on_event: is called with each new event at once. Whatever it raises is dropped: an observer breaks no run (R53).
        clock: gives the present, with a time zone.
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
        self._texts = [""] * len(events)  # of each event, to be stored
        self._on_event = on_event
        self._clock = clock or partial(datetime.now, UTC)
        self._adding = threading.Lock()
        self._progress: Counter[tuple[str, str]] = Counter()

    @property
    def events(self) -> tuple[RunEvent, ...]:
        """All so far, stored or not."""
        return tuple(self._events)

    def add(self, data: EventData) -> RunEvent | None:
        """Add an event. It is stored with the next `flush`.

        Returns:
            The event; None for progress that is told too often, which is left out.

        Raises:
            ContentError: it has no JSON form, such as text that is no Unicode.
        """
        if isinstance(data, OperationProgress):
            key = (data.hook.value, data.operation_id)
            self._progress[key] += 1
            if self._progress[key] > MAX_PROGRESS_EVENTS:
                return None
            data = _bounded(data)
        try:  # no canonical JSON: nothing is hashed of it
            text = data.model_dump_json(by_alias=True, exclude_defaults=True, exclude=_BESIDE)
        except PydanticSerializationError as error:
            raise ContentError(f"the event {data.type} has no JSON form: {error}") from error
        if "NaN" in text or "Infinity" in text:  # in a text, or a number that is refused
            canonical_json(data.to_dict())
        with self._adding:
            event = RunEvent(self.run_id, len(self._events) + 1, self._clock(), data)
            self._texts.append(text)
            self._events.append(event)
        if self._on_event is not None:
            with contextlib.suppress(Exception):
                self._on_event(event)
        return event

    def flush(self) -> None:
        """Store what was added since, where events are stored."""


class RunLog(EventLog):
    """The events of one run, in the store.

    Args:
        database: where they are stored.
        rows: of the tract.
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

    def flush(self) -> None:
        """Store what was added since. Within a transaction of the thread it is part of that.

        Raises:
            StoreError: they cannot be stored, or the run goes on in another process too. They are kept for the next
                time.
        """
        first = self._stored
        fresh = self._events[first:]
        if not fresh:
            return
        with self._database.write() as connection:
            texts = self._texts[first : first + len(fresh)]
            rows = [
                StoredRunEvent(
                    event.run_id, event.seq, event.data.type,
                    _with_artifacts(self._objects, connection, event.data.artifacts, text)
                    if isinstance(event.data, RunStarted | CommitFinished) and event.data.artifacts else text,
                    to_text(event.at),
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
        UnknownRunError: there is no such run.
        StoreCorruptError: an event is damaged or missing, or a newer version wrote it.
    """
    with database.read() as connection:
        stored = unpacked(rows, connection, rows.of(connection, run_id))
    if not stored:
        raise UnknownRunError(
            f"this tract has no run {run_id!r}; tract.runs(), or %tract runs, lists those that it has"
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
        if isinstance(artifacts, dict) and all(isinstance(name, str) for name in artifacts.values()):
            named[place] = data
    names = [name for data in named.values() for name in data["artifacts"].values()]
    found = read_artifacts(RunObjectRows(rows.tract_id), connection, names)
    whole = list(stored)
    for place, data in named.items():
        artifacts = {tag: found[name].to_dict() for tag, name in data["artifacts"].items()}
        whole[place] = stored[place]._replace(data_json=canonical_json({**data, "artifacts": artifacts}))
    return whole


def read_events(stored: Sequence[StoredRunEvent]) -> list[RunEvent]:
    """Read the rows of one run.

    Raises:
        StoreCorruptError: as of `load`.
    """
    for number, row in enumerate(stored, 1):
        if row.seq != number:
            raise StoreCorruptError(
                f"event {number} of run {one_line(row.run_id, _NAME)} is missing from the store; restore a backup to "
                "see this run"
            )
    return [read_event(row) for row in stored]


def read_event(row: StoredRunEvent) -> RunEvent:
    """Read one row.

    Raises:
        StoreCorruptError: it is damaged, or a newer version wrote it.
    """
    where = f"event {row.seq} of run {one_line(row.run_id, _NAME)}"
    kind = one_line(row.event_type, _NAME)
    try:
        data = json.loads(row.data_json)
        if row.seq == 1 and isinstance(data, dict) and data.get("version", VERSION) != VERSION:
            raise StoreCorruptError(
                f"{where} has another shape (version {brief_repr(data['version'])}, this tract_jupyter knows "
                f"{VERSION}); upgrade with 'python -m pip install -U tract_jupyter'"
            )
        at = from_text(row.created_at)
        return RunEvent(row.run_id, row.seq, at, EVENTS.validate_python({**data, "type": row.event_type}))
    except (ValidationError, ValueError, TypeError, RecursionError) as error:
        raise StoreCorruptError(f"{where} ({kind}) is damaged: {_brief(error)}; restore a backup") from error


def _brief(error: Exception) -> str:
    """Return a short reason. It may quote the store, which may hold anything."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return one_line(f"{'.'.join(map(str, first['loc'])) or 'it'}: {first['msg']}", _MESSAGE)
    return one_line(f"{type(error).__name__}: {error}", _MESSAGE)


def _with_artifacts(
    objects: RunObjectRows, connection: Connection, artifacts: Mapping[str, ArtifactView], text: str
) -> str:
    """Return the text with the names of the artifacts: they are stored apart, each once however many events tell it."""
    added = add_artifacts(objects, connection, artifacts.values())
    names = dict(zip(artifacts, added, strict=True))
    return f'{text[:-1]},"artifacts":{canonical_json(names)}}}'


def _bounded(event: OperationProgress) -> OperationProgress:
    """Return the event, or only its numbers if it is too large: progress never fails an operation."""
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
