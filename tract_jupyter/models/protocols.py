"""Structural types for what crosses a layer."""

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
    """Counts tokens. `name` tells how: `tiktoken:o200k_base`, `approximate`, ..."""

    name: str

    def count_text(self, text: str) -> int:
        """Return the number of tokens of `text`, special tokens read as plain text."""
        ...


class Summarizer(Protocol):
    """Writes the summary that takes the place of messages."""

    def __call__(
        self,
        messages: Sequence[Message],
        criteria: Sequence[dict[str, Any]],
        instructions: str | None,
        target_tokens: int | None,
    ) -> str:
        """Return the summary.

        Args:
            messages: what to sum up, in order.
            criteria: what must be kept of the important ones, each as `instructions`, `match_patterns`, `match_mode`.
            instructions: what whoever asked for the compression wants.
            target_tokens: how long the summary should be at most.
        """
        ...


class Validator(Protocol):
    """Looks at a text that a model wrote."""

    def __call__(self, text: str, /) -> str | bool | tuple[bool, str | None] | None:
        """Return None or True if it is good, else a text that tells what is wrong, False, or `(False, text)`."""
        ...


class LLMClient(Protocol):
    """Asks a language model. Give one to `Tract.configure_llm`.

    Messages, tools and replies are dicts in the shape of OpenAI's chat completions
    (https://platform.openai.com/docs/api-reference/chat), whichever provider is behind it.
    """

    def chat(self, messages: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
        """Return the reply.

        Args:
            messages: `{"role": ..., "content": ...}`, those of an assistant with `tool_calls`, those of a tool with
                `tool_call_id`.
            options: the model's: `model`, `temperature`, `max_tokens`, ...; and `tools` if it may call some, each as
                `{"type": "function", "function": {"name", "description", "parameters"}}`. A client that can stream has
                a parameter `on_delta`, which is called with each `Delta`.

        Returns:
            A dict with

            * `choices[0]["message"]["content"]`: the text, or None if it only calls tools;
            * `choices[0]["message"]["tool_calls"]`, where it calls some: a list of
              `{"id", "type": "function", "function": {"name", "arguments": JSON text}}`;
            * `usage`, if known: `{"prompt_tokens", "completion_tokens", "total_tokens"}`;
            * `model`, if known: the name of the model that replied.

            What a message may hold besides (`reasoning`, `provider_blocks`) is described in docs/models.md.
        """
        ...
