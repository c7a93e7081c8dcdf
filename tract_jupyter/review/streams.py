"""Redirect printed output to a script's record, to a decision's record, or to the user.

`sys.stdout` and `sys.stderr` are replaced only while a sink is active. Output of other threads passes through
immediately.
"""

from __future__ import annotations

import sys
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tract_jupyter.storage import protected_context

if TYPE_CHECKING:
    from collections.abc import Iterator

Stream = Literal["stdout", "stderr"]


class OutputSink(Protocol):
    """A receiver of printed output."""

    def write(self, kind: Stream, text: str) -> object:
        """Add a text from a stream."""
        ...


_keeper: ContextVar[OutputSink | None] = ContextVar("_keeper", default=None)
_lock = threading.Lock()
_users = 0


class _Routed:
    """A stream that sends each text to the current sink."""

    def __init__(self, real: Any, kind: Stream) -> None:
        self._real = real
        self._kind: Stream = kind

    def write(self, text: str) -> int:
        """Write to the sink, or to the real stream without a sink."""
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


@protected_context
def captured(keeper: OutputSink) -> Iterator[None]:
    """Send printed output of this thread or task to a sink during the block."""
    _install()
    token = _keeper.set(keeper)
    try:
        yield
    finally:
        _keeper.reset(token)
        _uninstall()


@protected_context
def meant_for_the_person() -> Iterator[None]:
    """Show output of this thread or task to the user during the block, for example a question or a panel.

    An outer sink does not receive this output.
    """
    token = _keeper.set(None)
    try:
        yield
    finally:
        _keeper.reset(token)


def current_sink() -> OutputSink | None:
    """Return the sink for this thread or task. None if output goes to the user."""
    return _keeper.get()


def real_stream(kind: Stream) -> Any:
    """Return the original stream."""
    stream = getattr(sys, kind)
    return stream._real if isinstance(stream, _Routed) else stream  # noqa: SLF001 # a class of this module


def _install() -> None:
    global _users  # noqa: PLW0603 # the streams are also global
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
