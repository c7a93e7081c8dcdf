"""Asking a person: the one implementation of it.

`show` puts a request up and returns; the answer is carried out when it comes (*click later*). `decide` awaits it, and
`decide_now` blocks for it. All three share the ticket, whose first answer of a round counts. What another process
decides in its inbox is seen too, and carried out here.
"""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import ExitStack, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, TypeVar, cast

from tract_jupyter.concurrency import HEARTBEAT
from tract_jupyter.exceptions import (
    CodeDecisionError,
    ContentError,
    DecidedFirstError,
    DecisionTimeoutError,
    NobodyToAskError,
    PendingStateError,
    TractError,
    UndecidedError,
    in_one_line,
)
from tract_jupyter.models import PendingStatus
from tract_jupyter.review.answers import capturing, check_wait, dispatch, replay
from tract_jupyter.review.channel import Channel, Ticket
from tract_jupyter.review.decision import Answer, Decision, deciding, without_grant
from tract_jupyter.review.gate import BUSY
from tract_jupyter.review.process import has_ended, this_process
from tract_jupyter.review.records import RUN, is_waited_for
from tract_jupyter.review.request import how_to_decide
from tract_jupyter.storage import uninterrupted, whole_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tract_jupyter.review.decision import DecisionContext
    from tract_jupyter.review.gate import Gate
    from tract_jupyter.review.grants import Grants
    from tract_jupyter.review.ledger import Ledger
    from tract_jupyter.review.pending import Pending
    from tract_jupyter.review.recorded import RecordedDecisions
    from tract_jupyter.storage import StoredPending

    Claimed = TypeVar("Claimed", bound=Pending)

_STORE_POLL_SECONDS = 0.5
_FEW = 64  # kept pendings of which it costs nothing to have some that are decided
_PENDING = PendingStatus.PENDING.value
_LEFT: Final = "The page was closed, so the cell that asked this has ended. Decide here, then run it again."
_LEASE_SECONDS = 6.0  # for how long others take it that this process waits, unless it says so again
_RULES = frozenset({"handler", "model"})  # channels over which no person decides, and no code of theirs


class _ThreadSleep:
    """The sleep of a thread that waits for answers. It is a queue in C, which an interrupt leaves whole."""

    def __init__(self) -> None:
        self._came: SimpleQueue[None] = SimpleQueue()

    def end(self) -> None:
        """End the sleep, or the next one. Called in any thread."""
        self._came.put(None)

    def begin(self, seconds: float) -> None:
        """Sleep until the time is over or `end` is called."""
        with suppress(Empty):
            self._came.get(timeout=seconds)


class _TaskSleep:
    """The sleep of a task. Other tasks of its event loop continue."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._came: asyncio.Future[None] = self._loop.create_future()

    def end(self) -> None:
        """End the sleep, or the next one. Called in any thread."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._set)

    def _set(self) -> None:
        if not self._came.done():
            self._came.set_result(None)

    async def begin(self, seconds: float) -> None:
        """Sleep until the time is over or `end` is called."""
        await asyncio.wait({self._came}, timeout=seconds)
        if self._came.done():
            self._came = self._loop.create_future()


class Reviewer:
    """The one way to ask a person: shows pendings, and has their answers carried out.

    Attributes:
        channel: how to reach the person; a notebook puts its own here.
        timeout: seconds that a decision may take, where what is asked does not say; None for any time.
        on_timeout: what it means then if that time is over: see `Pending`.
        ledger: what was asked and decided.

    Args:
        ledger: where questions are stored.
        gate: has answers carried out.
        grants: the standing approvals.
    """

    def __init__(self, ledger: Ledger, gate: Gate, grants: Grants) -> None:
        self.channel: Channel = Channel()
        self.timeout: float | None = None
        self.on_timeout = "wait"
        self.ledger = ledger
        self._gate = gate
        self._grants = grants
        self._tickets: dict[str, Ticket] = {}
        self._kept: dict[str, Pending] = {}
        self._most_kept = _FEW
        self._claimed: set[str] = set()
        self._lock = threading.RLock()
        self._is_watching = False
        gate.check_code = self._check_code

    def _recorded(self) -> RecordedDecisions | None:
        return self.channel.recorded()

    # --- without asking

    def granted(self, pending: Pending) -> bool:
        """Approve it, if a person has done so before: by a grant, or for a cell whose kernel ended before it ran.

        Where a handler that would decide first is not approved here, nothing of before counts.
        """
        if pending.unguarded:
            return False
        grant = self._grants.use(pending)
        if grant is not None:
            with deciding("grant", f"grant:{grant.grant_id}"):
                pending.execute_tool(grant.action, dict(grant.arguments))
            return True
        pending.not_granted = self._grants.of_others(pending)
        return self._approved_before(pending)

    def _approved_before(self, pending: Pending) -> bool:
        """Approve it as a person did whose approval nobody has begun to carry out. False if there is none."""
        if pending.resumable or pending.unguarded:
            return False
        before = self.ledger.approved_before(pending)
        if before is None or not self.ledger.settle(
            before.pending_id, before.round, "carried out by a later cell"
        ):
            return False
        with deciding(before.channel, before.decided_by):
            pending.execute_tool(before.action, without_grant(before.action, before.arguments))
        return True

    def keep(self, pending: Pending, *, unshown: bool = False) -> None:
        """Put it into the inbox, without showing it; `unshown` if it is code's, and no question to anybody yet."""
        pending.is_unshown = unshown
        self.ledger.ask(pending, pending.review_request())
        with self._lock:
            if len(self._kept) >= self._most_kept:  # what is decided goes, each time that they have doubled
                self._kept = {key: one for key, one in self._kept.items() if one.status.is_open}
                self._most_kept = 2 * len(self._kept) + _FEW
            self._kept[pending.pending_id] = pending

    def twin(self, pending: Claimed) -> Claimed | None:
        """Return what this process asked, if it asks the very same for the same asker and is open; None otherwise.

        Of a process that has ended `pending` takes the question over: with that it is the open one, under its id. So it
        is with one that is left alone elsewhere, if any process can carry it out.

        What somebody waits for is that caller's own question, and so is one whose time a caller has limited.
        """
        found = self._same_one(pending)
        return None if found is pending else found

    @whole_context
    def claimed(self, pending: Claimed) -> Iterator[Claimed]:
        """Give what is to be asked: the open one, as `twin` finds it, or `pending`. Nobody else gets it meanwhile.

        It is for what is done once for each caller, such as a call: if two waited for one question, both would do it.
        """
        can_wait = self.channel.can_reach() and not self.ledger.in_transaction
        own = pending.pending_id
        self._claim(own)  # nobody is to join it before it is waited for
        claimed = {own}
        try:
            same = self._same_one(pending, keeps=claimed, wait=_LEASE_SECONDS if can_wait else 0)
            found = pending if same is None else same
            self._move_here(found.pending_id)
            yield found
        finally:
            with self._lock:
                self._claimed -= claimed

    def _same_one(
        self, pending: Claimed, *, keeps: set[str] | None = None, wait: float = 0
    ) -> Claimed | None:
        """Find what asks the very same; `pending` itself, if it took that over.

        Args:
            pending: what is about to be asked.
            keeps: what is found stays claimed, and its id is put there.
            wait: the seconds that whoever claims it will wait from now on.
        """
        if pending.expires_at is not None:
            return None
        for stored in self.ledger.same(pending):
            pending_id = stored.pending_id
            if is_waited_for(stored) or not self._claim(pending_id):
                continue
            found = None
            try:
                found = self._joined(pending, stored, is_claimed=keeps is not None, wait=wait)
            finally:
                if found is None or keeps is None:
                    with self._lock:
                        self._claimed.discard(pending_id)
            if found is not None:
                if keeps is not None:
                    keeps.add(pending_id)
                return found
        return None

    def _claim(self, pending_id: str) -> bool:
        """Have nobody else join it. False if somebody waits for it here, or is about to."""
        with self._lock:
            ticket = self._tickets.get(pending_id)
            if pending_id in self._claimed or (ticket is not None and ticket.waiting):
                return False
            self._claimed.add(pending_id)
        return True

    def _joined(
        self, pending: Claimed, stored: StoredPending, *, is_claimed: bool, wait: float
    ) -> Claimed | None:
        # what asks the same is of the same class
        found = cast("Claimed | None", self.asked_here(stored.pending_id))
        if found is not None and found.origin is None and not pending.is_renewed:
            if found is pending or not _asks_the_same(found, pending):
                return None
            is_limited = found.expires_at is not None
            if is_limited and not self._limits(found):
                return None
            # a limited time begins anew; and what is claimed no other tract of this process takes over
            is_asked_anew = is_claimed or is_limited
            return found if not is_asked_anew or self.ledger.take_over(found, stored, wait=wait) else None
        is_left = found is not pending and _is_left(stored, pending) and self.ledger.vouches(stored)
        if not is_left or not self.ledger.take_over(pending, stored, wait=wait):
            return None
        self._move_here(pending.pending_id)
        with self._lock:
            self._tickets.pop(pending.pending_id, None)
            self._kept.pop(pending.pending_id, None)
        return pending

    def _limits(self, pending: Pending) -> bool:
        """Return True if the time that a pending has is that of everything that is asked here."""
        return (pending.timeout, pending.on_timeout) == (self.timeout, self.on_timeout)

    def _move_here(self, pending_id: str) -> None:
        """Have what is on display shown in the current cell the next time."""
        with self._lock:
            ticket = self._tickets.get(pending_id)
        if ticket is not None and ticket.is_shown:
            self.channel.forget(ticket)
            ticket.is_shown = False

    def asked_here(self, pending_id: str) -> Pending | None:
        """Return the very pending, if this process asked about it and it is open."""
        with self._lock:
            ticket, kept = self._tickets.get(pending_id), self._kept.get(pending_id)
        found = kept if ticket is None else ticket.pending
        return None if found is None or found.runs_elsewhere or not found.status.is_open else found

    # --- asking

    def show(self, pending: Pending) -> Ticket:
        """Store the request and put it up; whoever answers first, now or later, decides.

        Where nothing can be clicked later, at a terminal, it is asked at once, and may be left for later. Where nobody
        can be asked, a recorded decision settles it.

        Raises:
            LockFileError: recorded decisions count here, and cannot be read.
            PendingStateError: it is decided already.
        """
        ticket = self._ticket(pending)
        self._replay(ticket)
        if self._put_up(ticket):
            self._prompt_at_once(ticket)
        return ticket

    def show_again(self, pending: Pending) -> Ticket:
        """Put a request of the inbox on display; one that this process showed before moves to the current cell."""
        ticket = self._ticket(pending)
        self.channel.forget(ticket)
        ticket.is_shown = False
        self._put_up(ticket)
        self._prompt_at_once(ticket)
        return ticket

    async def decide(self, pending: Pending) -> Decision:
        """Ask, wait without blocking the event loop, and return the decision that settled it.

        Raises:
            LockFileError: recorded decisions count here, and cannot be read.
            NobodyToAskError: no person can be reached, and none recorded a decision; the pending stays in the inbox.
            DecisionTimeoutError: nobody decided in time, and the pending says to stop then.
        """
        __tracebackhide__ = True
        sleep = _TaskSleep()
        with self._waiting(pending, sleep.end) as ticket:
            for delay in self._steps(ticket):
                await sleep.begin(delay)
        return _outcome(ticket)

    def decide_now(self, pending: Pending) -> Decision:
        """Ask and block this thread until it is decided; otherwise like `decide`."""
        __tracebackhide__ = True
        sleep = _ThreadSleep()
        with self.channel.interruptible(), self._waiting(pending, sleep.end) as ticket:
            for delay in self._steps(ticket, blocks=_is_main_thread()):
                sleep.begin(delay)
        return _outcome(ticket)

    def decide_together(self, pendings: Sequence[Pending]) -> tuple[list[Pending], UndecidedError | None]:
        """Ask about several things in one list, and block this thread until each of them is decided.

        Raises:
            LockFileError: recorded decisions count here, and cannot be read.

        Returns:
            What was asked, in order: the open question in the place of one that asks the very same. And why some
            were left open, if nobody decided them; they stay in the inbox.
        """
        __tracebackhide__ = True
        left: UndecidedError | None = None
        asked: list[Pending] = []
        sleep = _ThreadSleep()
        with self.channel.interruptible(), ExitStack() as stack:
            waiting: list[Iterator[float]] = []
            with self.channel.together():
                for pending in pendings:
                    asked.append(stack.enter_context(self.claimed(pending)))
                    try:
                        ticket = stack.enter_context(self._waiting(asked[-1], sleep.end))
                    except UndecidedError as error:
                        left = error
                    else:
                        waiting.append(self._steps(ticket, blocks=_is_main_thread()))
            while waiting:
                for steps in list(waiting):
                    try:
                        next(steps)
                    except StopIteration:
                        waiting.remove(steps)
                    except UndecidedError as error:
                        left = error
                        waiting.remove(steps)
                if waiting:
                    sleep.begin(HEARTBEAT)
        return asked, left

    def catch_up(self, pending: Pending) -> str:
        """Follow what another process decided; see `Gate.catch_up`."""
        return self._gate.catch_up(pending)

    def taken_up(self, pending: Pending) -> Ticket:
        """Store the request, unless it is stored already, and return its ticket, without showing it.

        What code has changed since it was shown is in a new round.
        """
        ticket = self._ticket(pending)
        with ticket.hold() as free:
            is_idle = free and ticket.status.is_open and not ticket.answered
            if is_idle and _fingerprint(ticket.pending) != ticket.request.fingerprint:
                ticket.new_round()
        return ticket

    def answer(self, ticket: Ticket, answer: Answer, channel: str) -> bool:
        """Take an answer, and carry it out here and now. False if it came too late."""
        with uninterrupted():  # carried out here, and not in a task of its own
            ticket.waiting += 1
            try:
                taken = ticket.submit(answer, channel)
            finally:
                ticket.waiting -= 1
            self.carry_out(ticket)
        return taken

    def ask_by_typing(self, ticket: Ticket) -> bool:
        """Ask until it is decided or left for later, whether a panel is live or not. False where nobody can type."""
        while not ticket.settled.is_set():
            is_over = self._prompt_watch(ticket)
            answer = self.channel.prompt(ticket, may_wait=True, is_over=is_over)
            if answer is not None:
                self.answer(ticket, answer, "prompt")
            elif is_over():
                self._look_at_store(ticket)
            else:
                return self.channel.can_reach()
        return True

    def carry_out(self, ticket: Ticket) -> None:
        """Carry out the answer of a ticket, if it has one that nobody else took."""
        with uninterrupted():  # what the answer is about can be stopped
            taken = ticket.take()
            if taken is None:
                return
            note = "Interrupted before it ended."
            try:
                note = dispatch(ticket, *taken)
            finally:
                self._finish_round(ticket, note)

    # ---

    def _check_code(self, pending: Pending, how: DecisionContext) -> None:
        """Check that code may approve it here.

        Raises:
            CodeDecisionError: a person has to, or the code has to say what it approves.
        """
        if pending.unguarded and how.channel in _RULES:
            raise CodeDecisionError(
                f"no handler and no model approves {pending.title!r}. {pending.unguarded}"
            )
        ticket = self._tickets.get(pending.pending_id)  # without the lock, which whoever shows it holds
        is_shown = (
            ticket is not None and ticket.is_shown and ticket.request.fingerprint == pending.fingerprint
        )
        why_not = self.channel.refuses_code(pending, was_shown=how.was_shown or is_shown)
        if why_not:
            raise CodeDecisionError(why_not)

    def _ticket(self, pending: Pending, wait: float = 0) -> Ticket:
        """Return the ticket of a pending, to be waited for from now on; two threads that ask for one share it.

        What is asked is stored before the lock is taken: whoever holds a store in memory may want the lock.
        """
        ticket = self._known_ticket(pending)
        if ticket is not None:
            return ticket
        if not pending.status.is_open:
            raise PendingStateError(f"{pending!r} is decided already; there is nothing to ask")
        if pending.timeout is None and self.timeout is not None:
            pending.timeout, pending.on_timeout = self.timeout, self.on_timeout
        pending.is_unshown = False
        ticket = Ticket(pending, self._on_answer)
        self.ledger.ask(pending, ticket.request, wait=wait)
        with self._lock:
            ticket = self._known_ticket(pending) or ticket
            self._tickets[pending.pending_id] = ticket
        return ticket

    def _known_ticket(self, pending: Pending) -> Ticket | None:
        with self._lock:
            ticket = self._tickets.get(pending.pending_id)
        if ticket is not None and ticket.pending.runs_elsewhere and not pending.runs_elsewhere:
            return None  # whoever waited for it has ended, and it can be carried out here now
        return ticket

    def _put_up(self, ticket: Ticket) -> bool:
        """Show it, unless it is on display already."""
        with self._lock:
            if ticket.is_shown:
                return False
            self.channel.show(ticket)
            ticket.is_shown = True
            if not self._is_watching:
                self._is_watching = self.channel.watch(self._look)
            return True

    def _replay(self, ticket: Ticket) -> str:
        """Have recorded decisions settle it, where they count; returns why they did not, and what to do."""
        recorded = (
            None if self.channel.can_reach() or ticket.pending.runs_elsewhere else self.channel.recorded()
        )
        if recorded is None:
            return ""
        with ticket.hold() as free:
            why_not = replay(ticket, recorded) if free else ""
        if not ticket.status.is_open and not ticket.settled.is_set():
            self._finish_round(ticket, ticket.request.note)
            ticket.is_shown = True
        return why_not

    def _catch_up_before(self, ticket: Ticket) -> None:
        """Have an approval of the very same settle it that came while this was being asked, and would be lost."""
        if ticket.is_shown or ticket.settled.is_set():
            return
        with ticket.hold() as free:
            is_approved = free and self._approved_before(ticket.pending)
        if is_approved:
            self._finish_round(ticket, ticket.request.note)

    def _on_answer(self, ticket: Ticket) -> None:
        if not ticket.waiting:
            self.channel.later(ticket, lambda: self.carry_out(ticket))
        ticket.wake()

    @whole_context
    def _waiting(self, pending: Pending, wake: Callable[[], object]) -> Iterator[Ticket]:
        """Show a request, and yield its ticket to the code that waits. `wake` is called if there is an answer."""
        can_wait = self.channel.can_reach() and not self.ledger.in_transaction
        ticket = self._ticket(pending, wait=_LEASE_SECONDS if can_wait else 0)
        why_not = self._replay(ticket)
        self._catch_up_before(ticket)
        if self.ledger.in_transaction and not ticket.settled.is_set():
            raise UndecidedError(
                f"{pending.title!r} needs a decision, and nobody can be waited for within batch(), which keeps others "
                "from writing. Ask before the batch, or after it", pending
            )  # fmt: skip
        if not self.channel.can_reach() and not ticket.settled.is_set():
            others = f". {pending.not_granted.rstrip('.')}" if pending.not_granted else ""
            raise NobodyToAskError(
                f"{pending.title!r} needs a decision, and nobody can be asked here (no panel, no input). It waits in "
                f"the inbox: '%tract inbox' in a notebook on this store shows it, and "
                f"'{how_to_decide(pending.pending_id)}' decides it{why_not}{others}", pending
            )  # fmt: skip
        ticket.waiting += 1
        ticket.wakes.append(wake)
        rounds = pending.rounds
        try:
            self._put_up(ticket)
            yield ticket
        except (KeyboardInterrupt, asyncio.CancelledError) as error:
            if pending.rounds == rounds:
                told = f"Interrupted: {ticket.request.title!r} waits. {how_to_decide(pending.pending_id)} decides it."
                in_one_line(error, told, own=isinstance(error, KeyboardInterrupt))
            raise
        finally:
            ticket.waiting -= 1
            ticket.wakes.remove(wake)
            if not ticket.settled.is_set():
                self.ledger.wait(pending.pending_id, 0)
            if ticket.answered:  # the wait was interrupted after the click
                self._on_answer(ticket)

    def _steps(self, ticket: Ticket, *, blocks: bool = False) -> Iterator[float]:
        """Do the work that is due, and yield the seconds to sleep, until the request is settled.

        Args:
            ticket: the request.
            blocks: whether the kernel's main thread sleeps. Then the kernel cannot answer a reopened page, so the wait
                ends if the page is closed.
        """
        started = polled = leased = time.monotonic()
        self.ledger.wait(ticket.pending.pending_id, _LEASE_SECONDS)
        while not ticket.settled.is_set():
            check_wait()
            self.carry_out(ticket)
            now = time.monotonic()
            if blocks and not ticket.settled.is_set() and self.channel.is_left(ticket):
                self._leave(ticket)
            if not ticket.settled.is_set() and not self.channel.panel_may_answer(ticket, now - started):
                self._prompt(ticket, started)
                now = time.monotonic()
            if now - polled > _STORE_POLL_SECONDS:
                polled = now
                self._look_at_store(ticket)
            if now - leased > _LEASE_SECONDS / 3:
                leased = now
                self.ledger.wait(ticket.pending.pending_id, _LEASE_SECONDS)
            self._check_time(ticket, now - started)
            if not ticket.settled.is_set():
                yield HEARTBEAT

    def _leave(self, ticket: Ticket) -> None:
        """End the wait, since no page shows the request.

        Raises:
            NobodyToAskError: always.
        """
        how = how_to_decide(ticket.pending.pending_id)
        self._finish_round(ticket, _LEFT)
        raise NobodyToAskError(
            f"{ticket.request.title!r} needs a decision, and the page that showed it was closed. Decide it with "
            f"'%tract inbox' or '{how}', in this notebook or in another one on this store. Then run the cell again",
            ticket.pending,
        )

    def _prompt(self, ticket: Ticket, started: float) -> None:
        """Ask by typing, until a late panel, another process or the end of the time takes the place of the prompt."""
        changed = self._prompt_watch(ticket)
        timeout = ticket.pending.timeout

        def is_over() -> bool:
            waited = time.monotonic() - started
            is_late = timeout is not None and waited >= timeout
            return is_late or self.channel.panel_may_answer(ticket, waited) or changed()

        answer = self.channel.prompt(ticket, is_over=is_over)
        if answer is not None:
            ticket.submit(answer, "prompt")
        elif not is_over():
            raise NobodyToAskError(
                f"{ticket.request.title!r} needs a decision, but no panel is live here and this front end "
                "takes no input. Decide it with '%tract inbox' or "
                f"'{how_to_decide(ticket.pending.pending_id)}' in a live notebook, then run the cell again",
                ticket.pending,
            )

    def _prompt_watch(self, ticket: Ticket) -> Callable[[], bool]:
        """Return a function that checks for an answer from elsewhere."""
        pending, round_id = ticket.pending, ticket.round_id
        polled = time.monotonic()
        is_changed = False

        def is_over() -> bool:
            nonlocal polled, is_changed
            now = time.monotonic()
            try:
                if not is_changed and now - polled > _STORE_POLL_SECONDS:
                    polled = now
                    is_changed = bool(self.ledger.changed({pending.pending_id: pending.rounds}))
            except TractError:  # the store may be locked for a moment
                pass
            return is_changed or ticket.settled.is_set() or ticket.round_id != round_id or ticket.answered

        return is_over

    def _prompt_at_once(self, ticket: Ticket) -> None:
        if not self.channel.panel_may_answer(ticket, 0.0):
            self.ask_by_typing(ticket)

    def _check_time(self, ticket: Ticket, waited: float) -> None:
        """See whether the time for a decision is over, and do what the pending says then."""
        pending = ticket.pending
        if pending.timeout is None or waited < pending.timeout or ticket.settled.is_set():
            return
        if pending.on_timeout == "stop":
            raise DecisionTimeoutError(
                f"nobody decided about {pending.title!r} within {pending.timeout:g} s, so the wait ended; it stays in "
                "'%tract inbox'", pending
            )  # fmt: skip
        if pending.on_timeout == "deny":
            with ticket.hold() as free, capturing(ticket):
                said = self._expired(pending) if free else BUSY
            if said != BUSY:
                told = f"In another process: {said}."
                self._finish_round(ticket, told if said else f"Nobody decided within {pending.timeout:g} s.")

    def _expired(self, pending: Pending) -> str:
        try:
            return self._gate.expire(pending)
        except DecidedFirstError:
            return BUSY  # in this process; the wait ends with that

    def _look(self) -> bool:
        """See whether others decided what is on display here; whether to go on looking."""
        with self._lock:
            open_ones = {
                ticket.pending.pending_id: ticket for ticket in self._tickets.values() if ticket.is_shown
            }
        unwaited = {key: ticket.pending.rounds for key, ticket in open_ones.items() if not ticket.waiting}
        for pending_id in self.ledger.changed(unwaited):
            self._look_at_store(open_ones[pending_id])
        with self._lock:
            self._is_watching = any(ticket.is_shown for ticket in self._tickets.values())
            return self._is_watching

    def _look_at_store(self, ticket: Ticket) -> None:
        """See whether another process or code decided it. The store says nothing new while this one carries it out."""
        pending = ticket.pending
        with ticket.hold() as free, capturing(ticket):
            if not free or ticket.settled.is_set() or pending.deciding_thread is not None:
                return
            said = self._gate.catch_up(pending) if ticket.status.is_open else ""
        if said and said != BUSY:
            self._finish_round(ticket, f"In another process: {said}.")
        elif not said and not ticket.status.is_open:
            self._finish_round(ticket, pending.note)

    def _finish_round(self, ticket: Ticket, note: str) -> None:
        ticket.new_round(note)
        if not ticket.status.is_open:
            self._tickets.pop(ticket.pending.pending_id, None)
            ticket.settled.set()
        ticket.wake()
        self.channel.show(ticket)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _fingerprint(pending: Pending) -> str:
    """Return its fingerprint; empty if code put something into it that has none."""
    try:
        return pending.fingerprint
    except ContentError:
        return ""


def _asks_the_same(one: Pending, other: Pending) -> bool:
    """Return True if two pendings, whose identity is the same, are one question of one asker."""
    is_open = one.status is PendingStatus.PENDING and one.deciding_thread is None
    return (
        is_open and one.operation == other.operation and _asker(one) == _asker(other) and one.repeats(other)
    )


def _asker(one: Pending | StoredPending) -> tuple[str, str | None, str]:
    """Return who asks, and on which branch: each run is one, as it waits for its own answer."""
    by = one.triggered_by or ""
    return one.actor, one.branch, by if by.startswith(RUN) else ""


def _is_left(stored: StoredPending, other: Pending) -> bool:
    """Return True if the same question lies in the store, and its process cannot, or need not, go on with it."""
    if (stored.status, stored.operation, _asker(stored)) != (_PENDING, other.operation, _asker(other)):
        return False
    is_ours = stored.origin == this_process() or has_ended(stored.origin)
    return (is_ours or other.resumable) and other.repeats(stored)


def _outcome(ticket: Ticket) -> Decision:
    decided = ticket.pending.decision
    return decided or Decision(ticket.status.value, {}, "store", ticket.request.fingerprint)
