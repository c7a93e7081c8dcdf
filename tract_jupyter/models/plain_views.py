"""Commits and contexts as plain text, for terminals and logs."""

from __future__ import annotations

from textwrap import indent, shorten
from typing import TYPE_CHECKING, Literal

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models.commit import show_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tract_jupyter.models.commit import CommitInfo
    from tract_jupyter.models.context import CompiledContext, Message

Style = Literal["table", "chat", "compact"]
_WIDTH = 72


def commit_text(info: CommitInfo, text: str, tags: Iterable[str]) -> str:
    """One commit as `git show` does it: what is known about it, its line for the log, its content."""
    lines = {
        "Date": info.created_at.isoformat(sep=" ", timespec="seconds"),
        "Kind": f"{info.operation} of {info.content_type}"
        if info.operation == "append"
        else str(info.operation),
        "Changes": (info.edit_target or "")[:12],
        "Merges": ", ".join(parent[:12] for parent in info.merge_parents),
        "Priority": str(info.priority),
        "Tags": ", ".join(tags),
        "Tokens": f"{show_tokens(info.token_count, info.token_counter)}, {info.context_tokens:,} in the context",
    }
    head = "\n".join(f"{name + ':':<10}{value}" for name, value in lines.items() if value)
    return f"commit {info.commit_hash}\n{head}\n\n{indent(info.message, '    ')}\n\n{text}"


def context_text(context: CompiledContext, style: Style = "table") -> str:
    """A context as text: `table` has a line for each message, `compact` a shorter one, `chat` the whole of them.

    Raises:
        ContentError: there is no such style.
    """
    if style not in _STYLES:
        raise ContentError(f"{style!r} is no style; use {', '.join(_STYLES)}")
    return "\n".join([*(_STYLES[style](message) for message in context.messages), repr(context)])


def _chat(message: Message) -> str:
    calls = "".join(f"\n{call.name}({call.arguments})" for call in message.tool_calls)
    name = f" {message.name}" if message.name else ""
    return f"── {message.role}{name} ({message.commit_hash[:8]})\n{message.content}{calls}\n"


def _table(message: Message) -> str:
    mark = "" if message.priority == "normal" else f"[{message.priority}] "
    return f"{message.commit_hash[:8]}  {message.role:<9} {message.token_count:>7,}  {mark}{_short(message)}"


def _compact(message: Message) -> str:
    return f"{message.role}: {_short(message)}"


def _short(message: Message) -> str:
    called = " ".join(f"→ {call.name}" for call in message.tool_calls)
    return shorten(f"{message.content} {called}", _WIDTH, placeholder=" …")


_STYLES = {"table": _table, "chat": _chat, "compact": _compact}
