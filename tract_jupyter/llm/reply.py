"""A model's reply and its tool calls: the only reader of client responses."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.exceptions import ContentError, LLMResponseError, SpecError
from tract_jupyter.llm.blocks import ProviderBlocks
from tract_jupyter.llm.messages import (
    INVALID_JSON,
    REASONING_FIELDS,
    REFUSED,
    Usage,
    finish_of,
    first_choice,
    is_unfinished,
)
from tract_jupyter.llm.thinking import split_thought
from tract_jupyter.models import (
    NO_ARGUMENTS,
    ToolCall,
    brief_repr,
    canonical_json,
    plain,
    provider_name,
    safe_repr,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


CUT = "cut"
"""The key of a message's metadata that says why it is not whole."""
FINISH = "finish_reason"
"""The key of a message's metadata that says why the reply ended; `provider_finish_reason` has the provider's word."""
WITHOUT_IMAGES = "without_images"
"""The key of a response and of a message's metadata that says why images of tool results were not sent."""


class RawCall(NamedTuple):
    """A tool call as the model wrote it. Its errors are reported back to the model."""

    given: dict[str, Any]
    id: str
    name: str
    arguments: str

    @classmethod
    def of(cls, given: dict[str, Any], place: int) -> RawCall:
        """Read the call at a place as far as possible. Without an id, it gets `call_<place>`."""
        function = given.get("function")
        function = function if isinstance(function, dict) else {}
        arguments = function.get("arguments") or ""
        text = arguments if isinstance(arguments, str) else _as_text(arguments)
        if text.strip() in NO_ARGUMENTS and not given.get("cut"):
            text = "{}"
        return cls(given, str(given.get("id") or f"call_{place}"), str(function.get("name") or ""), text)

    @property
    def is_cut(self) -> bool:
        """True if it ended before its arguments were complete. Such a call must never run."""
        return bool(self.given.get("cut")) or is_unfinished(self.arguments)

    def values(self) -> dict[str, Any]:
        """Return the arguments."""
        if self.is_cut:
            raise SpecError("the reply was cut before the arguments of this call were complete")
        try:
            value = json.loads(self.arguments)
        except (ValueError, RecursionError) as error:
            raise SpecError(f"the arguments are not JSON: {error}") from None
        if not isinstance(value, dict):
            raise SpecError(f"the arguments must be a JSON object, not {type(value).__name__}")
        return value

    def read(self) -> ToolCall:
        """Return the call.

        Raises:
            ContentError: it has no id, no name, or arguments that are not a JSON object.
        """
        return ToolCall.from_dict(self.given)

    def sent_values(self) -> dict[str, Any]:
        """Return the arguments for sending. Arguments that are not a JSON object become `{"INVALID_JSON": text}`."""
        try:
            value = json.loads(self.arguments)
        except (ValueError, RecursionError):
            value = None
        return value if isinstance(value, dict) else {INVALID_JSON: self.arguments}

    def to_openai(self) -> dict[str, Any]:
        """Return an entry of `tool_calls` that every provider accepts.

        Providers refuse invalid tool names, and some refuse arguments that are not JSON.
        """
        arguments = self.sent_values()
        text = json.dumps(arguments, ensure_ascii=False) if INVALID_JSON in arguments else self.arguments
        function = {"name": provider_name(self.name), "arguments": text}
        return {"id": self.id, "type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply of a model; docs/models.md describes its form.

    Attributes:
        text: the text; empty if the reply only calls tools.
        raw_calls: the tool calls as the model wrote them. Arguments may be invalid JSON.
        model: the model's name, if the reply has it.
        usage: the token usage, with the names of chat completions: `prompt_tokens`, `completion_tokens`, ...
        finish_reason: the reason for the end: `stop`, `length`, `tool_calls`, `content_filter`, `refusal`, `pause` or
            `incomplete`, for any word of the client; None if the client does not say.
        reasoning: the model's reasoning, as far as the provider returns it.
        response: the original response.
    """

    text: str
    raw_calls: tuple[RawCall, ...] = ()
    model: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    finish_reason: str | None = None
    reasoning: str = ""
    response: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, response: Any) -> Reply:
        """Read `{"choices": [{"message": {"content": ..., "tool_calls": [...]}}], "model": ..., "usage": {...}}`.

        Raises:
            LLMResponseError: the response has another shape.
        """
        message = _message(response)
        calls = message.get("tool_calls") or ()
        if not isinstance(calls, list | tuple) or not all(isinstance(call, dict) for call in calls):
            raise LLMResponseError(f"the reply's tool_calls must be a list of dicts, not {brief_repr(calls)}")
        model, usage = response.get("model"), response.get("usage")
        known = next((message[name] for name in REASONING_FIELDS if _is_text(message.get(name))), "")
        thought, text = split_thought(_text(message), known)
        finish = finish_of_reply(response)
        # a refused reply does nothing
        raw_calls = (
            ()
            if finish in REFUSED
            else tuple(RawCall.of(raw_call, place) for place, raw_call in enumerate(calls))
        )
        return cls(
            text,
            raw_calls,
            model if isinstance(model, str) and model else None,
            counts_of(usage) if isinstance(usage, dict) else {},
            finish or None,
            thought,
            response,
        )

    @property
    def provider_blocks(self) -> ProviderBlocks | None:
        """The blocks of the provider's message, if they contain more than this reply."""
        return ProviderBlocks.of(_message(self.response))

    def to_message(self) -> dict[str, Any]:
        """Return the reply as a message to send back: its text, its calls, and its provider blocks."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.raw_calls:
            calls = [call.to_openai() for call in self.raw_calls]
            message = {**message, "content": self.text or None, "tool_calls": calls}
        if self.provider_blocks is not None:
            message["provider_blocks"] = self.provider_blocks.to_dict()
        return message

    @property
    def tokens(self) -> Usage:
        """The token usage, in one form for all providers."""
        return Usage.of(self.response)

    @property
    def limit(self) -> int | None:
        """The token limit of a cut reply, also if it was the client's default; None if unknown."""
        limit = self.response.get("max_tokens")
        return limit if isinstance(limit, int) else None

    @property
    def why_cut(self) -> str:
        """Why the reply is not whole, as a short sentence; empty if it is whole."""
        if self.finish_reason == "length" and re.search("context|window", self._word, re.IGNORECASE):
            return CONTEXT_FULL
        return _CUT.get(self.finish_reason or "", "")

    @property
    def ending(self) -> dict[str, str]:
        """How the reply ended and what its request left out, as its commit's metadata keep it."""
        provider = "" if self._word == self.finish_reason else self._word
        fields = {
            FINISH: self.finish_reason or "",
            "provider_finish_reason": provider,
            CUT: self.why_cut,
            WITHOUT_IMAGES: str(self.response.get(WITHOUT_IMAGES) or ""),
        }
        return {name: value for name, value in fields.items() if value}

    @property
    def _word(self) -> str:
        """The provider's word for the end; empty if it has none."""
        first = first_choice(self.response)
        word = first.get("provider_finish_reason") or first.get("finish_reason")
        return word.encode(errors="replace").decode() if isinstance(word, str) else ""

    @property
    def why_empty(self) -> str:
        """Why the reply has neither a text nor a call, with a remedy. Empty if it has one, or was paused."""
        if self.text.strip() or self.raw_calls or self.finish_reason == "pause":
            return ""
        return _NOTHING_SAID.get(self.finish_reason or "", _EMPTY)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls."""
        try:
            return tuple(call.read() for call in self.raw_calls)
        except ContentError as error:
            raise LLMResponseError(
                f"a tool call of the model cannot be read, so nothing was committed: {error}. Try again"
            ) from None


_NOTHING_SAID = {
    "content_filter": "the provider's content filter ended the reply before any text; rephrase the message",
    "refusal": "the model declined to answer; rephrase the message, or use another model",
    "length": "the reply reached its limit before any text; set a larger max_tokens",
}


CONTEXT_FULL = "the reply was cut at the end of the model's context window"
_CUT = {
    "length": "the reply was cut at its limit",
    "incomplete": "the reply was cut before its end",
    "content_filter": "the provider's content filter ended the reply",
    "refusal": "the model declined to answer",
}


_EMPTY = "the reply is empty: it has no text and no tool call; try again"


def _as_text(arguments: Any) -> str:
    try:
        return canonical_json(arguments)
    except ContentError:  # the model later learns that it is not JSON
        return safe_repr(arguments).encode("utf-8", "replace").decode()


def _message(response: Any) -> Mapping[str, Any]:
    if not isinstance(response, dict):
        raise LLMResponseError(
            f"a client's chat() must return a dict in OpenAI's shape, not {type(response).__name__}; "
            "for an object of OpenAI's library, return response.model_dump()"
        )
    choices = response.get("choices")
    first = choices[0] if isinstance(choices, list | tuple) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    if not isinstance(message, dict):
        error = response.get("error")
        why = (
            f"its error is {brief_repr(error)}"
            if error
            else f"its choices are {brief_repr(choices)}"
            if "choices" in response
            else f"it has {', '.join(map(str, response)) or 'nothing'}"
        )
        raise LLMResponseError(
            f"the reply has no choices[0].message: {why}; nothing was committed. A client must return "
            "{'choices': [{'message': {'content': 'Hello.'}}]}, like OpenAI's chat completions"
        )
    return message


def finish_of_reply(response: dict[str, Any]) -> str:
    """Return why a reply ended; empty if the client does not say."""
    first = first_choice(response)
    reason, message = first.get("finish_reason"), first.get("message")
    message = message if isinstance(message, dict) else {}
    if not isinstance(reason, str) or not reason:
        return "refusal" if message.get("refusal") and not message.get("tool_calls") else ""
    return (
        finish_of(reason, calls=bool(message.get("tool_calls")), refusal=bool(message.get("refusal"))) or ""
    )


def counts_of(usage: dict[Any, Any]) -> dict[str, Any]:
    """Return the provider's counts, without values that have no JSON form. A bad count must not lose the reply."""
    counts: dict[str, Any] = {}
    for name, number in usage.items():
        with suppress(ContentError):
            counts.update(plain({name: number}))
    return counts


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _text(message: Mapping[str, Any]) -> str:
    """Return the text (of a list of parts, their texts), followed by the refusal if there is one."""
    content = message.get("content")
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        content = "".join(part for part in parts if isinstance(part, str))
    texts = [text for text in (content, message.get("refusal")) if text]
    if not all(isinstance(text, str) for text in texts):
        raise LLMResponseError(f"the reply's content must be a text, not {brief_repr(content)}")
    return "\n\n".join(texts)
