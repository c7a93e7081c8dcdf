"""A message in words: who speaks, the first line, and the whole with its tool calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.models.text import safe_repr
from tract_jupyter.notebook.excerpts import one_line

if TYPE_CHECKING:
    from tract_jupyter.models.context import Message
    from tract_jupyter.models.toolcall import ToolCall

_NAME = 40


def speaker(message: Message) -> str:
    """The role, and whose name or which tool where that is known."""
    name = f" {one_line(message.name, _NAME)}" if message.name else ""
    return f"{one_line(message.role, _NAME)}{name}{' failed' if message.is_error else ''}"


def preview(message: Message, limit: int) -> str:
    """The first line of the text, or the tools that are called where there is no text."""
    text = message.content.lstrip()[: 4 * limit]
    line = text.partition("\n")[0]
    if not text:
        return one_line(" ".join(map(_call_text, message.tool_calls)), limit)
    rest = " …" if len(message.content.rstrip()) > len(line) and len(line) < limit else ""
    return one_line(f"{line.rstrip()}{rest}", limit)


def full_text(message: Message) -> str:
    """The text as it is, and a line for each tool call."""
    return "\n".join([*([message.content] if message.content else []), *map(_call_text, message.tool_calls)])


def _call_text(call: ToolCall) -> str:
    arguments = ", ".join(f"{key}={safe_repr(value)}" for key, value in call.arguments.items())
    return f"→ {call.name}({arguments})"
