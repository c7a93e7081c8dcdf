"""The compiled context: what a model is sent."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from tract_jupyter.models.commit import show_tokens
from tract_jupyter.models.priority import Priority

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tract_jupyter.models.commit import Correction
    from tract_jupyter.models.plain_views import Style
    from tract_jupyter.models.toolcall import ToolCall


_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Message(NamedTuple):
    """One message, and the commit it comes from.

    `tool_calls` are those of an assistant; `tool_call_id` is the call that a message of role `tool` answers.
    """

    role: str
    content: str
    name: str | None = None
    commit_hash: str = ""
    priority: Priority = Priority.NORMAL
    token_count: int = 0
    """With what a chat format adds around it."""
    content_type: str = "dialogue"
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    is_error: bool = False
    generation_config: Mapping[str, Any] = _NOTHING
    direction: str | None = None
    """Of a `tool_io` content: `call` or `result`."""

    def to_dict(self) -> dict[str, Any]:
        """The shape that OpenAI's chat completions take."""
        from tract_jupyter.models.chat_shapes import openai_message

        return openai_message(self)


@dataclass(frozen=True, slots=True)
class CompiledContext:
    """Messages in order, ready for a provider.

    `token_count` includes what a chat format adds around each message; `token_source` says how it was counted. Where
    that is an estimate and a provider has counted a prompt, it is corrected by that, as are those of the messages.
    `tools` are JSON-Schema tools in OpenAI's shape, as last set in the history.
    """

    messages: Sequence[Message]
    token_count: int
    token_source: str
    head: str | None
    tools: tuple[dict[str, Any], ...] = ()
    max_tokens: int | None = None
    """The budget, where one is set."""
    corrected_by: Correction | None = None

    @classmethod
    def empty(cls, token_source: str) -> Self:
        """The context before the first commit."""
        return cls((), 0, token_source, None)

    @property
    def commit_count(self) -> int:
        """How many commits show: one for each message."""
        return len(self.messages)

    @property
    def commit_hashes(self) -> tuple[str, ...]:
        """The commit of each message."""
        return tuple(message.commit_hash for message in self.messages)

    @property
    def priorities(self) -> tuple[Priority, ...]:
        """The priority of each message."""
        return tuple(message.priority for message in self.messages)

    @property
    def generation_configs(self) -> tuple[Mapping[str, Any], ...]:
        """The model and parameters that each message was made with."""
        return tuple(message.generation_config for message in self.messages)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The messages as OpenAI's chat completions take them, each answer of a tool right after its call."""
        from tract_jupyter.models.chat_shapes import openai_messages

        return openai_messages(self.messages)

    def to_openai(self) -> list[dict[str, Any]]:
        """The same as `to_dicts`."""
        return self.to_dicts()

    def to_anthropic(self) -> dict[str, Any]:
        """`system` and `messages` as Anthropic's API takes them, with tool_use and tool_result blocks."""
        from tract_jupyter.models.chat_shapes import anthropic_messages

        return anthropic_messages(self.messages)

    def to_openai_params(self) -> dict[str, Any]:
        """Keyword arguments for OpenAI's `chat.completions.create`: messages, and tools if there are any."""
        return {"messages": self.to_dicts(), **({"tools": list(self.tools)} if self.tools else {})}

    def to_anthropic_params(self) -> dict[str, Any]:
        """Keyword arguments for Anthropic's `messages.create`, but for `model` and `max_tokens`."""
        from tract_jupyter.models.chat_shapes import anthropic_tool

        tools = [anthropic_tool(tool) for tool in self.tools]
        return {**self.to_anthropic(), **({"tools": tools} if tools else {})}

    def pprint(self, style: Style = "table") -> None:
        """Print it: as a `table` with a line for each message, shorter as `compact`, or whole as `chat`."""
        from tract_jupyter.models.plain_views import context_text

        print(context_text(self, style))  # noqa: T201 # that is what it is for

    def __len__(self) -> int:
        return len(self.messages)

    def __repr__(self) -> str:
        tokens = show_tokens(self.token_count, self.token_source)
        budget = "" if self.max_tokens is None else f" of {self.max_tokens:,}"
        return f"<CompiledContext: {len(self)} messages, {tokens}{budget} tokens>"
