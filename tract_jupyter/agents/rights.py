"""The tools that an agent may call: never more than its creator or its caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.agents.definition import key_of, unknown
from tract_jupyter.exceptions import AgentError
from tract_jupyter.prompts import SELF
from tract_jupyter.toolkit import AGENT_TOOLS, CODE_MODE, TOOL_GROUPS, ToolConfig, ToolProfile, python_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from tract_jupyter.agents.definition import AgentDefinition
    from tract_jupyter.toolkit import ToolExecutor

NAMESPACE: Final = "agents"
"""The namespace of the agent functions: `tools.agents.<name>`."""
CREATING: Final = "dynamic_agents"
CODE: Final = "code"
OWN_CONTEXT: Final = "self"


def toolsets_of(executor: ToolExecutor) -> dict[str, frozenset[str]]:
    """Return the current toolsets: the names of their tools, by name of the set.

    `self` contains the tools for an agent's context, `code` the tools that run scripts, and `dynamic_agents` the tools
    that create agents. Each MCP server is also a toolset. A server cannot have one of these three names.
    """
    tools = executor.tools()
    toolsets: dict[str, set[str]] = {
        OWN_CONTEXT: {name for name in SELF if name in tools},
        CODE: set(CODE_MODE),
        CREATING: set(AGENT_TOOLS),
    }
    for tool in tools.values():
        if tool.namespace and tool.namespace not in TOOL_GROUPS:
            toolsets.setdefault(tool.namespace, set()).add(tool.name)
    return {name: frozenset(names) for name, names in toolsets.items()}


def reserved_names(executor: ToolExecutor) -> list[str]:
    """Return the names of tools and tool groups. No agent can have one of them."""
    tools = executor.tools().values()
    names = [tool.name for tool in tools if tool.namespace != NAMESPACE]
    return names + [tool.namespace for tool in tools if tool.namespace]


def check_free(name: str, executor: ToolExecutor, others: Iterable[str]) -> None:
    """Check that a new agent's name is free: no tool, tool group or other agent has the same name in Python."""
    key = key_of(python_name(name))
    taken = next(
        (other for other in reserved_names(executor) if key_of(python_name(other)) == key_of(name)), None
    )
    if taken is not None:
        raise AgentError("reserved_name", f"{name!r} is reserved: {taken!r} is a tool; choose another name")
    same = next(
        (other for other in others if key_of(other) != key_of(name) and key_of(python_name(other)) == key),
        None,
    )
    if same is not None:
        raise AgentError(
            "name_taken",
            f"{name!r} and the agent {same!r} would both be tools.{NAMESPACE}.{python_name(name)} in Python; choose "
            "another name",
        )


def allowed_tools(executor: ToolExecutor, profile: ToolProfile | None) -> frozenset[str]:
    """Return the tools that a profile allows, directly or in code. A delegating executor has only granted ones."""
    tools = executor.tools()
    if profile is None:
        return frozenset(tools)
    # the rights of a profile include the tools that it shows and the tools that its scripts may call
    return frozenset(name for name, tool in tools.items() if profile.in_code.has(tool) or profile.has(tool))


def tools_of(definition: AgentDefinition, toolsets: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return the names of the tools that a definition grants."""
    return frozenset(definition.tools).union(
        *(toolsets.get(name, frozenset()) for name in definition.toolsets)
    )


def check_rights(definition: AgentDefinition, executor: ToolExecutor, allowed: frozenset[str]) -> None:
    """Check that a definition grants only existing tools that its creator may call."""
    toolsets, tools = toolsets_of(executor), executor.tools()
    strange = [name for name in definition.toolsets if name not in toolsets]
    if strange:
        may = [name for name, names in toolsets.items() if names <= allowed]
        raise unknown("toolset", strange, may, "unknown_toolset")
    missing = [name for name in definition.tools if name not in tools]
    if missing:
        raise unknown("tool", missing, allowed, "unknown_tool")
    more = sorted(tools_of(definition, toolsets) - allowed)
    if more:
        raise AgentError(
            "rights",
            "an agent's tools must be a subset of its creator's tools, and you cannot call "
            f"{', '.join(map(repr, more[:10]))}. Leave them out, or ask the user to create the agent",
            sorted(allowed),
        )


def profile_for(definition: AgentDefinition, names: Collection[str]) -> ToolProfile:
    """Return the profile for an agent with these tools."""
    base = ToolProfile(f"agent {definition.name}", {name: ToolConfig() for name in sorted(names)})
    return base.as_code_mode() if CODE in definition.toolsets else base


def granted_profile(profile: ToolProfile) -> ToolProfile:
    """Return a profile with all tools that an agent may call, including tools hidden from its model."""
    inner = profile.in_code
    configs: dict[str, Any] = {**inner.tool_configs, **profile.tool_configs}
    return ToolProfile(inner.name, configs)
