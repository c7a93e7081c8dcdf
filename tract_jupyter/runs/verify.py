"""Are the runs of a tract what they say they are? Each root hash is computed anew, each commit of a turn is read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from tract_jupyter.engine.verify import Damage
from tract_jupyter.exceptions import TractError
from tract_jupyter.models.rendering import text_of
from tract_jupyter.runs.history import History
from tract_jupyter.runs.log import read_events, unpacked
from tract_jupyter.runs.root_hash import is_root_of
from tract_jupyter.runs.store.states import damaged_states
from tract_jupyter.runs.terms import Hook, RunPhase
from tract_jupyter.storage.lenient import read_dict
from tract_jupyter.storage.run_objects import RunObjectRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection

    from tract_jupyter.runs.events import RunEvent
    from tract_jupyter.storage.commits import CommitRows
    from tract_jupyter.storage.database import Database
    from tract_jupyter.storage.run_commits import RunCommitRows
    from tract_jupyter.storage.run_events import RunEventRows, StoredRunEvent

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
        history = History.of(events)
        yield from _of_root(history, events)
    except TractError as error:
        yield str(error)
        return
    yield from _of_reports(history, reports)
    for name, text in _texts(history).items():
        yield from _of_commit(connection, commits, name, text)


def _of_root(history: History, events: Sequence[RunEvent]) -> Iterator[str]:
    end = history.end
    if end is not None and events[-1].data is not end:
        yield "it goes on after its end"
    if end is not None and not is_root_of(end.root_hash, events):
        yield "its events do not give its root hash; one of them was changed"


def _of_reports(history: History, reports: Reports) -> Iterator[str]:
    for hook, commit in history.commits.items():
        stored = reports.get((history.run_id, hook))
        if stored is not None and read_dict(stored) != commit.report:
            yield f"its report of {hook} is not the one that was stored with the effects"


def _texts(history: History) -> dict[str, str]:
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
        return  # `engine.verify` tells of it
    if entry is not None and text_of(json.loads(entry.payload)) != text:
        yield f"commit {name[:12]} does not hold the text that the run says"
