"""A stop from outside works from the first moment of a turn, and blocks no caller."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from tests.review.fakes import FakeChannel, click
from tests.review.scripted import ScriptedClient, call, reply, said
from tests.storage.stopped import can_be_stopped
from tract_jupyter import Tract
from tract_jupyter.context import ApproximateCounter
from tract_jupyter.exceptions import LLMRequestError
from tract_jupyter.llm import ModelCall
from tract_jupyter.loop import Lease
from tract_jupyter.models import Allowance
from tract_jupyter.storage import Database, RunLeaseRows
from tract_jupyter.toolkit import Permission

LOOK = call("look", {"city": "Rome"}, "c1")


class Counter(ApproximateCounter):
    """A counter that calls a function when it counts a certain text. The question is counted before
    the turn starts."""

    def __init__(self, text, then):
        self.text = text
        self.then = then

    def count_text(self, text):
        if text == self.text:
            self.then()
        return super().count_text(text)


def test_stop_counts_before_anything_was_sent():
    client = ScriptedClient("Once.")
    counter = Counter("Tell.", lambda: None)
    with Tract.open(tokenizer=counter) as tract:
        tract.configure_llm(client)
        counter.then = tract.loop.stop
        assert tract.chat("Tell.").outcome == "stopped"
        assert not client.asked
        assert tract.chat(None).text == "Once."


def test_stop_while_no_turn_is_under_way_does_nothing(talk, script):
    script("Once.")
    talk.loop.stop()
    assert talk.chat("Tell.").outcome == "answer"
    talk.loop.stop()


def test_a_task_that_is_cancelled_before_anything_was_sent_sends_nothing():
    client, cancelled, was_blocked = ScriptedClient("Once."), threading.Event(), []
    counter = Counter("Tell.", lambda: was_blocked.append(not cancelled.wait(4)))
    with Tract.open(tokenizer=counter) as tract:
        tract.configure_llm(client)

        async def go():
            task = asyncio.create_task(tract.achat("Tell."))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            cancelled.set()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(go())
        assert (client.asked, was_blocked) == ([], [False])
        assert tract.chat(None).text == "Once."


def test_the_event_loop_keeps_running_while_a_cancelled_task_ends(talk, done):
    begun, release, was_released = threading.Event(), threading.Event(), []

    def model(messages, **options):
        begun.set()
        was_released.append(release.wait(4))
        return reply(None, LOOK)

    talk.models.use(model)

    async def go():
        task = asyncio.create_task(talk.achat("Tell."))
        await asyncio.to_thread(begun.wait, 10)
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
    assert (was_released, done) == ([True], [])
    assert said(talk)[-1] == ("tool", "not run: the task was cancelled")


def test_closing_ends_the_turns_as_stop_does(talk):
    begun = threading.Event()

    class Silent:
        def chat(self, messages, **options):
            with ModelCall() as asked:
                begun.set()
                asked.pause(20)
            raise AssertionError("nothing has ended the call")

    talk.configure_llm(Silent())
    with ThreadPoolExecutor(1) as pool:
        turn = pool.submit(talk.chat, "Tell.")
        assert begun.wait(10)
        talk.close()
        assert turn.result(10).outcome == "stopped"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "outcome", "words"),
    [
        ("stop", "stopped", "the stop was too late"),
        ("seconds", "limit", "the limit of 0.5 seconds was exceeded"),
    ],
)
def test_the_late_reply_of_an_uninterruptible_model_is_kept_with_a_note(talk, done, end, outcome, words):
    replies = [reply(None, LOOK), reply("Sunny.")]

    def model(messages, **options):
        with ModelCall() as asked:  # it receives the stop signal and ignores it
            if end == "stop":
                talk.loop.stop()
            with pytest.raises(LLMRequestError):
                asked.pause(10)
        return replies.pop(0)

    talk.models.use(model)
    limits = Allowance(seconds=0.5) if end == "seconds" else None
    response = talk.chat("How is it?", limits=limits)
    assert (response.outcome, done) == (outcome, [])
    response = talk.chat(None, limits=limits)
    assert (response.outcome, response.text) == ("answer", "Sunny.")
    assert words in response.note
    assert talk.chat(None).text == "Sunny."


def test_a_model_that_cannot_be_ended_is_not_asked_again_after_stop(talk):
    asked = []

    def model(messages, **options):
        asked.append(len(messages))
        talk.loop.stop()
        return reply("Sunny.")

    talk.models.use(model)
    response = talk.chat("How is it?", validator=lambda text: "say more")
    assert (response.outcome, asked) == ("stopped", [1])


# --- a writing call


def stopped_in(tract, client, begun):
    """Run a turn in another thread, as a notebook does; stop it once a call has begun; return the
    response."""
    tract.configure_llm(client)
    with ThreadPoolExecutor(1) as pool:
        turn = pool.submit(tract.chat, "Go.", tools="full")
        assert begun.wait(60)
        tract.loop.stop()
        return turn.result(60)


@pytest.mark.slow
def test_a_call_that_hangs_is_left(tract):
    begun, over, ended = threading.Event(), threading.Event(), threading.Event()

    @tract.tool
    def write() -> str:
        """Write for long."""
        begun.set()
        over.wait(20)
        ended.set()
        return "late"

    tract.executor.permission = lambda tool, actor: Permission.ALLOW
    client = ScriptedClient(reply(None, call("write", {}, "a"), call("write", {}, "b")), "Well.")
    assert stopped_in(tract, client, begun).outcome == "stopped"
    assert [text for role, text in said(tract) if role == "tool"] == [
        "stopped by the user while it ran, so its outcome is unknown. Check before you repeat it",
        "not run: stopped by the user",
    ]
    over.set()
    assert ended.wait(10)
    assert tract.chat(None, tools="full").text == "Well."


def test_a_call_that_ends_soon_has_its_answer(tract):
    begun, over = threading.Event(), threading.Event()

    @tract.tool
    def write() -> str:
        """Write."""
        begun.set()
        over.wait(20)
        return "written"

    tract.executor.permission = lambda tool, actor: Permission.ALLOW
    tract.configure_llm(ScriptedClient(reply(None, call("write", {}, "a"))))
    with ThreadPoolExecutor(1) as pool, tract.loop.signal() as stop:
        stop.on_set(over.set)
        turn = pool.submit(contextvars.copy_context().run, tract.chat, "Go.", tools="full")
        assert begun.wait(10)
        stop.set()
        assert turn.result(10).outcome == "stopped"
    assert said(tract)[-1] == ("tool", "written")


@pytest.mark.parametrize(
    ("backend", "code", "told"),
    [
        ("sandbox", "tools.ready()\nwhile True: pass", '"status": "interrupted"'),
        ("kernel", "tools.ready()\nwhile True: pass", '"status": "interrupted"'),
        ("sandbox", "print('here')\ntools.write()", "here"),
        ("kernel", "tools.ready()", "not run: stopped by the user"),
    ],
    ids=["sandbox", "kernel", "asks", "is-asked-about"],
)
def test_stop_ends_a_script_and_withdraws_its_requests(tract, backend, code, told, monkeypatch):
    monkeypatch.setattr("tract_jupyter.concurrency._LEFT_AFTER", 20)  # even on a slow machine
    begun, is_asked_about = threading.Event(), "not run" in told

    @tract.tool(read_only=True)
    def ready() -> None:
        """Tell that it runs."""
        begun.set()

    @tract.tool
    def write() -> None:
        """Write."""

    def asked(ticket):
        if ticket.pending.operation == "run_script" and not is_asked_about:
            click(ticket, "approve")
        else:
            begun.set()

    tract.reviewer.channel = FakeChannel(asked)
    client = ScriptedClient(
        reply(None, call("notebook_execute", {"code": code, "backend": backend}, "a")), "Well."
    )
    assert stopped_in(tract, client, begun).outcome == "stopped"
    assert told in said(tract)[-1][1]
    assert not tract.review.inbox()
    assert tract.chat(None, tools="full").text == "Well."


def test_code_within_a_lease_can_be_stopped(tmp_path):
    with closing(Database(str(tmp_path / "store.db"))) as database:
        assert can_be_stopped(Lease(database, RunLeaseRows("t"), "run"))
