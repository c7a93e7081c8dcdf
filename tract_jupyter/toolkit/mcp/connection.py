"""A connection to an MCP server: kept open in a thread of its own, used from any other without `await`."""

from __future__ import annotations

import atexit
import logging
from concurrent.futures import Future, wait
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import anyio
from anyio.from_thread import start_blocking_portal
from mcp import Client, MCPError
from mcp_types import Implementation, ToolListChangedNotification
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tract_jupyter.exceptions import McpError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from tract_jupyter.toolkit.mcp.transports import StderrTail

T = TypeVar("T")

_STOP_SECONDS: Final = 10.0  # ending a program takes six at most
_PAUSE_SECONDS: Final = 0.1  # between two looks at a list that changes all the time

# the SDK reports to these what a server does wrong; errors tell it, and nothing may print into a cell
for _name in ("mcp", "client"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


class Endpoint(Protocol):
    """The way messages get to a server and back."""

    tail: StderrTail
    ended: anyio.Event

    def streams(self) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        """Return what the SDK calls a transport."""
        ...

    def why_it_ended(self) -> str:
        """Return what is known about its end."""
        ...


class McpConnection:
    """A connection that is open until it is closed or the server ends. Threads may share it.

    Args:
        endpoint: how to reach the server.
        start_timeout: seconds that it has until it is ready.
        on_tools: awaited in the connection's thread, with its client, before anything else, and whenever the
            server says that its tools changed.

    Raises:
        TimeoutError: it was not ready in time.
        Exception: whatever else kept it from getting ready.
    """

    def __init__(
        self, endpoint: Endpoint, start_timeout: float, on_tools: Callable[[Client], Awaitable[None]]
    ) -> None:
        self.endpoint = endpoint
        self._on_tools = on_tools
        self._changed = anyio.Event()
        self._ready: Future[Client] = Future()
        self._stack = ExitStack()
        self._portal = self._stack.enter_context(start_blocking_portal(name="mcp-client"))
        atexit.register(self.close)  # a program that does not listen would live on
        self._main = self._portal.start_task_soon(self._run)
        try:
            self._client = self._ready.result(start_timeout)
        except BaseException:
            self.close()
            raise

    @property
    def is_open(self) -> bool:
        """True if a call has a chance to be heard."""
        return not self._main.done()

    def run(self, job: Callable[[Client], Awaitable[T]], timeout: float) -> T:
        """Run a job with the client, and wait for it here. Whatever ends the wait cancels the job.

        Raises:
            TimeoutError: it took longer.
            Exception: whatever the job raises.
        """
        future = self._portal.start_task_soon(job, self._client)
        try:
            return future.result(timeout)
        finally:
            future.cancel()  # if it is done, this does nothing

    def close(self) -> None:
        """End the connection, and the server if it is a program. A second call does nothing."""
        atexit.unregister(self.close)
        self._main.cancel()
        wait([self._main], _STOP_SECONDS)
        self._stack.close()

    # --- in the connection's thread

    async def _run(self) -> None:
        try:
            await self._serve()
        except Exception as error:  # noqa: BLE001 # whoever waits is told; nobody does later on
            if not self._ready.done():
                self._ready.set_exception(_innermost(error))

    async def _serve(self) -> None:
        client_info = Implementation(name="tract_jupyter", version=_version())
        client = Client(
            self.endpoint.streams(), cache=None, client_info=client_info, message_handler=self._on_message
        )
        async with client, anyio.create_task_group() as tasks:
            await self._on_tools(client)
            self._ready.set_result(client)
            tasks.start_soon(self._listen, client)
            tasks.start_soon(self._follow, client)
            await self.endpoint.ended.wait()
            tasks.cancel_scope.cancel()

    async def _listen(self, client: Client) -> None:
        """Subscribe to changes of the tools; servers from before 2026 announce them unasked."""
        tools = client.server_capabilities.tools
        if tools is None or not tools.list_changed or client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        with suppress(MCPError, RuntimeError, TimeoutError):  # it need not keep its promise
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._changed.set()

    async def _on_message(self, message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._changed.set()

    async def _follow(self, client: Client) -> None:
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            with suppress(McpError):  # whoever looks at the tools next is told
                await self._on_tools(client)
            await anyio.sleep(_PAUSE_SECONDS)


def _innermost(error: Exception) -> Exception:
    """Return the first error of a group; a task group wraps each in one."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def _version() -> str:
    from tract_jupyter import __version__

    return __version__
