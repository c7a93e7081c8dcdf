"""Operations and their handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.facade.parts import Parts
from tract_jupyter.hooks.bus import check_operation
from tract_jupyter.models.checks import check_limit, check_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.hooks.bus import HookEvent
    from tract_jupyter.hooks.pending import OnTimeout, Pending
    from tract_jupyter.operations.activation import PendingActivation
    from tract_jupyter.operations.spec import OperationSpec
    from tract_jupyter.storage.journal import Event


class Operating(Parts):
    """The part of `Tract` that has operations and handlers."""

    def register_operation(
        self, spec: OperationSpec, *, review: bool = False, replace: bool = False
    ) -> type[Pending] | None:
        """Activate an operation, which is to approve its code: read it before, or use `propose_operation`.

        It is compiled, signed with the user's secret, and kept across restarts. Registering the same spec again, as a
        script does that is run twice, changes nothing.

        Args:
            spec: the operation.
            review: compile and return the class of its pendings for inspection, without activating it.
            replace: take the place of another version that is active; handlers stay.

        Raises:
            OperationExistsError: the name is built in, or another version is active; the error says what changed.
            SpecError: the spec is wrong; nothing was registered.
        """
        if review:
            return self.operations.registry.compile(spec, replace=replace)
        self.operations.register(spec, replace=replace)
        return None

    def propose_operation(
        self, spec: OperationSpec, *, triggered_by: str | None = None, actor: str = "user"
    ) -> PendingActivation:
        """Return a pending whose approval activates an operation; nothing of it is compiled before.

        What a model proposes is active at once, and recorded as not reviewed, if all of its actions declare
        `isolation: sandbox` and no operation here ever had its name.

        Args:
            spec: the operation.
            triggered_by: what proposed it, for whoever reviews it.
            actor: who wrote it: `user`, or a model such as `agent:<id>`.

        Raises:
            SpecError: the spec is wrong, or is active already, unchanged.
        """
        return self.operations.propose(spec, triggered_by=triggered_by, actor=actor)

    def unregister_operation(self, name: str) -> None:
        """Deactivate an operation, and forget its spec and its handlers."""
        with self._database.write():
            self.operations.remove(name)
            self.handlers.forget(name)

    def fire(
        self,
        operation: str,
        fields: dict[str, Any] | None = None,
        *,
        execute_fn: Callable[[Any], Any] | None = None,
        review: bool = False,
        triggered_by: str | None = None,
        timeout: float | None = None,
        on_timeout: OnTimeout = "wait",
    ) -> Any:
        """Fire an operation.

        Its handlers run in order until one decides. If none is there, it is approved, or a person is asked if the
        operation says so (`unhandled="ask"`).

        Args:
            operation: its name.
            fields: values of its fields.
            execute_fn: what approval runs; its run is recorded as an event `custom:<operation>`.
            review: skip the handlers and return the pending, to decide it by hand.
            triggered_by: what set it off, for the log.
            timeout: seconds that a decision may take, None for any time.
            on_timeout: what it means if that time is over: `wait` on, `deny` (it expires), or `stop` waiting with an
                error, while it stays in the inbox.

        Returns:
            The result of `execute_fn` if that ran, else the pending.

        Raises:
            UnknownOperationError: no such operation is active.
            ParameterError: the fields do not fit.
        """
        return self.operations.fire(
            operation, fields, execute_fn=execute_fn, review=review, triggered_by=triggered_by, timeout=timeout,
            on_timeout=on_timeout,
        )  # fmt: skip

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
        """Have a handler decide about an operation, or see all of them (`"*"`); returns the handler's name.

        Args:
            operation: the operation's name, or `"*"`.
            handler: called with the pending; may decide it, pass it through, or leave it open.
            name: what it goes by; made from the function's name if left out.
            before: the name of the handler to go before, or True for the first place. At the end if no place is given.
            after: the name of the handler to go after.
            at: the place, counted from 0.

        Raises:
            OperationError: there is no such operation or place, the name is taken, or it cannot be called.
        """
        check_operation(operation, self.operations.hookable)
        return self._bus.on(operation, handler, name=name, before=before, after=after, at=at)

    def off(self, operation: str, handler: Callable[[Any], object] | str | None = None) -> None:
        """Remove a handler by function or name, or all of an operation."""
        self._bus.off(operation, handler)

    def list_hooks(self) -> dict[str, list[str]]:
        """The names of all handlers in their order, by operation."""
        return self._bus.handlers()

    def hook_log(
        self,
        operation: str | None = None,
        *,
        handler: str | None = None,
        outcome: str | None = None,
        pending_id: str | None = None,
        limit: int = 1_000,
    ) -> list[HookEvent]:
        """What handlers did: the newest entries that fit, oldest first. The store keeps the last 10,000 of a tract."""
        return self._bus.log.newest(
            operation=operation,
            handler=handler,
            outcome=outcome,
            pending_id=pending_id,
            limit=check_limit(limit),
        )

    def events(self, event_type: str | None = None, *, limit: int = 100) -> list[Event]:
        """What happened, newest first; `"custom:*"` gives all types that begin so.

        Raises:
            ContentError: the type is no text, or the limit no whole number.
        """
        limit = check_limit(limit)
        if event_type is not None:
            check_text(event_type, "event_type")
        with self._database.read() as connection:
            return self._events.newest(connection, event_type, limit)

    def inbox(self, limit: int = 100) -> list[Any]:
        """The stored pendings that await a decision, oldest first, whichever process asked.

        Raises:
            ContentError: the limit is no whole number.
        """
        return self.reviewer.ledger.waiting(check_limit(limit))
