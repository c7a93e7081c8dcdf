"""A toolset: the tools as an agent has them. It shows one profile, and refuses calls of any other tool.

Each format uses the names that providers allow; the executor knows a tool by that name too.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from tract_jupyter.exceptions import ContentError, UnknownToolError, nearest
from tract_jupyter.models import check_choice, check_dict, check_text, digest, repr_of_whole
from tract_jupyter.models.schema import strict_schema
from tract_jupyter.toolkit.names import provider_names, python_name
from tract_jupyter.toolkit.results import for_model
from tract_jupyter.toolkit.stubs import make_stub

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tract_jupyter.toolkit.autonomy import LeveledPermission
    from tract_jupyter.toolkit.call import Call
    from tract_jupyter.toolkit.definitions import ToolDefinition
    from tract_jupyter.toolkit.executor import ToolExecutor
    from tract_jupyter.toolkit.profiles import ToolProfile
    from tract_jupyter.toolkit.results import ToolResult

_LIKENESS: Final = 0.3
"""How much of two names has to be the same for one to be named in the place of the other, from 0 to 1."""


READ_ON: Final = "read_result"
"""The tool that reads on in what was cut; whoever has any tools has this one."""


class Asking(Protocol):
    """The protocol of what has the calls of one step decided about."""

    def granted(self, pending: Any) -> bool:
        """Approve a request if a standing approval or an earlier decision of the user covers it."""
        ...

    def find_duplicate(self, pending: Any) -> Any | None:
        """Return the identical open request, or None."""
        ...

    def decide_together(self, pendings: Sequence[Any]) -> tuple[list[Any], Exception | None]:
        """Ask about several questions, and return what was asked, and why some were left open."""
        ...

    def catch_up(self, pending: Any) -> str:
        """Follow what was decided elsewhere."""
        ...


class Toolset:
    """A bound view of an executor: its tools, permission and locks, for one actor, with the tools of one profile.

    Args:
        executor: runs the tools.
        profile: which tools there are.
        actor: who calls them, for the permission: `agent:<id>`, ...
        overrides: other descriptions, by the tool's name.
        permission: of an actor that acts at a level of autonomy; the executor's own if left out.

    Raises:
        UnknownToolError: a description is for a tool that the profile does not have.
    """

    def __init__(
        self,
        executor: ToolExecutor,
        profile: ToolProfile,
        *,
        actor: str,
        overrides: Mapping[str, str] | None = None,
        permission: LeveledPermission | None = None,
    ) -> None:
        self._permission = permission
        self._executor = executor
        self._conversation: ToolExecutor | None = None
        self.profile = profile
        self.actor = actor
        if overrides is not None:
            check_dict(overrides, "overrides")
        self._overrides = dict(overrides or {})
        self._check_overrides()

    @repr_of_whole
    def __repr__(self) -> str:
        return f"<Toolset {self.profile.name!r} of {self.actor}: {', '.join(self.tools())}>"

    @property
    def reviewer(self) -> Asking:
        """The part that has persons decide about its calls: that of the tract that the tools belong to."""
        return self._executor.reviewer

    def in_conversation(self, executor: ToolExecutor) -> Toolset:
        """Return the toolset for a conversation that is kept in another tract, which reads on in its own results.

        Args:
            executor: of the tract that has the conversation.
        """
        if executor is self._executor:
            return self
        made = copy(self)
        made._conversation = executor  # noqa: SLF001 # its own copy
        return made

    def key_of(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Return what makes a call the same call as another one: the tool and the arguments, whatever their order."""
        return digest([name, arguments])

    def _runs(self, name: str) -> ToolExecutor:
        """Return what runs a tool."""
        return self._conversation if self._conversation is not None and name == READ_ON else self._executor

    def tools(self) -> dict[str, ToolDefinition]:
        """Return the tools that can be called now, by name, with the profile's descriptions; no locked ones."""
        locks = self._executor.locks
        return {
            tool.name: replace(tool, description=self._overrides[tool.name])
            if tool.name in self._overrides
            else tool
            for tool in self.profile.filter_tools(self._executor.tools().values())
            if tool.name not in locks
        }

    def schemas(self, format: SchemaFormat = "openai", *, strict: bool = False) -> list[dict[str, Any]]:  # noqa: A002
        """Return the tools for a model.

        Args:
            format: `openai`, `anthropic` or `mcp`.
            strict: in OpenAI's strict mode. A tool whose parameters that mode cannot express, such as a
                `dict[str, Any]`, is marked `strict: False`.

        Raises:
            ContentError: there is no such format, or it has no strict mode.
        """
        shaped = shape(format, strict=strict)
        return [shaped(name, tool) for name, tool in self._provided().items()]

    def execute(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Call a tool. Failures and refusals are in the result; see `ToolExecutor.execute`.

        The output is plain JSON data. What has no JSON form, or more bytes of it than the executor's
        `result_bytes`, is an error that says so.
        """
        result = self._runs(name).execute(
            name, arguments, actor=self.actor, profile=self.profile, permission=self._permission
        )
        return for_model(result, self._executor.result_bytes)

    def prepare(self, name: str, arguments: Mapping[str, Any], *, doubt: str = "") -> Call | ToolResult:
        """Look at a call without making it; see `ToolExecutor.prepare`."""
        return self._runs(name).prepare(
            name, arguments, actor=self.actor, profile=self.profile, doubt=doubt, permission=self._permission
        )

    def with_profile(self, profile: ToolProfile) -> Toolset:
        """Return the toolset of the same actor, with the same words, for another profile."""
        made = copy(self)
        made.profile = profile
        made._check_overrides()  # noqa: SLF001 # its own copy
        return made

    def has(self, name: str) -> bool:
        """Return True if a tool of that name, or of that name for providers, belongs to the profile."""
        return self.get(name) is not None

    def get(self, name: str) -> ToolDefinition | None:
        """Return the tool of that name, or of that name for providers, if it belongs to the profile."""
        tool = self._executor.get(name)
        return tool if tool is not None and self.profile.has(tool) else None

    def reads(self, name: str) -> bool:
        """Return True if a tool only reads."""
        tool = self._executor.get(name)
        return tool is not None and tool.traits.read_only

    def why_not(self, name: str) -> str:
        """Return why a tool that there was cannot be called now; empty if it can be."""
        tool = self._executor.get(name)
        if tool is None or not self.profile.has(tool):
            return "removed"
        reason = self._executor.locks.get(tool.name)
        return "" if reason is None else f"locked: {reason}" if reason else "locked"

    def nearest(self, name: str, most: int = 3) -> list[str]:
        """Return the names, for providers, that look most like one, in any case."""
        lower = {one.lower(): one for one in self._provided()}
        return [lower[one] for one in get_close_matches(name.lower(), lower, n=most, cutoff=_LIKENESS)]

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Call a tool and return its output.

        Raises:
            ToolDeniedError: it was not allowed.
            ToolExecutionError: anything else that went wrong.
        """
        __tracebackhide__ = True
        return self.execute(name, arguments).value(arguments)

    def callables(self) -> list[Callable[..., Any]]:
        """Return the tools as plain functions with name, docstring and signature; they raise as `call` does."""
        return [make_stub(python_name(name), tool, self.call) for name, tool in self._provided().items()]

    def _provided(self) -> dict[str, ToolDefinition]:
        """Return the tools by the names that providers allow among all tools of the executor."""
        tools = self.tools()
        names = provider_names(self._executor.tools())
        return {short: tools[name] for short, name in names.items() if name in tools}

    def _check_overrides(self) -> None:
        known = [tool.name for tool in self.profile.filter_tools(self._executor.tools().values())]
        for name, description in self._overrides.items():
            if name not in known:
                raise UnknownToolError(
                    f"the profile {self.profile.name!r} has no tool {name!r} to describe.{nearest(str(name), known)} "
                    f"It has: {', '.join(sorted(known))}"
                )
            check_text(description, f"the description of {name!r}")


SchemaFormat = Literal["openai", "anthropic", "mcp"]
"""Whose shape the schemas of tools have."""


def to_openai(name: str, tool: ToolDefinition) -> dict[str, Any]:
    """Return a tool in OpenAI's format: https://platform.openai.com/docs/guides/function-calling."""
    function = {"name": name, "description": tool.description, "parameters": tool.parameters.object_schema}
    return {"type": "function", "function": function}


def to_openai_strict(name: str, tool: ToolDefinition) -> dict[str, Any]:
    """Return a tool in OpenAI's strict mode; one that has no strict form says `strict: False` and stays as it is."""
    schema = strict_schema(tool.parameters.json_schema)
    shape = to_openai(name, tool)
    parameters = {} if schema is None else {"parameters": schema}
    return {**shape, "function": {**shape["function"], **parameters, "strict": schema is not None}}


def to_anthropic(name: str, tool: ToolDefinition) -> dict[str, Any]:
    """Return a tool in Anthropic's format: https://docs.anthropic.com/en/docs/agents-and-tools/tool-use."""
    return {"name": name, "description": tool.description, "input_schema": tool.parameters.object_schema}


def to_mcp(name: str, tool: ToolDefinition) -> dict[str, Any]:
    """Return a tool in the format of MCP's `tools/list`: https://modelcontextprotocol.io/specification."""
    return {
        "name": name,
        "description": tool.description,
        "inputSchema": tool.parameters.object_schema,
        "annotations": {
            "readOnlyHint": tool.traits.read_only,
            "destructiveHint": tool.traits.destructive,
            "openWorldHint": tool.traits.open_world,
        },
    }


_SHAPES: Final[dict[str, Callable[[str, ToolDefinition], dict[str, Any]]]] = {
    "openai": to_openai,
    "anthropic": to_anthropic,
    "mcp": to_mcp,
}


def shape(format: str, *, strict: bool = False) -> Callable[[str, ToolDefinition], dict[str, Any]]:  # noqa: A002
    """Return the function that formats a tool, given the name that providers allow.

    Raises:
        ContentError: there is no such format, or it has no strict mode.
    """
    check_choice(format, tuple(_SHAPES), "format")
    if strict and format != "openai":
        raise ContentError(f"strict is a mode of the format 'openai'; {format!r} has none: leave strict out")
    return to_openai_strict if strict else _SHAPES[format]
