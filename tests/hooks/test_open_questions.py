"""What is open is in the inbox, once, whoever asked for it and however often."""

from __future__ import annotations

import pytest

from tests.review.fakes import FakeChannel
from tract_jupyter.exceptions import SpecError


@pytest.fixture
def fire(tract, spec):
    """Fires the example operation; keyword arguments are options of `fire`."""
    tract.register_operation(spec(unhandled="ask"))

    def fire(number=1, **options):
        return tract.fire("citation_check", {"urls": [str(number)]}, **options)

    return fire


def waiting(tract):
    return [stored.pending_id for stored in tract.inbox()]


def test_what_code_fires_for_review_is_in_the_inbox_until_it_is_decided(tract, fire):
    pending = fire(review=True)
    assert waiting(tract) == [pending.pending_id]
    assert tract.operations.rebuild(tract.inbox()[0]).fields == pending.fields
    pending.verify()
    assert (pending.status, waiting(tract)) == ("approved", [])


def test_a_proposal_of_an_operation_is_too(tract, spec):
    pending = tract.propose_operation(spec())
    assert waiting(tract) == [pending.pending_id]
    pending.approve()
    assert waiting(tract) == []


def test_of_a_class_that_was_made_for_a_trial_nothing_is_kept(tract, spec):
    made = tract.register_operation(spec(), review=True)
    made(tract=tract, fields={"urls": []})
    assert waiting(tract) == []


@pytest.mark.parametrize("review", [False, True])
def test_asked_again_it_is_the_open_one(tract, fire, review):
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


def test_what_a_handler_left_open_is_not_asked_twice(tract, fire):
    tract.on("citation_check", lambda p: None)
    assert fire() is fire()
    assert len(waiting(tract)) == 1


def test_what_is_decided_is_asked_anew(tract, fire):
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
def test_a_function_or_a_time_of_its_own_makes_it_another_one(tract, fire, options):
    assert fire(review=True, **options) is not fire(review=True, **options)
    assert len(waiting(tract)) == 2


def test_a_built_in_operation_that_is_proposed_again_is_the_open_one(tract):
    tract.user("many words " * 50)
    first = tract.propose_compress(content="few")
    assert tract.propose_compress(content="few") is first
    assert tract.propose_compress(content="fewer") is not first
    assert tract.propose_gc() is tract.propose_gc()
    assert tract.propose_handler("gc", "no", "pending.reject()") is tract.propose_handler(
        "gc", "no", "pending.reject()"
    )
    assert len(waiting(tract)) == 4


def test_with_a_function_of_the_caller_s_it_is_another_one(tract):
    tract.user("many words " * 50)
    proposed = [tract.propose_compress(summarizer=lambda *_: "few") for _ in range(2)]
    assert waiting(tract) == [pending.pending_id for pending in proposed]


def test_what_is_done_at_once_asks_nobody_and_stays_one_question(tract):
    tract.user("many words " * 50)
    open_one = tract.propose_compress(content="few")
    tract.on("compress", lambda p: p.approve())
    tract.compress(content="few")
    assert (open_one.status, waiting(tract)) == ("pending", [open_one.pending_id])


def test_each_asker_has_a_question_of_his_own(tract, spec):
    first = tract.propose_operation(spec())
    assert tract.propose_operation(spec()) is first
    assert tract.propose_operation(spec(), actor="agent:1") is not first


def test_a_proposal_of_what_is_active_is_answered_so(tract, spec):
    tract.register_operation(spec())
    for actor in ("user", "agent:1"):
        with pytest.raises(SpecError, match="active already in this very version"):
            tract.propose_operation(spec(), actor=actor)
    assert waiting(tract) == []
