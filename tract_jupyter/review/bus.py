"""Routing a pending through its handlers.

Handlers of the operation run in their order until one decides. Then every `*` handler is called, decided or not: an
audit sees everything, and a catch-all may decide what nobody did. A handler that is already running further up the
stack is not called again for the same operation; the others are, so nested firing bypasses no veto. Where a saved
handler stands whose approval does not verify, a person is asked in its place: of those behind it only the `*` handlers
are called, and they may look and reject, but approve nothing.
"""

from __future__ import annotations

import copy
import itertools
import logging
import time
from collections import deque
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.exceptions import CodeDecisionError, OperationError, PendingStateError, TractError, nearest
from tract_jupyter.models import PendingStatus, canonical_json, check_text
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
        """The time, in UTC."""
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
        """Return the newest entries that fit, oldest first."""
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


EVERYTHING = "*"
_WITHHELD = "not_approved"
_LONGEST_NAME = 100  # `handler:<name>` is stored as who decided


class RoutingResult(StrEnum):
    """The outcome of routing a pending."""

    DECIDED = "decided"
    LEFT_OPEN = "left_open"
    """One of the operation's own handlers took it on, and left it open."""
    UNGUARDED = "unguarded"
    """It came to a saved handler that is not approved here: a person decides."""
    UNHANDLED = "unhandled"
    """No handler took it on."""


class _Listener(NamedTuple):
    """A handler, and what each of its calls needs."""

    name: str
    call: Handler | None
    """None for a saved handler that is not approved here, and so is not called."""
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
        """Add a handler, as the last one if no place is given, and return the name it goes by.

        Raises:
            OperationError: it cannot be called, the name is taken for this operation, or there is no such place.
        """
        if not callable(handler):
            raise OperationError(
                f"a handler is a function that takes the pending, not {type(handler).__name__}"
            )
        if name is not None and not (isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME):
            raise OperationError(f"the name of a handler is a text of 1 to {_LONGEST_NAME} characters")
        listeners = self._listeners.get(operation, [])
        taken = self.names(operation)
        if name is not None and name in taken:
            if name in self.withheld(operation):
                raise OperationError(
                    f"{operation!r} has a saved handler {name!r}, which is not approved here; review it with "
                    f"'%tract review {operation}/{name}', or call delete_handler({operation!r}, {name!r}) first"
                )
            raise OperationError(
                f"{operation!r} has a handler {name!r} already; call off({operation!r}, {name!r}) first"
            )
        place = _place(operation, taken, before or None, after, at)
        own_name = str(getattr(handler, "__name__", type(handler).__name__))
        chosen = name or _free_name(own_name[: _LONGEST_NAME - 10], taken)
        # a new list: routing that is under way goes on with the old one
        new = _listener(chosen, handler)
        self._listeners[operation] = [*listeners[:place], new, *listeners[place:]]
        return chosen

    def replace(self, operation: str, handler: Handler, *, name: str) -> None:
        """Put a handler in the place of the one of that name, or add it as the last one."""
        if name not in self.names(operation):
            self.on(operation, handler, name=name)
            return
        self._put_in_place(operation, _listener(name, handler))

    def withhold(self, operation: str, name: str) -> None:
        """Have a person asked where a saved handler stands, or at the end, as that handler is not approved here."""
        standing_in = _Listener(name, None, next(_keys), DecisionContext("handler", f"handler:{name}"))
        if name in self.names(operation):
            self._put_in_place(operation, standing_in)
        else:
            self._listeners[operation] = [*self._listeners.get(operation, []), standing_in]

    def off(self, operation: str, handler: Handler | str | None = None) -> None:
        """Remove a handler, by function or name, or all of an operation; one that is not there is no error.

        What stands in for a saved handler stays until that is reviewed or deleted.
        """
        self._keep(
            operation,
            lambda one: one.call is None or (handler is not None and handler not in (one.name, one.call)),
        )

    def remove(self, operation: str, name: str) -> None:
        """Remove a saved handler, or what stands in for it."""
        self._keep(operation, lambda one: one.name != name)

    def names(self, operation: str) -> list[str]:
        """Return the names of an operation's handlers, in order."""
        return [listener.name for listener in self._listeners.get(operation, ())]

    def handlers(self) -> dict[str, list[str]]:
        """Return the names of all handlers in their order, by operation, without those that are not approved here."""
        called = {
            operation: [listener.name for listener in self._listeners[operation] if listener.call is not None]
            for operation in sorted(self._listeners)
        }
        return {operation: names for operation, names in called.items() if names}

    def listens(self, operation: str) -> bool:
        """Return True if any handler would see it; without one there is nothing to decide."""
        return operation in self._listeners or EVERYTHING in self._listeners

    def route(self, pending: Pending) -> RoutingResult:
        """Run the handlers, and return what came of it.

        A handler that passes it through counts as if it were not there. An exception of a handler is logged and raised.
        Fields that one leaves with values that do not fit are put back; the log and `pending.note` say so.
        Where a saved one is not approved here, `pending.unguarded` says so, and the gate leaves approving to a person.
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
        """Return the saved handlers of an operation, and of all, that are not approved here."""
        places = [*self._listeners.get(operation, ()), *self._listeners.get(EVERYTHING, ())]
        return [listener.name for listener in places if listener.call is None]

    def unguarded(self, operation: str) -> str:
        """Explain why a person is asked instead of an operation's handlers; empty if these decide."""
        names = self.withheld(operation)
        if not names:
            return ""
        one = len(names) == 1
        return (
            f"The saved {'handler' if one else 'handlers'} {', '.join(map(repr, names))}, which would decide about "
            f"{operation!r} first, {'is' if one else 'are'} not approved here: you decide, until "
            f"{'it is' if one else 'they are'} reviewed or deleted ('%tract ops' lists them)."
        )

    def _put_in_place(self, operation: str, new: _Listener) -> None:
        self._listeners[operation] = [
            new if old.name == new.name else old for old in self._listeners[operation]
        ]

    def _keep(self, operation: str, stays: Callable[[_Listener], bool]) -> None:
        kept = [listener for listener in self._listeners.get(operation, []) if stays(listener)]
        if kept:
            self._listeners[operation] = kept
        else:
            self._listeners.pop(operation, None)

    def _call(self, listener: _Listener, pending: Pending) -> str:
        name, call, key, how = listener
        if call is None:
            if pending.status is PendingStatus.PENDING:  # what is decided needs no guard any more
                pending.unguarded = self.unguarded(pending.operation)
            return self._record(pending, name, _WITHHELD)
        running, this = _running.get(), (key, pending.operation)
        if this in running:
            return self._record(pending, name, "skipped")
        before, fields = pending.status, copy.deepcopy(pending.fields)
        token, was = _running.set((*running, this)), deciding_now.set(how)
        try:
            call(pending)
        except PendingStateError as error:
            if before is not PendingStatus.PENDING:  # a catch-all that decides what is decided
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
            deciding_now.reset(was)
            _running.reset(token)
        outcome = "undecided" if pending.status is before else pending.status.value
        if pending.status is PendingStatus.PASSED_THROUGH:
            pending.status = PendingStatus.PENDING
        return self._record(pending, name, outcome, _put_back(pending, name, fields))

    def _record(self, pending: Pending, handler: str, outcome: str, error: Exception | None = None) -> str:
        text = (
            None if error is None else f"{type(error).__name__}: {error}".encode("utf-8", "replace").decode()
        )
        self.log.add(pending.operation, handler, outcome, pending.pending_id, text)
        return outcome


def _put_back(pending: Pending, name: str, fields: dict[str, Any]) -> TractError | None:
    """Put the fields back that a handler left open with values that do not fit; return what was wrong with those."""
    if pending.status is not PendingStatus.PENDING:
        return None
    try:
        pending.check_fields()
        canonical_json(pending.fields)
    except TractError as error:
        pending.fields = fields
        pending.note = f"The handler {name!r} put wrong values into the fields, which were put back: {error}"
        return error
    return None


def _listener(name: str, handler: Handler) -> _Listener:
    return _Listener(name, handler, next(_keys), DecisionContext("handler", f"handler:{name}"))


def check_operation(operation: str, known: frozenset[str] | set[str]) -> None:
    """Check that handlers can be registered for an operation.

    Raises:
        OperationError: there is none of that name.
    """
    check_text(operation, "the name of an operation", error=OperationError)
    if operation != EVERYTHING and operation not in known:
        raise OperationError(
            f"there is no operation {operation!r} to handle.{nearest(str(operation), known)} "
            f"Hookable are: {', '.join(sorted(known))}, and '*' for all"
        )


def _place(
    operation: str,
    names: list[str],
    before: str | bool | None,  # noqa: FBT001 # True is a place
    after: str | None,
    at: int | None,
) -> int:
    """Return the position of a new handler in the list.

    Raises:
        OperationError: two places are given, or one that is not there.
    """
    if sum(given is not None for given in (before, after, at)) > 1:
        raise OperationError("a handler has one place: give before, after or at, not several")
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
            f"{operation!r} has no handler {neighbour!r}.{nearest(str(neighbour), names)} There are: {listed}"
        )
    return names.index(str(neighbour)) + (after is not None)


def _free_name(wanted: str, taken: list[str]) -> str:
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    return name
