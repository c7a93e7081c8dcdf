"""The stdio side of a kernel's server: `tract-jupyter kernel-proxy`.

It forwards lists and calls to the kernel of a notebook, with the name of its own client. It keeps one HTTP client.
After a restart of the kernel, it reads the new address. An open call is never made again by itself.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import anyio
import httpx2
from anyio import to_thread
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.lowlevel import Server
from mcp_types import CallToolResult, Implementation, ListToolsResult, TextContent, Tool, ToolAnnotations

from tract_jupyter.exceptions import McpConnectionError, McpStartError
from tract_jupyter.prompts import (
    CALL_TOO_LARGE,
    KERNEL_AWAY,
    RESULT_DESCRIPTION,
    RUN_CODE,
    SERVER_INSTRUCTIONS,
    VARIABLES,
)
from tract_jupyter.toolkit.mcp.http import MOST_BYTES
from tract_jupyter.toolkit.mcp.served import find_kernel
from tract_jupyter.toolkit.mcp.stdio import serve_stdio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from anyio.abc import TaskGroup, TaskStatus
    from mcp.server.context import ServerRequestContext
    from mcp_types import CallToolRequestParams, PaginatedRequestParams

    from tract_jupyter.toolkit.mcp.served import ServedKernel

_RESTART_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.5
_TIMEOUT: Final = httpx2.Timeout(10.0, read=None)  # the kernel answers before its client's limit
MOST_CALL: Final = MOST_BYTES - 20_000
"""The maximum size of a call as JSON. The rest is for the envelope of the request."""
_NOBODY: Final = Implementation(name="unknown", version="0")


class _Connection:
    """One HTTP client of one kernel. It is open until `retire`, and until its last call has ended."""

    client: Client

    def __init__(self, kernel: ServedKernel, client_info: Implementation) -> None:
        self.kernel = kernel
        self._info = client_info
        self._calls = 0
        self._is_retired = False
        self._over = anyio.Event()

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """Connect, and stay connected.

        Raises:
            McpConnectionError: the kernel does not answer. A later failure ends the connection.
        """
        headers = {"Authorization": f"Bearer {self.kernel.token}"}
        is_started = False
        try:
            async with (
                httpx2.AsyncClient(headers=headers, timeout=_TIMEOUT, trust_env=False) as http,
                Client(
                    streamable_http_client(self.kernel.url, http_client=http), client_info=self._info
                ) as self.client,
            ):
                is_started = True
                task_status.started()
                await self._over.wait()
        except Exception as error:
            if not is_started:
                raise McpConnectionError(f"the kernel does not answer: {_innermost(error)}") from error

    @contextmanager
    def in_use(self) -> Iterator[Client]:
        """Keep the connection open for one call."""
        self._calls += 1
        try:
            yield self.client
        finally:
            self._calls -= 1
            self._end_if_unused()

    def retire(self) -> None:
        """Take no new call, and disconnect when the open ones have ended."""
        self._is_retired = True
        self._end_if_unused()

    def _end_if_unused(self) -> None:
        if self._is_retired and not self._calls:
            self._over.set()


class KernelProxy:
    """An MCP server over stdio that forwards to the kernel of a notebook.

    Attributes:
        server: the SDK's server, for other transports than stdio.
    """

    def __init__(self, notebook: str = "") -> None:
        from tract_jupyter import __version__

        self._notebook = notebook
        self._connection: _Connection | None = None
        self._was_connected = False
        self._kernel_id = ""
        self._lock = anyio.Lock()
        self._tasks: TaskGroup
        self.server: Server[Any] = Server(
            "tract_jupyter",
            version=__version__,
            instructions=SERVER_INSTRUCTIONS,
            lifespan=self._connecting,
            get_tool_input_schema=lambda _name: None,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )

    def run(self) -> None:
        """Serve over stdin and stdout until the client disconnects."""
        anyio.run(serve_stdio, self.server)

    @asynccontextmanager
    async def _connecting(self, _server: Server[Any]) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            yield
            tasks.cancel_scope.cancel()

    # --- requests of the client

    async def _list_tools(
        self, ctx: ServerRequestContext[Any], _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        try:
            connection = await self._connected(ctx)
        except (McpStartError, McpConnectionError):  # a call says the reason
            return ListToolsResult(tools=_OFFLINE)
        with connection.in_use() as client:
            return ListToolsResult(tools=(await client.list_tools(cache_mode="refresh")).tools)

    async def _call_tool(
        self, ctx: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult:
        size = len(params.model_dump_json().encode())
        if size > MOST_CALL:
            return _problem(CALL_TOO_LARGE.format(size=size, limit=MOST_CALL))
        try:
            connection = await self._connected(ctx)
        except (McpStartError, McpConnectionError) as error:
            return _problem(str(error))

        async def forward(progress: float, total: float | None, message: str | None) -> None:
            await ctx.session.report_progress(progress, total, message)

        has_token = (ctx.meta or {}).get("progress_token") is not None
        try:
            with connection.in_use() as client:
                return await client.call_tool(
                    params.name, params.arguments or {}, progress_callback=forward if has_token else None
                )
        except Exception as error:  # noqa: BLE001 # of the connection; the call may have had an effect
            self._drop(connection)
            return _problem(KERNEL_AWAY.format(error=_innermost(error)))

    # --- the connection

    async def _connected(self, ctx: ServerRequestContext[Any]) -> _Connection:
        """Return a connection to the kernel. Connect if there is none, or if another kernel serves the notebook."""
        async with self._lock:
            kernel = await self._kernel()
            if self._connection is not None and self._connection.kernel == kernel:
                return self._connection
            if self._connection is not None:
                self._drop(self._connection)
            client = ctx.session.client_params
            connection = _Connection(kernel, _NOBODY if client is None else client.client_info)
            await self._tasks.start(connection.run)
            self._connection = connection
            if self._was_connected:
                with suppress(Exception):  # a client without a channel for it
                    await ctx.session.send_tool_list_changed()
            self._was_connected, self._kernel_id = True, kernel.kernel
            return connection

    async def _kernel(self) -> ServedKernel:
        """Return the kernel. After a connection, wait some time for the restart of a kernel."""
        deadline = anyio.current_time() + (_RESTART_SECONDS if self._was_connected else 0.0)
        while True:
            try:
                return await to_thread.run_sync(find_kernel, self._notebook, self._kernel_id)
            except McpStartError:
                if anyio.current_time() >= deadline:
                    raise
            await anyio.sleep(_LOOK_SECONDS)

    def _drop(self, connection: _Connection) -> None:
        """Make the next call open a new connection. Open calls of this one can still get their results."""
        connection.retire()
        if connection is self._connection:
            self._connection = None


def _problem(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)], is_error=True)


def _innermost(error: BaseException) -> str:
    """Describe the first error in groups of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}".rstrip(": ")


def _tool(name: str, description: str, argument: str = "") -> Tool:
    properties = {argument: {"type": "string"}} if argument else {}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    hints = ToolAnnotations(read_only_hint=name != "run_code", destructive_hint=name == "run_code")
    return Tool(name=name, description=description, input_schema=schema, annotations=hints)


_OFFLINE: Final = [
    _tool("run_code", RUN_CODE, "code"),
    _tool("variables", VARIABLES),
    _tool("result", RESULT_DESCRIPTION, "id"),
]
"""The tools while no kernel serves, so that a client that starts first knows them."""
