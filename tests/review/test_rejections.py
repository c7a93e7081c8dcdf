"""The reason of a rejection reaches the context."""

from __future__ import annotations

import pytest

from tests.review.fakes import FakeChannel, click
from tests.review.rigging import press, project
from tests.review.scripted import ScriptedClient, call, reply
from tract_jupyter import Tract
from tract_jupyter.exceptions import RejectedError
from tract_jupyter.review import RecordedDecision, RecordedDecisions, Trust, current_person, write_lock
from tract_jupyter.storage import now_text


@pytest.fixture
def pending(tract, spec):
    """A fired operation."""
    tract.register_operation(spec(fields={}))
    return tract.fire("citation_check", review=True)


def opened(store):
    return Tract.open(url=store) if "://" in store else Tract.open(store)


def context(tract):
    return [(message["role"], message["content"]) for message in tract.compile().to_dicts()]


def test_a_reason_is_committed_so_that_the_model_learns_it(tract, pending):
    tract.reviewer.channel = FakeChannel()
    press(tract, tract.reviewer.show(pending), "reject", reason="the sources are old")
    assert context(tract) == [("user", "I rejected 'citation_check': the sources are old")]
    (info,) = tract.log()
    assert info.metadata == {
        "rejected": pending.pending_id,
        "operation": "citation_check",
        "decided_by": current_person(),
    }


@pytest.mark.parametrize(
    "decide",
    [
        lambda p: p.reject("no"),
        lambda p: p.apply_decision({"action": "reject", "args": {"reason": "no"}}),
        lambda p: p.execute_tool("reject", {"reason": "no"}),
    ],
)
def test_rejections_by_python_dict_and_tool_call_reach_the_context(tract, pending, decide):
    decide(pending)
    assert context(tract) == [("user", "I rejected 'citation_check': no")]


def test_the_reason_goes_to_the_branch_that_asked(tract, spec):
    tract.register_operation(spec(fields={}))
    tract.user("begin")
    tract.branch("topic")
    tract.user("the question")
    pending = tract.fire("citation_check", review=True)
    tract.switch("main")
    pending.reject("not so")
    assert context(tract) == [("user", "begin")]
    tract.switch("topic")
    assert [text for _, text in context(tract)][1:] == [
        "the question",
        "I rejected 'citation_check': not so",
    ]
    assert next(iter(tract.log())).metadata["rejected"] == pending.pending_id
    tract.undo()
    assert [text for _, text in context(tract)][1:] == ["the question"]


def test_a_rejection_in_another_process_reaches_the_asking_branch(own_store, spec):
    with opened(own_store) as asking:
        asking.register_operation(spec(fields={}))
        asking.user("begin")
        asking.branch("topic")
        asking.reviewer.keep(asking.fire("citation_check", review=True))
        asking.switch("main")
    with opened(own_store) as other:
        (stored,) = other.review.inbox()
        other.operations.rebuild(stored).reject("not so")
        assert context(other) == [("user", "begin")]
        other.switch("topic")
        assert "not so" in str(context(other))


def test_a_rejection_for_a_deleted_branch_adds_no_message(tract, spec):
    tract.register_operation(spec(fields={}))
    tract.user("begin")
    tract.branch("topic")
    pending = tract.fire("citation_check", review=True)
    tract.switch("main")
    tract.delete_branch("topic")
    pending.reject("not so")
    assert (pending.status, context(tract)) == ("rejected", [("user", "begin")])


def test_a_reason_voids_no_other_proposal(tract, spec):
    tract.register_operation(spec(fields={}))
    for text in ("What is it?", "A long story."):
        tract.user(text)
    compress = tract.propose_compress(content="a short summary")
    tract.fire("citation_check", review=True).reject("not so")
    compress.approve()
    assert [text for _, text in context(tract)] == [
        "a short summary",
        "I rejected 'citation_check': not so",
    ]


def test_an_approval_or_a_rejection_without_a_reason_adds_no_message(tract, pending):
    pending.reject()
    tract.fire("citation_check", review=True).approve()
    assert context(tract) == []


# --- rejections that are not by the user: the reason reaches the caller, or was already reported


def by_a_handler(tract, tmp_path):
    tract.on("citation_check", lambda p: p.reject("no"))
    return tract.fire("citation_check")


def by_a_model(tract, tmp_path):
    tract.configure_llm(ScriptedClient(reply(None, call("reject", {"reason": "no"}))))
    pending = tract.fire("citation_check", review=True)
    assert pending.consult("decide").decided
    return pending


def by_what_was_recorded(tract, tmp_path):
    before = tract.fire("citation_check", review=True)
    made = RecordedDecision("operation", "citation_check", before.identity, "reject", {"reason": "no"},
                 current_person(), now_text()).signed(project())  # fmt: skip
    project(tmp_path / "tract.lock.json").keep()
    write_lock(tmp_path / "tract.lock.json", [made])
    tract.reviewer.channel = FakeChannel(reachable=False)
    tract.reviewer.channel.lock = RecordedDecisions(tmp_path / "tract.lock.json", Trust())
    tract.reviewer.show(before)
    return before


def by_nobody(tract, tmp_path):
    tract.user("How tall?")
    tract.configure_llm(ScriptedClient("4,411 feet"))
    with pytest.raises(RejectedError) as caught:
        tract.generate(validator=lambda text: "no", max_retries=0)
    return caught.value.pending


@pytest.mark.parametrize(
    ("decide", "channel", "by"),
    [
        (by_a_handler, "handler", "handler:<lambda>"),
        (by_a_model, "model", "model:scripted-1"),
        (by_what_was_recorded, "recorded", current_person()),
        (by_nobody, "automatic", "nobody"),
    ],
)
def test_only_rejections_by_the_user_reach_the_context(tract, pending, tmp_path, decide, channel, by):
    decided = decide(tract, tmp_path)
    assert (decided.decision.channel, decided.decision.decided_by) == (channel, by)
    assert (decided.status, decided.rejection_reason) == ("rejected", "no")
    assert [text for _, text in context(tract) if "I rejected" in text] == []


def test_a_rejected_call_keeps_its_result_and_gives_the_reason_once(tract):
    tract.user("write it down")
    tract.assistant("", tool_calls=[{"id": "a", "name": "branch", "arguments": {"name": "notes"}}])
    tract.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "reject", reason="not on a branch"))
    result = tract.executor.execute("branch", {"name": "notes"}, actor="agent:1")
    assert (result.denied, result.error) == (True, "not on a branch")
    tract.tool_result("a", "branch", str(result), is_error=True)
    assert [message.role for message in tract.compile().messages] == ["user", "assistant", "tool"]
    assert str(context(tract)).count("not on a branch") == 1


@pytest.mark.parametrize(("actor", "said"), [("agent:1", 0), ("user", 1)])
def test_a_rejected_model_call_reports_the_reason_only_in_its_result(tract, spec, actor, said):
    tract.register_operation(spec(fields={}, unhandled="ask"))
    tract.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "reject", reason="not now"))
    result = tract.executor.execute("fire_citation_check", {}, actor=actor)
    assert (result.denied, result.error) == (True, "not now")
    assert str(context(tract)).count("not now") == said


def test_reporting_rejections_can_be_turned_off(tract, pending):
    tract.review.tells_rejections = False
    pending.reject("no")
    assert context(tract) == []


def test_a_context_that_takes_no_more_keeps_the_decision(tract, spec, caplog):
    from tract_jupyter.models import TokenBudget

    with Tract.open(budget=TokenBudget(max_tokens=1, action="reject")) as t:
        t.register_operation(spec(fields={}))
        pending = t.fire("citation_check", review=True)
        pending.reject("a reason that does not fit into it")
        assert (pending.status, context(t)) == ("rejected", [])
    assert "could not be committed" in caplog.text
