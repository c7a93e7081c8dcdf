"""A toolset: the tools in the form that an agent receives. It shows one profile, and refuses calls of any other tool.

Each format uses names that providers allow. The executor accepts these names as well.
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
"""The minimum similarity of a suggested name, from 0 to 1."""


READ_ON: Final = "read_result"
"""The tool that reads the rest of a truncated result. Every caller with any tools has it."""


class Asking(Protocol):
    """The protocol of a reviewer that asks about all calls of one step together."""

    def granted(self, pending: Any) -> bool:
        """Approve a request if a standing approval or an earlier decision of the user covers it."""
        ...

    def find_duplicate(self, pending: Any) -> Any | None:
        """Return the identical open request, or None."""
        ...

    def decide_together(self, pendings: Sequence[Any]) -> tuple[list[Any], Exception | None]:
        """Ask about several requests. Return the asked ones, and the reason why some stay open."""
        ...

    def catch_up(self, pending: Any) -> str:
        """Apply a decision that was made elsewhere."""
        ...


class Toolset:
    """A view of an executor for one actor and one profile: its tools, permission and locks."""

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
    def executor(self) -> ToolExecutor:
        """The executor of the tools."""
        return self._executor

    @property
    def reviewer(self) -> Asking:
        """The reviewer of the tools' tract, which asks the user about calls."""
        return self._executor.reviewer

    def in_conversation(self, executor: ToolExecutor) -> Toolset:
        """Return a toolset for a conversation in another tract. Its `read_result` reads that tract's results."""
        if executor is self._executor:
            return self
        toolset = copy(self)
        toolset._conversation = executor  # noqa: SLF001 # its own copy
        return toolset

    def key_of(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Return a key that identical calls share: the tool and the arguments in any order."""
        return digest([name, arguments])

    def _runs(self, name: str) -> ToolExecutor:
        return self._conversation if self._conversation is not None and name == READ_ON else self._executor

    def tools(self) -> dict[str, ToolDefinition]:
        """Return the callable tools by name, with the profile's descriptions and without locked tools."""
        locks = self._executor.locks
        return {
            tool.name: replace(tool, description=self._overrides[tool.name])
            if tool.name in self._overrides
            else tool
            for tool in self.profile.filter_tools(self._executor.tools().values())
            if tool.name not in locks
        }

    def schemas(self, format: SchemaFormat = "openai", *, strict: bool = False) -> list[dict[str, Any]]:  # noqa: A002
        """Return the schemas of the tools for a model.

        Args:
            format: `openai`, `anthropic` or `mcp`.
            strict: use OpenAI's strict mode. A tool is marked `strict: False` if this mode cannot express its
                parameters, such as a `dict[str, Any]`.
        """
        shaped = shape(format, strict=strict)
        return [shaped(name, tool) for name, tool in self._provided().items()]

    def execute(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Call a tool. The result reports failures and refusals; see `ToolExecutor.execute`.

        The output is plain JSON data. An output without a JSON form, or with more bytes than the executor's
        `result_bytes`, becomes an error.
        """
        result = self._runs(name).execute(
            name, arguments, actor=self.actor, profile=self.profile, permission=self._permission
        )
        return for_model(result, self._executor.result_bytes)

    def prepare(self, name: str, arguments: Mapping[str, Any], *, doubt: str = "") -> Call | ToolResult:
        """Check a call without making it; see `ToolExecutor.prepare`."""
        return self._runs(name).prepare(
            name, arguments, actor=self.actor, profile=self.profile, doubt=doubt, permission=self._permission
        )

    def with_profile(self, profile: ToolProfile) -> Toolset:
        """Return a toolset with the same actor and descriptions for another profile."""
        toolset = copy(self)
        toolset.profile = profile
        toolset._check_overrides()  # noqa: SLF001 # its own copy
        return toolset

    def has(self, name: str) -> bool:
        """Return True if the profile has a tool with this name or provider name."""
        return self.get(name) is not None

    def get(self, name: str) -> ToolDefinition | None:
        """Return the profile's tool with this name or provider name; None if there is none."""
        tool = self._executor.get(name)
        return tool if tool is not None and self.profile.has(tool) else None

    def reads(self, name: str) -> bool:
        """Return True if a tool only reads."""
        tool = self._executor.get(name)
        return tool is not None and tool.traits.read_only

    def why_not(self, name: str) -> str:
        """Return why an earlier tool cannot be called now; empty if it can."""
        tool = self._executor.get(name)
        if tool is None or not self.profile.has(tool):
            return "removed"
        reason = self._executor.locks.get(tool.name)
        return "" if reason is None else f"locked: {reason}" if reason else "locked"

    def nearest(self, name: str, most: int = 3) -> list[str]:
        """Return the most similar provider names, regardless of case."""
        lower = {provided.lower(): provided for provided in self._provided()}
        return [
            lower[provided] for provided in get_close_matches(name.lower(), lower, n=most, cutoff=_LIKENESS)
        ]

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Call a tool and return its output.

        Raises:
            ToolDeniedError: the call was not allowed.
            ToolExecutionError: the call failed for another reason.
        """
        __tracebackhide__ = True
        return self.execute(name, arguments).value(arguments)

    def callables(self) -> list[Callable[..., Any]]:
        """Return the tools as plain functions with name, docstring and signature. They raise the errors of `call`."""
        return [make_stub(python_name(name), tool, self.call) for name, tool in self._provided().items()]

    def _provided(self) -> dict[str, ToolDefinition]:
        """Return the tools by their provider names, which are unique among all tools of the executor."""
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
"""The format of tool schemas."""


def to_openai(name: str, tool: ToolDefinition) -> dict[str, Any]:
    """Return a tool in OpenAI's format: https://platform.openai.com/docs/guides/function-calling."""
    function = {"name": name, "description": tool.description, "parameters": tool.parameters.object_schema}
    return {"type": "function", "function": function}


def to_openai_strict(name: str, tool: ToolDefinition) -> dict[str, Any]:
    """Return a tool in OpenAI's strict mode. A tool without a strict form gets `strict: False` instead."""
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
    """Return the function that formats a tool with its provider name."""
    check_choice(format, tuple(_SHAPES), "format")
    if strict and format != "openai":
        raise ContentError(
            f"the format {format!r} has no strict mode; leave strict out, or use the format 'openai'"
        )
    return to_openai_strict if strict else _SHAPES[format]
