"""Faults found by a tester who tried to break the guarantees of agents from outside."""

from __future__ import annotations

import shutil

import pytest

from tests.agents.cast import allow_for_session, calls
from tests.review.scripted import call, reply
from tract_jupyter.agents import AgentState, PendingAdoption, adoption, file_hash, parse_file
from tract_jupyter.exceptions import AgentError, ToolExecutionError


@pytest.fixture
def x(stage):
    """An agent without tools."""
    return stage.agents.create("x", "x works", "d")


def change(**arguments):
    """A tool call that changes x."""
    return calls(call("agent_update", {"agent": "x", **arguments}, "u1"))


def once(meanwhile):
    """Do something while the request is open, and approve; reject if the approval no longer counts."""
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
def test_an_approval_to_retire_or_promote_is_for_the_displayed_text(stage, cast, person, x, workspace, tool):
    person(once(lambda: stage.agents.update("x", instructions="x PERSON")))
    more = {"path": "x.agent"} if tool == "agent_promote" else {}
    cast(boss=[calls(call(tool, {"agent": "x", **more}, "c1")), "over"])
    stage.chat("Go.")
    assert (x.state, list(workspace.glob("*.agent"))) == (AgentState.ACTIVE, [])


def test_of_two_changes_reviewed_together_only_the_first_is_made(stage, cast, person, x):
    person(lambda pending: "approve")
    both = calls(
        call("agent_update", {"agent": "x", "tools": ["write"]}, "u1"),
        call("agent_update", {"agent": "x", "instructions": "x MODEL"}, "u2"),
    )
    model = cast(boss=[both, "over"])
    stage.chat("Go.")
    assert (x.version, x.definition.tools, x.definition.instructions) == (2, ("write",), "x works")
    assert "changed" in model.told("boss")[1]


def test_reusing_a_name_in_the_next_session_does_not_change_the_earlier_agent(reopened, cast):
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
    with pytest.raises(AgentError, match="'k' has no open call"):
        second.agents.resume("k")


def test_requests_that_fail_are_charged(stage):
    stage.models.use(_fails())
    stage.agents.create("a", "a works", "d", budget={"steps": 2})
    for _ in range(2):
        with pytest.raises(AgentError, match="1 request"):
            stage.agents.call("a", "go")
    with pytest.raises(AgentError, match="budget of the agent 'a' is used up"):
        stage.agents.call("a", "go")


def test_a_call_that_hit_its_budget_can_resume_with_a_larger_budget(stage, cast):
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
    assert "has no attachment 'private.txt'" in refused
    assert "the public plan" in done


@pytest.mark.parametrize("retired", [False, True])
def test_an_agent_is_refused_if_its_creator_lost_the_granted_tools(stage, cast, person, retired):
    person(lambda pending: "approve")
    stage.agents.create("lead", "lead works", "d", tools=["write"], toolsets=["dynamic_agents"])
    kid = {"name": "kid", "instructions": "kid works", "description": "d", "tools": ["write"]}
    cast(lead=[calls(call("agent_create", kid, "c1")), "made"])
    stage.agents.call("lead", "make one")
    stage.agents.update("lead", tools=["add"])
    if retired:  # which does not restore the lost rights
        stage.agents.retire("lead")
    with pytest.raises(AgentError, match="its creator 'lead' no longer can"):
        stage.agents.call("kid", "write")


def test_a_call_that_an_agent_without_tools_makes_up_is_answered(stage, cast):
    model = cast(a=[calls(call("delete_everything", {}, "c1")), "I cannot."])
    stage.agents.create("a", "a works", "d")
    assert stage.agents.call("a", "go") == "I cannot."
    assert "no tool" in model.told("a")[0]


def test_a_spawned_child_shares_the_agents_of_its_parent_tract(stage, x):
    stage.user("hello")
    child = stage.session.spawn(stage, purpose="look")
    assert child.agents is stage.agents
    assert child.agents.create("y", "y works", "d").name == "y"
    child.close()
    assert stage.agents.names == ["x", "y"]


@pytest.mark.parametrize("given", [{"tools": "add"}, {"toolsets": "code"}])
def test_a_string_is_refused_in_place_of_a_list_of_names(stage, given):
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


def test_an_adopted_agent_is_callable_from_the_start_of_the_next_session(reopened, workspace):
    first = reopened()
    first.agents.create("k", "k works", "d")
    first.agents.promote("k", "k.agent")
    first.agents.adopt("k.agent")
    first.close()
    second = reopened()
    second.models.use(_says("here"))
    assert second.tools.agents.k(input="go")["answer"] == "here"


@pytest.mark.parametrize(("first", "second"), [("class", "class_"), ("None_", "None"), ("Class-", "class")])
def test_no_two_agents_have_one_name_in_python(stage, first, second):
    """Two such agents would remove all tools from every script."""
    stage.agents.create(first, "x works", "d")
    with pytest.raises(AgentError, match=r"would both be tools\.agents\."):
        stage.agents.create(second, "x works", "d")
    assert "3" in str(stage.scripts.run("print(tools.add(a=1, b=2))").to_dict())


def test_adopt_stores_the_displayed_text_if_the_file_changes_afterwards(stage, workspace, monkeypatch):
    """Even if the file changes after the last read."""
    file = workspace / "y.agent"
    file.write_text("---\nname: y\n---\nGood.")
    question = PendingAdoption(stage.agents, file)
    look = adoption.read_file

    def and_change(path):
        text = look(path)
        file.write_text("---\nname: y\ntools: [erase]\n---\nEvil.")
        return text

    monkeypatch.setattr(adoption, "read_file", and_change)
    question.approve()
    agent = stage.agents.get("y")
    assert (agent.definition.instructions, agent.definition.tools) == ("Good.", ())
    with pytest.raises(AgentError, match="differs from the approved version"):
        stage.agents.call("y", "go")


def test_an_adoption_shows_changes_even_if_only_the_front_matter_changed(stage, workspace):
    file = workspace / "y.agent"
    file.write_text("---\nname: y\n---\nGood.")
    stage.agents.adopt(file)
    file.write_text("---\nname: y\ntools:\n- erase\n---\nGood.")
    changes = [
        one.code for one in PendingAdoption(stage.agents, file).code_blocks() if one.title == "Changes"
    ]
    assert "+- erase" in "".join(changes)


ALIKE = ("h works, number 35059.", "h works, number 115832.")
"""Instructions of two versions whose hashes begin with the same eight digits; a model finds such in a moment."""


def test_no_two_versions_have_the_same_digits(stage, cast, person):
    """A standing approval refers to these digits."""
    there = person(lambda pending: allow_for_session)
    model = cast(h=[calls(call("write", {"text": "one"}, "w1")), "over"])
    agent = stage.agents.create("h", ALIKE[0], "d", tools=["write"])
    first = agent.id
    stage.agents.call("h", "go")
    stage.agents.update("h", instructions="h works otherwise.")
    with pytest.raises(AgentError, match="the same 8 digits"):
        stage.agents.update("h", instructions=ALIKE[1])
    assert file_hash(agent.text.replace("h works otherwise.", ALIKE[1])).startswith(first.partition("@")[2])
    assert (agent.version, agent.definition.instructions) == (2, "h works otherwise.")
    assert agent.path.read_text() == agent.text
    model.parts["h"] = [calls(call("write", {"text": "two"}, "w2")), "over"]
    stage.agents.call("h", "go")
    assert len(there.about("write")) == 2


def test_versions_with_equal_digits_are_refused_in_a_later_session(reopened, workspace):
    first = reopened()
    first.agents.create("h", ALIKE[0], "d", tools=["write"])
    first.close()
    second = reopened()
    with pytest.raises(AgentError, match="the same 8 digits"):
        second.agents.create("h", ALIKE[1], "d", tools=["write"])
    file = workspace / "h.agent"
    file.write_text(f"---\nname: h\ndescription: d\ntools:\n- write\n---\n{ALIKE[1]}")
    with pytest.raises(AgentError, match="the same 8 digits"):
        second.agents.adopt(file)
    assert second.agents.names == []


def test_an_update_shows_manual_edits_of_the_file_before_it_replaces_them(stage, cast, person, x):
    there = person()
    x.path.write_text(x.text + " A line of my own.")
    cast(boss=[change(description="other"), "over"])
    stage.chat("Go.")
    request, _ = there.shown[0]
    assert "edited after approval" in str(request.tables)
    (block,) = [one for one in request.code if one.title == "Changes"]
    assert "-x works A line of my own." in block.code


@pytest.mark.parametrize("tag", ["!!timestamp foo", "!!int ''", "!!bool maybe", "!!float abc"])
def test_a_tag_that_does_not_fit_is_a_mistake_in_the_file(tag):
    with pytest.raises(AgentError, match="not valid YAML"):
        parse_file(f"---\nname: {tag}\n---\nx")


@pytest.mark.parametrize("end", ["\x85", "\u2028", "\u2029", "\r"])
def test_front_matter_has_no_line_that_an_editor_hides(end):
    with pytest.raises(AgentError, match="can hide a line"):
        parse_file(f"---\nname: x # a checker{end}tools: [erase]\n---\nx{end}works")
    assert parse_file(f"---\r\nname: x\r\n---\nx{end}works").instructions == f"x{end}works"


def test_retire_succeeds_even_if_the_file_cannot_be_removed(stage, x):
    path = x.path
    path.unlink()
    path.mkdir()
    stage.agents.retire("x")
    assert (x.state, x.path) == (AgentState.RETIRED, None)


def test_a_child_with_a_smaller_workspace_begins_no_call_with_more(stage, workspace, x):
    (workspace / "in").mkdir()
    (workspace / "plan.txt").write_text("secret")
    stage.user("hello")
    child = stage.session.spawn(stage, purpose="look")
    child.workspace.roots = [workspace / "in"]
    with pytest.raises(ToolExecutionError, match="outside of the workspace"):
        child.tools.agent_call(agent="x", input="go", attachments=[str(workspace / "plan.txt")])
    assert stage.agents.calls_of("x") == []
    child.close()


def test_a_string_is_refused_in_place_of_a_list_of_attachments(stage, x):
    with pytest.raises(ToolExecutionError, match="list"):
        stage.agents.call("x", "go", "plan.txt")


@pytest.mark.parametrize("usage", [{"prompt_tokens": 0, "completion_tokens": 0}, {"total_tokens": 0}])
def test_zero_token_counts_do_not_bypass_a_budget(stage, cast, usage):
    more = [reply(None, call("add", {"a": 1, "b": number}, f"a{number}"), usage=usage) for number in range(9)]
    cast(w=more)
    stage.agents.create("w", "w works", "d", tools=["add"], budget={"tokens": 6_000})
    with pytest.raises(AgentError, match="limit of 6,000 tokens"):
        stage.agents.call("w", "go")


def test_the_error_for_a_pending_call_names_resume_instead_of_chat(stage, cast):
    stage.agents.create("w", "w works.", "d", tools=["write"])
    cast(w=[calls(call("write", {"text": "t"}, "w1"))])
    with pytest.raises(AgentError) as caught:
        stage.agents.call("w", "go")
    assert "chat(None)" not in str(caught.value)
    assert "tract.agents.resume('w')" in str(caught.value)


@pytest.mark.parametrize("name", ["a\0.agent", "\u202exe.agent", "a\n.agent"])
def test_a_promoted_file_has_a_name_that_can_be_read(stage, workspace, x, name):
    with pytest.raises(AgentError, match="contains invisible characters"):
        stage.agents.promote("x", name)
    assert list(workspace.iterdir()) == []


def test_help_on_an_agent_has_no_control_characters(stage):
    stage.agents.create("y", "y works", "Reads\x1b[2J\x9b31m\u202e books.")
    told = stage.tools.agents.y.__doc__
    assert "Reads" in told
    assert not set(told) & set("\x1b\x9b\u202e")


def test_a_removed_agents_folder_is_created_again(stage, cast, x):
    shutil.rmtree(stage.agents.directory)
    assert "agent_update creates a new version with a new file" in x.why_blocked
    stage.agents.update("x", instructions="x works well")
    assert x.path.is_file()
    shutil.rmtree(stage.agents.directory)
    stage.agents.create("y", "y works", "d")
    cast(y=["y over"])
    assert stage.agents.call("y", "go") == "y over"


def test_each_call_has_its_own_conversation_even_if_the_agent_switches_branches(
    reopened, cast, stage, person
):
    """Also after a resume in another process, and in the usage counts."""
    person(lambda pending: "approve" if pending.tool_name == "switch" else None)
    stage.agents.create("s", "s works", "d", toolsets=["self"], tools=["write"])
    moves = calls(call("switch", {"target": "call-1"}, "c1"))
    cast(s=["one", moves, RuntimeError("no network")])
    stage.agents.call("s", "first")
    with pytest.raises(AgentError, match="no network"):
        stage.agents.call("s", "second")
    with stage.agents.transcript("s", 2) as read:
        assert [one["content"] for one in read.compile().to_dicts() if one["role"] == "user"] == ["second"]
    stage.close()
    again = reopened()
    again.models.use(_says("two"))
    (past,) = again.agents.past()
    assert again.agents.resume(past) == "two"
    taken = sum(one.used["steps"] for one in again.agents.calls_of(past))
    assert past.meter.taken("steps") == taken > 2
    with again.agents.transcript(past, 1) as first, again.agents.transcript(past, 2) as second:
        said = [read.compile().messages[-1].content for read in (first, second)]
    assert said == ["one", "two"]
