"""A run is the projection of its events; a log may end at any event."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runs.stories import (
    ADDED,
    AFTER,
    BEFORE,
    SKIPPED_BY_ABORT,
    START,
    USER,
    aborted,
    before,
    numbered,
    whole,
)
from tract_jupyter.exceptions import UnknownRunError
from tract_jupyter.runs import (
    OperationResult,
    OperationStatus,
    Run,
    RunHistory,
    RunPhase,
    RunResumed,
    RunStatus,
    in_order,
    project,
)


def test_a_run_that_ended():
    """R15, E12: statuses, prompts, reports and the reply of a run are recorded."""
    run = project(whole())
    assert (run.status, run.failed_type, run.phase, run.finish_reason) == (
        "done",
        None,
        RunPhase.FINISHED,
        "completed",
    )
    assert (run.trigger, run.branch, run.profile) == ("generate", "main", "p")
    assert run.started_at == START
    assert run.finished_at == whole()[-1].at
    assert run.plain_prompt == (USER,)
    assert run.prompt == (USER, ADDED)
    assert run.reply == "In Rome."
    assert [report["hook"] for report in run.reports] == [BEFORE, AFTER]
    assert run.user_commit == "c" * 64
    assert len(run.root_hash) == 64
    assert Run.from_dict(run.to_dict()) == run


def test_each_operation_leaves_a_log():
    """R56, G29: name, times, duration, attempts and error; an operation that never ran has no times."""
    world, guarded, asked, polish, late = project(whole()).operations
    assert (world.operation_id, world.name, world.kind, world.hook, world.trigger) == (
        "world", "World", "template", BEFORE, "generate",
    )  # fmt: skip
    assert (world.started_at, world.finished_at, world.duration_ms, world.attempts) == (
        100.0,
        100.25,
        250.0,
        2,
    )
    assert (guarded.status, guarded.skipped_reason, guarded.started_at, guarded.duration_ms) == (
        "skipped", "condition_false", None, 0,
    )  # fmt: skip
    assert guarded.depends_on == ("world",)
    assert (asked.status, polish.hook) == ("done", AFTER)
    assert (late.status, late.error_code, late.error_message) == ("error", "timeout", "it took 3 s")


def test_every_operation_of_a_run_that_ended_early_is_listed():
    """E13: running operations are aborted, unstarted operations are skipped."""
    listed = {(one.operation_id, one.status, one.skipped_reason) for one in project(aborted()).operations}
    assert listed == {
        ("world", "aborted", None), ("asked", "aborted", None), ("guarded", "skipped", SKIPPED_BY_ABORT),
        ("polish", "skipped", SKIPPED_BY_ABORT), ("late", "skipped", SKIPPED_BY_ABORT),
    }  # fmt: skip


@pytest.mark.parametrize("length", range(1, len(whole()) + 1))
def test_a_log_that_was_cut_off_anywhere(length):
    """R15: without an end event, a run is running or waiting, and ended operations keep their end."""
    events = whole()[:length]
    run, left = project(events), RunHistory.of(events)
    assert (run.status in {RunStatus.RUNNING, RunStatus.WAITING}) is (length < len(whole()))
    assert (left.end is not None) is (length == len(whole()))
    ended = [event.data.operation_id for event in events if event.type == "operation.finished"]
    assert [name for hook in (BEFORE, AFTER) for name in left.results(hook)] == ended
    assert [one.operation_id for one in run.operations if one.status != OperationStatus.WAITING] == sorted(
        ended, key=["world", "guarded", "asked", "polish", "late"].index
    )


@given(st.data())
def test_events_may_come_late_twice_and_in_any_order(data):
    """E15: clients sort and de-duplicate events by run and number."""
    told = before()
    told = [told[0], *data.draw(st.lists(st.sampled_from(told[1:]), max_size=12))]
    events = numbered(told)
    shuffled = [*events, *data.draw(st.lists(st.sampled_from(events), max_size=5))]
    random.Random(data.draw(st.integers(0, 99))).shuffle(shuffled)
    assert in_order(shuffled) == events
    assert project(shuffled) == project(events)
    assert RunHistory.of(shuffled) == RunHistory.of(events)


def test_a_run_that_waits_for_a_person():
    """R15: it waits if no other operation runs; its requests are known after a restart, too."""
    told = before()
    waiting = project(numbered(told[:9]))
    assert waiting.status == RunStatus.WAITING
    assert [(one.operation_id, one.status) for one in waiting.operations] == [
        ("world", "done"), ("guarded", "skipped"), ("asked", "waiting"),
    ]  # fmt: skip
    for events in (told[:9], told[:10], [*told[:9], RunResumed(), RunResumed()]):
        left = RunHistory.of(numbered(events))
        assert (left.pendings(BEFORE), left.pendings(AFTER)) == ({"asked": "p" * 32}, {})
    assert project(numbered(told[:10])).status == RunStatus.RUNNING
    assert project(numbered([*told[:8], told[2], told[8]])).status == RunStatus.RUNNING  # another runs


def test_a_run_history_has_the_state_that_a_resume_needs():
    """R13: results, commits and the main call, so that nothing is repeated."""
    left = RunHistory.of(numbered(before()))
    assert left.results(BEFORE)["world"].effects
    assert left.results(AFTER) == {}
    assert set(left.commits) == {BEFORE}
    assert left.main.reply.text == "In Rome"
    assert (left.snapshot.seed, left.run_id) == (7, "a" * 32)
    cut = RunHistory.of(numbered(before()[:-1]))
    assert cut.main_started is not None
    assert cut.main is None


def test_without_its_beginning_nothing_is_known():
    for events in ([], whole()[1:]):
        with pytest.raises(UnknownRunError, match="The first event of the run is missing"):
            project(events)


def test_an_event_as_json():
    event = whole()[6]
    assert event.to_dict()["type"] == "operation.finished"
    assert (event.to_dict()["runId"], event.to_dict()["seq"]) == ("a" * 32, 7)
    assert OperationResult.from_dict(event.to_dict()["result"]) == event.data.result
