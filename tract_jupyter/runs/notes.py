"""What the engine tells of operations, as events of the run's log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.runs.events import (
    OperationAttempt,
    OperationFinished,
    OperationProgress,
    OperationStarted,
    OperationWaiting,
)
from tract_jupyter.runs.reports import Stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.runs.events import EventData
    from tract_jupyter.runs.reports import OperationEvent
    from tract_jupyter.runs.terms import Hook


def noted(event: OperationEvent, hook: Hook) -> EventData:
    """The event of the log that tells the same."""
    return _MAKERS[event.stage](event, hook)


def _started(event: OperationEvent, hook: Hook) -> EventData:
    return OperationStarted(operation_id=event.operation_id, hook=hook, started_at=event.at)


def _attempt(event: OperationEvent, hook: Hook) -> EventData:
    delay = 0.0 if event.retry_at is None else max(0.0, (event.retry_at - event.at) * 1_000)
    error = None if event.result is None else event.result.error
    return OperationAttempt(
        operation_id=event.operation_id, hook=hook, attempt=event.attempt, error=error, delay_ms=delay
    )


def _progress(event: OperationEvent, hook: Hook) -> EventData:
    told = event.progress
    values = {} if told is None else {"percent": told.percent, "tokens": told.tokens, "text": told.text}
    data = {name: value for name, value in values.items() if value not in {None, ""}}
    return OperationProgress(operation_id=event.operation_id, hook=hook, data=data)


def _waiting(event: OperationEvent, hook: Hook) -> EventData:
    result, run = event.result, event.run
    return OperationWaiting(
        operation_id=event.operation_id,
        hook=hook,
        pending_id=(result.waits_for if result else None) or "",
        started_at=None if run is None else run.started_at,
    )


def _finished(event: OperationEvent, hook: Hook) -> EventData:
    if event.result is None or event.run is None:
        raise TypeError("an operation that has ended has a result and a record")
    run = event.run
    return OperationFinished(
        operation_id=event.operation_id,
        hook=hook,
        result=event.result.model_copy(update={"debug": run.debug}),
        started_at=run.started_at,
        finished_at=run.finished_at,
        attempts=run.attempts,
        inputs_summary=run.inputs_summary,
        outputs_summary=run.outputs_summary,
    )


_MAKERS: dict[Stage, Callable[[OperationEvent, Hook], EventData]] = {
    Stage.STARTED: _started,
    Stage.ATTEMPT: _attempt,
    Stage.PROGRESS: _progress,
    Stage.WAITING: _waiting,
    Stage.SKIPPED: _finished,
    Stage.FINISHED: _finished,
}
