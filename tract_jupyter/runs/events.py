"""The events of a run: the source of truth, of which the run, its operations and reports are projections.

Sources: E15 for names and numbers. What a resume and a replay need besides is ours: the snapshot, attempts, results
with their effects, reports, prompts. Events hold what operations were given and gave, and no secrets (R27, R57).
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
    Data,
    ExecutionMode,
    FailedType,
    Hook,
    RunPhase,
    RunStatus,
    RunTrigger,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from typing import Self

    from tract_jupyter.runs.run import Ending


VERSION: Final = 1
"""Of the shape of events; a run begins with it."""


class _EventData(Data):
    """The data of an event, told apart by its `type`."""

    def to_dict(self) -> dict[str, Any]:
        """Return its JSON form, which always has the `type`."""
        return {"type": self.type, **super().to_dict()}  # type: ignore[attr-defined] # each has its own


class RunStarted(_EventData):
    """The snapshot that the run goes by: nothing of it is looked up again.

    Attributes:
        operations: as they were compiled from the profile.
        plain_prompt: what would be sent without operations.
        user_key: which of its messages is the current user's.
        base_commit: the tip of the branch at the start.
        artifacts: the persisted ones, as they were at the start.
        replaces: the commit of the reply that gets another variant, of `regenerate`.
        activation_skips: the operations that were not due.
        counters: turns and tokens of operations with an interval, once the turn has its reply.
        clock: what operations take for the present, ISO 8601.
        settings: of the main call: model, temperature, ...
        signature: of all the rest, by the user who began the run; see `store.signed`.
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
        """Return the JSON form, with those of the operations, which are the same from run to run."""
        return self.once("form", RunStarted._form)

    def _form(self) -> dict[str, Any]:
        rest = self.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude={"operations"})
        operations = {"operations": [one.form() for one in self.operations]} if self.operations else {}
        return {"type": self.type, **rest, **operations}


class PhaseChanged(_EventData):
    """The run goes on to another phase."""

    type: Literal["run.phase_changed"] = "run.phase_changed"
    phase: RunPhase


class _OfOperation(_EventData):
    operation_id: str
    hook: Hook


class OperationStarted(_OfOperation):
    """An operation runs. Times are seconds since the epoch."""

    type: Literal["operation.started"] = "operation.started"
    started_at: float
    inputs_summary: dict[str, Any] = Field(default_factory=dict)


class OperationAttempt(_OfOperation):
    """It is tried again, in `delay_ms`; `error` is of the attempt before."""

    type: Literal["operation.attempt"] = "operation.attempt"
    attempt: int
    error: ResultError | None = None
    delay_ms: float = 0


class OperationProgress(_OfOperation):
    """The progress of an operation. Never an effect."""

    type: Literal["operation.progress"] = "operation.progress"
    data: dict[str, Any] = Field(default_factory=dict)


class OperationWaiting(_OfOperation):
    """A person has to decide about it first."""

    type: Literal["operation.waiting"] = "operation.waiting"
    pending_id: str
    started_at: float | None = None


class OperationFinished(_OfOperation):
    """It has ended, or never ran: then without `started_at` (G29)."""

    type: Literal["operation.finished"] = "operation.finished"
    result: OperationResult
    started_at: float | None = None
    finished_at: float | None = None
    attempts: int = 0
    inputs_summary: dict[str, Any] = Field(default_factory=dict)
    outputs_summary: dict[str, Any] = Field(default_factory=dict)


class CommitFinished(_EventData):
    """Effects were committed.

    Attributes:
        report: the commit report, as JSON (E8).
        artifacts: what was written, as it stands after it.
    """

    type: Literal["commit.finished"] = "commit.finished"
    hook: Hook
    report: dict[str, Any]
    artifacts: dict[str, ArtifactView] = Field(default_factory=dict)


class MainStarted(_EventData):
    """The main call begins, with this prompt and its sha256."""

    type: Literal["main_llm.started"] = "main_llm.started"
    prompt: tuple[RunMessage, ...]
    prompt_hash: str
    model: str | None = None


class MainFinished(_EventData):
    """The main call has ended. `reply_commit` holds its text, if that was committed."""

    type: Literal["main_llm.finished"] = "main_llm.finished"
    reply: MainReply
    reply_commit: str | None = None


class RunResumed(_EventData):
    """Another process, or the same one later, goes on with it."""

    type: Literal["run.resumed"] = "run.resumed"
    process: str = ""


class RunFinished(_EventData):
    """The end. `root_hash` is that of all that a replay must give again."""

    type: Literal["run.finished"] = "run.finished"
    status: Literal[RunStatus.DONE, RunStatus.FAILED, RunStatus.ABORTED]
    failed_type: FailedType | None = None
    failed_details: dict[str, Any] = Field(default_factory=dict)
    root_hash: str | None = None

    @classmethod
    def of(cls, ending: Ending) -> Self:
        """Make the event of a run that ended so."""
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
    """An event with its number, from 1 within its run, and its time."""

    run_id: str
    seq: int
    at: datetime
    data: EventData

    @property
    def type(self) -> str:
        """The type of the event, such as `operation.finished`."""
        return self.data.type

    def to_dict(self) -> dict[str, Any]:
        """Return its JSON form, for clients."""
        return {"runId": self.run_id, "seq": self.seq, "at": self.at.isoformat(), **self.data.to_dict()}


OnEvent: TypeAlias = Callable[[RunEvent], object]
"""What is told of each event of a run."""


def in_order(events: Iterable[RunEvent]) -> list[RunEvent]:
    """Return each event once and in order, by (`runId`, `seq`), however they came (E15)."""
    by_key = {(event.run_id, event.seq): event for event in events}
    return [by_key[key] for key in sorted(by_key)]
