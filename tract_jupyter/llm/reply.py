"""What a client gave back, read from OpenAI's shape."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import ContentError, LLMResponseError
from tract_jupyter.models.canonical import plain
from tract_jupyter.models.text import brief_repr
from tract_jupyter.models.toolcall import ToolCall

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply of a model.

    Attributes:
        text: what it says; empty if it only calls tools.
        raw_calls: the tools it calls, as they were given: a model's arguments may be no JSON.
        model: its name, if the reply has it.
        usage: the tokens it took, as the provider counts them: `prompt_tokens`, `completion_tokens`, ...
    """

    text: str
    raw_calls: tuple[dict[str, Any], ...] = ()
    model: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, response: Any) -> Reply:
        """Read `{"choices": [{"message": {"content": ..., "tool_calls": [...]}}], "model": ..., "usage": {...}}`.

        Raises:
            LLMResponseError: it has another shape.
        """
        message = _message(response)
        calls = message.get("tool_calls") or ()
        if not isinstance(calls, list | tuple) or not all(isinstance(call, dict) for call in calls):
            raise LLMResponseError(
                f"the reply's tool_calls are {brief_repr(calls)}, and should be a list of dicts"
            )
        model, usage = response.get("model"), response.get("usage")
        return cls(
            _text(message),
            tuple(calls),
            model if isinstance(model, str) and model else None,
            _counts(usage) if isinstance(usage, dict) else {},
        )

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tools it calls.

        Raises:
            LLMResponseError: a call has no id, no name, or arguments that are no JSON object.
        """
        try:
            return tuple(ToolCall.from_dict(call) for call in self.raw_calls)
        except ContentError as error:
            raise LLMResponseError(
                f"the model called a tool in a way that cannot be read, so nothing was committed: {error}. Ask again"
            ) from None


def _message(response: Any) -> Mapping[str, Any]:
    if not isinstance(response, dict):
        raise LLMResponseError(
            f"a client's chat() returns a dict in OpenAI's shape, and this gave {type(response).__name__}; "
            "of an object of OpenAI's library, return response.model_dump()"
        )
    choices = response.get("choices")
    first = choices[0] if isinstance(choices, list | tuple) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    if not isinstance(message, dict):
        told = response.get("error")
        why = (
            f"it says {brief_repr(told)}" if told else f"it has {', '.join(map(str, response)) or 'nothing'}"
        )
        raise LLMResponseError(f"the reply has no choices[0].message: {why}; nothing was committed")
    return message


def _counts(usage: dict[Any, Any]) -> dict[str, Any]:
    """What a provider says that it counted, but for what has no JSON form: the reply is worth more than its bill."""
    found: dict[str, Any] = {}
    for name, number in usage.items():
        with suppress(ContentError):
            found.update(plain({name: number}))
    return found


def _text(message: Mapping[str, Any]) -> str:
    """The text; of a list of parts, that of all of them; what a model said in refusing otherwise."""
    content = message.get("content")
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        content = "".join(part for part in parts if isinstance(part, str))
    if not content:
        content = message.get("refusal") or ""
    if not isinstance(content, str):
        raise LLMResponseError(f"the reply's content is {brief_repr(content)}, and should be a text")
    return content
