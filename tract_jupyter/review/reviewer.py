"""Asks the user about pendings, and carries out the answers.

`show` displays a request and returns; a later click carries out the answer. `decide` awaits the answer, and
`decide_now` blocks for it. All three share one ticket per request: the first answer of a round decides. The reviewer
also notices decisions of other processes, and carries them out here.
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
from tract_jupyter.review.answers import capturing, check_wait, dispatch, paused, replay
from tract_jupyter.review.channel import Channel, Ticket
from tract_jupyter.review.decision import Answer, Decision, deciding, without_grant
from tract_jupyter.review.gate import BUSY
from tract_jupyter.review.pending import client_left_note
from tract_jupyter.review.process import has_ended, this_process
from tract_jupyter.review.records import RUN, is_waited_for
from tract_jupyter.review.request import how_to_decide
from tract_jupyter.storage import protected_context, uninterrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tract_jupyter.review.decision import DecisionContext
    from tract_jupyter.review.gate import Gate
    from tract_jupyter.review.grants import Grants
    from tract_jupyter.review.ledger import Ledger
    from tract_jupyter.review.pending import Pending
    from tract_jupyter.storage import StoredPending

    Asked = TypeVar("Asked", bound=Pending)

_STORE_POLL_SECONDS = 0.5
_FEW = 64  # kept pendings before the first removal of decided ones
_PENDING = PendingStatus.PENDING.value
_LEFT: Final = "The page was closed, so the cell that asked this has ended. Decide here, then run it again."
_RUNS_ELSEWHERE = "Another process carries out a decision. If it does not end, use '%tract inbox'."
_LEASE_SECONDS = 6.0  # a waiting process renews its lease within this time
_RULES = frozenset({"handler", "model"})  # channels without a user and without the user's code


class _ThreadSleep:
    """The sleep of a thread that waits for answers. It uses a queue in C, which an interrupt cannot damage."""

    def __init__(self) -> None:
        self._came: SimpleQueue[None] = SimpleQueue()

    def end(self) -> None:
        """End the sleep, or the next one. Called in any thread."""
        self._came.put(None)

    def begin(self, seconds: float) -> None:
        """Sleep until the timeout expires or `end` is called."""
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
        """Sleep until the timeout expires or `end` is called."""
        await asyncio.wait({self._came}, timeout=seconds)
        if self._came.done():
            self._came = self._loop.create_future()


class Reviewer:
    """Shows pendings to the user, and carries out the answers. Nothing else asks a user.

    Attributes:
        channel: reaches the user. A notebook sets its own.
        timeout: seconds to wait for a decision if the pending sets no limit; None for no limit.
        on_timeout: the effect of that limit: see `Pending`.
        ledger: stores requests and decisions.
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

    # --- without asking

    def granted(self, pending: Pending) -> bool:
        """Approve a pending that an earlier approval covers.

        The earlier approval is a standing approval, or the approval of a cell whose kernel ended before the cell ran.
        If a handler would decide first but is not approved here, no earlier approval applies.
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
        """Use an approval of the same request that was never carried out. False if there is none."""
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
        """Put a pending into the inbox without showing it. `unshown`: code created it, and no user has seen it yet."""
        pending.is_unshown = unshown
        self.ledger.ask(pending, pending.review_request())
        with self._lock:
            if (
                len(self._kept) >= self._most_kept
            ):  # remove decided pendings each time that the number doubles
                self._kept = {key: request for key, request in self._kept.items() if request.status.is_open}
                self._most_kept = 2 * len(self._kept) + _FEW
            self._kept[pending.pending_id] = pending

    def find_duplicate(self, pending: Asked) -> Asked | None:
        """Return the identical open request of the same actor, or None.

        A request that a user is deciding now, or that has a time limit, belongs to its caller and never matches.
        If a process has ended and left an identical request, `pending` takes over its id and is not a duplicate.
        The same holds for a request elsewhere that any process can carry out.
        """
        duplicate = self._find(pending)
        return None if duplicate is pending else duplicate

    @protected_context
    def claim(self, pending: Asked) -> Iterator[Asked]:
        """Yield the request to ask: the open duplicate, or `pending`. No other code can claim it within the block.

        Use it for work that each caller does once, such as a call. If two callers waited for one request, both would
        do the work.
        """
        can_wait = self.channel.can_reach() and not self.ledger.in_transaction
        claimed = {pending.pending_id}
        self._try_claim(pending.pending_id)  # before other code can find the request
        try:
            duplicate = self._find(pending, claims=True, wait=_LEASE_SECONDS if can_wait else 0)
            request = duplicate or pending
            claimed.add(request.pending_id)
            self._move_to_current_cell(request.pending_id)
            yield request
        finally:
            with self._lock:
                self._claimed -= claimed

    def _find(self, pending: Asked, *, claims: bool = False, wait: float = 0) -> Asked | None:
        """Return the open duplicate, or `pending` if it took over the duplicate's id.

        With `claims`, it keeps the claim on the result, with a lease of `wait` seconds.
        """
        if pending.expires_at is not None:
            return None
        for stored in self.ledger.same(pending):
            if is_waited_for(stored) or not self._try_claim(stored.pending_id):
                continue
            match = None
            try:
                match = self._join(pending, stored, claims=claims, wait=wait)
            finally:
                if match is None or not claims:
                    with self._lock:
                        self._claimed.discard(stored.pending_id)
            if match is not None:
                return match
        return None

    def _try_claim(self, pending_id: str) -> bool:
        """Claim a request. False if code of this process waits for it, or is about to."""
        with self._lock:
            ticket = self._tickets.get(pending_id)
            if pending_id in self._claimed or (ticket is not None and ticket.waiting):
                return False
            self._claimed.add(pending_id)
        return True

    def _join(self, pending: Asked, stored: StoredPending, *, claims: bool, wait: float) -> Asked | None:
        # identical requests have the same class
        open_here = cast("Asked | None", self.asked_here(stored.pending_id))
        if open_here is not None and open_here.origin is None and not pending.is_renewed:
            if open_here is pending or not _asks_the_same(open_here, pending):
                return None
            is_limited = open_here.expires_at is not None
            limit = (open_here.timeout, open_here.on_timeout)
            if is_limited and limit != (self.timeout, self.on_timeout):
                return None
            # a time limit starts again, and no other tract of this process takes over a claimed request
            must_take_over = claims or is_limited
            is_ours = not must_take_over or self.ledger.take_over(open_here, stored, wait=wait)
            return open_here if is_ours else None
        is_orphaned = (
            open_here is not pending and _is_orphaned(stored, pending) and self.ledger.vouches(stored)
        )
        if not is_orphaned or not self.ledger.take_over(pending, stored, wait=wait):
            return None
        self._move_to_current_cell(pending.pending_id)
        with self._lock:
            self._tickets.pop(pending.pending_id, None)
            self._kept.pop(pending.pending_id, None)
        return pending

    def _move_to_current_cell(self, pending_id: str) -> None:
        """Show a request that is on display in the current cell the next time."""
        with self._lock:
            ticket = self._tickets.get(pending_id)
        if ticket is not None and ticket.is_shown:
            self.channel.forget(ticket)
            ticket.is_shown = False

    def asked_here(self, pending_id: str) -> Pending | None:
        """Return the open pending of this process with that id, or None."""
        with self._lock:
            ticket, pending = self._tickets.get(pending_id), self._kept.get(pending_id)
        pending = pending if ticket is None else ticket.pending
        return None if pending is None or pending.runs_elsewhere or not pending.status.is_open else pending

    # --- asking

    def show(self, pending: Pending) -> Ticket:
        """Store the request and display it. The first answer decides, now or later.

        A terminal has nothing to click, so it prompts at once; the user may leave the request for later. If no user is
        available, a recorded decision settles it.

        Raises:
            LockFileError: recorded decisions count here, and cannot be read.
            PendingStateError: the pending is already decided.
        """
        ticket = self._ticket(pending)
        self._replay(ticket)
        if self._display(ticket):
            self._prompt_at_once(ticket)
        return ticket

    def show_again(self, pending: Pending) -> Ticket:
        """Display a request of the inbox. A request that is on display moves to the current cell."""
        ticket = self._ticket(pending)
        self.channel.forget(ticket)
        ticket.is_shown = False
        self._display(ticket)
        self._prompt_at_once(ticket)
        return ticket

    async def decide(self, pending: Pending) -> Decision:
        """Ask, wait without blocking the event loop, and return the final decision.

        Raises:
            LockFileError: recorded decisions count here, and cannot be read.
            NobodyToAskError: no user is available, and no decision is recorded. The pending stays in the inbox.
            DecisionTimeoutError: the time limit passed, and `on_timeout` is `stop`.
        """
        __tracebackhide__ = True
        sleep = _TaskSleep()
        with self._waiting(pending, sleep.end) as ticket:
            for delay in self._steps(ticket):
                with paused():
                    await sleep.begin(delay)
        return _outcome(ticket)

    def decide_now(self, pending: Pending) -> Decision:
        """Do what `decide` does, and block this thread until the decision."""
        __tracebackhide__ = True
        sleep = _ThreadSleep()
        with self.channel.interruptible(), self._waiting(pending, sleep.end) as ticket:
            for delay in self._steps(ticket, blocks=_is_main_thread()):
                with paused():
                    sleep.begin(delay)
        return _outcome(ticket)

    def decide_together(self, pendings: Sequence[Pending]) -> tuple[list[Pending], UndecidedError | None]:
        """Ask about several pendings in one list, and block this thread until each is decided.

        Returns:
            The requests in order, with an open duplicate instead of a new request. And the reason if some stay
            undecided; these stay in the inbox.
        """
        __tracebackhide__ = True
        open_error: UndecidedError | None = None
        requests: list[Pending] = []
        sleep = _ThreadSleep()
        with self.channel.interruptible(), ExitStack() as stack:
            waiting: list[Iterator[float]] = []
            with self.channel.together():
                for pending in pendings:
                    requests.append(stack.enter_context(self.claim(pending)))
                    try:
                        ticket = stack.enter_context(self._waiting(requests[-1], sleep.end))
                    except UndecidedError as error:
                        open_error = error
                    else:
                        waiting.append(self._steps(ticket, blocks=_is_main_thread()))
            while waiting:
                for steps in list(waiting):
                    try:
                        next(steps)
                    except StopIteration:
                        waiting.remove(steps)
                    except UndecidedError as error:
                        open_error = error
                        waiting.remove(steps)
                if waiting:
                    with paused():
                        sleep.begin(HEARTBEAT)
        return requests, open_error

    def leave(self, pending: Pending) -> None:
        """Keep an open request for the identical call, because the client that asked has left.

        A later approval runs nothing. The identical call uses it.
        """
        with self._lock:
            ticket = self._tickets.get(pending.pending_id)
        if ticket is None or ticket.answered or not pending.status.is_open:
            return
        pending.runs_elsewhere = True
        self._finish_round(ticket, client_left_note(pending.actor))

    def catch_up(self, pending: Pending) -> str:
        """Apply decisions of other processes; see `Gate.catch_up`."""
        return self._gate.catch_up(pending)

    def open_ticket(self, pending: Pending) -> Ticket:
        """Store the request if necessary, and return its ticket without showing it.

        If code has changed the pending since its display, the ticket has a new round.
        """
        ticket = self._ticket(pending)
        with ticket.hold() as free:
            is_idle = free and ticket.status.is_open and not ticket.answered
            if is_idle and _fingerprint(ticket.pending) != ticket.request.fingerprint:
                ticket.new_round()
        return ticket

    def answer(self, ticket: Ticket, answer: Answer, channel: str) -> bool:
        """Take an answer and carry it out before returning. False if it came too late."""
        with uninterrupted():  # carried out here, not in a separate task
            ticket.waiting += 1
            try:
                is_accepted = ticket.submit(answer, channel)
            finally:
                ticket.waiting -= 1
            self.carry_out(ticket)
        return is_accepted

    def ask_by_typing(self, ticket: Ticket) -> bool:
        """Prompt until the user decides or leaves the request for later. False if the front end takes no input."""
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
        """Carry out the answer of a ticket, if it has one that no other thread took."""
        with uninterrupted():  # the approved action itself can be interrupted
            submitted = ticket.take()
            if submitted is None:
                return
            note = "Interrupted before it ended."
            try:
                note = dispatch(ticket, *submitted)
            finally:
                self._finish_round(ticket, note)

    # ---

    def _check_code(self, pending: Pending, how: DecisionContext) -> None:
        if pending.unguarded and how.channel in _RULES:
            raise CodeDecisionError(
                f"no handler and no model approves {pending.title!r}. {pending.unguarded}"
            )
        ticket = self._tickets.get(pending.pending_id)  # without the lock, which the displaying thread holds
        is_shown = (
            ticket is not None and ticket.is_shown and ticket.request.fingerprint == pending.fingerprint
        )
        why_not = self.channel.refuses_code(pending, was_shown=how.was_shown or is_shown)
        if why_not:
            raise CodeDecisionError(why_not)

    def _ticket(self, pending: Pending, wait: float = 0) -> Ticket:
        """Return the ticket of a pending. Two threads that ask about one pending share it.

        It stores the request before it takes the lock, because a thread that holds a store in memory may want the lock.
        """
        ticket = self._known_ticket(pending)
        if ticket is not None:
            return ticket
        if not pending.status.is_open:
            raise PendingStateError(f"{pending!r} is already decided")
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
            return None  # the process that waited has ended, so this one can carry it out
        return ticket

    def _display(self, ticket: Ticket) -> bool:
        with self._lock:
            if ticket.is_shown:
                return False
            self.channel.show(ticket)
            ticket.is_shown = True
            if not self._is_watching:
                self._is_watching = self.channel.watch(self._look)
            return True

    def _replay(self, ticket: Ticket) -> str:
        """Apply recorded decisions, if they count here. Return why the request is still open, and the remedy."""
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
        """Use an approval of the same request that came while this one was being stored."""
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

    @protected_context
    def _waiting(self, pending: Pending, wake: Callable[[], object]) -> Iterator[Ticket]:
        """Show a request, and yield its ticket to the code that waits. `wake` is called if there is an answer."""
        can_wait = self.channel.can_reach() and not self.ledger.in_transaction
        ticket = self._ticket(pending, wait=_LEASE_SECONDS if can_wait else 0)
        why_not = self._replay(ticket)
        self._catch_up_before(ticket)
        if self.ledger.in_transaction and not ticket.settled.is_set():
            raise UndecidedError(
                f"{pending.title!r} needs a decision, but batch() blocks other writers, so it cannot wait. "
                "Ask before or after the batch", pending
            )  # fmt: skip
        if not self.channel.can_reach() and not ticket.settled.is_set():
            others = f". {pending.not_granted.rstrip('.')}" if pending.not_granted else ""
            raise NobodyToAskError(
                f"{pending.title!r} needs a decision, but no user is available here (no panel, no input). It waits in "
                f"the inbox: '%tract inbox' in a notebook on this store shows it, and "
                f"'{how_to_decide(pending.pending_id)}' decides it{why_not}{others}", pending
            )  # fmt: skip
        ticket.waiting += 1
        ticket.wakes.append(wake)
        rounds = pending.rounds
        try:
            with paused():
                self._display(ticket)
            yield ticket
        except (KeyboardInterrupt, asyncio.CancelledError) as error:
            if pending.rounds == rounds:
                line = f"Interrupted: {ticket.request.title!r} waits. {how_to_decide(pending.pending_id)} decides it."
                in_one_line(error, line, with_code=isinstance(error, KeyboardInterrupt))
            raise
        finally:
            ticket.waiting -= 1
            ticket.wakes.remove(wake)
            if not ticket.settled.is_set():
                self.ledger.wait(pending.pending_id, 0)
            if ticket.answered:  # the wait was interrupted after the click
                self._on_answer(ticket)

    def _steps(self, ticket: Ticket, *, blocks: bool = False) -> Iterator[float]:
        """Do the due work and yield the seconds to sleep, until the request is settled.

        With `blocks`, the kernel's main thread sleeps. The kernel cannot serve a reopened page then, so closing the
        page ends the wait.
        """
        started = polled = leased = time.monotonic()
        self.ledger.wait(ticket.pending.pending_id, _LEASE_SECONDS)
        while not ticket.settled.is_set():
            check_wait()
            self.carry_out(ticket)
            now = time.monotonic()
            if blocks and not ticket.settled.is_set() and self.channel.is_left(ticket):
                self._end_wait(ticket)
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

    def _end_wait(self, ticket: Ticket) -> None:
        how = how_to_decide(ticket.pending.pending_id)
        self._finish_round(ticket, _LEFT)
        raise NobodyToAskError(
            f"{ticket.request.title!r} needs a decision, and the page that showed it was closed. Decide it with "
            f"'%tract inbox' or '{how}', in this notebook or in another one on this store. Then run the cell again",
            ticket.pending,
        )

    def _prompt(self, ticket: Ticket, started: float) -> None:
        """Prompt until the user answers, a panel appears, another process decides, or the timeout expires."""
        changed = self._prompt_watch(ticket)
        timeout = ticket.pending.timeout

        def is_over() -> bool:
            waited = time.monotonic() - started
            is_late = timeout is not None and waited >= timeout
            return is_late or self.channel.panel_may_answer(ticket, waited) or changed()

        with paused():
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
        pending = ticket.pending
        if pending.timeout is None or waited < pending.timeout or ticket.settled.is_set():
            return
        if pending.on_timeout == "stop":
            raise DecisionTimeoutError(
                f"no decision about {pending.title!r} within {pending.timeout:g} s, so the wait ended. It stays in "
                "'%tract inbox'", pending
            )  # fmt: skip
        if pending.on_timeout == "deny":
            with ticket.hold() as free, capturing(ticket):
                outcome = self._expired(pending) if free else BUSY
            if outcome != BUSY:
                note = f"In another process: {outcome}."
                self._finish_round(ticket, note if outcome else f"No decision within {pending.timeout:g} s.")

    def _expired(self, pending: Pending) -> str:
        try:
            return self._gate.expire(pending)
        except DecidedFirstError:
            return BUSY  # in this process; the wait ends with that

    def _look(self) -> bool:
        """Check the store for decisions about displayed requests. True while requests are on display."""
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
        """Apply a decision of another process or of code. Skips a request that this process is carrying out."""
        pending = ticket.pending
        with ticket.hold() as free, capturing(ticket):
            if not free or ticket.settled.is_set() or pending.deciding_thread is not None:
                return
            outcome = self._gate.catch_up(pending) if ticket.status.is_open else ""
        if outcome == BUSY:
            if ticket.request.note != _RUNS_ELSEWHERE:
                self._finish_round(ticket, _RUNS_ELSEWHERE)
        elif outcome:
            self._finish_round(ticket, f"In another process: {outcome}.")
        elif not outcome and not ticket.status.is_open:
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
    """Return the fingerprint; empty if code put a value without JSON form into the fields."""
    try:
        return pending.fingerprint
    except ContentError:
        return ""


def _asks_the_same(first: Pending, second: Pending) -> bool:
    """Return True if two pendings with the same identity are one request of one actor."""
    is_open = first.status is PendingStatus.PENDING and first.deciding_thread is None
    return (
        is_open
        and first.operation == second.operation
        and _origin_key(first) == _origin_key(second)
        and first.repeats(second)
    )


def _origin_key(pending: Pending | StoredPending) -> tuple[str, str | None, str]:
    """Return the actor and the branch. Each run counts separately, because it waits for its answer."""
    by = pending.triggered_by or ""
    return pending.actor, pending.branch, by if by.startswith(RUN) else ""


def _is_orphaned(stored: StoredPending, other: Pending) -> bool:
    """Return True if an identical stored request has no live process, or any process can carry it out."""
    if (stored.status, stored.operation, _origin_key(stored)) != (
        _PENDING,
        other.operation,
        _origin_key(other),
    ):
        return False
    is_ours = stored.origin == this_process() or has_ended(stored.origin)
    return (is_ours or other.resumable) and other.repeats(stored)


def _outcome(ticket: Ticket) -> Decision:
    decided = ticket.pending.decision
    return decided or Decision(ticket.status.value, {}, "store", ticket.request.fingerprint)
