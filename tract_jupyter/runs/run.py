"""The loop of a run: what comes after what. The steps are those of `RunSteps`.

The steps can be taken again: operations that were done are not run again, what was committed is not committed
again, and a reply that came is not asked for again. So a run that was interrupted goes on by running the loop anew.

`of_plan`, `of_phase` and `of_main` tell what a step means for the run: a required operation that was supposed to run
and is not `done` fails it, before the main call or after (R12, R20, R21 of `docs/runs.md`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tract_jupyter.exceptions import PlanError
from tract_jupyter.runs.terms import (
    NOT_SUPPOSED_TO_RUN,
    FailedType,
    Hook,
    OperationStatus,
    RunPhase,
    RunStatus,
    SkippedReason,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tract_jupyter.runs.model import MainReply, OperationResult, ResultError


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


_FAILED = {Hook.BEFORE: FailedType.BEFORE_BARRIER, Hook.AFTER: FailedType.AFTER_MAIN_LLM}
_PHASES = {
    Hook.BEFORE: (RunPhase.BEFORE, RunPhase.COMMIT_BEFORE),
    Hook.AFTER: (RunPhase.AFTER, RunPhase.COMMIT_AFTER),
}


class RunSteps(Protocol):
    """The steps of a run, in the hands of whoever does them."""

    @property
    def aborted(self) -> bool:
        """True if the run was aborted, or its time is over."""
        ...

    def enter(self, phase: RunPhase) -> None:
        """Say what comes next."""
        ...

    def plan(self) -> None:
        """Plan the operations of both hooks.

        Raises:
            PlanError: they cannot be planned.
        """
        ...

    def execute(self, hook: Hook) -> Mapping[str, OperationResult]:
        """Execute the operations of a hook that have no result yet, and return the results of all of them."""
        ...

    def commit(self, hook: Hook, results: Iterable[OperationResult]) -> str | None:
        """Commit their effects, once; return a required operation, one of whose effects could not be committed."""
        ...

    def ask(self) -> MainReply:
        """Make the main call with the effective prompt, and keep its reply; once."""
        ...


@dataclass
class RunLoop:
    """Carries out one run."""

    host: RunSteps

    def run(self) -> Ending:
        """Go on until the run ends, or waits for a person."""
        ending = self._plan() or self._phase(Hook.BEFORE) or self._main() or self._phase(Hook.AFTER) or DONE
        if ending is not WAITING:
            self.host.enter(RunPhase.FINISHED)
        return ending

    def _plan(self) -> Ending | None:
        self.host.enter(RunPhase.PLANNING)
        try:
            self.host.plan()
        except PlanError as error:
            return of_plan(error)
        return None

    def _phase(self, hook: Hook) -> Ending | None:
        execute, commit = _PHASES[hook]
        self.host.enter(execute)
        results = list(self.host.execute(hook).values())
        if OperationStatus.WAITING in [result.status for result in results]:
            return WAITING
        failed_for = None
        if not self.host.aborted:  # what was done until then has no effects either (E14)
            self.host.enter(commit)
            failed_for = self.host.commit(hook, results)
        if hook is Hook.BEFORE:
            self.host.enter(RunPhase.BARRIER)
        return of_phase(_FAILED[hook], results, failed_for, aborted=self.host.aborted)

    def _main(self) -> Ending | None:
        self.host.enter(RunPhase.MAIN_LLM)
        reply = self.host.ask()
        cut_off = reply.finish_reason in {"user_abort", "deadline"}
        return of_main(reply.error, aborted=cut_off or self.host.aborted)
