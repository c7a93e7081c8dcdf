"""Permissions for tool calls, and the caller of a tool: the user's own code, or a script.

The user's own cell needs no approval. A model's code needs one, unless the tool only reads. A script's calls belong
to the script, no matter which `tools` its code uses: `ToolBridge` reads `current_caller`.
"""

from __future__ import annotations

import sys
import threading
from contextlib import nullcontext
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from tract_jupyter.concurrency import StopSignal, current_stop, stopped_by
from tract_jupyter.prompts import SCRIPT_ENDED, SCRIPT_STOPPED
from tract_jupyter.review import pausing
from tract_jupyter.storage import protected_context
from tract_jupyter.toolkit.ambient import call_context, reset_context, set_context
from tract_jupyter.toolkit.results import ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from types import FrameType

    from tract_jupyter.toolkit.definitions import ToolDefinition
    from tract_jupyter.toolkit.executor import ToolExecutor


USER = "user"
"""The actor of the user's own code."""
AGENT = "agent"
"""The actor of a model's calls, if nothing else is known about the model."""


class Permission(StrEnum):
    """The permission that an actor has for a call."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


PermissionOf: TypeAlias = "Callable[[ToolDefinition, str], Permission]"
"""A function that returns an actor's permission for a tool."""


def default_permission(tool: ToolDefinition, actor: str) -> Permission:
    """Allow the user, tools that only read, and tools that ask by themselves. Ask about all other calls."""
    is_free = actor == USER or tool.traits.read_only or tool.asks_itself
    return Permission.ALLOW if is_free else Permission.ASK


class Caller(Protocol):
    """The protocol of a script's caller."""

    actor: str
    filename: str
    """The name of its code in tracebacks; begins with `SCRIPT_FILES`."""

    def execute(self, executor: Any, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Make a call with an executor, if the script may."""
        ...

    def question(self, tool: ToolDefinition, values: dict[str, Any]) -> Any:
        """Return the script's own request about a call; None for the usual one."""
        ...

    def waiting(self, pending: Any) -> AbstractContextManager[None]:
        """Stop the script's clock while a request about one of its calls is open."""
        ...

    def was_stopped_before(self, thread: threading.Thread) -> bool:
        """Return True if the script was stopped before this thread was started."""
        ...

    def paused(self) -> AbstractContextManager[object]:
        """Stop the script's clock while anything within it waits for the user."""
        ...

    def on_stop(self, stop: Callable[[], object]) -> Callable[[], None]:
        """Call `stop` once when the script is stopped. Return a function that removes it."""
        ...


_running: list[_Running] = []
SCRIPT_FILES: Final = "<script:"
"""The prefix of the file names of script code."""


class _Running(NamedTuple):
    """A running script, its executor, and the threads that existed before it."""

    caller: Caller
    executor: ToolExecutor
    earlier: frozenset[threading.Thread]

    def is_of(self, executor: object) -> bool:
        """Return True if the script uses an executor's tools, directly or from a child tract."""
        return self.executor is executor or (executor is not None and self.executor.descends_from(executor))

    def has_started(self, thread: threading.Thread, executor: object) -> bool:
        """Return True if the script may have started a thread that calls a tool of an executor."""
        is_between = thread not in self.earlier and not self.caller.was_stopped_before(thread)
        return is_between and self.is_of(executor)


class _EndedScript:
    """The caller of a thread that outlived its script."""

    def __init__(self, filename: str) -> None:
        self.filename = filename
        self.actor = filename.strip("<>")

    def execute(self, executor: Any, name: str, arguments: Mapping[str, Any]) -> ToolResult:  # noqa: ARG002
        """Refuse the call."""
        return ToolResult(name, success=False, error=SCRIPT_ENDED, denied=True)

    def question(self, tool: ToolDefinition, values: dict[str, Any]) -> None:
        """Return None: there is no request."""

    def waiting(self, pending: Any) -> AbstractContextManager[None]:  # noqa: ARG002
        """Return a context without effect."""
        return nullcontext()

    def was_stopped_before(self, thread: threading.Thread) -> bool:  # noqa: ARG002
        """Return True: the script has ended."""
        return True

    def paused(self) -> AbstractContextManager[object]:
        """Return a context without effect."""
        return nullcontext()

    def on_stop(self, stop: Callable[[], object]) -> Callable[[], None]:
        """Call `stop`: the script has ended."""
        stop()
        return lambda: None


def current_caller(executor: object) -> Caller | None:
    """Return the script that the running code belongs to; None for the user's own code.

    A thread does not know which script started it. It belongs to a script in two cases:

    * The script's code is on the thread's stack, even if the script has ended.
    * The script still runs, the thread started after the script, and it calls tools of the script's tract or an
      ancestor.

    The thread of a call from outside belongs to no script, unless that call runs one.

    A thread that starts after a stop does not belong to the script, even if the script is still in a blocking call.
    """
    context, thread = call_context(), threading.current_thread()
    caller = context.script
    if caller is not None or thread is threading.main_thread() or context.outside is not None:
        return caller
    filename = _script_on_stack()
    for running in reversed(_running):
        if running.caller.filename == filename if filename else running.has_started(thread, executor):
            return running.caller
    return _EndedScript(filename) if filename else None


def runs_for_model(executor: object) -> bool:
    """Return True if the running code acts for a model: in one of its calls, or in a script."""
    return call_context().notes is not None or current_caller(executor) is not None


def _script_on_stack() -> str:
    """Return the file name of the innermost script on this thread's stack; empty if there is none."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 # needed to find the calling code
    while frame is not None and not frame.f_code.co_filename.startswith(SCRIPT_FILES):
        frame = frame.f_back
    return "" if frame is None else frame.f_code.co_filename


@protected_context
def calling(caller: Caller, executor: ToolExecutor) -> Iterator[None]:
    """Attribute the calls of this thread or task, and of threads that it starts, to a script."""
    running = _Running(caller, executor, frozenset(threading.enumerate()))
    _running.append(running)
    before = set_context(script=caller)
    stop, outer = StopSignal(), current_stop()
    forget = [caller.on_stop(partial(stop.set, SCRIPT_STOPPED)), outer.on_set(lambda: stop.set(outer.reason))]
    try:
        with pausing(caller.paused), stopped_by(stop):
            yield
    finally:
        for one in forget:
            one()
        reset_context(before)
        _running.remove(running)


def question(tool: ToolDefinition, values: dict[str, Any]) -> Any:
    """Return the current script's own request about a call; None for the usual one."""
    caller = call_context().script  # a toolset's own call in another thread does not belong to the script
    return None if caller is None else caller.question(tool, values)


def waiting(pending: Any) -> AbstractContextManager[None]:
    """Stop the clock of the calling script, if any, while a request is open."""
    note_question(pending)
    caller = call_context().script
    return nullcontext() if caller is None else caller.waiting(pending)


def note_question(pending: Any) -> None:
    """Record that the running call has made a request to the user."""
    notes = call_context().notes
    if notes is not None:
        notes.asked.append(pending)
        notes.on_ask(pending)
