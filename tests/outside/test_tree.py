"""Agents of the tree with an outside agent as their runtime."""

import asyncio
import os
import shlex
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.outside.conftest import call, command, writing
from tests.review.scripted import ScriptedClient, reply
from tests.review.scripted import call as tool_call
from tract_jupyter import Tract
from tract_jupyter.agents import TreeLimits
from tract_jupyter.exceptions import AgentError
from tract_jupyter.models import Allowance, TurnOutcome
from tract_jupyter.review import personal_channel

CREATE = {
    "name": "writer",
    "instructions": "You write files.",
    "description": "Writes files.",
    "runtime": "fake",
}
CALL = {"agent": "writer", "input": "Write new.py."}


def created(tract, **more):
    return tract.agents.create("writer", "You write files.", "Writes files.", runtime="fake", **more)


def test_a_model_creates_and_calls_it_and_the_undo_restores_files(known, log, tract, user, folder):
    known(
        prompts=[[["env"], *writing(), ["text", "Written."]]],
        log=log.place,
        settings={"asks": ("file changes",)},
    )
    tract.outside.use("fake", env=["USER"])  # the settings of the user apply
    tract.configure_llm(
        ScriptedClient(
            reply(None, tool_call("agent_create", CREATE, "a"), tool_call("agent_call", CALL, "b")), "Done."
        )
    )
    actors = []

    async def decide(request):
        actors.extend(one.actor for one in tract.review.inbox())
        return await user.decide(request)

    tract.reviewer.channel = personal_channel("test")(decide)
    response = tract.chat("Have a file written.", tools="agents")
    assert response.text == "Done."
    create, write = user.requests
    rows = str(create.tables)
    assert "runs on fake · has its own tools, and asks as it decides" in rows
    assert "Fake. It asks about file changes." in rows
    assert "It may act without a request." in rows
    assert "tokens, money" in rows
    assert write.title == "Fake wants to create new.py"
    (done,) = tract.agents.calls_of("writer")
    assert (done.state, done.answer, done.used["steps"], done.used["calls"]) == ("done", "Written.", 2, 1)
    assert actors == ["agent:chat", f"agent:writer@{tract.agents.get('writer').hash[:8]}"]
    prompt = log.sent("session/prompt")[0]["prompt"][0]["text"]
    assert prompt == "You write files.\n\nWrite new.py."
    assert log.sent("session/new")[0]["mcpServers"] == []
    assert tract.outside.running == ()
    assert (folder / "new.py").exists()
    tract.undo(turn=tract.loop.turns()[-1])
    assert not (folder / "new.py").exists()


def test_a_call_is_on_the_cassette_of_the_session(known, tract, user, folder, tmp_path):
    known(prompts=[[*writing(), ["text", "Written."]]])
    tract.configure_llm(
        ScriptedClient(
            reply(None, tool_call("agent_create", CREATE, "a"), tool_call("agent_call", CALL, "b")), "Done."
        )
    )
    file = tmp_path / "tree.cassette.jsonl"
    with tract.cassette.record(file):
        tract.chat("Have a file written.", tools="agents")
    (folder / "new.py").unlink()
    known(settings={"command": ("/no/such",)})
    with Tract.open(replay=file) as other:
        other.reviewer.channel = personal_channel("test")(user.decide)
        assert other.chat("Have a file written.", tools="agents").text == "Done."
        assert other.cassette.report.is_same
        (done,) = other.agents.calls_of("writer")
        assert done.answer == "Written."
    assert not (folder / "new.py").exists()


def test_a_replay_keeps_messages_and_ids_of_agents_on_one_outside_agent(known, tract, tmp_path):
    looks = ["call", call("r", kind="read", status="completed")]
    known(prompts=[[looks, ["echo"]]])
    names, file = ["one", "two"], tmp_path / "two.cassette.jsonl"

    def ids(opened, order):
        for name in names:
            opened.agents.create(name, "You look.", "Looks.", runtime="fake")
        for name in order:
            assert opened.agents.call(name, f"This is {name}.").endswith(f"This is {name}.")
        found = {}
        for name in names:
            with opened.agents.transcript(name) as transcript:
                found[name] = [
                    one.id for message in transcript.compile().messages for one in message.tool_calls
                ]
        return found

    with tract.cassette.record(file):
        recorded = ids(tract, names)
    with Tract.open(replay=file) as other:  # parallel calls may arrive in another order
        assert ids(other, reversed(names)) == recorded
    assert recorded["one"] != recorded["two"]


def test_limits_and_settings_that_cannot_be_enforced_are_refused(known, tract):
    known()
    for more, why in [
        ({"model": "small"}, "so model would have no effect"),
        ({"tools": ["no_such"]}, "there is no tool 'no_such' here"),
        ({"budget": {"usd": 1, "steps": 3}}, "the use of usd by an outside agent is not known"),
    ]:
        with pytest.raises(AgentError, match=why):
            created(tract, **more)
    with pytest.raises(AgentError, match=r"there is no runtime '/bin/sh -c x' here.* Allowed: fake"):
        tract.agents.create("writer", "You write files.", "Writes.", runtime="/bin/sh -c x")
    agent = created(tract)
    assert "runtime: fake" in agent.text
    tract.agents.limits = TreeLimits(budget=Allowance(usd=2, steps=10))
    with pytest.raises(AgentError, match="a limit of usd applies to this call"):
        tract.agents.call("writer", "Go.")
    tract.agents.limits = TreeLimits()
    inner = reply(None, tool_call("agent_call", CALL))
    tract.configure_llm(ScriptedClient(inner, "It was refused."))
    tract.agents.create("boss", "You lead.", "Leads.", toolsets=["dynamic_agents"])
    assert tract.agents.call("boss", "Let it write.") == "It was refused."
    assert not tract.agents.calls_of("writer")
    with tract.agents.transcript("boss") as transcript:
        assert "calling an agent never adds rights" in transcript.compile().messages[-2].content


def test_an_agent_gets_exactly_the_tools_that_its_creator_granted(known, log, tract, user):
    @tract.tool(read_only=True)
    def count_birds(place: str) -> int:
        """Count the birds."""
        return len(place)

    @tract.tool
    def ring_bird(name: str) -> str:
        """Ring a bird."""
        return f"{name} has a ring"

    @tract.tool
    def free_bird(name: str) -> str:
        """Free a bird."""
        return f"{name} is free"

    steps = [["tools"], ["tool", "count_birds", {"place": "lake"}], ["tool", "ring_bird", {"name": "Ada"}]]
    steps += [["tool", "free_bird", {"name": "Ada"}], ["tool", "ring_bird", {"name": "Bea"}]]
    known(prompts=[[*steps, ["text", "Ringed."]]], log=log.place)
    actors = []

    async def decide(request):
        actors.extend(one.actor for one in tract.review.inbox())
        return await user.decide(request)

    tract.reviewer.channel = personal_channel("test")(decide)
    user.answers = [("approve", {}), ("approve", {}), ("reject", {"reason": "no more rings"})]
    granted = {**CREATE, "tools": ["count_birds", "ring_bird"], "budget": {"calls": 5}}
    tract.configure_llm(
        ScriptedClient(
            reply(None, tool_call("agent_create", granted, "a"), tool_call("agent_call", CALL, "b")), "Done."
        )
    )
    assert tract.chat("Have a bird ringed.", tools="full").text == "Done."
    (names,) = log.entries("tools")
    assert set(names) == {"count_birds", "ring_bird", "result"}
    results = [one["result"] for one in log.entries("tool")]
    assert [one["content"][0]["text"] for one in results[:2]] == ["4", "Ada has a ring"]
    assert results[2]["isError"]
    assert "free_bird" in results[2]["content"][0]["text"]
    assert results[3]["isError"]
    assert "no more rings" in results[3]["content"][0]["text"]
    create, ring, _ = user.requests
    assert "count_birds" in str(create.tables)
    assert "ring_bird" in ring.title
    assert actors[1] == f"agent:writer@{tract.agents.get('writer').hash[:8]}"
    (done,) = tract.agents.calls_of("writer")
    assert done.used["calls"] == 3  # the refused tool does not count


def test_calls_of_granted_tools_are_counted_and_limited_without_a_report(known, log, tract):
    counted = []

    @tract.tool(read_only=True)
    def count_birds() -> int:
        """Count the birds."""
        counted.append(1)
        return len(counted)

    known(prompts=[[["tool", "count_birds", {}]] * 2], log=log.place)
    created(tract, tools=["count_birds"], budget={"calls": 1})
    with pytest.raises(AgentError, match="limit of 1 tool call"):
        tract.agents.call("writer", "Go.")
    assert len(counted) == 1
    (ended,) = tract.agents.calls_of("writer")
    assert (ended.state, ended.used["calls"]) == ("failed", 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("budget", "why"),
    [
        ({"steps": 2}, "limit of 2 steps"),
        ({"calls": 1}, "limit of 1 tool call"),
        ({"seconds": 1}, "limit of 1 second"),
    ],
)
def test_a_budget_of_steps_calls_or_seconds_ends_the_call(known, tract, budget, why):
    looks = [["call", call(f"r{number}", kind="read", status="completed")] for number in range(6)]
    pieces = [step for look in looks for step in (["text", "More."], look)]
    known(prompts=[[*(pieces if "seconds" not in budget else [["text", "Hm."]]), ["cancelled"]]])
    created(tract, budget=budget)
    with pytest.raises(AgentError, match=why):
        tract.agents.call("writer", "Go.")
    (ended,) = tract.agents.calls_of("writer")
    assert ended.state == "failed"
    assert ended.used["steps"] <= 3
    assert tract.agents.meter.taken("steps") == ended.used["steps"]


@pytest.mark.slow
def test_the_time_of_a_budget_pauses_while_the_user_decides(known, tract, user, folder):
    known(prompts=[[*writing(), ["text", "Written."]]])
    created(tract, budget={"seconds": 10})

    async def decide(request):
        await asyncio.sleep(11)
        return await user.decide(request)

    tract.reviewer.channel = personal_channel("test")(decide)
    assert tract.agents.call("writer", "Write new.py.") == "Written."
    assert (folder / "new.py").exists()
    assert tract.agents.calls_of("writer")[0].used["seconds"] < 10


def test_stop_ends_a_call_and_its_agent(known, tract, log, folder):
    known(prompts=[[["text", "I wait."], ["write", "ready", ""], ["cancelled"]]], log=log.place)
    created(tract)
    tract.configure_llm(ScriptedClient(reply(None, tool_call("agent_call", CALL)), "Done."))
    ended = []
    thread = threading.Thread(target=lambda: ended.append(tract.chat("Go.", tools="agents").outcome))
    thread.start()
    end = time.monotonic() + 20
    while not (folder / "ready").exists() and time.monotonic() < end:
        time.sleep(0.01)  # another thread starts a process
    tract.loop.stop()
    thread.join(20)
    assert ended == [TurnOutcome.STOPPED]
    (stopped,) = tract.agents.calls_of("writer")
    assert (stopped.state, stopped.answer) == ("stopped", "I wait.")


@pytest.mark.parametrize("method", ["initialize", "session/new", "session/prompt"])
def test_an_agent_that_dies_fails_the_call_and_it_can_be_resumed(known, tract, log, method):
    known(dies_at=[method])
    created(tract)
    with pytest.raises(AgentError, match=r"Fake left: its process ended.*tract\.agents\.resume\('writer'\)"):
        tract.agents.call("writer", "Go.")
    known(prompts=[[["text", "Here."]]], log=log.place)
    assert tract.agents.resume("writer") == "Here."
    assert log.sent("session/prompt")[0]["prompt"][0]["text"] == "You write files.\n\nGo."


KERNEL = """
import os, sys
from tests.outside.conftest import AgentSettings, command, table
from tract_jupyter import Tract
from tract_jupyter.review import Answer, personal_channel

async def decide(request):
    return Answer("approve", {})

table.AGENTS = (AgentSettings(name="fake", title="Fake", command=tuple(sys.argv[2:]), mode="default"),)
with Tract.open(sys.argv[1]) as tract:
    tract.reviewer.channel = personal_channel("test")(decide)
    tract.agents.on_turn.append(lambda call, event: type(event).__name__ == "CallEnded" and os.kill(os.getpid(), 9))
    tract.agents.create("writer", "You write files.", "Writes files.", runtime="fake")
    tract.agents.call("writer", "Go.")
"""


@pytest.mark.slow
def test_a_killed_process_leaves_a_call_that_continues_after_its_last_step(known, log, tmp_path, folder):
    store = tmp_path / "killed.db"
    agent = shlex.split(command(prompts=[[*writing(), ["cancelled"]]]))
    root = str(Path(__file__).parents[2])  # the process imports the tests
    killed = subprocess.run(
        [sys.executable, "-c", KERNEL, store, *agent], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": root},
    )  # fmt: skip
    assert killed.returncode == -9, killed.stderr
    (folder / "new.py").unlink()
    known(prompts=[[["text", "Here."]]], log=log.place)
    with Tract.open(store) as tract:
        (left,) = tract.agents.calls_of("writer")
        assert (left.state, left.answer) == ("left", "")
        (writer,) = tract.agents.past()
        assert tract.agents.resume(writer) == "Here."
        assert (writer.meter.taken("steps"), writer.meter.taken("calls")) == (2, 1)
        (resumed,) = tract.agents.calls_of("writer")
        assert (resumed.used["steps"], resumed.used["calls"]) == (2, 1)
    text = log.sent("session/prompt")[0]["prompt"][0]["text"]
    assert text.startswith("You write files.")
    assert "User: Go." in text
    assert text.endswith("Continue with your task.")
    assert not (folder / "new.py").exists()  # the finished call is not repeated
