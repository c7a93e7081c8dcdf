"""The record that each operation leaves in a run (R56)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.runs.model import OperationRun
from tract_jupyter.runs.terms import OperationStatus

if TYPE_CHECKING:
    from tract_jupyter.runs.model import Operation, OperationResult
    from tract_jupyter.runs.plan import Plan


def record(
    plan: Plan,
    operation: Operation,
    result: OperationResult,
    *,
    started_at: float | None,
    ended_at: float,
    attempts: int,
) -> OperationRun:
    """Write down how an operation ended; one that never ran has no start, and took no time (G29).

    Args:
        plan: whose hook and trigger it was.
        operation: the operation.
        result: how it ended, or that it waits.
        started_at: when its first attempt began, in seconds; None if it never did.
        ended_at: when its result counted.
        attempts: how many there were.
    """
    config, skip, error = operation.config, result.skip, result.error
    is_skipped = result.status is OperationStatus.SKIPPED
    return OperationRun(
        operation_id=operation.id,
        name=operation.definition.name,
        kind=operation.definition.kind,
        hook=plan.hook,
        trigger=plan.trigger,
        status=result.status,
        required=config.required,
        order=config.order,
        depends_on=config.depends_on,
        started_at=started_at,
        finished_at=ended_at if result.status.is_terminal else None,
        duration_ms=0 if started_at is None else round((ended_at - started_at) * 1_000, 3),
        attempts=attempts,
        skipped_reason=skip.reason if skip and is_skipped else None,
        skip=skip if is_skipped else None,
        error_code=error.code if error else None,
        error_message=error.message if error else None,
        inputs_summary=result.inputs_summary,
        outputs_summary=result.outputs_summary,
        debug=result.debug if config.debug.enabled else {},
    )
