"""A program that speaks MCP over its stdin and stdout, as a transport for the SDK.

The SDK has one, too. This one holds bounds that a notebook needs: a line without an end does not fill the memory,
what the program writes to stderr is kept in short for errors instead of being let through, and its exit code is known.
"""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio
from mcp.client.stdio import get_default_environment
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from tract_jupyter.toolkit.mcp_tail import Tail

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from anyio.abc import ByteReceiveStream, ByteSendStream, Process
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    Incoming = MemoryObjectSendStream[SessionMessage | Exception]
    Outgoing = MemoryObjectReceiveStream[SessionMessage]

_GRACE_SECONDS: Final = 2.0  # what a program has to end by itself, once its stdin is closed
_POLL_SECONDS: Final = 0.01
_GONE: Final = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)


class StdioEndpoint:
    """A program, which is started for one connection, and ended with everything that it started.

    Args:
        command: the program and its arguments.
        env: variables besides those few that every program needs; the secrets of this process are not passed on.
        cwd: the folder that it runs in.
        limit: the most bytes of one message.

    Attributes:
        tail: the end of what it wrote to stderr, or to stdout without being a message.
        ended: set when no more messages can come or go.
    """

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], cwd: str | Path | None, limit: int
    ) -> None:
        self._command = list(command)
        self._env = {**get_default_environment(), **env}
        self._cwd = cwd
        self._limit = limit
        self.tail = Tail()
        self.ended = anyio.Event()
        self._problem = ""
        self._exit_code: int | None = None

    def why_it_ended(self) -> str:
        """What is known about it, and the end of what it wrote."""
        code = self._exit_code
        by_itself = "it ended the connection" if code is None else f"it ended with exit code {code}"
        return f"{self._problem or by_itself}{self.tail.quoted()}"

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[tuple[Any, Any]]:
        """Start the program; gives the stream to read from, and the one to write to."""
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
                with anyio.CancelScope(shield=True):  # what is given up must leave no program behind, either
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
                pass  # as long as it cannot write on, it cannot end either

    async def _lines(self, stdout: ByteReceiveStream) -> AsyncIterator[bytes]:
        """Each line that ends, up to the first that is longer than the limit."""
        parts: list[bytes] = []
        size = 0
        async for chunk in stdout:
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                yield b"".join([*parts, line])
                parts, size = [], 0
            parts.append(rest)
            size += len(rest)
            if size > self._limit:
                self._problem = (
                    f"it sent a message of more than {self._limit:,} bytes, so the connection was closed"
                )
                return

    def _parsed(self, line: bytes) -> SessionMessage | None:
        """The message of a line; what is none, such as a forgotten `print`, is kept for errors only."""
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
            self.ended.set()  # it may live on, but it hears nothing more

    async def _read_errors(self, stderr: ByteReceiveStream) -> None:
        with suppress(*_GONE):
            async for chunk in stderr:
                self.tail.add(chunk)

    async def _stop(self, process: Process) -> None:
        """Let it end by itself, and then end it and whatever it started."""
        if process.stdin is not None:
            with suppress(*_GONE):
                await process.stdin.aclose()
        if not self._problem:  # one that does harm is given no time
            await _wait(process)
            self._exit_code = process.returncode
        if sys.platform == "win32":
            with suppress(OSError):
                process.kill()
        else:
            await terminate_posix_process_tree(process, _GRACE_SECONDS)
        await _wait(process)


class _Pump:
    """Carries data in one direction; what surrounds it may be cancelled before the last of it came through."""

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self._scope = anyio.CancelScope(shield=True)
        self._done = anyio.Event()

    async def run(self) -> None:
        """Work until there is nothing more, or it is ended."""
        with self._scope:
            await self._work()
        self._done.set()

    async def end(self) -> None:
        """Wait for the last of it, but not for ever: a pipe may be held by whatever the program left behind."""
        with anyio.move_on_after(_GRACE_SECONDS):
            await self._done.wait()
        self._scope.cancel()


async def _wait(process: Process) -> None:
    """Wait until it has ended, but not for long. `process.wait()` would wait for all who hold its pipes, too."""
    with anyio.move_on_after(_GRACE_SECONDS):
        while process.returncode is None:  # noqa: ASYNC110 # nothing sets an event
            await anyio.sleep(_POLL_SECONDS)
