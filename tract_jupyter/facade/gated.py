"""Operations of the package itself that handlers and persons may decide about first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import RejectedError, UndecidedError
from tract_jupyter.facade.asking import Asking
from tract_jupyter.models.pending import PendingStatus

if TYPE_CHECKING:
    from tract_jupyter.hooks.firing import Unhandled
    from tract_jupyter.hooks.pending import Pending


class Gated(Asking):
    """The part of `Tract` that has its own operations decided."""

    def _is_hooked(self, operation: str) -> bool:
        """Whether any handler wants to see an operation; without one there is nothing to decide."""
        return self._bus.listens(operation)

    def _decided(
        self, pending: Pending, *functions: object, unhandled: Unhandled = "approve", joins: bool = True
    ) -> Any:
        """The result of what was decided and done.

        Args:
            pending: what is decided.
            functions: the caller's own, as of `Firing.keep`.
            unhandled: as of `Firing.decide`.
            joins: as of that, too.

        Raises:
            RejectedError: it was turned down.
            UndecidedError: a handler left it open, or a person is asked; it waits in the inbox.
        """
        joins = joins and not any(map(callable, functions))
        return outcome(self._firing.decide(pending, unhandled=unhandled, joins=joins))


def outcome(pending: Pending) -> Any:
    """The result of a pending that was approved.

    Raises:
        RejectedError: it was turned down, or nobody decided in time.
        UndecidedError: it is open; it waits in the inbox.
    """
    if pending.status is PendingStatus.APPROVED:
        return pending.result
    if pending.status.is_open:
        raise UndecidedError(
            f"{pending.title!r} is not decided yet, and nothing was changed. It waits in '%tract inbox'",
            pending,
        )
    by = pending.decision.decided_by if pending.decision else "nobody"
    why = pending.rejection_reason or "without a reason"
    raise RejectedError(f"{pending.title!r} was not approved ({by}: {why}); nothing was changed", pending)
