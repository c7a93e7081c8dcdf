"""The compiled context: the messages that a commit stands for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tract_jupyter.models.commit import show_tokens

if TYPE_CHECKING:
    from tract_jupyter.models.priority import Priority


@dataclass(frozen=True, slots=True)
class Message:
    """One message, and the commit it comes from."""

    role: str
    content: str
    name: str | None
    commit_hash: str
    priority: Priority
    token_count: int

    def to_dict(self) -> dict[str, Any]:
        """The shape that OpenAI's chat completions take."""
        message: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.name:
            message["name"] = self.name
        return message


@dataclass(frozen=True, slots=True)
class CompiledContext:
    """Messages in order, ready for a provider.

    `token_count` includes what a chat format adds around each message; `token_source` says how it was counted.
    """

    messages: tuple[Message, ...]
    token_count: int
    token_source: str
    head: str | None

    def to_dicts(self) -> list[dict[str, Any]]:
        """The messages as dicts with `role`, `content` and, where given, `name`."""
        return [message.to_dict() for message in self.messages]

    def __len__(self) -> int:
        return len(self.messages)

    def __repr__(self) -> str:
        tokens = show_tokens(self.token_count, self.token_source)
        return f"<CompiledContext: {len(self)} messages, {tokens} tokens>"
