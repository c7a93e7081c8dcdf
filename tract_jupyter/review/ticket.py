"""One pending in the hands of a channel.

A ticket goes through rounds. Each round shows one request and takes one answer, the first. An action may leave the
pending open (it only changed a field, or it raised); then the next round shows how things stand now.
"""

from __future__ import annotations

import secrets
import threading
from typing import TYPE_CHECKING

from tract_jupyter.review.display import needed_pieces
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
        self.refused = 0
        """How many answers in a row came to nothing."""
        self._lock = threading.Lock()
        self._answer: tuple[Answer, str] | None = None
        self._held = False
        self.request: ReviewRequest = pending.review_request()
        self.round_id = secrets.token_hex(8)
        self.decided: list[tuple[ReviewRequest, Decision]] = []
        """What was decided so far, each with the showing that it was about."""
        self._known = pending.decision
        self._needed: tuple[str, frozenset[str]] = ("", frozenset())

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

    def is_asking(self, round_id: str) -> bool:
        """Whether that round is the present one, and has no answer yet."""
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
