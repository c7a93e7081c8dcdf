"""The handlers of one tract: functions of this session, and code that survives restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import OperationError
from tract_jupyter.models import check_limit, check_text
from tract_jupyter.operations.handlers import HandlerSpec
from tract_jupyter.review import check_operation

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable

    from tract_jupyter.operations.activation import PendingHandler
    from tract_jupyter.operations.handlers import Handlers
    from tract_jupyter.operations.lifecycle import Operations
    from tract_jupyter.review import Firing, HookBus, HookEvent


class Hooks:
    """Registers, lists and stores handlers.

    Args:
        firing: decides about pendings.
        operations: knows the available operations.
        saved: the stored handlers.

    Attributes:
        bus: routes pendings to their handlers.
        saved: the stored handlers, including the quarantined ones.
    """

    def __init__(self, firing: Firing, operations: Operations, saved: Handlers) -> None:
        self.bus: HookBus = firing.bus
        self.saved = saved
        self._firing = firing
        self._operations = operations

    def on(
        self,
        operation: str,
        handler: Callable[[Any], object],
        *,
        name: str | None = None,
        before: str | bool | None = None,
        after: str | None = None,
        at: int | None = None,
    ) -> str:
        """Register a handler, and return its name. The arguments are the same as in `Tract.on`.

        Raises:
            OperationError: the operation or the position does not exist, the name is in use, or the handler is not
                callable.
        """
        check_operation(operation, self._operations.hookable)
        return self.bus.on(operation, handler, name=name, before=before, after=after, at=at)

    def off(self, operation: str, handler: Callable[[Any], object] | str | None = None) -> None:
        """Remove a handler by function or name, or all handlers of an operation.

        Raises:
            OperationError: the operation's name is not a text.
        """
        check_text(operation, "the name of an operation", error=OperationError)
        self.bus.off(operation, handler)

    def list(self) -> dict[str, list[str]]:
        """Return the names of all handlers in their order, by operation."""
        return self.bus.handlers()

    def log(
        self,
        operation: str | None = None,
        *,
        handler: str | None = None,
        outcome: str | None = None,
        pending_id: str | None = None,
        limit: int = 1_000,
    ) -> builtins.list[HookEvent]:
        """Return the handlers' log: the newest matching entries, oldest first.

        The store keeps the last 10,000 entries of a tract.

        Args:
            operation: only pendings of this operation.
            handler: only this handler.
            outcome: only this outcome, such as `approved`.
            pending_id: only this pending.
            limit: the maximum number of entries.

        Raises:
            ContentError: the limit is not a whole number.
        """
        return self.bus.log.newest(
            operation=operation, handler=handler, outcome=outcome, pending_id=pending_id, limit=check_limit(limit)
        )  # fmt: skip

    def save_handler(self, operation: str, name: str, code: str, *, description: str = "") -> None:
        """Store a handler that survives restarts. This approves its code, so read it first or use `propose_handler`.

        The handler is compiled and signed with the user's secret, and decides from now on. It replaces a stored
        handler with the same name.

        Args:
            operation: the operation that it decides about, or `"*"` for all operations.
            name: the handler's name.
            code: the body of `def name(pending)`.
            description: one line.

        Raises:
            OperationError: there is no such operation.
            SpecError: the code or the name is invalid. Nothing changed.
        """
        check_operation(operation, self._operations.hookable)
        self.saved.activate(HandlerSpec(operation, name, code, description))

    def propose_handler(
        self, operation: str, name: str, code: str, *, description: str = "", triggered_by: str | None = None
    ) -> PendingHandler:
        """Return the pending whose approval does the same as `save_handler`. Nothing is compiled before.

        The pending stays in the inbox until its decision.
        """
        check_operation(operation, self._operations.hookable)
        spec = HandlerSpec(operation, name, code, description)
        return self._firing.keep(self.saved.propose(spec, triggered_by=triggered_by))

    def revoke_handler(self, operation: str, name: str) -> None:
        """Revoke the approval of a stored handler. It no longer decides, and stays in the store for a review.

        Until it is reviewed or deleted, the user decides in its place.

        Raises:
            SpecError: the handler is not active.
        """
        self.saved.revoke(operation, name)

    def delete_handler(self, operation: str, name: str) -> None:
        """Delete a stored handler.

        Raises:
            SpecError: there is no such handler.
        """
        self.saved.remove(operation, name)
