"""Messages as OpenAI's chat completions and Anthropic's messages take them.

Whatever the context holds, what comes out is accepted by the provider: `pairing` says what becomes of calls and
answers that have lost each other. Names and ids that a provider would refuse are replaced by ones that it takes.

The rules: https://platform.openai.com/docs/api-reference/chat/create,
https://docs.anthropic.com/en/api/messages and https://docs.anthropic.com/en/docs/agents-and-tools/tool-use.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models.canonical import sha256
from tract_jupyter.models.pairing import as_user, paired

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.models.context import Message

OPENING: Final = "(The conversation begins with the assistant.)"
"""What the user is made to say first where the context begins with somebody else."""
NO_TEXT: Final = "(It failed without a message.)"
"""The text of a failed call's result that has none."""

_LONGEST_NAME = 64  # of a participant and of a tool, with both providers
_LONGEST_ID = 40  # OpenAI's limit; Anthropic's is longer
_ANTHROPIC_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def openai_message(message: Message) -> dict[str, Any]:
    """One message in OpenAI's shape, whatever stands before and after it.

    A result of a tool that answers no call (a `tool_io` content committed by hand) is the user's, and names the
    tool. A participant's name keeps its ASCII letters, digits, `_` and `-`; the others become `_`. OpenAI has no
    place for `is_error`.

    Raises:
        ContentError: a tool call has arguments without a JSON form.
    """
    if message.role == "tool" and message.tool_call_id:
        return {"role": "tool", "content": message.content, "tool_call_id": _openai_id(message.tool_call_id)}
    if message.role == "tool":
        message = as_user(message)
    calls = _openai_calls(message) if message.role == "assistant" else []
    shape: dict[str, Any] = {"role": message.role, "content": message.content}
    if calls:
        shape["content"] = message.content or None
        shape["tool_calls"] = calls
    name = _name(message.name or "")
    if name:
        shape["name"] = name
    return shape


def openai_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The messages in OpenAI's shape, as many as were given; answers right after their calls.

    Raises:
        ContentError: a tool call has arguments without a JSON form.
    """
    return [openai_message(message) for message in paired(messages)]


def anthropic_messages(messages: Sequence[Message]) -> dict[str, Any]:
    """`messages` in Anthropic's shape, and `system` if there is any.

    What the system says, wherever it stands, is joined by blank lines. Roles alternate and the user begins:
    messages of one role in a row become blocks of one, and where the context does not begin with the user,
    `OPENING` does. Blank texts are left out. Names of participants have no place here. A message of one text is a
    plain string.

    Raises:
        ContentError: a tool call has arguments without a JSON form.
    """
    system = [m.content for m in messages if m.role == "system" and m.content.strip()]
    turns: list[dict[str, Any]] = []
    for message in paired([m for m in messages if m.role != "system"]):
        role, blocks = _anthropic_blocks(message)
        if blocks and turns and turns[-1]["role"] == role:
            turns[-1]["content"].extend(blocks)
        elif blocks:
            turns.append({"role": role, "content": blocks})
    if messages and (not turns or turns[0]["role"] == "assistant"):
        turns.insert(0, {"role": "user", "content": [{"type": "text", "text": OPENING}]})
    _trim_end(turns)
    return {
        **({"system": "\n\n".join(system)} if system else {}),
        "messages": [{**turn, "content": _simplest(turn["content"])} for turn in turns],
    }


def anthropic_tool(openai_tool: dict[str, Any]) -> dict[str, Any]:
    """A tool in OpenAI's shape, `{"type": "function", "function": {...}}`, as Anthropic's API takes it.

    Raises:
        ContentError: it has not this shape.
    """
    function = openai_tool.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise ContentError(
            f"this is no tool in OpenAI's shape: {openai_tool!r:.80}; "
            'use {"type": "function", "function": {"name": ..., "description": ..., "parameters": {...}}}'
        )
    description = function.get("description")
    return {
        "name": provider_name(function["name"]),
        **({"description": description} if description else {}),
        "input_schema": {"type": "object", **(function.get("parameters") or {"properties": {}})},
    }


def _openai_calls(message: Message) -> list[dict[str, Any]]:
    calls = [call.to_openai() for call in message.tool_calls]
    for call in calls:
        call["id"] = _openai_id(call["id"])
        call["function"]["name"] = provider_name(call["function"]["name"])
    return calls


def _anthropic_blocks(message: Message) -> tuple[str, list[dict[str, Any]]]:
    if message.role == "tool":
        return "user", [_tool_result(message)]
    blocks: list[dict[str, Any]] = (
        [{"type": "text", "text": message.content}] if message.content.strip() else []
    )
    calls = message.tool_calls if message.role == "assistant" else ()
    uses = ({**c.to_anthropic(), "id": _anthropic_id(c.id), "name": provider_name(c.name)} for c in calls)
    return message.role, [*blocks, *uses]


def _tool_result(message: Message) -> dict[str, Any]:
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": _anthropic_id(message.tool_call_id or "")}
    if message.content.strip():
        result["content"] = message.content
    if message.is_error:
        result.setdefault("content", NO_TEXT)  # an error must not be empty
        result["is_error"] = True
    return result


def _trim_end(turns: list[dict[str, Any]]) -> None:
    # a last message of the assistant is the beginning of the answer, and must not end with white space
    if turns and turns[-1]["role"] == "assistant":
        block = turns[-1]["content"][-1]
        turns[-1]["content"][-1] = {**block, "text": block["text"].rstrip()}


def _simplest(blocks: list[dict[str, Any]]) -> Any:
    return blocks[0]["text"] if [block["type"] for block in blocks] == ["text"] else blocks


def _openai_id(given: str) -> str:
    return given if 0 < len(given) <= _LONGEST_ID else _hashed(given)


def _anthropic_id(given: str) -> str:
    return given if _ANTHROPIC_ID.fullmatch(given) else _hashed(given)


def _hashed(given: str) -> str:
    return f"call_{sha256(given.encode())[:24]}"


def provider_name(given: str) -> str:
    """The name under which providers are given a tool: they take 64 letters, digits, `_` and `-`."""
    return _name(given) or "tool"


def _name(given: str) -> str:
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", given)[:_LONGEST_NAME]
    return name if name.strip("_") else ""
