"""200 agents that are made, called and retired leave nothing behind but what the store keeps."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from pathlib import Path

import pytest

from tests.agents.cast import ask, calls
from tract_jupyter.agents import AgentState, TreeLimits
from tract_jupyter.models import Allowance


def handles():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def life(stage, number):
    """Make one, call it twice, better it, retire it; nothing of its calls is in use then."""
    name = f"w{number}"
    stage.agents.create(name, "w works.", "d", tools=["add"])
    stage.agents.call(name, "go")
    stage.agents.update(name, instructions="w works well.")
    stage.agents.call(name, "go on")
    stage.agents.retire(name)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="files are counted as Linux does")
@pytest.mark.parametrize("rounds", [40, pytest.param(200, marks=pytest.mark.slow)])
def test_many_agents_leave_no_thread_file_or_connection(stage, files, rounds):
    stage.models.use(lambda messages, **options: "over")
    stage.agents.limits = TreeLimits(count=3, budget=Allowance(steps=10 * rounds))
    made = []
    stage.agents.on_turn.append(lambda call, event: made.append(weakref.ref(call.own)) if call.own else None)
    for number in range(10):  # what is imported and cached once is there
        life(stage, number)
    gc.collect()
    before = (threading.active_count(), handles(), len(gc.get_objects()))
    for number in range(10, rounds):
        life(stage, number)
    gc.collect()
    threads, opened, objects = (threading.active_count(), handles(), len(gc.get_objects()))
    assert threads <= before[0]
    assert opened <= before[1]
    assert not [one for one in made if one() is not None]  # each conversation's tract is gone
    each = (objects - before[2]) / (rounds - 10)
    assert each < 150, f"{each:.0f} objects are kept of each agent"
    assert files() == []
    assert {agent.state for agent in stage.agents} == {AgentState.RETIRED}
    assert len(stage.agents.calls_of("w30")) == 2
    assert stage.agents.meter.spent["steps"] == 2 * rounds


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="files are counted as Linux does")
def test_many_steps_with_two_side_by_side_leave_no_thread(stage, cast):
    for name in ("ant", "bee"):
        stage.agents.create(name, f"{name} works.", "d")
    rounds = 20
    step = [calls(ask("ant", f"a{n}", f"go {n}"), ask("bee", f"b{n}", f"go {n}")) for n in range(rounds)]
    cast(boss=[*step[:5], "over", *step[5:], "over"], ant=["ok"] * rounds, bee=["ok"] * rounds)
    stage.chat("Go.")
    gc.collect()
    before = (threading.active_count(), handles())
    assert stage.chat("Go on.").text == "over"
    gc.collect()
    assert threading.active_count() <= before[0]
    assert (
        handles() < before[1] + rounds // 2
    )  # the connection of a thread that has ended may be open a while
    assert [len(stage.agents.get(name).calls) for name in ("ant", "bee")] == [rounds, rounds]
