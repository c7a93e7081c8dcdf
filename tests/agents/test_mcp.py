"""Agents with granted tools of an MCP server: only these tools, with the usual approvals, while the
server exists."""

from __future__ import annotations

import json

import pytest

from tests.agents.cast import ask, calls, create
from tests.review.scripted import call
from tests.toolkit.servers import command
from tract_jupyter.agents import CallState
from tract_jupyter.exceptions import AgentError, McpError

FIND = call("places_find", {"name": "Rome"}, "f1")
ECHO = call("places_echo", {"text": "hi"}, "e1")
ADD = call("places_add", {"a": 1, "b": 2}, "p1")


@pytest.fixture
def places(stage):
    """A server with several tools. It declares `find` as read-only; this is not trusted, so `find`
    needs approval."""
    return stage.mcp.add("places", command("honest"))


def test_a_grant_of_one_tool_does_not_include_the_other_tools_of_its_server(stage, cast, person, places):
    there = person()
    stage.agents.create("w", "w works.", "d", tools=["places.find"])
    model = cast(w=[calls(FIND), calls(ECHO), calls(call("places.add", {"a": 1}, "p2")), "over"])
    assert stage.agents.call("w", "go") == "over"
    assert model.offered("w") == {"places_find", "read_result"}
    told = model.told("w")
    assert json.loads(told[0])["name"] == "Rome"
    assert all("no tool" in one or "not granted" in one for one in told[1:]), told
    assert {one.tool_name for one in there.questions} == {"places.find"}


REACHING = [
    "tools.places.echo('hi')",
    "tools.places_echo('hi')",
    "getattr(tools.places, 'ec' + 'ho')('hi')",
    "tools.places.call_tool('echo', {'text': 'hi'})",
]


@pytest.mark.slow
@pytest.mark.parametrize("reaching", REACHING)
def test_scripts_of_an_agent_cannot_call_other_tools_of_the_server(stage, cast, person, places, reaching):
    there = person()
    stage.agents.create("w", "w works.", "d", tools=["places.find"], toolsets=["code"])
    scripts = [f"print(tools.places.find(name='Rome'))\nprint('then', {one})" for one in ("1", reaching)]
    model = cast(w=[*(calls(call("notebook_execute", {"code": one}, one)) for one in scripts), "over"])
    stage.agents.call("w", "go")
    good, bad = model.told("w")
    assert "Rome" in good
    assert "then 1" in good
    assert '"status": "failed"' in bad
    assert {one.tool_name for one in there.questions} == {"places.find"}


def test_the_request_for_a_server_tool_names_the_agent_as_actor(stage, cast, person, places):
    there = person(lambda pending: "approve" if pending.tool_name == "places.add" else "no")
    agent = stage.agents.create("w", "w works.", "d", tools=["places.add", "places.echo"])
    model = cast(w=[calls(ADD, ECHO), "over"])
    stage.agents.call("w", "go")
    assert [one.title for one in there.questions] == ["Call tool places.add", "Call tool places.echo"]
    assert {one.actor for one in there.questions} == {f"agent:{agent.id}"}
    assert "3" in model.told("w")[0]
    assert "no" in model.told("w")[1]


def test_the_toolset_of_a_server_are_its_tools(stage, cast, person, places):
    person()
    stage.agents.create("w", "w works.", "d", toolsets=["places"])
    model = cast(w=["over"])
    stage.agents.call("w", "go")
    assert {"places_find", "places_echo", "places_add"} <= model.offered("w")
    with pytest.raises(AgentError, match="'places' is reserved|'places.* is a tool"):
        stage.agents.create("places", "x.", "d")


@pytest.mark.parametrize("name", ["agents", "code", "dynamic_agents", "self"])
def test_an_mcp_server_cannot_use_the_name_of_an_existing_toolset(stage, name):
    agent = stage.agents.create("w", "w works.", "d", toolsets=["code"])
    before = stage.agents.toolsets["code"]
    with pytest.raises(McpError, match="cannot be the name of an MCP server"):
        stage.mcp.add(name, command("honest"))
    assert stage.agents.toolsets["code"] == before
    assert stage.agents.get("w") is agent


def test_an_agent_can_only_grant_server_tools_that_it_has(stage, cast, person, places):
    person()
    stage.agents.create("top", "top works.", "d", tools=["places.find"], toolsets=["dynamic_agents"])
    model = cast(
        top=[calls(create("a", "c1", toolsets=["places"])), calls(create("b", "c2", tools=["places.echo"])),
             calls(create("c", "c3", tools=["places.find"]), ask("c", "c4")), "over"],
        c=[calls(FIND, ECHO), "c over"],
    )  # fmt: skip
    stage.agents.call("top", "go")
    told = model.told("top")
    assert all("must be a subset" in one or "no toolset" in one for one in told[:2]), told
    assert stage.agents.names == ["c", "top"]
    assert "Rome" in model.told("c")[0]
    assert "no tool" in model.told("c")[1] or "not granted" in model.told("c")[1]


def test_a_server_that_is_gone_takes_its_tools_along(stage, cast, person, places):
    person()
    agent = stage.agents.create("w", "w works.", "d", tools=["add", "places.find"])

    def takes_away(messages):
        stage.mcp.remove("places")
        return calls(FIND, call("add", {"a": 1, "b": 2}, "a1"))

    model = cast(w=[takes_away, "over", "again"])
    assert stage.agents.call("w", "go") == "over"
    told = model.told("w")
    assert "places_find" in told[0] or "places.find" in told[0]
    assert "Rome" not in told[0].replace("places_find", "")
    assert told[1] == "3"
    assert agent.calls[0].state is CallState.DONE
    stage.agents.call("w", "go")
    assert "places_find" not in model.offered("w")
