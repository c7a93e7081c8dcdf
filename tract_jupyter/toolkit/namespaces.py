"""Which function stands for which tool: `tools.<name>`, or `tools.<namespace>.<name>`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.toolkit.names import python_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tract_jupyter.toolkit.definitions import ToolDefinition


def namespaces(tools: Mapping[str, ToolDefinition]) -> frozenset[str]:
    """The names that stand for several tools."""
    return frozenset(tool.namespace for tool in tools.values()) - {""}


def functions(tools: Mapping[str, ToolDefinition], namespace: str = "") -> dict[str, ToolDefinition]:
    """The tools of one namespace by their Python names.

    Raises:
        OperationExistsError: two come to the same name.
    """
    own = {tool.own_name: tool for tool in tools.values() if tool.namespace == namespace}
    return {short: own[name] for short, name in python_names(own).items()}


def all_functions(tools: Mapping[str, ToolDefinition]) -> dict[str, ToolDefinition]:
    """All tools by what stands behind `tools.`: `name`, or `namespace.name`.

    Raises:
        OperationExistsError: two come to the same name.
    """
    spaces = {f"{space}.": functions(tools, space) for space in sorted(namespaces(tools))}
    named = {"": functions(tools), **spaces}
    return {space + short: tool for space, found in named.items() for short, tool in found.items()}
