"""Route a pending to its decision: handlers first, then an approval, a standing approval or the user."""

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
    """Approve a pending that passes its check. Otherwise retry with the diagnosis, and reject after the last retry.

    You can use it as a handler: `t.on("generate", auto_retry)`. The check also covers the last attempt.

    Args:
        pending: offers `validate`, and `retry` if it supports retries. A custom operation can define actions with these
            names. Its `validate` returns None for a good result, or the problem as a text.
        max_retries: the maximum number of retries over all parts. The pending's own limit also applies.

    Raises:
        PendingError: the pending has no `validate`.
        Exception: any error from a retry. The pending stays open.
    """
    if "validate" not in pending._public_actions:  # noqa: SLF001 # the offered actions
        raise PendingError(
            f"{pending.operation!r} offers no 'validate', so its result cannot be checked; decide it yourself"
        )
    diagnoses: list[str] = []
    while True:
        result = ValidationResult.of(pending.validate())
        if result.passed:
            pending.approve()
            return
        diagnoses.append(result.diagnosis)
        retries = len(diagnoses) - 1
        if retries >= max_retries or not _can_retry(pending):
            pending.reject(_join_diagnoses(diagnoses))
            return
        _retry(pending, result)


def _can_retry(pending: Pending) -> bool:
    """Return True if the pending supports a retry. `retries_left` holds the remaining number, if there is a limit."""
    return "retry" in pending._public_actions and bool(getattr(pending, "retries_left", True))  # noqa: SLF001


def _retry(pending: Any, result: ValidationResult) -> None:
    parameters = action_parameters(type(pending), "retry").names
    values = {"index": result.index, "guidance": result.diagnosis}
    pending.retry(
        **{name: value for name, value in values.items() if name in parameters and value is not None}
    )


def _join_diagnoses(diagnoses: list[str]) -> str:
    if len(diagnoses) == 1:
        return diagnoses[0]
    listed = "; ".join(f"({number}) {text}" for number, text in enumerate(diagnoses, 1))
    return f"{len(diagnoses)} attempts, all invalid: {listed}"


def outcome(pending: Pending) -> Any:
    """Return the result of an approved pending.

    Raises:
        RejectedError: the pending was rejected or has expired.
        UndecidedError: the pending is open. It waits in the inbox.
    """
    if pending.status is PendingStatus.APPROVED:
        return pending.result
    if pending.status.is_open:
        raise UndecidedError(
            f"{pending.title!r} has no decision yet, and nothing was changed. It waits in '%tract inbox'",
            pending,
        )
    by = pending.decision.decided_by if pending.decision else "nobody"
    why = pending.rejection_reason or "without a reason"
    raise RejectedError(f"{pending.title!r} was not approved ({by}: {why}); nothing was changed", pending)


_Asked = TypeVar("_Asked", bound="Pending")
Unhandled = Literal["approve", "ask"] | Callable[[Any], object]
"""The default for a pending without a handler's decision. A function receives the pending and decides."""


class ActionChoice(NamedTuple):
    """The choice about a tool call: an action of the operation that the call fires, or `approve`."""

    action: str
    arguments: Mapping[str, Any]
    decided_by: str
    is_personal: bool
    """True if a user made the choice just now."""

    def holds_for(self, pending: Pending) -> bool:
        """Return True if the choice covers the fired operation, so no user has to decide again."""
        return self.is_personal or not pending.unguarded

    def apply(self, pending: Pending) -> None:
        """Apply the choice to the fired operation."""
        with deciding("call", self.decided_by):
            pending.execute_tool(self.action, self.arguments)


class Firing:
    """Routes a tract's pendings to their decisions."""

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
        """Run the handlers. If none takes the pending on, approve it or ask the user.

        A pending that a handler leaves open waits in the inbox. If a saved handler is not approved here, the user
        decides in its place. Standing approvals do not apply then. Return the effective pending: the given one, or the
        identical open question. `ask` replaces the question to the user. `choice` is the user's choice about the tool
        call, made before the operation fired; it applies if no handler decides. With `joins`, an identical open
        question takes the place of a pending that would stay open.
        """
        try:
            routed = self.bus.route(pending)
        finally:
            self.bus.log.flush()
        if choice is not None and routed is not RoutingResult.DECIDED and choice.holds_for(pending):
            self._choose(pending, choice)
        elif routed is RoutingResult.LEFT_OPEN:
            return self._ask_open_request(pending, self._reviewer.keep, joins=joins)
        elif routed is RoutingResult.UNGUARDED:
            return self._ask_or_join(pending, ask, joins=joins)
        elif routed is RoutingResult.UNHANDLED and unhandled == "approve":
            with deciding("automatic", "nobody"):
                pending.approve()
        elif routed is RoutingResult.UNHANDLED and (
            unhandled != "ask" or not self._reviewer.granted(pending)
        ):
            if unhandled == "ask":
                return self._ask_or_join(pending, ask, joins=joins)
            self._automatic(pending, unhandled)
        return pending

    def result(
        self, pending: Pending, *functions: object, unhandled: Unhandled = "approve", joins: bool = True
    ) -> Any:
        """Decide a pending and return the result of its action.

        `functions` are as in `keep`, and the others as in `decide`.

        Raises:
            RejectedError: the pending was rejected.
            UndecidedError: a handler left the pending open, or the user has not decided. It waits in the inbox.
        """
        joins = joins and not any(map(callable, functions))
        return outcome(self.decide(pending, unhandled=unhandled, joins=joins))

    def keep(self, pending: _Asked, *functions: object) -> _Asked:
        """Add the pending to the inbox, or return the identical open request of the same actor.

        Functions among the arguments of the caller (`functions`) cannot be compared, so a pending with one never joins
        an earlier request.
        """
        keep = partial(self._reviewer.keep, unshown=True)
        return self._ask_open_request(pending, keep, joins=not any(map(callable, functions)))

    def _ask_open_request(
        self,
        pending: _Asked,
        ask: Callable[[Any], object],
        ask_again: Callable[[Any], object] = lambda _: None,
        *,
        joins: bool,
    ) -> _Asked:
        """Ask, or ask again about an identical open request. Return the open request."""
        duplicate = self._reviewer.find_duplicate(pending) if joins else None
        if duplicate is None:
            ask(pending)
            return pending
        duplicate.unguarded = pending.unguarded or duplicate.unguarded
        ask_again(duplicate)
        return duplicate

    def _choose(self, pending: Pending, choice: ActionChoice) -> None:
        """Apply the choice. If the pending stays open or the choice fails, keep it in the inbox."""
        try:
            choice.apply(pending)
        finally:
            if pending.status.is_open:
                self._reviewer.keep(pending)

    def _ask_or_join(self, pending: Pending, ask: Unhandled, *, joins: bool) -> Pending:
        if callable(ask):
            return self._ask_open_request(pending, partial(self._automatic, how=ask), joins=joins)
        return self._ask_open_request(pending, self._reviewer.show, self._reviewer.show_again, joins=joins)

    def _automatic(self, pending: Pending, how: Unhandled) -> None:
        assert callable(how), "no function was passed"  # noqa: S101
        with deciding("automatic", "nobody"):
            how(pending)
