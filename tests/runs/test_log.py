"""The log of a run: numbered from 1, stored together, read back unchanged."""

from __future__ import annotations

import contextlib
import json
import signal
from contextlib import closing

import pytest
from pydantic import model_serializer
from sqlalchemy import text

from tests.runs.stories import AFTER, BEFORE, RUN, START, after, before, whole
from tests.statements import counted
from tract_jupyter.exceptions import ContentError, StoreCorruptError, StoreError, UnknownRunError
from tract_jupyter.runs import (
    MAX_PROGRESS,
    MAX_PROGRESS_EVENTS,
    MainFinished,
    MainReply,
    OperationProgress,
    PhaseChanged,
    RunLog,
    RunPhase,
    RunStarted,
    load,
    project,
)
from tract_jupyter.storage import Database, RunEventRows

TRACT = "1" * 32


@pytest.fixture
def database(store_url):
    with closing(Database(url=store_url)) as database:
        yield database


@pytest.fixture
def rows():
    return RunEventRows(TRACT)


@pytest.fixture
def log(database, rows):
    return RunLog(database, rows, RUN, clock=lambda: START)


def fill(log, told):
    return [log.add(data) for data in told]


def test_added_events_are_read_back_unchanged(database, rows, log):
    """E15: each event has its number, from 1."""
    added = fill(log, [*before(), *after(), whole()[-1].data])
    assert [one.seq for one in added] == list(range(1, len(added) + 1))
    log.flush()
    found = load(database, rows, RUN)
    assert found == added == list(log.events)
    assert project(found) == project(added)


def test_nothing_is_stored_before_the_flush_and_nothing_twice(database, rows, log):
    """R59: a result with its effects is stored before the commit, with all earlier events."""
    fill(log, before())
    with pytest.raises(UnknownRunError, match="This tract has no run"):
        load(database, rows, RUN)
    log.flush()
    log.flush()
    fill(log, after())
    log.flush()
    assert len(load(database, rows, RUN)) == len(before()) + len(after())


def test_the_number_of_statements_does_not_depend_on_the_number_of_events(log):
    """The events are one prepared statement, which is not counted. There are no others."""
    fill(log, before())
    with counted() as statements:
        log.flush()
    assert statements == []


def test_a_resumed_log_continues_after_its_last_event(database, rows, log):
    """E15: the numbers continue, too."""
    fill(log, before())
    log.flush()
    resumed = RunLog(database, rows, RUN, load(database, rows, RUN))
    assert resumed.add(PhaseChanged(phase=RunPhase.AFTER)).seq == len(before()) + 1
    resumed.flush()
    assert [one.seq for one in load(database, rows, RUN)] == list(range(1, len(before()) + 2))


def test_two_processes_cannot_both_write_it(database, rows, log):
    """R13: the second process is refused, and changes nothing."""
    fill(log, before()[:2])
    log.flush()
    other = RunLog(database, rows, RUN, load(database, rows, RUN))
    for one in (log, other):
        one.add(PhaseChanged(phase=RunPhase.BARRIER))
    log.flush()
    with pytest.raises(StoreError, match="has an event 3 already: it continues in another process"):
        other.flush()
    assert len(load(database, rows, RUN)) == 3


def test_events_of_a_rolled_back_transaction_are_stored_with_the_next_flush(database, rows, log):
    """R59: a failed transaction loses no event of the log."""
    log.add(before()[0])
    log.flush()
    log.add(PhaseChanged(phase=RunPhase.COMMIT_BEFORE))
    with contextlib.suppress(ZeroDivisionError), database.write():
        log.flush()
        raise ZeroDivisionError
    assert len(load(database, rows, RUN)) == 1
    log.add(PhaseChanged(phase=RunPhase.MAIN_LLM))
    log.flush()
    assert [one.data for one in load(database, rows, RUN)][1:] == [
        PhaseChanged(phase=RunPhase.COMMIT_BEFORE), PhaseChanged(phase=RunPhase.MAIN_LLM),
    ]  # fmt: skip


def test_a_watcher_sees_events_at_once_and_its_errors_are_ignored(database, rows):
    """R53: an exception of an observer is dropped."""
    seen = []

    def watch(one):
        seen.append(one)
        raise ZeroDivisionError

    log = RunLog(database, rows, RUN, on_event=watch)
    added = fill(log, before())
    assert seen == added


def progress(data, hook=BEFORE):
    return OperationProgress(operation_id="world", hook=hook, data=data)


def test_progress_is_bounded(log):
    """R57: progress reports of an operation are limited in size and number."""
    fill(log, before())
    long = {"percent": 1.5, "tokens": 3, "text": "x" * MAX_PROGRESS, "rate": float("inf")}
    assert log.add(progress(long)).data.data == {"percent": 1.5, "tokens": 3, "leftOut": True}
    assert log.add(progress({"text": "\ud800"})).data.data == {"leftOut": True}
    told = [log.add(progress({"n": n})) for n in range(MAX_PROGRESS_EVENTS)]
    assert None in told
    assert [one.type for one in log.events].count("operation.progress") == MAX_PROGRESS_EVENTS
    assert log.add(progress({}, AFTER)) is not None
    assert log.add(PhaseChanged(phase=RunPhase.BARRIER)).seq == len(log.events)


@pytest.mark.parametrize("value", ["\ud800", {"n": float("nan")}, object()])
def test_an_event_without_json_form_is_refused_and_leaves_no_gap(log, value):
    """R54: the caller turns it into an error."""
    log.add(before()[0])
    with pytest.raises(ContentError):
        log.add(MainFinished(reply=MainReply(usage={"value": value})))
    assert log.add(MainFinished(reply=MainReply())).seq == 2


def test_a_later_change_of_the_given_data_does_not_change_a_stored_event(log):
    """R57: the stored data is a copy."""
    settings = {"model": "m"}
    first = log.add(RunStarted(trigger="generate", settings=settings))
    log.flush()
    settings["model"] = "other"
    assert load(log._database, log._rows, RUN)[0].data.settings == {"model": "m"}
    assert first.seq == 1


# --- listing


def test_the_newest_run_comes_first(database, rows):
    """R15: with its first and last event, in one statement for any number of runs."""
    for number in range(4):
        log = RunLog(database, rows, f"{number:032}")
        fill(log, before())
        log.flush()
    other = RunLog(database, RunEventRows("2" * 32), "f" * 32)
    fill(other, before())
    other.flush()
    with database.read() as connection, counted() as statements:
        listed = rows.newest(connection, 3)
        everything = rows.newest(connection)
    assert [(first.run_id[-1], first.seq, last.seq) for first, last in listed] == [
        (str(number), 1, len(before())) for number in (3, 2, 1)
    ]
    assert len(everything) == 4
    assert len(statements) == 2


# --- refusals


def change(database, statement, **values):
    with database.write() as connection:
        connection.execute(text(statement), values)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("data_json", "{", "Event 2 .* is damaged"),
        ("data_json", "[]", "Event 2 .* is damaged"),
        ("data_json", '{"phase":"tea"}', "phase.*Restore a backup"),
        ("data_json", '{"phase":"planning","more":1}', "more"),
        ("event_type", "run.danced", "is damaged"),
        ("created_at", "yesterday", "is damaged"),
        ("created_at", "2020-01-01T00:00:00.000000", "is damaged: .* has no time zone"),
    ],
)
def test_a_damaged_event_is_recognised(database, rows, log, column, value, message):
    """R57: it is an error, and never another run."""
    fill(log, before())
    log.flush()
    change(database, f"UPDATE run_events SET {column} = :value WHERE seq = 2", value=value)
    with pytest.raises(StoreCorruptError, match=message):
        load(database, rows, RUN)


def test_a_gap_is_recognised(database, rows, log):
    """E15: numbers have no gaps."""
    fill(log, before())
    log.flush()
    change(database, "DELETE FROM run_events WHERE seq = 3")
    with pytest.raises(StoreCorruptError, match="Event 3 of run .* is missing"):
        load(database, rows, RUN)


def test_a_run_of_a_newer_version_is_not_guessed_at(database, rows, log):
    """R57: the shape of events has a version."""
    fill(log, before())
    log.flush()
    newer = '{"trigger":"generate","version":2}'
    change(database, "UPDATE run_events SET data_json = :newer WHERE seq = 1", newer=newer)
    with pytest.raises(StoreCorruptError, match="format version 2; .*Upgrade"):
        load(database, rows, RUN)


@pytest.mark.parametrize("field", ["event_type", "data_json"])
def test_control_characters_in_a_damaged_event_do_not_reach_the_terminal(database, rows, log, field):
    """R15: these texts come from an untrusted writer of the store."""
    fill(log, before()[:1])
    log.flush()
    hostile = {"event_type": "\x1b[2J", "data_json": json.dumps({"trigger": "generate", "\x1b[2J": 1})}[field]
    with database.write() as connection:
        connection.execute(text(f"UPDATE run_events SET {field} = :hostile"), {"hostile": hostile})
    with pytest.raises(StoreCorruptError) as caught:
        load(database, rows, RUN)
    assert "is damaged" in str(caught.value)
    assert str(caught.value).isprintable()


class Interrupted(PhaseChanged):
    """An event that is interrupted during its serialization."""

    @model_serializer(mode="plain")
    def _interrupt(self):
        signal.raise_signal(signal.SIGINT)
        return {"phase": "barrier"}


def test_an_interrupt_during_the_serialization_is_not_an_error_of_the_event(log):
    with pytest.raises(KeyboardInterrupt):
        log.add(Interrupted(phase=RunPhase.BARRIER))
    assert log.events == ()
    log.add(PhaseChanged(phase=RunPhase.BARRIER))
    assert len(log.events) == 1
