"""What happened to an operation or a run, in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.models.text import one_line, safe_repr
from tract_jupyter.runs.model import Skip
from tract_jupyter.runs.terms import Blocked, ErrorCode, FailedType, OperationStatus, RunStatus, SkippedReason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tract_jupyter.runs.model import OperationRun, Run, RunNote

_NAME = 60
_NAMED = 6
_MESSAGE = 400
_MINUTE = 60_000
_SECOND = 1_000

_FAILED_AT = {
    FailedType.BEFORE_BARRIER: "before the main call",
    FailedType.MAIN_LLM: "in the main call",
    FailedType.AFTER_MAIN_LLM: "after the main call",
}
_ERRORS: Final[dict[str, str]] = {
    ErrorCode.VALIDATION: "What it gave back is not valid",
    ErrorCode.POLICY: "It wanted an effect that is not allowed here",
    ErrorCode.ARTIFACT_CONFLICT: "It wrote more than one artifact",
    ErrorCode.DEPENDENCY_FAILED: "What it depends on failed",
    ErrorCode.PROVIDER: "The provider failed",
    ErrorCode.RATE_LIMITED: "The provider refused: too many requests",
    ErrorCode.TIMEOUT: "It took too long",
    ErrorCode.TEMPLATE_RENDER: "Its template cannot be rendered",
    ErrorCode.OUTPUT_PARSE: "What the model said cannot be read as it should be",
    ErrorCode.BUDGET_EXCEEDED: "The budget is used up",
    ErrorCode.STORAGE: "The store failed",
    ErrorCode.OPERATION: "It failed",
}


def duration(milliseconds: float) -> str:
    """A time as a person reads it: `12 ms`, `1.24 s`, `2 min 05 s`."""
    if round(milliseconds) < _SECOND:
        return f"{milliseconds:.0f} ms"
    if milliseconds < _MINUTE:
        return f"{milliseconds / _SECOND:.2f} s"
    minutes, rest = divmod(round(milliseconds / _SECOND), 60)
    return f"{minutes:,} min {rest:02} s"


def why(operation: OperationRun) -> str:
    """Why an operation did not end as `done`; empty if it did."""
    if operation.status is OperationStatus.SKIPPED:
        return _why_skipped(operation)
    if operation.status is OperationStatus.ERROR:
        return _why_failed(operation)
    if operation.status is OperationStatus.ABORTED:
        return "It was stopped when the run was aborted."
    if operation.status is OperationStatus.WAITING:
        return "A person has to decide first: %tract inbox."
    return ""


def outcome(run: Run) -> str:
    """What the run failed at, or what it waits for; empty if there is nothing to explain."""
    if run.status is RunStatus.WAITING:
        return f"A person has to decide first: %tract inbox. Then %tract run {run.run_id[:8]} --resume goes on with it."
    if run.status is RunStatus.ABORTED:
        if run.reply_commit is not None:
            return "It was aborted. The reply had come, and is kept; nothing was done after it."
        return "It was aborted, and nothing was committed after that."
    if run.status is not RunStatus.FAILED:
        return ""
    at = _FAILED_AT[run.failed_type] if run.failed_type else "somewhere"
    return f"Failed {at}. {_cause(run)}".rstrip()


def _cause(run: Run) -> str:
    details = run.failed_details
    name = details.get("operationId")
    told = next((one for one in run.operations if one.operation_id == name and why(one)), None)
    if told is not None:
        return f"{_required(name)}: {why(told)}"
    if "errorCode" in details:
        return error_text(str(details["errorCode"]), str(details.get("errorMessage", "")))
    return f"{_required(name)}: its effects could not be committed." if name else ""


def _required(name: object) -> str:
    return f"Required operation {one_line(str(name), _NAME)}"


def _why_failed(operation: OperationRun) -> str:
    tried = f" It was tried {operation.attempts} times." if operation.attempts > 1 else ""
    return error_text(operation.error_code or "", operation.error_message or "", tried)


def error_text(code: str, message: str, tried: str = "") -> str:
    """An error in words: what its code means, and its message."""
    known = _ERRORS.get(code)
    start = known or (f"It failed ({one_line(code, _NAME)})" if code else "It failed")
    text = one_line(message, _MESSAGE)
    return (
        f"{start}: {text}{'' if text.endswith(('.', '!', '?', '…')) else '.'}{tried}"
        if text
        else f"{start}.{tried}"
    )


def _why_skipped(operation: OperationRun) -> str:
    skip = operation.skip or Skip(reason=operation.skipped_reason or "")
    says = _SKIPS.get(skip.reason)
    if says is not None:
        return says(operation, skip)
    return f"It skipped itself: {one_line(skip.reason, _MESSAGE)}." if skip.reason else "It was skipped."


def _condition(skip: Skip) -> str:
    condition = skip.condition
    if not condition or "source" not in condition:
        return "One of its conditions does not hold."
    what = one_line(f"{condition['source']}.{condition.get('output', '')}".rstrip("."), _NAME)
    wanted = _word(condition.get("is", True))
    if "actual" not in condition:
        return f"Its condition does not hold: {what} should be {wanted}."
    return f"Its condition does not hold: {what} is {_word(condition['actual'])}, and should be {wanted}."


def _dependency(skip: Skip) -> str:
    names = [one_line(name, _NAME) for name in skip.blocked_by]
    if not names:
        return "What it depends on did not end as done."
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    said = f"It depends on {', '.join(names[:_NAMED])}{more}, which "
    said += f"{_are(names)} not part of this run" if skip.dep is Blocked.MISSING else "did not end as done"
    shared = (
        f" ({one_line(skip.blocked_by_reason.replace('_', ' '), _NAME)})" if skip.blocked_by_reason else ""
    )
    return f"{said}{shared}."


def _are(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _listed_values(values: Mapping[str, Any] | None) -> str:
    parts = [
        f"{one_line(key, _NAME)} {_word(value)}" for key, value in (values or {}).items() if value is not None
    ]
    return f" ({', '.join(parts)})" if parts else ""


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "absent" if value is None else one_line(safe_repr(value), _NAME)


def _always(text: str) -> Callable[[OperationRun, Skip], str]:
    return lambda _, __: text


_SKIPS: Final[dict[str, Callable[[OperationRun, Skip], str]]] = {
    SkippedReason.DISABLED: _always("It is switched off in the profile."),
    SkippedReason.POLICY: _always("A policy did not let it run."),
    SkippedReason.RUN_ABORTED: _always("The run was aborted before it began."),
    SkippedReason.FILTERED_OUT: _always("It was left out of this run on purpose."),
    SkippedReason.TRIGGER_MISMATCH: lambda one, _: (
        f"It does not run when the trigger is {one.trigger.value}."
    ),
    SkippedReason.UNSUPPORTED_KIND: lambda one, _: (
        f"Nothing here runs operations of the kind {one_line(one.kind, _NAME)!r}."
    ),
    SkippedReason.CONDITION_FALSE: lambda _, skip: _condition(skip),
    SkippedReason.DEPENDENCY_FAILED: lambda _, skip: _dependency(skip),
    SkippedReason.ACTIVATION_NOT_REACHED: lambda _, skip: (
        f"It is not due yet{_listed_values(skip.activation)}."
    ),
}


def note_place(note: RunNote) -> str:
    """Where in the conversation a note belongs, and as whose words."""
    depth = abs(note.depth_from_end)
    if note.anchor == "after_last_user":
        place = "after the user's message"
    elif depth == 0:
        place = "at the end"
    else:
        place = f"{depth:,} message{'s' if depth > 1 else ''} before the end"
    return f"{note.role.value}, {place}"
