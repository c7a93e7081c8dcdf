"""A cassette replays exactly the recorded requests and calls, with the same commits."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import threading
import tracemalloc
import warnings
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.llm.providers import Answer, chunk, provider, sse
from tests.review.fakes import FakeChannel, click
from tests.review.scripted import ScriptedClient, call, reply, said
from tract_jupyter import Tract, review
from tract_jupyter.exceptions import CassetteError, LLMError, LLMRequestError, RunError, StoreClosedError
from tract_jupyter.llm import ModelCall
from tract_jupyter.models import Allowance, Delta
from tract_jupyter.review import Project, RecordedDecisions, Trust, recordable_decisions, write_lock
from tract_jupyter.runs.profile import OperationProfile, run_operation

LOOK = call("look", {"city": "Rome"}, "c1")


def approving(*_):
    return FakeChannel(*[lambda ticket: click(ticket, "approve")] * 20)


@pytest.fixture
def cassette(tmp_path):
    return tmp_path / "talk.cassette.jsonl"


@pytest.fixture
def opened(cassette):
    """Open a tract that records or replays. It has two tools: `look` reads, `send` writes."""
    tracts = []

    def give(way, *replies, **options):
        client = ScriptedClient(*replies) if replies else None
        t = Tract.open(**{way: cassette}, **({"model": client} if client else {}), **options)
        tracts.append(t)
        done = []

        @t.tool(read_only=True)
        def look(city: str) -> str:
            """Look outside."""
            done.append(("look", city))
            if city == "Atlantis":
                raise ValueError("it sank")
            return f"sunny in {city}"

        @t.tool
        def send(to: str) -> dict:
            """Send a mail."""
            done.append(("send", to))
            return {"sent": to, "number": len(done)}

        t.reviewer.channel = approving()
        t.loop.tools = "self"
        return SimpleNamespace(t=t, done=done, client=client)

    yield give
    for t in tracts:
        if t.cassette.is_replaying:
            t.cassette.stop()
        t.close()


def test_a_replay_makes_the_same_commits_without_any_request(opened, cassette):
    recorded = opened(
        "record", reply("Let me see.", LOOK, call("send", {"to": "Ada"}, "c2")), "Sunny.", "Bye."
    )
    recorded.t.system("Be kind.")
    first = recorded.t.chat("How is it?")
    recorded.t.chat("Bye")
    head = recorded.t.head
    told = recorded.t.cassette.stop()
    assert str(told) == f"3 requests and 2 tool calls recorded: {cassette.name}; root hash {head}"
    replayed = opened("replay")
    replayed.t.system("Be kind.")
    second = replayed.t.chat("How is it?")
    replayed.t.chat("Bye")
    assert (second.text, second.usage, second.steps, second.calls) == (first.text, first.usage, 2, 2)
    assert replayed.done == []
    assert replayed.t.head == head
    assert [one.commit_hash for one in replayed.t.log()] == [one.commit_hash for one in recorded.t.log()]
    assert not replayed.t.costs().requests
    report = replayed.t.cassette.stop()
    assert report.is_same
    assert "the same root hash" in str(report)
    assert replayed.t.verify() == []


def test_tools_that_a_person_calls_are_served_too(opened):
    recorded = opened("record")
    given = [recorded.t.tools.look("Rome"), recorded.t.tools.send("Ada"), recorded.t.tools.send("Ada")]
    with pytest.raises(Exception, match="it sank"):
        recorded.t.tools.look("Atlantis")
    recorded.t.cassette.stop()
    replayed = opened("replay")
    assert [
        replayed.t.tools.look("Rome"),
        replayed.t.tools.send("Ada"),
        replayed.t.tools.send("Ada"),
    ] == given
    with pytest.raises(Exception, match="ValueError: it sank"):
        replayed.t.tools.look("Atlantis")
    assert replayed.done == []
    assert replayed.t.cassette.stop().is_same


def test_a_result_without_json_form_is_replayed_unchanged(opened):
    odd = reply(None, call("odd", {}, "c1"))

    def made(one, value):
        one.t.tool(lambda: value, name="odd", description="Be odd.", read_only=True)

    recorded = opened("record", odd, "Odd.")
    made(recorded, {1, 2})
    recorded.t.chat("?")
    head = recorded.t.head
    recorded.t.cassette.stop()
    replayed = opened("replay")
    made(replayed, None)
    replayed.t.chat("?")
    assert replayed.t.head == head


# --- recording

STEP = st.one_of(
    st.text(min_size=1, max_size=8).filter(str.strip),
    st.lists(
        st.sampled_from(["Rome", "Oslo", "Atlantis", 5]).map(lambda city: ("look", {"city": city}))
        | st.sampled_from(["Ada", "Bob"]).map(lambda to: ("send", {"to": to}))
        | st.just(("nothing", {})) | st.just(("status", {}))
        | st.just(("commit", {"content": {"content_type": "dialogue", "role": "user", "text": "note"}})),
        min_size=1, max_size=4,
    ),
    st.sampled_from([LLMRequestError("busy", code="rate_limited", status=429), ValueError("no")]),
)  # fmt: skip


def scripted(steps):
    made = []
    for number, step in enumerate(steps):
        if isinstance(step, list):
            calls = [call(name, arguments, f"c{number}-{at}") for at, (name, arguments) in enumerate(step)]
            made.append(reply(f"step {number}", *calls))
        else:
            made.append(step)
    return made


def talked(one, turns):
    """Return the outcome of each turn."""
    outcomes = []
    for number in range(turns):
        try:
            response = one.t.chat(f"turn {number}")
            outcomes.append((response.text, str(response.outcome), response.steps, response.calls))
        except (LLMRequestError, ValueError) as error:
            outcomes.append((type(error).__name__, str(error), getattr(error, "code", "")))
    return outcomes


@pytest.mark.slow
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(STEP, min_size=1, max_size=6))
def test_any_scripted_conversation_comes_out_the_same(opened, cassette, steps):
    cassette.unlink(missing_ok=True)
    turns = sum(not isinstance(step, list) for step in steps)
    recorded = opened("record", *scripted(steps), "end")
    outcomes = talked(recorded, turns + 1)
    recorded.t.cassette.stop()
    replayed = opened("replay")
    assert talked(replayed, turns + 1) == outcomes
    assert replayed.t.head == recorded.t.head
    assert replayed.done == []
    assert replayed.t.cassette.stop().is_same


def test_async_is_the_same(opened):
    recorded = opened("record", reply(None, LOOK), "Sunny.")
    asyncio.run(recorded.t.achat("How is it?"))
    recorded.t.cassette.stop()
    replayed = opened("replay")
    assert asyncio.run(replayed.t.achat("How is it?")).text == "Sunny."
    assert replayed.t.cassette.stop().is_same


def test_requests_for_summaries_are_recorded(opened):
    recorded, replayed = opened("record", "Yes.", "They agreed."), None
    for one in (recorded,):
        one.t.chat("Shall we?")
        one.t.compress()
    recorded.t.cassette.stop()
    replayed = opened("replay")
    replayed.t.chat("Shall we?")
    replayed.t.compress()
    assert [text for _, text in said(replayed.t)] == [text for _, text in said(recorded.t)]
    assert replayed.t.cassette.stop().is_same


def test_a_run_has_its_seed_and_clock_again(opened):
    profile = OperationProfile.of(
        "guide",
        [run_operation("now", "template", order=1, text="{{ now }}", into="system")],
    )
    recorded = opened("record", "Fine.")
    first = recorded.t.chat("How are you?", profile=profile)
    recorded.t.cassette.stop()
    replayed = opened("replay")
    second = replayed.t.chat("How are you?", profile=profile)
    assert second.run.root_hash == first.run.root_hash
    assert replayed.t.cassette.stop().is_same


def test_scripts_run_again_and_their_calls_are_served(opened):
    pytest.importorskip("pydantic_monty")
    code = "for city in ['Rome', 'Oslo']:\n    print(tools.look(city=city))\nprint(tools.send(to='Ada')['number'])"
    steps = reply(None, call("notebook_execute", {"code": code}, "c1")), "Done."
    recorded = opened("record", *steps)
    recorded.t.loop.tools = "code"
    recorded.t.chat("Go.")
    assert len(recorded.done) == 3
    recorded.t.cassette.stop()
    replayed = opened("replay")
    replayed.t.loop.tools = "code"
    assert replayed.t.chat("Go.").text == "Done."
    assert replayed.done == []
    assert replayed.t.cassette.stop().is_same


def test_decisions_are_made_as_ever(opened):
    recorded = opened("record", reply(None, call("send", {"to": "Ada"}, "c1")), "Sent.")
    recorded.t.chat("Go.")
    recorded.t.cassette.stop()
    replayed = opened("replay")
    replayed.t.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "reject", reason="no"))
    with pytest.raises(
        CassetteError, match=r"request 2 \(chat\) is not request 2 \(chat\) .*: messages\[2\]"
    ):
        replayed.t.chat("Go.")


def test_recorded_decisions_apply_if_no_user_is_available(opened, tmp_path):
    """A replay in CI: the decisions come from the lock file, as in any headless run."""
    lock = tmp_path / "tract.lock.json"
    recorded = opened("record", reply(None, call("send", {"to": "Ada"}, "c1")), "Sent.")
    recorded.t.reviewer.channel = FakeChannel(
        lambda ticket: ticket.submit(review.Answer("approve", {}, ticket.round_id), "panel")
    )
    recorded.t.chat("Go.")
    project = Project.load_or_create(lock, Trust())
    project.keep()
    write_lock(lock, recordable_decisions(recorded.t.review.ledger, project, since=None).entries)
    recorded.t.cassette.stop()
    replayed = opened("replay")
    replayed.t.reviewer.channel = FakeChannel(reachable=False)
    replayed.t.reviewer.channel.lock = RecordedDecisions(lock, Trust())
    assert replayed.t.chat("Go.").text == "Sent."
    assert replayed.done == []
    assert replayed.t.cassette.stop().is_same


# --- strictness


def test_another_text_is_refused_with_the_field(opened):
    recorded = opened("record", "Fine.", "Bye.")
    recorded.t.chat("How are you?")
    recorded.t.chat("Good bye")
    recorded.t.cassette.stop()
    replayed = opened("replay")
    replayed.t.chat("How are you?")
    with pytest.raises(CassetteError) as caught:
        replayed.t.chat("Good buy")
    assert caught.value.differences == ("messages[2].content: recorded 'Good bye', now 'Good buy'",)
    assert str(caught.value).startswith(
        "request 2 (chat) is not request 2 (chat) of the cassette talk.cassette.jsonl: "
    )
    with pytest.raises(CassetteError, match="Good buy"):  # from here on, every request fails
        replayed.t.chat("Good bye")


def test_the_report_counts_the_served_requests_and_calls(opened):
    recorded = opened("record", reply(None, LOOK), "Fine.", "Bye.")
    recorded.t.chat("How are you?")
    recorded.t.tools.look("Oslo")
    recorded.t.cassette.stop()
    replayed = opened("replay")
    replayed.t.chat("How are you?")
    with pytest.raises(CassetteError, match="call 2 .look. is not call 2"):
        replayed.t.tools.look("Bonn")
    for text in ("Good bye", "again"):
        with pytest.raises(CassetteError):
            replayed.t.chat(text)
    report = replayed.t.cassette.stop()
    assert (report.requests, report.calls) == (2, 1)
    assert str(report).startswith("2 requests and 1 tool call replayed")


@pytest.mark.parametrize("say", ["user", "system", "tool", "option"])
def test_a_difference_tells_no_secret(opened, say):
    secret = "sk-" + "a1b2c3d4" * 4
    recorded = opened("record", "Fine.", "Bye.")
    recorded.t.chat("How are you?")
    recorded.t.tools.look("Oslo")
    recorded.t.chat("Good bye")
    recorded.t.cassette.stop()
    replayed = opened("replay")
    replayed.t.chat("How are you?")
    if say != "tool":
        replayed.t.tools.look("Oslo")
    differs = {
        "tool": lambda: replayed.t.tools.look(f"Bonn {secret}"),
        "option": lambda: replayed.t.chat("And this?", of_mine={"key": secret}),
        "user": lambda: (replayed.t.user(f"the key is {secret}"), replayed.t.chat("And this?")),
        "system": lambda: (replayed.t.system(f"the key is {secret}"), replayed.t.chat("And this?")),
    }
    with pytest.raises(CassetteError) as caught:
        differs[say]()
    told = f"{caught.value} {caught.value.differences} {caught.value!r}"
    assert secret[:12] not in told
    assert "[redacted]" in told


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"temperature": 0.5}, r"options.temperature: recorded nothing, now 0.5"),
        ({"tools": None}, r"options.tools: recorded \[.*, now nothing"),
    ],
)
def test_other_options_are_refused(opened, change, words):
    recorded = opened("record", "Fine.")
    recorded.t.chat("?")
    recorded.t.cassette.stop()
    replayed = opened("replay")
    if "tools" in change:
        replayed.t.loop.tools = None
    else:
        replayed.t.models.configure(**change)
    with pytest.raises(CassetteError, match=words):
        replayed.t.chat("?")


def test_another_model_is_refused(opened, cassette):
    with provider(Answer(reply("Hello."))) as here, Tract.open(record=cassette) as t:
        t.models.use("m-1", base_url=here.url)
        t.chat("Hi")
    with Tract.open(replay=cassette) as t:
        t.models.use("m-2", base_url="http://127.0.0.1:9")
        with pytest.raises(CassetteError, match="model: recorded 'm-1', now 'm-2'"):
            t.chat("Hi")
        t.cassette.stop()


def test_another_call_is_refused(opened):
    recorded = opened("record")
    recorded.t.tools.look("Rome")
    recorded.t.cassette.stop()
    replayed = opened("replay")
    with pytest.raises(
        CassetteError, match=r"call 1 \(look\) .*: arguments.city: recorded 'Rome', now 'Oslo'"
    ):
        replayed.t.tools.look("Oslo")
    assert replayed.done == []


def test_an_additional_request_is_refused_in_a_replay(opened):
    recorded = opened("record", "Fine.")
    recorded.t.chat("?")
    recorded.t.cassette.stop()
    replayed = opened("replay")
    replayed.t.chat("?")
    with pytest.raises(
        CassetteError, match="request 2 .chat. is not on the cassette .*: all its requests were used"
    ):
        replayed.t.chat("?")


def test_unused_requests_and_calls_are_reported(opened, cassette):
    recorded = opened("record", "Fine.")
    recorded.t.chat("?")
    recorded.t.tools.look("Rome")
    recorded.t.cassette.stop()
    with (
        Tract.open() as t,
        pytest.raises(CassetteError, match=r"2 not used: request 1 \(chat\), call 1"),
        t.cassette.replay(cassette),
    ):
        assert t.cassette.is_replaying
    t = Tract.open(replay=cassette)
    with pytest.warns(UserWarning, match="2 not used"):
        t.close()
    with pytest.raises(StoreClosedError):
        t.log()


def test_the_same_call_gives_its_answers_in_order(opened):
    recorded = opened("record")
    assert [recorded.t.tools.send("Ada")["number"] for _ in range(3)] == [1, 2, 3]
    recorded.t.cassette.stop()
    replayed = opened("replay")
    assert [replayed.t.tools.send("Ada")["number"] for _ in range(3)] == [1, 2, 3]


def test_reads_of_one_step_may_come_in_another_order(cassette):
    calls = [call("wait", {"number": number}, f"c{number}") for number in range(6)]
    order = []

    def talk(t, turns):
        t.tool(turns, name="wait", description="Wait.", read_only=True)
        t.loop.tools = "self"
        t.chat("Go.")
        return t.head

    def backwards(number: int) -> int:
        gates[number].wait(10)
        order.append(number)
        if number:
            gates[number - 1].set()
        return number

    gates = [threading.Event() for _ in calls]
    gates[-1].set()
    with Tract.open(record=cassette, model=ScriptedClient(reply(None, *calls), "Done.")) as t:
        head = talk(t, backwards)
    assert order == [5, 4, 3, 2, 1, 0]
    for _ in range(3):  # in any order of the threads
        with Tract.open(replay=cassette) as t:
            assert talk(t, backwards) == head
            assert t.cassette.report.is_same


def test_parallel_requests_of_user_threads_can_be_replayed_in_another_order(cassette):
    """Overlapping requests can be replayed in another order."""

    def ask(t, barrier, names):
        t.models.use(lambda messages, **_: (barrier.wait(10), messages[0]["content"].upper())[1])
        client = t.models.client_for("consult")
        got = {}

        def one(name):
            got[name] = client.chat([{"role": "user", "content": name}])["choices"][0]["message"]["content"]

        threads = [threading.Thread(target=one, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
            if t.cassette.is_replaying:
                thread.join()
        for thread in threads:
            thread.join()
        return got

    with Tract.open(record=cassette) as t:
        ask(t, threading.Barrier(3), "abc")
    with Tract.open(replay=cassette) as t:
        assert ask(t, None, "cba") == {"a": "A", "b": "B", "c": "C"}


# --- errors and stream pieces


def test_recorded_errors_are_replayed_unchanged(cassette):
    broken = Answer(sse(chunk({"content": "Hel"}), done=False))
    busy = Answer({"error": {"message": "slow down"}}, status=429)

    def talk(t):
        found = []
        for text in ("One", "Two"):
            pieces = []
            with pytest.raises(LLMRequestError) as caught:
                t.chat(text, on_delta=lambda piece, pieces=pieces: pieces.append(piece.text))
            error = caught.value
            found.append((str(error), error.code, error.status, error.is_transient, error.partial, pieces))
        return found

    with provider(busy, broken) as here, Tract.open(record=cassette) as t:
        t.models.add("m", base_url=here.url, model="m-1", max_retries=0)
        t.models.use("m")
        recorded = talk(t)
    assert [one[1:3] for one in recorded] == [("rate_limited", 429), ("provider_error", None)]
    assert recorded[1][-1] == ["Hel"]
    with Tract.open(replay=cassette) as t:
        assert talk(t) == recorded
        assert t.cassette.report.is_same


def test_a_reply_comes_in_pieces_that_give_the_same_text(cassette):
    class Streaming:
        def chat(self, messages, *, on_delta, **options):
            for piece in ("Hel", "lo."):
                on_delta(Delta("text", piece))
            return reply("Hello.")

    heard = []
    with Tract.open(record=cassette, model=Streaming()) as t:
        t.chat("Hi", on_delta=heard.append)
    again = []
    with Tract.open(replay=cassette) as t:
        t.chat("Hi", on_delta=again.append)
    assert heard == [Delta("text", "Hel"), Delta("text", "lo.")]
    assert again == [Delta("text", "Hello.")]


@pytest.mark.parametrize("seconds", [None, 600, 0.05])
@pytest.mark.parametrize("end", ["stop", "close"])
def test_a_reply_that_was_ended_ends_again_for_the_same_reason(cassette, end, seconds):
    class Endless:
        def __init__(self, t):
            self.t = t

        def chat(self, messages, *, on_delta, **options):
            on_delta(Delta("text", "Once upon"))
            with ModelCall() as asked:
                if seconds != 0.05:
                    getattr(self.t.loop, end)()
                asked.pause(20)

    ended = []
    for way in ("record", "replay"):
        with Tract.open(**{way: cassette}) as t:
            t.models.use(Endless(t) if way == "record" else None)
            response = t.chat("A story", on_delta=lambda _: None, limits=Allowance(seconds=seconds))
            assert response.text == "Once upon"
            ended.append((response.outcome, t.log()[0].metadata["cut"], t.head))
    assert ended[0] == ended[1]
    by = {"stop": "stopped by the user", "close": "the tract was closed"}[end]
    limit = ("limit", "the limit of 0.05 seconds is over")
    assert ended[0][:2] == (limit if seconds == 0.05 else ("stopped", by))


def test_a_call_that_was_interrupted_leaves_the_cassette_whole(opened, cassette):
    def interrupted():
        raise KeyboardInterrupt

    recorded = opened("record")
    recorded.t.tool(interrupted, name="wait", description="Wait.", read_only=True)
    recorded.t.tools.look("Rome")
    with pytest.raises(KeyboardInterrupt):
        recorded.t.tools.wait()
    recorded.t.tools.look("Oslo")
    assert recorded.t.cassette.stop().calls == 2
    replayed = opened("replay")
    assert [replayed.t.tools.look(city) for city in ("Rome", "Oslo")] == ["sunny in Rome", "sunny in Oslo"]
    assert replayed.t.cassette.stop().unused == ()


def test_a_reply_that_comes_after_the_end_is_not_on_it(cassette):
    asked, go_on = threading.Event(), threading.Event()

    def model(messages, **options):
        asked.set()
        assert go_on.wait(10)
        return "Late."

    with Tract.open(record=cassette, model=model) as t:
        replies = []
        thread = threading.Thread(target=lambda: replies.append(t.chat("Hi").text))
        thread.start()
        assert asked.wait(10)
        assert t.cassette.stop().requests == 0
        go_on.set()
        thread.join()
    assert replies == ["Late."]
    with Tract.open(replay=cassette) as t:
        assert t.cassette.stop().unused == ()


def test_cassettes_within_each_other_know_nothing_of_it(opened, cassette):
    """A tool sends a request through another tract that has its own cassette."""
    own = cassette.with_name("own")
    with Tract.open(record=own, model=ScriptedClient("One.", "Two.")) as other:
        recorded = opened("record", reply(None, call("ask", {}, "c1")), "Done.")
        recorded.t.tool(lambda: other.chat("And?").text, name="ask", description="Ask.", read_only=True)
        other.chat("Hi")
        recorded.t.chat("Go.")
        recorded.t.cassette.stop()
    replayed = opened("replay")
    replayed.t.tool(lambda: None, name="ask", description="Ask.", read_only=True)
    replayed.t.chat("Go.")
    assert replayed.t.cassette.stop().is_same
    with Tract.open(replay=own) as other:
        assert [other.chat(text).text for text in ("Hi", "And?")] == ["One.", "Two."]
        assert other.cassette.report.is_same


# --- the file


def test_one_thing_at_a_time(opened, cassette):
    recorded = opened("record")
    for use in (recorded.t.cassette.record, recorded.t.cassette.replay):
        with pytest.raises(
            CassetteError, match=r"is being recorded.*only one cassette; end it with .*stop\(\)"
        ):
            use(cassette.with_name("other"))
    with pytest.raises(CassetteError, match="at once"):
        Tract.open(record=cassette, replay=cassette)
    with pytest.raises(CassetteError, match="has not ended"):
        Tract.open(replay=cassette)
    assert recorded.t.cassette.stop() is not None
    assert recorded.t.cassette.stop() is None
    assert "neither" in repr(recorded.t.cassette)


def test_a_cassette_is_not_overwritten_by_mistake(opened, cassette):
    opened("record", "One.").t.cassette.stop()
    before = cassette.read_bytes()
    with Tract.open() as t:
        with pytest.raises(CassetteError, match=r"replace=True"):
            t.cassette.record(cassette)
        t.models.use(lambda *_, **__: "Two.")
        with t.cassette.record(cassette, replace=True):
            t.chat("?")
            assert cassette.read_bytes() == before  # until the recording is complete
        assert b"Two." in cassette.read_bytes()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda text: "", "is not a cassette"),
        (lambda text: "{}", "is not a cassette"),
        (lambda text: '{"a":' * 100_000, "is not a cassette"),
        (lambda text: text.split("\n")[0] + "\n" + "[" * 100_000 + "\n", "line 2 of .* is damaged"),
        (lambda text: '{"cells": []}\n', "is not a cassette"),
        (lambda text: "\x00\x01", "is not a cassette"),
        (lambda text: text.replace('"cassette": 1', '"cassette": 2'), "newer tract_jupyter"),
        (lambda text: text.replace('"cassette": 1', '"cassette": "x"'), "is not a cassette"),
        (lambda text: text[:-20], "is incomplete: it has 2 requests and 0 tool calls.* record again"),
        (lambda text: "\n".join(text.splitlines()[:3]) + "\n", "is incomplete: it has 1 request and"),
        (lambda text: text + '{"request": 3, "fo', "is incomplete"),
        (lambda text: text + text.splitlines()[1] + "\n", "is damaged"),
        (lambda text: text.replace('"reply"', '"replied"'), "line 3 of .* is damaged"),
        (
            lambda text: "".join(text.splitlines(keepends=True)[:2] + text.splitlines(keepends=True)[3:]),
            "is damaged",
        ),
        (
            lambda text: text.replace('"calls": 0', '"calls": 1'),
            "was changed: lines are missing or were added",
        ),
    ],
)
def test_other_files_are_refused(opened, cassette, damage, words):
    recorded = opened("record", "Fine.", "Bye.")
    recorded.t.chat("Hi")
    recorded.t.chat("Bye")
    recorded.t.cassette.stop()
    cassette.write_text(damage(cassette.read_text()))
    with pytest.raises(CassetteError, match=words):
        Tract.open(replay=cassette)


def test_an_edited_reply_in_the_file_is_replayed(opened, cassette):
    recorded = opened("record", "Fine.", "Bye.")
    recorded.t.chat("Hi")
    recorded.t.chat("Bye")
    recorded.t.cassette.stop()
    cassette.write_text(cassette.read_text().replace("Fine.", "Splendid."))
    replayed = opened("replay")
    assert [replayed.t.chat(text).text for text in ("Hi", "Bye")] == ["Splendid.", "Bye."]
    assert not replayed.t.cassette.report.is_same


def test_other_ends_of_lines_change_nothing(opened, cassette):
    """git on Windows writes such line ends."""
    recorded = opened("record", "Fine.")
    recorded.t.chat("Hi")
    recorded.t.cassette.stop()
    cassette.write_bytes(cassette.read_bytes().replace(b"\n", b"\r\n"))
    assert opened("replay").t.chat("Hi").text == "Fine."


REQUEST = {"request": 1, "for": "chat", "model": "", "messages": [], "options": {}, "reply": {}}
CALL = {"call": 1, "tool": "look", "actor": "user", "arguments": {}, "result": {"output": 1}}


@pytest.mark.parametrize(
    "line",
    [
        {**REQUEST, "after": [1, 1]}, {**REQUEST, "after": [0, 0]}, {**REQUEST, "after": 1},
        {**REQUEST, "options": None}, {**REQUEST, "messages": "Hi"}, {**REQUEST, "request": 2},
        {**REQUEST, "pieces": [[]]}, {**REQUEST, "tract": 1}, {**REQUEST, "for": []},
        {**{key: value for key, value in REQUEST.items() if key != "reply"}, "error": "x"},
        {**CALL, "result": 5}, {**CALL, "result": {"odd": 5}}, {**CALL, "call": 0}, {**CALL, "tool": 1},
        {**CALL, "arguments": []}, {"drawn": []}, {"drawn": "run"},
        {"other": 1}, [], 5, None,
    ],
)  # fmt: skip
def test_an_invalid_line_in_the_file_is_refused(cassette, line):
    first = {"cassette": 1, "tract_id": "t", "branch": "main", "head": None}
    end = {"end": {"requests": 1, "calls": 0}}
    cassette.write_text("".join(f"{json.dumps(one)}\n" for one in (first, line, end)))
    with pytest.raises(CassetteError, match="is damaged"):
        Tract.open(replay=cassette)


@pytest.mark.slow
def test_whatever_a_hand_made_of_a_cassette_is_one_sentence(cassette):
    """Remove or replace each value of each line."""

    def conversation(way, **given):
        with Tract.open(**{way: cassette}, **given) as t:
            t.tool(read_only=True)(look)
            t.loop.tools = "self"
            t.chat(
                "Hi", profile=OperationProfile.of("p", [run_operation("s", order=1, text="!", into="tail")])
            )
            t.tools.look("Oslo")
            t.chat("And?", on_delta=lambda delta: None)
            return t.cassette.stop()

    def look(city: str) -> str:
        """Look outside."""
        return f"sunny in {city}"

    conversation("record", model=ScriptedClient(reply(None, LOOK), "Fine.", "Bye."))
    whole = [json.loads(line) for line in cassette.read_text().splitlines()]
    changes = [
        (place, path, value)
        for place, line in enumerate(whole)
        for path in paths(line)
        for value in (OUT, None, 7, -1, "x", [], {}, [[]], {"x": 1}, True)
    ]
    for place, path, value in random.Random(1).sample(changes, 40):
        changed = json.loads(json.dumps(whole))
        put(changed[place], path, value)
        cassette.write_text("".join(f"{json.dumps(one)}\n" for one in changed))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                conversation("replay")
        except (CassetteError, LLMError, RunError) as error:
            told = str(error)
            assert "Traceback" not in told, (path, value)
            assert "\n" not in told, (path, value)
        except Exception as error:
            raise AssertionError((place, path, value)) from error


OUT = object()


def paths(value, before=()):
    """Yield the path of each value in JSON data."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in pairs:
        yield (*before, key)
        yield from paths(one, (*before, key))


def put(data, path, value):
    for key in path[:-1]:
        data = data[key]
    if value is OUT:
        del data[path[-1]]
    else:
        data[path[-1]] = value


def test_missing_and_unwritable_files_are_refused(tmp_path):
    for path, words in [(tmp_path / "no.jsonl", "cannot be read: No such file"), (tmp_path, "cannot be read"),
                        (5, "a cassette must be a file"), ("", "a cassette must be a file")]:  # fmt: skip
        with pytest.raises(CassetteError, match=words):
            Tract.open(replay=path)
    (tmp_path / "file").write_text("x")
    with Tract.open() as t, pytest.raises(CassetteError, match="cannot be written"):
        t.cassette.record(tmp_path / "file" / "talk.jsonl")


def test_a_recording_is_private_to_its_user(tmp_path, modes):
    with Tract.open(record=tmp_path / "a" / "b" / "talk.jsonl", model=lambda *_, **__: "Hi.") as t:
        t.chat("Hello")
        assert modes(tmp_path) == {"a": 0o700, "a/b": 0o700, "a/b/talk.jsonl.partial": 0o600}
    assert modes(tmp_path)["a/b/talk.jsonl"] == 0o600


def test_two_recordings_do_not_write_to_one_file(opened, cassette):
    recorded = opened("record", "One.", "Two.")
    recorded.t.chat("a")
    with (
        Tract.open() as t,
        pytest.raises(CassetteError, match=r"another recording .*\.stop\(\), or .*replace=True"),
    ):
        t.cassette.record(cassette)
    recorded.t.chat("b")
    recorded.t.close()
    replayed = opened("replay")
    assert [replayed.t.chat(text).text for text in "ab"] == ["One.", "Two."]


KILLED = """
import os, sys
from tract_jupyter import Tract
replies = iter(["One.", "Two."])
def model(messages, **options):
    return next(replies, None) or os._exit(9)
t = Tract.open(sys.argv[1], record=sys.argv[2], model=model)
for text in "abc":
    t.chat(text)
"""


def test_a_recording_that_was_killed_is_refused_with_a_remedy(tmp_path, cassette):
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, tmp_path / "t.db", cassette], check=False, timeout=60
    )
    assert ended.returncode == 9
    partial = cassette.with_name(cassette.name + ".partial")
    assert not cassette.exists()
    with pytest.raises(CassetteError, match=r"its process was killed.*record again"):
        Tract.open(replay=cassette)
    with pytest.raises(CassetteError, match=r"is incomplete.*record again"):
        Tract.open(replay=partial)
    with Tract.open() as t, pytest.raises(CassetteError, match=r"its process was killed.*replace=True"):
        t.cassette.record(cassette)
    with Tract.open(model=lambda *_, **__: "Again.") as t, t.cassette.record(cassette, replace=True):
        t.chat("a")
    assert not partial.exists()
    with Tract.open(replay=cassette) as t:
        assert t.chat("a").text == "Again."


def test_a_process_that_ends_ends_its_recording(tmp_path, cassette):
    code = KILLED.replace("or os._exit(9)", "or 'Three.'")
    subprocess.run([sys.executable, "-c", code, tmp_path / "t.db", cassette], check=True, timeout=60)
    assert '"end"' in cassette.read_text().splitlines()[-1]


def test_a_replay_must_start_at_the_recorded_commit(tmp_path, cassette):
    """A recording from the middle of a conversation replays on a branch at that commit."""
    with Tract.open(tmp_path / "t.db", model=ScriptedClient("Hello.", "Fine.")) as t:
        t.chat("Hi")
        start = t.head
        with t.cassette.record(cassette):
            t.chat("How are you?")
        head = t.head
        with pytest.raises(
            CassetteError, match=f"at commit {start[:8]}, but the context is at commit {head[:8]}"
        ):
            t.cassette.replay(cassette)
        t.branch("again", source=start)
        with t.cassette.replay(cassette):
            t.chat("How are you?")
        assert t.head == head


def test_a_request_that_bypasses_the_cassette_is_refused(opened, cassette):
    opened("record", "Fine.").t.cassette.stop()
    replayed = opened("replay")
    replayed.t.models.use("m-1", base_url="http://127.0.0.1:9")
    client = replayed.t.models.clients.of(replayed.t.models.purposes[None])
    with pytest.raises(CassetteError, match="this request bypasses it"):
        client.chat([])


def test_a_function_that_replaces_the_model_is_recorded_with_its_requests(opened, cassette):
    def ask(messages, **options):
        return one.t.models.client_for("chat").chat(messages, **options)

    one = opened("record", reply(None, LOOK), "Sunny.")
    one.t.loop.ask = ask
    one.t.chat("How is it?")
    head = one.t.head
    assert str(one.t.cassette.stop()).startswith("2 requests and 1 tool call recorded")
    one = opened("replay")
    one.t.loop.ask = lambda messages, **options: pytest.fail("it is not asked")
    assert one.t.chat("How is it?").text == "Sunny."
    assert one.t.head == head
    assert one.t.cassette.report.unused == ()
    one = opened("replay")  # a replay does not need the function
    assert one.t.chat("How is it?").text == "Sunny."
    assert one.t.cassette.report.is_same


def test_a_function_that_replaces_the_model_can_stream_and_fail(cassette):
    def ask(messages, *, on_delta, **options):
        on_delta(Delta("text", "Once "))
        if len(messages) > 1:
            raise LLMRequestError("busy", code="rate_limited")
        return reply("Once upon")

    def talk(t):
        came = []
        t.chat("Tell.", on_delta=lambda piece: came.append(piece.text))
        with pytest.raises(LLMRequestError, match="busy"):
            t.chat("More.", on_delta=lambda piece: came.append(piece.text))
        return came

    with Tract.open(record=cassette, model=lambda messages, **options: None) as t:
        t.loop.ask = ask
        assert talk(t) == ["Once ", "Once "]
    with Tract.open(replay=cassette) as t:
        assert talk(t) == ["Once upon", "Once "]


def test_a_long_conversation_is_written_once(cassette):
    """Each request repeats the whole conversation, but the file stores it once."""
    with Tract.open(record=cassette, model=lambda messages, **_: "y" * 100) as t:
        for number in range(30):
            t.chat(f"{number} " + "x" * 100)
    assert cassette.stat().st_size < 30_000
    assert cassette.read_text().count("x" * 100) == 30


def test_a_file_created_during_the_recording_is_not_overwritten(cassette):
    t = Tract.open(record=cassette, model=lambda messages, **_: "Mine.")
    t.chat("Hi")
    cassette.write_text("theirs")
    with pytest.raises(CassetteError, match="was created during the recording, so it is not overwritten"):
        t.close()
    assert cassette.read_text() == "theirs"
    partial = cassette.with_name(cassette.name + ".partial")
    partial.replace(cassette)
    with Tract.open(replay=cassette) as t:
        assert t.chat("Hi").text == "Mine."


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs here")
def test_a_pipe_and_a_link_to_a_device_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "talk.partial")
    with Tract.open() as t:
        for name in ("pipe", "link"):
            with pytest.raises(CassetteError, match=f"{name} cannot be read: it is not a regular file"):
                Tract.open(replay=tmp_path / name)
            with pytest.raises(CassetteError, match=f"{name} cannot be read: it is not a regular file"):
                t.cassette.replay(tmp_path / name)
        with pytest.raises(CassetteError, match="talk cannot be written"):
            t.cassette.record(tmp_path / "talk", replace=True)


def written(cassette, *lines, **counts):
    """Write a cassette like one from another user."""
    first = {"cassette": 1, "tract_id": "t", "branch": "main", "head": None}
    end = {"end": {"requests": 0, "calls": 0, **counts}}
    cassette.write_text("".join(f"{json.dumps(one)}\n" for one in (first, *lines, end)))


def test_a_value_that_is_nested_deeply_is_refused(opened, cassette):
    deep = json.loads("[" * 600 + "]" * 600)
    written(cassette, {**CALL, "arguments": {"city": deep}}, calls=1)
    with pytest.raises(CassetteError, match=r"nested too deeply|arguments\.city: recorded"):
        opened("replay").t.tools.look("Rome")


def test_a_cassette_of_many_requests_takes_little_memory(cassette):
    """Each request refers to the one before. Expanded, the size is the square of the file's size."""
    message = {"role": "user", "content": "Hi"}
    lines = [{**REQUEST, "messages": [message]}]
    lines += [
        {**REQUEST, "request": number, "after": [number - 1, number - 1], "messages": [message]}
        for number in range(2, 4_001)
    ]
    written(cassette, *lines, requests=len(lines))
    tracemalloc.start()
    try:
        with Tract.open(replay=cassette) as t:
            assert len(t.cassette.stop().unused) == 4_000
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()
