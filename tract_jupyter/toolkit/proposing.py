"""The tool by which a model defines an operation.

What comes this way counts as a model's, whoever makes the call: see `hooks.unreviewed` for what becomes active without
a question. About the rest a person is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from tract_jupyter.hooks.dynamic.check import TOOL_PREFIX
from tract_jupyter.hooks.dynamic.spec import spec_from_dict
from tract_jupyter.models.parameters import Parameters
from tract_jupyter.models.pending import PendingStatus
from tract_jupyter.prompts.tool_descriptions import FULL
from tract_jupyter.toolkit.definitions import BUILT_IN, ToolDefinition
from tract_jupyter.toolkit.executor import refusal
from tract_jupyter.toolkit.permissions import AGENT, USER
from tract_jupyter.toolkit.results import ToolResult

if TYPE_CHECKING:
    from tract_jupyter.tract import Tract


def proposing_tools(tract: Tract) -> list[ToolDefinition]:
    """`propose_operation`."""
    function = _Proposing(tract).propose_operation
    name = function.__name__
    return [
        ToolDefinition(
            name, FULL[name], Parameters.of(function, skip=1), function, owner=BUILT_IN, told_actor=True,
            asks_itself=True,
        )
    ]  # fmt: skip


class _Proposing:
    def __init__(self, tract: Tract) -> None:
        self._tract = tract

    def propose_operation(
        self,
        actor: str,
        /,
        name: Annotated[str, "A new name; firing the operation is then the tool fire_NAME."],
        actions: Annotated[
            dict[str, Any],
            "Each action by name: {code, description, params, required, defaults, isolation}. code is the body of a "
            "Python function of `pending` and the params ({name: type}); it changes pending.fields, and calls "
            "pending.approve() or pending.reject(reason). isolation is 'sandbox', where that is all it reaches, or "
            "'kernel', for which a person reviews the code.",
        ],
        description: Annotated[str, "What it is for."] = "",
        fields: Annotated[
            dict[str, Any] | None,
            "What is given when it is fired: {name: {type, description, default, required}}.",
        ] = None,
        unhandled: Annotated[
            Literal["approve", "ask"],
            "What a firing means that no handler decides: approved, or a person is asked.",
        ] = "approve",
    ) -> dict[str, Any] | ToolResult:
        spec = spec_from_dict(
            {
                "name": name,
                "description": description,
                "fields": fields,
                "actions": actions,
                "unhandled": unhandled,
            }
        )
        by = AGENT if actor == USER else actor
        pending = self._tract.propose_operation(spec, triggered_by="tools.propose_operation", actor=by)
        if pending.status is PendingStatus.PENDING:
            self._tract.reviewer.decide_now(pending)
        if pending.status is not PendingStatus.APPROVED:
            return ToolResult("propose_operation", success=False, error=refusal(pending), denied=True)
        reviewed = name not in self._tract.operations.registry.unreviewed
        return {"operation": name, "tool": TOOL_PREFIX + name, "reviewed": reviewed}
