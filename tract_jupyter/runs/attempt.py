"""Run an operation once, and return a result whatever happens. No exception leaves `perform` (R53).

Operations can call registered functions only: a profile is data, and names no module. A function gets the context and
its arguments, and returns a JSON value, effects, or an `OperationOutput`. It must do nothing else. Otherwise a replay
would differ.
"""

from __future__ import annotations

import inspect
import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from tract_jupyter.concurrency import Stopped, current_stop
from tract_jupyter.exceptions import BudgetExceededError, RunError, TemplateError
from tract_jupyter.models import brief_repr
from tract_jupyter.runs.effect_types import NO_APPEND, ArtifactUpsert
from tract_jupyter.runs.effects import check_together, checked_effect, effects_of
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
        """Decorate a function `f(context, arguments)` that operations may call: with parentheses or without.

        Args:
            name: what it is called by, its own name if left out.
            replace: let it take the place of another one; otherwise only the same function, defined again, may.

        Raises:
            RunError: the name is not valid, or taken, or the function cannot be called with a context and arguments.
        """

        def add(function: Function) -> Function:
            own = name is None or callable(name)
            chosen: Any = getattr(function, "__name__", "") if own else name
            _check(chosen, function)
            former = self._functions.get(chosen)
            if former is not None and not replace and _home(former) != _home(function):
                raise RunError(
                    f"a function {chosen!r} is registered already, {'.'.join(_home(former))}; give another name, or "
                    "replace=True"
                )
            self._functions[chosen] = function
            return function

        return add(name) if callable(name) else add


def is_importable(function: Callable[..., Any]) -> bool:
    """Return True if another process finds it under its module and name, so that it can be pickled."""
    module, name = _home(function)
    found: Any = sys.modules.get(module) if module != "__main__" else None
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is function


def _home(function: Callable[..., Any]) -> tuple[str, str]:
    return str(getattr(function, "__module__", "")), str(getattr(function, "__qualname__", ""))


def _check(name: object, function: Callable[..., Any]) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RunError(
            f"{name!r} is not a valid name of a function: use letters, digits, '.', '_', '-', at most 100"
        )
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise RunError(
            f"{name!r} is not a plain function; operations run on threads, so give one that is not async"
        )
    try:
        inspect.signature(function).bind(None, {})
    except TypeError:
        raise RunError(
            f"{name!r} cannot be called as f(context, arguments); give it these two parameters"
        ) from None
    except ValueError:  # of some functions in C nobody knows the parameters
        return


FUNCTIONS: Final = Functions()
"""Those of this process."""

run_function: Final = FUNCTIONS.register
"""Decorates a function that operations of kind `compute` may call: `@run_function`, or `@run_function("name")`."""


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
    except Stopped:
        return _ended(operation, OperationStatus.ABORTED)
    except OperationFailed as failed:
        return _failed(operation, failed, context)
    except BaseException as error:  # not even SystemExit ends the process that runs others too
        if isinstance(error, KeyboardInterrupt) and is_computed_here():
            raise  # it is the run that a person stops
        _logger.debug("operation %s failed", operation.id, exc_info=True)
        # G25: whatever is raised after the signal is a way to stop
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
        anywhere = bool(getattr(run, "anywhere", kind.anywhere))
        resume = getattr(run, "resume", None)
        if waits_for is not None and resume is not None:
            run = partial(resume, pending_id=waits_for)
    except Exception as error:  # noqa: BLE001 # kinds may be anybody's
        run, anywhere = _Failing(error), False
    return Job(partial(perform, operation, run), context, anywhere, bool(getattr(kind, "is_computed", False)))


@dataclass(frozen=True, slots=True)
class _Failing:
    error: Exception

    def __call__(self, context: OperationContext) -> KindOutcome:  # noqa: ARG002 # a runner's
        raise self.error


def _result(operation: Operation, made: Any, context: OperationContext) -> OperationResult:
    if isinstance(made, Skipped):
        condition = None if made.condition is None else bounded(made.condition, MAX_DEBUG)
        skip = Skip(reason=message_of(str(made.reason), 200), condition=condition)
        return _ended(operation, OperationStatus.SKIPPED, skip=skip)
    if isinstance(made, Waits):
        return _ended(operation, OperationStatus.WAITING, waits_for=str(made.pending_id))
    if not isinstance(made, OperationOutput):
        raise OperationFailed.invalid(
            f"the operation gave {brief_repr(made)}, and should give an OperationOutput"
        )
    return _ended(
        operation,
        OperationStatus.DONE,
        effects=_effects(operation, made, context.hook),
        debug=bounded(made.debug, context.log_characters),
        usage=bounded(made.usage, MAX_DEBUG),
        inputs_summary=bounded(made.inputs, context.log_characters),
        outputs_summary=bounded(made.outputs, context.log_characters),
    )


def _effects(operation: Operation, made: OperationOutput, hook: Hook) -> tuple[Effect, ...]:
    """Return the effects that it gave, or those of its artifact's value, each checked."""
    given, definition = made.effects, operation.definition
    if given is None:
        artifact = operation.config.artifact
        given = () if artifact is None else _of_value(artifact, made.value)
    if not isinstance(given, list | tuple):
        raise OperationFailed.invalid(
            f"the operation's effects are {brief_repr(given)}, and should be a list"
        )
    refused = check_together(given)
    if refused is not None:
        raise _as_failure(refused)
    # what becomes of the value was checked when it was made
    is_ours = made.effects is None
    checked = [one if is_ours and isinstance(one, ArtifactUpsert) else _checked(one, hook) for one in given]
    for one in checked:
        if definition.capabilities and not definition.declares(one.type):
            raise OperationFailed(
                ErrorCode.POLICY,
                f"it wants {one.type}, and its capabilities are {', '.join(definition.declared_effects)}; "
                "add that, or leave capabilities out",
            )
        if isinstance(one, ArtifactUpsert):
            _check_declared(operation, one)
    return tuple(checked)


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


def _of_value(artifact: ArtifactSpec, value: Any) -> Sequence[Effect]:
    try:
        return effects_of(artifact, value)
    except Exception as error:  # noqa: BLE001 # a value may do anything when it is looked at
        raise OperationFailed.invalid(f"the value cannot be kept: {message_of(error)}") from None


def _checked(effect: Any, hook: Hook) -> Effect:
    """Return the effect as data, whichever hook allows it."""
    found = checked_effect(effect, hook)
    if isinstance(found, ResultError) and found.code == ErrorCode.POLICY:
        found = checked_effect(effect, Hook.AFTER if hook is Hook.BEFORE else Hook.BEFORE)
    if isinstance(found, ResultError):
        raise _as_failure(found)
    return found


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
