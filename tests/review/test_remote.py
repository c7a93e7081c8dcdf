"""Requests of this process in another process: the display, decisions and valid edits."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading

import pytest

from tests.review.fakes import FakeChannel
from tests.review.rigging import Attacker, add_writer, call, in_the_inbox_of, last_note, press
from tract_jupyter import Tract
from tract_jupyter.exceptions import DecidedFirstError, FingerprintError, TrustError
from tract_jupyter.models import PendingStatus
from tract_jupyter.review import Trust, process

pytestmark = pytest.mark.usefixtures("no_waiting")


@pytest.fixture
def ticket(first, ran):
    """A request of the first process. Only the first process can run it."""
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
def test_a_request_changed_in_the_store_has_a_warning_and_cannot_be_approved(
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


def test_a_request_with_a_changed_id_has_a_warning(first, second, ticket, own_store):
    Attacker(own_store).set("pendings", pending_id="f" * 16)
    assert DOUBT in in_the_inbox_of(second).request.why


def test_a_changed_request_can_be_rejected_in_any_process(first, second, ticket, own_store):
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


def test_displaying_a_changed_request_does_not_sign_it(first, second, ticket, own_store):
    Attacker(own_store).rewrite("pendings", "fields_json", '{"n":0}', '{"n":666}')
    in_the_inbox_of(second)
    assert DOUBT in in_the_inbox_of(second).request.why


def test_displaying_a_changed_request_in_the_asking_process_does_not_sign_it(first, second, own_store):
    first.reviewer.keep(first.fire("citation_check", review=True))
    Attacker(own_store).rewrite("pendings", "fields_json", '{"n":0}', '{"n":666}')
    for t in (first, second):
        assert DOUBT in in_the_inbox_of(t).request.why


def test_a_stored_request_that_gets_a_timeout_later_is_still_trusted(first, second, ticket, ran):
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


def test_another_process_shows_the_fields_after_the_last_round(first, second, ticket, ran):
    press(first, ticket, "bump")
    other = in_the_inbox_of(second)
    assert other.request.tables[0].rows[0].value == "1"
    assert other.request.fingerprint == ticket.request.fingerprint
    press(second, other, "approve")
    first.reviewer.channel.look()
    assert ran == [1]


def test_displaying_again_in_another_process_does_not_repeat_the_asker(first, second, ticket):
    for _ in range(3):
        why = in_the_inbox_of(second).request.why
    assert why.count("Asked by ") == 1


def test_displaying_a_request_in_another_process_does_not_change_its_row(first, second, monkeypatch):
    pending = first.fire("citation_check", review=True, execute_fn=print)
    first.reviewer.keep(pending)
    asked = first.reviewer.ledger.get(pending.pending_id)
    monkeypatch.setattr(process, "_of", lambda pid: f"elsewhere:{pid}:ab")
    assert in_the_inbox_of(second).pending.pending_id == pending.pending_id
    again = first.reviewer.ledger.get(pending.pending_id)
    assert (again.request, again.signature, again.origin) == (asked.request, asked.signature, asked.origin)


@pytest.mark.parametrize("action", ["approve", "reject"])
def test_a_decision_works_if_another_thread_sees_it_at_once(first, monkeypatch, action):
    pending = first.fire("citation_check", review=True)
    first.reviewer.keep(pending)
    ledger = first.review.gate.ledger
    store = ledger.decide

    def decide(pending, *arguments, **options):
        is_stored = store(pending, *arguments, **options)
        watching = threading.Thread(target=first.reviewer.catch_up, args=[pending])  # like waiting code
        watching.start()
        watching.join()
        return is_stored

    monkeypatch.setattr(ledger, "decide", decide)
    getattr(pending, action)()
    assert str(pending.status) == {"approve": "approved", "reject": "rejected"}[action]
    assert pending.decision.action == action


def test_remote_edits_are_carried_out_in_the_asking_process(first, second, ticket, ran):
    press(second, in_the_inbox_of(second), "approve", edits={"n": 5})
    first.reviewer.channel.look()
    assert (ran, ticket.pending.fields, first.review.inbox()) == ([5], {"n": 5}, [])


def test_a_remote_approval_of_an_outdated_version_does_not_run(first, second, ticket, ran):
    other = in_the_inbox_of(second)
    ticket.pending.fields["n"] = 7  # by code
    press(second, other, "approve")
    first.reviewer.channel.look()
    assert (ran, ticket.status) == ([], PendingStatus.PENDING)
    assert "the decision was about another version" in last_note(first)


def test_a_remote_approval_of_a_removed_operation_does_not_run(first, second, ticket, ran):
    other = in_the_inbox_of(second)
    first.unregister_operation("citation_check")
    press(second, other, "approve")
    first.reviewer.channel.look()
    assert (ran, ticket.status) == ([], PendingStatus.PENDING)
    assert "was removed since" in last_note(first)


def test_invalid_remote_edits_are_refused_in_the_deciding_process(first, second, ticket, ran):
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


# --- approvals for a cell after its kernel died


DEAD = """
    from tract_jupyter import Tract
    with Tract.open(url={url!r}) as t:
        t.reviewer.keep(t.fire("citation_check", {{"n": 1}}, review=True, execute_fn=print))
"""


@pytest.fixture
def approved(first, second, own_store):
    """Approve a request of an ended process in the inbox, with options."""

    def make(**arguments):
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(DEAD.format(url=own_store))], check=True, timeout=60
        )
        press(second, in_the_inbox_of(second), "approve", **arguments)

    return make


@pytest.fixture
def again(first, ran):
    """Run the cell again."""

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


def test_a_remote_approval_with_edits_covers_the_original_values(first, approved, again, ran):
    approved(edits={"n": 5})
    assert not first.reviewer.granted(again(5))  # the request had other values
    assert first.reviewer.granted(again(1))
    assert ran == [5]


def test_a_remote_approval_does_not_cover_other_values_or_other_code(first, approved, again, spec, ran):
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


def test_a_resumable_request_runs_from_the_inbox_and_not_in_a_later_cell(first, second):
    pending = first.fire("citation_check", review=True)
    first.reviewer.keep(pending)
    first.reviewer.ledger.wait(pending.pending_id, 60)
    press(second, in_the_inbox_of(second), "approve")  # left to the waiting process
    first.reviewer.ledger.wait(pending.pending_id, 0)
    later = second.operations.registry.require_class("citation_check")(tract=second)
    assert not second.reviewer.granted(later)
    assert [stored.pending_id for stored in second.review.inbox()] == [pending.pending_id]


def test_a_request_can_run_here_after_the_waiting_process_ends(first, second):
    pending = first.fire("citation_check", review=True)
    first.reviewer.keep(pending)
    first.reviewer.ledger.wait(pending.pending_id, 60)
    assert in_the_inbox_of(second).pending.runs_elsewhere
    first.reviewer.ledger.wait(pending.pending_id, 0)
    ticket = in_the_inbox_of(second)
    press(second, ticket, "bump")
    assert (ticket.pending.runs_elsewhere, ticket.pending.fields) == (False, {"n": 1})


def test_an_approval_is_not_used_elsewhere_while_the_asking_process_waits(first, second, again, ran):
    pending = again()
    first.reviewer.show(pending)
    first.reviewer.ledger.wait(pending.pending_id, 60)
    press(second, in_the_inbox_of(second), "approve")
    assert not second.reviewer.granted(
        second.fire("citation_check", {"n": 1}, review=True, execute_fn=lambda p: ran.append("elsewhere"))
    )
    first.reviewer.channel.look()
    assert ran == [1]


def test_an_approval_covers_only_one_of_two_cells_rerun_at_once(
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
def test_the_asking_process_skips_an_approval_used_by_a_later_cell(first, second, again, ran, is_current):
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


def test_a_running_request_cannot_be_approved_again_in_another_process(first, second, ran):
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


def test_an_earlier_click_wins_over_a_later_click_in_another_process(first, second, ticket, ran):
    other = in_the_inbox_of(second)
    press(first, ticket, "reject", reason="mine")
    press(second, other, "approve")
    assert "another decision came first" in last_note(second)
    assert (ran, other.status) == ([], PendingStatus.REJECTED)


@pytest.mark.parametrize("restored", [False, True], ids=["reset", "restored"])
@pytest.mark.parametrize("way", ["by the cell run again", "by the process that asked"])
def test_a_used_approval_reset_by_sql_does_not_count_again(
    first, second, again, approved, ran, own_store, way, restored
):
    attacker = Attacker(own_store)
    if way == "by the cell run again":
        approved()
    else:
        first.reviewer.show(again())
        press(second, in_the_inbox_of(second), "approve")
    ((signature,),) = attacker.run("SELECT signature FROM decisions")
    ((request,),) = attacker.run("SELECT request_json FROM pendings")
    if way == "by the cell run again":
        assert first.reviewer.granted(again())
    else:
        first.reviewer.channel.look()
    earlier = {"signature": signature} if restored else {}
    attacker.set("decisions", claimed_by=None, started_at=None, finished_at=None, error=None, **earlier)
    attacker.set("pendings", status="approved", settled_at=None, executed_at=None, waited_until=None)
    if restored:
        attacker.set("pendings", request_json=request)
    assert not first.reviewer.granted(again())
    assert not second.reviewer.granted(again())
    assert ran == [1]


def test_an_approval_whose_use_was_rolled_back_still_counts(first, again, approved, ran):
    approved()

    def use_and_fail():
        with first.batch():
            assert first.reviewer.granted(again())
            raise KeyError

    with pytest.raises(KeyError):
        use_and_fail()
    ran.clear()
    assert first.reviewer.granted(again())
    assert ran == [1]


def test_a_policy_request_is_decided_remotely_without_edits_or_grants(first, second, ran):
    add_writer(first, ran)
    pending = first.policies.propose("tidy", "write", {"path": "a"})
    ticket = first.reviewer.show(pending)
    first.reviewer.ledger.wait(pending.pending_id, 60)
    there = in_the_inbox_of(second)
    assert (there.request.fields, there.request.subject) == (None, None)  # no remote edits and no grant
    press(second, there, "approve")
    first.reviewer.channel.look()
    assert (ticket.status, ran) == (PendingStatus.APPROVED, [("a", 0)])
