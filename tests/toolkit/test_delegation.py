"""A child tract: it calls only granted tools, with at most the permissions of its parent."""

from __future__ import annotations

import threading

import pytest

from tests.review.fakes import FakeChannel, answering, click
from tests.review.scripted import ScriptedClient, call, reply
from tests.toolkit.servers import command
from tract_jupyter import Session, Tract
from tract_jupyter.exceptions import OperationExistsError, SpecError, UnknownToolError
from tract_jupyter.models import AutonomyLevel, PendingStatus
from tract_jupyter.operations import ActionDef, OperationSpec
from tract_jupyter.toolkit import (
    READING_ONLY,
    Call,
    Permission,
    ToolConfig,
    ToolProfile,
    agent_actor,
    child_actor,
    get_profile,
)

OUTPUT = {"content_type": "output", "text": "z"}


def only(*names):
    """A profile of some tools."""
    return ToolProfile("some", dict.fromkeys(names, ToolConfig()))


def greet(code="pending.approve()"):
    """An operation."""
    return OperationSpec("greet", "Greets.", {}, {"hi": ActionDef("hi", "Says hi.", {}, code)})


@pytest.fixture
def personal(monkeypatch):
    """Make the decisions of a test count as a user's in a panel."""
    from tract_jupyter.review import decision

    monkeypatch.setattr(decision, "_PERSONAL", decision._PERSONAL | {"fake"})


@pytest.fixture
def done():
    """The actions of the tools, in order."""
    return []


@pytest.fixture
def top(tract, done):
    """The top tract, with a tool that reads, one that writes, and one that destroys."""
    tract.user("hello")

    @tract.tool(read_only=True)
    def look(city: str) -> str:
        """Look outside."""
        done.append(city)
        return f"sunny in {city}"

    @tract.tool
    def send(text: str) -> str:
        """Send a mail."""
        done.append(text)
        return f"sent {text}"

    @tract.tool(destructive=True)
    def wipe() -> str:
        """Wipe the disk."""
        done.append("wiped")
        return "wiped"

    return tract


@pytest.fixture
def child(top):
    return top.session.spawn(top, purpose="look around")


@pytest.fixture
def grandchild(top, child):
    return top.session.spawn(child, purpose="look closer")


@pytest.fixture
def person(top):
    """Let a user decide about the requests of the top tract."""

    def give(*answers):
        top.reviewer.channel = FakeChannel(*map(answering, answers))
        return top.reviewer.channel

    return give


def as_model(tract, name, /, **arguments):
    """Call a tool as the model of a tract."""
    return tract.executor.execute(name, arguments, actor=tract.executor.agent)


# --- available tools


def test_its_tools_are_the_parents_and_those_on_a_context_its_own(top, child, grandchild):
    assert child.executor.above is top.executor
    assert set(child.executor.tools()) == set(grandchild.executor.tools()) == set(top.executor.tools())
    assert grandchild.executor.get("send") is top.executor.get("send")
    assert grandchild.executor.get("commit") is not top.executor.get("commit")
    before = len(top.log())
    assert as_model(grandchild, "status").output["commit_count"] == 1
    assert grandchild.tools.commit(content=OUTPUT)["message"] == "z"
    assert grandchild.log()[0].message == "z"
    assert (len(top.log()), len(child.log())) == (before, 1)
    assert grandchild.tools.look(city="Rome") == "sunny in Rome"


def test_changes_of_the_top_tools_apply_to_children_at_once(top, child, grandchild, done):
    extra = top.tool(_named("extra", done))
    assert grandchild.tools.extra() == "extra"
    top.executor.remove_tool("extra")
    assert grandchild.executor.get("extra") is None
    with pytest.raises(AttributeError, match="no tool 'extra'"):
        _ = grandchild.tools.extra
    top.tool(extra)
    other = _named("other", done)
    top.tool(other, name="extra")
    assert grandchild.tools.extra() == "other"
    assert grandchild.toolset("self").tools()["extra"] is top.executor.get("extra")


def _named(name, done):
    def tool() -> str:
        """Do it."""
        done.append(name)
        return name

    tool.__name__ = name
    return tool


def test_an_operation_of_the_top_is_fired_there(top, grandchild, person):
    top.register_operation(greet("print('hi')\npending.approve()"))
    assert "fire_greet" in grandchild.executor.tools()
    channel = person("approve")
    assert as_model(grandchild, "fire_greet").success
    (request, _), *_ = channel.shown
    assert "It fires the operation greet" in request.why
    assert any("'hi'" in block.code for block in request.code)
    top.unregister_operation("greet")
    assert "no tool 'fire_greet'" in as_model(grandchild, "fire_greet").error


def test_its_own_operation_is_a_tool_of_its_own(top, child, grandchild):
    child.register_operation(greet())
    assert top.executor.get("fire_greet") is None
    assert grandchild.tools.fire_greet()["status"] == "approved"
    assert grandchild.executor.home("fire_greet") is child.executor
    prepared = grandchild.executor.prepare("fire_greet", {}, actor="agent")
    assert prepared.question.fired is child.operations.registry.get_class("greet")


def test_a_proposed_operation_is_asked_about_at_the_top(top, grandchild, person):
    person("approve")
    action = {"code": "pending.approve()", "isolation": "kernel"}
    assert as_model(grandchild, "propose_operation", name="greet", actions={"hi": action}).success
    assert top.operations.registry.get_class("greet") is not None
    assert grandchild.operations.registry.get_class("greet") is None


def test_tools_of_an_mcp_server_are_called_through_it(top, grandchild, person):
    top.mcp.add("liar", command("liar", "plain"))
    person("approve")
    assert as_model(grandchild, "liar.go", n=3).output == '{"n": 3}'
    assert grandchild.tools.liar.go(n=4) == '{"n": 4}'
    assert "liar" in grandchild.executor.namespaces()
    top.executor.lock_tool("liar.go", "no")
    assert "is locked: no" in as_model(grandchild, "liar.go", n=3).error
    top.mcp.remove("liar")
    assert grandchild.executor.namespaces() == frozenset()
    top.close()


def test_a_tool_of_its_own_is_seen_below_it_only(top, child, grandchild, done):
    child.tool(_named("mine", done))
    assert grandchild.tools.mine() == "mine"
    assert top.executor.get("mine") is None
    # a tool with the same name replaces the parent's tool, here and in children
    child.tool(_named("other", done), name="send", read_only=True)
    assert as_model(grandchild, "send").output == "other"
    assert top.tools.send(text="x") == "sent x"
    top.executor.lock_tool("send", "no")
    assert "is locked: no" in as_model(grandchild, "send").error
    child.executor.remove_tool("send")
    with pytest.raises(OperationExistsError, match="belongs to a parent tract"):
        child.executor.remove_tool("send")
    with pytest.raises(OperationExistsError, match="belongs to a parent tract"):
        grandchild.executor.remove_tool("mine")


# --- locks and permission


def test_a_lock_above_counts_below_and_is_undone_above(top, child, grandchild):
    top.executor.lock_tool("look", "at night")
    for tract in (child, grandchild):
        assert tract.executor.locks == {"look": "at night"}
        assert "is locked: at night" in as_model(tract, "look", city="Rome").error
        assert "look" not in tract.toolset("self").tools()
        with pytest.raises(OperationExistsError, match="locked in a parent tract"):
            tract.executor.unlock_tool("look")
    top.executor.unlock_tool("look")
    child.executor.lock_tool("look", "here")
    assert as_model(top, "look", city="Rome").success
    assert not as_model(grandchild, "look", city="Rome").success
    child.executor.unlock_tool("look")
    assert as_model(grandchild, "look", city="Rome").success
    with pytest.raises(UnknownToolError):
        child.executor.unlock_tool("nothing")


def test_the_permission_above_counts_and_its_own_only_makes_it_stricter(top, child, grandchild):
    assert grandchild.executor.permission is top.executor.permission
    seen = []

    def permit(tool, actor):
        seen.append(actor)
        return Permission.DENY if tool.name == "wipe" else Permission.ALLOW

    top.executor.permission = permit
    assert as_model(grandchild, "send", text="x").success
    assert seen == [grandchild.executor.agent]
    assert "no permission to call 'wipe'" in as_model(grandchild, "wipe").error
    child.executor.permission = lambda tool, actor: Permission.ALLOW
    assert "no permission" in as_model(grandchild, "wipe").error
    child.executor.permission = lambda tool, actor: Permission.DENY
    assert "no permission" in as_model(grandchild, "look", city="Rome").error
    assert as_model(top, "look", city="Rome").success


def test_the_autonomy_of_a_child_is_limited_by_its_parent(top, child, grandchild):
    grandchild.autonomy.ceiling = "autonomous"
    grandchild.autonomy.allows_destructive = True
    assert grandchild.autonomy.effective() is AutonomyLevel.COLLABORATIVE
    top.autonomy.ceiling = child.autonomy.ceiling = "autonomous"
    assert grandchild.autonomy.effective() is AutonomyLevel.AUTONOMOUS
    wipe = top.executor.get("wipe")
    assert grandchild.autonomy.permission(wipe, "autonomous", "agent") is Permission.ASK
    top.autonomy.allows_destructive = child.autonomy.allows_destructive = True
    assert grandchild.autonomy.permission(wipe, "autonomous", "agent") is Permission.ALLOW
    top.autonomy.ceiling = "manual"
    assert grandchild.autonomy.effective("autonomous") is AutonomyLevel.MANUAL


# --- granted tools


def test_a_tool_that_is_not_granted_is_refused_with_the_granted_ones(top, done):
    child = top.session.spawn(top, purpose="look", granted=only("look", "commit"))
    assert set(child.executor.tools()) == {"look", "commit", "read_result"}
    refused = as_model(child, "send", text="x")
    assert refused.denied
    assert refused.error == (
        f"'send' was not granted to {child.executor.agent}; asking again changes nothing. "
        "Granted: commit, look, read_result"
    )
    # for every caller and every profile of the toolset
    assert not child.executor.execute("send", {"text": "x"}).success
    assert not child.toolset("full").execute("send", {"text": "x"}).success
    assert child.toolset("full").prepare("send", {"text": "x"}).denied
    with pytest.raises(AttributeError, match="no tool 'send'"):
        _ = child.tools.send
    assert "was not granted" in as_model(child, "status").error
    assert "no tool 'sned'" in as_model(child, "sned").error
    assert as_model(child, "look", city="Rome").success
    assert done == ["Rome"]


def test_a_grant_never_gives_more_than_the_parent_has(top):
    child = top.session.spawn(top, purpose="look", granted=only("look"))
    below = top.session.spawn(child, purpose="look", granted="full")
    assert set(below.executor.tools()) == {"look", "read_result"}
    for name, arguments in {
        "send": {"text": "x"},
        "commit": {"content": OUTPUT},
        "notebook_execute": {"code": "1"},
    }.items():
        assert "was not granted" in below.executor.execute(name, arguments).error
    with pytest.raises(SpecError, match="is not granted to"):
        child.tool(_named("mine", []))


def test_a_code_mode_profile_grants_the_tools_of_its_scripts(top):
    child = top.session.spawn(top, purpose="look", granted=only("look").as_code_mode())
    assert set(child.executor.tools()) == {
        "look", "notebook_execute", "tools_search", "tools_describe", "read_result",
    }  # fmt: skip


# --- requests of children


def test_requests_of_children_are_shown_by_the_top_tract(top, child, grandchild, person):
    channel = person("approve", "no")
    assert as_model(grandchild, "send", text="x").output == "sent x"
    assert as_model(child, "commit", content=OUTPUT).error == "no"
    (asked, _), (again, _) = (one for one in channel.shown if one[1] == "pending")
    deep, flat = grandchild.executor.agent, child.executor.agent
    assert (
        f"{deep} (depth 2, below {flat}, below the conversation at the top) wants to make this call"
        in asked.why
    )
    assert f"{flat} (depth 1, below the conversation at the top)" in again.why
    assert [one.decided_by for one in top.review.decisions()] != []
    assert child.review.decisions() == grandchild.review.decisions() == []


def test_a_call_on_a_context_is_bound_to_the_childs_branch(top, child):
    top.branch("elsewhere")
    prepared = child.executor.prepare("commit", {"content": OUTPUT}, actor="agent")
    assert isinstance(prepared, Call)
    question = prepared.question
    assert (question.tract, question.acts_in, question.branch) == (top, child, "main")
    top.switch("elsewhere")  # the branch of the top tract does not matter
    question.check_branch()
    child.branch("elsewhere")
    child.switch("elsewhere")
    with pytest.raises(Exception, match="this request is for branch 'main'"):
        question.approve()
    assert question.status is PendingStatus.PENDING


def test_actors_are_named_by_the_chain(top, child, grandchild):
    assert top.executor.agent == ""
    assert child.executor.agent == f"agent:{child.tract_id[:12]}"
    assert grandchild.executor.agent == f"{child.executor.agent}/{grandchild.tract_id[:12]}"
    agents = [top.session.spawn(top, purpose="x") for _ in range(2)]
    names = {tract.executor.agent for tract in (*agents, child, grandchild)}
    assert len(names) == 4
    assert not any(one.startswith(f"{other}/") for one in names for other in names - {child.executor.agent})
    qualified = grandchild.executor.qualified
    assert qualified("user") == "user"
    assert qualified("script:1f") == f"{grandchild.executor.agent}/script:1f"
    assert qualified(qualified("script:1f")) == qualified("script:1f")


def test_names_of_actors_fit_and_never_meet():
    deep = ""
    seen = set()
    for level in range(30):
        deep = agent_actor(deep, f"a{level:011}")
        assert len(deep) <= 128
        seen.add(deep)
    assert len(seen) == 30
    assert agent_actor(deep, "x") != agent_actor(deep, "y")
    long = agent_actor(agent_actor("", "a" * 64), "b" * 64)
    assert len(long) <= 128
    assert long.endswith("/" + "b" * 64)
    for wrong in ("", "a/b", "x" * 65, "chat", "writer"):
        with pytest.raises(SpecError, match="cannot be the id"):
            agent_actor("", wrong)
    assert child_actor("", "0123456789abcdef", None) == "agent:0123456789ab"
    assert child_actor("", "0123456789abcdef", "b") != child_actor("", "0123456789abcdef", "c")


@pytest.mark.usefixtures("personal")
def test_a_grant_to_one_covers_neither_parent_nor_child_nor_sibling(top, child, grandchild):
    sibling = top.session.spawn(top, purpose="look, too")
    everybody = {
        "top": (top.executor, "agent:chat"),
        "child": (child.executor, child.executor.agent),
        "grandchild": (grandchild.executor, grandchild.executor.agent),
        "sibling": (sibling.executor, sibling.executor.agent),
        "script": (child.executor, "script:1f"),
        "toolset": (child.executor, "agent:chat"),
        "orchestrator": (child.executor, "orchestrator"),
    }

    def covered(text):
        return {
            name
            for name, (executor, actor) in everybody.items()
            if executor.execute("send", {"text": text}, actor=actor).success
        }

    for name, (executor, actor) in everybody.items():
        top.reviewer.channel = FakeChannel(
            lambda ticket: click(ticket, "approve", scope="session"), reachable=True
        )
        assert executor.execute("send", {"text": name}, actor=actor).success
        top.reviewer.channel = FakeChannel(reachable=False)
        assert covered(name) == {name}


@pytest.mark.usefixtures("personal")
def test_a_grant_to_one_and_its_children_covers_those(top, child, grandchild):
    top.reviewer.channel = FakeChannel(
        lambda ticket: click(ticket, "approve", scope="session", whom="children")
    )
    assert as_model(child, "send", text="x").success
    top.reviewer.channel = FakeChannel(reachable=False)
    assert as_model(grandchild, "send", text="x").success
    assert not top.executor.execute("send", {"text": "x"}, actor="agent:chat").success


# --- changes between the request and the call


def withdrawn(top):
    top.executor.permission = lambda tool, actor: Permission.DENY


def replaced(top):
    top.tool(_named("other", []), name="send")


BETWEEN = {
    "locked": (lambda top: top.executor.lock_tool("send", "too late"), "locked: too late"),
    "removed": (lambda top: top.executor.remove_tool("send"), "changed or removed"),
    "replaced": (replaced, "changed or removed"),
    "permission": (withdrawn, "no permission"),
    "closed": (lambda top: None, "no tool can be called"),
}


@pytest.mark.parametrize("change", list(BETWEEN))
def test_a_change_in_the_parent_before_the_decision_stops_the_call(top, child, grandchild, done, change):
    act, _ = BETWEEN[change]

    def decide(ticket):
        act(top)
        if change == "closed":
            child.close()
        click(ticket, "approve")
        click(ticket, "reject", reason=f"so it is: {ticket.request.note}")

    top.reviewer.channel = FakeChannel(decide, lambda ticket: click(ticket, "reject", reason="no"))
    result = as_model(grandchild, "send", text="x")
    assert not result.success
    assert done == []


@pytest.mark.parametrize("change", list(BETWEEN))
def test_a_change_in_the_parent_after_the_approval_stops_the_call(top, child, grandchild, done, change):
    act, told = BETWEEN[change]
    prepared = grandchild.executor.prepare("send", {"text": "x"}, actor="agent")
    prepared.question.approve()
    act(top)
    if change == "closed":
        child.close()
    result = grandchild.executor.execute(
        "send", {"text": "x"}, actor="agent", approval=prepared.question.approval
    )
    assert result.denied
    assert told in result.error
    assert done == []


def test_calls_of_a_child_give_a_clear_error_while_its_parent_is_closed(top):
    session = top.session
    child = session.spawn(top, purpose="look")
    below = session.spawn(child, purpose="look")
    session.release_tract(child.tract_id)
    assert below.executor.tools() == {}
    assert below.toolset("self").schemas() == []
    for result in (as_model(below, "look", city="Rome"), below.executor.prepare("commit", {}, actor="agent")):
        assert result.denied
        assert result.error == (
            f"no tool can be called: the parent tract {child.tract_id} is closed; "
            f"open it again with get_tract({child.tract_id!r})"
        )
    assert below.autonomy.effective() is AutonomyLevel.MANUAL
    session.get_tract(child.tract_id)
    assert as_model(below, "look", city="Rome").success


# --- counting


def test_uses_and_savings_count_at_the_child_and_above(top, child, grandchild):
    as_model(grandchild, "look", city="Rome")
    as_model(child, "look", city="Rome")
    as_model(top, "look", city="Rome")
    assert [one.executor.uses["look"] for one in (grandchild, child, top)] == [1, 2, 3]
    grandchild.scripts.run("for _ in range(3):\n    tools.look(city='Rome')")
    assert grandchild.scripts.savings.calls == child.scripts.savings.calls == top.scripts.savings.calls == 3
    assert top.executor.uses["look"] == 6


# --- scripts


SCRIPT = """\
told = []
for name in ("look", "send"):
    try:
        told.append(getattr(tools, name)("x"))
    except Exception as error:
        told.append(type(error).__name__)
told
"""


def test_a_script_in_the_kernel_calls_only_granted_tools(top, done):
    child = top.session.spawn(top, purpose="look", granted=only("look", "notebook_execute"))
    assert child.scripts.run(SCRIPT).value == ["sunny in x", "AttributeError"]
    assert done == ["x"]


def test_a_script_in_the_kernel_cannot_call_tools_of_the_parent_tract(top, done):
    child = top.session.spawn(top, purpose="look", granted=only("look"))
    child.scripts.notebooks.namespace("main")["above"] = top.tools
    result = child.scripts.run("above.send('x')", notebook_id="main")
    assert "these tools belong to a tract above the script's tract" in result.error.message
    threaded = "from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor(1).submit(above.send, 'y').result()"
    result = child.scripts.run(threaded, notebook_id="main")
    assert "these tools belong to a tract above the script's tract" in result.error.message
    assert done == []

    @top.tool(read_only=True)
    def asks() -> str:
        """Ask another tool of its own tract."""
        return str(top.tools.look(city="Rome"))

    other = top.session.spawn(top, purpose="look")
    assert other.scripts.run("tools.asks()").value == "sunny in Rome"


def test_a_script_in_the_sandbox_calls_only_granted_tools(top, person, done):
    pytest.importorskip("pydantic_monty")
    child = top.session.spawn(top, purpose="look", granted=only("look", "wipe", "notebook_execute"))
    assert child.scripts.run("tools.look(city='x')", backend="sandbox").value == "sunny in x"
    refused = child.scripts.run("tools.send(text='x')", backend="sandbox")
    assert "send" in refused.error.message
    channel = person("not now")
    asked = child.scripts.run(
        "try:\n    tools.wipe()\nexcept ToolDenied as e:\n    print(e)", backend="sandbox"
    )
    assert "not now" in asked.text
    assert "(depth 1, below the conversation at the top)" in channel.shown[0][0].why
    assert done == ["x"]


def test_a_script_for_the_kernel_is_asked_about_at_the_top(top, child, person):
    channel = person("approve")
    result = as_model(child, "notebook_execute", code="tools.status()['branch']", backend="kernel")
    assert result.success, result.error
    assert f"{child.executor.agent} (depth 1" in channel.shown[0][0].why
    assert child.review.inbox() == []


# --- a model


def test_a_model_in_a_child_acts_in_its_own_name(top, child, person, done):
    client = ScriptedClient(
        reply(None, call("send", {"text": "x"}), call("commit", {"content": OUTPUT}, "c2")), "Done."
    )
    top.configure_llm(client)  # a child uses its parent's model
    person("approve", "approve")
    assert child.chat("Go on.", tools="full").text == "Done."
    assert done == ["x"]
    assert {one.actor for one in _asked(top)} == {child.executor.agent}
    assert [one.message for one in child.log()].count("z") == 1
    assert "z" not in [one.message for one in top.log()]
    top.configure_llm(ScriptedClient("At the top."))
    assert child.chat("And now?").text == "At the top."
    child.configure_llm(ScriptedClient("My own."))
    assert child.chat("And now?").text == "My own."
    assert top.llm is not child.llm


def _asked(tract):
    return [tract.reviewer.ledger.get(one.pending_id) for one in tract.review.decisions()]


def test_an_agent_tract_with_granted_tools_is_below_its_creator(top, done):
    made = top.beside("agents", "run-1", "an agent", granted=only("look"), actor=agent_actor("", "finder"))
    assert made.executor.agent == "agent:finder"
    assert set(made.executor.tools()) == {"look", "read_result"}
    client = ScriptedClient(reply(None, call("look", {"city": "Rome"})), "Done.")
    made.configure_llm(client)
    assert made.chat("Look.", tools="full").text == "Done."
    below = made.beside(
        "agents", "run-2", "its own", granted=get_profile("full"), actor=agent_actor("agent:finder", "x")
    )
    assert (below.executor.agent, set(below.executor.tools())) == ("agent:finder/x", {"look", "read_result"})
    assert made.session is below.session is top.session
    made.close()
    assert "is closed" in as_model(below, "look", city="Rome").error
    plain = top.beside("agents", "run-3", "as the orchestrator's")
    assert plain.executor.above is None


# --- stored grants


def test_granted_tools_are_restored_from_the_store(tmp_path):
    with Session.open(tmp_path / "t.db") as session:
        boss = session.create_tract(tract_id="boss")
        boss.user("x")
        child = session.spawn(boss, purpose="look", granted=only("look", "commit").as_code_mode())
        below = session.spawn(child, purpose="look", granted="self")
        agent = session.spawn(below, purpose="try", granted=READING_ONLY)
        known = {
            tract.family.agent_id: (tract.executor.agent, set(tract.executor.tools()))
            for tract in (child, below, agent)
        }
    with Session.open(tmp_path / "t.db") as session:
        for name, (actor, tools) in known.items():
            tract = session.get_tract(name)
            assert (tract.executor.agent, set(tract.executor.tools())) == (actor, tools)
    # also for the tract of a notebook, with its current tools
    with Tract.open(tmp_path / "t.db") as boss:
        boss.tool(_named("look", []), read_only=True)
        child = boss.session.get_tract(next(iter(known)))
        assert "look" in child.executor.tools()
        assert child.executor.top is boss.executor


def test_only_reading_is_granted_if_the_stored_grant_has_another_signature(tmp_path, monkeypatch):
    with Session.open(tmp_path / "t.db") as session:
        boss = session.create_tract(tract_id="boss")
        boss.user("x")
        name = session.spawn(boss, purpose="look").tract_id
    monkeypatch.setenv("TRACT_JUPYTER_SECRET", "00" * 32)  # another user
    with Session.open(tmp_path / "t.db") as session:
        executor = session.get_tract(name).executor
        assert executor.granted is READING_ONLY
        assert all(tool.traits.read_only for tool in executor.tools().values())
        assert "was not granted" in executor.execute("commit", {"content": OUTPUT}).error
        assert executor.execute("status", {}).success


def test_a_child_asks_its_parents_model_when_it_is_opened_again(tmp_path):
    with Session.open(tmp_path / "t.db") as session:
        boss = session.create_tract(tract_id="boss")
        boss.user("x")
        name = session.spawn(boss, purpose="look").tract_id
    with Session.open(tmp_path / "t.db") as session:
        child = session.get_tract(name)
        boss = session.get_tract("boss")
        boss.models.use(lambda messages, **options: "from above")
        assert child.chat("Hi").text == "from above"
        boss.close()
        assert child.chat("Hi").text == "from above"  # the last model that it knew


def test_many_threads_call_through_it(top, grandchild, done):
    def work():
        for _ in range(20):
            assert grandchild.executor.execute("look", {"city": "Rome"}).success

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 80
