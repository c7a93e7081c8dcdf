"""Routing a pending through its handlers.

Handlers of the operation run in the order of their registration until one decides. Then every `*` handler is called,
decided or not: an audit sees everything, and a catch-all may decide what nobody did. A handler that is already running
further up the stack is not called again for the same operation; the others are, so nested firing bypasses no veto.
"""

from __future__ import annotations

import logging
from collections import deque
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import OperationError, PendingStateError, nearest
from tract_jupyter.models.pending import PendingStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.hooks.pending import Pending

    Handler = Callable[[Any], object]

EVERYTHING = "*"
_LOG_LENGTH = 1_000
_logger = logging.getLogger(__name__)
_running: ContextVar[frozenset[tuple[int, str, str]]] = ContextVar(
    "tract_running_handlers", default=frozenset()
)


@dataclass(frozen=True, slots=True)
class HookEvent:
    """What a handler did: approved, rejected, failed, passed_through, undecided, too_late, or raised."""

    operation: str
    handler: str
    outcome: str
    pending_id: str
    timestamp: datetime = field(default_factory=lambda: datetime.now(UTC))


class HookBus:
    """The handlers of one tract and the log of what they did (the newest 1,000 entries)."""

    def __init__(self) -> None:
        self._handlers: dict[str, list[tuple[str, Handler]]] = {}
        self.log: deque[HookEvent] = deque(maxlen=_LOG_LENGTH)

    def on(self, operation: str, handler: Handler, *, name: str | None = None) -> str:
        """Add a handler and return the name it goes by.

        Raises:
            OperationError: it cannot be called, or the name is taken for this operation.
        """
        if not callable(handler):
            raise OperationError(
                f"a handler is a function that takes the pending, not {type(handler).__name__}"
            )
        handlers = self._handlers.setdefault(operation, [])
        taken = {existing for existing, _ in handlers}
        if name is not None and name in taken:
            raise OperationError(
                f"{operation!r} has a handler {name!r} already; call off({operation!r}, {name!r}) first"
            )
        chosen = name or _free_name(getattr(handler, "__name__", type(handler).__name__), taken)
        handlers.append((chosen, handler))
        return chosen

    def off(self, operation: str, handler: Handler | str | None = None) -> None:
        """Remove a handler, by function or name, or all of an operation; one that is not there is no error."""
        kept = [
            (name, function)
            for name, function in self._handlers.get(operation, [])
            if handler is not None and handler not in (name, function)
        ]
        if kept:
            self._handlers[operation] = kept
        else:
            self._handlers.pop(operation, None)

    def names(self, operation: str) -> list[str]:
        """The names of an operation's handlers, in order."""
        return [name for name, _ in self._handlers.get(operation, [])]

    def route(self, pending: Pending) -> bool:
        """Run the handlers. True if they took it on: one decided, or one of the operation's own left it open.

        A handler that passes it through counts as if it were not there. An exception of a handler is logged and raised.
        """
        left_open = False
        for name, handler in tuple(self._handlers.get(pending.operation, ())):
            if pending.status is not PendingStatus.PENDING:
                break
            left_open = self._call(pending.operation, name, handler, pending) == "undecided" or left_open
        for name, handler in tuple(self._handlers.get(EVERYTHING, ())):
            self._call(EVERYTHING, name, handler, pending)
        return left_open or pending.status is not PendingStatus.PENDING

    def _call(self, kind: str, name: str, handler: Handler, pending: Pending) -> str:
        key = (id(self), f"{kind}:{name}", pending.operation)
        if key in _running.get():
            return "running"
        before = pending.status
        token = _running.set(_running.get() | {key})
        try:
            handler(pending)
        except PendingStateError:
            if before is PendingStatus.PENDING:
                self._record(pending, name, "raised")
                raise
            return self._record(pending, name, "too_late")  # a catch-all that decides what is decided
        except Exception:
            _logger.exception("handler %r of %r raised", name, pending.operation)
            self._record(pending, name, "raised")
            raise
        finally:
            _running.reset(token)
        outcome = "undecided" if pending.status is before else pending.status.value
        if pending.status is PendingStatus.PASSED_THROUGH:
            pending.status = PendingStatus.PENDING
        return self._record(pending, name, outcome)

    def _record(self, pending: Pending, handler: str, outcome: str) -> str:
        self.log.append(HookEvent(pending.operation, handler, outcome, pending.pending_id))
        return outcome


def check_operation(operation: str, known: frozenset[str] | set[str]) -> None:
    """Check that handlers can be registered for an operation.

    Raises:
        OperationError: there is none of that name.
    """
    if operation != EVERYTHING and operation not in known:
        raise OperationError(
            f"there is no operation {operation!r} to handle.{nearest(str(operation), known)} "
            f"Hookable are: {', '.join(sorted(known))}, and '*' for all"
        )


def _free_name(wanted: str, taken: set[str]) -> str:
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    return name
