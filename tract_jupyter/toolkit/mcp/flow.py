"""Limits of the messages that a server sends.

The SDK answers each request of a server in a separate task, without a limit. If the server does not accept the answers,
the tasks stay. So a server that exceeds a limit of requests is disconnected. All other messages wait if there are many
of them, because a server may send many of them for good reasons. The kernel then has time for other work.
"""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Self

import anyio
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from mcp_types import RequestId

    from tract_jupyter.toolkit.mcp.transports import Endpoint

_MOST_UNANSWERED: Final = 100
_MOST_CHARACTERS: Final = 1_000_000
_MOST_REQUESTS: Final = 1_000
_REQUEST_SECONDS: Final = 10.0
_MOST_MESSAGES: Final = 1_000
_MESSAGE_SECONDS: Final = 1.0
_MOST_BYTES: Final = 16_000_000
_LINE_BYTES: Final = 100  # reading a line takes about as long as reading so many bytes


class _Flow:
    """Counts the messages of a server."""

    def __init__(self, end: Callable[[str], None]) -> None:
        self._end = end
        self._unanswered: dict[RequestId, list[int]] = {}
        """The sizes of its requests without an answer, by id. A server may use an id for several requests."""
        self._messages = _Window(_MESSAGE_SECONDS)
        self._requests = _Window(_REQUEST_SECONDS)

    async def received(self, message: object) -> bool:
        """Take a message. Wait if there are many of them. Return False if the connection must end."""
        if self._messages.add() > _MOST_MESSAGES:
            await anyio.sleep(self._messages.seconds_left)
        if isinstance(message, JSONRPCRequest):
            problem = self._begin(message)
            if problem:
                self._end(f"{problem}, so the connection was closed")
                return False
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            cancelled = cancelled_request_id_from_params(message.params)
            # the SDK knows only the newest request with an id
            if cancelled is not None and len(self._unanswered.get(coerce_request_id(cancelled), ())) == 1:
                self._forget(cancelled)
        return True

    def sent(self, message: object) -> None:
        """Take a message that was sent to the server."""
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            self._forget(message.id)

    def _begin(self, request: JSONRPCRequest) -> str:
        """Count a request of the server. Return the exceeded limit; empty if there is none."""
        size = len(repr((request.id, request.method, request.params)))
        self._unanswered.setdefault(coerce_request_id(request.id), []).append(size)
        sizes = [one for sizes in self._unanswered.values() for one in sizes]
        if sum(sizes) > _MOST_CHARACTERS:
            return f"it sent requests of more than {_MOST_CHARACTERS:,} characters and did not wait for the answers"
        if len(sizes) > _MOST_UNANSWERED:
            return f"it sent more than {_MOST_UNANSWERED} requests and did not wait for the answers"
        if self._requests.add() > _MOST_REQUESTS:
            return f"it sent more than {_MOST_REQUESTS:,} requests in {_REQUEST_SECONDS:g} s"
        return ""

    def _forget(self, request_id: RequestId) -> None:
        key = coerce_request_id(request_id)
        sizes = self._unanswered.get(key, [])
        if sizes:
            sizes.pop(0)
        if not sizes:
            self._unanswered.pop(key, None)


class _Window:
    """A count that starts again after some seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = 0.0
        self._count = 0

    def add(self, count: int = 1) -> int:
        """Count some more, and return the count."""
        if not self.seconds_left:
            self._until, self._count = time.monotonic() + self._seconds, 0
        self._count += count
        return self._count

    @property
    def seconds_left(self) -> float:
        """The seconds until the count starts again; 0 if it starts with the next one."""
        return max(0.0, self._until - time.monotonic())


class MessageMeter:
    """Counts the values of each message, and slows down a stream of many messages.

    Reading a message with many values takes much longer, and 50 times as much memory, as one with a long text. `ends`
    are the ends of a message in a stream of messages; none for a single message.
    """

    def __init__(self, most_values: int, *ends: bytes) -> None:
        self._most_values = most_values
        self._ends = ends
        self._values = 0
        self._window = _Window(_MESSAGE_SECONDS)

    async def take(self, data: bytes) -> str:
        """Take the next bytes. Wait if there were many of them. Return the exceeded limit; empty if there is none."""
        self._values += _count_values(data)
        if self._values > self._most_values:
            return f"it sent a message with more than {self._most_values:,} values"
        ended = max((data.rfind(end) + len(end) for end in self._ends if end in data), default=0)
        if ended:
            self._values = _count_values(data[ended:])
        lines = data.count(b"\n") + data.count(b"\r")
        if self._ends and self._window.add(len(data) + _LINE_BYTES * lines) > _MOST_BYTES:
            await anyio.sleep(self._window.seconds_left)
        return ""


def _count_values(data: bytes) -> int:
    """Return the number of values in JSON text, or more if its texts have such characters."""
    return sum(map(data.count, (b",", b"[", b"{")))


class _Stream:
    """A stream of the SDK."""

    def __init__(self, stream: Any, flow: _Flow) -> None:
        self._stream = stream
        self._flow = flow

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> Any:
        return await self._stream.__aexit__(*error)


class _Incoming(_Stream):
    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        item = await self._stream.__anext__()
        if not await self._flow.received(getattr(item, "message", item)):
            raise StopAsyncIteration
        return item


class _Outgoing(_Stream):
    async def send(self, item: Any) -> None:
        await self._stream.send(item)
        self._flow.sent(item.message)


@asynccontextmanager
async def limited_streams(endpoint: Endpoint) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the streams of an endpoint. If the server exceeds a limit, the endpoint ends with the reason."""
    flow = _Flow(endpoint.end)
    async with endpoint.streams() as (incoming, outgoing):
        yield _Incoming(incoming, flow), _Outgoing(outgoing, flow)
