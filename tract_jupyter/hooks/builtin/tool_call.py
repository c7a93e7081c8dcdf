"""A tool call that a person must allow first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.hooks.builtin.tool_question import ToolQuestion

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.models.parameters import ParameterSet


class PendingToolCall(ToolQuestion):
    """A gated tool call: approving it lets exactly this call happen.

    Args:
        tool: its name.
        arguments: validated, with defaults.
        parameters: what they must fit.
        definition_hash: of the tool's schema and code.
        check: raises `FingerprintError` if the tool or the policy changed since.
        why: the policy and the traits that make it ask.
        options: see `Pending`.
    """

    kind = "tool"

    def __init__(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        parameters: ParameterSet,
        definition_hash: str,
        check: Callable[[], None] = lambda: None,
        description: str = "",
        why: str = "",
        **options: Any,
    ) -> None:
        super().__init__("tool_call", fields=arguments, **options)
        self.tool = tool
        self.field_parameters = parameters
        self.definition_hash = definition_hash
        self._check = check
        self._description = description
        self._why = why

    @property
    def name(self) -> str:
        """Of the tool."""
        return self.tool

    @property
    def tool_name(self) -> str:
        """The tool."""
        return self.tool

    @property
    def call_arguments(self) -> dict[str, Any]:
        """What the tool is called with, as it was approved."""
        return self.fields

    @property
    def title(self) -> str:
        """Names the tool."""
        return f"Call tool {self.tool}"

    def check_current(self) -> None:
        """Check that the tool, the policy and the branch are those that were asked about."""
        self._check()
        self.check_branch()

    def summary(self) -> str:
        """What the tool does."""
        return self._description

    def why(self) -> str:
        """Who wants to call it, and why that is asked about."""
        asked = self._why or f"{self.actor} wants to make this call; a person's own cell is not asked."
        return f"{asked} {self.about_operation()}".rstrip()
