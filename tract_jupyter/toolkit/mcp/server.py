"""The server that `mcp_server` returns. The executor makes every call of a client."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import anyio
from anyio import to_thread
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    CallToolResult,
    ErrorData,
    JSONRPCError,
    ListToolsResult,
    TextContent,
    Tool,
)
from pydantic import ValidationError

from tract_jupyter.exceptions import McpError, UndecidedError
from tract_jupyter.models import printable
from tract_jupyter.prompts import RUNS, SERVER_INSTRUCTIONS, WAITS_FOR_OWNER, refused_call
from tract_jupyter.review import Channel
from tract_jupyter.toolkit.ambient import CallNotes, changed_context
from tract_jupyter.toolkit.call import failed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp.server.context import ServerRequestContext
    from mcp.server.session import ServerSession
    from mcp_types import CallToolRequestParams, PaginatedRequestParams

    from tract_jupyter.operations import Operations
    from tract_jupyter.review import Answer, Reviewer, Ticket
    from tract_jupyter.toolkit.profiles import ToolProfile
    from tract_jupyter.toolkit.results import ToolResult
    from tract_jupyter.toolkit.toolset import Toolset


_LOOK_SECONDS: Final = 1.0  # between two checks for a changed list of tools


_AT_ONCE: Final = (
    64  # calls that only read; the same limit applies to all others, most of which wait for a decision
)


_PROGRESS_SECONDS: Final = (
    10.0  # between two reports; clients of the TypeScript SDK give up after 60 without one
)


_LONGEST_NAME: Final = 64


_END_SECONDS: Final = 2.0


class ServedTract(Protocol):
    """The part of a tract that a server needs."""

    @property
    def location(self) -> str:
        """The path or URL of the store."""
        ...

    @property
    def operations(self) -> Operations:
        """The dynamic operations, whose tools come and go."""
        ...

    @property
    def reviewer(self) -> Reviewer:
        """The reviewer, which asks the user about a client's calls."""
        ...

    def toolset(self, profile: str | ToolProfile, *, actor: str = ...) -> Toolset:
        """Return the tools of a profile for a client."""
        ...

    def as_tools(self, profile: str | ToolProfile, *, format: Literal["mcp"]) -> list[dict[str, Any]]:  # noqa: A002
        """Return these tools in MCP's format."""
        ...


class McpService:
    """The MCP server of one tract.

    Attributes:
        server: the SDK's server, for other transports than stdio.
    """

    def __init__(self, tract: ServedTract, profile: str | ToolProfile, decision_timeout: float) -> None:
        from tract_jupyter import __version__

        self._tract = tract
        self._profile = tract.toolset(profile).profile
        self._changes = InMemorySubscriptionBus()
        self._session: ServerSession | None = None
        self._readers, self._writers = (anyio.CapacityLimiter(_AT_ONCE) for _ in range(2))
        self._running: set[threading.Event] = set()
        self._ask_in_inbox(decision_timeout)
        self.server: Server[Any] = Server(
            "tract_jupyter",
            version=__version__,
            instructions=SERVER_INSTRUCTIONS.format(seconds=decision_timeout),
            lifespan=self._watching,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_subscriptions_listen=ListenHandler(self._changes),
        )

    def run(self) -> None:
        """Serve over stdin and stdout until the client disconnects. All other printed output goes to stderr.

        Raises:
            McpError: stdin and stdout belong to a notebook.
        """
        if _in_event_loop():
            raise McpError(
                "stdin and stdout belong to this notebook. Serve the store from a separate process: "
                f"python -m tract_jupyter mcp-server {self._tract.location}"
            )
        anyio.run(self._serve)
        for ended in list(self._running):  # each knows that its client no longer waits
            ended.wait(_END_SECONDS)

    async def _serve(self) -> None:
        options = self.server.create_initialization_options(NotificationOptions(tools_changed=True))
        async with stdio_server() as (incoming, outgoing), anyio.create_task_group() as tasks:
            to_us, valid = anyio.create_memory_object_stream[SessionMessage | Exception](0)
            tasks.start_soon(_answer_invalid, incoming, to_us, outgoing.clone())
            await self.server.run(valid, outgoing, options)

    def _ask_in_inbox(self, timeout: float) -> None:
        reviewer = self._tract.reviewer
        if type(reviewer.channel) is Channel:  # no user can be reached
            reviewer.channel = InboxChannel()
            reviewer.timeout, reviewer.on_timeout = timeout, "deny"

    # --- requests of a client

    async def _list_tools(
        self, ctx: ServerRequestContext[Any], _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        self._session = ctx.session
        return ListToolsResult(tools=await to_thread.run_sync(self._tools))

    async def _call_tool(
        self, ctx: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult:
        self._session = ctx.session
        over, notes = threading.Event(), CallNotes()
        given_up.set(over)  # in this request's own context
        execute = partial(self._execute, params.name, params.arguments or {}, _actor(ctx), notes)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_report, ctx.session, notes)
                reads = await to_thread.run_sync(self._reads, params.name)
                limiter = self._readers if reads else self._writers
                result = await to_thread.run_sync(execute, abandon_on_cancel=True, limiter=limiter)
                tasks.cancel_scope.cancel()
            return answer(result)
        finally:
            over.set()

    def _reads(self, name: str) -> bool:
        """Return True if a tool only reads. Its calls must not wait behind calls that need a decision."""
        with suppress(Exception):  # the call reports the problem
            tool = self._tract.toolset(self._profile).get(name)
            return tool is not None and tool.traits.read_only
        return False

    def _execute(self, name: str, arguments: dict[str, Any], actor: str, notes: CallNotes) -> ToolResult:
        """Execute a call in this thread. It may wait for the user."""
        ended = threading.Event()
        self._running.add(ended)
        try:
            self._tract.operations.look_again()
            with changed_context(notes=notes):
                return self._tract.toolset(self._profile, actor=actor).execute(name, arguments)
        except Exception as error:  # noqa: BLE001 # of the store; the SDK would hide the message
            return failed(name, error)
        finally:
            ended.set()
            self._running.discard(ended)

    # --- changes of the tools

    def _tools(self) -> list[Tool]:
        self._tract.operations.look_again()
        return [Tool.model_validate(shape) for shape in self._tract.as_tools(self._profile, format="mcp")]

    @asynccontextmanager
    async def _watching(self, _server: Server[Any]) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch)
            yield
            tasks.cancel_scope.cancel()

    async def _watch(self) -> None:
        """Notify the client when tools appear or disappear, such as operations activated in a notebook."""
        known: list[Tool] | None = None
        while True:
            with suppress(Exception):  # the next call reports problems of the store
                now = await to_thread.run_sync(self._tools)
                if known is not None and now != known:
                    await self._notify_of_changes()
                known = now
            await anyio.sleep(_LOOK_SECONDS)

    async def _notify_of_changes(self) -> None:
        await self._changes.publish(ToolsListChanged())  # for current clients
        if self._session is not None:
            await self._session.send_tool_list_changed()  # for a client from before 2026


async def _report(session: ServerSession, notes: CallNotes) -> None:
    """Report progress until cancellation. Without reports, the client gives up while the user decides."""
    for step in itertools.count(1):
        await anyio.sleep(_PROGRESS_SECONDS)
        waits = any(pending.status.is_open for pending in notes.asked)
        await session.report_progress(step, message=WAITS_FOR_OWNER if waits else RUNS)


async def _answer_invalid(incoming: Any, valid: Any, outgoing: Any) -> None:
    """Pass messages on, and answer any other line with an error. The SDK would drop it."""
    async with incoming, valid, outgoing:
        async for item in incoming:
            if not isinstance(item, Exception):
                await valid.send(item)
            elif (error := _error_for(item)) is not None:
                await outgoing.send(SessionMessage(error))


def _error_for(problem: Exception) -> JSONRPCError | None:
    """Return the error for a line that is not a message; None for a blank line.

    The error has the id of the line, if it has a valid one.
    """
    errors = problem.errors(include_url=False) if isinstance(problem, ValidationError) else []
    inputs = [entry["input"] for entry in errors]
    if inputs and isinstance(inputs[0], str) and not inputs[0].strip():
        return None
    code, why = INVALID_REQUEST, "Invalid Request: the line is not a JSON-RPC message"
    if not errors or errors[0]["type"] == "json_invalid":
        code, why = PARSE_ERROR, "Parse error: the line is not JSON"
    message_id = next((value.get("id") for value in inputs if isinstance(value, dict)), None)
    is_id = isinstance(message_id, str | int) and not isinstance(message_id, bool)
    return JSONRPCError(
        jsonrpc="2.0", id=message_id if is_id else None, error=ErrorData(code=code, message=why)
    )


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _actor(ctx: ServerRequestContext[Any]) -> str:
    """Return the actor of a client, with the client's own name."""
    client = ctx.session.client_params
    name = "" if client is None else printable(client.client_info.name, _LONGEST_NAME).strip()
    return f"mcp:{name or 'unknown'}"


def answer(result: ToolResult) -> CallToolResult:
    """Convert a result for a client: its value, or the reason of a failure or refusal."""
    if not result.success:
        why = refused_call(result.tool_name, result.error) if result.denied else result.error
        return CallToolResult(content=[_block(why)], is_error=True)
    value: Any = result.output
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    # only objects may be structured
    return CallToolResult(
        content=[_block(text)], structured_content=value if isinstance(value, dict) else None
    )


def _block(text: str) -> TextContent:
    return TextContent(text=text.encode(errors="replace").decode())  # a lone surrogate cannot be sent


given_up: ContextVar[threading.Event] = ContextVar("given_up")
"""Set when the client no longer waits for the call of this thread."""


class InboxChannel(Channel):
    """A channel without its own display. A notebook on the same store shows the requests with `%tract inbox`."""

    name = "inbox"

    def can_reach(self) -> bool:
        """Return True: the user may look at the inbox."""
        return True

    def panel_may_answer(self, ticket: Ticket, waited: float) -> bool:  # noqa: ARG002
        """Return True as long as the client waits for the call."""
        call = given_up.get(None)
        return call is None or not call.is_set()

    def prompt(self, ticket: Ticket, **_: object) -> Answer | None:
        """Give up, because the client no longer waits.

        Raises:
            UndecidedError: always.
        """
        raise UndecidedError("the client cancelled the call before a decision", ticket.pending)
