"""A call of an agent that runs on an outside agent: its turn, its granted tools, and its budget.

The budget holds as far as it can be measured. The granted tools are served to the outside agent over MCP.
"""

from __future__ import annotations

import contextvars
import secrets
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal

from tract_jupyter.concurrency import HEARTBEAT
from tract_jupyter.loop import ReplyStored, RequestBegan
from tract_jupyter.models import counted
from tract_jupyter.prompts import not_run
from tract_jupyter.review import pausing
from tract_jupyter.toolkit import CallNotes, changed_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tract_jupyter.agents.registry import AgentCall
    from tract_jupyter.concurrency import StopSignal
    from tract_jupyter.loop import TurnEvent, TurnMeter
    from tract_jupyter.models import ChatResponse
    from tract_jupyter.operations import Operations
    from tract_jupyter.review import Reviewer
    from tract_jupyter.toolkit import HttpServer, McpService, ServerAddress, ToolProfile, Toolset

CONTINUE: Final = "Continue with your task."
"""The message that resumes a call."""


class OutsideBudget:
    """Stops the turn of an outside agent at a limit of steps, calls or seconds.

    Steps and calls are the ones that the agent reports. If it calls granted tools without a report, these calls count.

    Attributes:
        why: the limit that ended the turn; empty for none.
    """

    def __init__(self, meter: TurnMeter, stop: StopSignal, notify: Callable[[TurnEvent], object]) -> None:
        self.why = ""
        self._reported = self._served = 0
        self._lock = threading.Lock()
        self._meter = meter
        self._stop = stop
        self._notify = notify

    def run(self, tract: Any, runtime: str, text: str, call: AgentCall) -> ChatResponse:
        """Let the outside agent work on a message in the tract of the call."""
        with pausing(self._meter.waiting), self._timed():
            response: ChatResponse = tract.chat(
                text, agent=runtime, attachments=list(call.attachments), on_turn=self._take
            )
        return response

    @contextmanager
    def _timed(self) -> Iterator[None]:
        """End the turn at its limit of seconds. The clock pauses while the user decides."""
        seconds, is_over = self._meter.limits.seconds, threading.Event()

        def watch(limit: float) -> None:
            while not is_over.wait(max(self._meter.seconds_left or 0.0, HEARTBEAT)):
                if not self._meter.seconds_left:
                    self._end(_late(limit))
                    return

        if seconds is not None:
            threading.Thread(target=watch, args=[seconds], name="tract-agent-limit", daemon=True).start()
        try:
            yield
        finally:
            is_over.set()

    def _take(self, event: TurnEvent) -> None:
        if isinstance(event, RequestBegan):
            self._end(self._meter.why_no_request())
        elif isinstance(event, ReplyStored):
            self._meter.add_request(event.model, event.usage, 0)
            for _ in event.calls:
                self._end(self._count(reported=1))
        self._notify(event)

    def take_served(self) -> str:
        """Count a call of a granted tool, and return the reason if it may not run."""
        if self._stop.is_set():
            return not_run(self._stop.reason)
        why = self._count(served=1)
        self._end(why)
        return not_run(why) if why else ""

    def notes(self) -> CallNotes:
        """Return the notes of a call of a granted tool."""
        return CallNotes(meter=self._meter, stop=self._stop)

    def _count(self, *, reported: int = 0, served: int = 0) -> str:
        """Count a call once, although it is both reported and served. Return the limit that it exceeds."""
        with self._lock:
            before = max(self._reported, self._served)
            self._reported, self._served = self._reported + reported, self._served + served
            is_more = max(self._reported, self._served) > before
        return self._meter.take_call() if is_more else ""

    def _end(self, why: str) -> None:
        if why and not self._stop.is_set():
            self.why = why
            self._stop.set(why)


class GrantedTools:
    """The granted tools of a call, as an MCP server for its outside agent: `start`, `stop`."""

    def __init__(self, tract: Any, toolset: Toolset, budget: OutsideBudget) -> None:
        self._tract = tract
        self._toolset = toolset
        self._budget = budget
        self._server: HttpServer | None = None
        self._name = f"tools_{secrets.token_hex(4)}"

    def start(self) -> ServerAddress:
        """Start to serve in the context of the caller, and return the address."""
        from tract_jupyter.toolkit import HttpServer

        with changed_context(take_call=self._budget.take_served):
            context = contextvars.copy_context()
        self._server = HttpServer(lambda: self._service(context), secrets.token_urlsafe(32))
        self._server.start()
        return self._server.address(self._name)

    def stop(self) -> None:
        """End the server."""
        if self._server is not None:
            self._server.stop()

    def _service(self, context: contextvars.Context) -> McpService:
        from tract_jupyter.toolkit import McpService, Surroundings

        surroundings = Surroundings(context.copy, notes=self._budget.notes, has_inbox=False)
        return McpService(self, self._toolset.profile, None, surroundings)

    # --- for the server

    @property
    def location(self) -> str:
        """The path or URL of the store."""
        return str(self._tract.location)

    @property
    def operations(self) -> Operations:
        """The dynamic operations of the tract."""
        operations: Operations = self._tract.operations
        return operations

    @property
    def reviewer(self) -> Reviewer:
        """The reviewer of the tract."""
        reviewer: Reviewer = self._tract.reviewer
        return reviewer

    def toolset(self, profile: str | ToolProfile, *, actor: str = "") -> Toolset:  # noqa: ARG002 # the call's own
        """Return the granted tools. The client's own name does not count."""
        return self._toolset

    def as_tools(self, profile: str | ToolProfile, *, format: Literal["mcp"]) -> list[dict[str, Any]]:  # noqa: A002, ARG002
        """Return the granted tools in MCP's format."""
        return self._toolset.schemas(format)


def _late(seconds: float) -> str:
    return f"the limit of {counted(round(seconds), 'second')} of this turn is reached"
