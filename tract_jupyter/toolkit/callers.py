"""Permission to call a tool, and who calls it: a person's own code, or a script.

A person's own cell is not asked to approve what was just typed. What a model wrote is asked about, unless the tool only
reads. A script's calls are its own, whichever `tools` its code uses: `ToolBridge` asks for `current_caller`.
"""

from __future__ import annotations

import sys
import threading
from contextlib import nullcontext
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from tract_jupyter.prompts import SCRIPT_ENDED
from tract_jupyter.storage import whole_context
from tract_jupyter.toolkit.results import ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from types import FrameType

    from tract_jupyter.concurrency import StopSignal
    from tract_jupyter.toolkit.definitions import ToolDefinition
    from tract_jupyter.toolkit.profiles import ToolProfile


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


_caller: ContextVar[Caller | None] = ContextVar("_caller", default=None)
_profile: ContextVar[ToolProfile | None] = ContextVar("_profile", default=None)
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
    caller, thread = _caller.get(), threading.current_thread()
    if caller is not None or thread is threading.main_thread():
        return caller
    filename = _script_on_stack()
    for running in reversed(_running):
        if running.caller.filename == filename if filename else running.has_started(thread, executor):
            return running.caller
    return _EndedScript(filename) if filename else None


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
    before = set_caller(caller)
    try:
        yield
    finally:
        reset_caller(before)
        _running.remove(running)


def set_caller(caller: Caller) -> Token[Caller | None]:
    """Ask the questions of this thread or task on behalf of a script, until `reset_caller`."""
    return _caller.set(caller)


def reset_caller(before: Token[Caller | None]) -> None:
    """Ask the questions of this thread or task as before `set_caller`."""
    _caller.reset(before)


def question(tool: ToolDefinition, values: dict[str, Any]) -> Any:
    """Return the current script's own question about a call; None for the usual one."""
    caller = _caller.get()  # a toolset's own call in another thread does not belong to the script
    return None if caller is None else caller.question(tool, values)


def waiting(pending: Any) -> AbstractContextManager[None]:
    """Stop the clock of the calling script, if any, while a person is asked."""
    note_question(pending)
    caller = _caller.get()
    return nullcontext() if caller is None else caller.waiting(pending)


def note_question(pending: Any) -> None:
    """Note that a person is asked within the call that is made."""
    notes = _notes.get()
    if notes is not None:
        notes.asked.append(pending)


@dataclass(eq=False)
class CallNotes:
    """What is noted of one call while it is made.

    Attributes:
        asked: the pendings that a person was asked within it.
        script: what its script did, as `ScriptResult.to_note`; None if it ran none.
        meter: the `loop.TurnMeter` of the turn that makes it; None if no turn does.
        stop: ends that turn.
        is_again: whether it may have been made before, and a person said that it is made again.
        doubt: the reason to ask the user although the call was allowed before; empty if there is none. A tool that
            `asks_always` shows it in its own request.
        among: how many calls are made side by side with it, itself included.
        model: the model that makes it, as its provider calls it; empty if none does.
        is_left: whether the turn was stopped and no longer waits for the end of the call.
    """

    asked: list[Any] = field(default_factory=list)
    script: dict[str, Any] | None = None
    meter: Any = None
    stop: StopSignal | None = None
    is_again: bool = False
    doubt: str = ""
    among: int = 1
    model: str = ""
    is_left: bool = False


_notes: ContextVar[CallNotes | None] = ContextVar("_notes", default=None)


@whole_context
def noting(notes: CallNotes) -> Iterator[None]:
    """Have what is worth telling of a call within this noted there."""
    token = _notes.set(notes)
    try:
        yield
    finally:
        _notes.reset(token)


def call_notes() -> CallNotes | None:
    """Return where to note what is worth telling of the call that is made; None if nobody wants to know."""
    return _notes.get()


_allowance: ContextVar[Callable[[], str] | None] = ContextVar("_allowance", default=None)


@whole_context
def allowing(take: Callable[[], str]) -> Iterator[None]:
    """Have `take` asked before each tool call within this, also before those that scripts make.

    Args:
        take: counts the call, and returns why it may not be made; empty if it may.
    """
    token = _allowance.set(take)
    try:
        yield
    finally:
        _allowance.reset(token)


def not_allowed() -> str:
    """Count a tool call, and return why it may not be made; empty if it may."""
    take = _allowance.get()
    return "" if take is None else take()


_planned: ContextVar[tuple[str, ...]] = ContextVar("_planned", default=())


def planned_before() -> tuple[str, ...]:
    """Return the tools of the calls that a model made in the same answer, before the one that is prepared now."""
    return _planned.get()


@whole_context
def planning(tools: tuple[str, ...]) -> Iterator[None]:
    """Have `planned_before` return these within this."""
    token = _planned.set(tools)
    try:
        yield
    finally:
        _planned.reset(token)


_executor: ContextVar[Any] = ContextVar("_executor", default=None)


def current_executor() -> Any:
    """Return the executor that makes the call which this runs in: the innermost; None if none does."""
    return _executor.get()


@whole_context
def made_by(executor: Any) -> Iterator[None]:
    """Have `current_executor` return an executor within this."""
    token = _executor.set(executor)
    try:
        yield
    finally:
        _executor.reset(token)


def current_profile() -> ToolProfile | None:
    """Return the profile that the caller is bound to; what it runs is bound to it, too."""
    return _profile.get()


@whole_context
def bound_to(profile: ToolProfile) -> Iterator[None]:
    """Bind what runs within this to a profile."""
    token = _profile.set(profile)
    try:
        yield
    finally:
        _profile.reset(token)
