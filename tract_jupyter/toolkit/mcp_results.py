"""What a server's answer to a call comes to in Python: plain data, bounded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from mcp_types import EmbeddedResource, ResourceLink, TextContent, TextResourceContents

from tract_jupyter.exceptions import McpResultError
from tract_jupyter.models.text import shortened

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock

_LONGEST_REASON: Final = 2_000


def value_of(result: CallToolResult, subject: str, limit: int) -> Any:
    """The structured content of an answer, or else its text.

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
    """What an answer that is an error says."""
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
