"""The formats of tool definitions, and the tool names that providers allow."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tract_jupyter.exceptions import ContentError
from tract_jupyter.toolkit import Traits, provider_names

ALLOWED = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def test_the_shape_of_mcp(tract, search):
    (shown,) = (tool for tool in tract.as_tools(format="mcp") if tool["name"] == "web_search")
    assert shown == {
        "name": "web_search",
        "description": "Search the web.",
        "inputSchema": search.parameters.json_schema,
        "annotations": {"readOnlyHint": True, "destructiveHint": False, "openWorldHint": True},
    }


def test_the_official_library_takes_the_shape_of_mcp(tract, spec):
    types = pytest.importorskip("mcp.types")
    tract.register_operation(spec())
    for tool in tract.as_tools("full", format="mcp"):
        read = types.Tool.model_validate(tool)
        assert read.model_dump(by_alias=True, exclude_none=True)["annotations"] == tool["annotations"]


def test_strict_mode_is_openais(tract, search):
    (shown,) = (tool for tool in tract.as_tools(strict=True) if tool["function"]["name"] == "web_search")
    assert (shown["type"], shown["function"]["strict"]) == ("function", True)
    for name in ("anthropic", "mcp"):
        with pytest.raises(ContentError, match="has no strict mode"):
            tract.as_tools(format=name, strict=True)


@pytest.mark.parametrize("name", ["OpenAI", "", None, 3])
def test_an_unknown_format(tract, name):
    with pytest.raises(ContentError, match="format must be 'openai' or 'anthropic' or 'mcp'"):
        tract.as_tools(format=name)


@pytest.mark.parametrize("shape", ["openai", "anthropic", "mcp"])
def test_tool_names_are_valid_for_providers_and_can_be_called(tract, add, shape):
    def f(x: int) -> int:
        return x

    given = ["files.read", "größe", "get-data", "x" * 70, "日本", "日本語", "a/b"]
    for name in given:
        add(f, name, traits=Traits(read_only=True))
    shown = [tool.get("function", tool)["name"] for tool in tract.as_tools("full", format=shape)]
    assert len(set(shown)) == len(tract.executor.tools())
    assert all(ALLOWED.fullmatch(name) for name in shown)
    assert {"files_read", "get-data", "a_b", "commit"} <= set(shown)
    mapped = {name: short for short, name in provider_names(tract.executor.tools()).items()}
    for name in given:
        assert tract.executor.execute(mapped[name], {"x": 3}, actor="agent:1").output == 3
        assert tract.toolset().call(mapped[name], {"x": 3}) == 3


def test_a_tool_is_locked_whatever_name_is_used(tract, add):
    def f():
        return 1

    add(f, "files.read")
    tract.executor.lock_tool("files_read", "busy")
    assert tract.executor.locks == {"files.read": "busy"}
    for name in ("files.read", "files_read"):
        assert tract.executor.execute(name, {}).denied


@given(st.lists(st.text(max_size=70), unique=True))
def test_no_two_tools_come_to_one_name(names):
    mapped = provider_names(names)
    assert sorted(mapped.values()) == sorted(names)
    assert all(ALLOWED.fullmatch(short) for short in mapped)
    assert all(mapped[name] == name for name in names if ALLOWED.fullmatch(name) and name.strip("_"))


def test_a_tool_that_comes_later_takes_no_name_over():
    def tool_called(short, names):
        return provider_names(names).get(short)

    suffixed = next(short for short, name in provider_names(["a_b.c", "a.b_c"]).items() if name == "a_b.c")
    assert tool_called("a_b_c", ["a_b.c"]) == "a_b.c"
    assert tool_called("a_b_c", ["a.b_c", "a_b.c"]) is None
    # also not by a name that looks like one with a suffix
    crafted = f"a.{suffixed.removeprefix('a_')}"
    assert tool_called(suffixed, [crafted, "a_b.c", "a.b_c"]) is None
    assert len(provider_names([crafted, "a_b.c", "a.b_c"])) == 3
    assert tool_called("a_b_c", ["a.b_c", "a_b_c", "a_b.c"]) == "a_b_c"
