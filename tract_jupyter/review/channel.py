"""A channel: a way to reach a person; and the ticket that it shows.

Most channels are one async function, which `personal_channel` turns into an `AsyncChannel`. The notebook's own channel
derives from `Channel` itself, since it has panels, prompts and pages that come and go.

The ladder, climbed down by what is observed and never by versions: a panel whose front end says `ready`; a prompt
where the front end takes input; else nobody can be asked, which is said at once.

A ticket goes through rounds. Each round shows one request and takes one answer, the first. An action may leave the
pending open (it only changed a field, or it raised); then the next round shows how things stand now.
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
from tract_jupyter.review.decision import declare_personal
from tract_jupyter.review.display import needed_pieces
from tract_jupyter.review.request import how_to_decide
from tract_jupyter.storage import whole_context

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from concurrent.futures import Future
    from contextlib import AbstractContextManager

    from tract_jupyter.models import PendingStatus
    from tract_jupyter.review.decision import Answer, Decision
    from tract_jupyter.review.pending import Pending
    from tract_jupyter.review.recorded import RecordedDecisions
    from tract_jupyter.review.request import ReviewRequest


class Ticket:
    """The state that the thread of a callback and the code that waits share.

    Args:
        pending: what is to be decided.
        on_answer: called once a round, from any thread, right after the first answer was taken. It must only hand
            the work on: in a widget's callback nothing may print, display or execute.
    """

    def __init__(self, pending: Pending, on_answer: Callable[[Ticket], None]) -> None:
        self.pending = pending
        self.on_answer = on_answer
        self.waiting = 0
        """The number of pieces of code that wait for the decision; if 0, the answer is carried out on its own."""
        self.wakes: list[Callable[[], object]] = []
        """Called from any thread if the request has an answer or is settled. Each ends the sleep of waiting code."""
        self.is_shown = False
        self.settled = threading.Event()
        self.output = ""
        """The output of the last action."""
        self.refused = 0
        """The number of answers in a row that came to nothing."""
        self._lock = threading.Lock()
        self._answer: tuple[Answer, str] | None = None
        self._held = False
        self.request: ReviewRequest = pending.review_request()
        self.round_id = secrets.token_hex(8)
        self.decided: list[tuple[ReviewRequest, Decision]] = []
        """The decisions so far, each with the showing that it was about."""
        self._known = pending.decision
        self._needed: tuple[str, frozenset[str]] = ("", frozenset())

    def new_round(self, note: str = "") -> None:
        """Show how things stand now, and take a new answer."""
        decision = self.pending.decision
        if decision is not None and decision is not self._known:
            self.decided.append((self.request, decision))
            self._known = decision
        self.request = self._shown_anew(note)
        with self._lock:
            self.round_id = secrets.token_hex(8)
            self._answer, self._held = None, False

    def _shown_anew(self, note: str) -> ReviewRequest:
        """Return the present request; the last one that could be shown, with the reason, if this one cannot.

        An approval does not fit that one, so that only a rejection is taken then.
        """
        try:
            return self.pending.review_request(note)
        except TractError as error:
            actions = self.request.actions if self.status.is_open else ()
            why = f"It cannot be approved as it is now: {error}" if self.status.is_open else ""
            notes = (note, "" if str(error) in note else why)
            return replace(self.request, actions=actions, note="\n".join(filter(None, notes)))

    def wake(self) -> None:
        """End the sleep of the code that waits for this request."""
        for wake in tuple(self.wakes):
            wake()

    @property
    def status(self) -> PendingStatus:
        """The pending's."""
        return self.pending.status

    @property
    def last_decision(self) -> Decision | None:
        """The last decision on the pending."""
        return self.pending.decision

    @property
    def answered(self) -> bool:
        """True if this round has its answer."""
        return self._answer is not None

    def is_asking(self, round_id: str) -> bool:
        """Return True if that round is the present one, and has no answer yet."""
        return self._answer is None and not self.settled.is_set() and round_id == self.round_id != ""

    @property
    def needed(self) -> frozenset[str]:
        """The keys of all that must have been on display before anything but a rejection is taken in this round."""
        request, (shown, keys) = self.request, self._needed
        if shown != self.round_id or not shown:
            keys = frozenset(piece.key for piece in needed_pieces(request))
            self._needed = (self.round_id, keys)
        return keys

    def not_seen(self, answer: Answer) -> str:
        """Say what of the request was not on display where the answer comes from; empty if nothing has to be said."""
        action = self.request.action(answer.action)
        if answer.seen is None or action is None or action.style == "reject":
            return ""
        unseen, all_ = len(self.needed - answer.seen), len(self.needed)
        if not unseen:
            return ""
        which, have = (f"{unseen:,} of the {all_:,} lines", "have") if all_ > 1 else ("the line", "has")
        return f"Nothing was decided: {which} that this would approve {have} not been on display here. Read on first."

    def submit(self, answer: Answer, channel: str) -> bool:
        """Take an answer from any thread.

        False if it came too late, answers another showing, or would approve what was not on display.
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
        """Take the answer out, to carry it out; None if there is none, or somebody else is at work on it."""
        with self._lock:
            if self._held:
                return None
            taken, self._answer = self._answer, None
            if taken is not None:
                self._held = True
                self.round_id = ""  # nothing more can be submitted in this round
        return taken

    @whole_context
    def hold(self) -> Iterator[bool]:
        """Keep others from carrying an answer out meanwhile. Gives False if one is being carried out already."""
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
    """A way for requests to reach a person, and for answers to come back. The base class reaches no person.

    It is the channel of scripts, workers and tests. `AsyncChannel` and the notebook's channel derive from it.
    """

    name = "none"

    def can_reach(self) -> bool:
        """Return True if a person may answer: a panel may be live, or there is a prompt."""
        return False

    def recorded(self) -> RecordedDecisions | None:
        """Return the recorded decisions that count here if no person can be reached; None if none do."""
        return None

    def refuses_code(self, pending: Pending, *, was_shown: bool) -> str:  # noqa: ARG002
        """Return why code may not approve a pending here, and the remedy; empty if it may."""
        return ""

    def show(self, ticket: Ticket) -> None:
        """Show the request, or update it: a new round, or decided."""

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
        """Ask by `input()`.

        Args:
            ticket: the request.
            may_wait: whether the user may leave it for later.
            is_over: called in another thread from time to time. If it returns True, a kernel's prompt ends.

        Returns:
            The answer. None if the front end takes no input, the user leaves it for later, or the prompt is over.
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

        Returns:
            Whether the channel does so.
        """
        return False


class AsyncChannel(Channel):
    """A channel that is one async function. Its tasks run in a separate event loop, in a daemon thread.

    The function is called each time a request is shown. Its task is cancelled when another channel decides, or when
    the request changes. If no code waits for the decision, it is carried out in a thread.

    Args:
        ask: shows the request to a person, and returns their answer; None to leave it in the inbox.
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
        """Return True: the function can ask a person."""
        return True

    def panel_may_answer(self, ticket: Ticket, waited: float) -> bool:  # noqa: ARG002
        """Return True until the function has failed, or has left the request undecided."""
        return ticket.pending.pending_id not in self._failures

    def show(self, ticket: Ticket) -> None:
        """Cancel the task of the last showing, and start one for this showing if the request is open."""
        pending_id = ticket.pending.pending_id
        before = self._tasks.pop(pending_id, None)
        if before is not None:
            before.cancel()
        self._failures.pop(pending_id, None)
        if ticket.status.is_open:
            asked = self._answer(ticket, ticket.request, ticket.round_id)
            self._tasks[pending_id] = asyncio.run_coroutine_threadsafe(asked, self._running_loop())

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
        except Exception as error:  # noqa: BLE001 # the author's code may raise anything; the waiting code tells it
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
        why = "left it undecided" if failure is None else f"failed ({type(failure).__name__}: {failure})"
        how = how_to_decide(ticket.pending.pending_id)
        raise NobodyToAskError(
            f"{ticket.request.title!r} needs a decision, but the channel {self.name!r} {why}. It waits in the inbox: "
            f"'{how}' decides it",
            ticket.pending,
        ) from failure

    def later(self, ticket: Ticket, run: Callable[[], None]) -> None:  # noqa: ARG002
        """Run it in a thread. The event loop stays free for other requests."""
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
    """Turn an async function into a channel over which a person decides, as its decorator.

    An approval over it can become a standing one, its decisions are recorded, and it counts as a person's. A channel
    of a rule or a model is an `AsyncChannel` without this decorator.

    Args:
        name: the name of the channel in decisions.

    Raises:
        ValueError: the name belongs to a rule, a model or code.
    """

    def channel(ask: Callable[[ReviewRequest], Awaitable[Answer | None]]) -> AsyncChannel:
        declare_personal(name)
        return AsyncChannel(ask, name)

    return channel
