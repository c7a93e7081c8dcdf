"""A server that speaks MCP over HTTP, as a transport for the SDK, with bounds on what it may answer."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
from mcp.client.streamable_http import streamable_http_client

from tract_jupyter.toolkit.mcp_tail import Tail

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

_TIMEOUT = httpx2.Timeout(30.0, read=None)  # how long an answer may take is the call's business


class HttpEndpoint:
    """Connects to a URL.

    Args:
        url: of the endpoint.
        headers: sent with each request, such as `Authorization`.
        limit: the most bytes of one answer.

    Attributes:
        tail: empty; a program on another machine has no stderr here.
        ended: never set: each request is a connection of its own.
    """

    def __init__(self, url: str, headers: Mapping[str, str], limit: int) -> None:
        self._url = url
        self._headers = {"Accept-Encoding": "identity", **headers}
        self._limit = limit
        self.tail = Tail()
        self._problem = ""
        self.ended = anyio.Event()

    def why_it_ended(self) -> str:
        """What is known about it."""
        return self._problem or "the connection failed"

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[tuple[Any, Any]]:
        """Give the stream to read from, and the one to write to."""
        async with (
            httpx2.AsyncClient(
                headers=self._headers, timeout=_TIMEOUT, event_hooks={"response": [self._bound]}
            ) as client,
            streamable_http_client(self._url, http_client=client, max_sse_event_size=self._limit) as streams,
        ):
            yield streams

    async def _bound(self, response: httpx2.Response) -> None:
        """Have reading an answer fail where it grows too large. Of a stream of events, the SDK bounds each."""
        if response.headers.get("content-encoding", "identity") != "identity":
            self._refuse("it compressed an answer, whose size cannot be told before it is unpacked")
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _Bounded(response.stream, self)

    def count(self, size: int) -> None:
        """Check how much of an answer has come.

        Raises:
            httpx2.ReadError: it is too much.
        """
        if size > self._limit:
            self._refuse(f"it sent an answer of more than {self._limit:,} bytes")

    def _refuse(self, problem: str) -> None:
        self._problem = problem
        raise httpx2.ReadError(problem)


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: Any, endpoint: HttpEndpoint) -> None:
        self._stream = stream
        self._endpoint = endpoint

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            self._endpoint.count(size)
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
