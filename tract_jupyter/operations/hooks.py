"""The handlers of one tract: functions of this session, and code that is kept across restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import OperationError
from tract_jupyter.models import check_limit, check_text
from tract_jupyter.operations.handlers import HandlerSpec
from tract_jupyter.review import check_operation

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable

    from tract_jupyter.operations.handlers import Handlers, PendingHandler
    from tract_jupyter.operations.lifecycle import Operations
    from tract_jupyter.review import Firing, HookBus, HookEvent


class Hooks:
    """Registers handlers, lists them, and keeps those that are stored.

    Args:
        firing: has pendings decided.
        operations: say which operations there are.
        saved: the stored handlers.

    Attributes:
        bus: routes pendings to their handlers.
        saved: the stored handlers, with those that are in quarantine.
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
        """Register a handler, and return its name; arguments as of `Tract.on`.

        Raises:
            OperationError: there is no such operation or place, the name is taken, or it cannot be called.
        """
        check_operation(operation, self._operations.hookable)
        return self.bus.on(operation, handler, name=name, before=before, after=after, at=at)

    def off(self, operation: str, handler: Callable[[Any], object] | str | None = None) -> None:
        """Remove a handler by function or name, or all of an operation.

        Raises:
            OperationError: the name of the operation is no text.
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
        """Return what handlers did: the newest entries that fit, oldest first.

        The store keeps the last 10,000 of a tract.

        Args:
            operation: only of pendings of this operation.
            handler: only of this handler.
            outcome: only with this outcome, such as `approved`.
            pending_id: only of this pending.
            limit: how many at most.

        Raises:
            ContentError: the limit is no whole number.
        """
        return self.bus.log.newest(
            operation=operation, handler=handler, outcome=outcome, pending_id=pending_id, limit=check_limit(limit)
        )  # fmt: skip

    def save_handler(self, operation: str, name: str, code: str, *, description: str = "") -> None:
        """Keep a handler across restarts, which is to approve its code: read it before, or use `propose_handler`.

        It is compiled, signed with the user's secret, and decides from now on. Another one of that name is replaced.

        Args:
            operation: what it decides about; `"*"` for everything.
            name: what it goes by.
            code: the body of `def name(pending)`.
            description: one line.

        Raises:
            OperationError: there is no such operation.
            SpecError: the code or the name is wrong; nothing was changed.
        """
        check_operation(operation, self._operations.hookable)
        self.saved.activate(HandlerSpec(operation, name, code, description))

    def propose_handler(
        self, operation: str, name: str, code: str, *, description: str = "", triggered_by: str | None = None
    ) -> PendingHandler:
        """Return the pending whose approval does what `save_handler` does; nothing is compiled before.

        It is in the inbox until it is decided.
        """
        check_operation(operation, self._operations.hookable)
        spec = HandlerSpec(operation, name, code, description)
        return self._firing.keep(self.saved.propose(spec, triggered_by=triggered_by))

    def revoke_handler(self, operation: str, name: str) -> None:
        """Take back the approval of a stored handler: it decides nothing more, and stays in the store for a review.

        Until it is reviewed or deleted, a person is asked where it would decide.

        Raises:
            SpecError: no such handler is active.
        """
        self.saved.revoke(operation, name)

    def delete_handler(self, operation: str, name: str) -> None:
        """Forget a stored handler.

        Raises:
            SpecError: there is none of that name.
        """
        self.saved.remove(operation, name)
