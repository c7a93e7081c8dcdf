"""Structural types for values that cross layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.models import Message

DeltaKind = Literal["text", "reasoning", "tool_call"]


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a streamed reply.

    Attributes:
        kind: the reply's `text`, its `reasoning`, or the arguments of a `tool_call`.
        text: the piece. The first one of a tool call may be empty and marks its start.
        index: the position of the tool call in the reply.
        name: the name of the tool.
    """

    kind: DeltaKind
    text: str
    index: int = 0
    name: str = ""


class TokenCounter(Protocol):
    """Counts tokens. `name` is the method: `tiktoken:o200k_base`, `approximate`, ..."""

    name: str

    def count_text(self, text: str) -> int:
        """Return the number of tokens in `text`. Special tokens count as plain text."""
        ...


class Summarizer(Protocol):
    """Writes the summary that replaces messages."""

    def __call__(
        self,
        messages: Sequence[Message],
        criteria: Sequence[dict[str, Any]],
        instructions: str | None,
        target_tokens: int | None,
    ) -> str:
        """Return the summary.

        Args:
            messages: the messages to summarize, in order.
            criteria: the parts of important messages to keep, each as `instructions`, `match_patterns`, `match_mode`.
            instructions: instructions from the caller of the compression.
            target_tokens: the maximum length of the summary.
        """
        ...


class Validator(Protocol):
    """Checks a text that a model wrote."""

    def __call__(self, text: str, /) -> str | bool | tuple[bool, str | None] | None:
        """Return None or True for a valid text. Otherwise return a diagnosis, False, or `(False, diagnosis)`."""
        ...


class LLMClient(Protocol):
    """Sends requests to a language model. Pass a client to `Tract.configure_llm`.

    For every provider, messages, tools and replies are dicts in the shape of OpenAI's chat completions
    (https://platform.openai.com/docs/api-reference/chat).
    """

    def chat(self, messages: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
        """Return the reply.

        Args:
            messages: `{"role": ..., "content": ...}`. Assistant messages may have `tool_calls`, tool messages have a
                `tool_call_id`.
            options: the model's options: `model`, `temperature`, `max_tokens`, ...; and `tools`, if it may call tools,
                each as `{"type": "function", "function": {"name", "description", "parameters"}}`. A client that can
                stream has a parameter `on_delta`, a callback for each `Delta`.

        Returns:
            A dict with

            * `choices[0]["message"]["content"]`: the text, or None if the reply only calls tools;
            * `choices[0]["message"]["tool_calls"]`, if it calls tools: a list of
              `{"id", "type": "function", "function": {"name", "arguments": JSON text}}`;
            * `usage`, if known: `{"prompt_tokens", "completion_tokens", "total_tokens"}`;
            * `model`, if known: the name of the model that replied.

            docs/models.md describes further fields of a message (`reasoning`, `provider_blocks`).
        """
        ...
