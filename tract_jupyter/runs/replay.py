"""Goes through a run again: the same loop, with recorded results in the place of work, and nothing stored."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tract_jupyter.exceptions import RunError
from tract_jupyter.runs.artifacts import MemoryArtifacts
from tract_jupyter.runs.commit import CommitReport
from tract_jupyter.runs.events import MainFinished, OperationFinished, RunFinished
from tract_jupyter.runs.kinds.base import Services
from tract_jupyter.runs.log import EventLog
from tract_jupyter.runs.projection import project, unfinished
from tract_jupyter.runs.root_hash import differences, sealed
from tract_jupyter.runs.run import RunLoop
from tract_jupyter.runs.run_executor import RunDependencies, RunExecutor
from tract_jupyter.runs.targets import MemoryTarget
from tract_jupyter.runs.terms import ErrorCode, RunStatus
from tract_jupyter.runs.workers import ThreadWorkers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from tract_jupyter.runs.events import RunEvent, RunStarted
    from tract_jupyter.runs.kinds.registry import KindRegistry
    from tract_jupyter.runs.model import Run
    from tract_jupyter.runs.terms import Hook
    from tract_jupyter.runs.turn import Turn
    from tract_jupyter.runs.workers import Abort, Job


def replayed(events: Sequence[RunEvent], kinds: KindRegistry) -> Run:
    """The run as it comes out again: its reports and its root hash are those of the recorded one.

    Args:
        events: of a run that has ended.
        kinds: which operations can be planned.

    Raises:
        RunError: it has not ended, was aborted, lacks a result, or comes out differently; tells where.
    """
    recorded = project(events)
    _check_complete(recorded)
    so_far = replace(unfinished(events), commits={}, main_started=None)
    log = EventLog(recorded.run_id)
    log.add(so_far.snapshot)
    for event in events:
        if isinstance(event.data, OperationFinished | MainFinished):
            log.add(event.data)
    with closing(_NoWorkers()) as workers:
        dependencies = RunDependencies(kinds=kinds, services=Services(), workers=workers, ask=_no_call)
        ending = RunLoop(
            RunExecutor(so_far.snapshot, log, _target(recorded, so_far.snapshot), dependencies, so_far)
        ).run()
    log.add(sealed(log.events, RunFinished.of(ending)))
    parts = differences(events, log.events)
    if parts:
        raise RunError(
            f"the replay differs from run {recorded.run_id[:8]} in {', '.join(parts[:10])}: its events were changed, "
            "or another version of tract_jupyter made them"
        )
    return project(log.events)


def _check_complete(run: Run) -> None:
    if run.status in {RunStatus.RUNNING, RunStatus.WAITING}:
        raise RunError(f"run {run.run_id[:8]} has not ended, so it cannot be replayed; resume it first")
    if run.status is RunStatus.ABORTED:
        raise RunError(f"run {run.run_id[:8]} was aborted, so there is no whole run to replay")


class _NoWorkers(ThreadWorkers):
    """Execute nothing: whatever has no result on record would run, in a run that somebody made up."""

    def submit(self, key: object, job: Job, abort: Abort) -> None:  # noqa: ARG002 # a worker's
        """Refuse it."""
        raise RunError(
            f"the run has no result of {job.context.operation_id!r} on record, so it cannot be replayed; run it anew "
            "instead"
        )


class _RecordedTarget(MemoryTarget):
    """Keeps the turn in memory, and refuses what the store refused when the run was made."""

    def __init__(self, reports: Sequence[CommitReport], **kept: Any) -> None:
        super().__init__(**kept)
        self._refused = {
            (one.operation_id, one.effect_type)
            for report in reports
            for one in report.entries
            if one.error is not None and one.error.code == ErrorCode.STORAGE
        }
        self._failed = {one.hook for one in reports if _has_failed(one)}

    def committed(self, hook: Hook) -> CommitReport | None:
        """Nothing yet; a commit that failed fails again."""
        if hook in self._failed:
            raise RunError("the store refused the commit when the run was made")
        return super().committed(hook)

    def rewrite_user(self, part: str | None, text: str, operation_id: str) -> str:
        """Keep a text of the user, unless that was refused."""
        self._check(operation_id, "turn.user.replace_text")
        return super().rewrite_user(part, text, operation_id)

    def rewrite_reply(self, part: str | None, text: str, operation_id: str) -> str:
        """Keep a text of the reply, unless that was refused."""
        self._check(operation_id, "turn.assistant.replace_text")
        return super().rewrite_reply(part, text, operation_id)

    def _check(self, operation_id: str, effect_type: str) -> None:
        if (operation_id, effect_type) in self._refused:
            raise RunError("the store refused this when the run was made")


def _has_failed(report: CommitReport) -> bool:
    """Whether a whole transaction was lost: then even what is not stored, such as a message of the prompt, is refused.

    A commit that stores nothing but artifacts, and had all of them refused, fails just the same.
    """
    errors = [one.error for one in report.entries]
    return any(one is not None and one.code == ErrorCode.STORAGE for one in errors) and None not in errors


def _target(recorded: Run, snapshot: RunStarted) -> MemoryTarget:
    """The artifacts as they were; nothing else is needed of a store."""
    artifacts = MemoryArtifacts()
    if snapshot.session_key is not None:
        artifacts.put(snapshot.session_key, list(snapshot.artifacts.values()))
    reports = [CommitReport.from_dict(one) for one in recorded.reports]
    return _RecordedTarget(reports, session=snapshot.session_key, artifacts=artifacts)


def _no_call(_: Turn) -> NoReturn:
    raise RunError("the run has no reply on record, so it cannot be replayed; run it anew instead")
