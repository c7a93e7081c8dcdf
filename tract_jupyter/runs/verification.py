"""Verification of runs: finds damaged records, and replays runs. `projection` computes the root hash."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from tract_jupyter.context import Damage, verify
from tract_jupyter.exceptions import RunError, StoreError, TractError
from tract_jupyter.models import text_of, tracked, working
from tract_jupyter.runs.commit_queue import CommitReport
from tract_jupyter.runs.engine import RunDependencies, RunExecutor
from tract_jupyter.runs.events import MainFinished, OperationFinished, RunFinished
from tract_jupyter.runs.kinds.base import Services
from tract_jupyter.runs.log import EventLog, read_events, unpacked
from tract_jupyter.runs.projection import RunHistory, differences, is_root_of, project, sealed
from tract_jupyter.runs.store import damaged_states
from tract_jupyter.runs.targets import MemoryTarget
from tract_jupyter.runs.terms import ErrorCode, Hook, RunPhase, RunStatus
from tract_jupyter.runs.workers import ThreadWorkers
from tract_jupyter.storage import RunCommitRows, RunEventRows, RunObjectRows, read_dict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import NoReturn

    from sqlalchemy import Connection

    from tract_jupyter.concurrency import StopSignal
    from tract_jupyter.context import Repository
    from tract_jupyter.runs.commit_queue import RewriteTarget
    from tract_jupyter.runs.events import RunEvent, RunStarted
    from tract_jupyter.runs.kinds.registry import KindRegistry
    from tract_jupyter.runs.model import Run
    from tract_jupyter.runs.turn import Turn
    from tract_jupyter.runs.workers import Job
    from tract_jupyter.storage import CommitRows, Database, StoredRunEvent


Reports = dict[tuple[str, str], str]
"""The reports that were stored with their effects, by run and hook."""


class RunRoot(NamedTuple):
    """The status of a run, as in `Runs.get`, and its root hash; None without an end event."""

    run_id: str
    status: str
    root_hash: str | None


def verify_runs(
    database: Database, rows: RunEventRows, commit_rows: RunCommitRows, commits: CommitRows
) -> list[Damage]:
    """Return all damage in the runs of a tract and their state; empty if there is none. Reads only.

    A commit of a turn that `gc` has removed is not damage.
    """
    damage: list[Damage] = []
    with database.read() as connection:
        reports = {(row.run_id, row.hook): row.report_json for row in commit_rows.find(connection)}
        for run_id, stored in tracked(list(rows.by_run(connection)), "Checking runs"):
            where = f"run {run_id}"
            problems = _of_run(connection, commits, rows, stored, reports)
            damage += [Damage(where, problem) for problem in problems]
            for step in (*Hook, RunPhase.MAIN_LLM):
                reports.pop((run_id, step), None)
        states = damaged_states(RunObjectRows(rows.tract_id), connection)
        damage += [Damage(commit_hash, problem) for commit_hash, problem in states]
    return damage + [
        Damage(f"run {run_id}", f"it has a commit at {hook}, but no events") for run_id, hook in reports
    ]


def verify_tract(repository: Repository) -> list[Damage]:
    """Return all damage in a tract, its runs and its database; empty if there is none."""
    database, rows = repository.database, repository.rows
    events, reports = RunEventRows(repository.tract_id), RunCommitRows(repository.tract_id)
    damage = verify(database, rows, repository.ref_rows)
    try:
        return damage + verify_runs(database, events, reports, rows)
    except StoreError as error:
        if not damage:
            raise
        return [*damage, Damage(database.location, str(error))]  # report the damage that could be read


def _of_run(
    connection: Connection,
    commits: CommitRows,
    rows: RunEventRows,
    stored: Sequence[StoredRunEvent],
    reports: Reports,
) -> Iterator[str]:
    try:
        events = read_events(unpacked(rows, connection, stored))
        history = RunHistory.of(events)
        yield from _of_root(history, events)
    except TractError as error:
        yield str(error)
        return
    yield from _of_reports(history, reports)
    for name, text in _texts(history).items():
        yield from _of_commit(connection, commits, name, text)


def _of_root(history: RunHistory, events: Sequence[RunEvent]) -> Iterator[str]:
    end = history.end
    if end is not None and events[-1].data is not end:
        yield "it has events after its end"
    if end is not None and not is_root_of(end.root_hash, events):
        yield "its events do not match its root hash; one of them was changed"


def _of_reports(history: RunHistory, reports: Reports) -> Iterator[str]:
    for hook, commit in history.commits.items():
        stored = reports.get((history.run_id, hook))
        if stored is not None and read_dict(stored) != commit.report:
            yield f"its report of {hook} differs from the one that was stored with the effects"


def _texts(history: RunHistory) -> dict[str, str]:
    main = history.main
    texts: dict[str, str] = {}
    if main is not None and main.reply_commit is not None:
        texts[main.reply_commit] = main.reply.text
    for hook in Hook:
        for rewrite in (*history.rewrites(hook, "user"), *history.rewrites(hook, "reply")):
            if rewrite.get("part"):
                texts[str(rewrite["part"])] = str(rewrite.get("after"))
    return texts


def _of_commit(connection: Connection, commits: CommitRows, name: str, text: str) -> Iterator[str]:
    try:
        entry = commits.get(connection, name)
    except TractError:
        return  # `context.verification` reports it
    if entry is not None and text_of(json.loads(entry.payload)) != text:
        yield f"commit {name[:12]} does not have the text that the run recorded"


def replayed(events: Sequence[RunEvent], recorded: Run, kinds: KindRegistry) -> Run:
    """Repeat a run, and return it. Its reports and its root hash equal the recorded ones.

    Args:
        events: the events of an ended run.
        recorded: the recorded run.
        kinds: the kinds for the plan.

    Raises:
        RunError: the run has not ended, was aborted, lacks a result, or differs; names the differences.
    """
    _check_complete(recorded)
    so_far = replace(RunHistory.of(events), commits={}, main_started=None)
    log = EventLog(recorded.run_id)
    log.add(so_far.snapshot)
    for event in events:
        if isinstance(event.data, OperationFinished | MainFinished):
            log.add(event.data)
    with working(f"Replaying run {recorded.run_id[:8]}"), closing(_NoWorkers()) as workers:
        dependencies = RunDependencies(kinds=kinds, services=Services(), workers=workers, ask=_no_call)
        ending = RunExecutor(
            so_far.snapshot, log, _target(recorded, so_far.snapshot), dependencies, so_far
        ).run()
    log.add(sealed(log.events, RunFinished.of(ending)))
    parts = differences(events, log.events)
    if parts:
        raise RunError(
            f"The replay differs from run {recorded.run_id[:8]} in {', '.join(parts[:10])}. Its events were changed, "
            "or another version of tract_jupyter wrote them."
        )
    return project(log.events)


def _check_complete(run: Run) -> None:
    if run.status in {RunStatus.RUNNING, RunStatus.WAITING}:
        raise RunError(
            f"Run {run.run_id[:8]} has not ended, so it cannot be replayed. Resume it, or wait for its end."
        )
    if run.status is RunStatus.ABORTED:
        raise RunError(f"Run {run.run_id[:8]} was aborted, so it cannot be replayed.")


class _NoWorkers(ThreadWorkers):
    """Refuses all jobs. An operation without a recorded result would otherwise run, in a manipulated run."""

    def submit(self, key: object, job: Job, abort: StopSignal) -> NoReturn:  # noqa: ARG002 # a worker's
        raise RunError(
            f"The run has no recorded result of {job.context.operation_id!r}, so it cannot be replayed. Run it again "
            "instead."
        )


class _RecordedTarget(MemoryTarget):
    """Keeps the turn in memory, and refuses the same writes as the store in the recorded run."""

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
        """Return None; a commit that failed fails again."""
        if hook in self._failed:
            raise RunError("The store refused the commit in the recorded run.")
        return super().committed(hook)

    def rewrite(self, target: RewriteTarget, part: str | None, text: str, operation_id: str) -> str:
        effect_type = "turn.user.replace_text" if target == "user" else "turn.assistant.replace_text"
        if (operation_id, effect_type) in self._refused:
            raise RunError("The store refused this write in the recorded run.")
        return super().rewrite(target, part, text, operation_id)


def _has_failed(report: CommitReport) -> bool:
    """Return True if the whole transaction failed. Then all effects are refused, even those that store nothing.

    A commit that stores only artifacts, all of which were refused, has the same form.
    """
    errors = [one.error for one in report.entries]
    return any(one is not None and one.code == ErrorCode.STORAGE for one in errors) and None not in errors


def _target(recorded: Run, snapshot: RunStarted) -> MemoryTarget:
    """Make a target with the artifacts at the start; a replay needs nothing else from a store."""
    reports = [CommitReport.from_dict(one) for one in recorded.reports]
    return _RecordedTarget(reports, session=snapshot.session_key, artifacts=snapshot.artifacts.values())


def _no_call(_: Turn) -> NoReturn:
    raise RunError("The run has no recorded reply, so it cannot be replayed. Run it again instead.")
