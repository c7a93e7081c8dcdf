"""A language model made of a script."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tract_jupyter import Tract


def call(name: str, arguments: dict[str, Any] | str = "{}", call_id: str = "c1") -> dict[str, Any]:
    """A tool call as a model writes it."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def reply(text: str | None, *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A reply in OpenAI's shape."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = list(calls)
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
    return {"choices": [{"message": message}], "model": "scripted-1", "usage": usage, **more}


class ScriptedClient:
    """Gives its replies in order: a text, a whole response, an exception to raise. Keeps what it was asked."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.asked: list[tuple[list[dict[str, Any]], dict[str, Any]]] = []

    def chat(self, messages: list[dict[str, Any]], **options: Any) -> Any:
        self.asked.append((copy.deepcopy(messages), options))
        assert self.replies, "the script has no more replies"
        given = self.replies.pop(0)
        if isinstance(given, Exception):
            raise given
        return reply(given) if isinstance(given, str) else given

    @property
    def last_messages(self) -> list[dict[str, Any]]:
        return self.asked[-1][0]


def said(tract: Tract) -> list[tuple[str, str]]:
    """Role and text of all messages."""
    return [(m["role"], m["content"]) for m in tract.compile().to_dicts()]


def needs_metres(text: str) -> str | None:
    """A validator."""
    return None if "metres" in text else "say it in metres"
