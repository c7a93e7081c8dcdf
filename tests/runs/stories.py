"""Runs as their events tell them, for tests of what is made of events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tract_jupyter.runs import (
    AppendAfterLastUser,
    ArtifactUpsert,
    ArtifactView,
    AssistantReplaceText,
    CommitFinished,
    Hook,
    MainFinished,
    MainReply,
    MainStarted,
    Operation,
    OperationAttempt,
    OperationConfig,
    OperationDefinition,
    OperationFinished,
    OperationProgress,
    OperationResult,
    OperationStarted,
    OperationStatus,
    OperationWaiting,
    PhaseChanged,
    ResultError,
    RunEvent,
    RunFinished,
    RunMessage,
    RunPhase,
    RunResumed,
    RunStarted,
    RunStatus,
    RunTrigger,
    Skip,
    SkippedReason,
    sealed,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tract_jupyter.runs import EventData

BEFORE, AFTER = Hook.BEFORE, Hook.AFTER
RUN = "a" * 32
START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
USER = RunMessage(role="user", content="Where am I?", key="u1")
ADDED = RunMessage(role="system", content="It rains.", key="world#1", label="world")


def operation(name: str, *hooks: Hook, **config: object) -> Operation:
    """An operation of kind `template`."""
    return Operation(
        definition=OperationDefinition(operation_id=name, name=name.title(), kind="template"),
        config=OperationConfig(**{"order": 10, "hooks": hooks or (BEFORE,), **config}),
    )


OPERATIONS = (
    operation("world"), operation("guarded", depends_on=("world",), order=20), operation("asked", order=30),
    operation("polish", AFTER), operation("late", AFTER, order=20),
)  # fmt: skip


def done(name: str, *effects: object) -> OperationResult:
    """A result with effects."""
    return OperationResult(operation_id=name, status=OperationStatus.DONE, effects=effects)


def finished(hook: Hook, result: OperationResult, started_at: float | None = 100.0) -> OperationFinished:
    """Its end, a quarter of a second after its start."""
    return OperationFinished(
        operation_id=result.operation_id, hook=hook, result=result, started_at=started_at,
        finished_at=None if started_at is None else started_at + 0.25, attempts=0 if started_at is None else 2,
    )  # fmt: skip


def entry(name: str, index: int, kind: str, **more: object) -> dict[str, object]:
    """An entry of a commit report (E8)."""
    return {"operationId": name, "effectIndex": index, "effectType": kind, "status": "applied", **more}


def report(hook: Hook, *entries: dict[str, object], **more: object) -> dict[str, object]:
    """A commit report (E8)."""
    return {"hook": hook.value, "entries": list(entries), **more}


def before(reply_commit: str | None = None, world: str = "wet") -> list[EventData]:
    """A run to the end of its main call."""
    upsert = ArtifactUpsert(tag="world", value=world)
    add = AppendAfterLastUser(role="system", content="It rains.")
    skipped = OperationResult(
        operation_id="guarded",
        status=OperationStatus.SKIPPED,
        skip=Skip(reason="condition_false", condition={"is": True}),
    )
    return [
        RunStarted(trigger=RunTrigger.GENERATE, branch="main", profile="p", operations=OPERATIONS, plain_prompt=(USER,), seed=7,
                   user_commit="c" * 64, clock="2026-01-02T03:04:05+00:00"),
        PhaseChanged(phase=RunPhase.BEFORE),
        OperationStarted(operation_id="world", hook=BEFORE, started_at=100.0),
        OperationStarted(operation_id="asked", hook=BEFORE, started_at=100.0),
        OperationAttempt(operation_id="world", hook=BEFORE, attempt=2, error=ResultError(code="timeout"), delay_ms=5),
        OperationProgress(operation_id="world", hook=BEFORE, data={"percent": 50}),
        finished(BEFORE, done("world", upsert, add)),
        finished(BEFORE, skipped, None),
        OperationWaiting(operation_id="asked", hook=BEFORE, pending_id="p" * 32, started_at=100.0),
        RunResumed(process="host:1:ab"),
        OperationStarted(operation_id="asked", hook=BEFORE, started_at=100.0),
        finished(BEFORE, done("asked")),
        PhaseChanged(phase=RunPhase.COMMIT_BEFORE),
        CommitFinished(
            hook=BEFORE, artifacts={"world": ArtifactView(tag="world", value=world, history=(world,))},
            report=report(BEFORE, entry("world", 0, "artifact.upsert"), entry("world", 1, "prompt.append_after_last_user")),
        ),
        PhaseChanged(phase=RunPhase.MAIN_LLM),
        MainStarted(prompt=(USER, ADDED), prompt_hash="0" * 64, model="m"),
        MainFinished(reply=MainReply(text="In Rome", usage={"tokens": 3}), reply_commit=reply_commit),
    ]  # fmt: skip


def after(reply_commit: str | None = None, *, code: str = "timeout") -> list[EventData]:
    """From there almost to its end."""
    late = OperationResult(
        operation_id="late",
        status=OperationStatus.ERROR,
        error=ResultError(code=code, message="it took 3 s"),
    )
    rewrite = {
        "operationId": "polish",
        "target": "reply",
        "before": "In Rome",
        "after": "In Rome.",
        "part": reply_commit,
    }
    return [
        PhaseChanged(phase=RunPhase.AFTER),
        OperationStarted(operation_id="polish", hook=AFTER, started_at=200.0),
        finished(AFTER, done("polish", AssistantReplaceText(text="In Rome."))),
        finished(AFTER, late),
        CommitFinished(
            hook=AFTER,
            report=report(AFTER, entry("polish", 0, "turn.assistant.replace_text"), rewrites=[rewrite]),
        ),
    ]  # fmt: skip


def numbered(told: Iterable[EventData], run_id: str = RUN, start: datetime = START) -> list[RunEvent]:
    """The events, a second after each other."""
    return [
        RunEvent(run_id, seq, start + timedelta(seconds=seq - 1), data) for seq, data in enumerate(told, 1)
    ]


def whole(told: Sequence[EventData] | None = None, **of: object) -> list[RunEvent]:
    """A run with its end and root hash."""
    told = [*before(), *after()] if told is None else list(told)
    end = sealed(numbered(told), RunFinished(status=RunStatus.DONE))
    return numbered([*told, end], **of)


def aborted() -> list[RunEvent]:
    """A run that was aborted while an operation ran."""
    told = [*before()[:4], RunFinished(status=RunStatus.ABORTED)]
    return numbered([*told[:-1], sealed(numbered(told[:-1]), told[-1])])


SKIPPED_BY_ABORT = SkippedReason.RUN_ABORTED.value
