"""Connections of the HTTP server. Programs without the token cannot keep many of them open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

_MOST_SILENT: Final = 256
_SILENT_SECONDS: Final = 10.0


class HttpConnection(H11Protocol):
    """A connection that is closed if the headers of its first request do not arrive in time.

    If too many connections have no request yet, the oldest of them is closed. The response to a request without the
    token ends its connection.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in the base class
        """Begin a connection."""
        super().connection_made(transport)
        self._timer = self.loop.call_later(_SILENT_SECONDS, self.end_if_silent)
        silent = [one for one in self.connections if isinstance(one, HttpConnection) and one.is_silent]
        if len(silent) > _MOST_SILENT:
            min(silent, key=HttpConnection.end_time).end_if_silent()

    def connection_lost(self, exc: Exception | None) -> None:
        """End a connection."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    @property
    def is_silent(self) -> bool:
        """True until the headers of its first request have arrived, if it is open."""
        cycle: Any = self.cycle  # the base class types it without None
        return cycle is None and not self.transport.is_closing()

    def end_time(self) -> float:
        """Return the time at which it is closed if it is still silent."""
        return 0.0 if self._timer is None else self._timer.when()

    def end_if_silent(self) -> None:
        """Close it if it is silent."""
        if self.is_silent:
            self.transport.abort()
