"""Tools of MCP servers next to other tools: names, traits, the gate, and approvals."""

from __future__ import annotations

import ast
import inspect
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.review.fakes import FakeChannel, click
from tests.review.scripted import ScriptedClient, call, reply, said
from tests.toolkit.servers import command, scripted, until
from tract_jupyter import Session, Tract
from tract_jupyter.exceptions import (
    McpError,
    McpTimeoutError,
    OperationExistsError,
    ToolDeniedError,
    ToolExecutionError,
)
from tract_jupyter.models import observing
from tract_jupyter.review import Answer
from tract_jupyter.toolkit import HELPERS, Patience, ToolBridge, Traits


@pytest.fixture
def add_liar(tract):
    """Return a function that adds a faulty server, named by its fault, to an open tract."""

    def make(way, *arguments, name="liar", **options):
        return tract.mcp.add(name, command("liar", way, *arguments), **options)

    yield make
    tract.close()


def names_in(tools):
    return sorted(set(dir(tools)) - set(HELPERS))


def test_its_tools_are_functions_of_a_namespace(tract, add_liar):
    server = add_liar("plain")
    assert tract.mcp.servers == {"liar": server}
    assert names_in(tract.tools.liar) == ["go"]
    assert "liar" in dir(tract.tools)
    assert "liar_go" not in dir(tract.tools)
    assert tract.tools.liar.go(n=3) == '{"n": 3}'
    assert tract.tools.liar is tract.tools.liar
    assert tract.tools.liar.go is tract.tools.liar.go
    assert repr(tract.tools.liar) == f"<tools.liar: {', '.join(sorted(['go', *HELPERS]))}>"


def test_they_have_signature_and_help(tract, add_liar):
    add_liar("plain")
    go = tract.tools.liar.go
    assert "n: int" in str(inspect.signature(go))
    assert go.__doc__.startswith("Goes.")
    assert (tract.tools.list_tools()["liar.go"], tract.tools.liar.list_tools()) == ("Goes.", {"go": "Goes."})


def test_the_executor_has_them_by_both_names(tract, add_liar):
    add_liar("plain")
    result = tract.executor.execute("liar.go", {"n": 3})
    assert (result.success, result.output) == (True, '{"n": 3}')
    assert tract.executor.get("liar.go").owner == "mcp:liar"
    # a model gets a name that its provider allows
    assert "liar_go" in {tool["name"] for tool in tract.as_tools(format="anthropic")}
    assert tract.toolset(actor="user").call("liar_go", {"n": 3}) == '{"n": 3}'


def test_arguments_are_checked_before_they_are_sent_to_the_server(tract, add_liar):
    add_liar("dies")
    with pytest.raises(ToolExecutionError, match="valid integer"):
        tract.tools.liar.go(n="x")
    assert tract.mcp.servers["liar"].is_running


def test_a_server_that_is_lost_fails_the_call_only(tract, add_liar):
    add_liar("dies")
    with pytest.raises(ToolExecutionError, match=r"McpConnectionError: .* was lost") as caught:
        tract.tools.liar.go()
    assert isinstance(caught.value.__cause__, McpError)
    assert tract.tools.status()["branch"] == "main"


def test_a_result_that_only_looks_like_an_error_is_returned(tract, add_liar):
    add_liar("error_dict")
    assert tract.tools.liar.go() == {"error": "is only a name"}


def test_the_text_of_an_error_is_not_repeated(tract, add_liar):
    add_liar("error_without_words")
    with pytest.raises(ToolExecutionError) as caught:
        tract.tools.liar.go()
    assert str(caught.value) == "liar.go() failed: the server gave no reason"


def test_calls_are_logged(tract, add_liar):
    add_liar("plain")
    tract.tools.liar.go(n=1)
    assert [record.tool for record in tract.tools.call_log] == ["liar.go"]


# --- names


def test_tool_names_become_python_names_and_invalid_ones_are_left_out(tract, add_liar):
    add_liar("names")
    assert names_in(tract.tools.liar) == ["class_", "db_query", "go", "tool__dict__", "with_space", "é"]
    assert tract.tools.liar.list_tools is not None
    assert tract.tools.liar.class_() == "{}"
    assert set(tract.mcp.problems("liar")) == {"", "x" * 59 + "…", "a b", "a\ufffdb"}
    assert all("its name is invalid" in why for why in tract.mcp.problems("liar").values())


def test_of_twins_none_is_taken(tract, add_liar):
    add_liar("twins")
    assert names_in(tract.tools.liar) == ["go"]
    assert tract.mcp.problems("liar") == {"twin": "2 tools have this name, so a call would be ambiguous"}


def test_of_two_that_would_be_one_in_python_none_is_taken(tract, add_liar):
    add_liar("same_in_python")
    assert names_in(tract.tools.liar) == ["go"]
    assert set(tract.mcp.problems("liar")) == {"a-b", "a_b"}


def test_a_schema_that_cannot_be_used_costs_its_tool_only(tract, add_liar):
    add_liar("schemas")
    assert names_in(tract.tools.liar) == ["go"]
    assert set(tract.mcp.problems("liar")) == {"deep", "remote"}


def test_an_unreadable_output_schema_is_ignored(tract, add_liar):
    add_liar("no_json")
    assert names_in(tract.tools.liar) == ["go", "nan"]
    assert tract.mcp.problems("liar") == {}
    assert tract.tools.liar.nan(n=1) == '{"n": 1}'


@pytest.fixture
def add_scripted(tract, tmp_path):
    """Return a function that adds the server `raw` with given tools and results; see `servers.scripted`."""

    def make(tools, answers=None, *, progress=None, capabilities=None, **options):
        program = scripted(tmp_path, tools, answers, progress=progress, capabilities=capabilities)
        return tract.mcp.add("raw", program, **options)

    yield make
    tract.close()


def seen(tract, method):
    """Return the parameters of the requests and notifications of a method that reached the server."""
    return [
        one["params"]
        for one in json.loads(tract.mcp.servers["raw"].call("seen"))
        if one.get("method") == method
    ]


GOOD = {"name": "good", "inputSchema": {"type": "object", "properties": {}}}
DONE = {"content": [{"type": "text", "text": "done"}]}
ANY = {"type": "object"}
NAMED = {"properties": {"q": {"type": "string"}}, "required": ["q"]}


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        (None, {}),
        ({}, {"anything": 1}),
        (NAMED, {"q": "x"}),
        ({"type": ["object", "null"], **NAMED}, {"q": "x"}),
        ({"anyOf": [ANY, {"type": "object", **NAMED}]}, {"q": "x"}),
        ({"allOf": [NAMED]}, {"q": "x"}),
        ({"$ref": "#/$defs/A", "$defs": {"A": NAMED}}, {"q": "x"}),
    ],
)
def test_arguments_are_an_object_whether_the_schema_says_so_or_not(tract, add_scripted, schema, arguments):
    add_scripted([GOOD, {"name": "odd", "inputSchema": schema}], {"odd": DONE})
    assert tract.mcp.problems("raw") == {}
    assert tract.tools.raw.odd(**arguments) == "done"
    schemas = {tool["name"]: tool["input_schema"] for tool in tract.as_tools(format="anthropic")}
    assert schemas["raw_odd"]["type"] == "object"
    if schema is not None and "q" in str(schema):
        assert "q" in schemas["raw_odd"]["properties"]


def test_a_tool_without_a_schema_takes_nothing(tract, add_scripted):
    add_scripted([{"name": "odd"}], {"odd": DONE})
    assert tract.tools.raw.odd() == "done"


@pytest.mark.parametrize(
    ("tool", "name", "words"),
    [
        ({"inputSchema": ANY}, "(tool 2)", "no name"),
        ({"name": 5, "inputSchema": ANY}, "(tool 2)", "no name"),
        ("odd", "(tool 2)", "no name"),
        ({"name": "odd", "inputSchema": "object"}, "odd", "not a JSON Schema, but 'object'"),
        ({"name": "odd", "inputSchema": True}, "odd", "not a JSON Schema, but True"),
        ({"name": "odd", "inputSchema": {"type": "array"}}, "odd", "an object, not 'array'"),
        ({"name": "odd", "inputSchema": {"type": ["array", "null"]}}, "odd", "must describe an object"),
        ({"name": "odd", "inputSchema": {"type": 3}}, "odd", "an object, not 3"),
        ({"name": "odd", "inputSchema": {"anyOf": [{"type": "array"}]}}, "odd", "must describe an object"),
        ({"name": "odd", "inputSchema": {"properties": 3}}, "odd", "properties"),
    ],
)
def test_a_tool_that_cannot_be_used_is_left_out_with_the_reason(tract, add_scripted, tool, name, words):
    add_scripted([GOOD, tool], {"good": DONE})
    assert tract.tools.raw.good() == "done"
    assert list(tract.mcp.problems("raw")) == [name]
    assert words in tract.mcp.problems("raw")[name]


@pytest.mark.parametrize("more", [
    {"annotations": {"readOnlyHint": "maybe", "destructiveHint": 0, "openWorldHint": None}},
    {"annotations": "read only"},
    {"annotations": None, "description": 3, "title": ["x"], "execution": "later", "icons": 3, "_meta": 3},
])  # fmt: skip
@pytest.mark.parametrize("trust", [False, True])
def test_an_invalid_annotation_is_ignored(tract, add_scripted, more, trust):
    add_scripted([GOOD, {**GOOD, "name": "odd", **more}], trust_annotations=trust)
    good, odd = (tract.executor.get(f"raw.{name}") for name in ("good", "odd"))
    assert (odd.traits, odd.description) == (good.traits, "")
    assert not odd.traits.read_only


# --- progress


@pytest.mark.slow
def test_progress_extends_the_time_and_is_shown(tract, add_scripted):
    add_scripted([{**GOOD, "name": "slow"}], {"slow": DONE}, progress={"slow": [0.2, 15]}, timeout=2)
    shown = []

    @contextmanager
    def watch(work):
        yield
        shown.append((work.what, work.done, work.total))

    with observing(watch):
        assert tract.tools.raw.slow() == "done"
    assert shown == [("raw.slow: step 15", 100, 100)]


@pytest.mark.slow
def test_progress_does_not_extend_the_time_for_ever(tract, add_scripted):
    server = add_scripted([GOOD], {"good": DONE}, progress={"good": [0.1, 1_000]}, longest_timeout=1)
    with pytest.raises(
        McpTimeoutError, match=r"did not end within 1 s, though it reported progress.*its effect"
    ):
        server.call("good")
    until(lambda: seen(tract, "notifications/cancelled"))


def test_the_error_of_a_timeout_names_the_exceeded_limit(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("tract_jupyter.toolkit.mcp.connection.time.monotonic", lambda: now[0])
    patience = Patience(10, 25)
    assert (patience.seconds_left, patience.why_over()) == (10, "did not answer within 10 s")
    now[0] = 9
    patience.extend()
    assert (patience.seconds_left, patience.why_over()) == (10, "reported no progress for 10 s")
    now[0] = 18
    patience.extend()
    assert patience.seconds_left == 7
    assert patience.why_over() == "did not end within 25 s, though it reported progress"
    now[0] = 30
    assert patience.seconds_left == 0


def test_stop_cancels_the_running_call_of_a_turn(tract):
    server = tract.mcp.add("honest", command("honest"))
    tract.configure_llm(ScriptedClient(reply(None, call("honest_sleep", {"seconds": 600}))))
    tract.reviewer.channel = answering("approve")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(tract.chat, "Sleep.", tools="self")
        until(lambda: server.call("notes") == ["sleeps"])
        tract.loop.stop()
        assert running.result(60).outcome == "stopped"
        until(lambda: server.call("notes") == ["sleeps", "cancelled"])
    told = "stopped by the user while it ran, so its outcome is unknown. Check before you repeat it"
    assert said(tract)[-1] == ("tool", told)


# --- tasks and resources

TASKS = {"tasks": {"requests": {"tools": {"call": {}}}, "cancel": {}}}
IN_TASKS = {**GOOD, "name": "job", "execution": {"taskSupport": "required"}}


def task(status, **more):
    return {
        "taskId": "t1",
        "status": status,
        "pollInterval": 1,
        "ttl": None,
        "createdAt": "",
        "lastUpdatedAt": "",
        **more,
    }


def test_a_tool_that_only_runs_as_a_task_is_run_as_one(tract, add_scripted):
    add_scripted([IN_TASKS], {
        "job": {"task": task("working")},
        "tasks/get": [task("working", statusMessage="half"), task("completed")], "tasks/result": DONE,
    }, capabilities=TASKS)  # fmt: skip
    assert tract.tools.raw.job() == "done"
    assert seen(tract, "tools/call")[0]["task"] == {"ttl": 3_600_000}
    assert [params["taskId"] for params in seen(tract, "tasks/get")] == ["t1", "t1"]


@pytest.mark.parametrize(
    ("answers", "words", "is_cancelled"),
    [
        ({"job": {"error": "no tasks today"}}, "no tasks today", False),
        ({"job": {"task": task("input_required")}}, "asks for input", True),
        ({"job": {"task": task("working")}, "tasks/get": {"error": "no such task"}}, "no such task", True),
        ({"job": {"task": task("failed")}, "tasks/result": {**DONE, "isError": True}}, "done", False),
        ({"job": {"task": task("cancelled")}, "tasks/result": {"error": "it was cancelled"}}, "it was cancelled", False),
    ],
)  # fmt: skip
def test_a_task_that_fails(tract, add_scripted, answers, words, is_cancelled):
    add_scripted([IN_TASKS], {"tasks/cancel": task("cancelled"), **answers}, capabilities=TASKS)
    with pytest.raises(ToolExecutionError, match=words):
        tract.tools.raw.job()
    assert bool(seen(tract, "tasks/cancel")) is is_cancelled


def test_a_task_that_takes_too_long_is_cancelled(tract, add_scripted):
    answers = {"job": {"task": task("working", pollInterval=60_000)}, "tasks/cancel": task("cancelled")}
    add_scripted([IN_TASKS], answers, capabilities=TASKS, timeout=0.5)
    with pytest.raises(ToolExecutionError, match="did not answer within"):
        tract.tools.raw.job()
    until(lambda: seen(tract, "tasks/cancel"))


def test_without_tasks_it_is_called_as_any_other_tool(tract, add_scripted):
    add_scripted([IN_TASKS], {"job": DONE})
    assert tract.tools.raw.job() == "done"
    assert "task" not in seen(tract, "tools/call")[0]


def test_resources_can_be_read(tract, add_scripted):
    contents = [{"uri": "a://b", "text": "hi", "mimeType": "text/plain"}, {"uri": "a://c", "blob": "QUJD"}]
    answers = {"resources/read": [{"contents": contents}, {"error": "no such resource"}]}
    add_scripted([GOOD], answers, capabilities={"resources": {}})
    assert names_in(tract.tools.raw) == ["good", "read_resource"]
    assert (
        tract.tools.raw.read_resource("a://b")
        == "[resource a://b, text/plain]\nhi\n[resource a://c, 3 bytes]"
    )
    assert seen(tract, "resources/read") == [{"uri": "a://b"}]
    with pytest.raises(ToolExecutionError, match="no such resource"):
        tract.tools.raw.read_resource(uri="a://d")
    with pytest.raises(ToolDeniedError, match="needs a decision"):
        ToolBridge(tract.executor, actor="agent:1").call("raw.read_resource", {"uri": "a://b"})


def test_a_server_tool_named_read_resource_is_kept(tract, add_scripted):
    own = {**GOOD, "name": "read-resource"}
    add_scripted([own], {"read-resource": DONE}, capabilities={"resources": {}})
    assert names_in(tract.tools.raw) == ["read_resource"]
    assert tract.tools.raw.read_resource() == "done"


def test_a_server_without_resources_gets_no_read_resource_tool(tract, add_scripted):
    add_scripted([GOOD])
    assert names_in(tract.tools.raw) == ["good"]


@pytest.mark.slow  # this is the most that a hostile server can make us read
def test_schemas_without_measure_cost_the_tools_that_come_last(tract, add_liar):
    add_liar("heavy")
    assert names_in(tract.tools.liar) == [f"t{n:02}" for n in range(10)]
    assert all("the maximum of one server is 50,000" in why for why in tract.mcp.problems("liar").values())


def test_a_server_does_not_take_a_name_that_is_taken(tract, add, add_liar):
    def deploy():
        pass

    add(deploy, name="de-ploy")
    add(deploy, name="cloud.deploy")
    for name in ("status", "de_ploy", "cloud"):
        with pytest.raises(OperationExistsError, match="choose another name"):
            add_liar("plain", name=name)
    add_liar("plain", name="taken")
    with pytest.raises(McpError, match="the MCP server 'taken' already exists"):
        add_liar("plain", name="taken")
    assert list(tract.mcp.servers) == ["taken"]


@pytest.mark.parametrize("name", ["liar", "liar.go", "liar.other"])
def test_a_tool_cannot_take_the_name_of_a_server_or_its_tools(tract, add, add_liar, name):
    add_liar("plain")

    def f():
        pass

    with pytest.raises(OperationExistsError, match=r"choose another( name)?$"):
        add(f, name=name)


# --- adding and removing


def test_removing_a_server_ends_it_and_takes_its_tools_away(tract, add_liar):
    server = add_liar("plain")
    go = tract.tools.liar.go
    tract.mcp.remove("liar")
    assert (tract.mcp.servers, server.is_running) == ({}, False)
    with pytest.raises(AttributeError, match="no tool 'liar'"):
        tract.tools.liar  # noqa: B018
    with pytest.raises(ToolExecutionError, match="no tool 'liar.go'"):
        go()
    with pytest.raises(McpError, match=r"no MCP server 'liar'. No server has been added"):
        tract.mcp.remove("liar")


def test_a_removed_server_can_be_added_again(tract, add_liar):
    add_liar("plain")
    tract.mcp.remove("liar")
    add_liar("empty")
    assert tract.tools.liar.go() is None


def test_an_unknown_server_is_answered_with_the_nearest(tract, add_liar):
    add_liar("plain")
    for ask in (tract.mcp.remove, tract.mcp.problems):
        with pytest.raises(McpError, match=r"Did you mean 'liar'\? Servers: liar"):
            ask("lier")


def test_a_server_that_does_not_start_is_not_added(tract, add_liar):
    with pytest.raises(McpError, match="no configuration here"):
        add_liar("dies_at_start")
    assert tract.mcp.servers == {}


def test_its_tools_change_when_it_says_so(tract, add_liar):
    add_liar("changes")
    before = tract.executor.get("liar.go")
    tract.tools.liar.go()
    after = until(lambda: (now := tract.executor.get("liar.go")) is not before and now)
    assert (before.parameters.names, after.parameters.names) == (("n",), ("m",))
    assert before.definition_hash != after.definition_hash
    with pytest.raises(ToolExecutionError, match="'n' is unknown"):
        tract.tools.liar.go(n=1)


def test_listing_the_same_tools_again_keeps_the_tool_objects(tract, add_liar):
    server = add_liar("says_so")
    before = tract.executor.get("liar.go")
    server.list_tools()
    assert tract.executor.get("liar.go") is before


def test_a_tool_that_changed_when_its_server_restarted_is_not_called(tract, add_liar, tmp_path):
    server = add_liar("changes_later", cwd=tmp_path)
    assert tract.tools.liar.go(n=1) == '{"n": 1}'
    until(lambda: not server.is_running)
    with pytest.raises(ToolExecutionError, match="changed or removed it, so it was not called"):
        tract.tools.liar.go(n=2)
    assert tract.tools.liar.go(m="x") == '{"m": "x"}'


def test_closing_the_tract_ends_its_servers(add_liar, tract):
    server = add_liar("plain")
    tract.close()
    assert not server.is_running


def test_closing_a_session_ends_the_servers_of_its_tracts(tmp_path):
    with Session.open(tmp_path / "t.db") as session:
        released, kept = (session.create_tract(tract_id=name) for name in "ab")
        servers = [t.mcp.add("liar", command("liar", "plain")) for t in (released, kept)]
        session.release_tract("a")
        assert [server.is_running for server in servers] == [False, True]
    assert [server.is_running for server in servers] == [False, False]


def test_no_store_starts_a_program(tmp_path):
    with Tract.open(tmp_path / "t.db") as t:
        t.mcp.add("liar", command("liar", "plain"))
    with Tract.open(tmp_path / "t.db") as t:
        assert t.mcp.servers == {}
        assert "liar" not in dir(t.tools)


# --- the gate


def test_a_tool_that_an_untrusted_server_calls_read_only_needs_approval(tract, add_liar):
    add_liar("hints")
    assert tract.executor.get("liar.reads").traits == Traits(open_world=True)
    assert tract.executor.get("liar.destroys").traits == Traits(destructive=True, open_world=True)
    with pytest.raises(ToolDeniedError, match="needs a decision"):
        ToolBridge(tract.executor, actor="agent:1").call("liar.reads", {})


def test_unless_a_person_trusts_it(tract, add_liar):
    add_liar("hints", trust_annotations=True)
    bridge = ToolBridge(tract.executor, actor="agent:1")
    assert bridge.call("liar.reads", {}) == "{}"
    assert tract.executor.get("liar.reads").traits == Traits(read_only=True, open_world=False)
    # a missing hint has the default of MCP
    assert tract.executor.get("liar.go").traits == Traits(destructive=True, open_world=True)
    with pytest.raises(ToolDeniedError):
        bridge.call("liar.go", {})


def answering(action, **arguments):
    return FakeChannel(lambda ticket: click(ticket, action, **arguments))


def test_a_person_allows_a_call_of_a_model(tract, add_liar):
    add_liar("plain")
    tract.reviewer.channel = answering("approve")
    assert ToolBridge(tract.executor, actor="agent:1").call("liar.go", {"n": 1}) == '{"n": 1}'
    request, _ = tract.reviewer.channel.shown[0]
    assert (request.title, request.summary) == ("Call tool liar.go", "Goes.")
    assert "reaches outside" in request.why


def test_a_standing_approval_is_about_this_tool_of_this_server(tract, add_liar):
    add_liar("plain")
    tract.reviewer.channel = FakeChannel(
        lambda ticket: ticket.submit(Answer("approve", {"scope": "session"}, ticket.round_id), "panel")
    )
    agent = ToolBridge(tract.executor, actor="agent:1")
    agent.call("liar.go", {"n": 1})
    assert agent.call("liar.go", {"n": 1}) == '{"n": 1}'
    tract.mcp.remove("liar")
    add_liar("plain", env={"DATABASE": "another"})  # the same description of another server
    tract.reviewer.channel = answering("reject", reason="not there")
    with pytest.raises(ToolDeniedError, match="not there"):
        agent.call("liar.go", {"n": 1})


def test_an_approval_does_not_apply_to_a_tool_that_changed_meanwhile(tract, add_liar):
    server = add_liar("changes")
    before = server.listed

    def change_and_approve(ticket):
        server.call("go")
        until(lambda: server.listed is not before)
        click(ticket, "approve")

    def reject(ticket):
        assert "changed or removed since" in ticket.request.note
        click(ticket, "reject", reason="changed")

    tract.reviewer.channel = FakeChannel(change_and_approve, reject)
    with pytest.raises(ToolDeniedError, match="changed"):
        ToolBridge(tract.executor, actor="agent:1").call("liar.go", {"n": 1})


# --- in scripts and stubs


@pytest.mark.parametrize("backend", ["kernel", "sandbox"])
def test_a_script_calls_them_in_the_same_way(tract, add_liar, backend):
    add_liar("hints", trust_annotations=True)
    result = tract.scripts.run("tools.liar.reads(n=3)", backend=backend)
    assert (result.status, result.value) == ("completed", '{"n": 3}')
    assert [call.tool for call in result.calls] == ["liar.reads"]
    assert not tract.scripts.run("tools.liar.nothing()", backend=backend).succeeded


def test_stubs_have_a_class_for_each_server(tract, add, add_liar):
    def liar_go(x: int) -> int:  # the name without namespaces
        return x

    add(liar_go)
    add_liar("names")
    text = tract.tools.stub_source()
    classes = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)}
    assert {node.name for node in classes["liar"].body} == {*names_in(tract.tools.liar), "list_tools"}
    assert "def liar_go(x: int) -> int:" in text
    assert tract.tools.stub_source(["liar.go"], docs=False) == (
        "from typing import Any\n\nclass liar:\n\n    @staticmethod\n    def go(*, n: int | None = None) -> Any: ...\n"
    )
    assert "def go(" in tract.tools.liar.stub_source(["go"])
    with pytest.raises(ToolExecutionError, match="no tool 'liar.gone'"):
        tract.tools.stub_source(["liar.gone"])
