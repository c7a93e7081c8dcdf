"""The handlers of one tract: functions of this session, and code that is kept across restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.hooks.bus import check_operation
from tract_jupyter.models.checks import check_limit
from tract_jupyter.operations.handlers import HandlerSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.hooks.bus import HookBus, HookEvent
    from tract_jupyter.hooks.firing import Firing
    from tract_jupyter.operations.handlers import Handlers, PendingHandler
    from tract_jupyter.operations.lifecycle import Operations


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
        name: str | None,
        before: str | bool | None,
        after: str | None,
        at: int | None,
    ) -> str:
        """Register a handler, and return its name; arguments as of `Tract.on`.

        Raises:
            OperationError: there is no such operation or place, the name is taken, or it cannot be called.
        """
        check_operation(operation, self._operations.hookable)
        return self.bus.on(operation, handler, name=name, before=before, after=after, at=at)

    def off(self, operation: str, handler: Callable[[Any], object] | str | None = None) -> None:
        """Remove a handler by function or name, or all of an operation."""
        self.bus.off(operation, handler)

    def log(self, operation: str | None, *, limit: int, **filters: str | None) -> list[HookEvent]:
        """Return what handlers did; arguments as of `Tract.hook_log`."""
        return self.bus.log.newest(operation=operation, limit=check_limit(limit), **filters)

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

    def delete_handler(self, operation: str, name: str) -> None:
        """Forget a stored handler.

        Raises:
            SpecError: there is none of that name.
        """
        self.saved.remove(operation, name)
