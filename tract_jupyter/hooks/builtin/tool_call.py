"""A tool call that a person must allow first."""

from __future__ import annotations

from typing import Any

from tract_jupyter.hooks.pending import Pending
from tract_jupyter.review.fingerprint import fingerprint


class PendingToolCall(Pending):
    """A gated tool call: approving it lets exactly this call happen."""

    def __init__(
        self, tool: str, arguments: dict[str, Any], *, tract: Any, actor: str, description: str = ""
    ) -> None:
        super().__init__("tool_call", tract=tract, fields=arguments, actor=actor)
        self.tool = tool
        self._description = description

    @property
    def title(self) -> str:
        """Names the tool."""
        return f"Call tool {self.tool}"

    @property
    def fingerprint(self) -> str:
        """Binds the tool and the validated arguments."""
        return fingerprint("tool", self.tool, "", self.fields)

    def summary(self) -> str:
        """What the tool does."""
        return self._description

    def why(self) -> str:
        """Who wants to call it."""
        return f"{self.actor} wants to make this call; a person's own cell is not asked."
