"""Run an operation once, and always return a result. No exception leaves `perform` (R53).

Operations can call registered functions only: a profile is data, and names no module. A function gets the context and
its arguments, and returns a JSON value, effects, or an `OperationOutput`. It must do nothing else. Otherwise a replay
would differ.
"""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from tract_jupyter.concurrency import Stopped, current_stop
from tract_jupyter.exceptions import BudgetExceededError, RunError, TemplateError
from tract_jupyter.models import brief_repr
from tract_jupyter.runs.effect_types import NO_APPEND, ArtifactUpsert
from tract_jupyter.runs.effects import REWRITES, check_together, checked_effect, effects_of
from tract_jupyter.runs.kinds.base import OperationFailed, OperationOutput, Skipped, Waits
from tract_jupyter.runs.model import OperationResult, ResultError, Skip
from tract_jupyter.runs.reading import bounded, message_of
from tract_jupyter.runs.terms import MAX_DEBUG, ErrorCode, Hook, OperationStatus, Persistence, WriteMode
from tract_jupyter.runs.workers import Job, is_computed_here

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.runs.effect_types import Effect
    from tract_jupyter.runs.kinds.base import KindOutcome, OperationKind, Runner, Services
    from tract_jupyter.runs.model import ArtifactSpec, Operation, OperationContext


Function = TypeVar("Function", bound=Callable[..., Any])
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")


class Functions(Mapping[str, Callable[..., Any]]):
    """Functions by name."""

    def __init__(self) -> None:
        self._functions: dict[str, Callable[..., Any]] = {}

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return self._functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._functions))

    def __len__(self) -> int:
        return len(self._functions)

    @overload
    def register(self, name: Function) -> Function: ...
    @overload
    def register(
        self, name: str | None = None, *, replace: bool = False
    ) -> Callable[[Function], Function]: ...
    def register(
        self, name: str | Function | None = None, *, replace: bool = False
    ) -> Function | Callable[[Function], Function]:
        """Register a function `f(context, arguments)` for operations: a decorator with or without parentheses.

        Args:
            name: the name for operations; the function's own name by default.
            replace: replace another function of that name. Without it, only a new definition of the same function may.

        Raises:
            RunError: the name is invalid or in use, or the function does not accept a context and arguments.
        """

        def add(function: Function) -> Function:
            uses_own_name = name is None or callable(name)
            chosen: Any = getattr(function, "__name__", "") if uses_own_name else name
            _check(chosen, function)
            former = self._functions.get(chosen)
            if former is not None and not replace and _home(former) != _home(function):
                raise RunError(
                    f"The function name {chosen!r} is in use by {'.'.join(_home(former))}. Use another name, or "
                    "replace=True."
                )
            self._functions[chosen] = function
            return function

        return add(name) if callable(name) else add


def _home(function: Callable[..., Any]) -> tuple[str, str]:
    return str(getattr(function, "__module__", "")), str(getattr(function, "__qualname__", ""))


def _check(name: object, function: Callable[..., Any]) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RunError(f"Invalid function name {name!r}. Use at most 100 letters, digits, '.', '_' and '-'.")
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise RunError(
            f"{name!r} is not a plain function. Operations run on threads, so use a function that is not async."
        )
    try:
        inspect.signature(function).bind(None, {})
    except TypeError:
        raise RunError(
            f"{name!r} cannot be called as f(context, arguments). Give it these two parameters."
        ) from None
    except ValueError:  # some C functions have no signature
        return


FUNCTIONS: Final = Functions()
"""The functions of this process."""

run_function: Final = FUNCTIONS.register
"""Register a function for `compute` operations: `@run_function`, or `@run_function("name")`."""


_logger = logging.getLogger(__name__)

_CODE: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_CODES: Final[dict[type[BaseException], ErrorCode]] = {
    TemplateError: ErrorCode.TEMPLATE_RENDER,
    BudgetExceededError: ErrorCode.BUDGET_EXCEEDED,
    TimeoutError: ErrorCode.TIMEOUT,
}
"""The error codes of exceptions that a kind may raise; others are `operation_error` (R55)."""


def perform(operation: Operation, run: Runner, context: OperationContext) -> OperationResult:
    """Run an operation once.

    Args:
        operation: its settings and its artifact.
        run: the prepared function of its kind.
        context: its input.

    Returns:
        `done` with well-formed effects (R51, G24), `skipped`, `waiting`, `aborted`, or `error` with a stable code and a
        bounded, safe message (R54). The commit checks which effects the hook allows (G22).
    """
    try:
        return _result(operation, run(context), context)
    except Stopped:
        return _ended(operation, OperationStatus.ABORTED)
    except OperationFailed as failed:
        return _failed(operation, failed, context)
    except BaseException as error:  # not even SystemExit may end a process that runs other operations
        if isinstance(error, KeyboardInterrupt) and is_computed_here():
            raise  # the user stops the run
        _logger.debug("operation %s failed", operation.id, exc_info=True)
        # G25: an exception after the signal means that the operation stopped
        if current_stop().is_set():
            return _ended(operation, OperationStatus.ABORTED)
        code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), ErrorCode.OPERATION)
        return _failed(operation, OperationFailed(code, message_of(error)), context)


def job_of(
    operation: Operation,
    context: OperationContext,
    kind: OperationKind | Exception,
    services: Services,
    waits_for: str | None = None,
) -> Job:
    """Make the job of an operation. If its kind cannot prepare it, the job fails when it runs (R53).

    Args:
        operation: the operation to run.
        context: the context of the operation.
        kind: the kind of the operation, or the error of its lookup.
        services: the model, the tools and the other services that the operation uses.
        waits_for: the pending of an operation that resumes with the user's decision.
    """
    try:
        if isinstance(kind, Exception):
            raise kind
        run = kind.prepare(operation, services)
        resume = getattr(run, "resume", None)
        if waits_for is not None and resume is not None:
            run = partial(resume, pending_id=waits_for)
    except Exception as error:  # noqa: BLE001 # a kind of another package may raise anything
        run = _Failing(error)
    return Job(partial(perform, operation, run), context, bool(getattr(kind, "is_computed", False)))


@dataclass(frozen=True, slots=True)
class _Failing:
    error: Exception

    def __call__(self, context: OperationContext) -> KindOutcome:  # noqa: ARG002 # a runner's
        raise self.error


def _result(operation: Operation, outcome: Any, context: OperationContext) -> OperationResult:
    if isinstance(outcome, Skipped):
        condition = None if outcome.condition is None else bounded(outcome.condition, MAX_DEBUG)
        skip = Skip(reason=message_of(str(outcome.reason), 200), condition=condition)
        return _ended(operation, OperationStatus.SKIPPED, skip=skip)
    if isinstance(outcome, Waits):
        return _ended(operation, OperationStatus.WAITING, waits_for=str(outcome.pending_id))
    if not isinstance(outcome, OperationOutput):
        raise OperationFailed.invalid(
            f"The operation returned {brief_repr(outcome)} instead of an OperationOutput."
        )
    return _ended(
        operation,
        OperationStatus.DONE,
        effects=_effects(operation, outcome, context.hook),
        debug=bounded(outcome.debug, context.log_characters) if operation.config.debug.enabled else {},
        usage=bounded(outcome.usage, MAX_DEBUG) if outcome.usage else {},
        inputs_summary=bounded(outcome.inputs, context.log_characters) if outcome.inputs else {},
        outputs_summary=bounded(outcome.outputs, context.log_characters),
    )


def _effects(operation: Operation, output: OperationOutput, hook: Hook) -> tuple[Effect, ...]:
    """Return the checked effects of the operation.

    If the operation returned no effects, the effects come from its artifact's value.
    """
    effects, definition = output.effects, operation.definition
    if effects is None:
        artifact = operation.config.artifact
        effects = () if artifact is None else _of_value(artifact, output.value)
    if not isinstance(effects, list | tuple):
        raise OperationFailed.invalid(f"The operation's effects must be a list, not {brief_repr(effects)}.")
    # effects made from the value are checked already, except that a text must not be empty
    is_ours = output.effects is None
    refused = None if is_ours else check_together(effects)
    if refused is not None:
        raise _as_failure(refused)
    checked = [one if is_ours and not isinstance(one, REWRITES) else _checked(one, hook) for one in effects]
    for one in checked:
        if definition.capabilities and not definition.declares(one.type):
            raise OperationFailed(
                ErrorCode.POLICY,
                f"The effect {one.type} is not among its capabilities: {', '.join(definition.declared_effects)}. "
                "Add it, or leave capabilities out.",
            )
        if isinstance(one, ArtifactUpsert):
            _check_declared(operation, one)
    return tuple(checked)


def _check_declared(operation: Operation, write: ArtifactUpsert) -> None:
    """Check that an artifact write agrees with the profile (E16, R51).

    Raises:
        OperationFailed: `policy_error` if the profile, which the user has read, declares something else;
            `validation_error` for an unsupported write mode.
    """
    if write.write_mode is not WriteMode.REPLACE:
        raise OperationFailed.invalid(NO_APPEND)
    artifact = operation.config.artifact
    if artifact is None or artifact.tag != write.tag:
        declared = "no artifact" if artifact is None else f"art.{artifact.tag}"
        raise OperationFailed(
            ErrorCode.POLICY,
            f"It writes art.{write.tag}, but its profile declares {declared}. Give the operation tag={write.tag!r}.",
        )
    if artifact.persistence is not write.persistence:
        keep = write.persistence is Persistence.PERSISTED
        raise OperationFailed(
            ErrorCode.POLICY,
            f"It writes art.{write.tag} as {write.persistence.value}, but its profile declares "
            f"{artifact.persistence.value}. Give the operation keep={keep}.",
        )


def _of_value(artifact: ArtifactSpec, value: Any) -> Sequence[Effect]:
    try:
        return effects_of(artifact, value)
    except Exception as error:  # noqa: BLE001 # reading a foreign value may raise anything
        raise OperationFailed.invalid(f"The value cannot be stored: {message_of(error)}") from None


def _checked(effect: Any, hook: Hook) -> Effect:
    """Return the checked effect; either hook may allow it."""
    checked = checked_effect(effect, hook)
    if isinstance(checked, ResultError) and checked.code == ErrorCode.POLICY:
        checked = checked_effect(effect, Hook.AFTER if hook is Hook.BEFORE else Hook.BEFORE)
    if isinstance(checked, ResultError):
        raise _as_failure(checked)
    return checked


def _as_failure(error: ResultError) -> OperationFailed:
    return OperationFailed(error.code, error.message, error.details)


def _failed(operation: Operation, failed: OperationFailed, context: OperationContext) -> OperationResult:
    code, details = failed.code, failed.details
    if not _CODE.fullmatch(code):  # G31
        code, details = ErrorCode.OPERATION, {**details, "code": code}
    error = ResultError(
        code=code, message=message_of(str(failed.message)), details=bounded(details, MAX_DEBUG)
    )
    return _ended(
        operation,
        OperationStatus.ERROR,
        error=error,
        inputs_summary=bounded(failed.inputs, context.log_characters),
        outputs_summary=bounded(failed.outputs, context.log_characters),
    )


def _ended(operation: Operation, status: OperationStatus, **more: Any) -> OperationResult:
    return OperationResult(
        operation_id=operation.id, status=status, required=operation.config.required, **more
    )
