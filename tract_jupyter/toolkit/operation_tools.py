"""Each active dynamic operation as a tool `fire_<name>`, whose parameters are the operation's fields.

Every proposal through these tools counts as a model's, no matter who calls. `Operations.propose` documents which
operations become active without a request. The user decides about all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from tract_jupyter.models import PendingStatus
from tract_jupyter.operations import TOOL_PREFIX, spec_from_dict
from tract_jupyter.prompts import BEGUN_BEFORE, UNREVIEWED
from tract_jupyter.review import outcome_text
from tract_jupyter.toolkit.ambient import call_context
from tract_jupyter.toolkit.call import refusal
from tract_jupyter.toolkit.callers import AGENT, USER, note_question
from tract_jupyter.toolkit.definitions import ToolDefinition, Traits
from tract_jupyter.toolkit.results import ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.operations import Operations, OperationSpec
    from tract_jupyter.review import ActionChoice, Pending, Reviewer

    Source = Callable[[], dict[str, ToolDefinition]]


_REMAINS: Final = (
    "its code ran in the kernel, and its changes were not saved; the rest leaves with the context"
)


class OperationTools:
    """The tools of the active operations. They are rebuilt only if the set of active operations changes."""

    def __init__(self, operations: Operations, decide: Callable[[Pending], object]) -> None:
        self._operations = operations
        self._decide = decide
        self._made: tuple[int, dict[str, ToolDefinition]] = (-1, {})

    def __call__(self) -> dict[str, ToolDefinition]:
        """Return all tools by name."""
        registry = self._operations.registry
        revision, tools = self._made
        if revision != registry.revision:
            revision = registry.revision
            specs = [registry.get_spec(name) for name in sorted(registry.operation_names)]
            tools = {TOOL_PREFIX + spec.name: self._tool(spec) for spec in specs if spec is not None}
            self._made = (revision, tools)
        return tools

    def _tool(self, spec: OperationSpec) -> ToolDefinition:
        def fire(actor: str = "user", choice: ActionChoice | None = None, /, **fields: Any) -> Any:
            by = f"tools.{TOOL_PREFIX}{spec.name}"
            fired = self._operations.fire(spec.name, fields, triggered_by=by, actor=actor, choice=choice)
            return self._outcome(fired)

        unreviewed = spec.name in self._operations.registry.unreviewed
        description = f"{spec.description} {UNREVIEWED}".lstrip() if unreviewed else spec.description
        return ToolDefinition(
            TOOL_PREFIX + spec.name, description, spec.given_parameters(), fire,
            owner=f"operation:{spec.name}", version=spec.spec_hash, told_actor=True,
            told_choice=True, traits=Traits(open_world=spec.two_stage),
            remains="" if spec.is_sandboxed else _REMAINS,
        )  # fmt: skip

    def _outcome(self, pending: Pending) -> Any:
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


def proposing_tools(operations: Operations, reviewer: Reviewer) -> list[ToolDefinition]:
    """Return `propose_operation`."""
    function = _Proposing(operations, reviewer).propose_operation
    return [ToolDefinition.built_in(function, told_actor=True, asks_itself=True, asks_always=lambda _: True)]


class _Proposing:
    def __init__(self, operations: Operations, reviewer: Reviewer) -> None:
        self._operations = operations
        self._reviewer = reviewer

    def propose_operation(
        self,
        actor: str,
        /,
        name: Annotated[str, "A new name; the tool fire_NAME then fires the operation."],
        actions: Annotated[
            dict[str, Any],
            "Each action by name: {code, description, params, required, defaults, isolation}. code is the body of a "
            "Python function of `pending` and the params ({name: type}); it changes pending.fields, and calls "
            "pending.approve() or pending.reject(reason). isolation is 'sandbox', if it reaches nothing else, or "
            "'kernel', and the user reviews the code.",
        ],
        description: Annotated[str, "Its purpose."] = "",
        fields: Annotated[
            dict[str, Any] | None,
            "The inputs of a firing: {name: {type, description, default, required}}.",
        ] = None,
        unhandled: Annotated[
            Literal["approve", "ask"],
            "If no handler decides: approve, or ask the user.",
        ] = "approve",
    ) -> Any:
        """Write a new operation: typed fields, and actions that decide about it.

        The user reviews it first. With autonomy 'autonomous', a new one is active at once if all its actions declare
        isolation 'sandbox'. Not for code to run once: notebook_execute.
        """
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
        notes = call_context().notes
        doubt = "" if notes is None else notes.doubt
        pending = self._operations.propose(
            spec,
            triggered_by="tools.propose_operation",
            actor=by,
            rehearsed=True,
            reviewed=bool(doubt),
        )
        # `propose` refuses a proposal that was carried out before, because it is active
        pending.caution = "" if doubt == BEGUN_BEFORE else doubt
        note_question(pending)
        if pending.status is PendingStatus.PENDING:
            self._reviewer.decide_now(pending)
        if pending.status is not PendingStatus.APPROVED:
            return ToolResult("propose_operation", success=False, error=refusal(pending), denied=True)
        reviewed = name not in self._operations.registry.unreviewed
        return {"operation": name, "tool": TOOL_PREFIX + name, "reviewed": reviewed}


class LiveTools:
    """The tools of several sources in one dict. A new dict replaces it only if a source returns a new one."""

    def __init__(self, *sources: Source) -> None:
        self._sources = sources
        # one attribute, because concurrent threads must see both values in step
        self._current: tuple[list[dict[str, ToolDefinition]], dict[str, ToolDefinition]] = ([], {})

    def __call__(self) -> dict[str, ToolDefinition]:
        """Return all tools by name."""
        parts = [source() for source in self._sources]
        before, tools = self._current
        if len(parts) != len(before) or any(a is not b for a, b in zip(parts, before, strict=True)):
            tools = {name: tool for part in parts for name, tool in part.items()}
            self._current = parts, tools
        return tools
