"""Why something was turned down reaches the context."""

from __future__ import annotations

import pytest

from tests.review.fakes import FakeChannel, click


@pytest.fixture
def pending(tract, spec):
    """A fired operation."""
    tract.register_operation(spec(fields={}))
    return tract.fire("citation_check", review=True)


def context(tract):
    return [(message["role"], message["content"]) for message in tract.compile().to_dicts()]


def test_a_reason_is_committed_so_that_the_model_learns_it(tract, pending):
    tract.reviewer.channel = FakeChannel()
    click(tract.reviewer.show(pending), "reject", reason="the sources are old")
    tract.reviewer.channel.run_due()
    assert context(tract) == [("user", "I turned down 'citation_check': the sources are old")]
    (info,) = tract.log()
    assert info.metadata["rejected"] == pending.pending_id


@pytest.mark.parametrize(
    "decide",
    [
        lambda p: p.reject("no"),
        lambda p: p.apply_decision({"action": "reject", "args": {"reason": "no"}}),
        lambda p: p.execute_tool("reject", {"reason": "no"}),
    ],
)
def test_however_it_was_turned_down(tract, pending, decide):
    decide(pending)
    assert context(tract) == [("user", "I turned down 'citation_check': no")]


def test_without_a_reason_or_by_approval_nothing_is_said(tract, pending):
    pending.reject()
    tract.fire("citation_check", review=True).approve()
    assert context(tract) == []


def test_a_handler_that_rejects_tells_whoever_fired_and_not_the_context(tract, pending):
    tract.on("citation_check", lambda p: p.reject("a rule"))
    assert tract.fire("citation_check").rejection_reason == "a rule"
    assert context(tract) == []


def test_it_can_be_turned_off(tract, pending):
    tract.tells_rejections = False
    pending.reject("no")
    assert context(tract) == []


def test_a_context_that_takes_no_more_keeps_the_decision(tract, spec, caplog):
    from tract_jupyter import Tract
    from tract_jupyter.models.config import TokenBudget

    with Tract.open(budget=TokenBudget(max_tokens=1, action="reject")) as t:
        t.register_operation(spec(fields={}))
        pending = t.fire("citation_check", review=True)
        pending.reject("a reason that does not fit into it")
        assert (pending.status, context(t)) == ("rejected", [])
    assert "could not be committed" in caplog.text
