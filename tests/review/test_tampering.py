"""Tampering between display and execution, by an attacker who can write the database without the secret."""

from __future__ import annotations

import pytest

from tests.review.fakes import click
from tests.review.rigging import Attacker, add_writer, as_json, call, in_the_inbox_of, last_note, press
from tract_jupyter import Tract
from tract_jupyter.models import PendingStatus
from tract_jupyter.operations import ActionDef, RemotePending

pytestmark = pytest.mark.usefixtures("no_waiting")
LATER = "2026-01-01T00:00:01.000000+00:00"


@pytest.fixture
def attacker(own_store):
    return Attacker(own_store)


@pytest.fixture
def shown(first, ran):
    """A displayed request of the first process. Its function runs there."""
    pending = first.fire("citation_check", review=True, execute_fn=lambda p: ran.append(p.fields["n"]))
    return first.reviewer.show(pending)


def finished(**more):
    return {"claimed_by": "elsewhere:1:ab", "started_at": LATER, "finished_at": LATER, **more}


def can_still_be_decided(t, ticket, ran, expected=(0,)):
    """Check that a new decision of the user runs exactly the displayed operation."""
    press(t, ticket, "approve")
    assert (ticket.status, tuple(ran)) == ("approved", expected)


# --- invalid decisions


@pytest.mark.parametrize("change", [{}, finished()], ids=["handed over", "as carried out elsewhere"])
@pytest.mark.parametrize("status", ["approved", "pending"])
def test_a_forged_decision_runs_nothing(first, shown, ran, attacker, change, status):
    attacker.decide(shown.pending, **change)
    attacker.set("pendings", status=status)
    first.reviewer.channel.look()
    assert (ran, shown.status) == ([], PendingStatus.PENDING)
    assert "without your signature" in last_note(first)
    can_still_be_decided(first, shown, ran)


@pytest.mark.parametrize(
    ("action", "arguments"), [("expire", {}), ("reject", {"edits": {"n": 666}}), ("bump", {})], ids=str
)
def test_a_forged_decision_of_another_name_runs_and_changes_nothing(
    first, shown, ran, attacker, action, arguments
):
    attacker.decide(shown.pending, action=action, arguments_json=as_json(arguments))
    first.reviewer.channel.look()
    assert (ran, shown.status, shown.pending.fields) == ([], PendingStatus.PENDING, {"n": 0})
    can_still_be_decided(first, shown, ran)


def test_a_status_set_by_sql_approves_nothing(first, shown, ran, attacker):
    attacker.set("pendings", status="approved", settled_at=LATER, executed_at=LATER)
    first.reviewer.channel.look()
    assert (ran, shown.status) == ([], PendingStatus.PENDING)
    assert "without a decision" in last_note(first)
    can_still_be_decided(first, shown, ran)


@pytest.mark.parametrize("decision", [None, {}, finished()], ids=["none", "handed over", "finished"])
def test_a_gated_call_does_not_happen_for_a_status_set_by_sql(first, ran, attacker, decision):
    add_writer(first, ran)

    def tamper(ticket):
        if decision is not None:
            attacker.decide(ticket.pending, **decision)
        fields = as_json({"path": "/etc/passwd", "n": 0})
        attacker.set("pendings", status="approved", executed_at=LATER, fields_json=fields)

    result = call(first, tamper, lambda ticket: click(ticket, "reject", reason="I see"))
    assert (result.denied, result.error, ran) == (True, "I see", [])
    assert "set aside" in last_note(first) or "set aside" in first.reviewer.channel.notes[1]


@pytest.fixture
def handed_over(first, second, shown):
    """A genuine approval with an edit by the second process. The first process has not seen it yet."""
    first.reviewer.ledger.wait(shown.pending.pending_id, 60)
    press(second, in_the_inbox_of(second), "approve", edits={"n": 5})
    return shown


def test_a_genuine_one_runs(first, handed_over, ran):
    first.reviewer.channel.look()
    assert ran == [5]


@pytest.mark.parametrize(
    "change",
    [
        {"action": "bump"},
        {"arguments_json": '{"edits":{"n":6}}'},
        {"arguments_json": "{}"},
        {"arguments_json": '{"edits":{"n":"x"}}'},
        {"arguments_json": "[]"},
        {"arguments_json": "{"},
        {"fingerprint": "0" * 64},
        {"identity": "0" * 64},
        {"decided_by": "somebody"},
        {"channel": "automatic"},
        {"signature": "0" * 64},
        {"signature": "é"},
        {"created_at": LATER},
        {"created_at": "yesterday"},
    ],
    ids=str,
)
def test_an_altered_decision_runs_nothing(first, handed_over, ran, attacker, change):
    attacker.set("decisions", **change)
    first.reviewer.channel.look()
    assert (ran, handed_over.status) == ([], PendingStatus.PENDING)
    assert "without your signature, or the store was changed" in last_note(first)
    can_still_be_decided(first, handed_over, ran)


def test_a_decision_copied_from_another_pending_runs_nothing(first, second, handed_over, ran, attacker):
    again = first.reviewer.show(
        first.fire("citation_check", review=True, execute_fn=handed_over.pending._execute_fn)
    )
    first.reviewer.channel.look()
    ran.clear()
    attacker.run("DELETE FROM decisions WHERE pending_id = ?", again.pending.pending_id)
    attacker.set("decisions", pending_id=again.pending.pending_id, claimed_by=None, finished_at=None)
    attacker.set("pendings", status="approved", settled_at=None)
    first.reviewer.channel.look()
    assert (ran, again.status) == ([], PendingStatus.PENDING)
    can_still_be_decided(first, again, ran)


def test_an_approval_of_another_tract_of_the_store_runs_nothing(own_store, spec, attacker):
    operation = spec(fields={})
    with Tract.open(url=own_store) as one, Tract.open(url=own_store, tract_id="other") as other:
        for t in (one, other):
            t.register_operation(operation)
        one.reviewer.show(one.fire("citation_check", review=True, execute_fn=print))
        RemotePending(one.review.inbox()[0], tract=one).approve()  # left for a rerun of the cell
        attacker.set("pendings", tract_id="other")
        attacker.set("decisions", tract_id="other")
        assert other.reviewer.granted(other.fire("citation_check", review=True, execute_fn=print)) is False


@pytest.mark.parametrize("was", ["an action", "an approval"])
def test_sql_cannot_make_this_process_repeat_a_finished_decision(first, second, attacker, was):
    ticket = first.reviewer.show(first.fire("citation_check", review=True))
    press(second, in_the_inbox_of(second), "bump" if was == "an action" else "approve")
    attacker.set("decisions", claimed_by=None, started_at=None, finished_at=None)
    first.reviewer.channel.look()
    assert (ticket.status, ticket.pending.fields) == (PendingStatus.PENDING, {"n": 0})
    assert "without your signature" in last_note(first)


@pytest.mark.parametrize("change", [{"decided_by": "somebody"}, {"channel": "panel"}], ids=str)
def test_a_changed_decider_or_channel_of_a_remote_decision_is_refused(first, second, attacker, change):
    ticket = first.reviewer.show(first.fire("citation_check", review=True))
    press(second, in_the_inbox_of(second), "approve")
    attacker.set("decisions", **change)
    first.reviewer.channel.look()
    assert ticket.status is PendingStatus.PENDING
    assert "without your signature" in last_note(first)


def test_the_outcome_of_another_pending_cannot_be_copied(first, second, attacker):
    ticket = first.reviewer.show(first.fire("citation_check", review=True))
    press(second, in_the_inbox_of(second), "bump")
    other = second.fire("citation_check", {"n": 1}, review=True, execute_fn=print)
    second.reviewer.keep(other)
    other.approve()
    names = ("status", "executed_at", "settled_at", "request_json")
    (row,) = attacker.run(f"SELECT {', '.join(names)} FROM pendings WHERE pending_id = ?", other.pending_id)
    attacker.set("pendings", **dict(zip(names, row, strict=True)))
    first.reviewer.channel.look()
    assert (ticket.status, ticket.pending.decision) == (PendingStatus.PENDING, None)


def test_a_decision_does_not_count_again_in_a_later_round(first, second, attacker, spec):
    count = ActionDef("count", "", {}, "return (pending.result or 0) + 1")
    first.register_operation(spec(name="counter", fields={}, actions={"count": count}))
    ticket = first.reviewer.show(first.fire("counter", review=True, execute_fn=print))
    press(second, in_the_inbox_of(second), "count")
    names = ("decided_by", "channel", "identity", "signature", "created_at")
    (row,) = attacker.run(f"SELECT {', '.join(names)} FROM decisions")
    first.reviewer.channel.look()
    attacker.decide(ticket.pending, round=1, action="count", **dict(zip(names, row, strict=True)))
    first.reviewer.channel.look()
    assert ticket.pending.result == 1
    assert "without your signature" in last_note(first)


def test_a_status_without_a_decision_is_asked_about_in_the_inbox(first, second, shown, attacker):
    attacker.set("pendings", status="approved", resumable=True)
    assert second.operations.rebuild(second.review.inbox()[0]).status is PendingStatus.PENDING


def test_a_decision_that_was_carried_out_does_not_count_again(first, shown, ran, attacker):
    press(first, shown, "approve")
    attacker.set("decisions", claimed_by=None, started_at=None, finished_at=None)
    attacker.set("pendings", status="approved", settled_at=None, waited_until=None)
    again = first.fire("citation_check", review=True, execute_fn=shown.pending._execute_fn)
    assert first.reviewer.granted(again) is False
    assert ran == [0]


def test_a_changed_outcome_of_another_process_does_not_count(first, second, attacker):
    ticket = first.reviewer.show(first.fire("citation_check", review=True))
    press(second, in_the_inbox_of(second), "bump")
    attacker.set("pendings", status="approved", settled_at=LATER)
    first.reviewer.channel.look()
    assert (ticket.status, ticket.pending.fields) == (PendingStatus.PENDING, {"n": 0})
    press(first, ticket, "reject")
    assert ticket.status is PendingStatus.REJECTED


def test_values_set_after_another_process_carried_it_out_do_not_count(first, second, attacker):
    ticket = first.reviewer.show(first.fire("citation_check", review=True))
    press(second, in_the_inbox_of(second), "approve")
    attacker.set("pendings", fields_json='{"n":666}')
    first.reviewer.channel.look()
    assert (ticket.status, ticket.pending.fields) == (PendingStatus.PENDING, {"n": 0})


def test_a_rejection_needs_no_proof(first, shown, ran, attacker):
    attacker.decide(shown.pending, action="reject", **finished())
    attacker.set("pendings", status="rejected", settled_at=LATER, fields_json='{"n":666}')
    first.reviewer.channel.look()
    assert (ran, shown.status, shown.pending.fields) == ([], PendingStatus.REJECTED, {"n": 0})


def test_an_error_beside_a_forged_approval_does_not_hide_it(first, shown, ran, attacker):
    attacker.decide(shown.pending, **finished(error="put aside"))
    attacker.set("pendings", status="approved", settled_at=LATER)
    first.reviewer.channel.look()
    assert (ran, shown.status) == ([], PendingStatus.PENDING)
    can_still_be_decided(first, shown, ran)


def test_a_function_of_one_process_still_runs_if_sql_marks_it_resumable(first, second, shown, ran, attacker):
    attacker.set("pendings", resumable=True)
    press(second, in_the_inbox_of(second), "approve")
    first.reviewer.channel.look()
    assert (ran, shown.status) == ([0], PendingStatus.APPROVED)
