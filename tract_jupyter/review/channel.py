"""A channel to the user, and the ticket that it shows.

Most channels are one async function, which `personal_channel` turns into an `AsyncChannel`. The notebook's channel
derives directly from `Channel`, because its panels, prompts and pages appear and disappear.

The package chooses the way to ask from observations, never from versions. It uses a panel if the front end reports
`ready`. It uses a prompt if the front end accepts input. Otherwise it reports at once that no user is available.

A ticket has rounds. Each round shows one request and takes one answer, the first one. An action may leave the pending
open, for example if it only changed a field or raised. Then the next round shows the new state.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from tract_jupyter.concurrency import Worker
from tract_jupyter.exceptions import NobodyToAskError, TractError
from tract_jupyter.review.decision import approval_terms, declare_personal
from tract_jupyter.review.display import needed_pieces
from tract_jupyter.review.effect_lines import keyed_lines
from tract_jupyter.review.request import how_to_decide, keeps_effects
from tract_jupyter.storage import protected_context

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from concurrent.futures import Future
    from contextlib import AbstractContextManager

    from tract_jupyter.models import PendingStatus
    from tract_jupyter.review.decision import Answer, Decision
    from tract_jupyter.review.lock import RecordedDecisions
    from tract_jupyter.review.pending import Pending
    from tract_jupyter.review.request import ReviewRequest


class Ticket:
    """The state that a callback's thread and the waiting code share.

    Args:
        pending: the pending to decide.
        on_answer: called once per round, from any thread, right after the first answer. It must only schedule the work,
            because a widget's callback must not print, display or execute.
    """

    def __init__(self, pending: Pending, on_answer: Callable[[Ticket], None]) -> None:
        self.pending = pending
        self.on_answer = on_answer
        self.waiting = 0
        """The number of code locations that wait for the decision. If 0, the answer is carried out separately."""
        self.wakes: list[Callable[[], object]] = []
        """Called from any thread if the request has an answer or is settled. Each ends the sleep of waiting code."""
        self.is_shown = False
        self.settled = threading.Event()
        self.output = ""
        """The output of the last action."""
        self.refused = 0
        """The number of consecutive answers that had no effect."""
        self._lock = threading.Lock()
        self._answer: tuple[Answer, str] | None = None
        self._held = False
        self.request: ReviewRequest = pending.review_request()
        self.round_id = secrets.token_hex(8)
        self.decided: list[tuple[ReviewRequest, Decision]] = []
        """The decisions so far, each with the request that it answered."""
        self._known = pending.decision
        self._needed: tuple[str, frozenset[str]] = ("", frozenset())

    def new_round(self, note: str = "") -> None:
        """Show the current state and accept a new answer."""
        decision = self.pending.decision
        if decision is not None and decision is not self._known:
            self.decided.append((self.request, decision))
            self._known = decision
        self.request = self._current_request(note)
        with self._lock:
            self.round_id = secrets.token_hex(8)
            self._answer, self._held = None, False

    def _current_request(self, note: str) -> ReviewRequest:
        """Return the current request. If it cannot be built, return the previous request with the reason.

        The fingerprint of the previous request no longer matches, so only a rejection is possible then.
        """
        try:
            return self.pending.review_request(note)
        except TractError as error:
            actions = self.request.actions if self.status.is_open else ()
            why = f"It cannot be approved in its current state: {error}" if self.status.is_open else ""
            notes = (note, "" if str(error) in note else why)
            return replace(self.request, actions=actions, note="\n".join(filter(None, notes)))

    def wake(self) -> None:
        """End the sleep of the code that waits for this request."""
        for wake in tuple(self.wakes):
            wake()

    @property
    def status(self) -> PendingStatus:
        """The status of the pending."""
        return self.pending.status

    @property
    def last_decision(self) -> Decision | None:
        """The last decision on the pending."""
        return self.pending.decision

    @property
    def answered(self) -> bool:
        """True if this round has an answer."""
        return self._answer is not None

    def is_asking(self, round_id: str) -> bool:
        """Return True if this round is current and has no answer yet."""
        return self._answer is None and not self.settled.is_set() and round_id == self.round_id != ""

    @property
    def needed(self) -> frozenset[str]:
        """The keys of the pieces that must be on display before this round accepts an approval of code or values."""
        request, (round_id, keys) = self.request, self._needed
        if round_id != self.round_id or not round_id:
            keys = frozenset(piece.key for piece in needed_pieces(request))
            self._needed = (self.round_id, keys)
        return keys

    @property
    def needed_effects(self) -> frozenset[str]:
        """The keys of the effects that must be on display before the user keeps them."""
        effects = self.request.effects
        pairs = () if effects is None else keyed_lines(effects, self.request.pending_id)
        return frozenset(piece.key for _, piece in pairs)

    @property
    def keeps_code(self) -> bool:
        """True if kept effects include a function of the code. Then the code must be on display, too."""
        effects = self.request.effects
        return effects is not None and effects.defines_functions

    def not_seen(self, answer: Answer) -> str:
        """Return a message about pieces that were not on display for this answer. Empty if there are none."""
        action = self.request.action(answer.action)
        if answer.seen is None or action is None or action.style == "reject":
            return ""
        if self._changes_rehearsed_code(answer):
            return ""  # the changed code is rehearsed first, and shown again
        needed = self.needed
        if keeps_effects(self.request, answer.action):
            needed = self.needed_effects | (needed if self.keeps_code else frozenset())
        unseen, all_ = len(needed - answer.seen), len(needed)
        if not unseen:
            return ""
        which, have = (f"{unseen:,} of the {all_:,} lines", "have") if all_ > 1 else ("the line", "has")
        return (
            f"Nothing was decided: {which} of this approval {have} not been on display here. Read on first."
        )

    def _changes_rehearsed_code(self, answer: Answer) -> bool:
        """Return True if an answer changes rehearsed code. It is then rehearsed again, and the request stays open."""
        if self.request.effects is None:
            return False
        edits = approval_terms(answer.action, answer.arguments).get("edits") or {}
        fields = {parameter.name: parameter.default for parameter in self.request.fields or ()}
        return any(name in fields and value != fields[name] for name, value in edits.items())

    def submit(self, answer: Answer, channel: str) -> bool:
        """Submit an answer from any thread.

        Return False if the answer is late, belongs to another round, or approves pieces that were not on display.
        """
        with self._lock:
            if not self.is_asking(answer.round_id):
                return False
            if self.request.action(answer.action) is None or self.not_seen(answer):
                return False
            self._answer = (answer, channel)
        self.on_answer(self)
        return True

    def take(self) -> tuple[Answer, str] | None:
        """Take the answer for carrying it out. Return None without an answer, or if other code works on it."""
        with self._lock:
            if self._held:
                return None
            answer, self._answer = self._answer, None
            if answer is not None:
                self._held = True
                self.round_id = ""  # nothing more can be submitted in this round
        return answer

    @protected_context
    def hold(self) -> Iterator[bool]:
        """Prevent others from carrying out an answer during the block. Yield False if one is already in progress."""
        with self._lock:
            free, self._held = not self._held, True
        try:
            yield free
        finally:
            if free:
                self._held = False


def never() -> bool:
    """Return False."""
    return False


class Channel:
    """A way for requests to reach a user and for answers to return. The base class reaches no user.

    It is the channel of scripts, workers and tests. `AsyncChannel` and the notebook's channel derive from it.
    """

    name = "none"

    def can_reach(self) -> bool:
        """Return True if a user may answer, in a live panel or at a prompt."""
        return False

    def recorded(self) -> RecordedDecisions | None:
        """Return the recorded decisions that apply if no user is available. None if there are none."""
        return None

    def refuses_code(self, pending: Pending, *, was_shown: bool) -> str:  # noqa: ARG002
        """Return why code may not approve a pending here, and the remedy; empty if it may."""
        return ""

    def show(self, ticket: Ticket) -> None:
        """Show the request, or update it after a new round or a decision."""

    def together(self) -> AbstractContextManager[None]:
        """Show the requests of a `with` block as one list: the questions of one step of a model."""
        return nullcontext()

    def forget(self, ticket: Ticket) -> None:
        """Show the request in a new place the next time."""

    def panel_may_answer(self, ticket: Ticket, waited: float) -> bool:  # noqa: ARG002
        """Return True to wait for a panel, `waited` seconds after the first showing; False to prompt."""
        return False

    def is_left(self, ticket: Ticket) -> bool:  # noqa: ARG002
        """Return True if every page that showed the request was closed."""
        return False

    def prompt(
        self,
        ticket: Ticket,  # noqa: ARG002
        *,
        may_wait: bool = False,  # noqa: ARG002
        is_over: Callable[[], bool] = never,  # noqa: ARG002
    ) -> Answer | None:
        """Ask with `input()`.

        Args:
            ticket: the ticket to ask about.
            may_wait: True if the user may postpone the request.
            is_over: called periodically in another thread. If it returns True, a kernel's prompt ends.

        Returns:
            The answer. None if the front end takes no input, the user postpones the request, or the prompt is over.
        """
        return None

    def later(self, ticket: Ticket, run: Callable[[], None]) -> None:  # noqa: ARG002
        """Carry out a ticket's answer soon: in a new task of the main thread, or at once if there is none."""
        run()

    def interruptible(self) -> AbstractContextManager[None]:
        """Let the stop button interrupt a `with` block."""
        return nullcontext()

    def watch(self, look: Callable[[], bool]) -> bool:  # noqa: ARG002
        """Call `look` regularly while the main thread is idle, until it returns False.

        Return True if the channel supports this.
        """
        return False


class AsyncChannel(Channel):
    """A channel that is one async function. Its tasks run in a separate event loop, in a daemon thread.

    Each display of a request calls the function. If another channel decides or the request changes, the task is
    cancelled. If no code waits for the decision, a thread carries it out.

    Args:
        ask: shows the request to a user and returns the answer. It returns None to keep the request in the inbox.
        name: the name of the channel in decisions.
    """

    def __init__(self, ask: Callable[[ReviewRequest], Awaitable[Answer | None]], name: str) -> None:
        self.name = name
        self._ask = ask
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting = threading.Lock()
        self._tasks: dict[str, Future[None]] = {}
        self._failures: dict[str, BaseException | None] = {}

    def can_reach(self) -> bool:
        """Return True: the function can ask a user."""
        return True

    def panel_may_answer(self, ticket: Ticket, waited: float) -> bool:  # noqa: ARG002
        """Return True until the function fails or returns without an answer."""
        return ticket.pending.pending_id not in self._failures

    def show(self, ticket: Ticket) -> None:
        """Cancel the previous task. Start a new one if the request is open."""
        pending_id = ticket.pending.pending_id
        before = self._tasks.pop(pending_id, None)
        if before is not None:
            before.cancel()
        self._failures.pop(pending_id, None)
        if ticket.status.is_open:
            coroutine = self._answer(ticket, ticket.request, ticket.round_id)
            self._tasks[pending_id] = asyncio.run_coroutine_threadsafe(coroutine, self._running_loop())

    async def _answer(self, ticket: Ticket, request: ReviewRequest, round_id: str) -> None:
        failure: BaseException | None = None
        try:
            if ticket.refused < _MOST_REFUSED:
                answer = await self._ask(request)
                if answer is not None and ticket.submit(replace(answer, round_id=round_id), self.name):
                    return
                if answer is not None and request.action(answer.action) is None:
                    names = ", ".join(action.name for action in request.actions)
                    failure = ValueError(f"there is no action {answer.action!r}; the actions are: {names}")
        except Exception as error:  # noqa: BLE001 # the author's code may raise anything; the waiting code reports it
            failure = error
        if ticket.is_asking(round_id):  # else another answer came first
            self._failures[request.pending_id] = failure
            ticket.wake()

    def prompt(self, ticket: Ticket, *, may_wait: bool = False, **_: object) -> None:
        """Report that the function has not decided.

        Raises:
            NobodyToAskError: code waits for the decision.
        """
        if may_wait:
            return
        failure = self._failures.get(ticket.pending.pending_id)
        why = "made no decision" if failure is None else f"failed ({type(failure).__name__}: {failure})"
        how = how_to_decide(ticket.pending.pending_id)
        raise NobodyToAskError(
            f"{ticket.request.title!r} needs a decision, but the channel {self.name!r} {why}. It waits in the inbox: "
            f"'{how}' decides it",
            ticket.pending,
        ) from failure

    def later(self, ticket: Ticket, run: Callable[[], None]) -> None:  # noqa: ARG002
        """Run the call in a thread. The event loop stays free for other requests."""
        Worker(run, f"tract channel {self.name}")

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=self._loop.run_forever, name=f"tract channel {self.name}", daemon=True
                ).start()
            return self._loop


_MOST_REFUSED = 3  # answers in a row that could not be carried out


def personal_channel(
    name: str,
) -> Callable[[Callable[[ReviewRequest], Awaitable[Answer | None]]], AsyncChannel]:
    """Decorate an async function to turn it into a channel over which a user decides.

    Its approvals can become standing approvals. Its decisions are recorded and count as the user's. For a channel of a
    rule or a model, use `AsyncChannel` without this decorator.

    Raises:
        ValueError: the name belongs to a rule, a model or code.
    """

    def channel(ask: Callable[[ReviewRequest], Awaitable[Answer | None]]) -> AsyncChannel:
        declare_personal(name)
        return AsyncChannel(ask, name)

    return channel
