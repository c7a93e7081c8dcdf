"""The ambient context of a tool call: its caller, its turn and its rights.

One context variable holds it. A tool or a script therefore calls the functions of a tract without passing it on.
"""

from __future__ import annotations

import threading
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from tract_jupyter.storage import protected_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tract_jupyter.concurrency import StopSignal
    from tract_jupyter.toolkit.autonomy import LeveledPermission
    from tract_jupyter.toolkit.callers import Caller
    from tract_jupyter.toolkit.profiles import ToolProfile
    from tract_jupyter.toolkit.recorded import TurnRecorder

    T = TypeVar("T")


@dataclass(eq=False)
class CallNotes:
    """One running call of a model: its turn, and the notes about it.

    Attributes:
        asked: the requests to the user within it.
        script: the report of its script, as `ScriptResult.to_note`; None if it ran none.
        meter: the `loop.TurnMeter` of the turn; None outside of a turn.
        stop: ends that turn.
        is_again: whether the call may have run before, and the user approved to repeat it.
        doubt: the reason to ask the user despite an earlier approval; empty if there is none. A tool that
            `asks_always` shows it in its own request.
        among: number of calls that run in parallel, including this one.
        model: the provider's name of the calling model; empty if no model calls.
        is_left: whether the turn was stopped and no longer waits for the end of the call.
        on_ask: called with each of these requests, before it is displayed or decided.
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
    on_ask: Callable[[Any], object] = bool


class InLine(Protocol):
    """The protocol of a function that runs code in line with the user's cells."""

    def __call__(self, work: Callable[[], T], /) -> T:
        """Run the work when the earlier cells have ended, and return its result."""
        ...


def at_once(work: Callable[[], T], /) -> T:
    """Run the work in this thread."""
    return work()


@dataclass(eq=False)
class OutsideCall:
    """A call of another program, such as an MCP client.

    Attributes:
        has_left: set if the program no longer waits for the result.
        in_line: runs approved code of the kernel, or adopts its effects.
    """

    has_left: threading.Event = field(default_factory=threading.Event)
    in_line: InLine = at_once


class CallContext(NamedTuple):
    """The context of a running call. Each attribute belongs to the innermost call.

    Attributes:
        notes: the call of a model; None outside of one.
        script: the calling script; None for the user's own code. See `callers.current_caller` for its threads.
        executor: makes the call; None outside of a call.
        profile: the tools that the caller and its code may use; None for all.
        level: the permission of an actor at a level of autonomy; None for the executor's permission.
        agent: the `agents.RunningAgent`; None if no agent runs.
        take_call: counts a tool call of the turn, and returns why it is refused; empty if it is allowed.
        planned: the tools of the model's earlier calls in the same reply, before the call that is prepared now.
        effects: records the effects of the outermost turn, for its undo; None outside of a turn.
        outside: the call of another program that runs here; None for calls of this process.
    """

    notes: CallNotes | None = None
    script: Caller | None = None
    executor: Any = None
    profile: ToolProfile | None = None
    level: LeveledPermission | None = None
    agent: Any = None
    take_call: Callable[[], str] | None = None
    planned: tuple[str, ...] = ()
    effects: TurnRecorder | None = None
    outside: OutsideCall | None = None


NO_CALL: Final = CallContext()
"""The context outside of a call, and of a new thread."""
_context: ContextVar[CallContext] = ContextVar("tract_call_context", default=NO_CALL)


def call_context() -> CallContext:
    """Return the context of the running code."""
    return _context.get()


def set_context(**changes: Any) -> Token[CallContext]:
    """Change the context of this thread or task, until `reset_context`."""
    return _context.set(_context.get()._replace(**changes))


def reset_context(before: Token[CallContext]) -> None:
    """Restore the context as it was before `set_context`."""
    _context.reset(before)


@protected_context
def changed_context(**changes: Any) -> Iterator[None]:
    """Change the context of the code within this block."""
    before = set_context(**changes)
    try:
        yield
    finally:
        reset_context(before)
