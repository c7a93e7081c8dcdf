"""Each active dynamic operation as a tool `fire_<name>`, whose parameters are the operation's fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.hooks.dynamic.check import TOOL_PREFIX
from tract_jupyter.models.pending import PendingStatus
from tract_jupyter.prompts.tool_descriptions import UNREVIEWED
from tract_jupyter.review.decision import outcome_text
from tract_jupyter.toolkit.definitions import ToolDefinition
from tract_jupyter.toolkit.executor import refusal
from tract_jupyter.toolkit.results import ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.hooks.builtin.tool_question import Choice
    from tract_jupyter.hooks.dynamic.spec import OperationSpec
    from tract_jupyter.hooks.operations import Operations
    from tract_jupyter.hooks.pending import Pending


class OperationTools:
    """The tools of the active operations; made anew only when the active operations change."""

    def __init__(self, operations: Operations, decide: Callable[[Pending], object]) -> None:
        self._operations = operations
        self._decide = decide
        self._made: tuple[int, dict[str, ToolDefinition]] = (-1, {})

    def __call__(self) -> dict[str, ToolDefinition]:
        """All of them, by name."""
        registry = self._operations.registry
        revision, tools = self._made
        if revision != registry.revision:
            revision = registry.revision
            specs = [registry.get_spec(name) for name in sorted(registry.operation_names)]
            tools = {TOOL_PREFIX + spec.name: self._tool(spec) for spec in specs if spec is not None}
            self._made = (revision, tools)
        return tools

    def _tool(self, spec: OperationSpec) -> ToolDefinition:
        def fire(actor: str = "user", choice: Choice | None = None, /, **fields: Any) -> Any:
            by = f"tools.{TOOL_PREFIX}{spec.name}"
            fired = self._operations.fire(spec.name, fields, triggered_by=by, actor=actor, choice=choice)
            return self._outcome(fired)

        unreviewed = spec.name in self._operations.registry.unreviewed
        description = f"{spec.description} {UNREVIEWED}".lstrip() if unreviewed else spec.description
        return ToolDefinition(
            TOOL_PREFIX + spec.name, description, spec.parameters(), fire,
            owner=f"operation:{spec.name}", version=spec.spec_hash, told_actor=True,
            told_choice=True,
        )  # fmt: skip

    def _outcome(self, pending: Pending) -> Any:
        """What code needs to go on: the fields and the result, or why it was turned down."""
        if pending.status is PendingStatus.PENDING:
            self._decide(pending)
        if pending.status in {PendingStatus.REJECTED, PendingStatus.EXPIRED}:
            return ToolResult(
                TOOL_PREFIX + pending.operation, success=False, error=refusal(pending), denied=True
            )
        return {
            "operation": pending.operation,
            "status": pending.status.value,
            "fields": dict(pending.fields),
            "result": pending.result,
            **({"note": outcome_text(pending)} if outcome_text(pending) else {}),
        }
