"""The events of a run. They are the source of truth: runs, operations and reports are projections of them.

Sources: E15 for names and numbers. The fields for resume and replay are ours: the snapshot, attempts, results with
their effects, reports and prompts. Events contain the inputs and outputs of operations, and no secrets (R27, R57).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, TypeAlias

from pydantic import Field, TypeAdapter
from typing_extensions import override

from tract_jupyter.runs.model import (
    ArtifactView,
    MainReply,
    Operation,
    OperationResult,
    ResultError,
    RunMessage,
    Skip,
)
from tract_jupyter.runs.terms import (
    NOT_SUPPOSED_TO_RUN,
    Data,
    ExecutionMode,
    FailedType,
    Hook,
    RunPhase,
    RunStatus,
    RunTrigger,
    SkippedReason,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from typing import Self

    from tract_jupyter.exceptions import PlanError


VERSION: Final = 1
"""The version of the event format; the first event names it."""


class _EventData(Data):
    """The data of an event, identified by its `type`."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, which always has the `type`."""
        return {"type": self.type, **super().to_dict()}  # type: ignore[attr-defined] # each has its own


class RunStarted(_EventData):
    """The start of a run, with a snapshot of everything that it uses. Nothing in it is looked up again.

    Attributes:
        operations: the compiled operations of the profile.
        plain_prompt: the prompt without operations.
        user_key: the key of the current user's message in it.
        base_commit: the tip of the branch at the start.
        artifacts: the persisted artifacts at the start.
        replaces: for `regenerate`: the commit of the reply that gets another variant.
        activation_skips: the operations that were not due.
        counters: turns and tokens of operations with an interval, after this turn.
        clock: the current time for operations, as ISO 8601.
        settings: settings of the main call: model, temperature, ...
        signature: the signature of the user who began the run, over all other fields; see `store.signed`.
    """

    type: Literal["run.started"] = "run.started"
    version: int = VERSION
    trigger: RunTrigger
    tract_id: str = ""
    branch: str | None = None
    profile: str | None = None
    profile_id: str | None = None
    session_key: str | None = None
    mode: ExecutionMode = ExecutionMode.CONCURRENT
    operations: tuple[Operation, ...] = ()
    plain_prompt: tuple[RunMessage, ...] = ()
    user_key: str | None = None
    user_commit: str | None = None
    base_commit: str | None = None
    turn_id: str | None = None
    replaces: str | None = None
    artifacts: dict[str, ArtifactView] = Field(default_factory=dict)
    activation_skips: dict[str, Skip] = Field(default_factory=dict)
    counters: dict[str, tuple[int, int]] = Field(default_factory=dict)
    seed: int = 0
    clock: str = ""
    variables: dict[str, Any] = Field(default_factory=dict)
    settings: dict[str, Any] = Field(default_factory=dict)
    signature: str = ""

    @override
    def form(self) -> dict[str, Any]:
        """Return the JSON form. Forms of operations are cached and shared between runs."""
        return self.once("form", RunStarted._form)

    def _form(self) -> dict[str, Any]:
        rest = self.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude={"operations"})
        operations = {"operations": [one.form() for one in self.operations]} if self.operations else {}
        return {"type": self.type, **rest, **operations}


class PhaseChanged(_EventData):
    """The run enters another phase."""

    type: Literal["run.phase_changed"] = "run.phase_changed"
    phase: RunPhase


class _OfOperation(_EventData):
    operation_id: str
    hook: Hook


class OperationStarted(_OfOperation):
    """An operation starts. Times are seconds since the epoch."""

    type: Literal["operation.started"] = "operation.started"
    started_at: float
    inputs_summary: dict[str, Any] = Field(default_factory=dict)


class OperationAttempt(_OfOperation):
    """A failed operation will run again in `delay_ms`. `error` is the error of the last attempt."""

    type: Literal["operation.attempt"] = "operation.attempt"
    attempt: int
    error: ResultError | None = None
    delay_ms: float = 0


class OperationProgress(_OfOperation):
    """The progress of an operation. It is never an effect."""

    type: Literal["operation.progress"] = "operation.progress"
    data: dict[str, Any] = Field(default_factory=dict)


class OperationWaiting(_OfOperation):
    """An operation waits for the user's decision."""

    type: Literal["operation.waiting"] = "operation.waiting"
    pending_id: str
    started_at: float | None = None


class OperationFinished(_OfOperation):
    """An operation has ended. If it never ran, it has no `started_at` (G29)."""

    type: Literal["operation.finished"] = "operation.finished"
    result: OperationResult
    started_at: float | None = None
    finished_at: float | None = None
    attempts: int = 0
    inputs_summary: dict[str, Any] = Field(default_factory=dict)
    outputs_summary: dict[str, Any] = Field(default_factory=dict)


class CommitFinished(_EventData):
    """The effects of a hook were committed.

    Attributes:
        report: the commit report, as JSON (E8).
        artifacts: the written artifacts with their new values.
    """

    type: Literal["commit.finished"] = "commit.finished"
    hook: Hook
    report: dict[str, Any]
    artifacts: dict[str, ArtifactView] = Field(default_factory=dict)


class MainStarted(_EventData):
    """The main call begins with this prompt and its sha256."""

    type: Literal["main_llm.started"] = "main_llm.started"
    prompt: tuple[RunMessage, ...]
    prompt_hash: str
    model: str | None = None


class MainFinished(_EventData):
    """The main call has ended. `reply_commit` is the commit of the reply, if there is one."""

    type: Literal["main_llm.finished"] = "main_llm.finished"
    reply: MainReply
    reply_commit: str | None = None


class RunResumed(_EventData):
    """The run was resumed, by another process or by the same one."""

    type: Literal["run.resumed"] = "run.resumed"
    process: str = ""


class RunFinished(_EventData):
    """The end of the run. `root_hash` covers all that a replay must reproduce."""

    type: Literal["run.finished"] = "run.finished"
    status: Literal[RunStatus.DONE, RunStatus.FAILED, RunStatus.ABORTED]
    failed_type: FailedType | None = None
    failed_details: dict[str, Any] = Field(default_factory=dict)
    root_hash: str | None = None

    @classmethod
    def of(cls, ending: Ending) -> Self:
        """Make the event from an ending."""
        status, failed_type, details = ending
        return cls.model_validate({"status": status, "failed_type": failed_type, "failed_details": details})


EventData = Annotated[
    RunStarted
    | PhaseChanged
    | OperationStarted
    | OperationAttempt
    | OperationProgress
    | OperationWaiting
    | OperationFinished
    | CommitFinished
    | MainStarted
    | MainFinished
    | RunResumed
    | RunFinished,
    Field(discriminator="type"),
]
EVENTS: Final[TypeAdapter[EventData]] = TypeAdapter(EventData)
"""Reads the data of one event."""


class RunEvent(NamedTuple):
    """An event with its number in the run (from 1) and its time."""

    run_id: str
    seq: int
    at: datetime
    data: EventData

    @property
    def type(self) -> str:
        """The type of the event, such as `operation.finished`."""
        return self.data.type

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form for clients."""
        return {"runId": self.run_id, "seq": self.seq, "at": self.at.isoformat(), **self.data.to_dict()}


OnEvent: TypeAlias = Callable[[RunEvent], object]
"""A callback for each event of a run."""


def in_order(events: Iterable[RunEvent]) -> list[RunEvent]:
    """Return each event once, in order of (`runId`, `seq`) (E15)."""
    by_key = {(event.run_id, event.seq): event for event in events}
    return [by_key[key] for key in sorted(by_key)]


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
    return result.skip is not None and result.skip.reason == SkippedReason.RUN_ABORTED


def _details(result: OperationResult) -> dict[str, Any]:
    details: dict[str, Any] = {"operationId": result.operation_id, "status": result.status.value}
    if result.error is not None:
        details |= {"errorCode": result.error.code, "errorMessage": result.error.message}
    if result.skip is not None:
        details |= {"skippedReason": result.skip.reason, "blockedBy": list(result.skip.blocked_by)}
    return details
