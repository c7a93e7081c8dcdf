"""The names of tools: in Python, behind `tools.`, and as providers of models allow them."""

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
    is_special = cleaned.startswith("__") and cleaned.endswith("__")  # Python's own
    return f"tool{cleaned}" if is_special else cleaned


def python_names(names: Iterable[str]) -> dict[str, str]:
    """Map Python names to tool names.

    Raises:
        OperationExistsError: two tools come to the same Python name.
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

    A tool keeps a name that is allowed. Others that come to one name all get a suffix: if one had it, a tool that comes
    later, such as that of another server, could take it over, and with it the calls of a model that was told before.
    """
    wanted = {name: _provider_names(name) for name in names}
    wishes = Counter(chain.from_iterable(wanted.values()))
    return {
        next((short for short in shorts if short == name or wishes[short] == 1), shorts[-1]): name
        for name, shorts in wanted.items()
    }


def _provider_names(name: str) -> list[str]:
    """Return the names for a tool that providers allow, the nicest first."""
    short = provider_name(name)
    if short == name:
        return [name]
    hashed = sha256(name.encode(errors="surrogatepass"))
    return [short, f"{short[:55]}_{hashed[:8]}", hashed]


def namespaces(tools: Mapping[str, ToolDefinition]) -> frozenset[str]:
    """Return the names that stand for several tools."""
    return frozenset(tool.namespace for tool in tools.values()) - {""}


def functions(tools: Mapping[str, ToolDefinition], namespace: str = "") -> dict[str, ToolDefinition]:
    """Return the tools of one namespace by their Python names.

    Raises:
        OperationExistsError: two come to the same name.
    """
    own = {tool.own_name: tool for tool in tools.values() if tool.namespace == namespace}
    return {short: own[name] for short, name in python_names(own).items()}


def all_functions(tools: Mapping[str, ToolDefinition]) -> dict[str, ToolDefinition]:
    """Return all tools by what stands behind `tools.`: `name`, or `namespace.name`.

    Raises:
        OperationExistsError: two come to the same name.
    """
    spaces = {f"{space}.": functions(tools, space) for space in sorted(namespaces(tools))}
    named = {"": functions(tools), **spaces}
    return {space + short: tool for space, found in named.items() for short, tool in found.items()}


TOOL_GROUPS = ("agents", "code", "dynamic_agents", "self")
"""What no server can be called: agents are called as `tools.agents`, and the others are granted to them as toolsets."""
HELPERS = ("list_tools", "stub_source", "call_log", "savings")
"""The functions that the `tools` module offers besides the tools; a tool of the same name wins."""
