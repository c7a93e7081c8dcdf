"""A fork and its original: concurrent work is not affected, and a failed fork leaves no branch."""

from __future__ import annotations

import json
import threading

import pytest

from tests.review.scripted import ScriptedClient, call, reply, said
from tract_jupyter import Tract
from tract_jupyter.exceptions import BranchError, ContentError, LLMConfigError, TractError
from tract_jupyter.toolkit import Permission

WAIT = 30


@pytest.fixture
def talk(tract):
    tract.models.use(lambda messages, **_: "base: " + str(messages[-1]["content"]))
    tract.system("Be kind.")
    tract.chat("one")
    tract.chat("two")
    return tract


@pytest.fixture
def other():
    """A model that records its messages."""

    def ask(messages, **_):
        ask.sent.append([str(one["content"]) for one in messages])
        return "other"

    ask.sent = []
    return ask


def hashes(tract):
    return [one.commit_hash for one in reversed(tract.log(limit=100))]


def branches(tract):
    return [one.name for one in tract.list_branches()]


def on(tract, branch, look):
    here = tract.current_branch
    tract.switch(branch)
    try:
        return look(tract)
    finally:
        tract.switch(here)


class Slow:
    """A model that replies after a signal."""

    def __init__(self, text):
        self.text, self.asked, self.go = text, threading.Event(), threading.Event()

    def chat(self, messages, **_):
        self.asked.set()
        assert self.go.wait(WAIT)
        return reply(f"{self.text}: {messages[-1]['content']}")


def in_thread(call):
    """Call in a thread; return a function that waits for the result."""
    came = []
    thread = threading.Thread(target=lambda: came.append(call()))
    thread.start()

    def result():
        thread.join(WAIT)
        return came[0]

    return result


def test_a_running_fork_does_not_move_head_of_the_tract(talk, tmp_path):
    slow, before = Slow("fork"), hashes(talk)
    fork = in_thread(lambda: talk.fork(before[1], model=slow))
    assert slow.asked.wait(WAIT)
    assert (talk.current_branch, talk.head) == ("main", before[-1])
    note = talk.user("a note").commit_hash
    assert talk.chat("three").text == "base: three"
    slow.go.set()
    assert fork().text == "fork: one"
    assert hashes(talk)[: len(before) + 1] == [*before, note]
    assert [text for _, text in on(talk, "fork-1", said)] == ["Be kind.", "one", "fork: one"]


def test_two_forks_at_once(talk):
    first, second, before = Slow("first"), Slow("second"), hashes(talk)
    one = in_thread(lambda: talk.fork(before[1], model=first))
    assert first.asked.wait(WAIT)
    two = in_thread(lambda: talk.fork(before[3], model=second))
    assert second.asked.wait(WAIT)
    first.go.set()
    assert one().text == "first: one"
    second.go.set()
    assert two().text == "second: two"
    assert (talk.current_branch, hashes(talk)) == ("main", before)
    assert talk.chat("three").text == "base: three"


def acting(tract, between):
    """A model with two writing calls; `between` is called during the first one."""

    @tract.tool
    def write(number: int) -> str:
        """Write."""
        if number == 1:
            between()
        return f"wrote {number}"

    tract.loop.tools = "self"
    tract.executor.permission = lambda tool, actor: Permission.ALLOW
    calls = [call("write", {"number": number}, f"c{number}") for number in (1, 2)]
    return ScriptedClient(reply("I do", *calls), "done")


@pytest.mark.parametrize("how", ["fork", "switch", "switch in another notebook"])
def test_a_turn_remains_on_the_branch_where_it_began(tmp_path, how):
    with Tract.open(tmp_path / "t.db") as t, Tract.open(tmp_path / "t.db") as elsewhere:
        t.models.use(lambda messages, **_: "hello")
        t.chat("Hi")
        first = t.head
        t.branch("side", switch=False)
        does = {
            "fork": lambda: t.fork(first, model=lambda messages, **_: "other"),
            "switch": lambda: t.switch("side"),
            "switch in another notebook": lambda: elsewhere.switch("side"),
        }[how]

        def meanwhile():
            in_thread(does)()

        client = acting(t, meanwhile)
        t.models.use(client)
        assert t.chat("go").text == "done"
        assert [one["role"] for one in client.asked[-1][0]][-3:] == ["assistant", "tool", "tool"]
        t.switch("main")
        assert [text for _, text in said(t)] == ["Hi", "hello", "go", "I do", "wrote 1", "wrote 2", "done"]
        assert [text for _, text in on(t, "side", said)] == ["Hi", "hello"]


def test_a_model_that_moves_head_gets_a_note_and_its_tools_use_the_new_branch(tract):
    tract.models.use(
        ScriptedClient(
            reply(None, call("branch", {"name": "try"}, "c1")),
            reply(None, call("list_branches", {}, "c2")),
            "done",
        )
    )
    tract.executor.permission = lambda tool, actor: Permission.ALLOW
    response = tract.chat("go", tools="self" if tract.toolset("self").has("list_branches") else "full")
    assert "moved HEAD to branch 'try'; this turn is on branch 'main'" in response.note
    assert tract.current_branch == "try"
    tract.switch("main")
    assert said(tract)[-1] == ("assistant", "done")
    told = json.loads([text for role, text in said(tract) if role == "tool"][-1])
    assert [one["name"] for one in told if one["current"]] == ["try"]


@pytest.mark.parametrize("given", [{}, {"prompt": "forget it"}])
def test_a_fork_keeps_the_requests_of_the_original_open(tract, given):
    @tract.tool
    def write(number: int) -> str:
        """Write."""
        return f"wrote {number}"

    tract.loop.tools = "self"
    calls = reply("I do", call("write", {"number": 1}, "c1"))
    tract.models.use(ScriptedClient(calls, calls, "done", "done"))
    assert tract.chat("go").outcome == "waiting"
    (asked,) = tract.review.inbox()
    tract.fork(**given)
    assert asked.pending_id in [one.pending_id for one in tract.review.inbox()]
    tract.operations.rebuild(tract.review.inbox()[0]).approve()
    assert tract.chat(None).outcome == "answer"
    assert ("tool", "wrote 1") in said(tract)


def newest_pin(t):
    t.annotate(t.log()[-1].commit_hash, "pinned")


def pinned_reply(t):
    t.annotate(t.head, "pinned")


def edited_question(t):
    t.user("TWO", edit=t.log()[1].commit_hash)


def edited_reply(t):
    t.assistant("better", edit=t.head)


@pytest.mark.parametrize(
    ("last", "sent"),
    [
        (newest_pin, ["one", "base: one", "two"]),
        (pinned_reply, ["one", "base: one", "two"]),
        (edited_question, ["one", "base: one", "TWO"]),
        (edited_reply, ["one", "base: one", "two"]),
        (lambda t: t.assistant("by hand"), ["one", "base: one", "two"]),
        (lambda t: t.reasoning("thoughts"), ["one", "base: one", "two"]),
        (lambda t: t.system("Later."), ["one", "base: one", "two", "Later."]),
    ],
)
def test_without_a_prompt_it_always_asks(talk, other, last, sent):
    last(talk)
    assert talk.fork(model=other).text == "other"
    assert other.sent == [["Be kind.", *sent]]


def test_a_fork_without_a_message_to_reply_to_is_refused(talk, other):
    with pytest.raises(ContentError, match="there is no message that a model could reply to"):
        talk.fork(talk.log()[-1].commit_hash)
    talk.compress(content="short")
    with pytest.raises(ContentError, match="ends with a summary"):
        talk.fork(model=other)
    assert (branches(talk), other.sent) == (["main"], [])


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"prompt": " "}, ContentError),
        ({"tools": "selff"}, ContentError),
        ({"limits": 5}, ContentError),
        ({"model": 3}, LLMConfigError),
        ({"text": "x"}, ContentError),
        ({"at": ""}, TractError),
        ({"name": ""}, BranchError),
    ],
)
def test_a_refused_fork_leaves_nothing(talk, given, error):
    with pytest.raises(error):
        talk.fork(**given)
    assert (branches(talk), talk.current_branch, len(talk.forks())) == (["main"], "main", 0)


def interrupted(messages, **_):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"model": interrupted}, KeyboardInterrupt),
        ({"model": interrupted, "prompt": "x"}, KeyboardInterrupt),
        ({"model": interrupted, "prompt": "x", "tools": "self"}, KeyboardInterrupt),
    ],
)
def test_an_interrupted_or_failed_fork_leaves_no_branch(talk, given, error):
    before = hashes(talk)
    with pytest.raises(error) as caught:
        talk.fork(**given)
    assert (branches(talk), hashes(talk), len(talk.forks())) == (["main"], before, 0)
    assert not getattr(caught.value, "__notes__", ())


def test_a_fork_interrupted_after_a_reply_keeps_its_branch(tract):
    client = acting(tract, lambda: None)
    tract.models.use(client)
    tract.chat("go")

    class Cut(ScriptedClient):
        def chat(self, messages, **options):
            if not self.replies:
                raise KeyboardInterrupt
            return super().chat(messages, **options)

    with pytest.raises(KeyboardInterrupt) as caught:
        tract.fork(prompt="again", model=Cut(reply("I do", call("write", {"number": 2}, "d1"))))
    assert "Branch 'fork-1'" in caught.value.__notes__[-1]
    assert on(tract, "fork-1", said)[-1] == ("tool", "wrote 2")


def test_a_model_function_that_raises_is_an_error_row_in_the_table_of_forks(talk):
    def broken(messages, **_):
        raise ValueError("no weights")

    models = {"good": lambda messages, **_: "fine", "bad": broken, "also good": lambda messages, **_: "well"}
    made = [talk.fork(model=model, prompt="and?") for model in models.values()]
    assert [one.outcome for one in made] == ["answer", "error", "answer"]
    assert [str(one) for one in made] == ["fine", "ValueError: no weights", "well"]
    assert "ValueError: no weights" in str(talk.forks())
    talk.switch("fork-2")
    assert talk.chat(None).text == "base: and?"


def test_head_cannot_be_moved_within_a_fork(talk):
    before = hashes(talk)
    with pytest.raises(BranchError, match="a fork stays on its own branch"):
        talk.fork(model=lambda messages, **_: talk.switch("main"))
    assert (hashes(talk), branches(talk)) == (before, ["main"])
