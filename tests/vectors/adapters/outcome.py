"""How runs end, with scripted steps."""

from __future__ import annotations

from tract_jupyter.exceptions import PlanError
from tract_jupyter.runs import Hook, MainReply, OperationResult, ResultError, RunExecutor, RunPhase, Skip

_ENDS = {"aborted": "user_abort", "error": "provider_error"}
_DURING = {
    "before": RunPhase.BEFORE,
    "main": RunPhase.MAIN_LLM,
    "after": RunPhase.AFTER,
    **{one.value: one for one in RunPhase},
}


class ScriptedRun(RunExecutor):
    """A run whose steps have the outcomes of the vector."""

    aborted = False

    def __init__(self, given):
        self.given, self.called = given, False
        self.entered = []

    def enter(self, phase):
        self.entered.append(phase)
        if phase is _DURING.get(self.given.get("abortDuring")):
            self.aborted = True

    def plan(self):
        error = self.given.get("planError")
        if error:
            raise PlanError(error["code"], error.get("message", ""))

    def execute(self, hook):
        ops = self.given.get("before" if hook is Hook.BEFORE else "after") or []
        return {op["id"]: _result(op) for op in ops}

    def commit(self, hook, results):
        flag = "beforeCommitRequiredError" if hook is Hook.BEFORE else "afterCommitRequiredError"
        return "an operation" if self.given.get(flag) else None

    def ask(self):
        self.called = True
        how = self.given.get("main") or "done"
        if self.aborted:
            how = "aborted"
        error = ResultError(code="provider_error", message="it failed") if how == "error" else None
        return MainReply(
            text=self.given.get("assistantText") or "", finish_reason=_ENDS.get(how, "completed"), error=error
        )


def run_outcome(given):
    """Carry the run out, and return how it ended."""
    host = ScriptedRun(given)
    ending = host.run()
    return {
        "mainLlmStarted": host.called,
        "status": ending.status.value,
        "failedType": ending.failed_type and ending.failed_type.value,
        "assistantText": given.get("assistantText") if host.called else None,
        "afterPhaseRan": RunPhase.AFTER in host.entered,
        "errorCode": ending.details.get("errorCode"),
    }


def _result(op):
    status = op["status"]
    error = {"code": op.get("code") or "operation_error"} if status == "error" else None
    skip = Skip(reason=op.get("reason") or "condition_false") if status == "skipped" else None
    return OperationResult(
        operation_id=op["id"], status=status, required=op.get("required") or False, error=error, skip=skip
    )
