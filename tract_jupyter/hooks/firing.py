"""From a pending to its decision: handlers first; then approval, a standing approval, or a person."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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
            return self._once(pending, self._reviewer.keep, joins=joins)
        elif routed is Routed.UNGUARDED:
            return self._asked(pending, ask, joins=joins)
        elif routed is Routed.UNHANDLED and unhandled == "approve":
            with deciding("automatic", "nobody"):
                pending.approve()
        elif routed is Routed.UNHANDLED and (unhandled != "ask" or not self._reviewer.granted(pending)):
            if unhandled == "ask":
                return self._asked(pending, ask, joins=joins)
            self._automatic(pending, unhandled)
        return pending

    def keep(self, pending: _Asked, *functions: object) -> _Asked:
        """Put it into the inbox, unless the very same question of the same asker is there: return what is.

        Args:
            pending: what nobody was asked about yet.
            functions: what the caller gave in the place of functions that it would run. Whether two functions do the
                same, nobody knows, so that with one of them it is no question of before.
        """
        keep = partial(self._reviewer.keep, unshown=True)
        return self._once(pending, keep, joins=not any(map(callable, functions)))

    def _once(
        self,
        pending: _Asked,
        ask: Callable[[Any], object],
        again: Callable[[Any], object] = lambda _: None,
        *,
        joins: bool,
    ) -> _Asked:
        """Ask, unless the very same is open: then ask that again. Returns what is open."""
        twin = cast("_Asked | None", self._reviewer.twin(pending)) if joins else None
        if twin is None:
            ask(pending)
            return pending
        twin.unguarded = pending.unguarded or twin.unguarded
        again(twin)
        return twin

    def _choose(self, pending: Pending, choice: Choice) -> None:
        """Do what was chosen; what stays open with that, or fails, waits in the inbox."""
        try:
            choice.apply(pending)
        finally:
            if pending.status.is_open:
                self._reviewer.keep(pending)

    def _asked(self, pending: Pending, ask: Unhandled, *, joins: bool) -> Pending:
        if callable(ask):
            return self._once(pending, partial(self._automatic, how=ask), joins=joins)
        return self._once(pending, self._reviewer.show, self._reviewer.show_again, joins=joins)

    def _automatic(self, pending: Pending, how: Unhandled) -> None:
        assert callable(how), "the rest was looked for"  # noqa: S101
        with deciding("automatic", "nobody"):
            how(pending)
