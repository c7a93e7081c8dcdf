"""Turns without a reply: later turns do not send them, a retry continues the same turn, and there
is one answer."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from threading import Event, Thread

import pytest

from tests.review.scripted import ScriptedClient, reply, said
from tract_jupyter import Tract
from tract_jupyter.concurrency import StopSignal
from tract_jupyter.exceptions import (
    BranchMovedError,
    BudgetExceededError,
    LLMError,
    RejectedError,
    RunError,
    RunFailedError,
    UndecidedError,
)
from tract_jupyter.llm import ModelCall
from tract_jupyter.loop import Generation, Turns
from tract_jupyter.models import Delta, TokenBudget
from tract_jupyter.review import Reviewer
from tract_jupyter.runs import RunOptions
from tract_jupyter.runs.profile import OperationProfile, run_operation

PROFILE = OperationProfile.of(
    "p", [run_operation("shout", order=1, text="{{ lastUserMessage }}!", into="message")]
)


class Moody(ScriptedClient):
    """Reply, or raise the next error in `fails`."""

    def __init__(self):
        super().__init__()
        self.fails = []
        self.sent = []

    def chat(self, messages, **options):
        self.sent.append([one["content"] for one in messages])
        if self.fails:
            raise self.fails.pop()
        self.replies = [f"reply {len(self.sent)}"]
        return super().chat(messages, **options)


@pytest.fixture
def talk(tract):
    tract.configure_llm(Moody())
    return tract


HOW = {"plain": {}, "run": {"profile": PROFILE}, "recorded": {"on_event": lambda _: None}}
FAILURES = {
    "provider": (OSError("the line is dead"), (OSError, RunFailedError)),
    "ours": (LLMError("no"), (LLMError, RunFailedError)),
    "ctrl-c": (KeyboardInterrupt(), KeyboardInterrupt),
}


def fail(tract, question, failure="provider", **options):
    error, kind = FAILURES[failure]
    tract.llm.fails.append(error)
    with pytest.raises(kind):
        tract.chat(question, **options) if question else tract.generate(**options)


def texts(tract):
    return [text for _, text in said(tract)]


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("how", HOW)
def test_a_question_without_a_reply_is_not_sent_with_the_next_one(talk, how, failure):
    fail(talk, "Which?", failure, **HOW[how])
    assert texts(talk) == []
    talk.chat("And what?")
    assert talk.llm.sent[-1] == ["And what?"]
    assert texts(talk) == ["And what?", "reply 2"]
    assert talk.verify() == []


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("again", ["chat", "generate"])
def test_asking_again_tries_that_turn_again(talk, how, failure, again):
    talk.chat("First.")
    fail(talk, "Which?", failure, **HOW[how])
    fail(talk, "Which?", failure, **HOW[how])
    if again == "chat":
        talk.chat("Which?", **HOW[how])
    else:
        talk.generate(**HOW[how])
    asked = "Which?!" if how == "run" else "Which?"
    assert talk.llm.sent[-1] == ["First.", "reply 1", asked]
    assert texts(talk) == ["First.", "reply 1", asked, "reply 4"]
    assert [one.message for one in talk.log(limit=None) if one.operation == "append"].count("Which?") == 1
    talk.chat("Next.")
    assert talk.llm.sent[-1][-1] == "Next."
    assert talk.verify() == []


@pytest.mark.parametrize("how", HOW)
def test_an_unanswered_user_message_is_kept_until_another_question_is_sent(talk, how):
    """With `user` and then `generate`, the message is the user's own, and is kept until the next question."""
    talk.user("Which?")
    fail(talk, None, **HOW[how])
    talk.generate()
    assert len(talk.llm.sent[-1]) == 1
    talk.user("What?")
    fail(talk, None, **HOW[how])
    talk.user("When?")
    talk.generate()
    assert talk.llm.sent[-1][-2:] == ["reply 2", "When?"]
    assert texts(talk)[-2:] == ["When?", "reply 4"]


@pytest.mark.parametrize("how", HOW)
def test_a_second_interrupt_while_the_first_is_seen_to_leaves_no_question(talk, how, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(Turns, "is_open", interrupted)
        fail(talk, "Which?", "ctrl-c", **HOW[how])
    talk.chat("What?")
    assert talk.llm.sent[-1] == ["What?"]
    assert texts(talk) == ["What?", "reply 2"]


def interrupted(*_):
    raise KeyboardInterrupt


def test_a_proposal_without_a_reply_is_a_turn_that_failed(talk):
    talk.user("Which?")
    talk.llm.fails.append(OSError("the line is dead"))
    with pytest.raises(OSError, match="dead"):
        talk.propose_generate()
    talk.chat("What?")
    assert talk.llm.sent[-1] == ["What?"]


def test_only_the_failed_question_is_set_aside(talk):
    """Earlier notes of the user and pinned messages are kept."""
    talk.user("By the way, it rains.")
    fail(talk, "Which?")
    talk.chat("What?")
    assert talk.llm.sent[-1] == ["By the way, it rains.", "What?"]


def test_undo_restores_the_priority_of_a_question_that_was_set_aside(talk):
    question = talk.user("Which?").commit_hash
    talk.annotate(question, "pinned")
    fail(talk, None)
    talk.user("What?")
    fail(talk, None)
    assert talk.get_commit(question).priority == "skip"
    other = talk.compile().messages[-1].commit_hash
    talk.undo()  # undo the annotation that set it aside
    assert talk.get_commit(question).priority == "pinned"
    assert other == talk.compile().messages[-1].commit_hash


def test_a_question_that_was_answered_by_hand_is_not_set_aside(talk):
    talk.user("Which?")
    fail(talk, None)
    talk.assistant("That one.")
    talk.chat("And what?")
    assert talk.llm.sent[-1] == ["Which?", "That one.", "And what?"]


def test_a_question_that_was_undone_is_gone(talk):
    talk.chat("First.")
    fail(talk, "Which?")
    talk.undo()  # undo the question and its annotation
    talk.chat("Which?")
    assert texts(talk) == ["First.", "reply 1", "Which?", "reply 3"]


@pytest.mark.parametrize("tries", [1, 2, 3])
@pytest.mark.parametrize("how", HOW)
def test_a_turn_that_was_tried_again_is_undone_as_any_other(talk, how, tries):
    """First the reply, then the question with all its attempts; an undone attempt does not return
    with the next undo."""
    talk.chat("First.")
    before = talk.head
    for _ in range(tries - 1):
        fail(talk, "Which?", **HOW[how])
    talk.chat("Which?", **HOW[how])
    seen = [texts(talk)]
    while talk.head != before:
        step = talk.preview_undo()
        assert talk.undo() == step
        seen.append(texts(talk))
    assert step.message == "Which?"
    if how != "run":  # a run also rewrites the question
        assert seen == [
            ["First.", "reply 1", "Which?", f"reply {tries + 1}"],
            ["First.", "reply 1", "Which?"],
            seen[-1],
        ]
    assert seen[-1] == ["First.", "reply 1"]
    for at in reversed(seen[:-1]):
        talk.redo()
        assert texts(talk) == at
    assert talk.verify() == []


@pytest.mark.parametrize("how", HOW)
def test_a_turn_that_failed_is_undone_at_once(talk, how):
    talk.chat("First.")
    before = talk.head
    fail(talk, "Which?", **HOW[how])
    fail(talk, "Which?", **HOW[how])
    assert talk.undo().message == "Which?"
    assert talk.head == before
    talk.redo()
    talk.generate(**HOW[how])
    assert texts(talk) == ["First.", "reply 1", "Which?!" if how == "run" else "Which?", "reply 4"]


def test_a_users_annotation_and_a_reset_are_separate_undo_steps(talk):
    talk.chat("First.")
    fail(talk, "Which?")
    aside = talk.head
    talk.annotate(talk.log(2)[1].commit_hash, "pinned", reason="mine")
    talk.undo()
    assert talk.head == aside
    talk.reset(talk.log(3)[2].commit_hash)
    talk.reset(aside)
    talk.chat("Which?")
    talk.undo()
    talk.undo()
    assert talk.head == aside
    talk.undo()
    assert texts(talk) == ["First.", "reply 1"]


def test_a_user_annotation_with_the_text_of_a_set_aside_is_not_one(talk):
    """A user annotation with the same text is a separate step, and is not undone with the turn."""
    talk.chat("First.")
    fail(talk, "Which?")
    aside = talk.log(1)[0].message
    talk.undo()
    talk.user("Which?")
    question = talk.head
    talk.annotate(question, "skip", reason=aside)
    assert talk.undo().operation == "annotate"
    assert talk.head == question
    talk.annotate(question, "skip", reason=aside)
    talk.generate()
    assert "Which?" not in texts(talk)


def test_undoing_a_question_restores_the_question_that_it_set_aside(talk):
    talk.user("Which?")
    fail(talk, None)
    talk.chat("What?")
    assert texts(talk) == ["What?", "reply 2"]
    talk.undo()
    talk.undo()
    assert texts(talk) == ["Which?"]


def test_each_branch_has_its_own_turn(talk):
    talk.chat("First.")
    talk.branch("side")
    fail(talk, "Which?")
    talk.switch("main")
    talk.chat("What?")
    assert talk.llm.sent[-1] == ["First.", "reply 1", "What?"]
    talk.switch("side")
    talk.generate()
    assert talk.llm.sent[-1] == ["First.", "reply 1", "Which?"]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("where", ["here", "in another notebook"])
@pytest.mark.parametrize("again", [False, True])
def test_a_turn_is_stored_on_its_own_branch_after_a_switch(tmp_path, how, where, again):
    """The question and its branch are still valid: the reply is stored there."""
    with Tract.open(tmp_path / "t.db") as t, Tract.open(tmp_path / "t.db") as elsewhere:
        t.configure_llm(Moody())
        t.chat("First.")
        t.branch("side", switch=False)
        t.branch("mine")

        def meanwhile():
            (elsewhere if where == "in another notebook" else t).switch("side")

        class Meanwhile(Moody):
            def chat(self, messages, **options):
                person = Thread(target=meanwhile)
                person.start()
                person.join()
                return super().chat(messages, **options)

        t.configure_llm(Meanwhile())
        if again:
            t.user("Which?")
        response = t.generate(**HOW[how]) if again else t.chat("Which?", **HOW[how])
        assert (response.text, t.current_branch, texts(t)) == ("reply 1", "side", ["First.", "reply 1"])
        asked = "Which?!" if how == "run" else "Which?"
        t.switch("mine")
        assert texts(t) == ["First.", "reply 1", asked, "reply 1"]
        assert t.head == response.commit_info.commit_hash
        assert (t.review.inbox(), t.verify()) == ([], [])


@pytest.mark.parametrize("how", HOW)
def test_a_failed_question_is_set_aside_on_its_own_branch_after_a_switch(talk, how):
    talk.chat("First.")
    talk.branch("side", switch=False)

    class Meanwhile(Moody):
        def chat(self, messages, **options):
            person = Thread(target=lambda: talk.switch("side"))
            person.start()
            person.join()
            raise OSError("the line is dead")

    talk.configure_llm(Meanwhile())
    with pytest.raises((OSError, RunFailedError)):
        talk.chat("Which?", **HOW[how])
    talk.switch("main")
    assert texts(talk) == ["First.", "reply 1"]


def test_another_variant_that_fails_leaves_the_reply(talk):
    talk.chat("Which?", profile=PROFILE)
    fail(talk, None, trigger="regenerate", profile=PROFILE)
    assert texts(talk) == ["Which?!", "reply 1"]
    talk.generate(trigger="regenerate", profile=PROFILE)
    assert texts(talk) == ["Which?!", "reply 3"]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("usage", [{"prompt_tokens": float("nan")}, {"prompt_tokens": 3, "cost": {1, 2}}])
def test_a_reply_with_unreadable_usage_is_kept(talk, how, usage):
    """Python reads NaN in JSON, and a client may return any value."""
    talk.configure_llm(ScriptedClient({**reply("reply 1"), "usage": usage}))
    told = talk.chat("Which?", **HOW[how])
    assert told.text == "reply 1"
    assert told.usage in ({}, {"prompt_tokens": 3})
    assert texts(talk)[-1] == "reply 1"
    assert talk.verify() == []


@pytest.mark.parametrize("how", HOW)
def test_a_reply_that_cannot_be_stored_sets_the_question_aside(talk, how, monkeypatch):
    """The question is not left open: the inbox has no reply to it."""
    with monkeypatch.context() as patched:
        patched.setattr(Generation, "_say_reply", broken)
        patched.setattr(Reviewer, "keep", broken)
        with pytest.raises((OSError, RunFailedError)):
            talk.chat("Which?", **HOW[how])
    assert talk.review.inbox() == []
    assert texts(talk) == []
    talk.chat("What?")
    assert talk.llm.sent[-1] == ["What?"]


def broken(*_, **__):
    raise OSError("the disk is full")


# --- turns that have not failed


def test_a_reply_that_waits_in_the_inbox_keeps_its_question(talk):
    """The reply was paid for. Its question is open; it is neither set aside nor sent again."""
    talk.on("generate", lambda pending: None)
    with pytest.raises(UndecidedError):
        talk.chat("Which?")
    talk.operations.rebuild(talk.review.inbox()[0]).approve()
    assert texts(talk) == ["Which?", "reply 1"]


@pytest.fixture
def undecided(talk):
    """Send a message while a handler leaves each reply open; return the open pending."""
    talk.on("generate", lambda pending: None, name="wait")

    def undecided(question="Which?", ask=None, **options):
        with pytest.raises(UndecidedError) as caught:
            ask() if ask else talk.chat(question, **options)
        return caught.value.pending

    return undecided


def test_repeating_a_question_returns_its_open_reply(talk, undecided):
    first = undecided()
    assert undecided() is first
    assert undecided(ask=talk.generate) is first
    assert talk.propose_generate() is first
    assert (texts(talk), len(talk.llm.sent), len(talk.review.inbox())) == (["Which?"], 1, 1)
    first.approve()
    assert texts(talk) == ["Which?", "reply 1"]
    assert undecided() is not first  # the first was answered, so a new request is sent
    assert texts(talk) == ["Which?", "reply 1", "Which?"]


def test_asking_with_other_options_gives_a_second_open_reply(talk, undecided):
    first = undecided()
    second = undecided(temperature=0.5)
    assert first is not second
    assert texts(talk) == ["Which?"]
    assert undecided(temperature=0.5) is second


def test_if_asking_again_with_other_options_fails_the_open_reply_can_be_approved(talk, undecided):
    first = undecided()
    talk.llm.fails.append(OSError("the line is dead"))
    with pytest.raises(OSError, match="dead"):
        talk.chat("Which?", temperature=0.5)
    talk.off("generate", "wait")
    first.approve()
    assert texts(talk) == ["Which?", "reply 1"]


def test_a_question_with_an_open_reply_is_not_set_aside_by_the_next_question(talk, undecided):
    undecided()
    talk.llm.fails.append(OSError("the line is dead"))
    with pytest.raises(OSError, match="dead"):
        talk.generate(temperature=0.5)
    undecided("What?")
    assert texts(talk) == ["Which?", "What?"]


def test_another_question_is_another_turn(talk, undecided):
    first = undecided()
    assert undecided("What?") is not first
    assert texts(talk) == ["Which?", "What?"]


def test_once_its_handler_is_removed_repeating_the_question_accepts_the_waiting_reply(talk, undecided):
    undecided()
    talk.off("generate", "wait")
    assert talk.chat("Which?").text == "reply 1"
    assert (texts(talk), talk.review.inbox(), len(talk.llm.sent)) == (["Which?", "reply 1"], [], 1)


def test_repeating_a_question_does_not_accept_a_reply_proposed_in_code(talk):
    talk.user("Which?")
    proposed = talk.propose_generate()
    with pytest.raises(UndecidedError) as caught:
        talk.chat("Which?")
    assert caught.value.pending is proposed
    assert texts(talk) == ["Which?"]


def test_a_reply_that_was_refused_is_not_asked_for_again(any_store):
    talk = any_store(budget=TokenBudget(max_tokens=12, action="reject"))
    talk.configure_llm(
        client := ScriptedClient("On the mat, where else would it be at this time of the day?")
    )
    for _ in range(3):
        with pytest.raises(BudgetExceededError):
            talk.chat("Where?")
    assert (texts(talk), len(talk.review.inbox()), len(client.asked)) == (["Where?"], 1, 1)


def test_another_process_takes_up_the_reply_that_waits(any_store):
    before, after = any_store(), any_store()
    for tract in (before, after):
        tract.configure_llm(Moody())
    before.on("generate", lambda pending: None)
    with pytest.raises(UndecidedError):
        before.chat("Which?")
    assert after.chat("Which?").text == "reply 1"
    assert (texts(after), after.review.inbox(), after.llm.sent) == (["Which?", "reply 1"], [], [])


def test_a_reply_that_the_budget_refuses_keeps_its_question(any_store):
    talk = any_store(budget=TokenBudget(max_tokens=12, action="reject"))
    talk.configure_llm(ScriptedClient("On the mat, where else would it be at this time of the day?"))
    with pytest.raises(RunFailedError):
        talk.chat("Where?", on_event=lambda _: None)
    assert texts(talk) == ["Where?"]


def test_a_rejected_reply_sets_the_question_aside(talk):
    talk.on("generate", lambda pending: pending.reject("not so"))
    with pytest.raises(RejectedError):
        talk.chat("Which?")
    assert texts(talk) == []


def asking(talk, spec):
    """A profile with one operation that needs the user's decision."""
    talk.register_operation(spec(unhandled="ask"))
    sure = run_operation("sure", "dynamic", order=1, operation="citation_check", fields={"urls": []})
    return OperationProfile.of("asks", [sure])


def test_a_run_that_waits_for_a_person_keeps_its_question(talk, spec):
    asks = asking(talk, spec)
    with pytest.raises(UndecidedError):
        talk.chat("Which?", profile=asks)
    assert texts(talk) == ["Which?"]
    talk.operations.rebuild(talk.review.inbox()[0]).approve()
    assert talk.runs.resume(talk.runs()[0].run_id).text == "reply 1"
    assert texts(talk) == ["Which?", "reply 1"]


def test_a_waiting_run_cannot_be_resumed_if_its_turn_has_a_reply(talk, spec):
    asks = asking(talk, spec)
    with pytest.raises(UndecidedError):
        talk.chat("Which?", profile=asks)
    talk.generate()
    for pending in talk.review.inbox():
        talk.operations.rebuild(pending).approve()
    with pytest.raises(RunError, match="its message has a reply"):
        talk.runs.resume(talk.runs()[0].run_id)
    assert texts(talk) == ["Which?", "reply 1"]


def test_an_aborted_run_is_a_turn_that_failed(talk):
    abort = StopSignal()
    abort.set()
    with pytest.raises(RunFailedError, match="aborted"):
        talk.chat("Which?", profile=PROFILE, run=RunOptions(abort=abort))
    assert texts(talk) == []
    talk.chat("Which?", profile=PROFILE)
    assert texts(talk) == ["Which?!", "reply 1"]


class Streaming(Moody):
    """Send two chunks of the reply, then raise. The argument `on_delta` shows that it can stream."""

    def chat(self, messages, *, on_delta=None, **options):
        self.was_streamed = on_delta is not None
        for piece in ("On the ", "mat"):
            if on_delta is not None:
                on_delta(Delta("reasoning", "hm"))
                on_delta(Delta("text", piece))
        return super().chat(messages, **options)


@pytest.mark.parametrize("failure", FAILURES)
def test_the_partial_reply_of_an_aborted_stream_is_stored_in_the_run(talk, failure):
    talk.configure_llm(Streaming())
    fail(talk, "Where?", failure, profile=PROFILE)
    (run,) = talk.runs()
    assert (run.reply, run.reply_commit, texts(talk)) == ("On the mat", None, [])
    assert run.status == ("aborted" if failure == "ctrl-c" else "failed")
    assert talk.chat("Where?", profile=PROFILE).text == "reply 2"
    assert talk.llm.sent[-1] == ["Where?!"]
    assert talk.verify() == []


def test_without_a_run_nothing_is_streamed(talk):
    talk.configure_llm(Streaming())
    talk.chat("Where?")
    assert not talk.llm.was_streamed


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("gone", ["undone", "reset", "compressed"])
def test_a_reply_to_a_removed_question_is_not_committed(talk, how, gone):
    """The question was undone during the request, so its reply goes to the inbox."""
    talk.chat("First.")
    start = talk.head

    class Meanwhile(Moody):
        def chat(self, messages, **options):
            if gone == "compressed":
                talk.compress(content="All of it.")
            elif gone == "reset":
                talk.reset(start)
            else:
                while "Which?" in " ".join(texts(talk)):
                    talk.undo()
            return super().chat(messages, **options)

    talk.configure_llm(Meanwhile())
    with pytest.raises((BranchMovedError, RunFailedError), match="no longer on branch 'main'"):
        talk.chat("Which?", **HOW[how])
    assert texts(talk) == (["All of it."] if gone == "compressed" else ["First.", "reply 1"])
    (waiting,) = talk.review.inbox()
    if gone == "compressed":
        talk.undo()
        talk.operations.rebuild(waiting).approve()
        assert texts(talk)[-2:] == ["Which?!" if how == "run" else "Which?", "reply 1"]
    assert talk.verify() == []


@pytest.mark.parametrize("how", HOW)
def test_a_reply_is_committed_if_a_compression_copied_its_question(talk, how):
    """A compression of earlier messages gives the question a new commit."""
    first = talk.user("First.")
    talk.assistant("Yes.")

    class Meanwhile(Moody):
        def chat(self, messages, **options):
            talk.compress(commits=[first.commit_hash], content="Begun.")
            talk.user("By the way.")
            return super().chat(messages, **options)

    talk.configure_llm(Meanwhile())
    talk.chat("Which?", **HOW[how])
    asked = "Which?!" if how == "run" else "Which?"
    assert texts(talk) == ["Begun.", "Yes.", asked, "By the way.", "reply 1"]


def test_the_time_of_a_run_ends_its_main_call(talk):
    """The partial reply is stored in the run, as after any abort."""
    talk.configure_llm(Endless())
    with pytest.raises(RunFailedError, match="aborted"):
        talk.chat("Where?", profile=PROFILE, run=RunOptions(timeout=0.2))
    (run,) = talk.runs()
    assert (run.status, run.reply, run.reply_commit, texts(talk)) == ("aborted", "On the ", None, [])


class Endless(Moody):
    """Streams until the call is ended."""

    def chat(self, messages, *, on_delta=None, **options):
        with ModelCall() as call:
            on_delta(Delta("text", "On the "))
            call.pause(60)
        return super().chat(messages, **options)


# --- two turns at once


class Slow(Moody):
    """Reply after a signal."""

    def __init__(self):
        super().__init__()
        self.asked_now, self.may = Event(), Event()

    def chat(self, messages, **options):
        self.asked_now.set()
        assert self.may.wait(30)
        return super().chat(messages, **options)


@pytest.mark.parametrize("how", HOW)
def test_a_second_turn_on_the_same_branch_is_refused_without_a_commit(talk, how):
    talk.configure_llm(client := Slow())
    first = Thread(target=lambda: talk.chat("Which?", **HOW[how]))
    first.start()
    assert client.asked_now.wait(30)
    proposed = talk.propose_generate
    for second in (
        lambda: talk.chat("What?"),
        talk.generate,
        lambda: talk.generate(profile=PROFILE),
        proposed,
    ):
        with pytest.raises(RunError, match="answers on branch 'main'"):
            second()
    client.may.set()
    first.join()
    assert texts(talk)[-1] == "reply 1"
    assert len(client.sent) == 1
    talk.chat("What?")
    assert len(texts(talk)) == 4


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("asked", ["generate", "chat", "propose_generate"])
def test_a_turn_within_a_turn_is_refused(talk, how, asked):
    """From a handler, a tool or an observer: its reply would be placed between a question and its reply."""
    tries = {
        "generate": lambda: talk.generate(**HOW[how]),
        "chat": lambda: talk.chat("What?", **HOW[how]),
        "propose_generate": talk.propose_generate,
    }
    refused = []

    def ask(pending):
        with pytest.raises(RunError, match="this process answers on branch 'main'") as caught:
            tries[asked]()
        refused.append(caught.value)
        pending.pass_through()

    talk.on("generate", ask)
    talk.chat("Which?", **HOW[how])
    talk.user("And?")
    talk.generate(**HOW[how])
    assert len(refused) == len(talk.llm.sent) == 2
    assert texts(talk)[1::2] == ["reply 1", "reply 2"]
    assert talk.verify() == []


def test_a_reply_tells_its_run_if_there_was_one(talk):
    assert talk.chat("Which?").run is None
    assert talk.chat(None).run is None
    assert talk.generate().run is None
    assert talk.generate(trigger="regenerate").run == talk.runs()[0]
    assert talk.chat("What?", profile=PROFILE).run == talk.runs()[0]


# --- kill -9

OPENED = """
import sys
from tests.runs.test_turns import Moody, PROFILE
from tract_jupyter import Tract
tract = Tract.open(sys.argv[1], tract_id="t")
tract.configure_llm(client := Moody())
"""
DIES = (
    OPENED
    + """
import os, signal
client.chat = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
tract.chat("Which?", **({"profile": PROFILE} if sys.argv[2] == "run" else {}))
"""
)
HANGS = (
    OPENED
    + """
answer = client.chat
client.chat = lambda *given, **options: (print(flush=True), sys.stdin.read(1), answer(*given, **options))[2]
tract.chat("Which?", **({"profile": PROFILE} if sys.argv[2] == "run" else {}))
"""
)


def opened(path):
    tract = Tract.open(path, tract_id="t")
    tract.configure_llm(Moody())
    return tract


@pytest.mark.slow
@pytest.mark.parametrize("how", ["plain", "run"])
@pytest.mark.parametrize("then", ["same", "other", "generate"])
def test_a_turn_killed_by_kill_9_is_handled_like_a_failed_turn(tmp_path, how, then):
    path = tmp_path / "t.db"
    killed = subprocess.run([sys.executable, "-c", DIES, path, how], check=False)
    assert killed.returncode == -9
    with opened(path) as tract:
        if then == "generate":
            tract.generate()
        else:
            tract.chat("Which?" if then == "same" else "What?")
        question = (
            "What?"
            if then == "other"
            else "Which?"
            if how == "plain"
            else tract.compile().messages[0].content
        )
        assert texts(tract) == [question, "reply 1"]
        assert tract.llm.sent == [[question]]
        assert tract.verify() == []
        if how == "run":
            killed = tract.runs()[-1]
            assert killed.status == tract.runs.get(killed.run_id).status == "aborted"
            with pytest.raises(RunError, match="its message has a reply, was set aside"):
                tract.runs.resume(killed.run_id)
            tract.branch("aside")
            assert tract.runs.get(killed.run_id).status == "aborted", "its own branch says whether it is over"


@pytest.mark.slow
def test_after_kill_9_the_run_can_be_resumed_as_well(tmp_path):
    path = tmp_path / "t.db"
    subprocess.run([sys.executable, "-c", DIES, path, "run"], check=False)
    with opened(path) as tract:
        assert tract.runs()[0].status == "running"
        assert tract.runs.resume(tract.runs()[0].run_id).run == tract.runs()[0]
        assert texts(tract) == ["Which?!", "reply 1"]
        tract.chat("What?")
        assert tract.llm.sent[-1] == ["Which?!", "reply 1", "What?"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["plain", "run"])
def test_another_process_is_refused_while_one_answers(tmp_path, how):
    path = tmp_path / "t.db"
    command = [sys.executable, "-c", HANGS, str(path), how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        with opened(path) as tract:
            with pytest.raises(RunError, match=f"process {process.pid} .*answers on branch 'main'"):
                tract.chat("What?")
            assert "What?" not in texts(tract)
            with suppress(BrokenPipeError):
                process.stdin.write("x")
                process.stdin.close()
            assert process.wait() == 0
            tract.chat("What?")
            assert texts(tract)[1:] == ["reply 1", "What?", "reply 1"]
