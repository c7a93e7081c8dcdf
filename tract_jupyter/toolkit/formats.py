"""Tools in the shapes that providers and MCP take them.

Every shape has the name that providers allow; the executor knows a tool by that one too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models.checks import check_choice
from tract_jupyter.toolkit.strict import strict_schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.toolkit.definitions import ToolDefinition

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
