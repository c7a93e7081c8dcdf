"""Results of unfinished calls, as the model reads them: the true reason why a call did not run, or
its outcome."""

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
UNKNOWN = "so its outcome is unknown. Check before you repeat it"


def questions(tract):
    return [tract.reviewer.asked_here(stored.pending_id) for stored in tract.review.inbox()]


def test_an_approved_call_that_did_not_run_is_not_reported_as_undecided(talk, script, done):
    client = script(reply(None, SEND, NOTE), "ok")
    assert talk.chat("Go.").outcome == "waiting"
    send, _ = questions(talk)
    send.approve()
    assert talk.chat("Never mind.").text == "ok"
    assert told(client) == [
        "not run: it was approved, but the user continued with another message before it ran",
        "not run: the user did not decide, and continued with another message",
    ]
    assert (done, talk.review.inbox()) == ([], [])


def test_a_late_rejection_is_reported_with_its_reason(talk, script, done):
    client = script(reply(None, SEND), "ok")
    talk.chat("Go.")
    (send,) = questions(talk)
    send.reject("not him")
    talk.chat("Never mind.")
    assert told(client) == ["not run: the user refused it: not him"]
    assert not done


def test_an_approval_by_another_tract_of_the_store_is_reported_as_approved(tmp_path):
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


# --- an ended process

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
    """A tract with a tool that needs approval, one that does not, and two read-only tools; some
    kill their process."""
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
        ("waits", ["not run: the user did not decide, and continued with another message"]),
        ("begun", [f"it began, but the process ended, {UNKNOWN}"]),
        (
            "read",
            [
                "sunny",
                "its outcome is unknown: it may have begun, and the process ended. Call it again if you need it",
            ],
        ),
    ],
)
def test_calls_of_an_ended_process_are_reported_with_their_known_state(tmp_path, how, words):
    path = tmp_path / "t.db"
    subprocess.run([sys.executable, "-c", PROGRAM, path, how], check=True, timeout=60)
    with tract_with_tools(path) as tract:
        client = ScriptedClient("ok")
        tract.configure_llm(client)
        assert tract.chat("Something else.", tools="self").text == "ok"
        assert told(client) == words
        assert not tract.review.inbox()
        assert not tract.loop._answers().journal.of(tract.log()[-1].commit_hash)


# --- Stop, and other endings of a turn


def test_a_rejection_before_stop_is_reported_as_a_rejection(talk, script):
    client = script(reply(None, SEND, NOTE), "ok")
    talk.reviewer.channel = FakeChannel(
        lambda ticket: ticket.pending.reject("not him"), lambda ticket: talk.loop.stop()
    )
    assert talk.chat("Go.").outcome == "stopped"
    talk.chat("Well?")
    assert told(client) == ["not run: the user refused it: not him", "not run: stopped by the user"]
    assert not talk.review.inbox()


def cut_by(talk, end):
    """Return the reply of a turn that is ended after two chunks."""
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
        assert tract.log()[0].metadata["cut"] == "the tract was closed"


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
    assert talk.log()[0].metadata["cut"] == "the task was cancelled"


def test_a_reply_that_the_server_cut_is_not_kept(talk):
    class Slow:
        def chat(self, messages, *, on_delta=None, **options):
            on_delta(Delta("text", "Once upon "))
            raise LLMRequestError("the connection broke off", code="provider_error")

    talk.configure_llm(Slow())
    with pytest.raises(LLMRequestError, match="broke off"):
        talk.chat("Tell.", on_delta=lambda piece: None)
    assert said(talk) == []


def test_an_error_during_a_call_is_reported_as_an_error(talk, script, person, done):
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
        f"an error ended the turn while it ran, {UNKNOWN}",
        "not run: an error ended the turn",
    ]
    assert done == [("send", "Bo", "hi")]
