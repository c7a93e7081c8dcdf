"""Asking a person who is elsewhere: what a client of ours waits for is decided in the inbox of the store."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from tract_jupyter.exceptions import UndecidedError
from tract_jupyter.review.channel import NoChannel

if TYPE_CHECKING:
    import threading

    from tract_jupyter.review.decision import Answer
    from tract_jupyter.review.ticket import Ticket

given_up: ContextVar[threading.Event] = ContextVar("given_up")
"""Set when nobody waits for the call of this thread any more."""


class InboxChannel(NoChannel):
    """Shows nothing here. A notebook on the same store does, with `%tract inbox`."""

    name = "inbox"

    def can_reach(self) -> bool:
        """Somebody may look."""
        return True

    def panel_may_answer(self, ticket: Ticket, waited: float) -> bool:  # noqa: ARG002
        """As long as somebody waits for it."""
        call = given_up.get(None)
        return call is None or not call.is_set()

    def prompt(self, ticket: Ticket, *, may_wait: bool = False) -> Answer | None:  # noqa: ARG002
        """Nobody waits any more.

        Raises:
            UndecidedError: always.
        """
        raise UndecidedError("the client gave the call up before anybody had decided", ticket.pending)
