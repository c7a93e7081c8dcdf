"""`sys.stdout` and `sys.stderr` that know which script prints.

They stand in for the real ones only while scripts run, and hand on what other threads print.
"""

from __future__ import annotations

import sys
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal

from tract_jupyter.storage.interrupts import whole_context

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tract_jupyter.scripts.capture import Capture

_capture: ContextVar[Capture | None] = ContextVar("_capture", default=None)
_lock = threading.Lock()
_users = 0


class _Routed:
    """A stream that asks for each text whether a script prints it."""

    def __init__(self, real: Any, kind: Literal["stdout", "stderr"]) -> None:
        self._real = real
        self._kind: Literal["stdout", "stderr"] = kind

    def write(self, text: str) -> int:
        """As the real one's."""
        capture = _capture.get()
        if capture is None:
            return int(self._real.write(text) or 0)
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        capture.write(self._kind, text)
        return len(text)

    def writelines(self, lines: Any) -> None:
        """As the real one's."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@whole_context
def captured(capture: Capture) -> Iterator[None]:
    """Collect what this thread or task prints meanwhile."""
    _install()
    token = _capture.set(capture)
    try:
        yield
    finally:
        _capture.reset(token)
        _uninstall()


def real_stream(kind: Literal["stdout", "stderr"]) -> Any:
    """The stream that stood there before."""
    stream = getattr(sys, kind)
    return stream._real if isinstance(stream, _Routed) else stream  # noqa: SLF001 # a class of this module


def _install() -> None:
    global _users  # noqa: PLW0603 # the streams are global, too
    with _lock:
        _users += 1
        if _users == 1:
            sys.stdout, sys.stderr = _Routed(sys.stdout, "stdout"), _Routed(sys.stderr, "stderr")


def _uninstall() -> None:
    global _users  # noqa: PLW0603
    with _lock:
        _users -= 1
        if _users == 0:
            sys.stdout, sys.stderr = real_stream("stdout"), real_stream("stderr")
