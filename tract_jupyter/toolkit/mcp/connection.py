"""A connection to an MCP server. It is open in a separate thread. Other threads use it without `await`.

The SDK's client holds the connection. Answers are read as plain JSON. The SDK would refuse a whole list for one odd
tool, and a whole answer for one odd block.
"""

from __future__ import annotations

import atexit
import logging
import time
from concurrent.futures import CancelledError, Future, wait
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import anyio
from anyio.from_thread import start_blocking_portal
from mcp import Client, MCPError
from mcp_types import CONNECTION_CLOSED, Implementation, ListToolsResult, Tool, ToolListChangedNotification
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tract_jupyter.concurrency import current_stop
from tract_jupyter.exceptions import McpError, McpResultError
from tract_jupyter.models import brief_repr, one_line
from tract_jupyter.toolkit.mcp.flow import limited_streams

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcp.shared.dispatcher import CallOptions

    from tract_jupyter.toolkit.mcp.transports import Endpoint


T = TypeVar("T")

_STOP_SECONDS: Final = 10.0  # stopping a program takes at most six
_PAUSE_SECONDS: Final = 0.1  # between two reads of a list that changes constantly

# the SDK logs problems of servers here; our errors report them, and nothing may print into a cell
for _name in ("mcp", "client"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


OnProgress: TypeAlias = "Callable[[float, float | None, str | None], None]"
"""A callback for the progress of a call: the amount done, the total, and a message."""


class Patience:
    """The time limit of a request: some seconds since the last progress, and a total."""

    def __init__(self, timeout: float, longest: float) -> None:
        self._timeout, self._longest = timeout, longest
        self._last = time.monotonic() + longest
        self._is_extended = False
        self._until = time.monotonic() + timeout

    def extend(self) -> None:
        """Record progress."""
        self._is_extended = True
        self._until = time.monotonic() + self._timeout

    def why_over(self) -> str:
        """Return the limit that was exceeded, for an error."""
        if not self._is_extended:
            return f"did not answer within {min(self._timeout, self._longest):g} s"
        if self._last <= self._until:
            return f"did not end within {self._longest:g} s, though it reported progress"
        return f"reported no progress for {self._timeout:g} s"

    @property
    def seconds_left(self) -> float:
        """The remaining seconds; 0 if there are none."""
        return max(0.0, min(self._until, self._last) - time.monotonic())


class McpConnection:
    """A connection that is open until it is closed or the server ends. Threads may share it.

    `on_tools` is awaited in the connection's thread with its client, first at the start, and later at each change of
    the server's tools. The constructor raises a `TimeoutError` if it was not ready in time.
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
        atexit.register(self.close)  # otherwise, an unresponsive program would survive this process
        self._main = self._portal.start_task_soon(self._run)
        try:
            self._client = self._ready.result(start_timeout)
        except BaseException:
            self.close()
            raise

    @property
    def is_open(self) -> bool:
        """True if the server can still receive a call."""
        return not self._main.done() and not self.endpoint.ended.is_set()

    def run(self, job: Callable[[Client], Awaitable[T]], patience: Patience) -> T:
        """Run a job with the client, and wait for it in this thread. If the wait ends early, the job is cancelled.

        Raises:
            Stopped: the current stop signal was set, which ended the wait.
        """
        stop, future = current_stop(), self._portal.start_task_soon(job, self._client)
        forget = stop.on_set(future.cancel)
        try:
            while True:
                try:
                    return future.result(patience.seconds_left)
                except TimeoutError:
                    if future.done() or not patience.seconds_left:
                        raise
                except CancelledError:
                    stop.check()
                    raise
        finally:
            forget()
            future.cancel()  # if it is done, this does nothing

    def close(self) -> None:
        """Close the connection, and stop the server if it is a program. A second call does nothing."""
        atexit.unregister(self.close)
        self._main.cancel()
        wait([self._main], _STOP_SECONDS)
        self._stack.close()

    # --- in the connection's thread

    async def _run(self) -> None:
        try:
            await self._serve()
        except Exception as error:  # noqa: BLE001 # `_ready` passes it to the waiting thread; later, no thread waits
            if not self._ready.done():
                self._ready.set_exception(_innermost(error))

    async def _serve(self) -> None:
        client_info = Implementation(name="tract_jupyter", version=_version())
        client = Client(
            limited_streams(self.endpoint),
            cache=None,
            client_info=client_info,
            message_handler=self._on_message,
        )
        async with client, anyio.create_task_group() as tasks:
            await self._on_tools(client)
            self._ready.set_result(client)
            tasks.start_soon(self._listen, client)
            tasks.start_soon(self._follow, client)
            await self.endpoint.ended.wait()
            tasks.cancel_scope.cancel()

    async def _listen(self, client: Client) -> None:
        """Subscribe to changes of the tools. Servers from before 2026 announce them without a subscription."""
        tools = client.server_capabilities.tools
        if tools is None or not tools.list_changed or client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        with suppress(MCPError, RuntimeError, TimeoutError):  # the server may not support the subscription
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
            with suppress(McpError):  # the next use of the tools reports it
                await self._on_tools(client)
            await anyio.sleep(_PAUSE_SECONDS)


def _innermost(error: Exception) -> Exception:
    """Return the first error of a group. A task group wraps each error in a group."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def _version() -> str:
    from tract_jupyter import __version__

    return __version__


_MOST_TOOLS: Final = 1_000
_LONGEST_LIST: Final = 16_000_000  # characters
_COMPLETE: Final = "complete"
_POLL_MILLISECONDS: Final = (
    50,
    1_000,
    30_000,
)  # minimum, default and maximum between two polls of a task
_CANCEL_SECONDS: Final = 2.0


async def _request(
    client: Client, method: str, params: dict[str, Any] | None, on_progress: OnProgress | None = None
) -> dict[str, Any]:
    """Send a request, and return its result as the server sent it."""
    session = client.session
    data: dict[str, Any] = {"method": method} | ({"params": params} if params else {})
    options: CallOptions = {}
    session._stamp(data, options)  # noqa: SLF001 # no public method of the SDK returns the raw result
    if on_progress is not None:

        async def report(progress: float, total: float | None, message: str | None) -> None:
            on_progress(progress, total, message)

        options["on_progress"] = report
    return await session._dispatcher.send_raw_request(method, data.get("params"), options)  # noqa: SLF001


async def list_tools(client: Client, server: str) -> list[Any]:
    """Return all tools in the server's order, as it describes them.

    Raises:
        McpResultError: the server refuses, sends an invalid list, or sends an endless list.
    """
    listed: list[Any] = []
    length = 0
    cursor = None
    while True:
        try:
            page = await _request(client, "tools/list", cursor and {"cursor": cursor})
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                raise
            raise McpResultError(
                f"MCP server {server!r} does not list its tools: {one_line(error.message, 500)}"
            ) from None
        tools = _list_in(page, "tools", f"MCP server {server!r} sent a list of tools")
        listed += tools
        length += len(repr(page))
        if length > _LONGEST_LIST:
            raise McpResultError(
                f"MCP server {server!r} sent a list of tools of more than {_LONGEST_LIST:,} characters"
            )
        cursor = page.get("nextCursor") or None  # some servers end the list with an empty text
        if len(listed) > _MOST_TOOLS or not (tools or cursor is None):
            raise McpResultError(
                f"MCP server {server!r} sends an endless list of tools; the maximum is {_MOST_TOOLS:,}"
            )
        if cursor is None:
            return listed


def has_tasks(client: Client) -> bool:
    """Return True if the server runs tool calls as tasks."""
    tasks = client.server_capabilities.tasks
    return tasks is not None and tasks.requests is not None and tasks.requests.tools is not None


def check_headers(client: Client, tools: Mapping[str, dict[str, Any]]) -> set[str]:
    """Register the arguments that a server over HTTP expects as headers.

    Return the tools with an invalid declaration of headers. A client must not call them.
    """
    if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return set()
    listed = ListToolsResult(tools=[Tool(name=name, input_schema=schema) for name, schema in tools.items()])
    valid = client.session._absorb_tool_listing(listed, complete=True)  # noqa: SLF001 # as for `_stamp`
    return tools.keys() - {tool.name for tool in valid.tools}


async def call_tool(
    client: Client,
    server: str,
    tool: str,
    arguments: dict[str, Any],
    on_progress: OnProgress,
    *,
    task_seconds: float | None = None,
) -> dict[str, Any]:
    """Call a tool. If the server refuses, the answer is an error of the tool.

    The SDK's own `call_tool` checks the answer against the server's output schema, whose patterns could block this
    process forever. It may also answer requests of the server with a second call. This function does neither. With
    `task_seconds`, the call runs as a task, which the server retains for this time.

    Raises:
        McpResultError: the answer is invalid.
    """
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    try:
        if task_seconds is None:
            result = await _request(client, "tools/call", params, on_progress)
        else:
            task = {"ttl": round(task_seconds * 1_000)}
            result = await _request(client, "tools/call", {**params, "task": task}, on_progress)
            if isinstance(result.get("task"), dict):
                result = await _task_result(client, result["task"], f"{server}.{tool}", on_progress)
    except MCPError as error:
        return _refusal(error)
    if result.get("resultType", _COMPLETE) != _COMPLETE:
        raise _asks_back(f"{server}.{tool}")
    if "content" in result or "structuredContent" not in result:
        _list_in(result, "content", f"MCP server {server!r} sent an answer of {tool!r}")
    return result


async def _task_result(
    client: Client, task: dict[str, Any], subject: str, on_progress: OnProgress
) -> dict[str, Any]:
    """Wait for a task. If the wait ends before the task, the task is cancelled."""
    named = {"taskId": str(task.get("taskId"))}
    is_over = False
    try:
        while task.get("status") not in {"completed", "failed", "cancelled"}:
            if task.get("status") == "input_required":
                raise _asks_back(subject)
            await anyio.sleep(_pause(task.get("pollInterval")))
            task = await _request(client, "tasks/get", named)
            on_progress(0, None, str(task.get("statusMessage") or ""))
        is_over = True
    finally:
        if not is_over:
            with anyio.move_on_after(_CANCEL_SECONDS, shield=True), suppress(MCPError):
                await _request(client, "tasks/cancel", named)
    return await _request(client, "tasks/result", named)


def _pause(milliseconds: Any) -> float:
    least, usual, most = _POLL_MILLISECONDS
    is_number = isinstance(milliseconds, int | float) and not isinstance(milliseconds, bool)
    return min(most, max(least, milliseconds if is_number else usual)) / 1_000


async def read_resource(client: Client, server: str, uri: str) -> dict[str, Any]:
    """Read a resource. Its contents become the blocks of the answer."""
    try:
        result = await _request(client, "resources/read", {"uri": uri})
    except MCPError as error:
        return _refusal(error)
    contents = _list_in(result, "contents", f"MCP server {server!r} sent the resource {brief_repr(uri)}")
    return {"content": [{"type": "resource", "resource": content} for content in contents]}


def _refusal(error: MCPError) -> dict[str, Any]:
    """Convert an error of the server into an answer.

    Raises:
        MCPError: the connection has ended.
    """
    if error.code == CONNECTION_CLOSED:
        raise error
    return {"content": [{"type": "text", "text": error.message}], "isError": True}


def _asks_back(subject: str) -> McpResultError:
    return McpResultError(f"{subject} asks for input, which a call in code cannot give")


def _list_in(result: Mapping[str, Any], name: str, subject: str) -> list[Any]:
    """Return a list from a result."""
    value = result.get(name)
    if not isinstance(value, list):
        why = "Field required" if name not in result else "Input should be a valid list"
        raise McpResultError(f"{subject}, which is invalid: {name}: {why}")
    return value
