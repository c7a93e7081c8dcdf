"""A connection to an MCP server: kept open in a thread of its own, used from any other without `await`.

Requests are made with the SDK's client; their answers become plain data of limited size.
"""

from __future__ import annotations

import atexit
import json
import logging
from concurrent.futures import Future, wait
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import anyio
from anyio.from_thread import start_blocking_portal
from mcp import Client, MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    EmbeddedResource,
    Implementation,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from tract_jupyter.exceptions import (
    McpError,
    McpResultError,
)
from tract_jupyter.models import one_line, shortened

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from mcp_types import ContentBlock, Tool

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


_MOST_TOOLS: Final = 1_000


_COMPLETE: Final = "complete"


async def list_tools(client: Client, server: str) -> tuple[Tool, ...]:
    """Return all tools, in the server's order.

    Raises:
        McpResultError: the server refuses, or what it lists are no tools, or too many.
    """
    found: list[Tool] = []
    cursor = None
    while True:
        try:
            page = await client.list_tools(cursor=cursor)
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                raise
            raise McpResultError(
                f"MCP server {server!r} does not list its tools: {one_line(error.message, 500)}"
            ) from None
        except ValidationError as error:
            raise _nonsense(server, "a list of tools", error) from None
        found += page.tools
        cursor = page.next_cursor
        if len(found) > _MOST_TOOLS or not (page.tools or cursor is None):
            raise McpResultError(
                f"MCP server {server!r} lists tools without an end; {_MOST_TOOLS:,} are the most that are taken"
            )
        if cursor is None:
            return tuple(found)


async def call_tool(client: Client, server: str, tool: str, arguments: dict[str, Any]) -> CallToolResult:
    """Call a tool. A refusal of the server comes back as an error of the tool.

    The SDK's own `call_tool` checks the answer against the server's output schema, whose patterns could keep this
    process busy for ever, and may answer requests of the server by making the call again; neither happens here.

    Raises:
        McpResultError: the answer is not valid.
    """
    request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=arguments))
    try:
        result = await client.session.send_request(request, CallToolResult)
    except MCPError as error:
        if error.code == CONNECTION_CLOSED:
            raise
        return CallToolResult(content=[TextContent(text=error.message)], is_error=True)
    except ValidationError as error:
        raise _nonsense(server, f"an answer of {tool!r}", error) from None
    if result.result_type != _COMPLETE:
        raise McpResultError(f"{server}.{tool} asks a question back, which a call in code cannot answer")
    return result


def _nonsense(server: str, what: str, error: ValidationError) -> McpResultError:
    first = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(map(str, first["loc"]))
    why = one_line(f"{where}: {first['msg']}", 300)
    return McpResultError(f"MCP server {server!r} sent {what} that is not valid: {why}")


_LONGEST_REASON: Final = 2_000


def value_of(result: CallToolResult, subject: str, limit: int) -> Any:
    """Return the structured content of an answer, or else its text.

    Images, sounds and files are described and not passed on.

    Args:
        result: the answer.
        subject: the tool, for errors.
        limit: the most bytes of text.

    Raises:
        McpResultError: there is more.
    """
    value = result.structured_content
    text = _text(result.content) if value is None else json.dumps(value, ensure_ascii=False)
    size = len(text.encode(errors="surrogatepass"))
    if size > limit:
        raise McpResultError(
            f"{subject} answered with {size:,} bytes of text, and at most {limit:,} are taken over. Ask it for "
            "less, or raise result_bytes where the server is added"
        )
    return (text or None) if value is None else value


def reason_of(result: CallToolResult) -> str:
    """Return the reason that a failed answer gives."""
    text = _text(result.content)
    if not text and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
    return shortened(text.strip(), _LONGEST_REASON) or "the server did not say why"


def _text(content: list[ContentBlock]) -> str:
    return "\n".join(map(_block, content))


def _block(block: ContentBlock) -> str:
    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, ResourceLink):
        return f"[a link to {block.uri}]"
    if isinstance(block, EmbeddedResource):
        resource = block.resource
        if isinstance(resource, TextResourceContents):
            return resource.text
        return _described("file", resource.mime_type, resource.blob)
    return _described(block.type, block.mime_type, block.data)


def _described(what: str, mime_type: str | None, data: str) -> str:
    return f"[{what}, {mime_type or 'of an unknown type'}, {len(data) * 3 // 4:,} bytes, not passed on]"
