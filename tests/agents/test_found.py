"""What somebody found who tried to break the promises of agents from outside."""

from __future__ import annotations

import pytest

from tests.agents.cast import calls
from tests.hooks.fakes import call
from tract_jupyter.agents import AgentState
from tract_jupyter.exceptions import AgentError


@pytest.fixture
def x(stage):
    """An agent without tools."""
    return stage.agents.create("x", "x works", "d")


def change(**arguments):
    """A model's call that changes x."""
    return calls(call("agent_update", {"agent": "x", **arguments}, "u1"))


def once(meanwhile):
    """Do something while the question is open, and approve; as that does not count any more, reject."""
    done = []

    def rule(pending):
        if done:
            return "not like this"
        done.append(meanwhile())
        return "approve"

    return rule


@pytest.mark.parametrize(
    ("wanted", "between"),
    [
        ({"instructions": "x MODEL"}, {"tools": ["write"]}),
        ({"tools": ["write"]}, {"instructions": "x PERSON"}),
    ],
)
def test_an_approval_is_of_the_version_that_was_shown(stage, cast, person, x, wanted, between):
    person(once(lambda: stage.agents.update("x", **between)))
    cast(boss=[change(**wanted), "over"])
    stage.chat("Go.")
    assert (x.version, x.definition.tools, x.definition.instructions) == (
        2,
        tuple(between.get("tools", ())),
        between.get("instructions", "x works"),
    )


@pytest.mark.parametrize("tool", ["agent_retire", "agent_promote"])
def test_so_it_is_for_what_is_retired_and_promoted(stage, cast, person, x, workspace, tool):
    person(once(lambda: stage.agents.update("x", instructions="x PERSON")))
    more = {"path": "x.agent"} if tool == "agent_promote" else {}
    cast(boss=[calls(call(tool, {"agent": "x", **more}, "c1")), "over"])
    stage.chat("Go.")
    assert (x.state, list(workspace.glob("*.agent"))) == (AgentState.ACTIVE, [])


def test_of_two_changes_that_were_asked_about_together_one_is_made(stage, cast, person, x):
    person(lambda pending: "approve")
    both = calls(
        call("agent_update", {"agent": "x", "tools": ["write"]}, "u1"),
        call("agent_update", {"agent": "x", "instructions": "x MODEL"}, "u2"),
    )
    model = cast(boss=[both, "over"])
    stage.chat("Go.")
    assert (x.version, x.definition.tools, x.definition.instructions) == (2, ("write",), "x works")
    assert "changed" in model.told("boss")[1]


def test_the_same_name_in_the_next_session_leaves_the_earlier_agent_as_it_was(reopened, cast):
    first = reopened()
    first.models.use(_says("first answer"))
    first.agents.create("k", "k works OLD", "d")
    assert first.agents.call("k", "one") == "first answer"
    first.models.use(_fails())
    with pytest.raises(AgentError):
        first.agents.call("k", "two")
    first.close()
    second = reopened()
    second.models.use(_says("second answer"))
    second.agents.create("k", "k works NEW", "d")
    second.agents.call("k", "three")
    (earlier,) = second.agents.past()
    assert (earlier.definition.instructions, [one.input for one in earlier.calls]) == (
        "k works OLD",
        ["one", "two"],
    )
    assert [one.input for one in second.agents.calls_of("k")] == ["three"]
    assert second.agents.resume(earlier, 2) == "second answer"
    with pytest.raises(AgentError, match="no call of 'k' was left"):
        second.agents.resume("k")


def test_requests_that_fail_are_charged(stage):
    stage.models.use(_fails())
    stage.agents.create("a", "a works", "d", budget={"steps": 2})
    for _ in range(2):
        with pytest.raises(AgentError, match="1 request"):
            stage.agents.call("a", "go")
    with pytest.raises(AgentError, match="budget of the agent 'a' is used up"):
        stage.agents.call("a", "go")


def test_a_call_that_its_budget_ended_goes_on_with_another_one(stage, cast):
    cast(a=[calls(call("add", {"a": 1, "b": 2}, "c1")), "three"])
    stage.agents.create("a", "a works", "d", tools=["add"], budget={"steps": 1})
    with pytest.raises(AgentError) as raised:
        stage.agents.call("a", "go")
    assert "chat(None)" not in str(raised.value)
    stage.agents.update("a", budget={"steps": 5})
    assert stage.agents.resume("a") == "three"


def test_an_agent_passes_on_only_files_that_it_was_given(stage, cast, workspace):
    (workspace / "private.txt").write_text("the secret plan")
    (workspace / "given.txt").write_text("the public plan")
    stage.agents.create("spy", "spy works", "d")
    stage.agents.create("lead", "lead works", "d", toolsets=["dynamic_agents"])
    model = cast(
        lead=[
            calls(
                call("agent_call", {"agent": "spy", "input": "read", "attachments": ["private.txt"]}, "c1")
            ),
            calls(call("agent_call", {"agent": "spy", "input": "read", "attachments": ["given.txt"]}, "c2")),
            "over",
        ],
        spy=["it says: the public plan"],
    )
    stage.agents.call("lead", "go", ["given.txt"])
    refused, done = model.told("lead")[:2]
    assert "was not given 'private.txt'" in refused
    assert "the public plan" in done


def test_where_the_maker_was_narrowed_what_it_made_is_refused(stage, cast, person):
    person(lambda pending: "approve")
    stage.agents.create("lead", "lead works", "d", tools=["write"], toolsets=["dynamic_agents"])
    kid = {"name": "kid", "instructions": "kid works", "description": "d", "tools": ["write"]}
    cast(lead=[calls(call("agent_create", kid, "c1")), "made"])
    stage.agents.call("lead", "make one")
    stage.agents.update("lead", tools=["add"])
    with pytest.raises(AgentError, match="'lead', which made it, may not any more"):
        stage.agents.call("kid", "write")


def test_a_call_that_an_agent_without_tools_makes_up_is_answered(stage, cast):
    model = cast(a=[calls(call("delete_everything", {}, "c1")), "I cannot."])
    stage.agents.create("a", "a works", "d")
    assert stage.agents.call("a", "go") == "I cannot."
    assert "no tool" in model.told("a")[0]


def test_the_agents_of_a_spawned_child_are_those_of_the_top(stage, x):
    stage.user("hello")
    child = stage.session.spawn(stage, purpose="look")
    assert child.agents is stage.agents
    assert child.agents.create("y", "y works", "d").name == "y"
    child.close()
    assert stage.agents.names == ["x", "y"]


@pytest.mark.parametrize("given", [{"tools": "add"}, {"toolsets": "code"}])
def test_a_text_is_no_list_of_names(stage, given):
    with pytest.raises(Exception, match="list"):
        stage.agents.create("a", "a works", "d", **given)
    assert stage.agents.names == []


@pytest.mark.parametrize("name", ["self", "code", "dynamic_agents"])
def test_names_of_toolsets_are_reserved(stage, name):
    with pytest.raises(AgentError, match="reserved"):
        stage.agents.create(name, "works", "d")


def _says(text):
    def model(messages, **_):
        return text

    return model


def _fails():
    def model(messages, **_):
        raise RuntimeError("the model is out")

    return model


def test_what_was_adopted_is_a_function_in_the_next_session_from_the_beginning(reopened, workspace):
    first = reopened()
    first.agents.create("k", "k works", "d")
    first.agents.promote("k", "k.agent")
    first.agents.adopt("k.agent")
    first.close()
    second = reopened()
    second.models.use(_says("here"))
    assert second.tools.agents.k(input="go")["answer"] == "here"
