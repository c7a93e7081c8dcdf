"""Scripted operations in virtual milliseconds: `orchestrate` and `operation_runs`."""

from __future__ import annotations

from tests.runs.virtual import Script, VirtualWorkers, operation, script_job, watch
from tract_jupyter.concurrency import StopSignal
from tract_jupyter.exceptions import PlanError
from tract_jupyter.runs import ExecutionMode, Hook, OperationFinished, RunTrigger, execute, make_plan

_SCRIPT = {"ms": "ms", "result": "result", "onAbort": "on_abort", "code": "code", "message": "message", "reason": "reason"}  # fmt: skip
_LISTED = ("ids", "taskIds", "opIds", "operationIds", "operations", "nodes")
_CONFIG = ("enabled", "required", "dependsOn", "hooks", "triggers")


def orchestrate(given):
    """Results, orders, spans and events of a plan; or why there is none."""
    events = []
    try:
        executed = _executed(given, events)
    except PlanError as error:
        listed = list(error.operations)
        found = {"code": error.code, "message": str(error), **dict.fromkeys(_LISTED, listed)}
        return {"planError": found, "startOrder": [], "resultOrder": [], "results": {}, "events": []}
    runs = {run.operation_id: run for run in executed.runs if run.started_at is not None}
    start = given.get("clockStartMs", 0)
    spans = {key: [_ms(run.started_at) - start, _ms(run.finished_at) - start] for key, run in runs.items()}
    return {
        "results": {key: _result(result) for key, result in executed.results.items()},
        "startOrder": list(executed.start_order),
        "resultOrder": list(executed.results),
        "spans": spans,
        "makespanMs": max((end for _, end in spans.values()), default=0),
        "events": events,
        "planError": None,
    }


def operation_runs(given):
    """The records of a plan, in milliseconds."""
    records = []
    try:
        runs = _executed(given, []).runs
    except PlanError as error:
        return {"records": [], "planError": {"code": error.code, "message": str(error)}}
    for run in runs:
        times = {"startedAt": _ms(run.started_at), "finishedAt": _ms(run.finished_at)}
        texts = {
            "errorCode": run.error_code,
            "errorMessage": run.error_message,
            "skippedReason": run.skipped_reason,
        }
        plain = run.model_dump(mode="json", by_alias=True)
        records.append({**plain, **times, **texts, "durationMs": run.duration_ms})
    return {"records": records}


def _executed(given, events):
    hook = Hook(given.get("hook") or Hook.BEFORE)
    plan = make_plan(
        [_operation(one, hook) for one in given["ops"]],
        hook,
        RunTrigger(given.get("trigger") or RunTrigger.GENERATE),
        mode=ExecutionMode(given.get("mode") or ExecutionMode.CONCURRENT),
        concurrency=given.get("concurrency"),
        include=given.get("include"),
        exclude=given.get("exclude") or (),
    )
    workers = VirtualWorkers(given.get("clockStartMs", 0))
    abort = StopSignal()
    if given.get("abortBeforeStart"):
        abort.set()
    if given.get("abortAtMs") is not None:
        workers.at(workers.ms + given["abortAtMs"], abort.set)
    scripts = {one["id"]: _script(one.get("act") or {}) for one in given["ops"]}

    def notify(event):
        events.extend(_events(event, workers.ms))
        if given.get("observerThrows"):
            raise RuntimeError("an observer failed")

    return watch(
        execute, plan, lambda one, _: script_job(scripts[one.id], one.id), workers, abort=abort, notify=notify
    )


def _operation(one, hook):
    given = {key: one[key] for key in _CONFIG if one.get(key) is not None}
    made = operation(one["id"], 0, **{"hooks": [hook], **given})
    # what is no number is refused when it is read; here it is to come through to the plan
    config = made.config.model_copy(update={"order": one.get("order")})
    return made.model_copy(update={"config": config})


def _script(act):
    return Script(**{name: act[key] for key, name in _SCRIPT.items() if key in act})


def _result(result):
    skip = result.skip.to_dict() if result.skip else {}
    details = {**(result.error.details if result.error else {}), **skip}
    details.pop("reason", None)
    return {
        "status": result.status.value,
        "required": result.required,
        "reason": result.skip.reason if result.skip else None,
        "errorCode": result.error.code if result.error else None,
        "errorMessage": result.error.message if result.error else None,
        **details,
    }


class Told(dict):
    """An event with its fields, as E15 names them. It may also be written as a commit's event is: `started:a`."""

    def __eq__(self, other):
        short = f"{self['stage']}:{self['id']}"
        if isinstance(other, str):
            return other in {short, f"{short}:{self.get('status')}"}
        return super().__eq__(other)

    __hash__ = None


def _events(event, ms):
    """The fields of an event; a skipped operation has two events, `skipped` and `finished` (c.3)."""
    key, result = event.operation_id, _result(event.result) if isinstance(event, OperationFinished) else {}
    stages = [event.type.partition(".")[2]]
    if result.get("status") == "skipped":
        stages.insert(0, "skipped")
    return [
        Told(type=f"operation.{stage}", stage=stage, operationId=key, id=key, atMs=round(ms), **result)
        for stage in stages
    ]


def _ms(seconds):
    return None if seconds is None else round(seconds * 1_000)
