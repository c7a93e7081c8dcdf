"""Agents that a script calls: their requests, the script's clock, and its stop."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from tests.agents.cast import ask, calls
from tests.review.fakes import answering
from tests.review.scripted import call
from tract_jupyter.agents import CallState, TreeLimits
from tract_jupyter.concurrency import current_stop
from tract_jupyter.exceptions import AgentError
from tract_jupyter.models import Allowance
from tract_jupyter.scripts import ScriptLimits
from tract_jupyter.toolkit import PendingToolCall

WRITE = calls(call("write", {"text": "t"}, "w1"))
CALLS_W = "r = tools.agent_call(agent='w', input='go')\nprint('GOT', r['answer'])"
PATIENCE = 30


def script(code, backend="sandbox", call_id="s1"):
    return calls(call("notebook_execute", {"code": code, "backend": backend}, call_id))


@pytest.fixture
def w(stage):
    return stage.agents.create("w", "w works.", "d", tools=["write"])


@pytest.fixture
def skip(monkeypatch):
    """A function that makes the clocks of turns and scripts skip 1,000 seconds."""
    skipped = []
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + sum(skipped))
    monkeypatch.setattr("tract_jupyter.loop.meter.time", clock)
    return lambda: skipped.append(1_000)


@pytest.fixture
def slowly(skip):
    """A rule that approves after 1,000 seconds, as a person does who reads first."""

    def approve(ticket):
        skip()
        answering("approve")(ticket)

    return lambda _: approve


@pytest.mark.parametrize("backend", ["sandbox", "kernel"])
def test_a_request_of_an_agent_in_a_script_is_the_agents_own(stage, cast, person, done, w, backend):
    there = person()
    model = cast(boss=[script(CALLS_W, backend), "over"], w=[WRITE, "w over"])
    assert stage.chat("Go.", tools="full").text == "over"
    (question,) = there.about("write")
    assert (question.actor, type(question)) == (f"agent:{w.id}", PendingToolCall)
    assert "GOT w over" in model.told("boss")[0]
    assert done == [("write", "t")]


def test_a_decision_about_an_agents_call_does_not_continue_the_script(stage, cast, done, w):
    """The program of a script waits only at the script's own calls. Otherwise the result of the agent's tool would
    become the answer of the agent."""
    model = cast(boss=[script(CALLS_W), "over"], w=[WRITE, "w over"])
    assert stage.chat("Go.", tools="full").text == "over"
    assert "gave no answer, waiting" in model.told("boss")[0]
    (waits,) = stage.review.inbox()
    assert (waits.actor, "script" in waits.fields) == (f"agent:{w.id}", False)
    stage.reviewer.asked_here(waits.pending_id).approve()
    assert done == []
    assert stage.agents.resume("w") == "w over"
    assert done == [("write", "t")]
    assert stage.review.inbox() == []


@pytest.mark.parametrize("backend", ["sandbox", "kernel"])
def test_the_clock_of_a_script_pauses_while_a_request_of_its_agent_is_open(
    stage, cast, person, slowly, done, w, backend
):
    person(slowly)
    cast(w=[WRITE, "w over"])
    result = stage.scripts.run(CALLS_W, backend=backend, limits=ScriptLimits(seconds=100))
    assert (result.status, result.text) == ("completed", "GOT w over\n")
    assert done == [("write", "t")]


@pytest.mark.parametrize("backend", ["sandbox", "kernel"])
def test_a_time_limit_of_a_script_ends_its_agent(stage, cast, w, skip, backend):
    def slow(messages):
        skip()
        end = time.monotonic() + PATIENCE
        while not current_stop().is_set() and time.monotonic() < end:
            time.sleep(0.02)
        return calls(call("write", {"text": "late"}, "w1"))

    model = cast(w=[slow, "w over"])
    result = stage.scripts.run(CALLS_W, backend=backend, limits=ScriptLimits(seconds=100))
    assert len(model.asked["w"]) == 1
    assert result.status == "timed_out"
    (made,) = stage.agents.calls_of("w")
    assert made.state is CallState.STOPPED
    assert stage.review.inbox() == []
    assert not any(stage.agents.meter.aside.values())


def test_a_stopped_script_withdraws_the_request_of_its_agent(stage, cast, person, done, w):
    there = person(lambda pending: None)
    cast(w=[WRITE, "w over"])
    run = stage.scripts.prepare(CALLS_W, backend="sandbox")
    thread = threading.Thread(target=stage.scripts.execute, args=(run,))
    thread.start()
    end = time.monotonic() + PATIENCE
    while not there.questions and time.monotonic() < end:
        time.sleep(0.02)
    run.stopper.signal.set("interrupted")
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert run.status == "interrupted"
    assert there.questions[0].status == "rejected"
    assert (done, stage.review.inbox()) == ([], [])
    assert stage.agents.calls_of("w")[0].state is CallState.STOPPED


@pytest.mark.parametrize("outer", ["sandbox", "kernel"])
@pytest.mark.parametrize("inner", ["sandbox", "kernel"])
def test_an_agent_in_a_script_runs_its_own_scripts(stage, cast, person, done, outer, inner):
    there = person()
    stage.agents.create("w", "w works.", "d", tools=["write"], toolsets=["code"])
    model = cast(
        boss=[script(CALLS_W, outer), "over"],
        w=[script("print(tools.write(text='inner'))", inner, "s2"), "w over"],
    )
    assert stage.chat("Go.", tools="full").text == "over"
    assert "GOT w over" in model.told("boss")[0]
    assert model.told("w")[0].startswith("ok\n")
    assert done == [("write", "inner")]
    agent = stage.agents.get("w").calls[0].actor
    assert all(one.actor.startswith(agent) for one in there.questions if one.actor != "agent:chat")


def test_an_orchestrator_in_a_tool_of_a_script_makes_its_own_requests(stage, cast, person, done):
    stage.user("There is something to look after.")

    @stage.tool(read_only=True)
    def look_after() -> str:
        """Look after the context."""
        return stage.orchestrate("it is time").text

    there = person()
    model = cast(boss=[WRITE, "over"])
    stage.models.use(model, operation="orchestrate")
    stage.orchestrator.config.profile = "full"
    result = stage.scripts.run("print(tools.look_after())", backend="sandbox")
    assert result.text == "over\n"
    (question,) = there.about("write")
    assert (question.actor, type(question)) == ("orchestrator", PendingToolCall)
    assert done == [("write", "t")]


@pytest.mark.parametrize("backend", ["sandbox", "kernel"])
def test_the_limit_of_seconds_of_a_turn_pauses_while_a_script_waits(stage, cast, person, slowly, backend):
    person(slowly)
    cast(boss=[script("print(tools.write(text='x'))", backend), "over"])
    response = stage.chat("Go.", tools="full", limits=Allowance(seconds=100))
    assert (response.outcome, response.text) == ("answer", "over")


def test_nested_agents_of_a_resumed_call_stay_at_their_depth(stage, cast, person):
    """An agent at the maximum depth has no tools for agents, also if the user resumes its call alone."""
    person()
    stage.agents.limits = TreeLimits(depth=2)
    stage.agents.create("low", "low works.", "d", toolsets=["dynamic_agents"])
    stage.agents.create("top", "top works.", "d", toolsets=["dynamic_agents"])
    model = cast(top=[calls(ask("low", "c1")), "top over"], low=[RuntimeError("broken"), "low over"])
    left = {"agent_list", "agent_promote", "agent_retire", "agent_update", "read_result"}
    assert stage.agents.call("top", "go") == "top over"
    assert model.offered("low") == left
    assert stage.agents.resume("low") == "low over"
    assert model.offered("low") == left
    with pytest.raises(AgentError, match="no open call"):
        stage.agents.resume("low")


@pytest.mark.parametrize("nested", [False, True])
def test_a_paused_script_of_an_agent_continues_with_its_tools_in_another_process(
    stage, reopened, cast, done, nested
):
    """The call and its process have ended. The script has the tools of the agent and no others."""
    code = "print(tools.write(text='x'))\ntry:\n    tools.erase(text='z')\nexcept Exception as error:\n    print(error)"
    stage.agents.create("w", "w works.", "d", tools=["write"], toolsets=["code"])
    above = ["write", *sorted(stage.agents.toolsets["code"])]
    stage.agents.create("top", "top works.", "d", tools=above, toolsets=["dynamic_agents"])
    cast(w=[script(code), "w over"], top=[calls(ask("w", "c1")), "top over"])
    stage.agents.call("top" if nested else "w", "go")
    (stored,) = stage.review.inbox()
    stage.close()
    again = reopened()
    (waits,) = again.review.inbox()
    assert (waits.actor, waits.actor.startswith("agent:top") is nested) == (stored.actor, True)
    result = again.operations.rebuild(waits).approve()
    assert result.text == "ok\nmodule 'tools' has no attribute 'erase'\n"
    assert done == [("write", "x")]
    assert again.review.inbox() == []
    assert again.agents.names == []


THREAD = """
import threading
made = []
def run():
    try:
        made.append({call})
    except Exception as error:
        made.append(str(error))
thread = threading.Thread(target=run)
thread.start()
thread.join()
print(made)
"""


def test_agents_in_threads_of_a_script_count_for_the_turn(stage, cast, person, w):
    """A thread starts without a context. Its calls count for the turn of the script and its limits."""
    person()
    stage.agents.create("busy", "busy works.", "d", tools=["add"])
    add = [calls(call("add", {"a": n, "b": 1}, f"a{n}")) for n in range(6)]
    usage = {"usage": {"prompt_tokens": 10_000, "completion_tokens": 1}}
    in_thread = THREAD.format(call="tools.agent_call(agent='busy', input='go')")
    model = cast(boss=[script(in_thread, "kernel"), "over"], busy=[{**one, **usage} for one in add])
    response = stage.chat("Go.", tools="full", limits=Allowance(tokens=15_000, steps=5))
    assert len(model.asked["busy"]) == 2
    assert response.outcome == "limit"


def test_calls_in_threads_of_a_script_count_for_the_turn(stage, cast, person, done):
    person()
    stage.scripts.rehearsing.is_on = False
    in_threads = "\n".join(THREAD.format(call=f"tools.add(a={n}, b=1)") for n in range(6))
    cast(boss=[script(in_threads, "kernel"), "over"])
    response = stage.chat("Go.", tools="full", limits=Allowance(calls=4))
    assert response.calls == 4
    assert len(done) == 3  # and the script itself


def test_an_agent_cannot_call_itself_in_a_thread_of_a_script(stage, cast, person):
    person()
    names = ["agent_call", *sorted(stage.agents.toolsets["code"])]
    stage.agents.create("x", "x works.", "d", tools=names)
    in_thread = THREAD.format(call="tools.agent_call(agent='x', input='go')")
    model = cast(x=[script(in_thread, "kernel"), "over"])
    assert stage.agents.call("x", "go") == "over"
    assert "an agent cannot call itself, not even through others: x → x" in model.told("x")[0]
    assert len(stage.agents.calls_of("x")) == 1


@pytest.mark.parametrize("rehearses", [False, True])
def test_a_kernel_script_of_an_ended_agent_runs_once_after_a_later_decision(
    stage, cast, person, done, rehearses
):
    """The call of the agent has closed its tract. The script has the tools of the agent, and no others."""
    stage.scripts.rehearsing.is_on = rehearses
    code = "print(tools.write(text='x'))\ntry:\n    tools.erase(text='z')\nexcept Exception as error:\n    print(error)"
    stage.agents.create("w", "w works.", "d", tools=["write"], toolsets=["code"])
    cast(w=[script(code, "kernel"), "w over"])
    assert stage.agents.call("w", "go") == "w over"
    (waits,) = stage.review.inbox()
    there = person()
    result = stage.reviewer.asked_here(waits.pending_id).approve()
    assert result.status == "completed"
    assert result.text.startswith("ok\nno tool 'erase'")
    assert done == [("write", "x")]
    (question,) = there.about("write")
    assert question.actor.startswith(f"agent:{stage.agents.get('w').id}/script:")
    assert stage.review.inbox() == []
