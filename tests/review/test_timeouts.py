"""Timeouts of requests. No test sleeps: the tests move the clock of the reviewer."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from types import SimpleNamespace

import pytest

from tests.review.fakes import FakeChannel, click
from tests.review.rigging import Attacker, in_the_inbox_of, last_note, press
from tract_jupyter import Tract
from tract_jupyter.exceptions import DecisionTimeoutError, PendingStateError
from tract_jupyter.models import PendingStatus
from tract_jupyter.review import reviewer as reviewer_module


@pytest.fixture
def clock(monkeypatch):
    """The clock of the reviewer. Each tick is ten seconds."""
    ticks = iter(range(0, 10**6, 10))
    fake = SimpleNamespace(monotonic=lambda: float(next(ticks)), sleep=lambda _: time.sleep(0))
    monkeypatch.setattr(reviewer_module, "time", fake)
    monkeypatch.setattr(reviewer_module, "HEARTBEAT", 0.001)
    return fake


@pytest.fixture
def t(own_store, spec):
    with Tract.open(url=own_store) as t:
        t.register_operation(spec(fields={}))
        t.reviewer.channel = FakeChannel()
        yield t


@pytest.fixture
def fire(t, ran):
    """Fire an operation with a timeout of one minute."""
    return lambda on_timeout, **more: t.fire(
        "citation_check", review=True, timeout=60, on_timeout=on_timeout, execute_fn=ran.append, **more
    )


def waits(t):
    return {
        "decide": lambda pending: asyncio.run(t.reviewer.decide(pending)),
        "decide_now": t.reviewer.decide_now,
    }


def late(pending):
    """Make a pending expire."""
    pending.created_at -= timedelta(seconds=61)
    return pending


def row_of(t, pending):
    (row,) = t.reviewer.ledger.decisions(pending.pending_id)
    return row.action, row.channel, row.decided_by


EXPIRED = ("expire", "timeout", "nobody")


@pytest.mark.parametrize("way", ["decide", "decide_now"])
def test_on_timeout_deny_expires_the_request_without_a_rejection(t, fire, clock, ran, way):
    pending = fire("deny")
    decision = waits(t)[way](pending)
    assert (pending.status, pending.rejection_reason, ran) == (PendingStatus.EXPIRED, "", [])
    assert (decision.channel, decision.decided_by) == ("timeout", "nobody")
    assert row_of(t, pending) == EXPIRED
    assert t.reviewer.ledger.get(pending.pending_id).status == "expired"
    assert t.review.inbox() == []


@pytest.fixture
def never_polled(monkeypatch):
    """Make the timeout end before the store is polled."""
    monkeypatch.setattr(reviewer_module, "_STORE_POLL_SECONDS", 10**9)


def approve_elsewhere(own_store):
    with Tract.open(url=own_store) as other:
        other.reviewer.channel = FakeChannel()
        press(other, in_the_inbox_of(other), "approve")
        return last_note(other)


def test_a_remote_decision_just_before_expiry_counts_and_is_recorded(
    t, fire, clock, ran, own_store, never_polled
):
    pending = fire("deny")
    with Tract.open(url=own_store) as other:
        other.reviewer.channel = FakeChannel()
        t.reviewer.channel = FakeChannel(lambda _: press(other, in_the_inbox_of(other), "approve"))
        decision = t.reviewer.decide_now(pending)
    assert (decision.action, ran, pending.status) == ("approve", [pending], PendingStatus.APPROVED)
    assert "chose 'approve'" in last_note(t)
    assert "No decision within" not in last_note(t)


def test_a_decision_by_code_that_runs_past_the_timeout_does_not_expire(t, clock):
    entered, go_on, looks = threading.Event(), threading.Event(), []

    def execute(pending):
        entered.set()
        return go_on.wait(60)

    pending = t.fire("citation_check", review=True, timeout=60, on_timeout="deny", execute_fn=execute)
    thread = threading.Thread(target=pending.approve)

    def decide(ticket):
        thread.start()
        assert entered.wait(60)

    def look(ticket, waited):
        looks.append(waited)
        if waited > 600:
            go_on.set()
        return True

    t.reviewer.channel = FakeChannel(decide)
    t.reviewer.channel.panel_may_answer = look
    assert t.reviewer.decide_now(pending).action == "approve"
    thread.join()
    assert (pending.status, pending.result, looks[-1] > 600) == (PendingStatus.APPROVED, True, True)


@pytest.mark.parametrize("way", ["decide", "decide_now"])
def test_on_timeout_stop_raises_and_the_request_stays_open(t, fire, clock, ran, way):
    pending = fire("stop")
    with pytest.raises(DecisionTimeoutError, match="within 60 s") as caught:
        waits(t)[way](pending)
    assert caught.value.pending is pending
    assert (pending.status, len(t.review.inbox())) == (PendingStatus.PENDING, 1)
    press(t, t.reviewer.show(pending), "approve")
    assert ran == [pending]


@pytest.mark.parametrize("way", ["decide", "decide_now"])
def test_on_timeout_wait_continues_to_wait(t, fire, clock, ran, way):
    pending = fire("wait")
    moments = []

    def step(ticket, waited):
        moments.append(waited)
        if waited > 600:
            click(ticket, "approve")
        return True

    t.reviewer.channel.panel_may_answer = step
    waits(t)[way](pending)
    assert (pending.status, ran, moments[-1] > 600) == (PendingStatus.APPROVED, [pending], True)


@pytest.mark.parametrize("decide", [lambda p: p.approve(), lambda p: p.apply_decision({"action": "verify"})])
def test_code_cannot_decide_an_expired_request(t, fire, ran, decide):
    pending = late(fire("deny"))
    with pytest.raises(PendingStateError, match="has expired"):
        decide(pending)
    assert (pending.status, ran) == (PendingStatus.EXPIRED, [])
    assert row_of(t, pending) == EXPIRED


def test_an_expiry_in_a_rolled_back_batch_leaves_the_request_open(t, fire):
    pending = late(fire("deny"))
    t.reviewer.keep(pending)
    with pytest.raises(PendingStateError, match="has expired"), t.batch():
        pending.approve()
    assert (pending.status, pending.rounds, len(t.review.inbox())) == (PendingStatus.PENDING, 0, 1)
    pending.reject("late")
    assert (pending.status, t.review.inbox()) == (PendingStatus.REJECTED, [])


def test_a_late_click_expires_it_and_says_so(t, fire, ran):
    pending = fire("deny")
    ticket = t.reviewer.show(pending)
    late(pending)
    press(t, ticket, "approve")
    assert (pending.status, ran) == (PendingStatus.EXPIRED, [])
    assert "has expired" in last_note(t)
    assert row_of(t, pending) == EXPIRED


@pytest.mark.parametrize("execute_fn", [None, print], ids=["made again", "remote"])
def test_a_late_click_in_another_process(t, own_store, execute_fn):
    pending = late(
        t.fire("citation_check", review=True, timeout=60, on_timeout="deny", execute_fn=execute_fn)
    )
    ticket = t.reviewer.show(pending)
    assert "has expired" in approve_elsewhere(own_store)
    t.reviewer.channel.look()
    assert (ticket.status, row_of(t, pending)) == (PendingStatus.EXPIRED, EXPIRED)


def test_an_expiry_removed_by_sql_still_holds_in_the_asking_process(t, fire, own_store, ran):
    pending = late(fire("deny"))
    t.reviewer.show(pending)
    Attacker(own_store).set("pendings", expires_at=None)
    approve_elsewhere(own_store)
    t.reviewer.channel.look()
    assert (ran, pending.status) == ([], PendingStatus.PENDING)


@pytest.mark.parametrize("execute_fn", [None, print], ids=["made again", "remote"])
def test_changing_on_timeout_by_sql_does_not_extend_the_time(t, own_store, execute_fn):
    t.reviewer.show(
        late(t.fire("citation_check", review=True, timeout=60, on_timeout="deny", execute_fn=execute_fn))
    )
    Attacker(own_store).set("pendings", on_timeout="wait")
    assert "has expired" in approve_elsewhere(own_store)


def test_a_timely_remote_approval_counts_when_it_is_seen_late(t, fire, own_store, ran):
    pending = fire("deny")
    t.reviewer.show(pending)
    approve_elsewhere(own_store)
    pending.timeout = (
        t.reviewer.ledger.decisions(pending.pending_id)[0].decided_at - pending.created_at
    ).total_seconds() + 1e-5
    while pending.expires_at > pending.created_at.now(pending.created_at.tzinfo):
        pass
    t.reviewer.channel.look()
    assert ran == [pending]


def test_a_late_remote_approval_does_not_count(t, fire, own_store, ran):
    pending = fire("deny")
    t.reviewer.show(pending)
    approve_elsewhere(own_store)  # in time, as far as this process knows
    late(pending)
    t.reviewer.channel.look()
    assert ran == []
    assert "it had already expired" in last_note(t)


def test_an_expired_request_can_be_rejected_by_the_user(t, fire):
    pending = late(fire("deny"))
    pending.reject("too late anyway")
    assert pending.status is PendingStatus.REJECTED
