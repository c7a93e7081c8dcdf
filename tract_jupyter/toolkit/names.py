"""The names of tools: in Python, after `tools.`, and in the form that model providers allow."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING

from tract_jupyter.exceptions import OperationExistsError
from tract_jupyter.models import identifier, provider_name, sha256

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tract_jupyter.toolkit.definitions import ToolDefinition


def python_name(name: str) -> str:
    """Return the Python name of a tool: other characters become `_`, a keyword gets a trailing `_`."""
    cleaned = identifier(name)
    is_special = cleaned.startswith("__") and cleaned.endswith("__")  # reserved by Python
    return f"tool{cleaned}" if is_special else cleaned


def python_names(names: Iterable[str]) -> dict[str, str]:
    """Map Python names to tool names.

    Raises:
        OperationExistsError: two tools have the same Python name.
    """
    mapped: dict[str, str] = {}
    for name in names:
        short = python_name(name)
        if short in mapped:
            raise OperationExistsError(
                f"tools {mapped[short]!r} and {name!r} would both be called {short!r}; rename one"
            )
        mapped[short] = name
    return mapped


def provider_names(names: Iterable[str]) -> dict[str, str]:
    """Map names that providers allow to tool names.

    A tool keeps an allowed name. If several other tools would share a name, all of them get a suffix. If one tool
    kept the short name, a later tool, such as another server's, could take it over. It would then receive the calls
    of a model that knows the old meaning.
    """
    candidates = {name: _provider_names(name) for name in names}
    wishes = Counter(chain.from_iterable(candidates.values()))
    return {
        next((short for short in shorts if short == name or wishes[short] == 1), shorts[-1]): name
        for name, shorts in candidates.items()
    }


def _provider_names(name: str) -> list[str]:
    """Return the possible provider names of a tool, the most readable first."""
    short = provider_name(name)
    if short == name:
        return [name]
    hashed = sha256(name.encode(errors="surrogatepass"))
    return [short, f"{short[:55]}_{hashed[:8]}", hashed]


def namespaces(tools: Mapping[str, ToolDefinition]) -> frozenset[str]:
    """Return the names that group several tools."""
    return frozenset(tool.namespace for tool in tools.values()) - {""}


def functions(tools: Mapping[str, ToolDefinition], namespace: str = "") -> dict[str, ToolDefinition]:
    """Return the tools of one namespace by their Python names."""
    named = {tool.own_name: tool for tool in tools.values() if tool.namespace == namespace}
    return {short: named[name] for short, name in python_names(named).items()}


def all_functions(tools: Mapping[str, ToolDefinition]) -> dict[str, ToolDefinition]:
    """Return all tools by their names after `tools.`: `name`, or `namespace.name`."""
    spaces = {f"{space}.": functions(tools, space) for space in sorted(namespaces(tools))}
    named = {"": functions(tools), **spaces}
    return {space + short: tool for space, group in named.items() for short, tool in group.items()}


TOOL_GROUPS = ("agents", "code", "dynamic_agents", "self")
"""Names that no server can have. `tools.agents` calls agents; the other names grant toolsets to agents."""
HELPERS = ("list_tools", "stub_source", "call_log", "savings")
"""The functions of the `tools` module that are not tools. A tool of the same name wins."""
