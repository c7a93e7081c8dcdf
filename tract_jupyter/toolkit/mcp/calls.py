"""Requests to an MCP server with the SDK's client, and its answers as plain data of limited size."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from mcp import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    EmbeddedResource,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from pydantic import ValidationError

from tract_jupyter.exceptions import (
    McpResultError,
)
from tract_jupyter.models.text import one_line, shortened
from tract_jupyter.toolkit.mcp.client import McpTool

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import ContentBlock, Tool


_MOST_TOOLS: Final = 1_000


_COMPLETE: Final = "complete"


_NO_HINTS: Final = ToolAnnotations()


async def list_tools(client: Client, server: str) -> tuple[McpTool, ...]:
    """Return all tools, in the server's order.

    Raises:
        McpResultError: the server refuses, or what it lists are no tools, or too many.
    """
    found: list[McpTool] = []
    cursor = None
    while True:
        try:
            page = await client.list_tools(cursor=cursor)
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                raise
            raise McpResultError(
                f"MCP server {server!r} does not list its tools: {one_line(error.message, 500)}"
            ) from None
        except ValidationError as error:
            raise _nonsense(server, "a list of tools", error) from None
        found += map(_tool, page.tools)
        cursor = page.next_cursor
        if len(found) > _MOST_TOOLS or not (page.tools or cursor is None):
            raise McpResultError(
                f"MCP server {server!r} lists tools without an end; {_MOST_TOOLS:,} are the most that are taken"
            )
        if cursor is None:
            return tuple(found)


async def call_tool(client: Client, server: str, tool: str, arguments: dict[str, Any]) -> CallToolResult:
    """Call a tool. A refusal of the server comes back as an error of the tool.

    The SDK's own `call_tool` checks the answer against the server's output schema, whose patterns could keep this
    process busy for ever, and may answer requests of the server by making the call again; neither happens here.

    Raises:
        McpResultError: the answer is not valid.
    """
    request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=arguments))
    try:
        result = await client.session.send_request(request, CallToolResult)
    except MCPError as error:
        if error.code == CONNECTION_CLOSED:
            raise
        return CallToolResult(content=[TextContent(text=error.message)], is_error=True)
    except ValidationError as error:
        raise _nonsense(server, f"an answer of {tool!r}", error) from None
    if result.result_type != _COMPLETE:
        raise McpResultError(f"{server}.{tool} asks a question back, which a call in code cannot answer")
    return result


def _tool(tool: Tool) -> McpTool:
    hints = tool.annotations or _NO_HINTS
    return McpTool(
        tool.name, tool.description or tool.title or "", tool.input_schema, tool.output_schema,
        hints.read_only_hint, hints.destructive_hint, hints.open_world_hint,
    )  # fmt: skip


def _nonsense(server: str, what: str, error: ValidationError) -> McpResultError:
    first = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(map(str, first["loc"]))
    why = one_line(f"{where}: {first['msg']}", 300)
    return McpResultError(f"MCP server {server!r} sent {what} that is not valid: {why}")


_LONGEST_REASON: Final = 2_000


def value_of(result: CallToolResult, subject: str, limit: int) -> Any:
    """Return the structured content of an answer, or else its text.

    Images, sounds and files are described and not passed on.

    Args:
        result: the answer.
        subject: the tool, for errors.
        limit: the most bytes of text.

    Raises:
        McpResultError: there is more.
    """
    value = result.structured_content
    text = _text(result.content) if value is None else json.dumps(value, ensure_ascii=False)
    size = len(text.encode(errors="surrogatepass"))
    if size > limit:
        raise McpResultError(
            f"{subject} answered with {size:,} bytes of text, and at most {limit:,} are taken over. Ask it for "
            "less, or raise max_result where the server is added"
        )
    return (text or None) if value is None else value


def reason_of(result: CallToolResult) -> str:
    """Return the reason that a failed answer gives."""
    text = _text(result.content)
    if not text and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
    return shortened(text.strip(), _LONGEST_REASON) or "the server did not say why"


def _text(content: list[ContentBlock]) -> str:
    return "\n".join(map(_block, content))


def _block(block: ContentBlock) -> str:
    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, ResourceLink):
        return f"[a link to {block.uri}]"
    if isinstance(block, EmbeddedResource):
        resource = block.resource
        if isinstance(resource, TextResourceContents):
            return resource.text
        return _described("file", resource.mime_type, resource.blob)
    return _described(block.type, block.mime_type, block.data)


def _described(what: str, mime_type: str | None, data: str) -> str:
    return f"[{what}, {mime_type or 'of an unknown type'}, {len(data) * 3 // 4:,} bytes, not passed on]"
