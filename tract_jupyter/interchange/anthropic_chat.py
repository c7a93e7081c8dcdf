"""Anthropic's `system` and `messages` as entries.

*Canonical* is a request whose `system`, if any, is one text that is not blank; whose roles alternate, the user
first; whose contents are texts or lists of blocks (never of a single text block); in which no text is blank, a text
of the assistant that comes last does not end with white space, texts come before calls and after results, results
have a text and say `is_error` only if it is true, stand in the order of their calls, and answer all of them at
once. For such a request

    anthropic_messages(compiled(read_anthropic(request))) == request

and reading that again gives the same entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import ContentError
from tract_jupyter.interchange.entries import Entry, answered, called, checked, entry, said
from tract_jupyter.interchange.parts import attachment, bad, kind_of, mapping, parts, text
from tract_jupyter.models.toolcall import ToolCall

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def read_anthropic(messages: Sequence[Any], system: Any = None) -> list[Entry]:
    """The entries of Anthropic-shaped messages, after those of the system's text or text blocks.

    Each text block becomes an entry, together with the calls that follow it; so does each result. Images and
    documents become one line that names them, and `attachments` in the metadata. Thinking becomes reasoning, with
    its signature in the metadata; redacted thinking, which nobody can read, and other keys are left out.

    Raises:
        ContentError: a message or block has not this shape; the message is named by its index, counted from 0.
    """
    entries = [checked(made, "the system's text") for made in _system(system)]
    tools: dict[str, str] = {}  # names by the ids of the calls so far
    for index, given in enumerate(messages):
        message = mapping(given, index, "a message")
        entries.extend(checked(made, f"message {index}") for made in _entries(message, index, tools))
    return entries


def _system(system: Any) -> list[Entry]:
    blocks = [{"text": system}] if isinstance(system, str) else system or []
    if not isinstance(blocks, list) or not all(
        isinstance(b, dict) and isinstance(b.get("text"), str) for b in blocks
    ):
        raise ContentError("the system's text is a text or a list of text blocks")
    return [said("system", block["text"]) for block in blocks]


def _entries(message: Mapping[str, Any], index: int, tools: dict[str, str]) -> list[Entry]:
    role, content = text(message.get("role"), index, "a role"), message.get("content")
    if role not in {"user", "assistant"}:
        raise bad(
            index, f"the role {role!r} is not known; use user or assistant, and `system` beside the messages"
        )
    if isinstance(content, str):
        return [said(role, content)]
    made: list[Entry] = []
    for block in parts(content, index, "content"):
        kind = kind_of(block, index)
        if {"tool_use": "user", "tool_result": "assistant"}.get(kind) == role:
            raise bad(index, f"a {kind} block is not the {role}'s")
        if kind == "tool_use":
            _add_call(made, block, index, tools)
        elif kind != "redacted_thinking":
            made.append(_entry(block, role, index, tools))
    return made or [said(role, "")]


def _entry(block: Mapping[str, Any], role: str, index: int, tools: Mapping[str, str]) -> Entry:
    kind = block["type"]
    if kind == "text":
        return said(role, text(block.get("text"), index, "the text of a block"))
    if kind == "tool_result":
        return _result(block, index, tools)
    if kind == "thinking":
        signature = block.get("signature")
        thought = text(block.get("thinking"), index, "the thinking of a block")
        content = {"content_type": "reasoning", "text": thought, "format": "anthropic"}
        return entry(content, {"signature": signature} if signature else None)
    line, about = attachment(block, index)
    return said(role, line, metadata={"attachments": [about]})


def _add_call(made: list[Entry], block: Mapping[str, Any], index: int, tools: dict[str, str]) -> None:
    """Add a call to the text before it, or to a message of its own."""
    try:
        call = ToolCall.from_dict(dict(block))
    except ContentError as error:
        raise bad(index, str(error)) from None
    tools[call.id] = call.name
    if not made or made[-1]["content"].get("role") != "assistant":
        made.append(said("assistant", ""))
    metadata = made[-1].setdefault("metadata", {})
    metadata["tool_calls"] = [*metadata.get("tool_calls", ()), *called([call])["tool_calls"]]


def _result(block: Mapping[str, Any], index: int, tools: Mapping[str, str]) -> Entry:
    call_id = text(block.get("tool_use_id"), index, "tool_use_id, of the call that a result answers,")
    content, lines, attachments = block.get("content") or "", [], []
    if isinstance(content, str):
        lines.append(content)
    else:
        for part in parts(content, index, "the content of a result"):
            if part.get("type") == "text":
                lines.append(text(part.get("text"), index, "the text of a block"))
            else:
                line, about = attachment(part, index)
                lines.append(line)
                attachments.append(about)
    made = answered(call_id, tools.get(call_id, ""), "\n".join(lines), is_error=bool(block.get("is_error")))
    if attachments:
        made["metadata"]["attachments"] = attachments
    return made
