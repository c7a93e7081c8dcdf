"""A run, as its events tell it, and what is left to do of one that did not end. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tract_jupyter.exceptions import UnknownRunError
from tract_jupyter.runs.effect_types import ArtifactUpsert, UiInline
from tract_jupyter.runs.effects import text_of
from tract_jupyter.runs.events import (
    CommitFinished,
    MainFinished,
    MainStarted,
    OperationFinished,
    OperationStarted,
    OperationWaiting,
    PhaseChanged,
    RunFinished,
    RunResumed,
    RunStarted,
    in_order,
)
from tract_jupyter.runs.model import Operation, OperationResult, OperationRun, Run, RunNote, Skip
from tract_jupyter.runs.terms import (
    EffectStatus,
    Hook,
    OperationStatus,
    RunPhase,
    RunStatus,
    SkippedReason,
    Usage,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from tract_jupyter.runs.events import EventData, RunEvent


Key = tuple[Hook, str]
"""An operation at one hook; it may run at both."""


@dataclass(slots=True)
class RunHistory:
    """The events of one run. Nothing is None that the events tell.

    Attributes:
        started_at, finished_at: the times of the first event and of the end.
        running: operations that have begun and not ended, and since when.
        waiting: the pendings that operations wait for, of this process or of one before.
        parked: those of this process: if nothing else runs, the run waits.
        ended: how operations ended, in this order.
    """

    run_id: str
    started_at: datetime
    snapshot: RunStarted
    phase: RunPhase | None = None
    running: dict[Key, OperationStarted] = field(default_factory=dict)
    waiting: dict[Key, OperationWaiting] = field(default_factory=dict)
    parked: set[Key] = field(default_factory=set)
    ended: dict[Key, OperationFinished] = field(default_factory=dict)
    commits: dict[Hook, CommitFinished] = field(default_factory=dict)
    main_started: MainStarted | None = None
    main: MainFinished | None = None
    end: RunFinished | None = None
    finished_at: datetime | None = None

    @classmethod
    def of(cls, events: Iterable[RunEvent]) -> RunHistory:
        """Read events, in any order, each once or more often. The log may end anywhere, as after a crash.

        Raises:
            UnknownRunError: its beginning is missing.
        """
        ordered = in_order(events)
        if not ordered or not isinstance(ordered[0].data, RunStarted):
            raise UnknownRunError("the beginning of the run is missing, so nothing can be told about it")
        first, snapshot = ordered[0], ordered[0].data
        history = cls(first.run_id, first.at, snapshot)
        for event in ordered[1:]:
            history._take(event.data)
        if history.end is not None:
            history.finished_at = ordered[-1].at
        return history

    def rewrites(self, hook: Hook, target: str) -> list[dict[str, Any]]:
        """How a commit rewrote the `user`'s message, or the `reply`."""
        commit = self.commits.get(hook)
        made = [] if commit is None else commit.report.get("rewrites", [])
        return [rewrite for rewrite in made if rewrite.get("target") == target]

    @property
    def status(self) -> RunStatus:
        """Where the run stands: `running`, or `waiting`, until the events tell its end."""
        if self.end is not None:
            return RunStatus(self.end.status)
        return RunStatus.WAITING if self.parked and not self.running else RunStatus.RUNNING

    @property
    def reply(self) -> str | None:
        """The reply as it stands at the end: rewritten, or as the main call gave it."""
        rewritten = [rewrite.get("after") for rewrite in self.rewrites(Hook.AFTER, "reply")]
        if rewritten or self.main is None:
            return rewritten[-1] if rewritten else None
        given = self.main.reply
        return given.text if given.text or given.error is None else None

    @property
    def user_commit(self) -> str | None:
        """The commit of the user's message, as it stands at the end."""
        parts = [rewrite.get("part") for hook in Hook for rewrite in self.rewrites(hook, "user")]
        return parts[-1] if parts else self.snapshot.user_commit

    @property
    def reply_commit(self) -> str | None:
        """The commit of the reply, as it stands at the end."""
        parts = [rewrite.get("part") for rewrite in self.rewrites(Hook.AFTER, "reply")]
        return parts[-1] if parts else None if self.main is None else self.main.reply_commit

    def _take(self, data: EventData) -> None:
        """Take one more event; attempts and progress tell nothing that lasts."""
        if isinstance(data, OperationFinished):
            key = (data.hook, data.operation_id)
            self.running.pop(key, None)
            self.waiting.pop(key, None)
            self.parked.discard(key)
            self.ended[key] = data
        elif isinstance(data, OperationStarted):
            key = (data.hook, data.operation_id)
            self.running[key] = data
            self.parked.discard(key)
        elif isinstance(data, OperationWaiting):
            key = (data.hook, data.operation_id)
            self.running.pop(key, None)
            self.waiting[key] = data
            self.parked.add(key)
        elif isinstance(data, PhaseChanged):
            self.phase = data.phase
        elif isinstance(data, CommitFinished):
            self.commits[data.hook] = data
        elif isinstance(data, MainStarted):
            self.main_started = data
        elif isinstance(data, MainFinished):
            self.main = data
        elif isinstance(data, RunResumed):
            self.running.clear()  # they ended with their process
            self.parked.clear()
        elif isinstance(data, RunFinished):
            self.end, self.phase = data, RunPhase.FINISHED


Value = TypeVar("Value")


def project(events: Iterable[RunEvent]) -> Run:
    """The run that events tell of (R15, R56, E13). It is `running`, or `waiting`, until they tell its end.

    Of a run that has ended, each operation is listed at each of its hooks; of one that has not, those that have ended
    or wait for a person.

    Raises:
        UnknownRunError: the beginning is missing.
    """
    history = RunHistory.of(events)
    snapshot, end, main, sent = history.snapshot, history.end, history.main, history.main_started
    return Run(
        run_id=history.run_id,
        trigger=snapshot.trigger,
        status=history.status,
        failed_type=None if end is None else end.failed_type,
        failed_details={} if end is None else end.failed_details,
        profile=snapshot.profile,
        branch=snapshot.branch,
        started_at=history.started_at,
        finished_at=history.finished_at,
        phase=history.phase,
        operations=tuple(_operation_runs(history)),
        notes=tuple(_notes(history)),
        reports=tuple(history.commits[hook].report for hook in Hook if hook in history.commits),
        prompt=() if sent is None else sent.prompt,
        plain_prompt=snapshot.plain_prompt,
        reply=history.reply,
        user_commit=history.user_commit,
        reply_commit=history.reply_commit,
        finish_reason=None if main is None else main.reply.finish_reason,
        root_hash=None if end is None else end.root_hash,
    )


@dataclass(frozen=True, slots=True)
class Unfinished:
    """What a resume needs: everything that is settled, and is not done again.

    Attributes:
        results: how operations ended, by hook and id.
        waiting: the pendings that operations wait for, by hook and id.
        commits: what was committed.
        main_started: the main call was begun; without `main` nobody knows what came of it.
        main: how it ended.
        is_finished: the run has ended, and nothing is left to do.
    """

    run_id: str
    snapshot: RunStarted
    results: Mapping[Hook, Mapping[str, OperationResult]]
    waiting: Mapping[Hook, Mapping[str, str]]
    commits: Mapping[Hook, CommitFinished]
    main_started: MainStarted | None
    main: MainFinished | None
    is_finished: bool


def unfinished(events: Iterable[RunEvent]) -> Unfinished:
    """What is settled of a run that did not end.

    Raises:
        UnknownRunError: the beginning is missing.
    """
    history = RunHistory.of(events)
    return Unfinished(
        history.run_id,
        history.snapshot,
        _by_hook({key: ended.result for key, ended in history.ended.items()}),
        _by_hook({key: waiting.pending_id for key, waiting in history.waiting.items()}),
        history.commits,
        history.main_started,
        history.main,
        history.end is not None,
    )


def _by_hook(found: Mapping[Key, Value]) -> dict[Hook, dict[str, Value]]:
    return {hook: {name: value for (at, name), value in found.items() if at is hook} for hook in Hook}


def _operation_runs(history: RunHistory) -> Iterator[OperationRun]:
    """Those of the first hook first, each in the order of its plan."""
    operations = sorted(history.snapshot.operations, key=lambda one: (one.config.order, one.id))
    for hook in Hook:
        for operation in operations:
            if hook in operation.config.hooks:
                ended = _end_of(history, (hook, operation.id))
                if ended is not None:
                    yield _operation_run(history, hook, operation, ended)


def _end_of(history: RunHistory, key: Key) -> OperationFinished | None:
    """How an operation ended; None if the run goes on and it has not."""
    hook, name = key
    if key in history.ended:
        return history.ended[key]
    started = history.running.get(key)
    begun: dict[str, Any] = (
        {}
        if started is None
        else {"started_at": started.started_at, "inputs_summary": started.inputs_summary}
    )
    if history.end is not None:  # the run ended without it
        result = _left(name) if started is None else _cut_off(name)
    elif key in history.parked:
        waiting = history.waiting[key]
        begun = {"started_at": waiting.started_at}
        result = OperationResult(
            operation_id=name, status=OperationStatus.WAITING, waits_for=waiting.pending_id
        )
    else:
        return None
    return OperationFinished(operation_id=name, hook=hook, result=result, **begun)


def _left(name: str) -> OperationResult:
    skip = Skip.because(SkippedReason.RUN_ABORTED)
    return OperationResult(operation_id=name, status=OperationStatus.SKIPPED, skip=skip)


def _cut_off(name: str) -> OperationResult:
    return OperationResult(operation_id=name, status=OperationStatus.ABORTED)


def _operation_run(
    history: RunHistory, hook: Hook, operation: Operation, ended: OperationFinished
) -> OperationRun:
    result, error, skip = ended.result, ended.result.error, ended.result.skip
    return OperationRun(
        operation_id=operation.id,
        name=operation.definition.name,
        kind=operation.definition.kind,
        hook=hook,
        trigger=history.snapshot.trigger,
        status=result.status,
        required=operation.config.required,
        order=operation.config.order,
        depends_on=operation.config.depends_on,
        started_at=ended.started_at,
        finished_at=ended.finished_at,
        duration_ms=_milliseconds(ended),
        attempts=ended.attempts,
        skipped_reason=None if skip is None else skip.reason,
        skip=skip,
        error_code=None if error is None else error.code,
        error_message=None if error is None else error.message,
        inputs_summary=ended.inputs_summary,
        outputs_summary=ended.outputs_summary,
        debug=result.debug,
    )


def _notes(history: RunHistory) -> Iterator[RunNote]:
    """What was committed for whoever looks: such exposures, and artifacts that are for a person (X05, R52)."""
    operations = {one.id: one for one in history.snapshot.operations}
    for hook, commit in history.commits.items():
        applied = [one for one in commit.report.get("entries", ()) if one["status"] == EffectStatus.APPLIED]
        for entry in applied:
            name = entry["operationId"]
            ended, operation = history.ended.get((hook, name)), operations.get(name)
            if ended is None or operation is None:
                continue
            effects = ended.result.effects
            effect = effects[entry.get("effectIndex", 0)]
            is_exposed = any(isinstance(one, UiInline) for one in effects)
            if isinstance(effect, UiInline):
                yield RunNote(
                    operation_id=name, hook=hook, title=_title(operation), text=effect.content,
                    format=effect.format, role=effect.role, anchor=effect.anchor, depth_from_end=effect.depth_from_end,
                )  # fmt: skip
            elif isinstance(effect, ArtifactUpsert) and effect.usage in _FOR_PEOPLE and not is_exposed:
                text = text_of(effect.value)
                yield RunNote(
                    operation_id=name, hook=hook, title=_title(operation), text=text, format=effect.format
                )


_FOR_PEOPLE: Final = (Usage.UI_ONLY, Usage.PROMPT_AND_UI)


def _title(operation: Operation) -> str:
    artifact = operation.config.artifact
    return operation.id if artifact is None else artifact.title or artifact.tag


def _milliseconds(ended: OperationFinished) -> float:
    """How long it ran; 0 if it never did (G29)."""
    if ended.started_at is None or ended.finished_at is None:
        return 0.0
    return round((ended.finished_at - ended.started_at) * 1_000, 3)
