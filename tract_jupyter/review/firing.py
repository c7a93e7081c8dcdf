"""The way of a pending to its decision: handlers first; then approval, a standing approval, or a person."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from tract_jupyter.exceptions import PendingError, RejectedError, UndecidedError
from tract_jupyter.models import PendingStatus
from tract_jupyter.review.builtin.base import ValidationResult
from tract_jupyter.review.bus import RoutingResult
from tract_jupyter.review.decision import deciding
from tract_jupyter.review.introspection import action_parameters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tract_jupyter.review.bus import HookBus
    from tract_jupyter.review.pending import Pending
    from tract_jupyter.review.reviewer import Reviewer


def auto_retry(pending: Any, *, max_retries: int = 3) -> None:
    """Approve a pending that passes the check. Otherwise retry it with the reason, and reject it after the last retry.

    It can be a handler: `t.on("generate", auto_retry)`. The last attempt is looked at too.

    Args:
        pending: offers `validate`, and `retry` if it can be made again. An operation of your own does if it has
            actions of these names; its `validate` returns None if all is good, else what is wrong, as a text.
        max_retries: how often it is made again at most, over all its parts. The pending's own bound counts as well.

    Raises:
        PendingError: it has nothing to validate it by.
        Exception: whatever making it again raises; the pending stays open then.
    """
    if "validate" not in pending._public_actions:  # noqa: SLF001 # what it offers
        raise PendingError(
            f"{pending.operation!r} offers no 'validate', so its result cannot be checked; decide it yourself"
        )
    diagnoses: list[str] = []
    while True:
        found = ValidationResult.of(pending.validate())
        if found.passed:
            pending.approve()
            return
        diagnoses.append(found.diagnosis)
        retries = len(diagnoses) - 1
        if retries >= max_retries or not _can_retry(pending):
            pending.reject(_told(diagnoses))
            return
        _retry(pending, found)


def _can_retry(pending: Pending) -> bool:
    """Return True if it can be made again; a pending with a bound of its own says how often in `retries_left`."""
    return "retry" in pending._public_actions and bool(getattr(pending, "retries_left", True))  # noqa: SLF001


def _retry(pending: Any, found: ValidationResult) -> None:
    taken = action_parameters(type(pending), "retry").names
    given = {"index": found.index, "guidance": found.diagnosis}
    pending.retry(**{name: value for name, value in given.items() if name in taken and value is not None})


def _told(diagnoses: list[str]) -> str:
    if len(diagnoses) == 1:
        return diagnoses[0]
    listed = "; ".join(f"({number}) {text}" for number, text in enumerate(diagnoses, 1))
    return f"{len(diagnoses)} attempts, and none was good: {listed}"


def outcome(pending: Pending) -> Any:
    """Return the result of a pending that was approved.

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


_Asked = TypeVar("_Asked", bound="Pending")
Unhandled = Literal["approve", "ask"] | Callable[[Any], object]
"""The fate of a pending that no handler took on; a function is called with it, and decides."""


class ActionChoice(NamedTuple):
    """The choice about a call: an action of the operation that it fires, or `approve`."""

    action: str
    arguments: Mapping[str, Any]
    decided_by: str
    is_personal: bool
    """True if a person chose it just now."""

    def holds_for(self, pending: Pending) -> bool:
        """Return True if it counts for the operation that was fired, and no person has to look at that anew."""
        return self.is_personal or not pending.unguarded

    def apply(self, pending: Pending) -> None:
        """Do it with the operation that was fired."""
        with deciding("call", self.decided_by):
            pending.execute_tool(self.action, self.arguments)


class Firing:
    """The way of a tract's pendings to their decision."""

    def __init__(self, bus: HookBus, reviewer: Reviewer) -> None:
        self.bus = bus
        self._reviewer = reviewer

    def decide(
        self,
        pending: Pending,
        *,
        unhandled: Unhandled,
        ask: Unhandled = "ask",
        choice: ActionChoice | None = None,
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
        if choice is not None and routed is not RoutingResult.DECIDED and choice.holds_for(pending):
            self._choose(pending, choice)
        elif routed is RoutingResult.LEFT_OPEN:
            return self._once(pending, self._reviewer.keep, joins=joins)
        elif routed is RoutingResult.UNGUARDED:
            return self._asked(pending, ask, joins=joins)
        elif routed is RoutingResult.UNHANDLED and unhandled == "approve":
            with deciding("automatic", "nobody"):
                pending.approve()
        elif routed is RoutingResult.UNHANDLED and (
            unhandled != "ask" or not self._reviewer.granted(pending)
        ):
            if unhandled == "ask":
                return self._asked(pending, ask, joins=joins)
            self._automatic(pending, unhandled)
        return pending

    def result(
        self, pending: Pending, *functions: object, unhandled: Unhandled = "approve", joins: bool = True
    ) -> Any:
        """Have a pending decided, and return the result of what was done.

        Args:
            pending: what is decided.
            functions: the caller's own, as of `keep`.
            unhandled: as of `decide`, like the next one.
            joins: see there.

        Raises:
            RejectedError: it was turned down.
            UndecidedError: a handler left it open, or a person is asked; it waits in the inbox.
        """
        joins = joins and not any(map(callable, functions))
        return outcome(self.decide(pending, unhandled=unhandled, joins=joins))

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
        """Ask, unless the very same is open: then ask that again. Return what is open."""
        duplicate = self._reviewer.find_duplicate(pending) if joins else None
        if duplicate is None:
            ask(pending)
            return pending
        duplicate.unguarded = pending.unguarded or duplicate.unguarded
        again(duplicate)
        return duplicate

    def _choose(self, pending: Pending, choice: ActionChoice) -> None:
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
