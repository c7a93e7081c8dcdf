"""The gate: equal rows for all channels, the decider, locked stores and rollbacks."""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import replace

import pytest

from tests.review.fakes import FakeChannel, click
from tests.review.rigging import add_writer, call, in_the_inbox_of, last_note, press
from tract_jupyter import Tract
from tract_jupyter.exceptions import (
    DecidedFirstError,
    ParameterError,
    PendingStateError,
    StoreError,
    StoreLockedError,
)
from tract_jupyter.models import PendingStatus
from tract_jupyter.operations import ActionDef
from tract_jupyter.review import Ledger, current_person, deciding
from tract_jupyter.toolkit import Permission, ToolDefinition, Traits

ACTIONS = {
    "verify": ActionDef("verify", "", {"n": "int"}, "pending.fields['n'] = n\npending.approve()"),
    "turn_down": ActionDef("turn_down", "", {}, "pending.reject('by code')"),
    "other": ActionDef("other", "", {}, "pending.tract.fire('citation_check', review=True).approve()"),
}


@pytest.fixture
def fire(tract, spec):
    """Fire an operation with one field."""
    tract.register_operation(spec(fields={"n": {"type": "int", "default": 0}}, actions=ACTIONS))
    tract.reviewer.channel = FakeChannel()
    return lambda n=0, **more: tract.fire("citation_check", {"n": n}, review=True, **more)


def clicked(pending, action, arguments):
    press(pending.tract, pending.tract.reviewer.show(pending), action, **arguments)


FOUR_WAYS = {
    "code": lambda p, action, arguments: getattr(p, action)(**arguments),
    "dict": lambda p, action, arguments: p.apply_decision({"action": action, "args": arguments}),
    "tool": lambda p, action, arguments: p.execute_tool(action, arguments),
    "fake": clicked,
}


def rows(tract, pending):
    return tract.reviewer.ledger.decisions(pending.pending_id)


@pytest.mark.parametrize(
    ("action", "arguments"),
    [("approve", {}), ("approve", {"edits": {"n": 5}}), ("reject", {"reason": "no"}), ("verify", {"n": 3}),
     ("turn_down", {})],
)  # fmt: skip
@pytest.mark.parametrize("execute_fn", [None, lambda p: p.fields["n"]])
def test_four_channels_write_the_same_row_except_channel_and_time(tract, fire, action, arguments, execute_fn):
    made, ended = [], []
    for channel, decide in FOUR_WAYS.items():
        pending = fire(execute_fn=execute_fn)
        decide(pending, action, arguments)
        (row,) = rows(tract, pending)
        assert (row.channel, row.decided_by, row.error) == (channel, current_person(), None)
        assert row.finished_at is not None
        made.append((row.action, row.arguments, row.reason, row.fingerprint, row.identity))
        ended.append((pending.status, pending.fields, pending.result, pending.rejection_reason))
    assert made == [made[0]] * 4
    assert ended == [ended[0]] * 4
    assert made[0][:3] == (action, arguments, arguments.get("reason", ""))


def test_the_recorded_fingerprint_covers_the_edited_fields(tract, fire):
    pending = fire()
    pending.approve(edits={"n": 5})
    (row,) = rows(tract, pending)
    assert row.fingerprint == pending.fingerprint == fire(5).fingerprint
    assert row.identity == fire(0).identity


@pytest.mark.parametrize("name", ["edits", "scope", "uses", "pattern"])
def test_an_action_may_have_arguments_of_the_names_that_an_approval_has(tract, spec, name):
    own = ActionDef("own", "", {name: "Any"}, f"pending.fields['n'] += {name}['n']\npending.approve()")
    tract.register_operation(spec(fields={"n": {"type": "int", "default": 1}}, actions={"own": own}))
    pending = tract.fire("citation_check", review=True)
    tools = {tool["function"]["name"]: tool["function"]["parameters"] for tool in pending.to_tools()}
    assert name in tools["own"]["properties"]
    assert "properties" not in tools["own"]["properties"][name]  # it is unrelated to the fields
    pending.own({"n": 5})
    (row,) = rows(tract, pending)
    assert (pending.fields, row.arguments, tract.review.grants.all()) == ({"n": 6}, {name: {"n": 5}}, [])


@pytest.mark.parametrize("edits", [{"n": "x"}, {"m": 1}, {"n": None}, {"n": True}])
def test_edits_that_do_not_fit_decide_nothing(tract, fire, edits):
    pending = fire()
    with pytest.raises(ParameterError):
        pending.approve(edits=edits)
    assert (pending.status, pending.fields, rows(tract, pending)) == ("pending", {"n": 0}, [])


def test_a_pending_without_fields_cannot_be_edited(tract, spec):
    with pytest.raises(ParameterError, match="'edits' is unknown"):
        tract.propose_operation(spec()).approve(edits={"spec": "x"})
    tract.register_operation(spec(fields={}))
    with pytest.raises(ParameterError):
        tract.fire("citation_check", review=True).approve(edits={"n": 1})


# --- who decided


def test_a_decision_by_a_handler_is_recorded_with_its_name(tract, fire):
    tract.on("citation_check", lambda p: p.reject("no"), name="guard")
    (row,) = rows(tract, tract.fire("citation_check"))
    assert (row.action, row.channel, row.decided_by, row.reason) == (
        "reject",
        "handler",
        "handler:guard",
        "no",
    )


def test_a_pending_without_a_handler_is_approved_automatically(tract, fire):
    (row,) = rows(tract, tract.fire("citation_check"))
    assert (row.action, row.channel, row.decided_by) == ("approve", "automatic", "nobody")


def test_a_decision_by_code_of_a_clicked_action_is_recorded_as_code(tract, fire):
    pending = fire()
    clicked(pending, "other", {})
    assert last_note(tract) == ""
    inner, outer = tract.events("decision")
    assert (outer.data["channel"], inner.data["channel"], inner.actor) == ("fake", "code", current_person())


@pytest.mark.parametrize(("channel", "by"), [("handler", "handler:h"), ("dict", "me"), ("model", "model:m")])
def test_nested_decisions_are_attributed_to_the_deciding_handler_or_model(tract, fire, channel, by):
    with deciding(channel, by):
        fire().other()
    assert [event.data["channel"] for event in tract.events("decision")] == [channel] * 2


def test_a_decision_by_code_of_an_automatic_approval_is_recorded_as_code(tract, fire):
    tract.fire("citation_check", execute_fn=lambda p: fire().approve())
    inner, outer = tract.events("decision")
    assert (outer.data["channel"], inner.data["channel"]) == ("automatic", "code")


# --- changes after the request


def test_a_tool_that_was_replaced_does_not_run(tract, ran):
    add_writer(tract, ran)

    def replace(ticket):
        def write(path: str, n: int = 0) -> str:
            """Write a file."""
            ran.append("replaced")
            return "other"

        tract.executor._fixed["write"] = ToolDefinition.from_function(write, traits=Traits(destructive=True))
        click(ticket, "approve")

    result = call(tract, replace, lambda ticket: click(ticket, "reject", reason="changed"))
    assert (result.denied, ran) == (True, [])
    assert any("was changed or removed since" in note for note in tract.reviewer.channel.notes)


def test_an_approved_call_does_not_run_if_permission_was_removed(tract, ran):
    add_writer(tract, ran)

    def forbid(ticket):
        tract.executor.permission = lambda tool, actor: Permission.DENY
        click(ticket, "approve")

    assert call(tract, forbid, lambda ticket: click(ticket, "reject")).denied
    assert ran == []
    assert any("has no permission to call" in note for note in tract.reviewer.channel.notes)


def test_the_tool_of_an_operation_is_another_one_when_its_code_is(tract, fire, spec):
    before = tract.executor.get("fire_citation_check").definition_hash
    tract.propose_operation(spec("pass", fields={"n": {"type": "int", "default": 0}})).approve()
    assert tract.executor.get("fire_citation_check").definition_hash != before


# --- concurrent decisions, locked stores, rollbacks


def test_a_second_thread_cannot_decide_a_running_pending(tract, fire):
    entered, go_on, ran = threading.Event(), threading.Event(), []

    def execute(pending):
        ran.append(pending)
        entered.set()
        assert go_on.wait(60)

    pending = fire(execute_fn=execute)
    thread = threading.Thread(target=pending.approve)
    thread.start()
    assert entered.wait(60)
    with pytest.raises(DecidedFirstError, match="another thread"):
        pending.reject()
    go_on.set()
    thread.join()
    with pytest.raises(PendingStateError):
        pending.approve()
    assert (ran, len(rows(tract, pending))) == ([pending], 1)


@pytest.fixture
def on_disk(tmp_path, spec):
    with Tract.open(tmp_path / "t.db", lock_timeout=0.05) as t:
        t.register_operation(spec(fields={"n": {"type": "int", "default": 0}}, actions=ACTIONS))
        yield t


def test_a_locked_store_leaves_it_undecided(on_disk, ran):
    pending = on_disk.fire("citation_check", review=True, execute_fn=ran.append)
    on_disk.reviewer.keep(pending)
    other = sqlite3.connect(on_disk.location, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreLockedError):
        pending.approve(edits={"n": 5})
    assert (ran, pending.status, pending.fields, pending.decision) == ([], "pending", {"n": 0}, None)
    other.execute("ROLLBACK")
    other.close()
    pending.approve()
    assert ran == [pending]


def failing_once(monkeypatch, step):
    real = getattr(Ledger, step)

    def fail(*args, **kwargs):
        monkeypatch.setattr(Ledger, step, real)
        raise StoreLockedError("locked just then")

    monkeypatch.setattr(Ledger, step, fail)


def test_a_locked_store_before_the_start_allows_a_retry(tract, fire, monkeypatch, ran):
    pending = fire(execute_fn=ran.append)
    failing_once(monkeypatch, "begin")
    with pytest.raises(StoreLockedError):
        pending.approve()
    assert ran == []
    pending.approve()
    assert (ran, pending.status, tract.review.inbox()) == ([pending], "approved", [])


def test_a_locked_store_after_the_run_reports_that_it_ran(tract, fire, monkeypatch, ran):
    pending = fire(execute_fn=ran.append)
    failing_once(monkeypatch, "finish")
    with pytest.raises(StoreLockedError, match="was carried out, but its outcome could not be stored"):
        pending.approve()
    assert (ran, pending.status, len(tract.review.inbox())) == ([pending], "approved", 1)


def test_a_failed_operation_with_an_unstored_end_does_not_run_again(tract, fire, monkeypatch, ran):
    pending = fire(execute_fn=lambda p: ran.append(p) or 1 / 0)
    failing_once(monkeypatch, "finish")
    with pytest.raises(StoreLockedError):
        pending.approve()
    with pytest.raises(DecidedFirstError):
        pending.approve()
    assert ran == [pending]


def test_an_operation_rejected_by_another_process_before_its_start_does_not_run(on_disk, monkeypatch, ran):
    pending = on_disk.fire("citation_check", review=True, execute_fn=ran.append)
    on_disk.reviewer.keep(pending)
    with Tract.open(on_disk.location) as other:
        begin = Ledger.begin

        def taken_over(ledger, *about, **options):
            monkeypatch.setattr(Ledger, "begin", begin)
            other.operations.rebuild(other.review.inbox()[0]).reject("not this one")
            return begin(ledger, *about, **options)

        monkeypatch.setattr(Ledger, "begin", taken_over)
        with pytest.raises(DecidedFirstError):
            pending.approve()
    assert ran == []
    assert [row.action for row in rows(on_disk, pending)] == ["approve", "reject"]


def test_the_second_of_two_decisions_gives_no_standing_approval(on_disk):
    pending = on_disk.fire("citation_check", review=True)
    on_disk.reviewer.keep(pending)
    with Tract.open(on_disk.location) as other:
        other.operations.rebuild(other.review.inbox()[0]).reject()
        with pytest.raises(DecidedFirstError):
            pending.approve(scope="always")
        assert other.review.grants.all() == []


def test_values_that_another_process_changed_are_looked_at_before_they_are_approved(on_disk):
    bump = ActionDef("bump", "", {}, "pending.fields['n'] += 1")
    on_disk.propose_operation(spec_with(on_disk, bump)).approve()
    pending = on_disk.fire("citation_check", review=True)
    on_disk.reviewer.keep(pending)
    with Tract.open(on_disk.location) as other:
        other.operations.rebuild(other.review.inbox()[0]).bump()
        with pytest.raises(DecidedFirstError, match="chose 'bump'"):
            pending.approve()
    assert (pending.status, pending.fields) == ("pending", {"n": 1})


def test_a_request_that_another_process_is_running_is_not_changed(on_disk):
    seen = []
    run = ActionDef("run", "", {}, "pending.tract.during()\npending.approve()")
    on_disk.propose_operation(spec_with(on_disk, run)).approve()
    on_disk.reviewer.channel = FakeChannel()
    ticket = on_disk.reviewer.show(on_disk.fire("citation_check", review=True))

    def during():
        on_disk.reviewer.channel.look()
        seen.append((ticket.status, ticket.pending.rounds, len(on_disk.reviewer.channel.shown)))

    with Tract.open(on_disk.location) as other:
        other.during = during
        other.operations.rebuild(other.review.inbox()[0]).run()
    on_disk.reviewer.channel.look()
    assert seen == [("pending", 0, 2)]  # the second display names the other process
    assert (ticket.status, on_disk.review.inbox()) == ("approved", [])


def spec_with(t, action):
    active = t.operations.registry.require_spec("citation_check")
    return replace(active, actions={action.name: action})


@pytest.mark.parametrize("is_shown", [True, False])
@pytest.mark.parametrize("way", ["approve", "verify", "reject"])
def test_a_decision_in_a_rolled_back_batch_reopens_the_pending_with_a_note(tract, fire, way, is_shown):
    pending = fire(execute_fn=lambda p: "ran")
    if is_shown:
        tract.reviewer.keep(pending)
    with pytest.raises(ValueError, match="after all"), tract.batch():  # noqa: PT012 # a batch is a block
        getattr(pending, way)(**({"n": 9} if way == "verify" else {}))
        raise ValueError("after all")
    assert (pending.status, pending.fields, pending.executed_at) == (PendingStatus.PENDING, {"n": 0}, None)
    assert (pending.result, pending.decision, pending.rejection_reason) == (None, None, "")
    assert "rolled back" in pending.note
    assert (len(tract.review.inbox()), rows(tract, pending)) == (1, [])
    assert pending.approve(edits={"n": 2}) == "ran"
    assert [row.action for row in rows(tract, pending)] == ["approve"]


def test_a_batch_that_is_written_keeps_it(tract, fire):
    pending = fire()
    with tract.batch():
        pending.approve()
    assert (pending.status, pending.note, len(rows(tract, pending))) == ("approved", "", 1)


def test_a_store_error_of_the_action_is_the_actions(tract, fire):
    pending = fire(execute_fn=lambda p: (_ for _ in ()).throw(StoreError("mine")))
    with pytest.raises(StoreError, match="^mine$"):
        pending.approve()
    assert pending.status is PendingStatus.FAILED


def test_another_process_sees_a_decision_of_this_process(on_disk):
    pending = on_disk.fire("citation_check", review=True)
    on_disk.reviewer.keep(pending)
    with Tract.open(on_disk.location) as other:
        other.reviewer.channel = FakeChannel()
        ticket = in_the_inbox_of(other)
        pending.reject("here")
        other.reviewer.channel.look()
        assert (ticket.status, ticket.pending.rejection_reason) == ("rejected", "here")
