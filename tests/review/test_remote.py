"""What another process shows of what this one asked: only what was asked, and edits that fit."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading

import pytest

from tests.review.fakes import FakeChannel, click
from tests.review.rigging import Attacker, add_writer, call, in_the_inbox_of, last_note, press
from tract_jupyter import Tract
from tract_jupyter.exceptions import DecidedFirstError, FingerprintError, TrustError
from tract_jupyter.models import PendingStatus
from tract_jupyter.review import Trust, process

pytestmark = pytest.mark.usefixtures("no_waiting")


@pytest.fixture
def ticket(first, ran):
    """Asked by the first process, which has to carry it out."""
    return first.reviewer.show(
        first.fire("citation_check", review=True, execute_fn=lambda p: ran.append(p.fields["n"]))
    )


DOUBT = "Another user made this request, or it has changed in the store"


@pytest.mark.parametrize(
    ("column", "old", "new"),
    [
        ("request_json", "+= 1", "+= 2"),
        ("request_json", '"value":"0"', '"value":"9"'),
        ("request_json", '"Verify source URLs', '"Says hello; '),
        ("request_json", '"kind":"operation"', '"kind":"tool"'),
        ("request_json", '"name":"citation_check"', '"name":"delete_all"'),
        ("request_json", '"signature":"', '"signature":"0'),
        ("fields_json", '{"n":0}', '{"n":666}'),
        ("fingerprint", "a", "b"),
        ("actor", "user", "root"),
    ],
)
def test_what_was_changed_is_shown_with_a_warning_and_cannot_be_approved(
    first, second, ticket, ran, own_store, column, old, new
):
    Attacker(own_store).rewrite("pendings", column, old, new)
    other = in_the_inbox_of(second)
    assert DOUBT in other.request.why
    for action, arguments in (("bump", {}), ("approve", {}), ("approve", {"scope": "always"})):
        press(second, other, action, **arguments)
        assert "Nothing was run" in last_note(second)
    first.reviewer.channel.look()
    assert (ran, ticket.status, second.review.grants.all()) == ([], PendingStatus.PENDING, [])
    press(first, ticket, "approve")
    assert ran == [0]


def test_what_was_asked_under_another_id_is_not_what_was_asked(first, second, ticket, own_store):
    Attacker(own_store).set("pendings", pending_id="f" * 16)
    assert DOUBT in in_the_inbox_of(second).request.why


def test_what_was_changed_can_be_turned_down_anywhere(first, second, ticket, own_store):
    Attacker(own_store).rewrite("pendings", "request_json", "+= 1", "+= 2")
    press(second, in_the_inbox_of(second), "reject", reason="odd")
    first.reviewer.channel.look()
    assert (ticket.status, ticket.pending.rejection_reason) == (PendingStatus.REJECTED, "odd")


def test_a_rebuilt_one_says_that_its_values_were_changed(first, second, own_store):
    first.reviewer.show(first.fire("citation_check", review=True))
    assert DOUBT not in in_the_inbox_of(second).request.why
    Attacker(own_store).rewrite("pendings", "fields_json", '{"n":0}', '{"n":666}')
    with Tract.open(url=own_store) as third:
        third.reviewer.channel = FakeChannel()
        assert DOUBT in in_the_inbox_of(third).request.why


def test_showing_what_was_changed_does_not_vouch_for_it(first, second, ticket, own_store):
    Attacker(own_store).rewrite("pendings", "fields_json", '{"n":0}', '{"n":666}')
    in_the_inbox_of(second)
    assert DOUBT in in_the_inbox_of(second).request.why


def test_showing_what_was_changed_in_the_process_that_asked_does_not_vouch_for_it_either(
    first, second, own_store
):
    first.reviewer.keep(first.fire("citation_check", review=True))
    Attacker(own_store).rewrite("pendings", "fields_json", '{"n":0}', '{"n":666}')
    for t in (first, second):
        assert DOUBT in in_the_inbox_of(t).request.why


def test_what_is_kept_and_then_given_a_time_is_as_it_was_asked(first, second, ticket, ran):
    kept = first.fire("citation_check", {"n": 5}, review=True)
    first.reviewer.keep(kept)
    first.reviewer.timeout, first.reviewer.on_timeout = 60.0, "deny"
    first.reviewer.show(kept)
    stored = first.reviewer.ledger.get(kept.pending_id)
    assert (stored.expires_at, stored.on_timeout) == (kept.expires_at, "deny")
    assert second.operations.rebuild(stored).doubt == ""


def test_another_user_may_turn_it_down_and_not_approve_it(first, ticket, own_store, tmp_path, ran):
    with Tract.open(url=own_store, trust=Trust(tmp_path / "other")) as other:
        remote = other.operations.rebuild(other.review.inbox()[0])
        with pytest.raises(TrustError, match="Another user"):
            remote.approve()
        remote.reject("not mine")
    first.reviewer.channel.look()
    assert (ran, ticket.pending.rejection_reason) == ([], "not mine")


def test_after_a_round_the_others_are_shown_how_things_stand_now(first, second, ticket, ran):
    press(first, ticket, "bump")
    other = in_the_inbox_of(second)
    assert other.request.tables[0].rows[0].value == "1"
    assert other.request.fingerprint == ticket.request.fingerprint
    press(second, other, "approve")
    first.reviewer.channel.look()
    assert ran == [1]


def test_asking_again_elsewhere_does_not_grow_the_reason(first, second, ticket):
    for _ in range(3):
        why = in_the_inbox_of(second).request.why
    assert why.count("Asked by ") == 1


def test_what_another_process_shows_stays_as_it_was_asked(first, second, monkeypatch):
    pending = first.fire("citation_check", review=True, execute_fn=print)
    first.reviewer.keep(pending)
    asked = first.reviewer.ledger.get(pending.pending_id)
    monkeypatch.setattr(process, "_of", lambda pid: f"elsewhere:{pid}:ab")
    assert in_the_inbox_of(second).pending.pending_id == pending.pending_id
    again = first.reviewer.ledger.get(pending.pending_id)
    assert (again.request, again.signature, again.origin) == (asked.request, asked.signature, asked.origin)


@pytest.mark.parametrize("action", ["approve", "reject"])
def test_a_decision_that_another_thread_notes_at_once_is_no_error(first, monkeypatch, action):
    pending = first.fire("citation_check", review=True)
    first.reviewer.keep(pending)
    ledger = first.review.gate.ledger
    store = ledger.decide

    def decide(pending, *arguments, **options):
        is_stored = store(pending, *arguments, **options)
        watching = threading.Thread(target=first.reviewer.catch_up, args=[pending])  # as code that waits does
        watching.start()
        watching.join()
        return is_stored

    monkeypatch.setattr(ledger, "decide", decide)
    getattr(pending, action)()
    assert str(pending.status) == {"approve": "approved", "reject": "rejected"}[action]
    assert pending.decision.action == action


def test_edits_are_carried_out_where_it_was_asked(first, second, ticket, ran):
    press(second, in_the_inbox_of(second), "approve", edits={"n": 5})
    first.reviewer.channel.look()
    assert (ran, ticket.pending.fields, first.review.inbox()) == ([5], {"n": 5}, [])


def test_what_changed_where_it_was_asked_is_not_what_was_decided(first, second, ticket, ran):
    other = in_the_inbox_of(second)
    ticket.pending.fields["n"] = 7  # by code
    press(second, other, "approve")
    first.reviewer.channel.look()
    assert (ran, ticket.status) == ([], PendingStatus.PENDING)
    assert "the decision was about another version" in last_note(first)


def test_what_was_removed_where_it_was_asked_does_not_run(first, second, ticket, ran):
    other = in_the_inbox_of(second)
    first.unregister_operation("citation_check")
    press(second, other, "approve")
    first.reviewer.channel.look()
    assert (ran, ticket.status) == ([], PendingStatus.PENDING)
    assert "was removed since" in last_note(first)


def test_edits_that_do_not_fit_are_refused_where_they_are_made(first, second, ticket, ran):
    press(second, in_the_inbox_of(second), "approve", edits={"n": "x"})
    assert "Nothing was run" in last_note(second)
    assert first.reviewer.ledger.decisions(ticket.pending.pending_id) == []


def test_a_gated_call_runs_with_the_arguments_edited_elsewhere(first, second, ran):
    add_writer(first, ran)

    def elsewhere(ticket):
        press(second, in_the_inbox_of(second), "approve", edits={"path": "b", "n": 2})

    assert call(first, elsewhere).output == "written"
    assert ran == [("b", 2)]
    (row,) = first.reviewer.ledger.newest_decisions(9)
    assert (row.channel, row.arguments) == ("fake", {"edits": {"path": "b", "n": 2}})


# --- for a cell whose kernel has died


DEAD = """
    from tract_jupyter import Tract
    with Tract.open(url={url!r}) as t:
        t.reviewer.keep(t.fire("citation_check", {{"n": 1}}, review=True, execute_fn=print))
"""


@pytest.fixture
def approved(first, second, own_store):
    """Approved in the inbox, with options, for a process that has ended."""

    def make(**arguments):
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(DEAD.format(url=own_store))], check=True, timeout=60
        )
        press(second, in_the_inbox_of(second), "approve", **arguments)

    return make


@pytest.fixture
def again(first, ran):
    """The cell, run again."""

    def make(n=1):
        return first.fire(
            "citation_check", {"n": n}, review=True, execute_fn=lambda p: ran.append(p.fields["n"])
        )

    return make


def test_the_approval_counts_when_the_cell_is_run_again_and_once(first, approved, again, ran):
    approved()
    pending = again()
    assert first.reviewer.granted(pending)
    assert (ran, pending.status, first.review.inbox()) == ([1], "approved", [])
    assert pending.decision.channel == "fake"
    assert not first.reviewer.granted(again())
    assert ran == [1]


def test_it_counts_with_its_edits(first, approved, again, ran):
    approved(edits={"n": 5})
    assert not first.reviewer.granted(again(5))  # asked with other values
    assert first.reviewer.granted(again(1))
    assert ran == [5]


def test_it_counts_for_nothing_else(first, approved, again, spec, ran):
    approved()
    assert not first.reviewer.granted(again(2))
    first.unregister_operation("citation_check")
    first.register_operation(spec("pass", fields={"n": {"type": "int", "default": 0}}))
    assert not first.reviewer.granted(again(1))
    assert ran == []


def test_an_identity_set_by_sql_makes_it_count_for_nothing_else(first, approved, again, ran, own_store):
    approved()
    Attacker(own_store).set("pendings", identity=again(2).identity)
    assert not first.reviewer.granted(again(2))
    assert ran == []


def test_a_status_without_a_decision_does_not_count(first, ticket, again, ran, own_store):
    Attacker(own_store).set("pendings", status="approved", settled_at=None)
    assert not first.reviewer.granted(again(0))
    assert ran == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", [{"signature": "0" * 64}, {"arguments_json": '{"edits":{"n":9}}'}, {"decided_by": "x"}]
)
def test_a_forged_one_does_not_count(first, approved, again, ran, own_store, change):
    approved()
    Attacker(own_store).set("decisions", **change)
    assert not first.reviewer.granted(again())
    assert not first.reviewer.granted(again(9))
    assert ran == []


def test_what_any_process_can_run_is_run_from_the_inbox_and_not_by_a_later_cell(first, second):
    pending = first.fire("citation_check", review=True)
    first.reviewer.keep(pending)
    first.reviewer.ledger.wait(pending.pending_id, 60)
    press(second, in_the_inbox_of(second), "approve")  # left to who waits
    first.reviewer.ledger.wait(pending.pending_id, 0)
    later = second.operations.registry.require_class("citation_check")(tract=second)
    assert not second.reviewer.granted(later)
    assert [stored.pending_id for stored in second.review.inbox()] == [pending.pending_id]


def test_when_whoever_waited_has_ended_it_can_be_carried_out_here(first, second):
    pending = first.fire("citation_check", review=True)
    first.reviewer.keep(pending)
    first.reviewer.ledger.wait(pending.pending_id, 60)
    assert in_the_inbox_of(second).pending.runs_elsewhere
    first.reviewer.ledger.wait(pending.pending_id, 0)
    ticket = in_the_inbox_of(second)
    press(second, ticket, "bump")
    assert (ticket.pending.runs_elsewhere, ticket.pending.fields) == (False, {"n": 1})


def test_it_does_not_count_while_whoever_asked_waits_for_it(first, second, again, ran):
    pending = again()
    first.reviewer.show(pending)
    first.reviewer.ledger.wait(pending.pending_id, 60)
    press(second, in_the_inbox_of(second), "approve")
    assert not second.reviewer.granted(
        second.fire("citation_check", {"n": 1}, review=True, execute_fn=lambda p: ran.append("elsewhere"))
    )
    first.reviewer.channel.look()
    assert ran == [1]


def test_of_two_cells_that_are_run_again_at_once_it_counts_for_one(
    first, second, approved, again, ran, monkeypatch
):
    approved()
    settle = first.reviewer.ledger.settle

    def just_after_the_other(*about):
        monkeypatch.undo()
        assert second.reviewer.granted(
            second.fire("citation_check", {"n": 1}, review=True, execute_fn=ran.append)
        )
        return settle(*about)

    monkeypatch.setattr(first.reviewer.ledger, "settle", just_after_the_other)
    assert not first.reviewer.granted(again())
    assert len(ran) == 1


@pytest.mark.parametrize("is_current", [True, False])
def test_what_a_cell_run_again_took_is_left_alone_by_who_asked(first, second, again, ran, is_current):
    pending = again()
    first.reviewer.show(pending)
    press(second, in_the_inbox_of(second), "approve")

    def just_before(*_):
        assert second.reviewer.granted(
            second.fire("citation_check", {"n": 1}, review=True, execute_fn=ran.append)
        )
        if not is_current:
            raise FingerprintError("changed")

    pending.check_current = just_before
    first.reviewer.channel.look()
    assert (len(ran), first.review.inbox()) == (1, [])
    (row,) = first.reviewer.ledger.decisions(pending.pending_id)
    assert row.error == "carried out by a later cell"


def test_while_it_runs_nobody_else_can_have_it_run_again(first, second, ran):
    def execute(_):
        with pytest.raises(DecidedFirstError):
            looked_at.pending.approve()
        ran.append("once")

    first.reviewer.show(first.fire("citation_check", review=True, execute_fn=execute))
    press(second, in_the_inbox_of(second), "approve")
    with Tract.open(url=second.location) as third:
        third.reviewer.channel = FakeChannel()
        looked_at = in_the_inbox_of(third)
        first.reviewer.channel.look()
    assert ran == ["once"]


def test_a_click_here_wins_over_one_there_that_comes_later(first, second, ticket, ran):
    other = in_the_inbox_of(second)
    press(first, ticket, "reject", reason="mine")
    assert click(other, "approve")
    second.reviewer.channel.run_due()
    assert "another decision came first" in last_note(second)
    assert (ran, other.status) == ([], PendingStatus.REJECTED)


@pytest.mark.parametrize("way", ["by the cell run again", "by the process that asked"])
def test_one_that_was_used_does_not_count_again_when_sql_sets_it_back(
    first, second, again, approved, ran, own_store, way
):
    if way == "by the cell run again":
        approved()
        assert first.reviewer.granted(again())
    else:
        first.reviewer.show(again())
        press(second, in_the_inbox_of(second), "approve")
        first.reviewer.channel.look()
    attacker = Attacker(own_store)
    attacker.set("decisions", claimed_by=None, started_at=None, finished_at=None, error=None)
    attacker.set("pendings", status="approved", settled_at=None, executed_at=None, waited_until=None)
    assert not first.reviewer.granted(again())
    assert ran == [1]


def test_what_is_about_other_values_than_its_fields_is_decided_as_it_was_asked(first, second, ran):
    add_writer(first, ran)
    pending = first.policies.propose("tidy", "write", {"path": "a"})
    ticket = first.reviewer.show(pending)
    first.reviewer.ledger.wait(pending.pending_id, 60)
    there = in_the_inbox_of(second)
    assert (there.request.fields, there.request.subject) == (None, None)  # no edits from afar, and no grant
    press(second, there, "approve")
    first.reviewer.channel.look()
    assert (ticket.status, ran) == (PendingStatus.APPROVED, [("a", 0)])
