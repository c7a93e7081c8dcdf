"""Permission to call a tool, and who calls it: a person's own code, or a script.

A person's own cell is not asked to approve what was just typed. What a model wrote is asked about, unless the tool only
reads. A script's calls are its own, whichever `tools` its code uses: `ToolBridge` asks for `current_caller`.
"""

from __future__ import annotations

import sys
import threading
from contextlib import nullcontext
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from tract_jupyter.prompts import SCRIPT_ENDED
from tract_jupyter.storage import whole_context
from tract_jupyter.toolkit.ambient import call_context, reset_context, set_context
from tract_jupyter.toolkit.results import ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from types import FrameType

    from tract_jupyter.toolkit.definitions import ToolDefinition


USER = "user"
"""The actor of a person's own code."""
CHAT = "agent:chat"
"""The actor of what the model of a chat calls, in a tract that stands below no other one."""
AGENT = "agent"
"""The actor of what a model calls, if nothing else is known about it."""


class Permission(StrEnum):
    """The permission that an actor has for a call."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


PermissionOf: TypeAlias = "Callable[[ToolDefinition, str], Permission]"
"""A function that says whether an actor may call a tool."""


def default_permission(tool: ToolDefinition, actor: str) -> Permission:
    """Allow the user, all reading, and what asks by itself; ask about the rest."""
    is_free = actor == USER or tool.traits.read_only or tool.asks_itself
    return Permission.ALLOW if is_free else Permission.ASK


class Caller(Protocol):
    """The protocol of a script's caller."""

    actor: str
    filename: str
    """What its code is called in tracebacks; begins with `SCRIPT_FILES`."""

    def execute(self, executor: Any, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Have an executor make a call, if the script may."""
        ...

    def question(self, tool: ToolDefinition, values: dict[str, Any]) -> Any:
        """Return the script's own question about a call; None for the usual one."""
        ...

    def waiting(self, pending: Any) -> AbstractContextManager[None]:
        """Stop the script's clock while a person is asked about one of its calls."""
        ...

    def was_stopped_before(self, thread: threading.Thread) -> bool:
        """Return True if the script was stopped before this thread was started."""
        ...


class Executing(Protocol):
    """The protocol of what carries calls out, as far as it matters here."""

    def stands_below(self, other: object) -> bool:
        """Return True if some of the tools are those of another one."""
        ...


_running: list[_Running] = []
SCRIPT_FILES: Final = "<script:"
"""How the names of scripts' code begin."""


class _Running(NamedTuple):
    """A script that runs, whose tools it calls, and which threads were there before it."""

    caller: Caller
    executor: Executing
    earlier: frozenset[threading.Thread]

    def is_of(self, executor: object) -> bool:
        """Return True if its tools are those of an executor, or some of them."""
        return self.executor is executor or (executor is not None and self.executor.stands_below(executor))

    def has_started(self, thread: threading.Thread, executor: object) -> bool:
        """Return True if it may have started a thread that calls a tool of an executor."""
        is_between = thread not in self.earlier and not self.caller.was_stopped_before(thread)
        return is_between and self.is_of(executor)


class _EndedScript:
    """The caller of a thread that has outlived its script."""

    def __init__(self, filename: str) -> None:
        self.filename = filename
        self.actor = filename.strip("<>")

    def execute(self, executor: Any, name: str, arguments: Mapping[str, Any]) -> ToolResult:  # noqa: ARG002
        """Refuse the call."""
        return ToolResult(name, success=False, error=SCRIPT_ENDED, denied=True)

    def question(self, tool: ToolDefinition, values: dict[str, Any]) -> None:
        """Return None: nothing is asked."""

    def waiting(self, pending: Any) -> AbstractContextManager[None]:  # noqa: ARG002
        """Return a context without effect."""
        return nullcontext()

    def was_stopped_before(self, thread: threading.Thread) -> bool:  # noqa: ARG002
        """Return True: it has ended."""
        return True


def current_caller(executor: object) -> Caller | None:
    """Return the script that this code belongs to, which calls a tool of an executor; None for a person's own code.

    A thread that a script started does not know of it. It is the script's if the script's code is on its stack, also
    after the script has ended; and while the script runs, if it was started since then and calls the same tools, or
    those of a tract above the one that the script runs in. Threads that start after a stop are not the script's,
    although the script may still be in a blocking call.
    """
    caller, thread = call_context().script, threading.current_thread()
    if caller is not None or thread is threading.main_thread():
        return caller
    filename = _script_on_stack()
    for running in reversed(_running):
        if running.caller.filename == filename if filename else running.has_started(thread, executor):
            return running.caller
    return _EndedScript(filename) if filename else None


def runs_for_model(executor: object) -> bool:
    """Return True if this code runs on behalf of a model: in one of its calls, or in a script."""
    return call_context().notes is not None or current_caller(executor) is not None


def _script_on_stack() -> str:
    """Return the name of the innermost script's code on this thread's stack; empty if there is none."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 # the way to a caller's code
    while frame is not None and not frame.f_code.co_filename.startswith(SCRIPT_FILES):
        frame = frame.f_back
    return "" if frame is None else frame.f_code.co_filename


@whole_context
def calling(caller: Caller, executor: Executing) -> Iterator[None]:
    """Count the calls of this thread or task, and of threads that it starts, as a script's."""
    running = _Running(caller, executor, frozenset(threading.enumerate()))
    _running.append(running)
    before = set_context(script=caller)
    try:
        yield
    finally:
        reset_context(before)
        _running.remove(running)


def question(tool: ToolDefinition, values: dict[str, Any]) -> Any:
    """Return the current script's own question about a call; None for the usual one."""
    caller = call_context().script  # a toolset's own call in another thread does not belong to the script
    return None if caller is None else caller.question(tool, values)


def waiting(pending: Any) -> AbstractContextManager[None]:
    """Stop the clock of the calling script, if any, while a person is asked."""
    note_question(pending)
    caller = call_context().script
    return nullcontext() if caller is None else caller.waiting(pending)


def note_question(pending: Any) -> None:
    """Note that a person is asked within the call that is made."""
    notes = call_context().notes
    if notes is not None:
        notes.asked.append(pending)
