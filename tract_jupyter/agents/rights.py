"""What an agent may call: never more than whoever makes it, or calls it."""

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
"""Where the functions of agents are: `tools.agents.<name>`."""
CREATING: Final = "dynamic_agents"
CODE: Final = "code"
OWN_CONTEXT: Final = "self"


def toolsets_of(executor: ToolExecutor) -> dict[str, frozenset[str]]:
    """Return the toolsets that there are now: the names of their tools, by the name of the set.

    `self` are the tools for an agent's own context, `code` those that run scripts, `dynamic_agents` those that make
    agents; and the tools of each MCP server, which cannot have one of these names.
    """
    tools = executor.tools()
    found: dict[str, set[str]] = {
        OWN_CONTEXT: {name for name in SELF if name in tools},
        CODE: set(CODE_MODE),
        CREATING: set(AGENT_TOOLS),
    }
    for tool in tools.values():
        if tool.namespace and tool.namespace not in TOOL_GROUPS:
            found.setdefault(tool.namespace, set()).add(tool.name)
    return {name: frozenset(names) for name, names in found.items()}


def reserved_names(executor: ToolExecutor) -> list[str]:
    """Return the names that no agent can have, as tools have them, or groups of tools."""
    tools = executor.tools().values()
    own = [one.name for one in tools if one.namespace != NAMESPACE]
    return own + [one.namespace for one in tools if one.namespace]


def check_free(name: str, executor: ToolExecutor, others: Iterable[str]) -> None:
    """Check that no tool has a name, nor do several together, and that no other agent has the same one in Python.

    Args:
        name: of an agent.
        executor: of the tract.
        others: the names of the agents that there are.

    Raises:
        AgentError: it is taken.
    """
    key = key_of(python_name(name))
    taken = next((one for one in reserved_names(executor) if key_of(python_name(one)) == key_of(name)), None)
    if taken is not None:
        raise AgentError("reserved_name", f"{name!r} is reserved: {taken!r} is a tool; choose another name")
    same = next(
        (one for one in others if key_of(one) != key_of(name) and key_of(python_name(one)) == key), None
    )
    if same is not None:
        raise AgentError(
            "name_taken",
            f"{name!r} and the agent {same!r} would both be tools.{NAMESPACE}.{python_name(name)} in Python; choose "
            "another name",
        )


def allowed_tools(executor: ToolExecutor, profile: ToolProfile | None) -> frozenset[str]:
    """Return the names of the tools that somebody with a profile may call, also from code; all if they have none.

    Args:
        executor: which they call: one that delegates has no more tools than were granted.
        profile: that they are bound to.
    """
    tools = executor.tools()
    if profile is None:
        return frozenset(tools)
    # what a profile shows and what its scripts may call are both its rights
    return frozenset(name for name, tool in tools.items() if profile.in_code.has(tool) or profile.has(tool))


def tools_of(definition: AgentDefinition, toolsets: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return the names of the tools that a definition grants."""
    return frozenset(definition.tools).union(
        *(toolsets.get(name, frozenset()) for name in definition.toolsets)
    )


def check_rights(definition: AgentDefinition, executor: ToolExecutor, allowed: frozenset[str]) -> None:
    """Check that a definition grants what there is, and no more than its maker may call.

    Args:
        definition: the agent's.
        executor: of the tract.
        allowed: what its maker may call.

    Raises:
        AgentError: it grants something else.
    """
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
            "an agent's capabilities must be a subset of its maker's, and you cannot call "
            f"{', '.join(map(repr, more[:10]))}. Leave them out, or ask the person to make the agent",
            sorted(allowed),
        )


def profile_for(definition: AgentDefinition, names: Collection[str]) -> ToolProfile:
    """Return the profile of an agent that may call these tools."""
    base = ToolProfile(f"agent {definition.name}", {name: ToolConfig() for name in sorted(names)})
    return base.as_code_mode() if CODE in definition.toolsets else base


def granted_profile(profile: ToolProfile) -> ToolProfile:
    """Return the profile of all that an agent may call, shown to its model or not."""
    inner = profile.in_code
    configs: dict[str, Any] = {**inner.tool_configs, **profile.tool_configs}
    return ToolProfile(inner.name, configs)
