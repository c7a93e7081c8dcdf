"""The root hash of a run: sha256 over all that a replay must give again, and nothing that differs by itself.

It covers the trigger, the compiled operations, the prompt without operations, every result (status, effects, reasons,
codes, blockers), commits, the prompt that was sent, the reply, the artifacts that were written, and how it ended. It
leaves out times, ids (of the run, commits, pendings, messages), texts of errors, usage and what is left for debugging.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.context.verify import Damage, verify
from tract_jupyter.exceptions import StoreError, TractError
from tract_jupyter.models.canonical import canonical_json, digest
from tract_jupyter.models.content import text_of
from tract_jupyter.runs.log import read_events, unpacked
from tract_jupyter.runs.projection import RunHistory
from tract_jupyter.runs.store import damaged_states
from tract_jupyter.runs.terms import Hook, RunPhase
from tract_jupyter.storage.errors import read_dict
from tract_jupyter.storage.journal import RunEventRows
from tract_jupyter.storage.runs import RunCommitRows, RunObjectRows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import Connection

    from tract_jupyter.context.repository import Repository
    from tract_jupyter.runs.events import (
        CommitFinished,
        OperationFinished,
        RunEvent,
        RunFinished,
        RunStarted,
    )
    from tract_jupyter.runs.model import MainReply, RunMessage
    from tract_jupyter.storage.commits import CommitRows
    from tract_jupyter.storage.database import Database
    from tract_jupyter.storage.journal import StoredRunEvent


_VERSION: Final = 2
_LISTED: Final = 1
"""The version of stores before version 6: operations and their sets as they were listed, and no blockers."""
_SETS: Final = frozenset({"dependsOn", "hooks", "triggers", "runConditions"})
"""Of an operation's configuration: in which order they are listed means nothing."""


def root_hash(events: Iterable[RunEvent], end: RunFinished | None = None) -> str:
    """The root hash, as 64 hex digits.

    Args:
        events: of the run.
        end: how it ends, if the events do not tell yet.

    Raises:
        UnknownRunError: the beginning is missing.
        ContentError: something has no JSON form.
    """
    return digest(covered(events, end))


def is_root_of(root: str | None, events: Sequence[RunEvent]) -> bool:
    """Whether a root hash is that of a run, in the form of today or in that of older stores.

    Raises:
        UnknownRunError, ContentError: as of `root_hash`.
    """
    return any(root == digest(covered(events, version=version)) for version in (_VERSION, _LISTED))


def sealed(events: Iterable[RunEvent], end: RunFinished) -> RunFinished:
    """The end of a run with its root hash: the last event to add.

    Raises:
        ContentError: something has no JSON form.
    """
    return end.model_copy(update={"root_hash": root_hash(events, end)})


def differences(one: Iterable[RunEvent], other: Iterable[RunEvent]) -> list[str]:
    """In which parts two runs differ, such as `results.before_main_llm.world`; none if their root hashes are equal."""
    return list(_differing(covered(one), covered(other), ""))


def covered(
    events: Iterable[RunEvent], end: RunFinished | None = None, version: int = _VERSION
) -> dict[str, Any]:
    """What the hash is made of, as JSON."""
    history = RunHistory.of(events)
    is_listed = version == _LISTED
    end = end or history.end
    snapshot, sent, main = history.snapshot, history.main_started, history.main
    return {
        "version": version,
        "trigger": snapshot.trigger,
        "mode": snapshot.mode,
        "operations": [one.to_dict() for one in snapshot.operations] if is_listed else _operations(snapshot),
        "plainPrompt": _messages(snapshot.plain_prompt),
        "results": {
            hook: {
                name: _result(ended) if is_listed else {**_result(ended), **_blockers(ended)}
                for (at, name), ended in history.ended.items()
                if at is hook
            }
            for hook in Hook
        },
        "commits": {hook: _commit(commit) for hook, commit in history.commits.items()},
        "prompt": None if sent is None else _messages(sent.prompt),
        "main": None if main is None else _main(main.reply),
        "reply": history.reply,
        "status": None if end is None else end.status,
        "failedType": None if end is None else end.failed_type,
    }


def _messages(messages: Sequence[RunMessage]) -> list[dict[str, Any]]:
    return [{name: value for name, value in one.form().items() if name != "key"} for one in messages]


def _operations(snapshot: RunStarted) -> list[dict[str, Any]]:
    """The operations by id, however their sets were listed."""
    told = [one.form() for one in sorted(snapshot.operations, key=lambda one: one.id)]
    return [
        {**one, "config": {name: _sorted(name, value) for name, value in one["config"].items()}}
        for one in told
    ]


def _sorted(name: str, value: Any) -> Any:
    return sorted(value, key=canonical_json) if name in _SETS and len(value) > 1 else value


def _result(ended: OperationFinished) -> dict[str, Any]:
    result, skip = ended.result, ended.result.skip
    return {
        "status": result.status,
        "required": result.required,
        "effects": ended.form()["result"].get("effects", []),
        "error": None if result.error is None else result.error.code,
        "skip": None if skip is None else [skip.reason, skip.dep],
    }


def _blockers(ended: OperationFinished) -> dict[str, Any]:
    result, skip = ended.result, ended.result.skip
    details = skip.to_dict() if skip is not None else result.error.details if result.error is not None else {}
    blocked_by = (details or {}).get("blockedBy")
    return {"blockedBy": blocked_by} if blocked_by else {}


def _commit(commit: CommitFinished) -> dict[str, Any]:
    return {
        "entries": [_entry(entry) for entry in commit.report.get("entries", [])],
        "rewrites": [_rewrite(rewrite) for rewrite in commit.report.get("rewrites", [])],
        "artifacts": commit.form().get("artifacts", {}),
    }


def _main(reply: MainReply) -> dict[str, Any]:
    error = None if reply.error is None else reply.error.code
    return {"text": reply.text, "finishReason": reply.finish_reason, "error": error}


def _entry(entry: dict[str, Any]) -> dict[str, Any]:
    told = {key: entry.get(key) for key in ("operationId", "effectIndex", "effectType", "status")}
    return {**told, "error": (entry.get("error") or {}).get("code")}


def _rewrite(rewrite: dict[str, Any]) -> dict[str, Any]:
    return {key: rewrite.get(key) for key in ("operationId", "target", "before", "after")}


def _differing(one: Any, other: Any, where: str) -> Iterable[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            yield from _differing(one.get(key), other.get(key), f"{where}.{key}" if where else str(key))
    elif one != other:
        yield where


Reports = dict[tuple[str, str], str]
"""The reports that were stored with their effects, by run and hook."""


class RunRoot(NamedTuple):
    """How a run ended, and its root hash; `running`, and None, if it did not."""

    run_id: str
    status: str
    root_hash: str | None


def verify_runs(
    database: Database, rows: RunEventRows, commit_rows: RunCommitRows, commits: CommitRows
) -> list[Damage]:
    """Everything that is damaged in the runs of a tract, or in what they remember; empty if all is well. Reads only.

    A commit of a turn that `gc` has removed is no damage.

    Raises:
        StoreError: the store cannot be read.
    """
    found: list[Damage] = []
    with database.read() as connection:
        reports = {(row.run_id, row.hook): row.report_json for row in commit_rows.all(connection)}
        for run_id, stored in list(rows.by_run(connection)):
            where = f"run {run_id}"
            problems = _of_run(connection, commits, rows, stored, reports)
            found += [Damage(where, problem) for problem in problems]
            for step in (*Hook, RunPhase.MAIN_LLM):
                reports.pop((run_id, step), None)
        states = damaged_states(RunObjectRows(rows.tract_id), connection)
        found += [Damage(commit_hash, problem) for commit_hash, problem in states]
    return found + [
        Damage(f"run {run_id}", f"it has committed at {hook}, and has no events") for run_id, hook in reports
    ]


def verify_tract(repository: Repository) -> list[Damage]:
    """Return everything that is damaged in a tract, its runs and its database; an empty list if all is well."""
    database, rows = repository.database, repository.rows
    events, reports = RunEventRows(repository.tract_id), RunCommitRows(repository.tract_id)
    found = verify(database, rows, repository.ref_rows)
    try:
        return found + verify_runs(database, events, reports, rows)
    except StoreError as error:
        if not found:
            raise
        return [*found, Damage(database.location, str(error))]  # what could be read is told


def run_roots(database: Database, rows: RunEventRows) -> list[RunRoot]:
    """The root hash of each run, the oldest first, as it was stored: `verify_runs` tells whether it holds.

    Raises:
        StoreError: the store cannot be read.
    """
    with database.read() as connection:
        newest = rows.newest(connection)
    return [_root(last) for _, last in reversed(newest)]


def _root(last: StoredRunEvent) -> RunRoot:
    end = read_dict(last.data_json) if last.event_type == "run.finished" else {}
    return RunRoot(last.run_id, str(end.get("status", "running")), end.get("rootHash"))


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
        yield "it goes on after its end"
    if end is not None and not is_root_of(end.root_hash, events):
        yield "its events do not give its root hash; one of them was changed"


def _of_reports(history: RunHistory, reports: Reports) -> Iterator[str]:
    for hook, commit in history.commits.items():
        stored = reports.get((history.run_id, hook))
        if stored is not None and read_dict(stored) != commit.report:
            yield f"its report of {hook} is not the one that was stored with the effects"


def _texts(history: RunHistory) -> dict[str, str]:
    """What each commit of the turn must say."""
    main = history.main
    found: dict[str, str] = {}
    if main is not None and main.reply_commit is not None:
        found[main.reply_commit] = main.reply.text
    for hook in Hook:
        for rewrite in (*history.rewrites(hook, "user"), *history.rewrites(hook, "reply")):
            if rewrite.get("part"):
                found[str(rewrite["part"])] = str(rewrite.get("after"))
    return found


def _of_commit(connection: Connection, commits: CommitRows, name: str, text: str) -> Iterator[str]:
    try:
        entry = commits.get(connection, name)
    except TractError:
        return  # `context.verify` tells of it
    if entry is not None and text_of(json.loads(entry.payload)) != text:
        yield f"commit {name[:12]} does not hold the text that the run says"
