"""One pending in the hands of a channel.

A ticket goes through rounds. Each round shows one request and takes one answer, the first. An action may leave the
pending open (it only changed a field, or it raised); then the next round shows how things stand now.
"""

from __future__ import annotations

import secrets
import threading
from typing import TYPE_CHECKING

from tract_jupyter.storage.interrupts import whole_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tract_jupyter.models.pending import PendingStatus
    from tract_jupyter.review.channel import Reviewable
    from tract_jupyter.review.decision import Answer, Decision
    from tract_jupyter.review.request import ReviewRequest


class Ticket:
    """The state that the thread of a callback and the code that waits share.

    Args:
        pending: what is to be decided.
        on_answer: called once a round, from any thread, right after the first answer was taken. It must only hand
            the work on: in a widget's callback nothing may print, display or execute.
    """

    def __init__(self, pending: Reviewable, on_answer: Callable[[Ticket], None]) -> None:
        self.pending = pending
        self.on_answer = on_answer
        self.waiting = 0
        """How many pieces of code wait for the decision; without any, the answer is carried out on its own."""
        self.is_shown = False
        self.settled = threading.Event()
        self.output = ""
        """What the last action printed."""
        self._lock = threading.Lock()
        self._answer: tuple[Answer, str] | None = None
        self._held = False
        self.request: ReviewRequest = pending.review_request()
        self.round_id = secrets.token_hex(8)
        self.decided: list[tuple[ReviewRequest, Decision]] = []
        """What was decided so far, each with the showing that it was about."""
        self._known = pending.decision

    def new_round(self, note: str = "") -> None:
        """Show how things stand now, and take a new answer."""
        decision = self.pending.decision
        if decision is not None and decision is not self._known:
            self.decided.append((self.request, decision))
            self._known = decision
        self.request = self.pending.review_request(note)
        with self._lock:
            self.round_id = secrets.token_hex(8)
            self._answer, self._held = None, False

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
        """Whether this round has its answer."""
        return self._answer is not None

    def submit(self, answer: Answer, channel: str) -> bool:
        """Take an answer from any thread. False if it came too late, or answers another showing."""
        with self._lock:
            if self._answer is not None or self.settled.is_set():
                return False
            if not self.round_id or answer.round_id != self.round_id:
                return False
            if self.request.action(answer.action) is None:
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
