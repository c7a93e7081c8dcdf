"""Kind `tool`: calls a tool through the executor, like every other caller.

`params`: `{"tool": name, "arguments": {...}}`; texts in the arguments may be templates. The value is the tool's
result.
The operation is the caller, so the same permissions and approvals apply.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from tract_jupyter.exceptions import FingerprintError, UndecidedError
from tract_jupyter.models import PendingStatus
from tract_jupyter.review import RUN
from tract_jupyter.runs.kinds.base import (
    OperationFailed,
    OperationOutput,
    Waits,
    check_filled,
    filled,
    json_result,
    read_params,
)
from tract_jupyter.runs.reading import quoted
from tract_jupyter.runs.terms import MAX_ERROR_TEXT, Data, ErrorCode
from tract_jupyter.storage import triggered
from tract_jupyter.toolkit import ToolResult, result_of

if TYPE_CHECKING:
    from tract_jupyter.runs.kinds.base import KindOutcome, Problem, Services
    from tract_jupyter.runs.model import Operation, OperationContext


class ToolParams(Data):
    """The tool to call, and its arguments."""

    tool: Annotated[str, Field(min_length=1, max_length=200)]
    arguments: dict[str, Any] = Field(default_factory=dict)


class ToolKind:
    """The kind that calls tools."""

    name = "tool"
    parameters = (ToolParams,)

    def check(self, operation: Operation) -> list[Problem]:
        """Return all problems of the parameters. The tool is looked up when it is called."""
        return check_filled(ToolParams, operation)

    def prepare(self, operation: Operation, services: Services) -> ToolCaller:
        """Return the call; its arguments are rendered when it runs."""
        if services.call_tool is None:
            raise OperationFailed.invalid("Tools are not available here. Run it within a tract.")
        return ToolCaller(read_params(ToolParams, operation.config.params), services)


@dataclass(frozen=True, slots=True)
class ToolCaller:
    """A call of one tool."""

    params: ToolParams
    services: Services

    def __call__(self, context: OperationContext) -> KindOutcome:
        """Call the tool with arguments from the context."""
        return self._call(filled(self.params.arguments, context), context)

    def resume(self, context: OperationContext, pending_id: str) -> KindOutcome:
        """Make the approved call with the approved arguments."""
        decisions = self.services.decisions
        pending = None if decisions is None else decisions.find(pending_id)
        if decisions is None or pending is None or pending.name != self.params.tool:
            return self(context)
        if pending.status.is_open:
            return Waits(pending_id)
        if pending.status is not PendingStatus.APPROVED:
            raise _denied(self.params.tool, pending.rejection_reason or f"it was {pending.status.value}")
        # an approval is for one call; the executor finds approvals of an earlier process
        if pending.runs_elsewhere or not decisions.forget(pending_id):
            return self(context)
        try:
            pending.check_current()
        except FingerprintError as error:
            raise _denied(self.params.tool, str(error)) from None
        return self._call(pending.call_arguments, context, approval=pending.approval)

    def _call(self, arguments: dict[str, Any], context: OperationContext, **more: Any) -> KindOutcome:
        call_tool, tool = self.services.call_tool, self.params.tool
        assert call_tool is not None, "prepare has checked it"  # noqa: S101
        with triggered(RUN + context.run_id):  # requests about the call belong to this run
            returned = call_tool(tool, arguments, actor=f"operation:{context.operation_id}"[:128], **more)
        result = result_of(tool, returned)
        summary = {"tool": tool}
        debug = {"arguments": quoted(arguments, context.snapshot_characters)}
        if result.success:
            return OperationOutput(json_result(result.output, tool), inputs=summary, debug=debug)
        return self._failed(tool, result)

    def _failed(self, tool: str, result: ToolResult) -> KindOutcome:
        cause, decisions = result.cause, self.services.decisions
        if isinstance(cause, UndecidedError) and cause.pending is not None and decisions is not None:
            decisions.keep(cause.pending)
            return Waits(cause.pending.pending_id)
        if result.denied:
            raise _denied(tool, result.error)
        raise OperationFailed(ErrorCode.OPERATION, result.error[:MAX_ERROR_TEXT], {"tool": tool})


def _denied(tool: str, why: str) -> OperationFailed:
    return OperationFailed(
        ErrorCode.POLICY, f"{tool!r} was not called: {why}"[:MAX_ERROR_TEXT], {"tool": tool}
    )
