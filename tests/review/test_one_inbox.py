"""One inbox for a tree of tracts: requests of children appear at the top and can be decided anywhere."""

from __future__ import annotations

import pytest

from tests.review.fakes import FakeChannel
from tests.review.rigging import Attacker
from tests.review.scripted import ScriptedClient, call, reply
from tract_jupyter import Tract
from tract_jupyter.models import TurnOutcome
from tract_jupyter.toolkit import get_profile

OUTPUT = {"content_type": "output", "text": "z"}


@pytest.fixture
def top(own_store):
    """The top tract, without a user who is available at once."""
    with Tract.open(url=own_store) as tract:
        tract.user("hello")
        tract.reviewer.channel = FakeChannel(reachable=False)
        yield tract


@pytest.fixture
def below(top):
    """A grandchild whose model calls commit and waits for approval."""
    child = top.session.spawn(top, purpose="look around")
    tract = top.session.spawn(child, purpose="look closer")
    tract.configure_llm(ScriptedClient(reply(None, call("commit", {"content": OUTPUT})), "Done."))
    assert tract.chat("Go on.", tools="self").outcome is TurnOutcome.WAITING
    return tract


@pytest.fixture
def elsewhere(own_store):
    """The same store, opened like in another process."""
    with Tract.open(url=own_store) as tract:
        yield tract


def the_question(tract):
    (stored,) = tract.review.inbox()
    return tract.operations.rebuild(stored)


def texts(tract):
    return [entry.message for entry in tract.log()]


def test_a_call_two_levels_down_is_decided_in_another_process(top, below, elsewhere):
    assert below.review.inbox() == []
    question = the_question(elsewhere)
    assert question.actor == below.executor.agent
    assert "(depth 2, below agent:" in question.review_request().why
    question.approve()
    assert below.chat(None).outcome is TurnOutcome.ANSWER
    assert texts(below).count("z") == 1
    assert "z" not in texts(top)
    assert top.review.inbox() == []


def test_a_rejection_reason_reaches_the_model_two_levels_down(top, below, elsewhere):
    the_question(elsewhere).reject("not today")
    below.chat(None)
    assert "not today" in next(m["content"] for m in below.compile().to_dicts() if m["role"] == "tool")
    assert texts(top) == ["hello"]


def test_an_interrupted_conversation_continues_in_another_process(own_store, top, below, elsewhere):
    name = below.tract_id
    the_question(elsewhere).approve()
    top.close()
    with Tract.open(url=own_store) as again:
        again.configure_llm(ScriptedClient("Done."))
        tract = again.session.get_tract(name)
        assert tract.chat(None, tools="self").text == "Done."
        assert texts(tract).count("z") == 1
        assert {again.reviewer.ledger.get(one).actor for one in _decided(again)} == {tract.executor.agent}


def _decided(tract):
    return {one.pending_id for one in tract.review.decisions()}


def test_equal_calls_of_two_children_are_two_requests(top):
    children = [top.session.spawn(top, purpose="look") for _ in range(2)]
    for child in children:
        child.executor.execute("commit", {"content": OUTPUT}, actor="agent")
        child.executor.execute("commit", {"content": OUTPUT}, actor="agent")  # the same request again
    assert len(top.review.inbox()) == 2


SCRIPT = """\
try:
    made = tools.commit(content={"content_type": "output", "text": "by a script"})["message"]
except ToolDenied as error:
    made = f"no: {error}"
print("went on:", made)
"""


@pytest.mark.parametrize("answer", ["approve", "reject"])
def test_a_paused_script_of_a_child_continues_in_the_child(own_store, top, answer):
    pytest.importorskip("pydantic_monty")
    child = top.session.spawn(top, purpose="look", granted="self")
    child.scripts.run(SCRIPT, backend="sandbox")
    name, actor = child.tract_id, child.executor.agent
    top.close()
    with Tract.open(url=own_store) as again:
        question = the_question(again)
        assert question.actor.startswith(f"{actor}/script:")
        assert "(depth 1, below the conversation at the top)" in question.why()
        result = question.approve() if answer == "approve" else question.reject("no need")
        assert "went on: by a script" in result.text if answer == "approve" else "no need" in result.text
        below = again.session.get_tract(name)
        assert texts(below).count("by a script") == (answer == "approve")
        assert "by a script" not in texts(again)


def test_a_paused_script_reassigned_to_another_tract_does_not_continue(own_store, top):
    pytest.importorskip("pydantic_monty")
    child = top.session.spawn(top, purpose="look")
    child.scripts.run(SCRIPT, backend="sandbox")
    top.close()
    Attacker(own_store).rewrite("pendings", "fields_json", f'"tract":"{child.tract_id}"', '"tract":""')
    with Tract.open(url=own_store) as again:
        question = the_question(again)
        assert question.doubt
        with pytest.raises(Exception, match="Another user made this request"):
            question.approve()
        assert texts(again) == ["hello"]


def test_a_paused_script_of_a_deleted_tract_can_be_rejected(own_store, top):
    pytest.importorskip("pydantic_monty")
    agent = top.beside(top.tract_id, "try", "look", granted=get_profile("full"), actor="agent:try")
    agent.scripts.run(SCRIPT, backend="sandbox")
    agent.close()
    top.delete_branch("try", force=True)
    top.close()
    with Tract.open(url=own_store) as again:
        question = the_question(again)
        request = question.review_request()
        assert request.title == "Call tool commit"
        with pytest.raises(Exception, match="the tool 'commit' no longer exists"):
            question.approve()
        with pytest.raises(Exception, match="No tract or agent"):
            question.reject("it is gone")
        assert again.review.inbox() == []
