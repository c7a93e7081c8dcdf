"""How a tool and what came of a call are told to an MCP client."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models.canonical import plain
from tract_jupyter.models.text import safe_repr

if TYPE_CHECKING:
    from tract_jupyter.toolkit.definitions import ToolDefinition
    from tract_jupyter.toolkit.executor import ToolResult

_LIMIT: Final = 1_000_000  # bytes of an answer; a model could not read more


def described(tool: ToolDefinition) -> Tool:
    """A tool as MCP has it."""
    traits = tool.traits
    hints = ToolAnnotations(
        read_only_hint=traits.read_only,
        destructive_hint=traits.destructive,
        open_world_hint=traits.open_world,
    )
    return Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.parameters.json_schema,
        annotations=hints,
    )


def answer(result: ToolResult) -> CallToolResult:
    """What came of a call: its value, or why it failed or was refused."""
    if not result.success:
        return _failed(result.error)
    value, is_data = _readable(result.output)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    size = len(text.encode(errors="replace"))
    if size > _LIMIT:
        return _failed(
            f"{result.tool_name} gave {size:,} bytes, and at most {_LIMIT:,} are sent; ask for less"
        )
    return CallToolResult(
        content=[_block(text)], structured_content=value if is_data and isinstance(value, dict) else None
    )


def _readable(output: Any) -> tuple[Any, bool]:
    """The value as JSON has it, and whether it has such a form; if not, its repr."""
    try:
        return plain(output), True
    except ContentError:
        return safe_repr(output), False


def _failed(reason: str) -> CallToolResult:
    return CallToolResult(content=[_block(reason)], is_error=True)


def _block(text: str) -> TextContent:
    return TextContent(text=text.encode(errors="replace").decode())  # a lone surrogate cannot be sent
