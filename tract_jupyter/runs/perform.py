"""Does an operation's work, and makes a result of whatever comes of it. No exception leaves it (R53)."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import BudgetExceededError, TemplateError
from tract_jupyter.models.text import brief_repr
from tract_jupyter.runs.abort import Aborted, current_abort
from tract_jupyter.runs.effect_types import NO_APPEND, ArtifactUpsert
from tract_jupyter.runs.effects import check_together, checked_effect, effects_of
from tract_jupyter.runs.kinds.base import OperationFailed, Output, Skipped, Waits
from tract_jupyter.runs.model import OperationError, OperationResult, Skip
from tract_jupyter.runs.safe_text import bounded, message_of
from tract_jupyter.runs.terms import MAX_DEBUG, ErrorCode, Hook, OperationStatus, Persistence, WriteMode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.runs.effect_types import Effect
    from tract_jupyter.runs.kinds.base import Runner
    from tract_jupyter.runs.model import Operation, OperationContext

_logger = logging.getLogger(__name__)

_CODE: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_CODES: Final[dict[type[BaseException], ErrorCode]] = {
    TemplateError: ErrorCode.TEMPLATE_RENDER,
    BudgetExceededError: ErrorCode.BUDGET_EXCEEDED,
    TimeoutError: ErrorCode.TIMEOUT,
}
"""What an exception that a kind lets through counts as; anything else is an `operation_error` (R55)."""


def perform(operation: Operation, run: Runner, context: OperationContext) -> OperationResult:
    """Run an operation once.

    Args:
        operation: whose artifact the value becomes.
        run: what its kind has prepared.
        context: what it is given.

    Returns:
        `done` with effects that are all well-formed (R51, G24); `skipped`, `waiting`, `aborted`; or `error` with a
        stable code and a message that is bounded and safe (R54). Which effects the
        hook allows, the commit decides (G22).
    """
    try:
        return _result(operation, run(context), context)
    except Aborted:
        return _ended(operation, OperationStatus.ABORTED)
    except OperationFailed as failed:
        return _failed(operation, failed, context)
    except BaseException as error:  # not even SystemExit ends the process that runs others too
        _logger.debug("operation %s failed", operation.id, exc_info=True)
        # G25: whatever is raised after the signal is a way to stop
        if current_abort().is_set():
            return _ended(operation, OperationStatus.ABORTED)
        code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), ErrorCode.OPERATION)
        return _failed(operation, OperationFailed(code, message_of(error)), context)


def _result(operation: Operation, made: Any, context: OperationContext) -> OperationResult:
    if isinstance(made, Skipped):
        condition = None if made.condition is None else bounded(made.condition, MAX_DEBUG)
        skip = Skip(reason=message_of(str(made.reason), 200), condition=condition)
        return _ended(operation, OperationStatus.SKIPPED, skip=skip)
    if isinstance(made, Waits):
        return _ended(operation, OperationStatus.WAITING, waits_for=str(made.pending_id))
    if not isinstance(made, Output):
        raise OperationFailed.invalid(f"the operation gave {brief_repr(made)}, and should give an Output")
    return _ended(
        operation,
        OperationStatus.DONE,
        effects=_effects(operation, made, context.hook),
        debug=bounded(made.debug, context.policy.max_log),
        usage=bounded(made.usage, MAX_DEBUG),
        inputs_summary=bounded(made.inputs, context.policy.max_log),
        outputs_summary=bounded(made.outputs, context.policy.max_log),
    )


def _effects(operation: Operation, made: Output, hook: Hook) -> tuple[Effect, ...]:
    """The effects that it gave, or those of its artifact's value; each checked."""
    given = made.effects
    if given is None:
        artifact = operation.config.artifact
        given = () if artifact is None else _of_value(operation, made.value)
    if not isinstance(given, list | tuple):
        raise OperationFailed.invalid(
            f"the operation's effects are {brief_repr(given)}, and should be a list"
        )
    refused = check_together(given)
    if refused is not None:
        raise _as_failure(refused)
    checked = tuple(_checked(one, hook) for one in given)
    for one in checked:
        if not operation.definition.declares(one.type):
            raise OperationFailed(
                ErrorCode.POLICY,
                f"it wants {one.type}, and its capabilities are {', '.join(operation.definition.declared_effects)}; "
                "add that, or leave capabilities out",
            )
        if isinstance(one, ArtifactUpsert):
            _check_declared(operation, one)
    return checked


def _check_declared(operation: Operation, write: ArtifactUpsert) -> None:
    """See to it that an operation writes what its profile says, whatever its function gives (E16, R51).

    Raises:
        OperationFailed: `policy_error`; the profile, which a person has read, says otherwise. `validation_error`; it
            wants what nothing does.
    """
    if write.write_mode is not WriteMode.REPLACE:
        raise OperationFailed.invalid(NO_APPEND)
    artifact = operation.config.artifact
    if artifact is None or artifact.tag != write.tag:
        says = "no artifact" if artifact is None else f"art.{artifact.tag}"
        raise OperationFailed(
            ErrorCode.POLICY,
            f"it writes art.{write.tag}, and its profile says {says}; give the operation tag={write.tag!r}",
        )
    if artifact.persistence is not write.persistence:
        keep = write.persistence is Persistence.PERSISTED
        raise OperationFailed(
            ErrorCode.POLICY,
            f"it writes art.{write.tag} as {write.persistence.value}, and its profile says "
            f"{artifact.persistence.value}; give the operation keep={keep}",
        )


def _of_value(operation: Operation, value: Any) -> Sequence[Effect]:
    artifact = operation.config.artifact
    if artifact is None:
        return ()
    try:
        return effects_of(artifact, value)
    except Exception as error:  # noqa: BLE001 # a value may do anything when it is looked at
        raise OperationFailed.invalid(f"the value cannot be kept: {message_of(error)}") from None


def _checked(effect: Any, hook: Hook) -> Effect:
    """An effect that is well-formed, whichever hook allows it."""
    found = checked_effect(effect, hook)
    if isinstance(found, OperationError) and found.code == ErrorCode.POLICY:
        found = checked_effect(effect, Hook.AFTER if hook is Hook.BEFORE else Hook.BEFORE)
    if isinstance(found, OperationError):
        raise _as_failure(found)
    return found


def _as_failure(error: OperationError) -> OperationFailed:
    return OperationFailed(error.code, error.message, error.details)


def _failed(operation: Operation, failed: OperationFailed, context: OperationContext) -> OperationResult:
    code, details = failed.code, failed.details
    if not _CODE.fullmatch(code):  # G31
        code, details = ErrorCode.OPERATION, {**details, "code": code}
    error = OperationError(
        code=code, message=message_of(str(failed.message)), details=bounded(details, MAX_DEBUG)
    )
    return _ended(
        operation,
        OperationStatus.ERROR,
        error=error,
        inputs_summary=bounded(failed.inputs, context.policy.max_log),
        outputs_summary=bounded(failed.outputs, context.policy.max_log),
    )


def _ended(operation: Operation, status: OperationStatus, **more: Any) -> OperationResult:
    return OperationResult(
        operation_id=operation.id, status=status, required=operation.config.required, **more
    )
