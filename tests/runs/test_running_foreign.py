"""A store written or changed by another program: its runs are shown, but nothing of them is executed."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from tests.review.scripted import ScriptedClient
from tests.runs.running import compute, errors
from tract_jupyter import Tract
from tract_jupyter.exceptions import RunError, StoreCorruptError, TrustError, UndecidedError
from tract_jupyter.runs import FUNCTIONS
from tract_jupyter.runs.profile import OperationProfile, run_operation

BEGUN = "UPDATE run_events SET data_json = replace(data_json, :old, :new) WHERE event_type = 'run.started'"
NEWEST = "tract_id IN (SELECT tract_id FROM run_events ORDER BY id DESC LIMIT 1)"
CHANGED = {
    "an operation": (BEGUN, '"harmless"', '"harmful"'),
    "arguments of one": (BEGUN, '"urls":["check"]', '"urls":["evil"]'),
    "options of the main call": (BEGUN, '"options":{}', '"options":{"model":"x"}'),
    "the signature": (BEGUN, '"signature"', '"turnId"'),
    "its tract": (BEGUN, '"tractId":"', '"tractId":"x'),
    "the run": (
        (
            "UPDATE run_events SET run_id = :new WHERE :old = '' AND tract_id IN (SELECT tract_id FROM run_events "
            "ORDER BY id DESC LIMIT 1)"
        ),
        "",
        "f" * 32,
    ),
}


@pytest.fixture
def waiting(tract, spec):
    """A tract whose run waits, with functions that record their calls."""
    tract.configure_llm(ScriptedClient("On the mat."))
    tract.register_operation(spec(unhandled="ask"))
    tract.user("Where is it?")
    tract.called = []
    for name in ("harmless", "harmful"):
        tract.functions.register(name)(lambda _context, _arguments: tract.called.append(1))
    with pytest.raises(UndecidedError):
        tract.generate(profile=OperationProfile.of("p", [
            run_operation("check", "dynamic", operation="citation_check", fields={"urls": ["check"]}, order=1),
            compute("harmless", order=2, after="check"),
        ]))  # fmt: skip
    return tract


def change(tract, statement, **values):
    with tract._repository.database.write() as connection:
        assert connection.execute(text(statement), values).rowcount


def refuses(tract):
    (run,) = tract.runs()
    events = tract.runs.events(run.run_id)
    with pytest.raises(
        RunError, match=r"is not resumed because you did not begin it: .*generate\(\) starts a new"
    ):
        tract.runs.resume(run.run_id)
    assert (tract.called, tract.llm.asked, tract.runs.events(run.run_id)) == ([], [], events)


@pytest.mark.parametrize("what", CHANGED)
def test_a_run_with_a_changed_start_event_is_not_resumed(waiting, what):
    """R13, R27: its data must be signed by this user, or nothing is executed."""
    for pending in waiting.review.inbox():
        waiting.operations.rebuild(pending).approve()
    statement, old, new = CHANGED[what]
    change(waiting, statement, old=old, new=new)
    refuses(waiting)


def test_a_run_of_another_user_is_not_resumed(waiting, data_dir):
    """R13: the same store with another secret."""
    (data_dir / "tract_jupyter" / "secret").write_bytes(b"another user's, of 32 bytes or more")
    refuses(waiting)


def test_a_run_that_cannot_be_signed_does_not_begin(tract, data_dir):
    """R13: nothing is recorded, counted or requested."""
    data_dir.write_text("no folder")
    tract.configure_llm(ScriptedClient("On the mat."))
    tract.user("Where is it?")
    with pytest.raises(TrustError, match="signing secret .* cannot be read"):
        tract.generate(profile=OperationProfile.of("p", [run_operation("x", order=1, text="x", into="tail")]))
    assert (tract.runs(), tract.llm.asked) == ([], [])


def test_a_replay_executes_nothing_that_has_no_result(tract):
    """R13: a forged run may have an end without results of its operations."""
    tract.configure_llm(ScriptedClient("On the mat."))
    tract.user("Where is it?")
    called = []
    FUNCTIONS.register("replayed_in_a_test", replace=True)(lambda _context, _arguments: called.append(1))
    run = tract.generate(profile=OperationProfile.of("p", [compute("replayed_in_a_test")])).run
    assert called == [1]
    change(
        tract,
        "UPDATE run_events SET event_type = 'operation.progress', data_json = :data "
        "WHERE event_type = 'operation.finished'",
        data='{"hook":"before_main_llm","operationId":"replayed_in_a_test"}',
    )
    with pytest.raises(RunError, match="no recorded result of 'replayed_in_a_test'"):
        tract.runs.replay(run.run_id)
    assert called == [1]


def test_a_changed_counter_in_the_store_is_reported_and_not_used(tmp_path):
    """X01, E24: states are found by their hash, so a changed counter or artifact is an error."""
    every = {"everyNTurns": 3, "everyNContextTokens": 10**6}
    profile = OperationProfile.of(
        "p", [run_operation("rare", order=1, text="x", into="tail", activation=every)]
    )
    with Tract.open(tmp_path / "t.db") as tract:
        tract.configure_llm(ScriptedClient("one", "two", "three"))
        tract.user("a")
        assert errors(tract.generate(profile=profile).run) == {"rare": "activation_not_reached"}
        change(tract, """UPDATE run_objects SET body_json = replace(body_json, '[1,', '["often",')""")
        tract.user("b")
        with pytest.raises(StoreCorruptError, match="reset to an earlier commit"):
            tract.generate(profile=profile)
        assert len(tract.llm.asked) == 1


@pytest.mark.parametrize(
    "kept",
    ["{}", '{"reply":{"text":"Believe me."},"replyCommit":"deadbeef"}', '{"reply":{"text":"Believe me."}}'],
)
def test_a_recorded_reply_without_its_commit_is_not_used(waiting, kept):
    """R13: a reply is recorded with its commit; a run does not continue with a forged record."""
    for pending in waiting.review.inbox():
        waiting.operations.rebuild(pending).approve()
    (run,) = waiting.runs()
    change(
        waiting,
        "INSERT INTO run_commits (tract_id, run_id, hook, report_json, created_at) "
        "VALUES (:mine, :run, 'main_llm', :kept, '2026-01-01T00:00:00.000000+00:00')",
        mine=waiting.tract_id, run=run.run_id, kept=kept,
    )  # fmt: skip
    with pytest.raises(StoreCorruptError, match="is damaged in the store, or its commit is missing"):
        waiting.runs.resume(run.run_id)
    assert (waiting.runs()[0].reply, waiting.llm.asked) == (None, [])


@pytest.mark.parametrize(
    "damage",
    [
        "data_json = '{' WHERE run_id = :run AND seq = 2",
        "created_at = '2020-01-01T00:00:00.000000' WHERE run_id = :run AND seq = 1",
        "created_at = '2020-01-01T00:00:00.000000' WHERE run_id = :run AND seq = (SELECT max(seq) FROM run_events WHERE run_id = :run)",
    ],
)
def test_a_damaged_run_does_not_hide_the_other_runs(waiting, damage):
    (damaged,) = waiting.runs()
    waiting.generate(profile=OperationProfile.of("p", [run_operation("a", order=1, text="x")]))
    change(waiting, f"UPDATE run_events SET {damage}", run=damaged.run_id)
    (other,) = waiting.runs()
    assert other.run_id != damaged.run_id
    with pytest.raises(StoreCorruptError):
        waiting.runs.get(damaged.run_id)
    assert damaged.run_id in str(waiting.verify())
