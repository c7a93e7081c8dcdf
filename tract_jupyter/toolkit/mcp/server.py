"""The server that `mcp_server` returns. The executor makes every call of a client.

A call continues if its client stops waiting for the answer: see `held`. The SDK has no tasks for servers, so a client
asks for a late result with the tool `result`.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import threading
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

import anyio
from anyio import to_thread
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp_types import (
    CallToolResult,
    ImageContent,
    ListToolsResult,
    TextContent,
    Tool,
    ToolAnnotations,
)

from tract_jupyter.exceptions import McpError, UndecidedError, nearest
from tract_jupyter.models import admin_limits, one_line
from tract_jupyter.prompts import (
    CALL_WAITS,
    LATE_RESULT,
    LATER_DECISION,
    RESULT_DESCRIPTION,
    RUNS,
    SERVER_INSTRUCTIONS,
    TOO_MANY_CALLS,
    UNKNOWN_CALL,
    WAITS_FOR_OWNER,
    refused_call,
)
from tract_jupyter.review import CLIENT, Channel, checking
from tract_jupyter.toolkit.ambient import CallNotes, InLine, OutsideCall, at_once, changed_context
from tract_jupyter.toolkit.call import failed
from tract_jupyter.toolkit.mcp.held import CLOSED, HeldCall, HeldCalls, call_key, hold_of
from tract_jupyter.toolkit.mcp.stdio import serve_stdio
from tract_jupyter.toolkit.results import ToolResult

if TYPE_CHECKING:
    import contextvars
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from anyio.abc import TaskGroup
    from mcp.server.context import ServerRequestContext
    from mcp.server.session import ServerSession
    from mcp_types import CallToolRequestParams, PaginatedRequestParams

    from tract_jupyter.operations import Operations
    from tract_jupyter.review import Reviewer, Ticket
    from tract_jupyter.toolkit.profiles import ToolProfile
    from tract_jupyter.toolkit.toolset import Toolset


_LOOK_SECONDS: Final = 1.0  # between two checks for a changed list of tools


_AT_ONCE: Final = (
    64  # calls that only read; the same limit applies to all others, most of which wait for a decision
)


_PROGRESS_SECONDS: Final = 10.0  # between two reports


_LONGEST_NAME: Final = 64


_END_SECONDS: Final = 2.0
RESULT: Final = "result"
"""The tool that waits again for the result of a call."""


class ServedAs(NamedTuple):
    """A tool of the executor under another name for clients, with fixed arguments."""

    name: str
    tool: str
    fixed: Mapping[str, Any]
    description: str


class Surroundings(NamedTuple):
    """The way in which a server in a kernel makes calls.

    `in_line` runs approved code in line with the user's cells. `renamed` has tools under other names; their own names
    are not served. If no user can be reached, requests stay in the inbox with `has_inbox`; otherwise such calls fail.
    """

    context: Callable[[], contextvars.Context] | None = None
    in_line: InLine = at_once
    renamed: Sequence[ServedAs] = ()
    notes: Callable[[], CallNotes] = CallNotes
    has_inbox: bool = True


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

    def __init__(
        self,
        tract: ServedTract,
        profile: str | ToolProfile,
        decision_timeout: float | None,
        surroundings: Surroundings | None = None,
    ) -> None:
        from tract_jupyter import __version__

        self._tract = tract
        self._profile = tract.toolset(profile).profile
        self._surroundings = surroundings = surroundings or Surroundings()
        self._renamed = {one.name: one for one in surroundings.renamed}
        self._hidden = frozenset(one.tool for one in surroundings.renamed)
        self._changes = InMemorySubscriptionBus()
        self._session: ServerSession | None = None
        self._readers, self._writers = (anyio.CapacityLimiter(_AT_ONCE) for _ in range(2))
        self._running: set[threading.Event] = set()
        self._calls = HeldCalls()
        self._listed: dict[str, bool] = {}  # the listed tools, with True for one that only reads
        self._tasks: TaskGroup
        if surroundings.has_inbox:
            self._ask_in_inbox(decision_timeout)
        self.server: Server[Any] = Server(
            "tract_jupyter",
            version=__version__,
            instructions=SERVER_INSTRUCTIONS,
            lifespan=self._watching,
            get_tool_input_schema=lambda _name: None,  # no tool takes an argument from an HTTP header
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
        anyio.run(serve_stdio, self.server)
        for ended in list(self._running):  # each knows that its client no longer waits
            ended.wait(_END_SECONDS)

    def _ask_in_inbox(self, timeout: float | None) -> None:
        reviewer = self._tract.reviewer
        if type(reviewer.channel) is Channel:  # no user can be reached
            reviewer.channel = InboxChannel()
            if timeout is not None:
                reviewer.timeout, reviewer.on_timeout = timeout, "deny"

    # --- requests of a client

    async def _list_tools(
        self, ctx: ServerRequestContext[Any], _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        self._session = ctx.session
        return ListToolsResult(tools=[*await to_thread.run_sync(self._tools), _RESULT_TOOL])

    async def _call_tool(
        self, ctx: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult:
        self._session = ctx.session
        actor, arguments = f"{CLIENT}{_client(ctx) or 'unknown'}", params.arguments or {}
        call = (
            self._calls.find(arguments.get("id"), actor)
            if params.name == RESULT
            else await self._begin(params.name, arguments, actor)
        )
        if call is None:
            problem = UNKNOWN_CALL if params.name == RESULT else TOO_MANY_CALLS
            return CallToolResult(content=[_block(problem)], is_error=True)
        return await self._wait(ctx, call)

    async def _begin(self, name: str, arguments: dict[str, Any], actor: str) -> HeldCall | None:
        """Begin a call, or return the identical one of this client. None if too many calls wait."""
        reads = self._listed.get(name)
        if reads is None:
            reads = await to_thread.run_sync(self._reads, name)
        key = call_key(actor, name, arguments)
        while not reads and (before := self._calls.identical(key)) is not None:
            if before.join():
                return before
            await before.ended.wait()
        if self._calls.is_full:
            return None
        outside, notes = OutsideCall(in_line=self._surroundings.in_line), self._surroundings.notes()
        call = HeldCall(actor, name, arguments, key, outside, notes=notes)
        self._calls.add(call)
        self._tasks.start_soon(self._carry_out, call, self._readers if reads else self._writers)
        return call

    async def _carry_out(self, call: HeldCall, limiter: anyio.CapacityLimiter) -> None:
        execute = partial(self._execute, call)
        if self._surroundings.context is not None:
            execute = partial(self._surroundings.context().run, execute)
        result = await to_thread.run_sync(execute, abandon_on_cancel=True, limiter=limiter)
        if isinstance(result.cause, UndecidedError):
            await to_thread.run_sync(self._leave, call)
            result = result._replace(error=LATER_DECISION.format(why=str(result.cause).rstrip(".")))
        self._calls.end(call, result)

    async def _wait(self, ctx: ServerRequestContext[Any], call: HeldCall) -> CallToolResult:
        """Wait for the result of a call, and report progress. After some time, answer without the result."""
        has_progress = (ctx.meta or {}).get("progress_token") is not None
        self._calls.wait(call)
        is_cancelled = True
        try:
            with anyio.move_on_after(hold_of(_client(ctx), has_progress=has_progress)):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_report, ctx.session, call)
                    await call.ended.wait()
                    tasks.cancel_scope.cancel()
            is_cancelled = False
        finally:
            self._calls.end_wait(call, is_cancelled=is_cancelled)
        if call.result is None:
            return _unfinished(call)
        call.is_delivered = not (ctx.request and ctx.request.scope.get(CLOSED))
        call.was_left = call.was_left or not call.is_delivered
        return answer(call.result, call.tool, LATE_RESULT if call.was_left else "")

    def _reads(self, name: str) -> bool:
        """Return True if a tool only reads. Its calls must not wait behind calls that need a decision."""
        with suppress(Exception):  # the call reports the problem
            renamed = self._renamed.get(name)
            tool = self._tract.toolset(self._profile).get(name if renamed is None else renamed.tool)
            return tool is not None and tool.traits.read_only
        return False

    def _execute(self, call: HeldCall) -> ToolResult:
        """Execute a call in this thread. It may wait for the user."""
        ended = threading.Event()
        self._running.add(ended)
        try:
            admin_limits().check_outside_agents()
            self._tract.operations.look_again()
            with changed_context(notes=call.notes, outside=call.outside), checking(call.check):
                return self._executed(call)
        except Exception as error:  # noqa: BLE001 # of the store; the SDK would hide the message
            return failed(call.tool, error)
        finally:
            if call.has_left:
                self._leave(call)
            ended.set()
            self._running.discard(ended)

    def _executed(self, call: HeldCall) -> ToolResult:
        toolset = self._tract.toolset(self._profile, actor=call.actor)
        renamed = self._renamed.get(call.tool)
        if renamed is not None:
            return toolset.execute(renamed.tool, {**call.arguments, **renamed.fixed})
        tool = toolset.get(call.tool)
        if self._renamed and (tool is None or tool.name in self._hidden):
            names = sorted([*(one.name for one in self._tools()), RESULT])
            error = f"no tool {call.tool!r} is served.{nearest(call.tool, names)} Tools: {', '.join(names)}"
            return ToolResult(call.tool, success=False, error=error, denied=tool is not None)
        return toolset.execute(call.tool, call.arguments)

    def _leave(self, call: HeldCall) -> None:
        """Let a request that stays open wait for the identical call: nothing carries out its approval now."""
        for pending in call.notes.asked:
            with suppress(Exception):  # the store may be locked or closed; the row then has no lease
                self._tract.reviewer.leave(pending)

    # --- changes of the tools

    def _tools(self) -> list[Tool]:
        self._tract.operations.look_again()
        shapes = self._tract.as_tools(self._profile, format="mcp")
        renamed = self._renamed.values()
        by_name = {shape["name"]: shape for shape in shapes}
        own = [_renamed_shape(one, by_name[one.tool]) for one in renamed if one.tool in by_name]
        others = [shape for shape in shapes if shape["name"] not in {*self._hidden, *self._renamed, RESULT}]
        self._listed = {shape["name"]: shape["annotations"]["readOnlyHint"] for shape in (*own, *others)}
        return [Tool.model_validate(shape) for shape in (*own, *others)]

    @asynccontextmanager
    async def _watching(self, _server: Server[Any]) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            tasks.start_soon(self._watch, await self._look())  # before a client can list them
            try:
                yield
            finally:
                self._calls.leave()
                tasks.cancel_scope.cancel()

    async def _watch(self, known: list[Tool] | None) -> None:
        """Notify the client when tools appear or disappear, such as operations activated in a notebook."""
        while True:
            await anyio.sleep(_LOOK_SECONDS)
            self._calls.tidy()
            now = await self._look()
            if now is None:
                continue
            if known is not None and now != known:
                with suppress(Exception):  # the client may be gone
                    await self._notify_of_changes()
            known = now

    async def _look(self) -> list[Tool] | None:
        """Return the tools; None if the store has a problem, which the next call reports."""
        try:
            return await to_thread.run_sync(self._tools)
        except Exception:  # noqa: BLE001 # of the store
            return None

    async def _notify_of_changes(self) -> None:
        await self._changes.publish(ToolsListChanged())  # for current clients
        if self._session is not None:
            await self._session.send_tool_list_changed()  # for a client from before 2026


_ID: Final = {"type": "string", "description": "The id from the unfinished call."}
_RESULT_TOOL: Final = Tool(
    name=RESULT,
    description=RESULT_DESCRIPTION,
    input_schema={"type": "object", "properties": {"id": _ID}, "required": ["id"]},
    annotations=ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False),
)


def _renamed_shape(one: ServedAs, shape: dict[str, Any]) -> dict[str, Any]:
    schema = shape["inputSchema"]
    properties = {
        name: value for name, value in schema.get("properties", {}).items() if name not in one.fixed
    }
    required = [name for name in schema.get("required", ()) if name not in one.fixed]
    input_schema = {**schema, "properties": properties, "required": required}
    return {**shape, "name": one.name, "description": one.description, "inputSchema": input_schema}


async def _report(session: ServerSession, call: HeldCall) -> None:
    """Report progress until cancellation. Without reports, some clients give up while the user decides."""
    for step in itertools.count(1):
        await anyio.sleep(_PROGRESS_SECONDS)
        await session.report_progress(step, message=WAITS_FOR_OWNER if call.is_undecided else RUNS)


def _unfinished(call: HeldCall) -> CallToolResult:
    """Return the answer for a call without a result."""
    status = "waiting" if call.is_undecided else "running"
    told = {"status": status, "id": call.call_id, "note": CALL_WAITS[status].format(id=call.call_id)}
    return CallToolResult(content=[_block(json.dumps(told))], structured_content=told)


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _client(ctx: ServerRequestContext[Any]) -> str:
    """Return the name that a client gives."""
    client = ctx.session.client_params
    return "" if client is None else one_line(client.client_info.name, _LONGEST_NAME)


def answer(result: ToolResult, name: str, note: str = "") -> CallToolResult:
    """Convert a result for a client: its value, or the reason of a failure or refusal."""
    notes = [_block(note)] if note else []
    if not result.success:
        why = refused_call(name, result.error) if result.denied else result.error
        return CallToolResult(content=[_block(why), *notes], is_error=True)
    value: Any = result.output
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    images = [
        ImageContent(data=base64.b64encode(image.data).decode(), mime_type=image.attachment.media_type)
        for image in result.images
    ]
    # only objects may be structured
    return CallToolResult(
        content=[_block(text), *images, *notes],
        structured_content=value if isinstance(value, dict) else None,
    )


def _block(text: str) -> TextContent:
    return TextContent(text=text.encode(errors="replace").decode())  # a lone surrogate cannot be sent


class InboxChannel(Channel):
    """A channel without its own display. A notebook on the same store shows the requests with `%tract inbox`."""

    name = "inbox"

    def can_reach(self) -> bool:
        """Return True: the user may look at the inbox."""
        return True

    def panel_may_answer(self, ticket: Ticket, waited: float) -> bool:  # noqa: ARG002
        """Return True: only the inbox answers. The wait ends if the client no longer waits for the call."""
        return True
