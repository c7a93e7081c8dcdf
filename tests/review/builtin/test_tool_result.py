"""Decisions about tool results: each call gets a result, and the model sees the reason."""

from __future__ import annotations

import pytest

from tests.review.fakes import FakeChannel, click
from tests.review.scripted import ScriptedClient
from tract_jupyter import Tract
from tract_jupyter.exceptions import (
    ContentError,
    EditTargetError,
    FingerprintError,
    LLMConfigError,
    LLMResponseError,
    ParameterError,
    RejectedError,
    UndecidedError,
)
from tract_jupyter.models import PendingStatus, Priority

SECRET = "the password is hunter2"


@pytest.fixture
def t(tract):
    """A tract whose model has called a tool twice."""
    calls = [{"id": name, "name": "read_file", "arguments": {"path": name}} for name in ("a", "b")]
    tract.user("read both")
    tract.assistant("", tool_calls=calls)
    return tract


def answers(tract):
    return [m["content"] for m in tract.compile().to_dicts() if m["role"] == "tool"]


def test_without_a_handler_nothing_is_asked(t):
    info = t.tool_result("a", "read_file", {"size": 3}, tags=("x",), priority=Priority.PINNED)
    assert (info.tags, info.priority) == (("x",), "pinned")
    assert answers(t) == ['{"size":3}']
    assert t.events("decision") == []
    with pytest.raises(TypeError, match="no option 'tag'"):
        t.tool_result("b", "read_file", "x", tag="x")


def test_a_result_without_a_decision_is_committed_with_all_options(t):
    t.on("*", lambda p: None)
    info = t.tool_result("a", "read_file", SECRET, is_error=True, tags={"x"}, message="read", metadata={"n": 1},
                         priority=Priority.PINNED)  # fmt: skip
    assert (info.tags, info.message, info.priority) == (("x",), "read", "pinned")
    assert info.metadata == {"n": 1, "tool_call_id": "a", "name": "read_file", "is_error": True}
    assert answers(t) == [SECRET]


def test_an_edit_keeps_the_first_original_and_updates_the_token_count(t):
    def redact(pending):
        before = pending.token_count
        pending.edit_result("the password is gone, " * 20)
        assert pending.token_count > before
        pending.edit_result("the password is ***")
        assert pending.original_content == SECRET
        pending.approve()

    t.on("tool_result", redact)
    info = t.tool_result("a", "read_file", SECRET)
    assert info.metadata["original_content"] == SECRET
    assert info.token_count == t.propose_tool_result("b", "read_file", "the password is ***").token_count
    assert answers(t) == ["the password is ***"]


def test_a_rejection_is_committed_in_its_place_and_tells_the_model_why(t):
    t.on("tool_result", lambda p: p.reject("it has a password"))
    info = t.tool_result("a", "read_file", SECRET, message="read")
    assert info.metadata["is_error"] is True
    assert answers(t) == ["withheld: it has a password"]
    assert SECRET not in str(t.get_content(info.commit_hash)) + str(info.metadata)
    assert [m["tool_call_id"] for m in t.compile().to_dicts() if m["role"] == "tool"] == ["a"]
    t.off("tool_result")
    t.on("tool_result", lambda p: p.reject())
    t.tool_result("b", "read_file", SECRET)
    assert answers(t)[-1] == "withheld: no reason was given"
    assert t.review.inbox() == []


@pytest.mark.parametrize(
    "decide",
    [
        lambda p: p.reject("no"),
        lambda p: p.apply_decision({"action": "reject", "args": {"reason": "no"}}),
        lambda p: p.execute_tool("reject", {"reason": "no"}),
        lambda p: p.execute_tool(
            next(t["function"]["name"] for t in p.to_tools() if t["function"]["name"] == "reject"),
            {"reason": "no"},
        ),
    ],
)
def test_the_same_rejection_by_python_dict_and_tool(t, decide):
    pending = t.propose_tool_result("a", "read_file", SECRET)
    decide(pending)
    assert (pending.status, pending.rejection_reason) == (PendingStatus.REJECTED, "no")
    assert pending.result.message == "withheld: no"
    assert answers(t) == ["withheld: no"]


def test_the_same_rejection_by_a_click(t):
    channel = FakeChannel()
    t.reviewer.channel = channel
    pending = t.propose_tool_result("a", "read_file", SECRET)
    ticket = t.reviewer.show(pending)
    assert click(ticket, "edit_result", content="safe")
    channel.run_due()
    assert pending.content == "safe"
    assert click(ticket, "reject", reason="no")
    channel.run_due()
    assert answers(t) == ["withheld: no"]
    assert t.review.inbox() == []


def test_an_open_result_does_not_block_the_results_of_other_calls(t):
    t.on("tool_result", lambda p: p.approve() if p.tool_call_id == "b" else None)
    with pytest.raises(UndecidedError) as caught:
        t.tool_result("a", "read_file", "A")
    t.tool_result("b", "read_file", "B")
    caught.value.pending.approve()
    assert answers(t) == ["A", "B"]  # in the order of the calls


def test_on_another_branch_it_is_neither_answered_nor_withheld(t):
    pending = t.propose_tool_result("a", "read_file", SECRET)
    t.branch("other")
    for decide in (pending.approve, lambda: pending.reject("no")):
        with pytest.raises(FingerprintError, match=r"switch\('main'\)"):
            decide()
        assert pending.status.is_open
    assert answers(t) == []
    t.switch("main")
    pending.reject("no")
    assert answers(t) == ["withheld: no"]


def test_once_the_branch_is_gone_a_rejection_commits_nothing(t):
    t.branch("gone")
    pending = t.propose_tool_result("a", "read_file", SECRET)
    t.switch("main")
    t.delete_branch("gone", force=True)
    pending.reject("no")
    assert (pending.status, pending.result, answers(t)) == ("rejected", None, [])


def test_not_all_branches_are_read_for_a_rejection(t, monkeypatch):
    pending = t.propose_tool_result("a", "read_file", SECRET)
    monkeypatch.delattr(type(t._repository.refs), "list_branches")
    pending.reject("no")
    assert answers(t) == ["withheld: no"]


def test_without_a_branch_a_rejection_commits_nothing(t):
    t.checkout(t.head)
    pending = t.propose_tool_result("a", "read_file", SECRET)
    pending.reject("no")
    assert (pending.status, pending.result, answers(t)) == ("rejected", None, [])


def test_an_edit_of_an_earlier_answer_is_decided_too(t):
    first = t.tool_result("a", "read_file", "A")
    t.on("tool_result", lambda p: p.reject("leave it") if "hunter" in p.content else p.approve())
    t.tool_result("a", "read_file", "A2", edit=first.commit_hash[:8])
    assert answers(t) == ["A2"]
    with pytest.raises(RejectedError, match="leave it"):
        t.tool_result("a", "read_file", SECRET, edit=first.commit_hash)
    assert answers(t) == ["A2"]
    with pytest.raises(EditTargetError):
        t.propose_tool_result("a", "read_file", "x", edit="0" * 8)


@pytest.mark.parametrize("content", [3, None, {"x": object()}])
def test_an_invalid_result_is_refused_before_handlers_run(t, content):
    asked = []
    t.on("tool_result", asked.append)
    with pytest.raises(ContentError):
        t.tool_result("a", "read_file", content)
    assert asked == []


def test_an_invalid_edit_keeps_the_result(t):
    pending = t.propose_tool_result("a", "read_file", "A")
    with pytest.raises(ParameterError):
        pending.edit_result(3)
    with pytest.raises(ContentError):
        pending.edit_result("\ud800")
    assert (pending.content, pending.original_content) == ("A", None)
    pending.edit_result({"short": True})
    pending.approve()
    assert answers(t) == ['{"short":true}']


def test_summaries_come_from_the_configured_model(t):
    pending = t.propose_tool_result("a", "read_file", {"text": "long " * 100})
    with pytest.raises(LLMConfigError, match="configure_llm"):
        pending.summarize()
    client = ScriptedClient(" ", " ", " ", " ", "short")
    t.configure_llm(client)
    with pytest.raises(LLMResponseError, match="the answer is unchanged"):
        pending.summarize()
    before = pending.token_count
    assert pending.summarize("keep the numbers") == "short"
    assert pending.token_count < before
    assert "keep the numbers" in client.last_messages[-1]["content"]
    assert "long long" in client.last_messages[-1]["content"]
    info = pending.approve()
    assert info.metadata["original_content"] == {"text": "long " * 100}


def test_another_process_decides_it(tmp_path):
    path = tmp_path / "store.db"
    with Tract.open(path) as first:
        first.user("read")
        first.assistant("", tool_calls=[{"id": "a", "name": "read_file", "arguments": {}}])
        first.reviewer.keep(first.propose_tool_result("a", "read_file", SECRET, tags=["x"]))
    with Tract.open(path) as second:
        pending = second.operations.rebuild(second.review.inbox()[0])
        assert pending.title == "Tool result"
        pending.edit_result("***")
        pending.reject("private")
        assert answers(second) == ["withheld: private"]
        assert second.review.inbox() == []


def test_a_withheld_answer_that_cannot_be_committed_leaves_it_open(t):
    pending = t.propose_tool_result("a", "read_file", "A")
    with pytest.raises(ContentError):
        pending.reject("\ud800")
    assert pending.status.is_open
    assert answers(t) == []


def test_a_rejection_by_another_process_during_a_handler_reaches_the_model(t):
    def wait(pending):  # like `adopt` after a rejection by another process
        pending.status, pending.rejection_reason = PendingStatus.REJECTED, "from afar"

    t.on("tool_result", wait)
    t.tool_result("a", "read_file", SECRET)
    assert answers(t) == ["withheld: from afar"]
