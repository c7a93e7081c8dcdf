"""How a run ends: what its plan, the operations of a hook and the main call mean for it.

A required operation that was supposed to run and is not `done` fails the run, before the main call or after (R12, R20,
R21 of `docs/runs.md`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.runs.terms import NOT_SUPPOSED_TO_RUN, FailedType, RunStatus, SkippedReason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tract_jupyter.exceptions import PlanError
    from tract_jupyter.runs.model import OperationResult, ResultError


class Ending(NamedTuple):
    """The end of a run. `details` name the operation and the error, where there is one."""

    status: RunStatus
    failed_type: FailedType | None = None
    details: dict[str, Any] = {}  # noqa: RUF012 # never changed


ABORTED = Ending(RunStatus.ABORTED)
DONE = Ending(RunStatus.DONE)
WAITING = Ending(RunStatus.WAITING)
"""It goes on once a person has decided."""


def of_plan(error: PlanError) -> Ending:
    """Return the ending of a run that cannot be planned: it fails before the main call, with the plan's code (G6)."""
    return Ending(
        RunStatus.FAILED, FailedType.BEFORE_BARRIER, {"errorCode": error.code, "errorMessage": str(error)}
    )


def of_phase(
    failed: FailedType, results: Iterable[OperationResult], commit_error: str | None, *, aborted: bool
) -> Ending | None:
    """Return the ending that the operations of a hook and their commit mean for the run; None if it goes on.

    Args:
        failed: what the run fails at, if it does.
        results: of all operations of the hook.
        commit_error: a required operation, one of whose effects could not be committed (E6).
        aborted: the run was aborted meanwhile. A required operation that did not end well counts before that, unless
            it is the abort that kept it from running.
    """
    for result in results:
        if counts_against(result) and not (aborted and _was_not_begun(result)):
            return Ending(RunStatus.FAILED, failed, _details(result))
    if commit_error is not None:
        return Ending(RunStatus.FAILED, failed, {"operationId": commit_error})
    return ABORTED if aborted else None


def of_main(error: ResultError | None, *, aborted: bool) -> Ending | None:
    """Return the ending that the main call means for the run; None if it goes on."""
    if aborted:
        return ABORTED
    if error is None:
        return None
    told = {"errorCode": error.code, "errorMessage": error.message}
    return Ending(RunStatus.FAILED, FailedType.MAIN_LLM, told)


def counts_against(result: OperationResult) -> bool:
    """Return True if it was required and supposed to run, and did not end as `done` (R12, G3, G4)."""
    reason = None if result.skip is None else result.skip.reason
    return result.required and not result.is_done and reason not in NOT_SUPPOSED_TO_RUN


def _was_not_begun(result: OperationResult) -> bool:
    """Return True if it was skipped because the run was aborted first (G27)."""
    return result.skip is not None and result.skip.reason == SkippedReason.RUN_ABORTED


def _details(result: OperationResult) -> dict[str, Any]:
    told: dict[str, Any] = {"operationId": result.operation_id, "status": result.status.value}
    if result.error is not None:
        told |= {"errorCode": result.error.code, "errorMessage": result.error.message}
    if result.skip is not None:
        told |= {"skippedReason": result.skip.reason, "blockedBy": list(result.skip.blocked_by)}
    return told
