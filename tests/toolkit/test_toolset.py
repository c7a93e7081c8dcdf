"""Toolsets: the tools of a profile for one actor, with results that can be sent to a model."""

from __future__ import annotations

import inspect
import types
from functools import partial

import pytest

from tests.review.fakes import FakeChannel, click
from tract_jupyter.exceptions import ContentError, ToolDeniedError, ToolExecutionError, UnknownToolError
from tract_jupyter.toolkit import Permission, ToolBridge, ToolConfig, ToolProfile, Traits

READING = ToolProfile("reading", {"log": ToolConfig(), "status": ToolConfig(), "web_search": ToolConfig()})


@pytest.fixture
def give(tract, add):
    """Return a function that adds the read-only tool `give`, which returns a value."""

    def make(value):
        def give():
            return value

        add(give, traits=Traits(read_only=True))

    return make


def test_a_toolset_calls_the_tools_of_its_profile(tract, search):
    reading = tract.toolset(READING, actor="agent:1")
    assert reading.call("status", {})["commit_count"] == 0
    assert reading.execute("web_search", {"query": "x"}).success
    assert set(reading.tools()) == {"log", "status", "web_search"}
    assert repr(reading) == "<Toolset 'reading' of agent:1: status, log, web_search>"


def test_a_tool_outside_the_profile_is_denied_with_the_available_ones(tract, search):
    tract.user("a")
    reading = tract.toolset(READING, actor="user")
    result = reading.execute("commit", {"content": {}})
    assert (result.success, result.denied) == (False, True)
    assert result.error == "no tool 'commit' in the profile 'reading'. Tools: log, status, web_search"
    with pytest.raises(ToolDeniedError):
        reading.call("gc", {})
    assert tract.status().commit_count == 1


def test_the_error_for_an_unknown_tool_suggests_the_nearest_name(tract, search):
    result = tract.toolset(READING).execute("web_serch", {})
    assert (result.success, result.denied) == (False, False)
    assert "no tool 'web_serch' in the profile 'reading'. Did you mean 'web_search'" in result.error


def test_the_default_tools_of_an_agent_do_not_remove_anything(tract):
    result = tract.toolset("self", actor="agent:1").execute("gc", {})
    assert result.denied
    assert "no tool 'gc' in the profile 'self'" in result.error


def test_a_toolset_shares_tools_permissions_and_locks_of_the_executor(tract, search):
    reading = tract.toolset(READING, actor="agent:1")
    tract.executor.lock_tool("web_search", "later")
    assert "web_search" not in reading.tools()
    assert "web_search" not in str(reading.schemas())
    assert "later" in reading.execute("web_search", {"query": "x"}).error
    tract.executor.unlock_tool("web_search")
    seen = []
    tract.executor.permission = lambda tool, actor: seen.append((tool.name, actor)) or Permission.DENY
    with pytest.raises(ToolDeniedError, match="agent:1 has no permission to call 'log'"):
        reading.call("log", {})
    assert seen == [("log", "agent:1")]
    tract.executor.remove_tool("web_search")
    assert set(reading.tools()) == {"log", "status"}


def test_locked_tools_are_offered_to_no_model(tract):
    tract.executor.lock_tool("gc")
    tract.executor.lock_tool("gc")
    for tools in (tract.as_tools("full"), tract.as_tools("supervisor", strict=True)):
        assert "gc" not in [tool["function"]["name"] for tool in tools]
    assert "gc" not in [tool.__name__ for tool in tract.toolset("full").callables()]


def test_changing_calls_of_an_agent_need_approval(tract):
    reject = partial(click, action="reject", reason="no branches")
    tract.reviewer.channel = FakeChannel(reject, reject)
    tract.user("a")
    with pytest.raises(ToolDeniedError, match="no branches"):
        tract.toolset(actor="agent:x").call("branch", {"name": "b"})
    (request, _) = tract.reviewer.channel.shown[0]
    assert "agent:x" in request.why
    with pytest.raises(ToolDeniedError):
        tract.toolset().call("branch", {"name": "b"})  # the actor is a model by default
    assert [branch.name for branch in tract.list_branches()] == ["main"]


@pytest.mark.parametrize("arguments", [None, [], "{}", 3])
def test_arguments_that_are_not_a_dict_are_refused(tract, search, arguments):
    with pytest.raises(ToolExecutionError, match="a dict of values is needed"):
        tract.toolset().call("web_search", arguments)
    with pytest.raises(ToolExecutionError, match="a dict of values is needed"):
        ToolBridge(tract.executor).call("web_search", arguments)


def test_overrides(tract):
    shown = tract.as_tools("self", overrides={"log": "Look back."}, format="anthropic")
    assert {tool["name"]: tool["description"] for tool in shown}["log"] == "Look back."
    for overrides, told in [({"lg": "x"}, "Did you mean 'log'"), ({"gc": "x"}, "'self' has no tool 'gc'")]:
        with pytest.raises(UnknownToolError, match=told):
            tract.as_tools("self", overrides=overrides)
    with pytest.raises(ContentError, match="the description of 'log' must be a string"):
        tract.toolset("self", overrides={"log": None})
    assert tract.executor.get("log").description != "Look back."


# --- results


@pytest.mark.parametrize(
    ("value", "plain"), [((1, 2), [1, 2]), ({"a": ()}, {"a": []}), (None, None), ("é", "é")]
)
def test_results_are_plain_data(tract, give, value, plain):
    give(value)
    assert tract.toolset().execute("give", {}).output == plain
    assert tract.tools.give() is value


@pytest.mark.parametrize("value", [object(), {1: 2}, float("nan"), {"a": {1, 2}}, "\ud800", [b"x"]])
def test_a_result_without_json_form_is_an_error_only_for_a_model(tract, give, value):
    give(value)
    result = tract.toolset().execute("give", {})
    assert (result.success, result.denied, result.output) == (False, False, None)
    assert result.error.startswith("give ran, but its result cannot be used: ")
    with pytest.raises(ToolExecutionError, match="give ran, but"):
        tract.toolset().call("give", {})
    assert tract.tools.give() is value


def test_a_result_that_contains_itself(tract, give):
    value = []
    value.append(value)
    give(value)
    assert "contains itself" in tract.toolset().execute("give", {}).error


def test_a_result_that_is_too_large(tract, give):
    give("é" * 100)
    tract.executor.result_bytes = 202
    assert tract.toolset().execute("give", {}).success
    tract.executor.result_bytes = 201
    result = tract.toolset().execute("give", {})
    assert "its result has 202 bytes of JSON, and the maximum is 201" in result.error
    assert "Do not repeat a call that changes something" in result.error
    assert tract.tools.give() == "é" * 100


def test_a_long_error_is_cut(tract, add):
    def f():
        raise ValueError("x" * 10_000 + "\ud800")

    add(f, traits=Traits(read_only=True))
    assert len(tract.toolset().execute("f", {}).error) == 4_000
    assert len(tract.executor.execute("f", {}).error) > 10_000


# --- plain functions


def test_tools_as_functions(tract, search):
    functions = {function.__name__: function for function in tract.toolset(READING).callables()}
    assert set(functions) == {"log", "status", "web_search"}
    found = functions["web_search"]
    assert isinstance(found, types.FunctionType)
    assert str(inspect.signature(found)) == "(query: str, limit: int = 10, sites: list[str] | None = None)"
    assert found.__annotations__ == {"query": str, "limit": int, "sites": list[str] | None}
    assert found.__doc__.startswith("Search the web.\n\nArgs:\n    query (str): What to look for.")
    assert found("x", limit=3) == [{"query": "x", "limit": 3, "sites": None}]
    assert (
        "managed agent"
        in next(f for f in tract.toolset("supervisor").callables() if f.__name__ == "log").__doc__
    )


def test_functions_have_names_that_python_and_providers_allow(tract, add):
    def f(x: int) -> int:
        return x

    for name in ("get-data", "größe", "import"):
        add(f, name, traits=Traits(read_only=True))
    functions = {function.__name__: function for function in tract.toolset().callables()}
    assert functions["get_data"](1) == functions["gr__e"](1) == functions["import_"](x=1) == 1


def test_functions_raise_and_are_a_models_calls(tract, search):
    functions = {function.__name__: function for function in tract.toolset().callables()}
    with pytest.raises(ToolExecutionError, match="'query' is missing"):
        functions["web_search"]()
    with pytest.raises(ToolDeniedError, match="no user is available"):
        functions["branch"]("b")
    (stored,) = tract.review.inbox()
    assert stored.actor == "agent"
    mine = {function.__name__: function for function in tract.toolset(actor="user").callables()}
    assert mine["branch"]("b")["branch"] == "b"
