"""A paid reply can still be committed after changes during the request and after later errors."""

from __future__ import annotations

import pytest

from tests.review.scripted import ScriptedClient, needs_metres, said
from tract_jupyter import Tract
from tract_jupyter.exceptions import (
    BranchError,
    BranchMovedError,
    ContentError,
    StoreLockedError,
    UndecidedError,
)


class Meanwhile(ScriptedClient):
    """A client that calls a function during the request."""

    def __init__(self, do, *replies):
        super().__init__(*replies)
        self.do = do

    def chat(self, messages, **options):
        self.do()
        return super().chat(messages, **options)


def kept(tract):
    """Return the only reply in the inbox, as the user would open it."""
    (stored,) = tract.review.inbox()
    return tract.operations.rebuild(stored)


@pytest.mark.parametrize("is_hooked", [False, True])
def test_a_reply_goes_to_the_branch_that_it_was_asked_on(tract, is_hooked):
    tract.user("How tall?")
    tract.branch("other", switch=False)
    tract.configure_llm(Meanwhile(lambda: tract.switch("other"), "one"))
    if is_hooked:
        tract.on("*", lambda p: None)
    tract.generate()
    assert (tract.current_branch, said(tract)) == ("other", [("user", "How tall?")])
    tract.switch("main")
    assert said(tract)[-1] == ("assistant", "one")
    assert tract.review.inbox() == []


def test_the_branch_of_a_running_request_cannot_be_deleted(tract):
    tract.user("How tall?")
    refused = []

    def delete():
        tract.branch("other")
        with pytest.raises(BranchError, match="running on 'main'|current branch") as caught:
            tract.delete_branch("main", force=True)
        refused.append(caught.value)

    tract.configure_llm(Meanwhile(delete, "one"))
    tract.generate()
    assert refused
    tract.delete_branch("main", force=True)
    assert said(tract) == [("user", "How tall?")]


def test_a_switch_after_the_decision_is_seen_too(ask):
    tract, _ = ask("one")
    pending = tract.propose_generate()
    tract.branch("other")
    with pytest.raises(BranchMovedError):
        tract._parts.generation.commit_reply(pending.fields)


@pytest.mark.parametrize("is_hooked", [False, True])
def test_messages_added_during_a_request_come_before_the_reply(tract, is_hooked):
    tract.user("How tall?")
    tract.configure_llm(Meanwhile(lambda: tract.user("in metres"), "one"))
    if is_hooked:
        tract.on("*", lambda p: None)
    tract.generate()
    assert [text for _, text in said(tract)] == ["How tall?", "in metres", "one"]


def test_the_context_and_the_target_branch_of_a_reply_match(tract, monkeypatch):
    tract.user("on main")
    tract.branch("other", switch=False)
    compile_it = tract._repository.compiler.of

    def switch_first(head):
        if tract.current_branch == "main":
            tract.switch("other")
            tract.user("on the other")
        return compile_it(head)

    monkeypatch.setattr(tract._repository.compiler, "of", switch_first)
    tract.configure_llm(client := ScriptedClient("one"))
    tract.generate()
    assert [m["content"] for m in client.last_messages] == ["on main"]
    tract.switch("main")
    assert said(tract)[-1] == ("assistant", "one")


def fails(pending):
    raise RuntimeError("the handler is broken")


def puts_what_cannot_be_stored(pending):
    pending.fields["seen"] = object()


def is_interrupted(pending):
    raise KeyboardInterrupt


def waits_for_something_else(pending):
    raise UndecidedError("another question is open", object())


@pytest.mark.parametrize(
    ("handler", "error"),
    [
        (fails, RuntimeError),
        (puts_what_cannot_be_stored, ContentError),
        (is_interrupted, KeyboardInterrupt),
        (waits_for_something_else, UndecidedError),
    ],
)
@pytest.mark.parametrize("operation", ["*", "generate"])
def test_a_handler_that_fails_loses_no_reply(ask, handler, error, operation):
    tract, client = ask("one")
    tract.on(operation, lambda p: (handler(p), p.approve()))
    with pytest.raises(error) as caught:
        tract.generate()
    assert len(caught.value.__notes__) == 1
    assert kept(tract).approve().text == "one"
    assert len(client.asked) == 1


@pytest.mark.parametrize("ask_for", [Tract.generate, Tract.propose_generate])
def test_a_validator_that_fails_loses_no_reply(ask, ask_for):
    tract, _ = ask("one")
    with pytest.raises(ZeroDivisionError):
        ask_for(tract, validator=lambda text: 1 / 0)
    assert kept(tract).approve().text == "one"


def test_a_failed_retry_reports_that_the_reply_is_in_the_inbox(ask):
    tract, _ = ask("feet", ConnectionError("down"))
    with pytest.raises(ConnectionError) as caught:
        tract.generate(validator=needs_metres)
    assert "inbox" in caught.value.__notes__[0]
    assert kept(tract).response_text == "feet"


def test_a_request_that_cannot_be_recorded_is_not_sent(ask, monkeypatch):
    tract, client = ask("one")

    def locked(*_, **__):
        raise StoreLockedError("another process holds it")

    monkeypatch.setattr(tract._repository.compile_records, "note", locked)
    with pytest.raises(StoreLockedError):
        tract.generate()
    assert client.asked == []
