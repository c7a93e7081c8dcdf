"""A person made of code."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from tract_jupyter.review import Answer, Channel, never

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.review import RecordedDecisions, ReviewRequest, Ticket


def click(ticket: Ticket, action: str, **arguments: Any) -> bool:
    """Press a button of what is on display now."""
    return ticket.submit(Answer(action, arguments, ticket.round_id), "fake")


def answering(answer: str | dict[str, Any]) -> Callable[[Ticket], object]:
    """Have a person approve, approve with changed arguments, or reject with that reason."""

    def press(ticket: Ticket) -> None:
        if answer == "approve":
            click(ticket, "approve")
        elif isinstance(answer, dict):
            click(ticket, "approve", edits=answer)
        else:
            click(ticket, "reject", reason=answer)

    return press


class FakeChannel(Channel):
    """Shows requests to a list. Each `step` is called with the ticket at one showing that can be answered."""

    name = "fake"

    def __init__(
        self, *steps: Callable[[Ticket], object], reachable: bool = True, ready: bool = True
    ) -> None:
        self.steps = deque(steps)
        self.reachable, self.ready = reachable, ready
        self.prompts: deque[tuple[str, dict[str, Any]] | None] = deque()
        self.shown: list[tuple[ReviewRequest, str]] = []
        self.forgotten: list[str] = []
        self.due: list[Callable[[], None]] = []
        self.looks: list[Callable[[], bool]] = []
        self.lock: RecordedDecisions | None = None
        self.left = False

    def can_reach(self) -> bool:
        return self.reachable

    def recorded(self) -> RecordedDecisions | None:
        return self.lock

    def show(self, ticket: Ticket) -> None:
        self.shown.append((ticket.request, ticket.status.value))
        if ticket.status.is_open and self.steps:
            self.steps.popleft()(ticket)

    def forget(self, ticket: Ticket) -> None:
        self.forgotten.append(ticket.pending.pending_id)

    def panel_may_answer(self, ticket: Ticket, waited: float) -> bool:
        return self.ready

    def is_left(self, ticket: Ticket) -> bool:
        return self.left

    def prompt(self, ticket: Ticket, *, may_wait: bool = False, is_over=never) -> Answer | None:
        answer = self.prompts.popleft()
        return None if answer is None else Answer(*answer, ticket.round_id)

    def later(self, ticket: Ticket, run: Callable[[], None]) -> None:
        self.due.append(run)

    def watch(self, look: Callable[[], bool]) -> bool:
        self.looks.append(look)
        return True

    def look(self) -> None:
        """What an idle kernel does now and then."""
        self.looks = [look for look in self.looks if look()]

    async def until_shown(self) -> None:
        """Let the event loop go on until a request is on display."""
        while not self.shown:  # noqa: ASYNC110 # nothing here may know of the event loop
            await asyncio.sleep(0)

    def run_due(self) -> None:
        """What the kernel's loop does between cells."""
        while self.due:
            self.due.pop(0)()

    @property
    def notes(self) -> list[str]:
        return [request.note for request, _ in self.shown]
