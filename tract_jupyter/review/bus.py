"""Route a pending through its handlers.

Handlers of the operation run in order until one decides. Then every `*` handler runs, even after a decision. An audit
therefore sees every pending, and a catch-all can decide the remaining ones. A handler that already runs further up the
stack is skipped for the same operation. Other handlers still run, so nested firing bypasses no veto. If the approval of
a saved handler does not verify, the user decides in place of the handler. After such a handler, only the `*` handlers
run. They may read and reject, but not approve.
"""

from __future__ import annotations

import itertools
import logging
import marshal
import time
from collections import deque
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.exceptions import CodeDecisionError, OperationError, PendingStateError, TractError, nearest
from tract_jupyter.models import PendingStatus, canonical_json, check_text, frozen
from tract_jupyter.review.decision import DecisionContext, deciding_now
from tract_jupyter.storage import from_text, to_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tract_jupyter.review.pending import Pending
    from tract_jupyter.storage import Database, HookLogRows

    Handler = Callable[[Any], object]


class HookEvent(NamedTuple):
    """One entry of the hook log, which records the action of one handler.

    Attributes:
        operation: the routed operation.
        handler: the handler's name. Empty for the routing as a whole.
        outcome: `approved`, `rejected`, `failed`, `passed_through`, `undecided`, `too_late`, `raised`, `skipped` (the
            handler already runs further up the stack), `not_approved` (the user decides instead of this saved handler),
            or, for the routing as a whole, `unresolved`.
        pending_id: the id of the pending.
        error: the error of a handler that raised, or that tried to approve in place of the user.
        nanoseconds: the time, in nanoseconds since 1970.
    """

    operation: str
    handler: str
    outcome: str
    pending_id: str
    error: str | None
    nanoseconds: int

    @property
    def timestamp(self) -> datetime:
        """The time, in UTC."""
        return datetime.fromtimestamp(self.nanoseconds / 1e9, UTC)


class HookLog:
    """The hook log of one tract."""

    def __init__(self, database: Database, rows: HookLogRows) -> None:
        self._database = database
        self._rows = rows
        self._unwritten: deque[HookEvent] = deque()  # other threads append during a write

    def add(
        self, operation: str, handler: str, outcome: str, pending_id: str, error: str | None = None
    ) -> None:
        """Queue an entry. `flush` writes it."""
        self._unwritten.append(HookEvent(operation, handler, outcome, pending_id, error, time.time_ns()))

    def flush(self) -> None:
        """Write the queued entries. After an error, they remain queued for the next call."""
        entries = list(self._taken())
        if not entries:
            return
        try:
            with self._database.write() as connection:
                self._rows.add(connection, list(map(_row, entries)))
        except BaseException:
            self._unwritten.extendleft(reversed(entries))  # for the next time
            raise

    def _taken(self) -> Iterator[HookEvent]:
        with suppress(IndexError):  # another thread may take the last one
            while self._unwritten:
                yield self._unwritten.popleft()

    def newest(self, limit: int, **wanted: str | None) -> list[HookEvent]:
        """Return the newest entries with these values, oldest first. None matches any value."""
        with self._database.read() as connection:
            rows = self._rows.newest(connection, limit, **wanted)
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


EVERYTHING = "*"
_WITHHELD = "not_approved"
_LONGEST_NAME = 100  # `handler:<name>` is stored as the decider


class RoutingResult(StrEnum):
    """The outcome of routing a pending."""

    DECIDED = "decided"
    LEFT_OPEN = "left_open"
    """One of the operation's handlers took the pending on and left it open."""
    UNGUARDED = "unguarded"
    """Routing reached a saved handler that is not approved here. The user decides."""
    UNHANDLED = "unhandled"
    """No handler took the pending on."""


class _Listener(NamedTuple):
    name: str
    call: Handler | None
    """None for a saved handler that is not approved here. It does not run."""
    key: int
    how: DecisionContext


_logger = logging.getLogger(__name__)
_keys = itertools.count()
_running: ContextVar[tuple[tuple[int, str], ...]] = ContextVar("tract_running_handlers", default=())


class HookBus:
    """The handlers of one tract, in order, by operation."""

    def __init__(self, log: HookLog) -> None:
        self.log = log
        self._listeners: dict[str, list[_Listener]] = {}

    def on(
        self,
        operation: str,
        handler: Handler,
        *,
        name: str | None = None,
        before: str | bool | None = None,
        after: str | None = None,
        at: int | None = None,
    ) -> str:
        """Add a handler and return its name. Without a position, it is added at the end."""
        if not callable(handler):
            raise OperationError(f"a handler must be a function of the pending, not {type(handler).__name__}")
        if name is not None and not (isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME):
            raise OperationError(f"the name of a handler must be a text of 1 to {_LONGEST_NAME} characters")
        listeners = self._listeners.get(operation, [])
        names = self.names(operation)
        if name is not None and name in names:
            if name in self.withheld(operation):
                raise OperationError(
                    f"{operation!r} has a saved handler {name!r}, which is not approved here; review it with "
                    f"'%tract review {operation}/{name}', or call delete_handler({operation!r}, {name!r}) first"
                )
            raise OperationError(
                f"{operation!r} already has a handler {name!r}; remove it first with off({operation!r}, {name!r})"
            )
        place = _place(operation, names, before or None, after, at)
        own_name = str(getattr(handler, "__name__", type(handler).__name__))
        chosen = name or _free_name(own_name[: _LONGEST_NAME - 10], names)
        # a new list: a running `route` continues with the old one
        new = _listener(chosen, handler)
        self._listeners[operation] = [*listeners[:place], new, *listeners[place:]]
        return chosen

    def replace(self, operation: str, handler: Handler, *, name: str) -> None:
        """Replace the handler with this name, or add the handler at the end."""
        if name not in self.names(operation):
            self.on(operation, handler, name=name)
            return
        self._put_in_place(operation, _listener(name, handler))

    def withhold(self, operation: str, name: str) -> None:
        """Ask the user instead of running a saved handler that is not approved here.

        The handler keeps its position. A new one is added at the end.
        """
        standing_in = _listener(name, None)
        if name in self.names(operation):
            self._put_in_place(operation, standing_in)
        else:
            self._listeners[operation] = [*self._listeners.get(operation, []), standing_in]

    def off(self, operation: str, handler: Handler | str | None = None) -> None:
        """Remove a handler by function or name, or remove all handlers of an operation. Ignore a missing handler.

        The placeholder of an unapproved saved handler remains until the user reviews or deletes that handler.
        """
        check_text(operation, "the name of an operation", error=OperationError)
        self._keep(
            operation,
            lambda listener: (
                listener.call is None
                or (handler is not None and handler not in (listener.name, listener.call))
            ),
        )

    def remove(self, operation: str, name: str) -> None:
        """Remove a saved handler or its placeholder."""
        self._keep(operation, lambda listener: listener.name != name)

    def names(self, operation: str) -> list[str]:
        """Return the names of an operation's handlers, in order."""
        return [listener.name for listener in self._listeners.get(operation, ())]

    def handlers(self) -> dict[str, list[str]]:
        """Return the names of all handlers in order, by operation. Omit handlers that are not approved here."""
        called = {
            operation: [listener.name for listener in self._listeners[operation] if listener.call is not None]
            for operation in sorted(self._listeners)
        }
        return {operation: names for operation, names in called.items() if names}

    def listens(self, operation: str) -> bool:
        """Return True if any handler would receive a pending of this operation."""
        return operation in self._listeners or EVERYTHING in self._listeners

    def route(self, pending: Pending) -> RoutingResult:
        """Run the handlers and return the result.

        A handler that passes the pending through has no effect. An exception of a handler is logged and raised. If a
        handler leaves the pending open with invalid fields, the fields are restored, and the log and `pending.note`
        report it. If a saved handler is not approved here, `pending.unguarded` explains it, and only the user may
        approve.
        """
        outcomes = []
        for listener in self._listeners.get(pending.operation, ()):
            if pending.status is not PendingStatus.PENDING or pending.unguarded:
                break
            outcomes.append(self._call(listener, pending))
        for listener in self._listeners.get(EVERYTHING, ()):
            self._call(listener, pending)
        if pending.status is not PendingStatus.PENDING:
            return RoutingResult.DECIDED
        if pending.unguarded:
            return RoutingResult.UNGUARDED
        if "undecided" not in outcomes:
            return RoutingResult.UNHANDLED
        self.log.add(pending.operation, "", "unresolved", pending.pending_id)
        return RoutingResult.LEFT_OPEN

    def withheld(self, operation: str) -> list[str]:
        """Return the saved handlers of an operation and of `*` that are not approved here."""
        places = [*self._listeners.get(operation, ()), *self._listeners.get(EVERYTHING, ())]
        return [listener.name for listener in places if listener.call is None]

    def unguarded(self, operation: str) -> str:
        """Explain why the user decides instead of an operation's handlers. Empty if the handlers decide."""
        names = self.withheld(operation)
        if not names:
            return ""
        is_single = len(names) == 1
        return (
            f"The saved {'handler' if is_single else 'handlers'} {', '.join(map(repr, names))}, which would decide "
            f"about {operation!r} first, {'is' if is_single else 'are'} not approved here: you decide, until "
            f"{'it is' if is_single else 'they are'} reviewed or deleted ('%tract ops' lists them)."
        )

    def _put_in_place(self, operation: str, new: _Listener) -> None:
        self._listeners[operation] = [
            new if old.name == new.name else old for old in self._listeners[operation]
        ]

    def _keep(self, operation: str, stays: Callable[[_Listener], bool]) -> None:
        listeners = [listener for listener in self._listeners.get(operation, []) if stays(listener)]
        if listeners:
            self._listeners[operation] = listeners
        else:
            self._listeners.pop(operation, None)

    def _call(self, listener: _Listener, pending: Pending) -> str:
        name, call, key, how = listener
        if call is None:
            if pending.status is PendingStatus.PENDING:  # a decided pending needs no guard
                pending.unguarded = self.unguarded(pending.operation)
            return self._record(pending, name, _WITHHELD)
        running, entry = _running.get(), (key, pending.operation)
        if entry in running:
            return self._record(pending, name, "skipped")
        before, fields = pending.status, frozen(pending.fields)
        running_token, deciding_token = _running.set((*running, entry)), deciding_now.set(how)
        try:
            call(pending)
        except PendingStateError as error:
            if before is not PendingStatus.PENDING:  # a catch-all tried to decide a decided pending
                return self._record(pending, name, "too_late")
            self._record(pending, name, "raised", error)
            raise
        except CodeDecisionError as error:
            if pending.unguarded and pending.status is PendingStatus.PENDING:  # it would have approved
                return self._record(pending, name, "undecided", error)
            self._record(pending, name, "raised", error)
            raise
        except Exception as error:
            _logger.exception("handler %r of %r raised", name, pending.operation)
            self._record(pending, name, "raised", error)
            raise
        finally:
            deciding_now.reset(deciding_token)
            _running.reset(running_token)
        outcome = "undecided" if pending.status is before else pending.status.value
        if pending.status is PendingStatus.PASSED_THROUGH:
            pending.status = PendingStatus.PENDING
        return self._record(pending, name, outcome, _restore_invalid_fields(pending, name, fields))

    def _record(self, pending: Pending, handler: str, outcome: str, error: Exception | None = None) -> str:
        text = (
            None if error is None else f"{type(error).__name__}: {error}".encode("utf-8", "replace").decode()
        )
        self.log.add(pending.operation, handler, outcome, pending.pending_id, text)
        return outcome


def _restore_invalid_fields(pending: Pending, name: str, fields: bytes | None) -> TractError | None:
    """Restore the fields if a handler left the pending open with invalid values. Return the error."""
    if pending.status is not PendingStatus.PENDING or fields is None or frozen(pending.fields) == fields:
        return None
    try:
        pending.check_fields()
        canonical_json(pending.fields)
    except TractError as error:
        pending.fields = marshal.loads(fields)  # noqa: S302 # of this process
        pending.note = f"The handler {name!r} set invalid values; the old values were restored: {error}"
        return error
    return None


def _listener(name: str, handler: Handler | None) -> _Listener:
    return _Listener(name, handler, next(_keys), DecisionContext("handler", f"handler:{name}"))


def check_operation(operation: str, known: frozenset[str] | set[str]) -> None:
    """Check that handlers can be registered for an operation."""
    check_text(operation, "the name of an operation", error=OperationError)
    if operation != EVERYTHING and operation not in known:
        raise OperationError(
            f"there is no operation {operation!r} to handle.{nearest(str(operation), known)} "
            f"Operations: {', '.join(sorted(known))}, and '*' for all"
        )


def _place(
    operation: str,
    names: list[str],
    before: str | bool | None,  # noqa: FBT001 # True is a position
    after: str | None,
    at: int | None,
) -> int:
    if sum(position is not None for position in (before, after, at)) > 1:
        raise OperationError("a handler has one place: set only one of before, after and at")
    if before is True:
        return 0
    if at is not None:
        if isinstance(at, bool) or not isinstance(at, int) or not 0 <= at <= len(names):
            raise OperationError(f"{operation!r} has the places 0 to {len(names)}, not {at!r}")
        return at
    neighbour = before if before is not None else after
    if neighbour is None:
        return len(names)
    if neighbour not in names:
        listed = ", ".join(names) or "none"
        raise OperationError(
            f"{operation!r} has no handler {neighbour!r}.{nearest(str(neighbour), names)} Handlers: {listed}"
        )
    return names.index(str(neighbour)) + (after is not None)


def _free_name(base: str, names: list[str]) -> str:
    name, number = base, 1
    while name in names:
        number += 1
        name = f"{base}_{number}"
    return name
