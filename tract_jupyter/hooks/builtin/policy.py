"""What a policy wants done that awaits a decision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from tract_jupyter.exceptions import FingerprintError
from tract_jupyter.hooks.actions import action
from tract_jupyter.hooks.builtin.base import BuiltinPending, Field
from tract_jupyter.hooks.field_pending import FieldPending
from tract_jupyter.hooks.introspection import value_rows
from tract_jupyter.review.fingerprint import Subject
from tract_jupyter.review.request import ValueRow, ValueTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tract_jupyter.models.parameters import Parameters, ParameterSet


class PendingPolicy(BuiltinPending, FieldPending):
    """Call a tool because a policy says so.

    A standing approval of it is one of the tool with these values, whoever calls it.

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
    definition_hash = Field()

    @action
    def modify_params(
        self, params: Annotated[dict[str, Any], "New values; those that are not named stay as they are."]
    ) -> dict[str, Any]:
        """Change what the tool would be called with, and return all of it."""
        self.action_params = self.field_parameters.validate({**self.action_params, **params})
        return dict(self.action_params)

    @property
    def title(self) -> str:
        """Names policy and tool."""
        return f"Policy {self.policy_name}: {self.action_type}"

    @property
    def field_parameters(self) -> ParameterSet:  # type: ignore[override] # looked up each time
        """What the tool can be called with.

        Raises:
            FingerprintError: there is no such tool any more.
        """
        return self._tool().parameters  # type: ignore[no-any-return] # a `ToolDefinition`

    @property
    def subject(self) -> Subject:
        """What a standing approval is about: the call of the tool."""
        return Subject("tool", self.action_type, self.definition_hash, self.action_params)

    def check_current(self) -> None:
        """Check that the tool is the one that was asked about.

        Raises:
            FingerprintError: it was changed or removed.
        """
        if self._tool().definition_hash != self.definition_hash:
            raise FingerprintError(f"the tool {self.action_type!r} was changed since; apply the policy again")

    def editable(self) -> Parameters | None:
        """What the tool would be called with, as long as there is the tool."""
        return None if self.tract.executor.get(self.action_type) is None else super().editable()

    def summary(self) -> str:
        """What would be done."""
        return f"The policy {self.policy_name!r} wants to call the tool {self.action_type!r}."

    def why(self) -> str:
        """What the policy says, and why a person is asked."""
        return self.reason or "The policy gives no reason."

    def tables(self) -> tuple[ValueTable, ...]:
        """What the tool would be called with."""
        tool = self.tract.executor.get(self.action_type)
        declared = {} if tool is None else {p.name: p for p in tool.parameters}
        names = [*declared, *(name for name in self.action_params if name not in declared)]
        values = {name: self.action_params[name] for name in names if name in self.action_params}
        rows: tuple[ValueRow, ...] = value_rows(values, declared)
        return (ValueTable(f"Call {self.action_type} with", rows),) if rows else ()

    def _tool(self) -> Any:
        tool = self.tract.executor.get(self.action_type)
        if tool is None:
            raise FingerprintError(f"there is no tool {self.action_type!r} any more; it cannot be called")
        return tool

    @property
    def _values(self) -> Mapping[str, Any]:
        return self.action_params  # type: ignore[no-any-return] # a field's value

    def _with_values(self, values: dict[str, Any]) -> dict[str, Any]:
        return {**self.fields, "action_params": values}
