"""The question about a tool that a policy wants to call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from tract_jupyter.hooks.builtin.base import Field
from tract_jupyter.hooks.pending import action

if TYPE_CHECKING:
    from collections.abc import Mapping


from tract_jupyter.toolkit.pendings import ToolPending


class PendingPolicy(ToolPending):
    """Call a tool because a policy says so.

    A standing approval of it is one of the tool with these values.

    Args:
        fields: see `about`.
        options: see `BuiltinPending`.
    """

    kind = "policy"
    name = "policy"
    label = "Policy"
    about: ClassVar[Mapping[str, str]] = {
        "policy_name": "The policy.",
        "action_type": "The tool that it wants to call.",
        "action_params": "What it wants to call it with.",
        "reason": "Why.",
        "definition_hash": "Of the tool, as it was when this was asked.",
    }
    policy_name = Field()
    action_type = Field()
    action_params = Field()
    reason = Field()
    in_view = frozenset({"action_type", "action_params"})
    tool_field = "action_type"
    arguments_field = "action_params"
    again = "apply the policy again"

    @action
    def modify_params(
        self, params: Annotated[dict[str, Any], "New values; those that are not named stay as they are."]
    ) -> dict[str, Any]:
        """Change what the tool would be called with, and return all of it."""
        self.action_params = self.field_parameters.validate({**self.action_params, **params})
        return dict(self.action_params)

    @property
    def title(self) -> str:
        """The title, with the names of policy and tool."""
        return f"Policy {self.policy_name}: {self.action_type}"

    def summary(self) -> str:
        """Return what would be done."""
        return f"The policy {self.policy_name!r} wants to call the tool {self.action_type!r}."

    def why(self) -> str:
        """Return the policy's reason, and why a person is asked."""
        return f"{self.reason or 'The policy gives no reason.'} {self.about_operation()}".rstrip()
