"""Kind `dynamic`: fires a dynamic operation of the tract (an active `OperationSpec`).

`params`: `{"operation": name, "fields": {...}, "action": name}`; texts in the fields may be templates. The action runs
if no handler decides and the operation does not ask the user. If approved, the value is the result of the approval, or
else the approved fields. If rejected, the operation is skipped (`condition_false`). If the user has to decide, the
request waits in the inbox and occupies no worker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from tract_jupyter.exceptions import OperationError
from tract_jupyter.models import PendingStatus
from tract_jupyter.runs.kinds.base import (
    OperationFailed,
    OperationOutput,
    Skipped,
    Waits,
    check_filled,
    filled,
    json_result,
    read_params,
)
from tract_jupyter.runs.reading import quoted
from tract_jupyter.runs.terms import MAX_ERROR_TEXT, Data, ErrorCode, SkippedReason

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.runs.kinds.base import KindOutcome, Problem, Services
    from tract_jupyter.runs.kinds.decisions import RunDecisions
    from tract_jupyter.runs.model import Operation, OperationContext


class DynamicParams(Data):
    """The dynamic operation to fire, and its fields."""

    operation: Annotated[str, Field(min_length=1, max_length=255)]
    fields: dict[str, Any] = Field(default_factory=dict)
    action: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    """The action if no handler decides and the user is not asked."""


class DynamicKind:
    """The kind that fires dynamic operations."""

    name = "dynamic"
    parameters = (DynamicParams,)

    def check(self, operation: Operation) -> list[Problem]:
        """Return all problems of the parameters. The dynamic operation is looked up when it fires."""
        return check_filled(DynamicParams, operation)

    def prepare(self, operation: Operation, services: Services) -> DynamicFiring:
        """Return the firing; its fields are rendered when it runs."""
        if services.decisions is None:
            raise OperationFailed.invalid("Dynamic operations are not available here. Run it within a tract.")
        return DynamicFiring(read_params(DynamicParams, operation.config.params), services.decisions)


@dataclass(frozen=True, slots=True)
class DynamicFiring:
    """A firing of one dynamic operation."""

    params: DynamicParams
    decisions: RunDecisions

    def __call__(self, context: OperationContext) -> KindOutcome:
        """Fire the operation with fields from the context."""
        fields = filled(self.params.fields, context)
        pending = _active(
            lambda: self.decisions.fire(self.params.operation, fields, context, self.params.action)
        )
        return _outcome(pending, context.snapshot_characters)

    def resume(self, context: OperationContext, pending_id: str) -> KindOutcome:
        """Return the outcome of the decision; fire again if the pending is gone."""
        pending = _active(lambda: self.decisions.find(pending_id))
        is_same = pending is not None and pending.operation == self.params.operation
        return _outcome(pending, context.snapshot_characters) if is_same else self(context)


def _active(look: Callable[[], Any]) -> Any:
    """Return the pending from `look`. An inactive operation or invalid fields are an error of this operation."""
    try:
        return look()
    except OperationError as error:
        raise OperationFailed.invalid(str(error)[:MAX_ERROR_TEXT]) from None


def _outcome(pending: Any, limit: int) -> KindOutcome:
    status = pending.status
    if status is PendingStatus.APPROVED:
        debug = {"fields": quoted(pending.fields, limit)}
        value = json_result(pending.fields if pending.result is None else pending.result, pending.operation)
        return OperationOutput(value, outputs={"pendingId": pending.pending_id}, debug=debug)
    if status is PendingStatus.FAILED:
        raise OperationFailed(
            ErrorCode.OPERATION, f"{pending.operation!r} was approved, but failed: {pending.error}"[:MAX_ERROR_TEXT],
            {"pendingId": pending.pending_id},
        )  # fmt: skip
    if status.is_open:
        return Waits(pending.pending_id)
    about = {"operation": pending.operation, "actual": status.value, "reason": pending.rejection_reason}
    return Skipped(SkippedReason.CONDITION_FALSE, condition=about)
