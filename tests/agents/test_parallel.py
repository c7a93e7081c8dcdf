"""Parallel agents: the same outcome as in sequence. Lanes, barriers, Stop, and cassettes."""

from __future__ import annotations

import json
import threading

import pytest

from tests.agents.cast import BOSS, Cast, Person, ask, calls, create
from tests.agents.conftest import furnish
from tests.review.scripted import call
from tract_jupyter import Session, Tract
from tract_jupyter.agents import CallState
from tract_jupyter.exceptions import AgentError

NAMES = ("ant", "bee", "cat", "dog")
PATIENCE = 30


def add(number):
    return call("add", {"a": number, "b": 1}, "a1")


def parts(**more):
    """Each agent adds something up, then answers."""
    return {
        name: [calls(add(number)), f"{name} found {number + 1}"] for number, name in enumerate(NAMES)
    } | more


def staffed(tract):
    for name in NAMES:
        tract.agents.create(name, f"{name} works.", "d", tools=["add"])
    return tract


def outcome(tract):
    """The conversations of all agents and of the chat, as content hashes."""
    found = {}
    for name in NAMES:
        with tract.agents.transcript(name) as read:
            found[name] = [info.content_hash for info in read.log(None)]
    told = [one["content"] for one in tract.compile().to_dicts() if one["role"] == "tool"]
    return found, told, tract.agents.meter.spent | {"seconds": 0}


def in_one_step():
    return [calls(*(ask(name, f"c{name}") for name in NAMES)), "over"]


def one_by_one():
    return [*(calls(ask(name, f"c{name}")) for name in NAMES), "over"]


def test_four_parallel_agents_give_the_same_result_as_in_sequence(stage, cast, done):
    met = threading.Barrier(len(NAMES))

    def waits(text):
        def given(messages):
            met.wait(PATIENCE)
            return text

        return given

    made = parts(boss=in_one_step())
    for name in NAMES:
        made[name][0] = waits(made[name][0])  # each waits for all others: they overlap, or the test fails
    cast(**made)
    assert staffed(stage).chat("Go.").text == "over"
    with Tract.open() as other:
        other.models.use(Cast(**parts(boss=one_by_one())))
        assert staffed(furnish(other, [])).chat("Go.").text == "over"
        assert outcome(other) == outcome(stage)
    assert sorted(done) == [("add", number, 1) for number in range(4)]


def test_calls_of_different_agents_run_in_parallel_and_calls_of_one_agent_in_order(stage, cast):
    met, order = threading.Barrier(2), []

    def ant(messages):
        order.append(("ant", messages[-1]["content"]))
        if messages[-1]["content"] == "first":
            met.wait(PATIENCE)
        return "ok"

    def bee(messages):
        met.wait(PATIENCE)
        return "ok"

    cast(boss=[calls(ask("ant", "c1", "first"), ask("bee", "c2"), ask("ant", "c3", "second")), "over"],
         ant=[ant, ant], bee=[bee])  # fmt: skip
    assert staffed(stage).chat("Go.").text == "over"
    assert order == [("ant", "first"), ("ant", "second")]
    assert [one.number for one in stage.agents.get("ant").calls] == [1, 2]


def test_calls_by_name_and_by_agent_call_share_the_lane_of_the_agent(stage, cast):
    busy, overlapped = threading.Lock(), []

    def ant(messages):
        overlapped.append(not busy.acquire(blocking=False))
        busy.release()
        return "ok"

    named = call("agents_ant", {"input": "second"}, "c2")
    cast(boss=[calls(ask("ant", "c1"), named, ask("bee", "c3")), "over"], ant=[ant, ant], bee=["ok"])
    assert staffed(stage).chat("Go.").text == "over"
    assert overlapped == [False, False]


def test_a_writing_call_between_agent_calls_is_a_barrier(stage, cast, person, done):
    person()

    def finds(name):
        def given(messages):
            done.append(name)
            return "ok"

        return given

    write = call("write", {"text": "between"}, "w1")
    cast(
        boss=[calls(ask("ant", "c1"), ask("bee", "c2"), write, ask("cat", "c3"), ask("dog", "c4")), "over"],
        **{name: [finds(name)] for name in NAMES},
    )
    staffed(stage).chat("Go.")
    assert done[2] == ("write", "between")
    assert (set(done[:2]), set(done[3:])) == ({"ant", "bee"}, {"cat", "dog"})


def test_create_and_call_in_one_answer_happen_in_order(stage, cast, person):
    person()
    model = cast(
        boss=[calls(create("ant", "c1"), ask("ant", "c2"), create("bee", "c3"), ask("bee", "c4"), ask("ant", "c5")), "over"],
        ant=["one", "two"], bee=["three"],
    )  # fmt: skip
    stage.chat("Go.")
    told = [json.loads(one) for one in model.told(BOSS)]
    assert [one.get("answer") for one in told] == [None, "one", None, "three", "two"]


def test_one_failing_agent_does_not_affect_the_others(stage, cast):
    model = cast(boss=in_one_step(), **(parts() | {"bee": [RuntimeError("the model broke")]}))
    assert staffed(stage).chat("Go.").text == "over"
    told = model.told(BOSS)
    assert "gave no answer, failed" in told[1]
    assert [json.loads(told[place])["answer"] for place in (0, 2, 3)] == [
        "ant found 1",
        "cat found 3",
        "dog found 4",
    ]


@pytest.mark.parametrize("what", ["chat", "all", "one"])
def test_stop_in_the_middle_stops_the_whole_tree(stage, cast, what):
    begun, go_on = threading.Barrier(3), threading.Event()

    def works(messages):
        begun.wait(PATIENCE)
        go_on.wait(PATIENCE)
        return calls(add(1))

    cast(
        boss=[calls(ask("ant", "c1"), ask("bee", "c2")), "over"],
        ant=[works, "ant over"],
        bee=[works, "bee over"],
    )
    staffed(stage)
    responses = []
    thread = threading.Thread(target=lambda: responses.append(stage.chat("Go.")))
    thread.start()
    begun.wait(PATIENCE)
    if what == "chat":
        stage.loop.stop()
    else:
        stage.agents.stop(None if what == "all" else "ant")
    go_on.set()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    (response,) = responses
    states = {name: stage.agents.get(name).calls[0].state for name in ("ant", "bee")}
    if what == "one":
        assert states == {"ant": CallState.STOPPED, "bee": CallState.DONE}
    else:
        assert states == dict.fromkeys(states, CallState.STOPPED)
    assert response.outcome == ("stopped" if what == "chat" else "answer")
    assert stage.agents.meter.aside == dict.fromkeys(stage.agents.meter.aside, 0)
    cast(ant=["ant went on"] * 3, bee=["bee went on"] * 3)
    assert stage.agents.resume("ant") == "ant went on"


def test_a_stop_also_ends_nested_agents(stage, cast):
    begun, go_on = threading.Event(), threading.Event()

    def works(messages):
        begun.set()
        go_on.wait(PATIENCE)
        return calls(add(1))

    ended = threading.Event()
    stage.agents.on_change.append(
        lambda: states() == dict.fromkeys(("low", "top"), CallState.STOPPED) and ended.set()
    )

    def states():
        return {one.name: call.state for one in stage.agents for call in one.calls}

    stage.agents.create("low", "low works.", "d", tools=["add"])
    stage.agents.create("top", "top works.", "d", tools=["add"], toolsets=["dynamic_agents"])
    cast(boss=[calls(ask("top", "c1")), "over"], top=[calls(ask("low", "c2")), "top over"], low=[works])
    thread = threading.Thread(target=stage.chat, args=("Go.",))
    thread.start()
    assert begun.wait(PATIENCE)
    stage.loop.stop()
    go_on.set()
    thread.join(PATIENCE)
    assert ended.wait(PATIENCE), states()


LATE = {
    "a text": ("low over", "its reply could not be interrupted", 24, 0),
    "calls": (calls(add(1)), "stopped", 24, 1),
    "an error": (RuntimeError("broken"), "after that: RuntimeError: broken", 12, 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", ["chat", "top"])
@pytest.mark.parametrize("late", LATE)
def test_an_agent_that_replies_after_a_stop_is_stopped_and_charged_to_its_callers(stage, cast, what, late):
    """Its model hangs, so its caller does not wait for it and ends first."""
    reply, note, tokens, asked = LATE[late]
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def hangs(messages):
        begun.set()
        go_on.wait(PATIENCE)
        return reply

    def looks_on():
        if states().get("top") is CallState.STOPPED:
            go_on.set()
        if states().get("low") not in {None, CallState.RUNNING}:
            ended.set()

    def states():
        return {one.name: call.state for one in stage.agents for call in one.calls}

    stage.agents.create("low", "low works.", "d", tools=["add"])
    stage.agents.create("top", "top works.", "d", tools=["add"], toolsets=["dynamic_agents"])
    model = cast(boss=[calls(ask("top", "c1")), "over"], top=[calls(ask("low", "c2")), "over"], low=[hangs])
    stage.agents.on_change.append(looks_on)
    thread = threading.Thread(target=stage.chat, args=("Go.",))
    thread.start()
    assert begun.wait(PATIENCE)
    stage.loop.stop() if what == "chat" else stage.agents.stop(what)
    thread.join(PATIENCE)
    assert ended.wait(PATIENCE), states()
    top, low = stage.agents.get("top"), stage.agents.get("low")
    assert low.calls[0].state is CallState.STOPPED
    assert low.calls[0].note.startswith(note)
    stage.agents.close()  # waits until the usage is charged
    taken = {"steps": 2.0, "tokens": float(tokens)}
    for used in (top.calls[0].used, stage.agents.meter_of(top).spent, stage.agents.meter.spent):
        assert {name: used[name] for name in taken} == taken
    (kept,) = stage.agents.records.calls("top")
    assert kept.used == top.calls[0].used
    model.parts["low"] = ["low over"]
    assert stage.agents.resume("low") == "low over"  # a stored reply is not requested again
    assert len(model.asked["low"]) == 1 + asked


def test_two_parallel_agent_calls_share_the_callers_budget(stage, cast):
    """The first call does not reserve the caller's whole remaining budget."""
    met = threading.Barrier(2)

    def works(messages):
        met.wait(PATIENCE)
        return "ok"

    stage.agents.create("ant", "ant works.", "d")
    stage.agents.create("bee", "bee works.", "d")
    stage.agents.create(
        "top", "top works.", "d", toolsets=["dynamic_agents"], budget={"steps": 10, "tokens": 100_000}
    )
    cast(top=[calls(ask("ant", "c1"), ask("bee", "c2")), "top over"], ant=[works], bee=[works])
    assert stage.agents.call("top", "go") == "top over"
    assert [stage.agents.get(name).calls[0].limits.steps for name in ("ant", "bee")] == [4, 4]
    assert stage.agents.get("top").calls[0].used["steps"] == 4


def test_closing_the_tract_ends_running_agent_calls(stage, cast):
    begun, go_on = threading.Event(), threading.Event()

    def works(messages):
        begun.set()
        go_on.wait(PATIENCE)
        return "over"

    cast(ant=[works])
    staffed(stage)
    raised = []

    def person():
        try:
            stage.agents.call("ant", "go")
        except AgentError as error:
            raised.append(error)

    thread = threading.Thread(target=person)
    thread.start()
    assert begun.wait(PATIENCE)
    closing = threading.Thread(target=stage.close)
    closing.start()
    go_on.set()
    thread.join(PATIENCE)
    closing.join(PATIENCE)
    assert not thread.is_alive()
    assert not closing.is_alive()


# --- a cassette


def recorded(session, tract, done):
    """Two agents work in one step; one of them asks the user."""
    furnish(tract, done)
    tract.reviewer.channel = Person()
    for name in NAMES[:2]:
        tract.agents.create(name, f"{name} works.", "d", tools=["add", "write"])
    response = tract.chat("Go.")
    heads = {info.tract_id: info.head for info in session.list_tracts()}
    for name in NAMES[:2]:
        with tract.agents.transcript(name) as read:
            heads[name] = read.head
    return response.text, heads


@pytest.mark.parametrize("first", [0, 1])
def test_a_cassette_of_two_parallel_agents_is_replayed_with_the_same_result(tmp_path, first):
    """For each order of the two agents when recorded and when replayed."""
    cassette, turns = tmp_path / "talk.cassette.jsonl", [threading.Event(), threading.Event()]

    def in_turn(place, text):
        def given(messages):
            if place != first:
                assert turns[first].wait(PATIENCE)
            turns[place].set()
            return text

        return given

    write = call("write", {"text": "t"}, "w1")
    model = Cast(
        boss=[calls(ask("ant", "c1"), ask("bee", "c2")), "over"],
        ant=[calls(add(1)), in_turn(0, "ant over")],
        bee=[calls(write), in_turn(1, "bee over")],
    )
    done = []
    with Session.open() as session:
        tract = session.create_tract(record=cassette)
        tract.models.use(model)
        was = recorded(session, tract, done)
        tract.cassette.stop()
    for _ in range(3):
        with Session.open() as session:
            tract = session.create_tract(replay=cassette)
            again = recorded(session, tract, done)
            report = tract.cassette.stop()
        assert again == was
        assert report.is_same
    assert sorted(done) == [("add", 1, 1), ("write", "t")]
