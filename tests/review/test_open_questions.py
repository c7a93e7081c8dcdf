"""An open request is in the inbox once, for any caller and any number of calls."""

from __future__ import annotations

import pytest

from tests.review.fakes import FakeChannel, click
from tract_jupyter import Tract
from tract_jupyter.exceptions import PendingStateError, SpecError, UndecidedError
from tract_jupyter.toolkit import Permission


@pytest.fixture
def fire(tract, spec):
    """Fire the example operation. Keyword arguments are options of `fire`."""
    tract.register_operation(spec(unhandled="ask"))

    def fire(number=1, **options):
        return tract.fire("citation_check", {"urls": [str(number)]}, **options)

    return fire


def waiting(tract):
    return [stored.pending_id for stored in tract.review.inbox()]


def test_an_operation_fired_for_review_is_in_the_inbox_until_it_is_decided(tract, fire):
    pending = fire(review=True)
    assert waiting(tract) == [pending.pending_id]
    assert tract.operations.rebuild(tract.review.inbox()[0]).fields == pending.fields
    pending.verify()
    assert (pending.status, waiting(tract)) == ("approved", [])


def test_a_proposed_operation_is_in_the_inbox_until_it_is_decided(tract, spec):
    pending = tract.propose_operation(spec())
    assert waiting(tract) == [pending.pending_id]
    pending.approve()
    assert waiting(tract) == []


def test_a_pending_of_an_inactive_class_is_not_in_the_inbox(tract, spec):
    made = tract.register_operation(spec(), review=True)
    made(tract=tract, fields={"urls": []})
    assert waiting(tract) == []


@pytest.mark.parametrize("review", [False, True])
def test_firing_again_returns_the_open_pending(tract, fire, review):
    first = fire(review=review)
    assert fire(review=review) is first
    assert waiting(tract) == [first.pending_id]
    assert fire(2, review=review) is not first
    assert len(waiting(tract)) == 2


def test_asked_again_it_is_shown_again(tract, fire):
    tract.reviewer.channel = FakeChannel()
    first = fire()
    assert fire() is first
    assert {request.pending_id for request, _ in tract.reviewer.channel.shown} == {first.pending_id}
    assert tract.reviewer.channel.forgotten == [first.pending_id]


def test_an_operation_left_open_by_a_handler_is_requested_only_once(tract, fire):
    tract.on("citation_check", lambda p: None)
    assert fire() is fire()
    assert len(waiting(tract)) == 1


def test_a_decided_operation_is_requested_again(tract, fire):
    first = fire(review=True)
    first.reject("no")
    second = fire(review=True)
    assert second is not first
    assert waiting(tract) == [second.pending_id]


def test_a_question_that_was_changed_is_another_one(tract, fire):
    first = fire(review=True)
    first.fields["verified"] = True
    assert fire(review=True) is not first


@pytest.mark.parametrize(
    "options", [{"execute_fn": print}, {"timeout": 60, "on_timeout": "deny"}], ids=["function", "time"]
)
def test_a_pending_with_its_own_function_or_timeout_is_not_reused(tract, fire, options):
    assert fire(review=True, **options) is not fire(review=True, **options)
    assert len(waiting(tract)) == 2


def test_a_built_in_operation_that_is_proposed_again_is_the_open_one(tract):
    tract.user("many words " * 50)
    first = tract.propose_compress(content="few")
    assert tract.propose_compress(content="few") is first
    assert tract.propose_compress(content="fewer") is not first
    assert tract.propose_gc() is tract.propose_gc()
    assert tract.hooks.propose_handler("gc", "no", "pending.reject()") is tract.hooks.propose_handler(
        "gc", "no", "pending.reject()"
    )
    assert len(waiting(tract)) == 4


def test_a_proposal_with_a_callers_function_is_not_reused(tract):
    tract.user("many words " * 50)
    proposed = [tract.propose_compress(summarizer=lambda *_: "few") for _ in range(2)]
    assert waiting(tract) == [pending.pending_id for pending in proposed]


def test_an_immediate_call_adds_no_request_to_an_open_proposal(tract):
    tract.user("many words " * 50)
    open_one = tract.propose_compress(content="few")
    tract.on("compress", lambda p: p.approve())
    tract.compress(content="few")
    assert (open_one.status, waiting(tract)) == ("pending", [open_one.pending_id])


def test_requests_of_different_actors_are_separate(tract, spec):
    first = tract.propose_operation(spec())
    assert tract.propose_operation(spec()) is first
    assert tract.propose_operation(spec(), actor="agent:1") is not first


def test_proposing_an_active_version_is_refused(tract, spec):
    tract.register_operation(spec())
    for actor in ("user", "agent:1"):
        with pytest.raises(SpecError, match="this version of operation .* is already active"):
            tract.propose_operation(spec(), actor=actor)
    assert waiting(tract) == []


# --- open calls


def left_open(act):
    """Return the pending that a call leaves open."""
    with pytest.raises(UndecidedError) as caught:
        act()
    return caught.value.pending


CALLS = {
    "compress": lambda t: t.compress(content="few"),
    "gc": lambda t: t.gc(),
    "tool_result": lambda t: t.tool_result("c1", "search", "found"),
    "policy": lambda t: t.policies.apply("nightly", "switch", {"target": "main"}),
    "rebase": lambda t: t.rebase("side"),
    "merge": lambda t: t.merge("side", resolver="ours"),
}


@pytest.fixture
def colliding(tract):
    """A tract with two branches that changed the same message."""
    said = tract.user("many words " * 50).commit_hash
    for branch, text in (("side", "there"), ("main", "here")):
        if branch == "side":
            tract.branch(branch)
        tract.switch(branch)
        tract.user(text, edit=said)
    return tract


@pytest.mark.parametrize("operation", CALLS)
def test_repeated_calls_left_open_by_a_handler_share_one_request(colliding, operation):
    colliding.on(operation, lambda pending: None)
    first = left_open(lambda: CALLS[operation](colliding))
    assert left_open(lambda: CALLS[operation](colliding)) is first
    assert waiting(colliding) == [first.pending_id]


def test_a_policy_call_that_needs_approval_is_requested_once(tract):
    tract.executor.permission = lambda *_: Permission.ASK
    first = left_open(lambda: CALLS["policy"](tract))
    assert left_open(lambda: CALLS["policy"](tract)) is first
    assert waiting(tract) == [first.pending_id]


def test_a_call_with_a_callers_function_makes_a_request_each_time(colliding):
    colliding.on("compress", lambda pending: None)
    for _ in range(2):
        left_open(lambda: colliding.compress(summarizer=lambda *_: "few"))
    assert len(waiting(colliding)) == 2


def test_an_operation_with_a_lost_guard_is_requested_once(tract, fire):
    tract.hooks.save_handler("citation_check", "guard", "pending.pass_through()")
    tract.hooks.saved.revoke("citation_check", "guard")
    first = fire()
    assert "'guard'" in first.review_request().why
    assert fire() is first
    assert waiting(tract) == [first.pending_id]


# --- requests of another process


@pytest.fixture
def one(own_store, spec):
    with Tract.open(url=own_store) as t:
        t.register_operation(spec(unhandled="ask"))
        t.user("many words " * 50)
        yield t


@pytest.fixture
def other(one, own_store):
    with Tract.open(url=own_store) as t:
        yield t


ASKED = {
    "fire": lambda t: t.fire("citation_check", {"urls": ["1"]}),
    "review": lambda t: t.fire("citation_check", {"urls": ["1"]}, review=True),
    "compress": lambda t: t.propose_compress(content="few"),
    "gc": lambda t: t.propose_gc(),
    "handler": lambda t: t.hooks.propose_handler("gc", "no", "pending.reject()"),
    "policy": lambda t: t.policies.propose("nightly", "switch", {"target": "main"}),
}


@pytest.mark.parametrize("asked", ASKED)
def test_an_open_request_of_another_process_is_reused(one, other, asked):
    first, second = ASKED[asked](one), ASKED[asked](other)
    assert first is not second
    assert waiting(other) == [second.pending_id] == [first.pending_id]
    assert other.reviewer.ledger.vouches(other.review.inbox()[0])
    first.reject("no")
    with pytest.raises(PendingStateError, match="another decision came first"):
        second.approve()
    assert (second.status, waiting(other)) == ("rejected", [])


def test_a_request_that_another_process_waits_for_is_not_reused(one, other):
    first = ASKED["fire"](one)
    one.reviewer.ledger.wait(first.pending_id, 60)
    second = ASKED["fire"](other)
    assert sorted(waiting(other)) == sorted([first.pending_id, second.pending_id])


def test_a_repeated_request_replaces_its_earlier_panel(one, other):
    ASKED["compress"](one)
    other.reviewer.channel = channel = FakeChannel()
    in_the_inbox = other.reviewer.show_again(other.operations.rebuild(other.review.inbox()[0]))
    pending = ASKED["compress"](other)
    ticket = other.reviewer.show(pending)
    assert channel.forgotten[-1] == pending.pending_id == in_the_inbox.pending.pending_id
    click(in_the_inbox, "reject")  # the earlier panel still works
    channel.run_due()
    channel.look()
    assert (ticket.status, waiting(one)) == ("rejected", [])
