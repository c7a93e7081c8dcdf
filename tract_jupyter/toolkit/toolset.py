"""A toolset: the tools as somebody else has them, such as an agent. It shows a profile, and holds its user to it.

Every shape has the name that providers allow; the executor knows a tool by that one too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from tract_jupyter.exceptions import ContentError, UnknownToolError, nearest
from tract_jupyter.models.checks import check_choice, check_text
from tract_jupyter.models.schema.strict import strict_schema
from tract_jupyter.models.text import brief_repr
from tract_jupyter.prompts.tool_descriptions import FULL, SELF, SUPERVISOR
from tract_jupyter.toolkit.definitions import BUILT_IN
from tract_jupyter.toolkit.results import for_model
from tract_jupyter.toolkit.stubs import make_stub, provider_names, python_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tract_jupyter.toolkit.definitions import ToolDefinition
    from tract_jupyter.toolkit.executor import ToolExecutor
    from tract_jupyter.toolkit.results import ToolResult


@dataclass(frozen=True, slots=True)
class ToolConfig:
    """What a profile says about one tool."""

    enabled: bool = True
    description: str | None = None
    """For the model; None for the tool's own."""


@dataclass(frozen=True, slots=True)
class ToolProfile:
    """A set of tools with their descriptions. It binds: what it lacks cannot be called through a toolset with it."""

    name: str
    tool_configs: Mapping[str, ToolConfig]
    """What is not named here is left out, unless `has_others` says otherwise."""
    has_others: bool = False
    """Whether tools that are not built in belong to it without being named: those of the user, of operations, ..."""

    def __post_init__(self) -> None:
        """Check what a person wrote.

        Raises:
            ContentError: a tool is given something else than a `ToolConfig`.
        """
        for name, config in self.tool_configs.items():
            if not isinstance(config, ToolConfig):
                raise ContentError(
                    f"profile {self.name!r}: {name!r} has a ToolConfig, such as ToolConfig(description='...'), not "
                    f"{brief_repr(config)}"
                )

    def has(self, tool: ToolDefinition) -> bool:
        """Whether a tool belongs to it."""
        config = self.tool_configs.get(tool.name)
        return self.has_others and tool.owner != BUILT_IN if config is None else config.enabled

    def filter_tools(self, tools: Iterable[ToolDefinition]) -> list[ToolDefinition]:
        """Those of some tools that belong to it, each with the description that it has here."""
        return [self._described(tool) for tool in tools if self.has(tool)]

    def _described(self, tool: ToolDefinition) -> ToolDefinition:
        config = self.tool_configs.get(tool.name)
        if config is None or config.description is None:
            return tool
        return replace(tool, description=config.description)


def get_profile(name: str) -> ToolProfile:
    """A built-in profile: `self`, `supervisor` or `full`.

    Raises:
        ContentError: there is none of that name.
    """
    profile = _PROFILES.get(name) if isinstance(name, str) else None
    if profile is None:
        raise ContentError(
            f"there is no profile {brief_repr(name)}.{nearest(str(name), _PROFILES)} There are "
            f"{', '.join(map(repr, _PROFILES))}; a ToolProfile of your own can be given instead"
        )
    return profile


def _built_in(name: str, descriptions: Mapping[str, str]) -> ToolProfile:
    configs = {tool: ToolConfig(description=text) for tool, text in descriptions.items()}
    return ToolProfile(name, configs, has_others=True)


_PROFILES: Final = {
    "self": _built_in("self", SELF),
    "supervisor": _built_in("supervisor", SUPERVISOR),
    "full": _built_in("full", FULL),
}


def profile_of(given: str | ToolProfile) -> ToolProfile:
    """Return the profile that a name stands for; a profile as it is.

    Raises:
        ContentError: there is no such profile.
    """
    if isinstance(given, ToolProfile):
        return given
    if isinstance(given, str):
        return get_profile(given)
    raise ContentError(f"a profile is a name, such as 'self', or a ToolProfile; not {brief_repr(given)}")


class Toolset:
    """A bound view of an executor: its tools, policy and locks, for one actor, with the tools of one profile.

    Args:
        executor: runs the tools.
        profile: which tools there are.
        actor: who calls them, for the policy: `agent:<id>`, ...
        overrides: other descriptions, by the tool's name.

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
    ) -> None:
        self._executor = executor
        self.profile = profile
        self.actor = actor
        self._overrides = dict(overrides or {})
        self._check_overrides()

    def __repr__(self) -> str:
        return f"<Toolset {self.profile.name!r} of {self.actor}: {', '.join(self.tools())}>"

    def tools(self) -> dict[str, ToolDefinition]:
        """The tools that can be called now, by name, with the descriptions of the profile. Locked ones are left out."""
        locks = self._executor.locks
        return {
            tool.name: replace(tool, description=self._overrides[tool.name])
            if tool.name in self._overrides
            else tool
            for tool in self.profile.filter_tools(self._executor.tools().values())
            if tool.name not in locks
        }

    def schemas(self, format: Format = "openai", *, strict: bool = False) -> list[dict[str, Any]]:  # noqa: A002
        """The tools for a model.

        Args:
            format: `openai`, `anthropic` or `mcp`.
            strict: in OpenAI's strict mode. A tool that it has no words for, as with a `dict[str, Any]`, says
                `strict: False`.

        Raises:
            ContentError: there is no such format, or it has no strict mode.
        """
        shaped = shape(format, strict=strict)
        return [shaped(name, tool) for name, tool in self._provided().items()]

    def execute(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Call a tool. Raises no `Exception`: what went wrong is in the result, and so is why a call was refused.

        The output is plain JSON data. What has no JSON form, or more bytes of it than the executor's
        `max_result_bytes`, is an error that says so.
        """
        result = self._executor.execute(name, arguments, actor=self.actor, profile=self.profile)
        return for_model(result, self._executor.max_result_bytes)

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Call a tool and return its output.

        Raises:
            ToolDeniedError: it was not allowed.
            ToolExecutionError: anything else that went wrong.
        """
        __tracebackhide__ = True
        return self.execute(name, arguments).value(arguments)

    def callables(self) -> list[Callable[..., Any]]:
        """The tools as plain functions, with name, docstring, signature and annotations; they raise as `call` does."""
        return [make_stub(python_name(name), tool, self) for name, tool in self._provided().items()]

    def _provided(self) -> dict[str, ToolDefinition]:
        """The tools by the names that providers allow: those that they have among all tools of the executor."""
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


Format = Literal["openai", "anthropic", "mcp"]


def to_openai(name: str, tool: ToolDefinition) -> dict[str, Any]:
    """The shape of OpenAI's `tools`: https://platform.openai.com/docs/guides/function-calling."""
    function = {"name": name, "description": tool.description, "parameters": tool.parameters.object_schema}
    return {"type": "function", "function": function}


def to_openai_strict(name: str, tool: ToolDefinition) -> dict[str, Any]:
    """The same in strict mode. A tool that its language has no words for says `strict: False`, and stays as it is."""
    schema = strict_schema(tool.parameters.json_schema)
    shape = to_openai(name, tool)
    parameters = {} if schema is None else {"parameters": schema}
    return {**shape, "function": {**shape["function"], **parameters, "strict": schema is not None}}


def to_anthropic(name: str, tool: ToolDefinition) -> dict[str, Any]:
    """The shape of Anthropic's `tools`: https://docs.anthropic.com/en/docs/agents-and-tools/tool-use."""
    return {"name": name, "description": tool.description, "input_schema": tool.parameters.object_schema}


def to_mcp(name: str, tool: ToolDefinition) -> dict[str, Any]:
    """The shape of MCP's `tools/list`: https://modelcontextprotocol.io/specification, Tools."""
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
    """What gives a tool, under the name that providers allow, the shape of a format.

    Raises:
        ContentError: there is no such format, or it has no strict mode.
    """
    check_choice(format, tuple(_SHAPES), "format")
    if strict and format != "openai":
        raise ContentError(f"strict is a mode of the format 'openai'; {format!r} has none: leave strict out")
    return to_openai_strict if strict else _SHAPES[format]
