"""A call of an agent that runs on an outside agent: its turn, within the budget as far as it can be measured."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.loop import ReplyStored, RequestBegan
from tract_jupyter.models import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.agents.registry import AgentCall
    from tract_jupyter.concurrency import StopSignal
    from tract_jupyter.loop import TurnEvent, TurnMeter
    from tract_jupyter.models import ChatResponse

CONTINUE: Final = "Continue with your task."
"""The message that resumes a call."""


class OutsideBudget:
    """Stops the turn of an outside agent at a limit of steps, calls or seconds.

    Steps and calls are the ones that the agent reports.

    Args:
        meter: counts them.
        stop: the signal of the turn.
        notify: gets each event.

    Attributes:
        why: the limit that ended the turn; empty for none.
    """

    def __init__(self, meter: TurnMeter, stop: StopSignal, notify: Callable[[TurnEvent], object]) -> None:
        self.why = ""
        self._meter = meter
        self._stop = stop
        self._notify = notify

    def run(self, tract: Any, runtime: str, text: str, call: AgentCall) -> ChatResponse:
        """Let the outside agent work on a message in the tract of the call.

        Raises:
            TractError: see `Tract.chat`.
        """
        seconds = call.limits.seconds
        timer = None if seconds is None else threading.Timer(max(seconds, 0), self._end, [_late(seconds)])
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            response: ChatResponse = tract.chat(
                text, agent=runtime, attachments=list(call.attachments), on_turn=self._take
            )
        finally:
            if timer is not None:
                timer.cancel()
        return response

    def _take(self, event: TurnEvent) -> None:
        if isinstance(event, RequestBegan):
            self._end(self._meter.why_no_request())
        elif isinstance(event, ReplyStored):
            self._meter.add_request(event.model, event.usage, 0)
            for _ in event.calls:
                self._end(self._meter.take_call())
        self._notify(event)

    def _end(self, why: str) -> None:
        if why and not self._stop.is_set():
            self.why = why
            self._stop.set(why)


def _late(seconds: float) -> str:
    return f"the limit of {counted(round(seconds), 'second')} of this turn is reached"
