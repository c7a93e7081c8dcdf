"""The executor, which runs all tools: validation, permission, errors as data, correct schemas."""

from __future__ import annotations

import threading
from typing import Any, Literal

import pytest

from tests.review.fakes import FakeChannel, click
from tract_jupyter.exceptions import SpecError, ToolDeniedError, UnknownToolError
from tract_jupyter.toolkit import Approval, Permission, ToolBridge, ToolDefinition, Traits, make_stub


@pytest.fixture
def ran():
    return []


@pytest.fixture
def write(add, ran):
    def write(path: str, text: str = "") -> str:
        """Write a file."""
        ran.append((path, text))
        return "written"

    return add(write, traits=Traits(destructive=True))


def test_arguments_are_checked_before_the_handler_runs(tract, write, ran):
    for arguments in (
        {},
        {"path": 1},
        {"path": "x", "txt": ""},
        {"path": None},
        {"path": "x", "text": [None]},
        [],
        None,
        {1: 2},
    ):
        result = tract.executor.execute("write", arguments)
        assert (result.success, result.denied, ran) == (False, False, [])
        assert result.error
        assert str(result).startswith("Error: ")


def test_every_problem_of_the_arguments_is_reported(tract, write):
    assert tract.executor.execute("write", {"txt": 1, "text": 2}).error == (
        "'path' is missing (str); 'text' should be a valid string, got 2 (int); "
        "'txt' is unknown. Did you mean 'text'? It takes path, text."
    )


def test_null_means_omitted_if_the_schema_does_not_allow_null(tract, write, search, ran):
    assert tract.executor.execute("write", {"path": "a", "text": None}).success
    assert ran == [("a", "")]
    (found,) = tract.tools.web_search("x", limit=None, sites=None)
    assert found == {"query": "x", "limit": 10, "sites": None}
    told = tract.executor.execute("web_search", {"query": 1, "limit": None}).error
    assert told == "'query' should be a valid string, got 1 (int)"


def test_a_null_that_the_schema_allows_is_a_value(tract, add):
    def f(x: int | None = 5, y: dict[str, int | None] | None = None) -> Any:
        return x, y

    add(f)
    assert tract.tools.f(x=None, y={"a": None}) == (None, {"a": None})
    assert not tract.executor.execute("f", {"x": None, "y": {"a": "b"}}).success


def test_success(tract, write, ran):
    result = tract.executor.execute("write", {"path": "a"})
    assert (result.success, result.output, result.error, result.tool_name) == (True, "written", "", "write")
    assert str(result) == "written"
    assert ran == [("a", "")]


@pytest.mark.parametrize("name", ["wirte", "", None, 3, []])
def test_an_unknown_tool(tract, write, name):
    result = tract.executor.execute(name, {})
    assert result.success is False
    assert "no tool" in result.error


def test_handlers_get_their_own_copy_of_defaults(tract, add):
    def f(seen: list[int] = []) -> list[int]:  # noqa: B006 # that is the point
        seen.append(1)
        return seen

    add(f)
    assert [tract.tools.f(), tract.tools.f(), tract.tools.f([5])] == [[1], [1], [5, 1]]


def test_a_function_with_unnamed_parameters_cannot_be_a_tool():
    def f(*args, **kwargs):
        pass

    with pytest.raises(SpecError, match="needs a name"):
        ToolDefinition.from_function(f)


def test_a_default_that_does_not_fit_is_refused():
    def f(x: int = "3"):  # type: ignore[assignment]
        pass

    with pytest.raises(SpecError, match="is not of type int"):
        ToolDefinition.from_function(f)


# --- results and errors of handlers


@pytest.mark.parametrize("code", [None, 3, "bye"])
def test_a_tool_cannot_end_the_process(tract, add, code):
    def leave():
        raise SystemExit(code)

    add(leave)
    result = tract.executor.execute("leave", {})
    assert (result.success, result.denied) == (False, False)
    assert result.error == f"SystemExit: it tried to end the process (exit code {code!r})"


def test_a_person_can_interrupt(tract, add):
    def wait():
        raise KeyboardInterrupt

    add(wait)
    with pytest.raises(KeyboardInterrupt):
        tract.executor.execute("wait", {})


def test_an_error_without_readable_text_is_reported(tract, add):
    class MuteError(Exception):
        def __str__(self):
            raise ValueError

    def f():
        raise MuteError

    add(f)
    assert tract.executor.execute("f", {}).error == "MuteError: an error without a readable text"


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ({"error": "no such file"}, "no such file"),
        ({"error": ""}, ""),
        ({"error": {"code": 3}}, "{'code': 3}"),
        ({"error": "blocked", "hint": "ask", "risks": [1]}, "blocked (hint: 'ask', risks: [1])"),
    ],
)
def test_a_dict_that_tells_an_error_is_a_failure(tract, add, output, told):
    def f():
        return output

    add(f)
    result = tract.executor.execute("f", {})
    assert (result.success, result.error) == (False, told)


@pytest.mark.parametrize(
    "output",
    [{"mean": 3, "error": 0.2}, {"status": 200, "error": None}, {"rows": [], "error": ""}, {"errors": "a"}],
)
def test_a_dict_with_a_numeric_or_empty_error_key_is_a_result(tract, add, output):
    def f():
        return output

    add(f)
    assert tract.tools.f() is output


def test_wrong_arguments_within_a_handler_are_its_own_error(tract, add, spec):
    tract.register_operation(spec())

    def f():
        tract.fire("citation_check", {"urls": 3})

    add(f)
    assert tract.executor.execute("f", {}).error.startswith(
        "ParameterError: citation_check: 'urls' should be"
    )


def test_a_rejection_by_a_users_handler_denies_the_call(tract):
    tract.user("a")
    tract.on("gc", lambda p: p.reject("not on Fridays"))
    with pytest.raises(ToolDeniedError, match="not on Fridays"):
        tract.tools.gc()


def test_the_error_for_an_undecided_call_says_not_to_repeat_it(tract):
    tract.user("a")
    tract.on("gc", lambda p: None)
    result = tract.executor.execute("gc", {})
    assert (result.success, result.denied) == (False, False)
    assert "UndecidedError" in result.error
    assert "Do not repeat the call" in result.error


# --- locks


@pytest.mark.parametrize("actor", ["user", "agent:1", "policy:x"])
def test_a_locked_tool_is_refused_for_everybody(tract, search, actor):
    tract.executor.lock_tool("web_search", "the quota is used up")
    approval = Approval(tract.executor.get("web_search").definition_hash)
    result = tract.executor.execute("web_search", {"query": "x"}, actor=actor, approval=approval)
    assert (result.success, result.denied) == (False, True)
    assert result.error == "tool 'web_search' is locked: the quota is used up; it cannot be called now"
    tract.executor.unlock_tool("web_search")
    assert tract.executor.execute("web_search", {"query": "x"}, actor=actor).success


def test_a_lock_without_reason_is_reported_and_a_second_lock_replaces_it(tract, search):
    tract.executor.lock_tool("web_search")
    with pytest.raises(ToolDeniedError, match="is locked, without a reason"):
        tract.tools.web_search("x")
    tract.executor.lock_tool("web_search", "later")
    assert tract.executor.locks == {"web_search": "later"}
    tract.executor.unlock_tool("web_search")
    tract.executor.unlock_tool("web_search")
    assert tract.executor.locks == {}


def test_a_lock_outlives_the_tool(tract, search):
    tract.executor.lock_tool("web_search")
    tract.executor.remove_tool("web_search")
    tract.executor.unlock_tool("web_search")
    with pytest.raises(UnknownToolError):
        tract.executor.unlock_tool("web_search")


@pytest.mark.parametrize("act", ["lock_tool", "unlock_tool", "remove_tool"])
def test_locking_unlocking_or_removing_an_unknown_tool_is_refused(tract, search, act):
    with pytest.raises(UnknownToolError, match="no tool 'web_serch'. Did you mean 'web_search'"):
        getattr(tract.executor, act)("web_serch")
    with pytest.raises(UnknownToolError):
        getattr(tract.executor, act)(None)


def test_a_call_approved_after_its_tool_was_locked_does_not_run(tract, write, ran):
    def lock(ticket):
        tract.executor.lock_tool("write", "enough")
        click(ticket, "approve")

    tract.reviewer.channel = FakeChannel(lock, lambda ticket: click(ticket, "reject"))
    result = tract.executor.execute("write", {"path": "a"}, actor="agent:1")
    assert (result.denied, ran) == (True, [])


def test_a_policy_cannot_call_a_locked_tool(tract, write, ran):
    tract.on("policy", lambda p: p.approve())
    tract.executor.lock_tool("write")
    with pytest.raises(ToolDeniedError, match="locked"):
        tract.policies.apply("p", "write", {"path": "a"})
    assert ran == []


# --- callers


def test_the_user_is_not_asked(tract, write, ran):
    assert tract.executor.execute("write", {"path": "a"}).success
    assert tract.review.inbox() == []


@pytest.mark.parametrize("actor", ["script:ab12", "agent:1", "orchestrator", ""])
def test_code_of_a_model_can_read_and_needs_approval_to_write(tract, search, write, ran, actor):
    bridge = ToolBridge(tract.executor, actor=actor)
    assert bridge.call("web_search", {"query": "x"})
    with pytest.raises(ToolDeniedError, match="no user is available"):
        bridge.call("write", {"path": "a"})
    assert ran == []
    (stored,) = tract.review.inbox()
    assert (stored.title, stored.actor, stored.fields) == (
        "Call tool write",
        actor,
        {"path": "a", "text": ""},
    )
    assert stored.resumable is False


def answering(action, **arguments):
    return FakeChannel(lambda ticket: click(ticket, action, **arguments))


def test_a_person_allows_exactly_this_call(tract, write, ran):
    tract.reviewer.channel = answering("approve")
    bridge = ToolBridge(tract.executor, actor="agent:1")
    stub = make_stub("write", write, bridge.call)
    assert stub("a", text="b") == "written"
    assert ran == [("a", "b")]
    request, _ = tract.reviewer.channel.shown[0]
    assert (request.title, request.summary) == ("Call tool write", "Write a file.")
    assert "agent:1" in request.why
    assert [(row.name, row.value) for row in request.tables[0].rows] == [("path", "'a'"), ("text", "'b'")]
    tract.reviewer.channel = answering("reject")  # the next call makes a new request
    with pytest.raises(ToolDeniedError):
        stub("a", text="b")
    assert len(ran) == 1
    assert [event.data["action"] for event in tract.events("decision")] == ["reject", "approve"]


@pytest.mark.parametrize(("reason", "words"), [("not there", "not there"), ("", "it was rejected")])
def test_a_person_denies(tract, write, ran, reason, words):
    tract.reviewer.channel = answering("reject", reason=reason)
    with pytest.raises(ToolDeniedError, match=words) as caught:
        ToolBridge(tract.executor, actor="agent:1").call("write", {"path": "a"})
    assert (caught.value.tool, caught.value.arguments, ran) == ("write", {"path": "a"}, [])


def test_arguments_are_checked_before_anybody_is_asked(tract, write):
    tract.reviewer.channel = FakeChannel()
    result = tract.executor.execute("write", {"path": 3}, actor="agent:1")
    assert (result.success, result.denied, tract.reviewer.channel.shown) == (False, False, [])


def test_arguments_that_changed_after_they_were_shown_are_not_used(tract, write, ran):
    def change(ticket):
        ticket.pending.fields["path"] = "/etc/passwd"
        click(ticket, "approve")

    tract.reviewer.channel = FakeChannel(change, lambda ticket: click(ticket, "reject"))
    result = tract.executor.execute("write", {"path": "a"}, actor="agent:1")
    assert (result.denied, ran) == (True, [])


@pytest.mark.parametrize("actor", ["user", "agent:1"])
def test_a_policy_that_denies(tract, write, ran, actor):
    tract.executor.permission = lambda tool, who: (
        Permission.DENY if tool.traits.destructive else Permission.ALLOW
    )
    with pytest.raises(ToolDeniedError, match=f"{actor} has no permission to call 'write'"):
        ToolBridge(tract.executor, actor=actor).call("write", {"path": "a"})
    assert (ran, tract.review.inbox()) == ([], [])
    assert ToolBridge(tract.executor, actor=actor).call("status", {})


def test_a_policy_that_asks_the_user_too(tract, write, ran):
    tract.executor.permission = lambda tool, actor: Permission.ASK
    tract.reviewer.channel = answering("approve")
    assert tract.tools.write("a") == "written"


def test_a_policy_that_raises_lets_nothing_through(tract, write, ran):
    tract.executor.permission = lambda tool, actor: 1 / 0
    assert tract.executor.execute("write", {"path": "a"}).success is False
    assert ran == []


# --- operations as tools


def test_a_rejected_operation_is_a_denied_call(tract, spec):
    tract.register_operation(spec())
    tract.on("citation_check", lambda p: p.verify(True))
    with pytest.raises(ToolDeniedError, match="Missing 1 URLs"):
        tract.tools.fire_citation_check(["u"])
    assert tract.tools.fire_citation_check([]) == {
        "operation": "citation_check", "status": "approved", "fields": {"urls": [], "verified": True}, "result": None,
    }  # fmt: skip


def test_an_operation_without_a_handlers_decision_needs_approval(tract, spec):
    tract.register_operation(spec(unhandled="ask"))
    tract.reviewer.channel = answering("verify", strict=False)
    assert tract.tools.fire_citation_check(["u"])["fields"]["verified"] is True
    tract.reviewer.channel = FakeChannel(reachable=False)
    result = tract.executor.execute("fire_citation_check", {"urls": ["u"]})
    assert "NobodyToAskError" in result.error
    assert len(tract.review.inbox()) == 1


def test_an_operation_without_a_decision_in_time_is_a_denied_call(tract, spec):
    tract.register_operation(spec(unhandled="ask"))
    tract.reviewer.channel = FakeChannel()
    tract.reviewer.timeout, tract.reviewer.on_timeout = 0.05, "deny"
    result = tract.executor.execute("fire_citation_check", {"urls": ["u"]})
    assert (result.success, result.denied, result.error) == (False, True, "no decision within 0.05 s")


@pytest.mark.parametrize("actor", ["user", "agent:1"])
def test_an_operation_has_the_actor_of_its_call(tract, spec, actor):
    named = {"type": "str"}
    tract.register_operation(spec(fields={"actor": named, "self": named}))
    tract.reviewer.channel = answering("approve")
    seen = []
    tract.on("citation_check", lambda p: (seen.append((p.actor, p.fields)), p.approve()))
    result = tract.executor.execute("fire_citation_check", {"actor": "a", "self": "b"}, actor=actor)
    assert result.success, result.error
    assert seen == [(actor, {"actor": "a", "self": "b"})]


def test_an_operation_is_gated_for_a_model(tract, spec):
    tract.register_operation(spec())
    result = tract.executor.execute("fire_citation_check", {"urls": []}, actor="agent:1")
    assert result.denied
    assert tract.hooks.log() == []


# --- schemas


def test_as_tools_in_both_shapes(tract, search):
    openai = {tool["function"]["name"]: tool for tool in tract.as_tools("full")}
    anthropic = {tool["name"]: tool for tool in tract.as_tools("full", format="anthropic")}
    assert set(openai) == set(anthropic) == set(tract.executor.tools())
    assert openai["web_search"] == {
        "type": "function",
        "function": {
            "name": "web_search",
            "description": "Search the web.",
            "parameters": anthropic["web_search"]["input_schema"],
        },
    }
    assert anthropic["web_search"]["input_schema"] == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for."},
            "limit": {"type": "integer", "description": "How many.", "default": 10},
            "sites": {
                "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
                "description": "Where.",
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    }


def test_schemas_of_unions_and_literals_are_not_flattened(add):
    def f(a: int | None, b: Literal["x", "y"], c: dict[str, list[int]], d: Any = None) -> None:
        pass

    properties = add(f).parameters.json_schema["properties"]
    assert properties["a"] == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert properties["b"] == {"type": "string", "enum": ["x", "y"]}
    assert properties["c"] == {
        "type": "object",
        "additionalProperties": {"type": "array", "items": {"type": "integer"}},
    }
    assert properties["d"] == {}


def test_tools_can_be_called_from_many_threads(tract):
    errors = []

    def work():
        try:
            for _ in range(5):
                tract.tools.commit({"content_type": "dialogue", "role": "user", "text": "x"})
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert tract.tools.status()["commit_count"] == 20
