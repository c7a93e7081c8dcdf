"""`tools`: an up-to-date module of functions with signatures, docstrings and annotations."""

from __future__ import annotations

import inspect
import keyword
import sys
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tract_jupyter.exceptions import OperationExistsError, ToolExecutionError
from tract_jupyter.toolkit import HELPERS, ToolBridge, ToolsModule, python_name, python_names


def test_a_stub_is_an_ordinary_function(tract, search):
    stub = tract.tools.web_search
    assert isinstance(stub, types.FunctionType)
    assert (stub.__name__, stub.__qualname__, stub.__module__) == ("web_search", "web_search", "tools")
    assert str(inspect.signature(stub)) == "(query: str, limit: int = 10, sites: list[str] | None = None)"
    assert stub.__annotations__ == {"query": str, "limit": int, "sites": list[str] | None}
    assert tract.tools.web_search is stub


def test_the_docstring_says_everything(tract, search):
    assert inspect.getdoc(tract.tools.web_search) == (
        "Search the web.\n"
        "\n"
        "Args:\n"
        "    query (str): What to look for.\n"
        "    limit (int): How many. Default: 10.\n"
        "    sites (list[str] | None): Where.\n"
        "\n"
        "Raises:\n"
        "    ToolExecutionError: the call failed or was denied."
    )


def test_every_tool_has_a_stub_with_a_docstring_and_a_signature(tract, spec):
    tract.register_operation(spec())
    for name, tool in tract.executor.tools().items():
        stub = getattr(tract.tools, name)
        assert list(inspect.signature(stub).parameters) == list(tool.parameters.names)
        assert stub.__doc__.startswith(tool.description)


def test_calls_by_position_and_by_name(tract, search):
    expected = [{"query": "a", "limit": 3, "sites": None}]
    tools = tract.tools
    assert (
        tools.web_search("a", 3)
        == tools.web_search("a", limit=3)
        == tools.web_search(limit=3, query="a")
        == expected
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda f: f(), "'query' is missing (str)"),
        (lambda f: f("a", 1, None, 4), "at most 3 by position (query, limit, sites), got 4"),
        (lambda f: f("a", query="b"), "got 'query' twice"),
        (lambda f: f("a", limt=3), "'limt' is unknown. Did you mean 'limit'?"),
        (lambda f: f("a", limit="3"), "'limit' should be a valid integer, got '3' (str)"),
        (lambda f: f("a", limit=True), "'limit' should be a valid integer, got True (bool)"),
        (lambda f: f("a", sites=["x", 1]), "'sites'[1] should be a valid string"),
        (lambda f: f(query=1, limit="x"), "'query' should be a valid string, got 1 (int); 'limit' should"),
    ],
)
def test_a_call_that_does_not_fit_is_refused(tract, search, call, words):
    with pytest.raises(ToolExecutionError) as caught:
        call(tract.tools.web_search)
    assert words in str(caught.value)
    assert caught.value.tool == "web_search"


def test_no_arguments_at_all(tract, add):
    def nothing():
        """Do nothing."""
        return "done"

    add(nothing)
    assert tract.tools.nothing() == "done"
    assert "Args" not in tract.tools.nothing.__doc__
    with pytest.raises(ToolExecutionError, match="at most 0"):
        tract.tools.nothing(1)


def test_parameters_may_have_any_name(tract, add):
    def odd(self: int, args: int, kwargs: int, name: int, tool: int, arguments: int, actor: int) -> int:
        return self + args + kwargs + name + tool + arguments + actor

    add(odd)
    assert tract.tools.odd(self=1, args=2, kwargs=3, name=4, tool=5, arguments=6, actor=7) == 28
    assert tract.tools.odd(1, 2, 3, 4, 5, 6, 7) == 28


# --- updates


def test_activating_adds_and_unregistering_removes(tract, spec):
    tools = tract.tools
    assert not hasattr(tools, "fire_citation_check")
    tract.register_operation(spec())
    assert "fire_citation_check" in dir(tools)
    stub = tools.fire_citation_check
    assert stub(["u"])["fields"] == {"urls": ["u"], "verified": False}
    tract.unregister_operation("citation_check")
    assert "fire_citation_check" not in dir(tools)
    assert not hasattr(tools, "fire_citation_check")
    with pytest.raises(ToolExecutionError, match="no tool 'fire_citation_check'"):
        stub(["u"])


def test_a_new_tool_version_has_a_new_stub_and_the_old_stub_calls_it_too(tract, spec):
    tract.register_operation(spec())
    old = tract.tools.fire_citation_check
    tract.unregister_operation("citation_check")
    tract.register_operation(spec(fields={"n": {"type": "int"}}))
    assert list(inspect.signature(tract.tools.fire_citation_check).parameters) == ["n"]
    assert old(n=3)["fields"] == {"n": 3}


def test_dir_lists_all_tools_and_helpers(tract, search):
    assert dir(tract.tools) == sorted({*tract.executor.tools(), *HELPERS})
    assert "web_search" in repr(tract.tools)


def test_list_tools_gives_python_names_and_first_lines(tract, search):
    listed = tract.tools.list_tools()
    assert listed["web_search"] == "Search the web."
    assert set(listed) == set(tract.executor.tools())


def test_an_unknown_tool_is_answered_with_the_nearest_name(tract, search):
    with pytest.raises(AttributeError, match="no tool 'web_serch'. Did you mean 'web_search'"):
        _ = tract.tools.web_serch
    with pytest.raises(AttributeError):
        _ = tract.tools.__wrapped__


def test_setting_and_deleting_are_refused(tract, search):
    with pytest.raises(AttributeError, match="cannot be set"):
        tract.tools.web_search = print
    with pytest.raises(AttributeError, match="cannot be set"):
        tract.tools.new = print
    with pytest.raises(AttributeError, match="cannot be deleted"):
        del tract.tools.web_search
    assert tract.tools.web_search("a")


def test_tools_is_a_module_object_that_cannot_be_imported(tract):
    assert isinstance(tract.tools, types.ModuleType)
    assert "tools" not in sys.modules
    assert ToolsModule(ToolBridge(tract.executor), "other").__name__ == "other"


# --- names


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("web_search", "web_search"), ("web-search", "web_search"), ("mcp.files/read", "mcp_files_read"), ("import", "import_"),
        ("None", "None_"), ("2fa", "_2fa"), ("", "_"), ("größe", "größe"), ("a b", "a_b"), ("__dict__", "tool__dict__"),
        ("\ufb01re", "fire"), ("x\0y", "x_y"), ("match", "match"), ("print", "print"), ("℘", "℘"),
    ],
)  # fmt: skip
def test_python_name(name, expected):
    assert python_name(name) == expected


@given(st.text())
def test_a_python_name_can_be_written_in_code(name):
    made = python_name(name)
    assert made.isidentifier()
    assert not keyword.iskeyword(made)
    assert not (made.startswith("__") and made.endswith("__"))
    assert python_name(made) == made
    namespace: dict[str, int] = {}
    exec(f"{made} = 1", namespace)
    assert made in namespace


def test_the_module_itself_takes_no_name_of_a_tool(tract, add):
    def f() -> int:
        return 1

    for name in ("_bridge", "_helpers", "_space", "_stubs", "find", "names", "functions"):
        add(f, name)
        assert getattr(tract.tools, name)() == 1


def test_tools_with_invalid_identifiers_get_valid_names(tract, add):
    def f(x: int) -> int:
        return x

    for name in ("get-data", "import", "2fa"):
        add(f, name)
    assert tract.tools.get_data(1) == tract.tools.import_(1) == tract.tools._2fa(1) == 1
    assert tract.tools.get_data.__name__ == "get_data"
    assert tract.executor.execute("get-data", {"x": 1}).output == 1
    assert [record.tool for record in tract.tools.call_log] == ["get-data", "import", "2fa"]


def test_collisions_are_refused_when_the_tool_is_added(tract, add):
    def f():
        pass

    add(f, "get-data")
    before = dir(tract.tools)
    for name in ("get_data", "get.data", "get-data", "commit"):
        with pytest.raises(OperationExistsError):
            add(f, name)
    assert dir(tract.tools) == before


def test_a_tool_cannot_take_the_name_of_an_operations_tool(tract, add, spec):
    def f():
        pass

    for name in ("fire_x", "fire-citation_check"):
        with pytest.raises(OperationExistsError, match="fire_"):
            add(f, name)
    tract.register_operation(spec())
    assert tract.tools.fire_citation_check([])["status"] == "approved"


def test_python_names_refuses_a_collision():
    with pytest.raises(OperationExistsError, match="'a-b' and 'a.b' would both be called 'a_b'"):
        python_names(["a-b", "a.b"])


@pytest.mark.parametrize("name", ["list_tools", "stub_source", "call_log", "savings"])
def test_a_tool_wins_over_the_helper_of_the_same_name(tract, add, name):
    def f():
        """Mine."""
        return "mine"

    _ = getattr(tract.tools, name)
    add(f, name)
    assert getattr(tract.tools, name)() == "mine"
    assert dir(tract.tools).count(name) == 1


def test_a_private_looking_tool_is_reachable(tract, add):
    def f():
        return 1

    add(f, "__hidden")
    assert getattr(tract.tools, "__hidden")() == 1
