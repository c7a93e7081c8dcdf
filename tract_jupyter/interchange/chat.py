"""Conversations of either provider, told apart by their looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from tract_jupyter.exceptions import ContentError
from tract_jupyter.interchange.anthropic_chat import read_anthropic
from tract_jupyter.interchange.openai_chat import read_openai

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tract_jupyter.interchange.entries import Entry

Shape = Literal["auto", "openai", "anthropic"]

_ONLY_ANTHROPIC = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document"})


def read_messages(data: Sequence[Any] | Mapping[str, Any], shape: Shape = "auto") -> list[Entry]:
    """The entries of a list of messages, or of a request that has `messages` (and, of Anthropic's, `system`).

    Args:
        data: what JSON gave. Of a request, the model, tools and parameters are not read.
        shape: whose it is. `auto` takes it for Anthropic's if it has a `system` or blocks that only Anthropic knows,
            else for OpenAI's. Lists of nothing but text could be either's: OpenAI's parts are lines of one message,
            Anthropic's blocks are messages of their own.

    Raises:
        ContentError: it has not this shape; the message that is wrong is named by its index, counted from 0.
    """
    if shape not in {"auto", "openai", "anthropic"}:
        raise ContentError(f"{shape!r} is no shape of messages; use auto, openai or anthropic")
    request = data if isinstance(data, dict) else {"messages": data}
    messages = request.get("messages")
    if not isinstance(messages, list | tuple):
        raise ContentError(
            "these are no messages; use a list of them, or an object with a list named 'messages', "
            f"not {type(data if messages is None else messages).__name__}"
        )
    if shape == "anthropic" or (shape == "auto" and ("system" in request or _has_blocks(messages))):
        return read_anthropic(messages, request.get("system"))
    if "system" in request:
        raise ContentError("OpenAI's shape has no 'system' beside the messages; use shape='anthropic'")
    return read_openai(messages)


def _has_blocks(messages: Sequence[Any]) -> bool:
    contents = (message.get("content") for message in messages if isinstance(message, dict))
    blocks = (block for content in contents if isinstance(content, list) for block in content)
    return any(isinstance(block, dict) and str(block.get("type")) in _ONLY_ANTHROPIC for block in blocks)
