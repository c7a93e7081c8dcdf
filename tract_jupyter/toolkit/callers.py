"""Permission to call a tool, and who calls it: a person's own code, or a script.

A person's own cell is not asked to approve what was just typed. What a model wrote is asked about, unless the tool only
reads. A script's calls are its own, whichever `tools` its code uses: `ToolBridge` asks for `current_caller()`.
"""

from __future__ import annotations

import threading
from contextlib import nullcontext
from contextvars import ContextVar, Token
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from tract_jupyter.storage import whole_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from tract_jupyter.toolkit.definitions import ToolDefinition
    from tract_jupyter.toolkit.profiles import ToolProfile
    from tract_jupyter.toolkit.results import ToolResult


USER = "user"
"""The actor of a person's own code."""
AGENT = "agent"
"""The actor of what a model calls, if nothing else is known about it."""


class Permission(StrEnum):
    """The permission that an actor has for a call."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


def default_permission(tool: ToolDefinition, actor: str) -> Permission:
    """Allow the user, all reading, and what asks by itself; ask about the rest."""
    is_free = actor == USER or tool.traits.read_only or tool.asks_itself
    return Permission.ALLOW if is_free else Permission.ASK


class Caller(Protocol):
    """The protocol of a script's caller."""

    actor: str

    def execute(self, executor: Any, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Have an executor make a call, if the script may."""
        ...

    def question(self, tool: ToolDefinition, values: dict[str, Any]) -> Any:
        """Return the script's own question about a call; None for the usual one."""
        ...

    def waiting(self, pending: Any) -> AbstractContextManager[None]:
        """Stop the script's clock while a person is asked about one of its calls."""
        ...


_caller: ContextVar[Caller | None] = ContextVar("_caller", default=None)
_profile: ContextVar[ToolProfile | None] = ContextVar("_profile", default=None)
_running: list[Caller] = []


def current_caller() -> Caller | None:
    """Return the script that this code belongs to; None for a person's own code.

    A thread that a script started does not know of it: while a script runs, calls of threads count as that script's.
    """
    caller = _caller.get()
    if caller is None and _running and threading.current_thread() is not threading.main_thread():
        return _running[-1]
    return caller


@whole_context
def calling(caller: Caller) -> Iterator[None]:
    """Count the calls of this thread or task, and of threads that it starts, as a script's."""
    _running.append(caller)
    before = set_caller(caller)
    try:
        yield
    finally:
        reset_caller(before)
        _running.remove(caller)


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
    caller = _caller.get()
    return nullcontext() if caller is None else caller.waiting(pending)


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
