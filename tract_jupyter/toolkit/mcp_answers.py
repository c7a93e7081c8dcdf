"""How what came of a call is told to an MCP client."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mcp_types import CallToolResult, TextContent

if TYPE_CHECKING:
    from tract_jupyter.toolkit.results import ToolResult


def answer(result: ToolResult) -> CallToolResult:
    """What came of a call, as for a model: its value, or why it failed or was refused."""
    if not result.success:
        return CallToolResult(content=[_block(result.error)], is_error=True)
    value: Any = result.output
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    # only objects may be structured
    return CallToolResult(
        content=[_block(text)], structured_content=value if isinstance(value, dict) else None
    )


def _block(text: str) -> TextContent:
    return TextContent(text=text.encode(errors="replace").decode())  # a lone surrogate cannot be sent
