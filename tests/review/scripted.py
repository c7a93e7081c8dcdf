"""A language model made of a script."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from tract_jupyter.models import Delta

if TYPE_CHECKING:
    from collections.abc import Callable

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
    """Gives its replies in order: a text, a whole response, an exception to raise. Keeps each request in `asked`.

    `usual` is the reply after the last one.
    """

    def __init__(self, *replies: Any, usual: Any = None) -> None:
        self.replies = list(replies)
        self.usual = usual
        self.asked: list[tuple[list[dict[str, Any]], dict[str, Any]]] = []

    def chat(self, messages: list[dict[str, Any]], **options: Any) -> Any:
        self.asked.append((copy.deepcopy(messages), options))
        assert self.replies or self.usual is not None, "the script has no more replies"
        given = self.replies.pop(0) if self.replies else self.usual
        if isinstance(given, BaseException):
            raise given
        return reply(given) if isinstance(given, str) else given

    @property
    def last_messages(self) -> list[dict[str, Any]]:
        return self.asked[-1][0]


class StreamingClient(ScriptedClient):
    """Streams the text of each reply in one piece."""

    def chat(
        self, messages: list[dict[str, Any]], on_delta: Callable[[Delta], None] | None = None, **options: Any
    ) -> Any:
        given = super().chat(messages, **options)
        text = given["choices"][0]["message"]["content"]
        if text and on_delta is not None:
            on_delta(Delta("text", text))
        return given


def said(tract: Tract) -> list[tuple[str, str]]:
    """Role and text of all messages."""
    return [(m["role"], m["content"]) for m in tract.compile().to_dicts()]


def needs_metres(text: str) -> str | None:
    """A validator."""
    return None if "metres" in text else "say it in metres"
