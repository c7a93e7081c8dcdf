"""From a pending to its decision: handlers first; then approval, a standing approval, or a person."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from tract_jupyter.hooks.bus import Routed
from tract_jupyter.review.decision import deciding

if TYPE_CHECKING:
    from tract_jupyter.hooks.builtin.tool_question import Choice
    from tract_jupyter.hooks.bus import HookBus
    from tract_jupyter.hooks.pending import Pending
    from tract_jupyter.review.reviewer import Reviewer

_Asked = TypeVar("_Asked", bound="Pending")
Unhandled = Literal["approve", "ask"] | Callable[[Any], object]
"""What becomes of a pending that no handler took on; a function is called with it, and decides."""


class Firing:
    """Has pendings of one tract decided."""

    def __init__(self, bus: HookBus, reviewer: Reviewer) -> None:
        self.bus = bus
        self._reviewer = reviewer

    def decide(
        self,
        pending: Pending,
        *,
        unhandled: Unhandled,
        ask: Unhandled = "ask",
        choice: Choice | None = None,
        joins: bool = False,
    ) -> Pending:
        """Have the handlers decide. What none of them took on is approved, or a person is asked.

        What a handler left open waits in the inbox. A person decides in the place of a saved handler that is not
        approved here, whatever else would, standing approvals too.

        Args:
            pending: what is decided.
            unhandled: what becomes of it if no handler took it on.
            ask: takes the place of asking a person, where it comes to that.
            choice: what a person chose who was asked about it before it was fired: done where no handler decides.
            joins: where it stays open, the very same question that is open already takes its place.

        Returns:
            The pending that counts: the given one, or that question.
        """
        try:
            routed = self.bus.route(pending)
        finally:
            self.bus.log.flush()
        if choice is not None and routed is not Routed.DECIDED and choice.holds_for(pending):
            self._choose(pending, choice)
        elif routed is Routed.LEFT_OPEN:
            return self._left_open(pending, joins=joins)
        elif routed is Routed.UNGUARDED:
            self._ask(pending, ask)
        elif routed is Routed.UNHANDLED and unhandled == "approve":
            with deciding("automatic", "nobody"):
                pending.approve()
        elif routed is Routed.UNHANDLED and (unhandled != "ask" or not self._reviewer.granted(pending)):
            twin = self._twin(pending) if joins and unhandled == ask == "ask" else None
            if twin is not None:
                self._reviewer.show_again(twin)
                return twin
            self._ask(pending, ask if unhandled == "ask" else unhandled)
        return pending

    def keep(self, pending: _Asked, *functions: object) -> _Asked:
        """Put it into the inbox, unless the very same question of the same asker is there: return what is.

        Args:
            pending: what nobody was asked about yet.
            functions: the caller's own that it would run, or None; whether two of them do the same, nobody knows, so
                that with one of them it is no question of before.
        """
        twin = self._twin(pending) if all(function is None for function in functions) else None
        if twin is None:
            self._reviewer.keep(pending, unshown=True)
        return pending if twin is None else cast("_Asked", twin)

    def _left_open(self, pending: Pending, *, joins: bool) -> Pending:
        twin = self._twin(pending) if joins else None
        if twin is None:
            self._reviewer.keep(pending)
        return twin or pending

    def _twin(self, pending: Pending) -> Pending | None:
        return cast("Pending | None", self._reviewer.twin(pending))

    def _choose(self, pending: Pending, choice: Choice) -> None:
        """Do what was chosen; what stays open with that, or fails, waits in the inbox."""
        try:
            choice.apply(pending)
        finally:
            if pending.status.is_open:
                self._reviewer.keep(pending)

    def _ask(self, pending: Pending, ask: Unhandled) -> None:
        if callable(ask):
            with deciding("automatic", "nobody"):
                ask(pending)
        else:
            self._reviewer.show(pending)
