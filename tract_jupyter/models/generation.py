"""What came of asking a model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tract_jupyter.models.commit import CommitInfo
    from tract_jupyter.models.toolcall import ToolCall


@dataclass(frozen=True, slots=True)
class ChatResponse:
    """A model's reply, committed. `str` gives its text.

    Attributes:
        text: what it says; empty if it only calls tools.
        commit_info: the assistant's message.
        usage: the tokens it took, as the provider counts them; empty if it does not say.
        generation_config: the model and the parameters it was made with.
        tool_calls: the tools it calls; answer each with `tool_result`.
    """

    text: str
    commit_info: CommitInfo
    usage: dict[str, Any] = field(default_factory=dict)
    generation_config: dict[str, Any] = field(default_factory=dict)
    tool_calls: tuple[ToolCall, ...] = ()

    def __str__(self) -> str:
        return self.text
