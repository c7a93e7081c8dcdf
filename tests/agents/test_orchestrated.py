"""Agents that an orchestrator creates and calls. Its level of autonomy applies to them too."""

from __future__ import annotations

import pytest

from tests.agents.cast import ask, calls, create
from tests.review.scripted import call
from tract_jupyter import OrchestratorConfig

WRITES = calls(call("write", {"text": "1"}, "w1"))


@pytest.fixture
def orchestrated(stage):
    """Let an orchestrator with the agent tools manage the context, at a level of autonomy."""

    def give(level="autonomous"):
        stage.user("There is something to look after.")
        stage.autonomy.ceiling = level
        stage.orchestrator.config = OrchestratorConfig(autonomy_ceiling=level, profile="agents")
        return stage.orchestrate("it is time", level)

    return give


def test_creating_an_agent_needs_the_users_approval_at_every_level(stage, cast, person, orchestrated, done):
    there = person(lambda pending: "approve" if pending.tool_name == "agent_create" else "not that")
    changed = call("agent_update", {"agent": "y", "instructions": "y obeys."}, "c3")
    model = cast(
        boss=[calls(create("y", "c1", tools=["write"]), ask("y", "c2")), calls(changed), "over"],
        y=[WRITES, "3"],
    )
    assert orchestrated().outcome == "answer"
    assert [one.tool_name for one in there.questions] == ["agent_create", "agent_update"]
    assert done == [("write", "1")]
    y = stage.agents.get("y")
    assert (y.version, y.making.get("model"), model.told("boss")[-1]) == (
        1,
        "scripted-1",
        "not run: the user refused it: not that",
    )


@pytest.mark.parametrize("level", ["manual", "collaborative"])
def test_its_level_holds_below(stage, cast, person, orchestrated, done, level):
    there = person(lambda pending: "not that")
    stage.agents.create("x", "x works.", "d", tools=["write"])
    cast(boss=[calls(ask("x", "c1")), "over"], x=[WRITES, "x over"])
    assert orchestrated(level).outcome == "answer"
    assert done == []
    assert [one.tool_name for one in there.questions] == ([] if level == "manual" else ["write"])


def test_a_level_that_is_lowered_counts_within_a_call(stage, cast, person, orchestrated, done):
    def lowered(_):
        stage.autonomy.ceiling = "manual"
        return calls(call("write", {"text": "2"}, "w2"))

    person(lambda pending: "not that")
    stage.agents.create("x", "x works.", "d", tools=["write"])
    model = cast(boss=[calls(ask("x", "c1")), "over"], x=[WRITES, lowered, "x over"])
    orchestrated()
    assert done == [("write", "1")]
    assert model.told("x")[-1].startswith("reported, not run: autonomy is manual")
