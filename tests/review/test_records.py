"""The rows of requests in the ledger, on SQLite and PostgreSQL."""

from __future__ import annotations

import pytest

from tests.statements import counted
from tract_jupyter.review import has_ended, this_process


@pytest.fixture
def ledger(any_tract):
    return any_tract.reviewer.ledger


@pytest.fixture
def ask(any_tract, spec):
    any_tract.register_operation(spec("1 / 0", name="note", fields={"x": {"type": "int"}}))

    def make(x):
        pending = any_tract.fire("note", {"x": x}, review=True)
        any_tract.reviewer.keep(pending)
        return pending

    return make


def test_changed_pendings_are_found_with_one_query(ledger, ask):
    untouched, approved, failed, rejected = map(ask, range(4))
    seen = {pending.pending_id: pending.rounds for pending in (untouched, approved, failed, rejected)}
    approved.approve()
    with pytest.raises(ZeroDivisionError):
        failed.verify()
    rejected.reject("no")
    assert failed.status.is_open  # but it has one decision
    seen["never stored"] = 0
    with counted() as queries:
        changed = ledger.changed(seen)
    assert changed == [approved.pending_id, failed.pending_id, rejected.pending_id, "never stored"]
    assert [query.split()[0] for query in queries].count("SELECT") == 1
    assert ledger.changed({failed.pending_id: 1, untouched.pending_id: 0}) == []


@pytest.mark.parametrize("pid", ["9" * 20, "9" * 5_000, "-1", "x", ""], ids=len)
def test_an_origin_that_can_be_no_process_has_not_ended(pid):
    host = this_process().split(":")[0]
    assert not has_ended(f"{host}:{pid}:ab")


def test_changed_makes_no_query_without_displayed_requests(ledger):
    with counted() as queries:
        assert ledger.changed({}) == []
    assert queries == []


def test_an_equal_request_is_waiting_until_it_is_decided(any_tract, ledger, ask):
    waiting = ask(1)
    again = any_tract.fire("note", {"x": 1}, review=True)
    other = any_tract.fire("note", {"x": 2}, review=True)
    unasked = type(other)(tract=any_tract, fields={"x": 3})
    assert [ledger.is_waiting(p) for p in (again, other, unasked)] == [True, True, False]
    assert [ledger.needs_asking(p) for p in (again, other, unasked)] == [False, False, True]
    waiting.reject("no")
    assert not ledger.is_waiting(again)
    assert not ledger.needs_asking(again)


def test_a_failed_request_stays_open_and_is_not_requested_again(any_tract, ledger, ask):
    with pytest.raises(ZeroDivisionError):
        ask(1).verify()
    again = any_tract.fire("note", {"x": 1}, review=True)
    assert (ledger.is_waiting(again), ledger.needs_asking(again)) == (True, False)
