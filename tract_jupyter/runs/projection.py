"""Projections of a run's events: the run, the remaining work of an unfinished run, and the root hash.

Pure functions. The root hash is the sha256 of all that a replay must reproduce. It covers the trigger, the compiled
operations, the prompt without operations, all results (status, effects, reasons, codes, blockers), commits, the sent
prompt, the reply, the written artifacts and the ending. It leaves out times, ids (of runs, commits, pendings and
messages), error messages, usage and debug data. Values count unchanged: a hit of `rag` names its commit, so the hash
covers that commit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import UnknownRunError
from tract_jupyter.models import canonical_json, digest
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
    ArtifactUsage,
    EffectStatus,
    Hook,
    OperationStatus,
    RunPhase,
    RunStatus,
    SkippedReason,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from tract_jupyter.runs.events import RunEvent
    from tract_jupyter.runs.model import MainReply
    from tract_jupyter.runs.terms import Data, RunTrigger


Key = tuple[Hook, str]
"""An operation at one hook."""


@dataclass(slots=True)
class RunHistory:
    """The state of a run after its events.

    Attributes:
        started_at, finished_at: the times of the first event and of the end.
        running: the operations that have started and not ended.
        waiting: the pendings that operations wait for, of this process or an earlier one.
        parked: the waiting operations of this process. If nothing else runs, the run waits.
        ended: the ends of operations, in order.
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
        """Read events in any order; duplicates are ignored. The log may end anywhere, for example after a crash.

        Raises:
            UnknownRunError: the first event is missing.
        """
        ordered = in_order(events)
        if not ordered or not isinstance(ordered[0].data, RunStarted):
            raise UnknownRunError("The first event of the run is missing. Restore a backup to read this run.")
        first, snapshot = ordered[0], ordered[0].data
        history = cls(first.run_id, first.at, snapshot)
        history._apply(ordered[1:])
        if history.end is not None:
            history.finished_at = ordered[-1].at
        return history

    def results(self, hook: Hook) -> dict[str, OperationResult]:
        """Return the results of the ended operations of a hook. A resumed run keeps them."""
        return {name: ended.result for (at, name), ended in self.ended.items() if at is hook}

    def pendings(self, hook: Hook) -> dict[str, str]:
        """Return the pendings that operations wait for at a hook, by operation."""
        return {name: one.pending_id for (at, name), one in self.waiting.items() if at is hook}

    def rewrites(self, hook: Hook, target: str) -> list[dict[str, Any]]:
        """Return the rewrites of the `user`'s message or the `reply` by a commit."""
        commit = self.commits.get(hook)
        rewrites = () if commit is None else commit.report.get("rewrites", ())
        return [rewrite for rewrite in rewrites if rewrite.get("target") == target]

    @property
    def status(self) -> RunStatus:
        """The status of the run; `running` or `waiting` without an end event."""
        if self.end is not None:
            return RunStatus(self.end.status)
        return RunStatus.WAITING if self.parked and not self.running else RunStatus.RUNNING

    @property
    def reply(self) -> str | None:
        """The final reply: rewritten, or from the main call."""
        rewritten = self.rewrites(Hook.AFTER, "reply")
        if rewritten or self.main is None:
            return rewritten[-1].get("after") if rewritten else None
        reply = self.main.reply
        return reply.text if reply.text or reply.error is None else None

    @property
    def user_commit(self) -> str | None:
        """The final commit of the user's message."""
        parts = [rewrite.get("part") for hook in Hook for rewrite in self.rewrites(hook, "user")]
        return parts[-1] if parts else self.snapshot.user_commit

    @property
    def reply_commit(self) -> str | None:
        """The final commit of the reply."""
        rewritten = self.rewrites(Hook.AFTER, "reply")
        if rewritten:
            return rewritten[-1].get("part")
        return None if self.main is None else self.main.reply_commit

    def _apply(self, events: Iterable[RunEvent]) -> None:  # noqa: C901 # one case for each kind of event
        """Apply the events after the first one. Attempts and progress change nothing."""
        for event in events:
            data = event.data
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
                self.running.clear()  # they ended with the process
                self.parked.clear()
            elif isinstance(data, RunFinished):
                self.end, self.phase = data, RunPhase.FINISHED


def project(events: Iterable[RunEvent]) -> Run:
    """Return the run that events describe (R15, R56, E13). Without an end event it is `running` or `waiting`.

    An ended run lists each operation at each of its hooks. An unfinished run lists operations that ended or wait.

    Raises:
        UnknownRunError: the first event is missing.
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


def _operation_runs(history: RunHistory) -> Iterator[OperationRun]:
    """Yield the records of the first hook, then of the second, each in plan order."""
    operations = sorted(history.snapshot.operations, key=lambda one: (one.config.order, one.id))
    for hook in Hook:
        for operation in operations:
            if hook in operation.config.hooks:
                ended = _end_of(history, (hook, operation.id))
                if ended is not None:
                    yield operation_run(operation, history.snapshot.trigger, ended)


def operation_run(operation: Operation, trigger: RunTrigger, ended: OperationFinished) -> OperationRun:
    """Return the record of an ended operation. If it never ran, it has no start and duration (G29)."""
    config, result = operation.config, ended.result
    skip, error = result.skip, result.error
    return OperationRun(
        operation_id=operation.id,
        name=operation.definition.name,
        kind=operation.definition.kind,
        hook=ended.hook,
        trigger=trigger,
        status=result.status,
        required=config.required,
        order=config.order,
        depends_on=config.depends_on,
        started_at=ended.started_at,
        finished_at=ended.finished_at,
        duration_ms=_duration_ms(ended),
        attempts=ended.attempts,
        skipped_reason=None if skip is None else skip.reason,
        skip=skip,
        error_code=None if error is None else error.code,
        error_message=None if error is None else error.message,
        inputs_summary=ended.inputs_summary,
        outputs_summary=ended.outputs_summary,
        debug=result.debug,
    )


def _duration_ms(ended: OperationFinished) -> float:
    if ended.started_at is None or ended.finished_at is None:
        return 0.0
    return round((ended.finished_at - ended.started_at) * 1_000, 3)


def _end_of(history: RunHistory, key: Key) -> OperationFinished | None:
    """Return the end of an operation; None if it has not ended and the run continues."""
    hook, name = key
    if key in history.ended:
        return history.ended[key]
    started = history.running.get(key)
    begun: dict[str, Any] = (
        {}
        if started is None
        else {"started_at": started.started_at, "inputs_summary": started.inputs_summary}
    )
    if history.end is not None:  # the run ended first
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


def _notes(history: RunHistory) -> Iterator[RunNote]:
    """Yield the committed notes for readers: inline notes, and artifacts for the user (X05, R52)."""
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


_FOR_PEOPLE: Final = (ArtifactUsage.UI_ONLY, ArtifactUsage.PROMPT_AND_UI)


def _title(operation: Operation) -> str:
    artifact = operation.config.artifact
    return operation.id if artifact is None else artifact.title or artifact.tag


# --- the root hash

_VERSION: Final = 2
_SETS: Final = frozenset({"dependsOn", "hooks", "triggers", "runConditions"})
"""Fields of an operation's configuration whose order has no meaning."""


def root_hash(events: Iterable[RunEvent], end: RunFinished | None = None) -> str:
    """Return the root hash, as 64 hex digits.

    Args:
        events: the events of the run.
        end: the end of the run, if the events do not have it yet.

    Raises:
        UnknownRunError: the first event is missing.
        ContentError: a value has no JSON form.
    """
    return digest(covered(RunHistory.of(events), end))


def is_root_of(root: str | None, events: Sequence[RunEvent]) -> bool:
    """Return True if the root hash belongs to the run.

    Raises:
        UnknownRunError, ContentError: see `root_hash`.
    """
    return root == root_hash(events)


def sealed(run: RunHistory | Iterable[RunEvent], end: RunFinished) -> RunFinished:
    """Return the end of a run with its root hash: the last event to add.

    Raises:
        ContentError: a value has no JSON form.
    """
    history = run if isinstance(run, RunHistory) else RunHistory.of(run)
    return end.model_copy(update={"root_hash": digest(covered(history, end))})


def differences(one: Iterable[RunEvent], other: Iterable[RunEvent]) -> list[str]:
    """Return the parts in which two runs differ, such as `results.before_main_llm.world`."""
    return list(_differing(covered(RunHistory.of(one)), covered(RunHistory.of(other)), ""))


def covered(history: RunHistory, end: RunFinished | None = None) -> dict[str, Any]:
    """Return the data that the hash covers, as JSON; `end` is the end if the history does not have it yet."""
    end = end or history.end
    snapshot, sent, main = history.snapshot, history.main_started, history.main
    results: dict[Hook, dict[str, Any]] = {Hook.BEFORE: {}, Hook.AFTER: {}}
    for (hook, name), ended in history.ended.items():
        results[hook][name] = _result(ended)
    return {
        "version": _VERSION,
        "trigger": snapshot.trigger,
        "mode": snapshot.mode,
        "operations": _operations(snapshot),
        "plainPrompt": _messages(snapshot.form().get("plainPrompt", ())),
        "results": results,
        "commits": {hook: _commit(commit) for hook, commit in history.commits.items()},
        "prompt": None if sent is None else _messages(_part(sent, "prompt")),
        "main": None if main is None else _main(main.reply),
        "reply": history.reply,
        "status": None if end is None else end.status,
        "failedType": None if end is None else end.failed_type,
    }


def _messages(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    dicts = [dict(one) for one in messages]
    for one in dicts:
        one.pop("key", None)
    return dicts


def _part(data: Data, name: str) -> Any:
    """Return one field as JSON; empty if it has its default. The name must be one word."""
    return data.model_dump(mode="json", by_alias=True, exclude_defaults=True, include={name}).get(name, ())


def _operations(snapshot: RunStarted) -> list[dict[str, Any]]:
    operations = sorted(snapshot.form().get("operations", ()), key=_id)
    return [{**one, "config": {**one["config"], **_sorted_sets(one["config"])}} for one in operations]


def _id(operation: Mapping[str, Any]) -> str:
    return str(operation["definition"]["operationId"])


def _sorted_sets(config: Mapping[str, Any]) -> dict[str, Any]:
    return {name: sorted(config[name], key=canonical_json) for name in _SETS if len(config.get(name, ())) > 1}


def _result(ended: OperationFinished) -> dict[str, Any]:
    result, skip, error = ended.result, ended.result.skip, ended.result.error
    fields = {
        "status": result.status,
        "required": result.required,
        "effects": list(_part(result, "effects")) if result.effects else [],
        "error": None if error is None else error.code,
        "skip": None if skip is None else [skip.reason, skip.dep],
    }
    blocked_by = list(skip.blocked_by) if skip is not None else error and error.details.get("blockedBy")
    return {**fields, "blockedBy": blocked_by} if blocked_by else fields


def _commit(commit: CommitFinished) -> dict[str, Any]:
    return {
        "entries": [_entry(entry) for entry in commit.report.get("entries", [])],
        "rewrites": [_rewrite(rewrite) for rewrite in commit.report.get("rewrites", [])],
        "artifacts": _part(commit, "artifacts") if commit.artifacts else {},
    }


def _main(reply: MainReply) -> dict[str, Any]:
    error = None if reply.error is None else reply.error.code
    return {"text": reply.text, "finishReason": reply.finish_reason, "error": error}


def _entry(entry: dict[str, Any]) -> dict[str, Any]:
    return {
        "operationId": entry.get("operationId"),
        "effectIndex": entry.get("effectIndex"),
        "effectType": entry.get("effectType"),
        "status": entry.get("status"),
        "error": (entry.get("error") or {}).get("code"),
    }


def _rewrite(rewrite: dict[str, Any]) -> dict[str, Any]:
    return {key: rewrite.get(key) for key in ("operationId", "target", "before", "after")}


def _differing(one: Any, other: Any, where: str) -> Iterable[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            yield from _differing(one.get(key), other.get(key), f"{where}.{key}" if where else str(key))
    elif one != other:
        yield where
