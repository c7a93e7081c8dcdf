"""What this user approved: stored handlers, decisions, and taking approvals back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.facade.parts import Parts
from tract_jupyter.hooks.bus import check_operation
from tract_jupyter.models.checks import check_limit
from tract_jupyter.operations.handlers import HandlerSpec

if TYPE_CHECKING:
    from tract_jupyter.operations.handlers import PendingHandler
    from tract_jupyter.storage.questions import StoredDecision


class Trusting(Parts):
    """The part of `Tract` that keeps handlers across restarts, and lists and revokes approvals."""

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
        check_operation(operation, self.operations.hookable)
        self.handlers.activate(HandlerSpec(operation, name, code, description))

    def propose_handler(
        self, operation: str, name: str, code: str, *, description: str = "", triggered_by: str | None = None
    ) -> PendingHandler:
        """Return the pending whose approval does what `save_handler` does; nothing is compiled before.

        It is in the inbox until it is decided.
        """
        check_operation(operation, self.operations.hookable)
        spec = HandlerSpec(operation, name, code, description)
        return self._firing.keep(self.handlers.propose(spec, triggered_by=triggered_by))

    def delete_handler(self, operation: str, name: str) -> None:
        """Forget a stored handler.

        Raises:
            SpecError: there is none of that name.
        """
        self.handlers.remove(operation, name)

    def revoke_trust(self, operation: str, handler: str | None = None) -> None:
        """Take back the approval of an operation, or of one of its stored handlers.

        It is deactivated, and stays in the store for another review.

        Raises:
            UnknownOperationError: no such operation is active.
            SpecError: no such handler is active.
        """
        if handler is None:
            self.operations.revoke(operation)
        else:
            self.handlers.revoke(operation, handler)

    def decisions(self, *, limit: int = 100) -> list[StoredDecision]:
        """What was decided, newest first: who, when, over which channel, with which arguments, about what."""
        return self.reviewer.ledger.newest_decisions(check_limit(limit))
