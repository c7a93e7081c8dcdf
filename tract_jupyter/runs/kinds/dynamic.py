"""Kind `dynamic`: fires a registered `OperationSpec` of the tract, the other thing that is called an operation.

`params`: `{"operation": name, "fields": {...}}`; texts in the fields may be templates. Approved, the value is what the
approval returned, or else the fields as they were approved. Rejected, the operation is skipped (`condition_false`).
Left to a person, it waits in the inbox and holds no worker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from tract_jupyter.exceptions import ContentError, OperationError
from tract_jupyter.models.canonical import plain
from tract_jupyter.models.pending import PendingStatus
from tract_jupyter.runs.kinds.base import (
    OperationFailed,
    Output,
    Skipped,
    Waits,
    check_filled,
    filled,
    read_params,
)
from tract_jupyter.runs.reading import quoted
from tract_jupyter.runs.terms import MAX_ERROR_TEXT, Data, ErrorCode, SkippedReason

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.runs.kinds.base import Decisions, KindOutcome, Problem, Services
    from tract_jupyter.runs.model import Operation, OperationContext


class DynamicParams(Data):
    """What to fire."""

    operation: Annotated[str, Field(min_length=1, max_length=255)]
    fields: dict[str, Any] = Field(default_factory=dict)


class DynamicKind:
    """Fires dynamic operations."""

    name = "dynamic"
    anywhere = False

    def check(self, operation: Operation) -> list[Problem]:
        """All that is wrong with the parameters; whether such an operation is active shows when it is fired."""
        return check_filled(DynamicParams, operation)

    def prepare(self, operation: Operation, services: Services) -> DynamicFiring:
        """The firing, without its fields."""
        if services.decisions is None:
            raise OperationFailed.invalid("there are no dynamic operations here; run it within a tract")
        return DynamicFiring(read_params(DynamicParams, operation.config.params), services.decisions)


@dataclass(frozen=True, slots=True)
class DynamicFiring:
    """Fires one operation."""

    params: DynamicParams
    decisions: Decisions

    def __call__(self, context: OperationContext) -> KindOutcome:
        """Fire it with fields from the context."""
        fields = filled(self.params.fields, context)
        pending = _active(lambda: self.decisions.fire(self.params.operation, fields, context))
        return _made(pending, context.policy.max_snapshot)

    def resume(self, context: OperationContext, pending_id: str) -> KindOutcome:
        """What was decided meanwhile; a pending that is gone is fired again."""
        pending = _active(lambda: self.decisions.find(pending_id))
        is_it = pending is not None and pending.operation == self.params.operation
        return _made(pending, context.policy.max_snapshot) if is_it else self(context)


def _active(look: Callable[[], Any]) -> Any:
    """A pending of an operation that is active, with fields that fit."""
    try:
        return look()
    except OperationError as error:
        raise OperationFailed.invalid(str(error)[:MAX_ERROR_TEXT]) from None


def _made(pending: Any, limit: int) -> KindOutcome:
    status = pending.status
    if status is PendingStatus.APPROVED:
        debug = {"fields": quoted(pending.fields, limit)}
        return Output(_value(pending), outputs={"pendingId": pending.pending_id}, debug=debug)
    if status is PendingStatus.FAILED:
        raise OperationFailed(
            ErrorCode.OPERATION, f"{pending.operation!r} was approved and failed: {pending.error}"[:MAX_ERROR_TEXT],
            {"pendingId": pending.pending_id},
        )  # fmt: skip
    if status.is_open:
        return Waits(pending.pending_id)
    about = {"operation": pending.operation, "actual": status.value, "reason": pending.rejection_reason}
    return Skipped(SkippedReason.CONDITION_FALSE, condition=about)


def _value(pending: Any) -> Any:
    try:
        return plain(pending.fields if pending.result is None else pending.result)
    except ContentError as error:
        raise OperationFailed.invalid(f"what {pending.operation!r} gave has no JSON form: {error}") from None
