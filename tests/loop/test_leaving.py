"""What the model reads about calls that were left: the true reason why each of them was not made, or what came of it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.loop.conftest import told
from tests.review.fakes import FakeChannel
from tests.review.scripted import ScriptedClient, call, reply, said
from tract_jupyter import Tract
from tract_jupyter.exceptions import CassetteError, LLMRequestError
from tract_jupyter.llm import ModelCall
from tract_jupyter.models import Delta
from tract_jupyter.toolkit import Permission

SEND, NOTE = call("send", {"to": "Bo"}, "c2"), call("note", {"text": "n"}, "c3")
UNKNOWN = "whether it was carried out is not known. Look before you do it again"


def questions(tract):
    return [tract.reviewer.asked_here(stored.pending_id) for stored in tract.review.inbox()]


def test_what_was_approved_and_not_made_is_not_said_to_be_undecided(talk, script, done):
    client = script(reply(None, SEND, NOTE), "ok")
    assert talk.chat("Go.").outcome == "waiting"
    send, _ = questions(talk)
    send.approve()
    assert talk.chat("Never mind.").text == "ok"
    assert told(client) == [
        "not run: it was approved, but the person went on with something else before it was made",
        "not run: nobody decided about it, and the person went on with something else",
    ]
    assert (done, talk.review.inbox()) == ([], [])


def test_what_was_refused_meanwhile_tells_the_reason(talk, script, done):
    client = script(reply(None, SEND), "ok")
    talk.chat("Go.")
    (send,) = questions(talk)
    send.reject("not him")
    talk.chat("Never mind.")
    assert told(client) == ["not run: the person refused it: not him"]
    assert not done


def test_what_was_approved_by_another_tract_of_the_store_counts_as_approved(tmp_path):
    with Tract.open(tmp_path / "t.db") as one, Tract.open(tmp_path / "t.db") as other:

        @one.tool
        def send(to: str) -> None:
            """Send."""

        client = ScriptedClient(reply(None, SEND), "ok")
        one.configure_llm(client)
        one.chat("Go.", tools="self")
        (stored,) = other.review.inbox()
        other.operations.rebuild(stored).approve()
        assert one.chat("Never mind.", tools="self").text == "ok"
        assert "it was approved, but" in told(client)[0]


# --- a process that ended

PROGRAM = """
import os, sys
from tests.review.scripted import ScriptedClient, call, reply
from tests.loop.test_leaving import tract_with_tools
tract = tract_with_tools(sys.argv[1])
calls = {"waits": ["send"], "begun": ["quick"], "read": ["fast", "slow"]}[sys.argv[2]]
tract.configure_llm(ScriptedClient(reply(None, *(call(name, {}, name) for name in calls))))
tract.chat("Go.", tools="self")
"""


def tract_with_tools(path):
    """A tract with a tool that is asked about, one that is not, and two that read; some end the process they run in."""
    tract = Tract.open(path)
    fast_ended = threading.Event()

    def end():
        os._exit(0)

    @tract.tool
    def send() -> str:
        """Send."""
        raise AssertionError("nobody allowed it")

    tract.tool(end, name="quick", description="Change something.")

    @tract.tool(read_only=True)
    def fast() -> str:
        """Read."""
        fast_ended.set()
        return "sunny"

    @tract.tool(read_only=True)
    def slow() -> str:
        """Read for long."""
        fast_ended.wait(10)
        while not tract.loop._answers().journal.of(tract.head):
            pass
        os._exit(0)

    tract.executor.permission = lambda tool, actor: (
        Permission.ASK if tool.name == "send" else Permission.ALLOW
    )
    return tract


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("waits", ["not run: nobody decided about it, and the person went on with something else"]),
        ("begun", [f"it was begun, and the process ended meanwhile: {UNKNOWN}"]),
        (
            "read",
            [
                "sunny",
                "its outcome is not known: the process ended, and it may have begun. Call it again if you need it",
            ],
        ),
    ],
)
def test_what_a_process_left_is_told_as_it_is_known(tmp_path, how, words):
    path = tmp_path / "t.db"
    subprocess.run([sys.executable, "-c", PROGRAM, path, how], check=True, timeout=60)
    with tract_with_tools(path) as tract:
        client = ScriptedClient("ok")
        tract.configure_llm(client)
        assert tract.chat("Something else.", tools="self").text == "ok"
        assert told(client) == words
        assert not tract.review.inbox()
        assert not tract.loop._answers().journal.of(tract.log()[-1].commit_hash)


# --- Stop, and what else ends a turn


def test_a_refusal_before_stop_stays_one(talk, script):
    client = script(reply(None, SEND, NOTE), "ok")
    talk.reviewer.channel = FakeChannel(
        lambda ticket: ticket.pending.reject("not him"), lambda ticket: talk.loop.stop()
    )
    assert talk.chat("Go.").outcome == "stopped"
    talk.chat("Well?")
    assert told(client) == ["not run: the person refused it: not him", "not run: stopped by the user"]
    assert not talk.review.inbox()


def cut_by(talk, end):
    """Return the reply of a turn that something ends after two pieces."""
    begun = threading.Event()

    class Slow:
        def chat(self, messages, *, on_delta=None, **options):
            on_delta(Delta("text", "Once upon "))
            on_delta(Delta("text", "a time"))
            with ModelCall() as asked:
                begun.set()
                asked.pause(20)
            raise AssertionError("nothing has ended the call")

    talk.configure_llm(Slow())
    with ThreadPoolExecutor(1) as pool:
        turn = pool.submit(end, begun)
        return turn.result(20)


def test_a_cut_reply_says_that_the_tract_was_closed(tmp_path):
    with Tract.open(tmp_path / "t.db") as tract:

        def end(begun):
            with ThreadPoolExecutor(1) as pool:
                turn = pool.submit(tract.chat, "Tell.", on_delta=lambda piece: None)
                assert begun.wait(10)
                tract.close()
                return turn.result(10)

        assert cut_by(tract, end).outcome == "stopped"
    with Tract.open(tmp_path / "t.db") as tract:
        assert tract.log()[0].metadata["cut"] == "stopped, as the tract was closed"


def test_a_cut_reply_says_that_its_task_was_cancelled(talk):
    def end(begun):
        async def go():
            task = asyncio.create_task(talk.achat("Tell.", on_delta=lambda piece: None))
            await asyncio.to_thread(begun.wait, 10)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(go())

    cut_by(talk, end)
    assert talk.log()[0].metadata["cut"] == "stopped, as its task was cancelled"


def test_a_reply_that_the_server_cut_is_not_kept(talk):
    class Slow:
        def chat(self, messages, *, on_delta=None, **options):
            on_delta(Delta("text", "Once upon "))
            raise LLMRequestError("the connection broke off", code="provider_error")

    talk.configure_llm(Slow())
    with pytest.raises(LLMRequestError, match="broke off"):
        talk.chat("Tell.", on_delta=lambda piece: None)
    assert said(talk) == []


def test_an_error_while_a_call_was_made_is_told_as_an_error(talk, script, person, done):
    def lost(call, make):
        make()
        talk.loop._answers().journal.end = broken
        return make()

    def broken(*_):
        raise CassetteError("the disk is full")

    person("approve", "approve")
    client = script(reply(None, SEND, NOTE), "ok")
    talk.loop.carry_out = lost
    with pytest.raises(CassetteError, match="the disk is full"):
        talk.chat("Go.")
    talk.loop.carry_out = None
    del talk.loop._answers().journal.end
    talk.chat("Well?")
    assert told(client) == [
        f"the turn was ended by an error while it ran: {UNKNOWN}",
        "not run: the turn was ended by an error",
    ]
    assert done == [("send", "Bo", "hi")]
