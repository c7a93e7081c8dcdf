"""Transports to MCP servers: a program on this machine, or a URL."""

from __future__ import annotations

import json
import sys
import time
from abc import ABC, abstractmethod
from contextlib import asynccontextmanager, suppress
from functools import partial
from http import HTTPStatus
from http.cookiejar import CookieJar
from typing import TYPE_CHECKING, Any, Final

import anyio
import httpx2
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.shared.message import SessionMessage
from mcp_types import INTERNAL_ERROR, jsonrpc_message_adapter

from tract_jupyter.models import printable
from tract_jupyter.toolkit.mcp.flow import MessageMeter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from anyio.abc import ByteReceiveStream, ByteSendStream, Process
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    Incoming = MemoryObjectSendStream[SessionMessage | Exception]
    Outgoing = MemoryObjectReceiveStream[SessionMessage]


_KEPT: Final = 4_000  # bytes
_QUOTED: Final = 600  # characters


class StderrTail:
    """The last 4,000 bytes of a stream."""

    def __init__(self) -> None:
        self._kept = b""

    def add(self, data: bytes) -> None:
        """Append data, and drop the beginning."""
        self._kept = (self._kept + data)[-_KEPT:]

    @property
    def text(self) -> str:
        """The text in printable form."""
        return printable(self._kept.decode(errors="replace")).strip()

    def quoted(self) -> str:
        """Return its end as a part of an error message; empty if there is no output."""
        text = self.text
        if not text:
            return ""
        return f". It wrote: {text if len(text) <= _QUOTED else '…' + text[-_QUOTED:]}"


_MESSAGE_LIMIT: Final = 16 * 1024 * 1024
"""Bytes. An image, which is only described, may be larger than a text."""


class Endpoint(ABC):
    """The path of messages to a server and back. A message has at most `most_values` values.

    Attributes:
        tail: the end of the program's stderr output, and of stdout lines that are not messages; empty for a URL.
        ended: set when no more messages can be sent or received.
    """

    def __init__(self, most_values: int) -> None:
        self.tail = StderrTail()
        self.ended = anyio.Event()
        self._most_values = most_values
        self._problem = ""

    @abstractmethod
    def streams(self) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        """Yield the stream for reading, and the stream for writing."""

    def end(self, problem: str) -> None:
        """End the connection, because the server did something wrong."""
        self._problem = self._problem or problem
        self.ended.set()

    def why_it_ended(self) -> str:
        """Return the known reason for its end; empty if there is none."""
        return self._problem


_TIMEOUT = httpx2.Timeout(30.0, read=None)  # the call limits the time for an answer
_END_SECONDS: Final = 5.0  # for the server's answer to the end of the session
_ACCEPT_SECONDS: Final = 30.0  # for a message that has no answer; the SDK sends no other one meanwhile
_MOST_COOKIES: Final = 50
_SHORT: Final = 2_000  # bytes; a longer message is a request
_SESSION: Final = "mcp-session-id"
_SESSION_STATUSES: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND)
"""The protocol says 404 for an unknown session; servers that follow the examples of the TypeScript SDK say 400."""
_RECONNECT_SECONDS: Final = 0.1  # at least, between two requests for a stream; a server can ask for 0


class HttpEndpoint(Endpoint):
    """A connection to a URL. Each request uses a separate connection, so only an exceeded limit ends it."""

    def __init__(self, url: str, headers: Mapping[str, str], most_values: int) -> None:
        super().__init__(most_values)
        self._url = url
        self._headers = {"Accept-Encoding": "identity", **headers}
        self._next_stream = 0.0
        self._cookies = CookieJar()

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[tuple[Any, Any]]:
        """Yield the stream for reading, and the stream for writing."""
        async with (
            httpx2.AsyncClient(
                headers=self._headers,
                timeout=_TIMEOUT,
                event_hooks={"request": [self._pace], "response": [self._bound]},
                cookies=self._cookies,
            ) as client,
            streamable_http_client(
                self._url, http_client=client, max_sse_event_size=_MESSAGE_LIMIT
            ) as streams,
        ):
            yield streams

    async def _pace(self, request: httpx2.Request) -> None:
        """Limit how often the SDK asks for a stream, and how long it waits if no call limits the time."""
        if len(self._cookies) > _MOST_COOKIES:
            self._cookies.clear()
        limits = request.extensions["timeout"]
        if request.method == "DELETE":
            limits["read"] = _END_SECONDS
        elif request.method == "POST" and len(request.content) < _SHORT:
            if not {"id", "method"} <= json.loads(request.content).keys():
                limits["read"] = _ACCEPT_SECONDS
        elif request.method == "GET":
            now = time.monotonic()
            at = max(now, self._next_stream)
            self._next_stream = at + _RECONNECT_SECONDS
            await anyio.sleep(at - now)

    async def _bound(self, response: httpx2.Response) -> None:
        """Limit the size of an answer. In a stream of events, the SDK limits each event.

        The SDK reads the whole body of all other responses, such as one that redirects.
        """
        if response.headers.get("content-encoding", "identity") != "identity":
            self._refuse("it compressed an answer, whose size is unknown before it is unpacked")
        is_read_by_event = response.is_success and response.request.method != "DELETE"
        is_stream = is_read_by_event and response.headers.get("content-type", "").startswith(
            "text/event-stream"
        )
        limit = None if is_stream else _MESSAGE_LIMIT
        response.stream = _Limited(response.stream, limit, self._most_values, self._refuse)
        if response.is_error and response.request.method == "POST":
            await self._read_error(response)

    async def _read_error(self, response: httpx2.Response) -> None:
        """End the connection if the server forgot its session. Give an error without a reason its status as a reason.

        A server that was restarted refuses the session of every later call. The SDK does not start another one.
        """
        stream = response.stream
        assert isinstance(stream, _Limited), "set before this call"  # noqa: S101
        body = b"".join([chunk async for chunk in stream])
        await stream.aclose()
        error = _error_in(body)
        status = f"HTTP status {response.status_code} {response.reason_phrase}".strip()
        is_about_request = error is not None and error.get("id") is not None
        if (
            not is_about_request
            and response.status_code in _SESSION_STATUSES
            and _SESSION in response.request.headers
        ):
            self._refuse(f"it does not know the session anymore ({status})")
        asked = json.loads(response.request.content)
        if error is None and "id" in asked and response.status_code != HTTPStatus.NOT_FOUND:
            problem = {"code": INTERNAL_ERROR, "message": f"the server answered with {status}"}
            body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": problem}).encode()
            response.headers["content-type"] = "application/json"
        response.stream = httpx2.ByteStream(body)

    def _refuse(self, problem: str) -> None:
        self.end(problem)
        raise httpx2.ReadError(problem)


def _error_in(body: bytes) -> dict[str, Any] | None:
    """Return the JSON-RPC error in a body; None if it has none."""
    with suppress(ValueError, RecursionError):
        message = json.loads(body)
        if isinstance(message, dict) and isinstance(message.get("error"), dict):
            return message
    return None


_EVENT_ENDS: Final = (b"\n\n", b"\r\r", b"\r\n\r\n")


class _Limited(httpx2.AsyncByteStream):
    """The body of an answer.

    A stream of events has no limit of bytes.
    """

    def __init__(
        self, stream: Any, limit: int | None, most_values: int, refuse: Callable[[str], None]
    ) -> None:
        self._stream = stream
        self._limit = limit
        self._meter = MessageMeter(most_values, *(_EVENT_ENDS if limit is None else ()))
        self._refuse = refuse

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if self._limit is not None and size > self._limit:
                self._refuse(f"it sent an answer of more than {self._limit:,} bytes")
            problem = await self._meter.take(chunk)
            if problem:
                self._refuse(problem)
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


_GRACE_SECONDS: Final = 2.0  # time for a program to exit after its stdin is closed
_POLL_SECONDS: Final = 0.01
_GONE: Final = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)


class StdioEndpoint(Endpoint):
    """A program that is started for one connection. At the end, all its child processes are stopped as well.

    It gets `env` and the few variables that every program needs. The secrets of this process are not passed on.
    """

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], cwd: str | Path | None, most_values: int
    ) -> None:
        super().__init__(most_values)
        self._command = list(command)
        self._env = {**get_default_environment(), **env}
        self._cwd = cwd
        self._exit_code: int | None = None

    def why_it_ended(self) -> str:
        """Return the known reason for its end, with the last lines of its output."""
        code = self._exit_code
        by_itself = "it ended the connection" if code is None else f"it ended with exit code {code}"
        return f"{self._problem or by_itself}{self.tail.quoted()}"

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[tuple[Any, Any]]:
        """Start the program, and yield the stream for reading and the stream for writing."""
        process = await anyio.open_process(
            self._command, env=self._env, cwd=self._cwd, start_new_session=True
        )
        assert process.stdin and process.stdout and process.stderr, "pipes are the default"  # noqa: PT018, S101
        to_us, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, to_it = anyio.create_memory_object_stream[SessionMessage](0)
        pumps = [
            _Pump(partial(self._write, process.stdin, to_it)),
            _Pump(partial(self._read, process.stdout, to_us)),
            _Pump(partial(self._read_errors, process.stderr)),
        ]
        async with anyio.create_task_group() as tasks:
            for pump in pumps:
                tasks.start_soon(pump.run)
            try:
                yield incoming, outgoing
            finally:
                incoming.close()
                outgoing.close()
                with anyio.CancelScope(shield=True):  # a cancellation must not leave a program running
                    await self._stop(process)
                    for pump in pumps:
                        await pump.end()

    async def _read(self, stdout: ByteReceiveStream, to_us: Incoming) -> None:
        with suppress(*_GONE):
            async with to_us:
                async for line in self._lines(stdout):
                    message = self._parsed(line)
                    if message is not None:
                        await to_us.send(message)
        self.ended.set()
        with suppress(*_GONE):
            async for _ in stdout:
                pass  # a blocked write would keep it from exiting

    async def _lines(self, stdout: ByteReceiveStream) -> AsyncIterator[bytes]:
        """Yield each complete line. Stop at the first line that exceeds the limit."""
        parts: list[bytes] = []
        size = 0
        meter = MessageMeter(self._most_values, b"\n")
        async for chunk in stdout:
            problem = await meter.take(chunk)
            if problem:
                self._problem = f"{problem}, so the connection was closed"
                return
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                yield b"".join([*parts, line])
                parts, size = [], 0
            parts.append(rest)
            size += len(rest)
            if size > _MESSAGE_LIMIT:
                self._problem = (
                    f"it sent a message of more than {_MESSAGE_LIMIT:,} bytes, so the connection was closed"
                )
                return

    def _parsed(self, line: bytes) -> SessionMessage | None:
        """Return the message in a line. Any other line, such as a forgotten `print`, is stored for errors only."""
        if not line.strip():
            return None
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError:
            self.tail.add(line[:200] + b"\n")
            return None

    async def _write(self, stdin: ByteSendStream, to_it: Outgoing) -> None:
        try:
            async with to_it:
                async for message in to_it:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await stdin.send(text.encode() + b"\n")
        except _GONE:
            self.ended.set()  # it may still run, but it receives no more messages

    async def _read_errors(self, stderr: ByteReceiveStream) -> None:
        with suppress(*_GONE):
            async for chunk in stderr:
                self.tail.add(chunk)

    async def _stop(self, process: Process) -> None:
        """Let the program exit by itself, then stop it and all its child processes."""
        if process.stdin is not None:
            with suppress(*_GONE):
                await process.stdin.aclose()
        if not self._problem:  # no grace period after a violation
            await _wait(process)
            self._exit_code = process.returncode
        if sys.platform == "win32":
            with suppress(OSError):
                process.kill()
        else:
            await terminate_posix_process_tree(process, _GRACE_SECONDS)
        await _wait(process)


class _Pump:
    """A task that carries data in one direction, even if the surrounding scope is cancelled."""

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self._scope = anyio.CancelScope(shield=True)
        self._done = anyio.Event()

    async def run(self) -> None:
        """Work until there is no more data, or until `end` is called."""
        with self._scope:
            await self._work()
        self._done.set()

    async def end(self) -> None:
        """Wait briefly for the last data. A leftover child process may hold a pipe open forever."""
        with anyio.move_on_after(_GRACE_SECONDS):
            await self._done.wait()
        self._scope.cancel()


async def _wait(process: Process) -> None:
    """Wait briefly for the exit. `process.wait()` would also wait for all other processes that hold its pipes."""
    with anyio.move_on_after(_GRACE_SECONDS):
        while process.returncode is None:  # noqa: ASYNC110 # nothing sets an event
            await anyio.sleep(_POLL_SECONDS)
