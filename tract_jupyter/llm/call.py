"""One call of a provider, which another thread can end while it waits."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from tract_jupyter.exceptions import LLMRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

CANCELLED: Final = "cancelled"
"""The code of a call that was ended."""
_LOOK: Final = 0.05  # seconds between two looks at somebody else's abort


class AbortSignal(Protocol):
    """Tells that a call is not wanted any more; a `threading.Event` is one.

    One that has `on_set(callback)`, which returns what takes the callback back, is not looked at again and again.
    """

    def is_set(self) -> bool:
        """Whether it is over."""
        ...

    def wait(self, timeout: float) -> object:
        """Wait until it is over, for so many seconds at most."""
        ...


_ambient: ContextVar[AbortSignal | None] = ContextVar("tract_llm_abort", default=None)


@contextmanager
def ended_by(abort: AbortSignal) -> Iterator[None]:
    """Have the calls that this thread makes meanwhile end when `abort` is set, through whatever wraps the client."""
    token = _ambient.set(abort)
    try:
        yield
    finally:
        _ambient.reset(token)


class ModelCall:
    """One call, with the connections that it has opened."""

    def __init__(self, abort: AbortSignal | None = None) -> None:
        self._abort = _ambient.get() if abort is None else abort
        self._cancelled = threading.Event()
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._forget: Callable[[], object] = lambda: None

    def __enter__(self) -> Self:
        subscribe = getattr(self._abort, "on_set", None)
        if subscribe is not None:
            self._forget = subscribe(self.cancel)
        elif self._abort is not None:
            threading.Thread(
                target=self._watch, args=(self._abort,), name="tract-llm-abort", daemon=True
            ).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._over.set()
        self._forget()

    @property
    def is_cancelled(self) -> bool:
        """Whether it was ended."""
        return self._cancelled.is_set() or (self._abort is not None and self._abort.is_set())

    def cancel(self) -> None:
        """End it: what waits for the provider comes back at once."""
        with self._lock:
            self._cancelled.set()
            for one in self._sockets:
                _shut(one)

    def check(self) -> None:
        """Raise `LLMRequestError` if it was ended."""
        if self.is_cancelled:
            raise LLMRequestError(
                "the call was ended before the reply came; nothing of it is kept", code=CANCELLED
            )

    def pause(self, seconds: float) -> None:
        """Wait, unless it is ended."""
        self._cancelled.wait(seconds)
        self.check()

    def trace(self, event: str, info: dict[str, Any]) -> None:
        """Note a connection that httpx has made; see https://www.encode.io/httpcore/extensions/#trace."""
        about = getattr(info.get("return_value"), "get_extra_info", None)
        found = about("socket") if about is not None and event.endswith(".complete") else None
        if isinstance(found, socket.socket):
            with self._lock:
                self._sockets.append(found)
                if self._cancelled.is_set():
                    _shut(found)

    def _watch(self, abort: AbortSignal) -> None:
        while not self._over.is_set():
            abort.wait(_LOOK)
            if abort.is_set():
                self.cancel()
                return


def _shut(one: socket.socket) -> None:
    # closing it would leave a reader of another thread waiting; that of the plain socket keeps TLS as it is
    with suppress(OSError):
        socket.socket.shutdown(one, socket.SHUT_RDWR)
