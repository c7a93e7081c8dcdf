"""A model's reply and its tool calls, read from OpenAI's shape: the one reader of what a client gave back."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.exceptions import ContentError, LLMResponseError, SpecError
from tract_jupyter.models.canonical import canonical_json, plain
from tract_jupyter.models.text import brief_repr, safe_repr
from tract_jupyter.models.toolcall import ToolCall

if TYPE_CHECKING:
    from collections.abc import Mapping


class RawCall(NamedTuple):
    """A tool call as a model wrote it, whatever is wrong with it: who answers it tells the model."""

    given: dict[str, Any]
    id: str
    name: str
    arguments: str

    @classmethod
    def of(cls, given: dict[str, Any], place: int) -> RawCall:
        """Read what can be read of the call at a place; one without an id gets `call_<place>`."""
        function = given.get("function")
        function = function if isinstance(function, dict) else {}
        arguments = function.get("arguments") or "{}"
        text = arguments if isinstance(arguments, str) else _as_text(arguments)
        return cls(given, str(given.get("id") or f"call_{place}"), str(function.get("name") or ""), text)

    def values(self) -> dict[str, Any]:
        """Return the arguments.

        Raises:
            SpecError: they are no JSON object.
        """
        try:
            value = json.loads(self.arguments)
        except (ValueError, RecursionError) as error:
            raise SpecError(f"the arguments are no JSON: {error}") from None
        if not isinstance(value, dict):
            raise SpecError(f"the arguments are a JSON object, not {type(value).__name__}")
        return value

    def read(self) -> ToolCall:
        """Return the call.

        Raises:
            ContentError: it has no id, no name, or arguments that are no JSON object.
        """
        return ToolCall.from_dict(self.given)

    def to_openai(self) -> dict[str, Any]:
        """Return an entry of `tool_calls` that any provider takes."""
        function = {"name": self.name, "arguments": self.arguments}
        return {"id": self.id, "type": "function", "function": function}


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
    raw_calls: tuple[RawCall, ...] = ()
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
            tuple(RawCall.of(given, place) for place, given in enumerate(calls)),
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
            return tuple(call.read() for call in self.raw_calls)
        except ContentError as error:
            raise LLMResponseError(
                f"the model called a tool in a way that cannot be read, so nothing was committed: {error}. Ask again"
            ) from None


def _as_text(arguments: Any) -> str:
    try:
        return canonical_json(arguments)
    except ContentError:  # the model is told that it is no JSON
        return safe_repr(arguments).encode("utf-8", "replace").decode()


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
