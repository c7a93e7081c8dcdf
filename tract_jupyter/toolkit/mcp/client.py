"""The client of an MCP server: a program on this machine, or a URL.

The data of a server are claims of another party. Their size is limited, and they are never executed.
"""

from __future__ import annotations

import re
import shlex
import threading
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from tract_jupyter.concurrency import Stopped
from tract_jupyter.exceptions import (
    ContentError,
    McpConnectionError,
    McpError,
    McpStartError,
    McpTimeoutError,
    SpecError,
    ToolExecutionError,
)
from tract_jupyter.models import admin_limits, brief_repr, one_line, plain, repr_of_whole, sha256, working
from tract_jupyter.operations import TOOL_PREFIX
from tract_jupyter.prompts import READ_RESOURCE_DESCRIPTION
from tract_jupyter.toolkit.names import HELPERS, TOOL_GROUPS, python_name

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from pathlib import Path

    from mcp import Client

    from tract_jupyter.models import Work
    from tract_jupyter.toolkit.mcp.connection import McpConnection, Patience
    from tract_jupyter.toolkit.mcp.content import McpAnswer
    from tract_jupyter.toolkit.mcp.transports import Endpoint

T = TypeVar("T")

READ_RESOURCE: Final = "read_resource"
"""The name of the tool that reads a server's resources."""

_MOST_VALUES: Final = 2_000_000  # they take a second and 250 MB
_USER: Final = re.compile(r"(?<=://)[^/?#]*@")
_QUERY: Final = re.compile(r"([?#]).*", re.DOTALL)


@dataclass(frozen=True)
class McpTool:
    """A tool as its server describes it. The hints are the server's claims; None if there is no claim.

    Attributes:
        runs_as_task: it can only be called as a task.
        reads_resources: it is not a tool of the server: it reads the server's resources.
        problem: the reason why it is unusable; empty if no problem is known.
    """

    name: str
    description: str = ""
    input_schema: dict[str, Any] = field(default_factory=dict)
    output_schema: dict[str, Any] | None = None
    read_only: bool | None = None
    destructive: bool | None = None
    open_world: bool | None = None
    runs_as_task: bool = False
    reads_resources: bool = False
    problem: str = ""

    @classmethod
    def listed(cls, tool: Any, place: int, *, has_tasks: bool) -> McpTool:
        """Convert an entry of a server's list of tools."""
        if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
            return cls(f"(tool {place})", problem="it has no name")
        hints, execution = (_part(tool, name) for name in ("annotations", "execution"))
        described = (tool.get("description"), tool.get("title"), hints.get("title"))
        output = tool.get("outputSchema")
        result = cls(
            tool["name"],
            next((text for text in described if isinstance(text, str) and text), ""),
            output_schema=output if isinstance(output, dict) else None,
            read_only=_claim(hints, "readOnlyHint"),
            destructive=_claim(hints, "destructiveHint"),
            open_world=_claim(hints, "openWorldHint"),
            runs_as_task=has_tasks and execution.get("taskSupport") == "required",
        )
        try:
            return replace(result, input_schema=_object_schema(tool.get("inputSchema")))
        except SpecError as error:
            return replace(result, problem=str(error))

    @classmethod
    def of_resources(cls) -> McpTool:
        """Return the tool that reads the resources of a server."""
        uri = {"type": "string", "description": "The URI of the resource, as an answer links to it."}
        schema = {"type": "object", "properties": {"uri": uri}, "required": ["uri"]}
        return cls(
            READ_RESOURCE, READ_RESOURCE_DESCRIPTION, schema, read_only=True, destructive=False,
            reads_resources=True,
        )  # fmt: skip


def _part(tool: dict[str, Any], name: str) -> dict[str, Any]:
    value = tool.get(name)
    return value if isinstance(value, dict) else {}


def _claim(hints: dict[str, Any], name: str) -> bool | None:
    value = hints.get(name)
    return value if isinstance(value, bool) else None  # a hint that is not a boolean is ignored


def _object_schema(schema: Any) -> dict[str, Any]:
    """Return the schema of a tool's arguments as the schema of an object."""
    if schema is None:
        return {"type": "object", "properties": {}}
    if not isinstance(schema, dict):
        raise SpecError(f"its inputSchema is not a JSON Schema, but {brief_repr(schema)}")
    choices = schema.get("anyOf") or schema.get("oneOf")
    if not _may_be_object(schema) or (isinstance(choices, list) and not any(map(_may_be_object, choices))):
        raise SpecError(
            f"its inputSchema must describe an object, not {brief_repr(schema.get('type', choices))}"
        )
    return {**schema, "type": "object"}


def _may_be_object(schema: Any) -> bool:
    kind = schema.get("type", "object") if isinstance(schema, dict) else "object"
    return "object" in kind if isinstance(kind, list) else kind == "object"


@contextmanager
def needing_sdk() -> Iterator[None]:
    """Explain how to install the SDK if an import in this block does not find it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise McpStartError(
            f"MCP needs a package that is not installed ({error.name}): "
            "python -m pip install 'tract_jupyter[mcp]'"
        ) from None


class McpServer:
    """One MCP server. The first use starts its program or connects to its URL. The connection then stays open.

    Threads may share it. Their calls run in parallel. The arguments are those of `McpTools.add`.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str] | None = None,
        *,
        url: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 60.0,
        longest_timeout: float = 3_600.0,
        start_timeout: float = 30.0,
        result_bytes: int = 1_000_000,
        trust_annotations: bool = False,
    ) -> None:
        check_server(name, command, url)
        check_limits(
            name, timeout=timeout, longest_timeout=longest_timeout, start_timeout=start_timeout,
            result_bytes=result_bytes,
        )  # fmt: skip
        self._env, self._headers = checked_texts(name, "env", env), checked_texts(name, "headers", headers)
        self.name = name
        self.command = None if command is None else tuple(command)
        self.url = url
        self.timeout = timeout
        self.longest_timeout = longest_timeout
        self.result_bytes = result_bytes
        self.trust_annotations = trust_annotations
        self._start_timeout = start_timeout
        self._cwd = cwd
        self._connection: McpConnection | None = None
        self._lock = threading.Lock()
        self._is_closed = False
        self.listed: tuple[McpTool, ...] = ()
        """The tools in its last list. It is another tuple as soon as the list changes."""
        self.problem = ""
        """The problem with its last list of tools, if there was one."""

    @property
    def place(self) -> str:
        """The command, or the URL, for errors and displays: without a user, a query and texts that look like keys."""
        from tract_jupyter.llm import mask_secrets

        url = _QUERY.sub(r"\1***", _USER.sub("***@", self.url or ""))
        return mask_secrets(url or shlex.join(self.command or ()), "***")

    @property
    def identity(self) -> str:
        """64 hex digits over the target. Another command, folder or variable means another server."""
        reached = [self.command, self.url, str(self._cwd), sorted(self._env.items())]
        return sha256(ascii(reached).encode())  # a path on this machine need not be valid Unicode

    @property
    def is_running(self) -> bool:
        """True if it is connected now."""
        connection = self._connection
        return connection is not None and connection.is_open

    @property
    def stderr(self) -> str:
        """The end of its program's stderr output."""
        connection = self._connection
        return "" if connection is None else connection.endpoint.tail.text

    def start(self) -> None:
        """Connect and read its tools, unless it is connected already.

        Raises:
            McpStartError: it cannot be started or reached, or is not ready in time.
            AdminLimitError: the administrator's limits do not allow this server.
            McpResultError: its list of tools is invalid.
        """
        self._connected()

    def list_tools(self) -> list[McpTool]:
        """Read its tools again, and return them."""
        self._request(lambda client, _: self._look(client), self.timeout, "asked for its tools")
        return list(self.listed)

    def call(
        self, tool: str, arguments: Mapping[str, Any] | None = None, *, timeout: float | None = None
    ) -> Any:
        """Call a tool, and return its structured content, or its text if there is none.

        The call is never repeated automatically, because it may have had its effect.

        Args:
            tool: its name on the server.
            arguments: the arguments by name. Their values have a JSON form.
            timeout: maximum seconds without progress. Then the call is cancelled.

        Raises:
            ToolExecutionError: the tool or the server reports a failure.
            McpError: the server cannot be started, is lost, does not answer in time, or sends too much.
        """
        return self.answer(tool, arguments, timeout=timeout).value

    def answer(
        self, tool: str, arguments: Mapping[str, Any] | None = None, *, timeout: float | None = None
    ) -> McpAnswer:
        """Call a tool, and return the value for code and the text for a model. Otherwise like `call`."""
        full = f"{self.name}.{tool}"
        try:
            values = plain(dict(arguments or {}))
        except ContentError as error:
            raise ToolExecutionError(
                full, arguments or {}, f"the arguments cannot be sent: {error}"
            ) from None
        self._connected()
        listed = next((entry for entry in self.listed if entry.name == tool), McpTool(tool))
        with working(full) as work:
            result = self._request(
                lambda client, patience: self._call(client, listed, values, _Progress(full, work, patience)),
                self.timeout if timeout is None else timeout,
                "called",
            )
        from tract_jupyter.toolkit.mcp.content import may_wrap, read_answer, read_reason

        if result.get("isError"):
            raise ToolExecutionError(full, values, read_reason(result))
        return read_answer(result, full, self.result_bytes, wraps=may_wrap(listed.output_schema))

    def close(self) -> None:
        """Disconnect, and stop its program. A second call does nothing."""
        with self._lock:
            self._is_closed = True
            self._drop(self._connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @repr_of_whole
    def __repr__(self) -> str:
        return f"<McpServer {self.name}: {self.place}>"

    # ---

    def _call(
        self, client: Client, tool: McpTool, arguments: dict[str, Any], on_progress: _Progress
    ) -> Awaitable[dict[str, Any]]:
        from tract_jupyter.toolkit.mcp.connection import call_tool, read_resource

        if tool.reads_resources:
            return read_resource(client, self.name, str(arguments.get("uri")))
        seconds = self.longest_timeout if tool.runs_as_task else None
        return call_tool(client, self.name, tool.name, arguments, on_progress, task_seconds=seconds)

    def _request(self, job: Callable[[Client, Patience], Awaitable[T]], timeout: float, activity: str) -> T:
        """Run a job on the connection; `was` describes the server's activity, for errors."""
        connection = self._connected()
        from tract_jupyter.toolkit.mcp.connection import Patience

        patience = Patience(timeout, self.longest_timeout)
        try:
            return connection.run(lambda client: job(client, patience), patience)
        except TimeoutError:
            raise McpTimeoutError(
                f"MCP server {self.name!r} was {activity} and {patience.why_over()}, so the call was cancelled; "
                "it may have had its effect"
            ) from None
        except (McpError, Stopped):
            raise
        except Exception as error:
            with self._lock:
                self._drop(connection)
            why = connection.endpoint.why_it_ended() or one_line(str(error), 500) or _FAILED
            raise McpConnectionError(
                f"MCP server {self.name!r} was lost while it was {activity}, which may have had its effect; the next "
                f"call starts it again: {why}"
            ) from error

    async def _look(self, client: Client) -> None:
        """Replace its tools by the current list. If the list is unusable, there are none."""
        from tract_jupyter.toolkit.mcp.connection import check_headers, has_tasks, list_tools

        try:
            tools, self.problem = await list_tools(client, self.name), ""
        except McpError as error:
            self.listed, self.problem = (), str(error)
            raise
        tasks = has_tasks(client)
        entries = [McpTool.listed(tool, place, has_tasks=tasks) for place, tool in enumerate(tools, 1)]
        refused = check_headers(
            client, {tool.name: tool.input_schema for tool in entries if not tool.problem}
        )
        entries = [replace(tool, problem=_HEADERS) if tool.name in refused else tool for tool in entries]
        if client.server_capabilities.resources is not None and all(
            python_name(tool.name) != READ_RESOURCE for tool in entries
        ):
            entries.append(McpTool.of_resources())
        listed = tuple(entries)
        if listed != self.listed:  # an equal list keeps the existing definitions
            self.listed = listed

    def _connected(self) -> McpConnection:
        limits = admin_limits()
        if self.url is not None:
            limits.check_mcp_url(self.url, self.place)
        else:
            limits.check_mcp_command(
                shlex.join(self.command or ()), self.place, has_environment=bool(self._env),
                has_folder=self._cwd is not None,
            )  # fmt: skip
        with self._lock:
            if self._is_closed:
                raise McpStartError(f"MCP server {self.name!r} was closed; add it again")
            if not self.is_running:
                self._drop(self._connection)
                self._connection = self._connect()
            return self._connection  # type: ignore[return-value] # it is one now

    def _drop(self, connection: McpConnection | None) -> None:
        """Close a connection, if it is still the current one. The caller holds the lock."""
        if connection is not None and connection is self._connection:
            self._connection = None
            connection.close()

    def _connect(self) -> McpConnection:
        with needing_sdk():
            from tract_jupyter.toolkit.mcp.connection import McpConnection
        endpoint = self._endpoint()
        try:
            return McpConnection(endpoint, self._start_timeout, self._look)
        except McpError:
            raise
        except TimeoutError:
            why = f"it was not ready within {self._start_timeout:g} s{endpoint.tail.quoted()}"
        except OSError as error:
            why = str(error)
        except Exception as error:  # noqa: BLE001 # of HTTP, of the protocol
            why = (
                f"{endpoint.why_it_ended() or _FAILED} ({type(error).__name__}: {one_line(str(error), 500)})"
            )
        raise McpStartError(f"MCP server {self.name!r} ({self.place}) cannot be used: {why}")

    def _endpoint(self) -> Endpoint:
        most_values = max(_MOST_VALUES, self.result_bytes)
        from tract_jupyter.toolkit.mcp.transports import HttpEndpoint, StdioEndpoint

        if self.url is not None:
            return HttpEndpoint(self.url, self._headers, most_values)
        return StdioEndpoint(self.command or (), self._env, self._cwd, most_values)


_FAILED: Final = "the connection failed"
_HEADERS: Final = "its inputSchema has invalid x-mcp-header entries"


@dataclass
class _Progress:
    """A callback that passes the progress of a call to its time limit and to the user."""

    subject: str
    work: Work
    patience: Patience

    def __call__(self, done: float, total: float | None, message: str | None) -> None:
        self.patience.extend()
        if message:
            self.work.what = f"{self.subject}: {one_line(message, 80)}"
        if total is not None and total > 0:
            self.work.done, self.work.total = round(100 * min(1.0, max(0.0, done / total))), 100


_LONGEST_NAME: Final = 64


def check_server(name: str, command: Sequence[str] | None, url: str | None) -> None:
    """Check the name and the target of a server."""
    _check_name(name)
    if (command is None) == (url is None):
        raise McpError(f"MCP server {name!r} needs either a command or a url")
    if url is not None and not str(url).startswith(("http://", "https://")):
        raise McpError(
            f"the url of MCP server {name!r} must begin with http:// or https://, got {brief_repr(url)}"
        )
    if isinstance(command, str) and command.startswith(("http://", "https://")):
        raise McpError(f"MCP server {name!r} has a URL; pass it by name: url={command!r}")
    is_list = isinstance(command, list | tuple) and bool(command)
    if command is not None and not (is_list and all(isinstance(word, str) for word in command)):
        raise McpError(
            f"the command of MCP server {name!r} must be a list of texts, the program first; shlex.split converts "
            f"a shell line. Got {brief_repr(command)}"
        )


def check_limits(name: str, **limits: float) -> None:
    """Check the limits of a server."""
    for option, value in limits.items():
        if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
            raise McpError(
                f"{option} of MCP server {name!r} must be a number above 0, got {brief_repr(value)}"
            )


def checked_texts(name: str, option: str, texts: Mapping[str, str] | None) -> dict[str, str]:
    """Return an option's strings by name, if they are valid."""
    if texts is None:
        return {}
    if not isinstance(texts, Mapping) or not all(
        isinstance(word, str) for item in texts.items() for word in item
    ):
        # without the values, which may be secrets
        raise McpError(
            f"{option} of MCP server {name!r} must be a dict of texts, such as {{'NAME': 'value'}}"
        )
    return dict(texts)


def _check_name(name: str) -> None:
    is_name = isinstance(name, str) and name == python_name(name) and len(name) <= _LONGEST_NAME
    # models see NAME_tool
    if not is_name or name in (*HELPERS, *TOOL_GROUPS) or f"{name}_".startswith(("_", TOOL_PREFIX)):
        raise McpError(
            f"{brief_repr(name)} cannot be the name of an MCP server. Its tools are at tools.NAME, so it must be a "
            f"Python name of at most {_LONGEST_NAME} characters that does not begin with '_' or {TOOL_PREFIX!r}, and "
            f"none of {', '.join([*HELPERS, TOOL_PREFIX.rstrip('_'), *TOOL_GROUPS])}"
        )
