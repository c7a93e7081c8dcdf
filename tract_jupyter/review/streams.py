"""The keeper of what is printed: a script's record, the record of a decision, or nobody, as it is meant for the person.

`sys.stdout` and `sys.stderr` are stood in for only while somebody keeps something; what other threads print is handed
on as it comes.
"""

from __future__ import annotations

import sys
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tract_jupyter.storage import whole_context

if TYPE_CHECKING:
    from collections.abc import Iterator

Stream = Literal["stdout", "stderr"]


class OutputSink(Protocol):
    """A keeper of what is printed."""

    def write(self, kind: Stream, text: str) -> object:
        """Add text of a stream."""
        ...


_keeper: ContextVar[OutputSink | None] = ContextVar("_keeper", default=None)
_lock = threading.Lock()
_users = 0


class _Routed:
    """A stream that asks for each text who keeps it."""

    def __init__(self, real: Any, kind: Stream) -> None:
        self._real = real
        self._kind: Stream = kind

    def write(self, text: str) -> int:
        """Write as the real stream does."""
        keeper = _keeper.get()
        if keeper is None:
            return int(self._real.write(text) or 0)
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        keeper.write(self._kind, text)
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write as the real stream does."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@whole_context
def captured(keeper: OutputSink) -> Iterator[None]:
    """Have what this thread or task prints meanwhile kept, rather than shown."""
    _install()
    token = _keeper.set(keeper)
    try:
        yield
    finally:
        _keeper.reset(token)
        _uninstall()


@whole_context
def meant_for_the_person() -> Iterator[None]:
    """Show what this thread or task prints and displays meanwhile, whoever keeps the rest: a question, a panel."""
    token = _keeper.set(None)
    try:
        yield
    finally:
        _keeper.reset(token)


def current_sink() -> OutputSink | None:
    """Return who keeps what this thread or task prints."""
    return _keeper.get()


def real_stream(kind: Stream) -> Any:
    """Return the stream that stood there before."""
    stream = getattr(sys, kind)
    return stream._real if isinstance(stream, _Routed) else stream  # noqa: SLF001 # a class of this module


def _install() -> None:
    global _users  # noqa: PLW0603 # the streams are global, too
    with _lock:
        _users += 1
        # not only for the first user: other code may have replaced a stream since then
        if not isinstance(sys.stdout, _Routed):
            sys.stdout = _Routed(sys.stdout, "stdout")
        if not isinstance(sys.stderr, _Routed):
            sys.stderr = _Routed(sys.stderr, "stderr")


def _uninstall() -> None:
    global _users  # noqa: PLW0603
    with _lock:
        _users -= 1
        if _users == 0:
            sys.stdout, sys.stderr = real_stream("stdout"), real_stream("stderr")
