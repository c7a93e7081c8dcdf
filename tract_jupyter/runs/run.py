"""The end of a run, derived from its plan, the operations of each hook and the main call.

A required operation that should run and is not `done` fails the run, before or after the main call (R12, R20, R21 of
`docs/runs.md`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.runs.terms import NOT_SUPPOSED_TO_RUN, FailedType, RunStatus, SkippedReason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tract_jupyter.exceptions import PlanError
    from tract_jupyter.runs.model import OperationResult, ResultError


class Ending(NamedTuple):
    """The end of a run. `details` name the operation and the error, if any."""

    status: RunStatus
    failed_type: FailedType | None = None
    details: dict[str, Any] = {}  # noqa: RUF012 # it is never changed


ABORTED = Ending(RunStatus.ABORTED)
DONE = Ending(RunStatus.DONE)
WAITING = Ending(RunStatus.WAITING)
"""The run continues after the user's decision."""


def of_plan(error: PlanError) -> Ending:
    """Return the ending of a run without a valid plan: it fails before the main call, with the plan's code (G6)."""
    return Ending(
        RunStatus.FAILED, FailedType.BEFORE_BARRIER, {"errorCode": error.code, "errorMessage": str(error)}
    )


def of_phase(
    failed: FailedType, results: Iterable[OperationResult], commit_error: str | None, *, aborted: bool
) -> Ending | None:
    """Return the ending after the operations of a hook and their commit; None if the run continues.

    Args:
        failed: the type of the failure, if it fails.
        results: the results of all operations of the hook.
        commit_error: a required operation with an effect that could not be committed (E6).
        aborted: True if the run was aborted. A failed required operation still counts first, unless the abort kept it
            from starting.
    """
    for result in results:
        if counts_against(result) and not (aborted and _was_not_begun(result)):
            return Ending(RunStatus.FAILED, failed, _details(result))
    if commit_error is not None:
        return Ending(RunStatus.FAILED, failed, {"operationId": commit_error})
    return ABORTED if aborted else None


def of_main(error: ResultError | None, *, aborted: bool) -> Ending | None:
    """Return the ending after the main call; None if the run continues."""
    if aborted:
        return ABORTED
    if error is None:
        return None
    details = {"errorCode": error.code, "errorMessage": error.message}
    return Ending(RunStatus.FAILED, FailedType.MAIN_LLM, details)


def counts_against(result: OperationResult) -> bool:
    """Return True if a required operation should have run and did not end as `done` (R12, G3, G4)."""
    reason = None if result.skip is None else result.skip.reason
    return result.required and not result.is_done and reason not in NOT_SUPPOSED_TO_RUN


def _was_not_begun(result: OperationResult) -> bool:
    """Return True if the abort came before the operation started (G27)."""
    return result.skip is not None and result.skip.reason == SkippedReason.RUN_ABORTED


def _details(result: OperationResult) -> dict[str, Any]:
    details: dict[str, Any] = {"operationId": result.operation_id, "status": result.status.value}
    if result.error is not None:
        details |= {"errorCode": result.error.code, "errorMessage": result.error.message}
    if result.skip is not None:
        details |= {"skippedReason": result.skip.reason, "blockedBy": list(result.skip.blocked_by)}
    return details
