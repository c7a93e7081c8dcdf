"""Routing to handlers: order, catch-alls, pass-through, errors, nesting and removal."""

from __future__ import annotations

import logging

import pytest

from tract_jupyter.exceptions import OperationError, PendingStateError
from tract_jupyter.models import PendingStatus
from tract_jupyter.operations import ActionDef


@pytest.fixture
def t(tract, spec):
    """A tract with the operations `outer` and `inner`."""
    for name in ("outer", "inner"):
        tract.register_operation(spec("pending.approve()", name=name, fields={}))
    return tract


@pytest.fixture
def calls():
    return []


def outcomes(tract):
    return [(event.operation, event.handler, event.outcome) for event in tract.hooks.log()]


def noting(calls, name, then=None):
    def handler(pending):
        calls.append((name, pending.operation))
        if then is not None:
            then(pending)

    return handler


def test_handlers_run_in_order_until_one_decides(t, calls):
    t.on("outer", noting(calls, "a"), name="a")
    t.on("outer", noting(calls, "b", lambda p: p.reject("b says no")), name="b")
    t.on("outer", noting(calls, "c", lambda p: p.approve()), name="c")
    pending = t.fire("outer")
    assert (pending.status, pending.rejection_reason) == ("rejected", "b says no")
    assert calls == [("a", "outer"), ("b", "outer")]
    assert outcomes(t) == [("outer", "a", "undecided"), ("outer", "b", "rejected")]
    assert {event.pending_id for event in t.hooks.log()} == {pending.pending_id}


def test_catch_alls_also_see_decided_operations(t, calls):
    t.on("*", noting(calls, "audit"))
    t.on("outer", lambda p: p.reject())
    t.on("inner", lambda p: p.approve())
    t.fire("outer")
    t.fire("inner")
    assert calls == [("audit", "outer"), ("audit", "inner")]


def test_a_catch_all_decides_undecided_operations(t):
    t.on("outer", lambda p: None)
    t.on("*", lambda p: p.reject("default"))
    assert t.fire("outer").rejection_reason == "default"


def test_a_catch_all_that_comes_too_late_changes_nothing(t):
    t.on("outer", lambda p: p.reject("first"), name="first")
    t.on("*", lambda p: p.approve(), name="all")
    pending = t.fire("outer")
    assert (pending.status, pending.rejection_reason) == ("rejected", "first")
    assert outcomes(t)[-1] == ("outer", "all", "too_late")


def test_pass_through_leaves_it_to_the_next(t, calls):
    t.on("outer", noting(calls, "a", lambda p: p.pass_through()), name="a")
    t.on("outer", noting(calls, "b", lambda p: p.reject("b")), name="b")
    assert t.fire("outer").rejection_reason == "b"
    assert outcomes(t) == [("outer", "a", "passed_through"), ("outer", "b", "rejected")]


def test_passing_through_all_handlers_equals_having_no_handlers(t):
    t.on("outer", lambda p: p.pass_through())
    t.on("*", lambda p: p.pass_through())
    assert t.fire("outer").status is PendingStatus.APPROVED


def test_a_handler_of_the_operation_can_leave_it_open(t):
    t.on("outer", lambda p: None)
    pending = t.fire("outer")
    assert pending.status is PendingStatus.PENDING
    pending.approve()


def test_a_catch_all_that_only_looks_does_not_keep_it_open(t, calls):
    t.on("*", noting(calls, "audit"))
    assert t.fire("outer").status is PendingStatus.APPROVED
    assert calls == [("audit", "outer")]


def test_an_exception_of_a_handler_is_logged_and_raised(t, calls, caplog):
    t.on("outer", noting(calls, "bad", lambda p: 1 / 0), name="bad")
    t.on("outer", noting(calls, "never"))
    ran = []
    with caplog.at_level(logging.ERROR), pytest.raises(ZeroDivisionError):
        t.fire("outer", execute_fn=ran.append)
    assert ran == []
    assert calls == [("bad", "outer")]
    assert outcomes(t) == [("outer", "bad", "raised")]
    assert "handler 'bad' of 'outer' raised" in caplog.text
    t.off("outer")
    assert t.fire("outer").status is PendingStatus.APPROVED


def test_a_handler_that_decides_twice_raises(t):
    def twice(pending):
        pending.approve()
        pending.reject()

    t.on("outer", twice)
    with pytest.raises(PendingStateError):
        t.fire("outer")
    assert outcomes(t) == [("outer", "twice", "raised")]


def test_nested_firing_does_not_bypass_another_handlers_veto(t, calls):
    seen = []
    t.on("inner", noting(calls, "veto", lambda p: p.reject("veto")))
    t.on("outer", noting(calls, "outer", lambda p: (seen.append(t.fire("inner")), p.approve())))
    assert t.fire("outer").status is PendingStatus.APPROVED
    assert [p.rejection_reason for p in seen] == ["veto"]


def test_a_running_handler_is_not_called_again_but_the_others_are(t, calls):
    seen = []

    def again(pending):
        calls.append(("again", pending.operation))
        seen.append(t.fire("outer"))
        pending.approve()

    t.on("outer", again)
    t.on("outer", noting(calls, "veto", lambda p: p.reject("veto")))
    t.on("*", noting(calls, "audit"))
    assert t.fire("outer").status is PendingStatus.APPROVED
    assert [p.rejection_reason for p in seen] == ["veto"]
    assert calls == [("again", "outer"), ("veto", "outer"), ("audit", "outer"), ("audit", "outer")]


def test_a_catch_all_that_fires_does_not_run_into_itself(t, calls):
    def audit(pending):
        calls.append(pending.operation)
        if len(calls) < 10:
            t.fire("inner")

    t.on("*", audit)
    t.fire("outer")
    assert calls == ["outer", "inner"]


def test_the_guard_ends_with_the_handler(t, calls):
    t.on("outer", noting(calls, "a", lambda p: 1 / 0))
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            t.fire("outer")
    assert calls == [("a", "outer")] * 2


def test_the_recursion_guard_of_one_tract_does_not_affect_another_tract(t, spec, calls):
    from tract_jupyter import Tract

    with Tract.open() as other:
        other.register_operation(spec("pending.approve()", name="outer", fields={}))
        other.on("outer", noting(calls, "other", lambda p: p.reject("other")), name="same")
        seen = []
        t.on("outer", lambda p: seen.append(other.fire("outer")), name="same")
        t.fire("outer")
        assert [p.rejection_reason for p in seen] == ["other"]


def test_names(t):
    def check(pending):
        pass

    class Check:
        def __call__(self, pending):
            pass

    assert [t.on("outer", check), t.on("outer", check), t.on("outer", Check()), t.on("outer", check, name="mine")] == [
        "check", "check_2", "Check", "mine",
    ]  # fmt: skip
    with pytest.raises(OperationError, match="already has a handler 'mine'"):
        t.on("outer", check, name="mine")
    assert t.on("inner", check, name="mine") == "mine"


@pytest.mark.parametrize("handler", ["approve", None, 3])
def test_a_handler_must_be_callable(t, handler):
    with pytest.raises(OperationError, match="function of the pending"):
        t.on("outer", handler)
    assert t.fire("outer").status is PendingStatus.APPROVED


def test_on_refuses_an_unknown_operation_with_the_nearest_name(t):
    with pytest.raises(OperationError, match="Did you mean 'outer'") as caught:
        t.on("otter", print)
    assert isinstance(caught.value, ValueError)
    for name in ("compress", "gc", "rebase", "merge", "policy", "tool_result", "*"):
        t.on(name, lambda p: None)


class Handlers:
    def __init__(self, calls):
        self.calls = calls

    def first(self, pending):
        self.calls.append("first")

    def second(self, pending):
        self.calls.append("second")


@pytest.mark.parametrize(
    ("which", "left"),
    [("first", ["second"]), (Handlers.second, ["first"]), (None, []), ("other", ["first", "second"])],
)
def test_off_by_name_by_function_and_all(t, calls, which, left):
    handlers = Handlers(calls)
    t.on("outer", handlers.first)
    t.on("outer", handlers.second)
    t.on("inner", handlers.first)
    t.off("outer", handlers.second if which is Handlers.second else which)
    t.fire("outer")
    assert calls == left
    t.fire("inner")
    assert calls == [*left, "first"]


def test_off_with_an_unknown_handler_removes_nothing(t, calls):
    t.off("outer")
    t.on("outer", noting(calls, "a"), name="a")
    t.off("outer", "nobody")
    t.off("outer", print)
    t.off("inner")
    t.off("inner", "a")
    t.off("nothing", print)
    t.off("*")
    t.fire("outer")
    t.fire("inner")
    assert calls == [("a", "outer")]


def test_a_handler_may_remove_itself_while_running(t, calls):
    def once(pending):
        calls.append("once")
        t.off("outer", once)

    t.on("outer", once)
    t.on("outer", lambda p: (calls.append("next"), p.approve()))
    t.fire("outer")
    t.fire("outer")
    assert calls == ["once", "next", "next"]


def test_the_log_is_bounded(t):
    t.on("outer", lambda p: p.approve())
    for _ in range(1_005):
        t.fire("outer")
    assert len(t.hooks.log()) == 1_000


def test_a_handler_calls_an_action(tract, spec):
    actions = {
        "check": ActionDef(
            "check",
            "",
            {"limit": "int"},
            "if limit < 3:\n    pending.reject('low')\nelse:\n    pending.approve()",
        )
    }
    tract.register_operation(spec(fields={}, actions=actions))
    tract.on("citation_check", lambda p: p.check(2))
    assert tract.fire("citation_check").rejection_reason == "low"
