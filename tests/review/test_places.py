"""Routing to handlers: places, names and the hook log."""

from __future__ import annotations

import pytest

from tract_jupyter.exceptions import OperationError


@pytest.fixture
def t(tract, spec):
    """A tract with the operation `outer`."""
    tract.register_operation(spec("pending.approve()", name="outer", fields={}))
    return tract


def outcomes(tract):
    return [(event.operation, event.handler, event.outcome) for event in tract.hooks.log()]


# --- places


def test_before_after_and_at(t):
    for name, place in [
        ("a", {}), ("b", {}), ("first", {"before": True}), ("mid", {"before": "b"}), ("past", {"after": "a"}),
        ("second", {"at": 1}), ("last", {"at": 6}),
    ]:  # fmt: skip
        assert t.on("outer", lambda p: None, name=name, **place) == name
    assert t.hooks.list() == {"outer": ["first", "second", "a", "past", "mid", "b", "last"]}
    t.fire("outer")
    assert [event.handler for event in t.hooks.log()[:-1]] == t.hooks.list()["outer"]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ({"before": "b", "after": "a"}, "one place"), ({"before": "x"}, "no handler 'x'"), ({"after": "aa"}, "mean 'a'"),
        ({"at": 2}, "places 0 to 1"), ({"at": -1}, "places 0 to 1"), ({"at": True}, "places"), ({"at": "0"}, "places"),
    ],
)  # fmt: skip
def test_an_invalid_place_for_a_handler_is_refused(t, place, words):
    t.on("outer", lambda p: None, name="a")
    with pytest.raises(OperationError, match=words):
        t.on("outer", lambda p: None, **place)
    assert t.hooks.list() == {"outer": ["a"]}


@pytest.mark.parametrize("name", ["", "x" * 101, 3])
def test_a_name_that_cannot_be_stored_on_every_database(t, name):
    with pytest.raises(OperationError, match="1 to 100 characters"):
        t.on("outer", lambda p: None, name=name)


# --- the log


def test_a_handler_skipped_because_it_is_running_is_logged(t):
    t.on("outer", lambda p: (t.fire("outer") if len(t.hooks.log()) < 5 else None, p.approve()), name="again")
    t.fire("outer")
    assert ("outer", "again", "skipped") in outcomes(t)


def test_an_undecided_operation_is_logged_and_waits_in_the_inbox(t):
    t.on("outer", lambda p: None, name="a")
    pending = t.fire("outer")
    assert outcomes(t) == [("outer", "a", "undecided"), ("outer", "", "unresolved")]
    assert [stored.pending_id for stored in t.review.inbox()] == [pending.pending_id]


def test_an_operation_left_open_is_not_approved_by_a_later_pass_through(t):
    t.on("outer", lambda p: None, name="waits")
    t.on("outer", lambda p: p.pass_through(), name="passes")
    assert (t.fire("outer").status, len(t.review.inbox())) == ("pending", 1)


def test_the_text_of_an_error_is_logged(t):
    t.on("outer", lambda p: 1 / 0, name="bad")
    with pytest.raises(ZeroDivisionError):
        t.fire("outer")
    (event,) = t.hooks.log(outcome="raised")
    assert event.error == "ZeroDivisionError: division by zero"
