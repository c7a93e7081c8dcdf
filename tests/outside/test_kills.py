"""A kernel or an agent is killed at each step of a request: nothing runs twice; the next turn asks again."""

import asyncio
import json
import os
import shlex
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.outside.conftest import call, command
from tests.outside.test_process import is_gone
from tests.toolkit.servers import until
from tract_jupyter import Tract
from tract_jupyter.exceptions import OutsideAgentError
from tract_jupyter.models import TurnOutcome
from tract_jupyter.outside import AgentSettings
from tract_jupyter.outside import agents as table
from tract_jupyter.review import Answer, first_sentence, personal_channel

KERNEL = """
import os, shlex, sys
from tract_jupyter import Tract
from tract_jupyter.outside import AgentSettings, agents as table
from tract_jupyter.review import Answer, personal_channel
step, line = sys.argv[1:]
line = line.replace("KERNEL", str(os.getpid()))
table.AGENTS = (AgentSettings(name="fake", title="Fake", command=tuple(shlex.split(line)), mode="default"),)

def reach(name):
    if name == step:
        os.kill(os.getpid(), 9)

async def decide(request):
    reach("shown")
    return Answer("approve", {})

with Tract.open("store.db") as tract:
    tract.reviewer.channel = personal_channel("test")(decide)
    print(tract.chat("Go.", agent="fake", on_turn=lambda event: reach(type(event).__name__)).text)
"""
MAKE = call(rawInput={"command": "make"}, kind="execute")
RAN = ["spawn", "sh", "-c", "echo ran >> ran.txt"]
SOON = ["sleep", 0.1]
KILL = ["spawn", "kill", "-9", "KERNEL"]
LONG = ["sleep", 5]


def agent(log, does, *then):
    child = ["spawn", "sleep", "60"]
    steps = [child, ["call", MAKE], ["ask", {"call": MAKE, "does": does}], *then, ["text", "Made."]]
    return command(prompts=[steps], log=log.place, loads=True, mode_after_load="auto")


@pytest.fixture(autouse=True)
def _in_folder(folder):
    """Work in a separate folder."""


def runs():
    place = Path("ran.txt")
    return place.read_text().count("ran") if place.exists() else 0


@pytest.fixture
def use(monkeypatch):
    """A function that registers a command line as a known agent."""

    def set_agent(line):
        one = AgentSettings(name="fake", title="Fake", command=tuple(shlex.split(line)), mode="default")
        monkeypatch.setattr(table, "AGENTS", (one,))

    return set_agent


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "steps", "ran", "is_open"),
    [
        pytest.param("CallAsked", ([RAN],), 0, False, id="asked"),
        pytest.param("shown", ([RAN],), 0, True, id="stored-and-shown"),
        pytest.param("CallBegan", ([RAN],), 0, False, id="decided"),
        pytest.param("", ([RAN, SOON, KILL, LONG],), 1, False, id="begun"),
        pytest.param("CallEnded", ([RAN, SOON], LONG), 1, False, id="ended"),
        pytest.param("TurnEnded", ([RAN, SOON],), 1, False, id="turn-ended"),
    ],
)
def test_after_a_killed_kernel_nothing_runs_twice_and_the_next_turn_needs_approval(
    use, user, log, step, steps, ran, is_open
):
    program = [sys.executable, "-c", KERNEL, step, agent(log, *steps)]
    killed = subprocess.run(program, capture_output=True, text=True, check=False)
    assert killed.returncode == -9, killed.stderr
    assert is_gone(log.entries("child")[0], 5)
    assert runs() == ran
    use(agent(log, [RAN, SOON]))
    with Tract.open("store.db") as tract:
        inbox = [tract.operations.rebuild(one) for one in tract.review.inbox()]
        assert bool(inbox) == is_open
        for pending in inbox:
            why = first_sentence(pending.review_request().why)  # a panel shows no more
            assert why.startswith("An approval runs nothing now")
            pending.approve()
            assert "nothing ran" in pending.note
            assert runs() == 0
        tract.reviewer.channel = personal(user)
        assert tract.chat("Again.", agent="fake").text == "Made."
        assert runs() == ran + 1
        assert len(user.requests) == (
            0 if is_open else 1
        )  # the approval in the inbox applies to the identical request
        assert not tract.review.inbox()
    methods = [entry.get("method") for entry in log.entries()]
    assert methods.count("session/load") == (step == "TurnEnded")
    assert methods.count("session/set_mode") == methods.count("session/prompt") == 2


def personal(user):
    return personal_channel("test")(user.decide)


@pytest.mark.parametrize("is_decided", [False, True], ids=["before-the-decision", "after-it"])
def test_after_a_killed_agent_nothing_runs_twice_and_a_new_agent_needs_approval(
    use, tract, user, log, is_decided
):
    """The agent is killed while its request is open, or after it began to act."""
    about = {"call": MAKE, "does": [RAN, SOON, ["die", 9]]}
    asks = {"jsonrpc": "2.0", "id": "q", "method": "session/request_permission",
            "params": {"sessionId": "s1", "toolCall": MAKE, "options": []}}  # fmt: skip
    steps = [["ask", about]] if is_decided else [["raw", json.dumps(asks)], SOON, ["die", 9]]
    use(command(prompts=[steps], log=log.place))
    if not is_decided:
        tract.reviewer.channel = waiting(user)
    with pytest.raises(OutsideAgentError, match="left"):
        tract.chat("Go.", agent="fake")
    assert (runs(), len(user.requests), tract.review.inbox()) == (int(is_decided), 1, [])

    use(agent(log, [RAN, SOON]))
    tract.reviewer.channel = personal(user)
    tract.outside.use("fake")
    assert tract.chat("Again.", agent="fake").text == "Made."
    assert (runs(), len(user.requests)) == (int(is_decided) + 1, 2)
    assert len(log.sent("session/set_mode")) == 2


def waiting(user):
    """A channel of a user who does not decide."""

    async def decide(request):
        user.requests.append(request)
        await asyncio.sleep(60)

    return personal_channel("slow")(decide)


def test_a_closed_notebook_withdraws_the_open_request_and_ends_the_agent(use, user, log):
    """The next session of the notebook asks again."""
    use(agent(log, [RAN, SOON]))
    with Tract.open("store.db") as tract:
        tract.reviewer.channel = waiting(user)
        ended = []
        turn = threading.Thread(target=lambda: ended.append(tract.chat("Go.", agent="fake").outcome))
        turn.start()
        until(lambda: user.requests)
        (child,) = log.entries("child")
    turn.join(10)
    assert ended == [TurnOutcome.STOPPED]
    assert not turn.is_alive()
    assert is_gone(child, 5)
    with Tract.open("store.db") as tract:
        assert not tract.review.inbox()
        tract.reviewer.channel = personal(user)
        assert tract.chat("Again.", agent="fake").text == "Made."
        assert (runs(), len(user.requests), tract.review.inbox()) == (1, 2, [])


SOON_GO = ["spawn", "sh", "-c", "sleep 0.3; touch go"]
PID = ["spawn", "sh", "-c", "echo $PPID > pid.new; mv pid.new pid"]
DONE = ["ask", {"call": MAKE, "does": [RAN, SOON]}]


@pytest.mark.parametrize(
    ("steps", "ran"),
    [
        pytest.param([["text", "I"], ["die", 9]], 0, id="text"),
        pytest.param([["call", MAKE], ["die", 9]], 0, id="announced"),
        pytest.param([DONE, ["die", 9]], 1, id="reported"),
        pytest.param([DONE, ["spawn", "sh", "-c", "sleep 0.2; kill -9 $PPID"]], 1, id="between-turns"),
    ],
)
def test_an_agent_that_is_killed_at_another_step_runs_nothing_twice(use, tract, user, log, steps, ran):
    use(command(prompts=[steps], log=log.place, loads=True, mode_after_load="auto"))
    if steps[-1][0] == "die":
        with pytest.raises(OutsideAgentError, match="left"):
            tract.chat("Go.", agent="fake")
    else:
        tract.chat("Go.", agent="fake")
        until(lambda: not tract.outside.running)
    assert (runs(), len(user.requests), tract.review.inbox()) == (ran, ran, [])
    use(agent(log, [RAN, SOON]))
    tract.outside.use("fake")
    assert tract.chat("Again.", agent="fake").text == "Made."
    assert (runs(), len(user.requests), tract.review.inbox()) == (ran + 1, ran + 1, [])
    assert len(log.sent("session/set_mode")) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "ran"),
    [
        pytest.param([["text", "I"], LONG], 0, id="streaming"),
        pytest.param([["ask", {"call": MAKE, "does": [RAN, LONG]}]], 1, id="acting"),
        pytest.param([DONE], 1, id="turn-ended"),
    ],
)
def test_a_notebook_that_is_closed_at_another_step_runs_nothing_twice(use, user, log, steps, ran):
    use(
        command(
            prompts=[[["spawn", "sleep", "60"], *steps]], log=log.place, loads=True, mode_after_load="auto"
        )
    )
    ended, events = [], []
    with Tract.open("store.db") as tract:
        tract.reviewer.channel = personal(user)
        go = lambda: ended.append(tract.chat("Go.", agent="fake", on_turn=events.append).outcome)  # noqa: E731
        turn = threading.Thread(target=go)
        turn.start()
        is_over = steps[-1] == DONE
        until(lambda: ended if is_over else events and runs() == ran and log.entries("child"))
    turn.join(10)
    assert ended == [TurnOutcome.ANSWER if is_over else TurnOutcome.STOPPED]
    assert is_gone(log.entries("child")[0], 5)
    use(agent(log, [RAN, SOON]))
    with Tract.open("store.db") as tract:
        assert not tract.review.inbox()
        tract.reviewer.channel = personal(user)
        assert tract.chat("Again.", agent="fake").text == "Made."
        assert (runs(), len(user.requests), tract.review.inbox()) == (ran + 1, ran + 1, [])
    assert len(log.sent("session/set_mode")) == 2


@pytest.mark.parametrize(
    "go", [[SOON_GO], [["spawn", "touch", "go"], ["sleep", 0.5]]], ids=["running", "ended"]
)
def test_a_tool_of_our_server_runs_once_if_its_agent_is_killed_meanwhile(use, tract, user, log, serve, go):
    made = []

    @tract.tool
    def count(where: str) -> int:
        """Count birds in a lake."""
        made.append(where)
        until(lambda: Path("pid").exists())
        os.kill(int(Path("pid").read_text()), 9)
        until(lambda: Path("go").exists())
        return len(made)

    serve("full")
    call_it = ["tool", "count", {"where": "Ulm"}]
    use(command(prompts=[[PID, call_it]], log=log.place))
    with pytest.raises(OutsideAgentError, match="left"):
        tract.chat("Go.", agent="fake")
    assert made == ["Ulm"]
    use(command(prompts=[[*go, call_it, ["text", "Counted."]]], log=log.place))
    tract.outside.use("fake")
    assert tract.chat("Again.", agent="fake").text == "Counted."
    assert (made, len(user.requests), tract.review.inbox()) == (["Ulm"], 1, [])
    (result,) = log.entries("tool")
    assert result["result"]["content"][0]["text"] == "1"


@pytest.mark.parametrize("action", ["approve", "reject"])
def test_each_run_of_our_tool_has_an_approval_if_the_agent_is_killed_before_it_runs(
    action, use, tract, log, serve
):
    made, asked, is_over = [], [], threading.Event()

    @tract.tool
    def count(where: str) -> int:
        """Count birds in a lake."""
        made.append(where)
        return len(made)

    def kill_and_wait():
        os.kill(int(Path("pid").read_text()), 9)
        is_over.wait(10)

    async def decide(request):
        asked.append(request.title)
        if len(asked) == 1:
            await asyncio.to_thread(kill_and_wait)
        return Answer(action, {"reason": "No birds."} if action == "reject" else {})

    tract.reviewer.channel = personal_channel("test")(decide)
    serve("full")
    call_it = ["tool", "count", {"where": "Ulm"}]
    use(command(prompts=[[PID, call_it]], log=log.place))
    with pytest.raises(OutsideAgentError, match="left"):
        tract.chat("Go.", agent="fake")
    assert (made, len(asked)) == ([], 1)
    is_over.set()
    until(lambda: not tract.review.inbox())
    use(command(prompts=[[call_it, ["text", "Counted."]]], log=log.place))
    tract.outside.use("fake")
    assert tract.chat("Again.", agent="fake").text == "Counted."
    approved = len(asked) if action == "approve" else 0
    assert (made, tract.review.inbox()) == (["Ulm"] * approved, [])
    (result,) = log.entries("tool")
    text = result["result"]["content"][0]["text"]
    assert text == str(approved) if action == "approve" else "No birds." in text
