"""The instructions about scripts for a model: correct, and within their limit."""

from __future__ import annotations

import ast

import pytest

from tract_jupyter.context import default_counter
from tract_jupyter.exceptions import ContentError
from tract_jupyter.prompts import SCRIPTS, SEARCH
from tract_jupyter.toolkit import CODE_MODE, ToolDefinition


def signatures(text):
    return ast.parse(text.partition("```python\n")[2].partition("```")[0])


def names(text):
    return {node.name for node in signatures(text).body if isinstance(node, ast.FunctionDef)}


def test_the_instructions_list_all_tools_if_there_is_room(tract, search):
    text = tract.scripts.get_system_instructions(max_tokens=20_000)
    assert text.startswith(SCRIPTS + SEARCH)
    assert names(text) == set(tract.executor.tools()) - set(CODE_MODE)
    assert "query: What to look for." in text


def test_a_profile_leaves_tools_out(tract):
    text = tract.scripts.get_system_instructions(profile="self", max_tokens=20_000)
    assert "gc" not in names(text)
    assert "compress" in names(text)
    assert "tools_search" not in text  # this profile does not have it


@pytest.mark.parametrize("most", [700, 1_000, 1_500, 2_500, 5_000])
def test_the_instructions_respect_the_token_limit(tract, most):
    text = tract.scripts.get_system_instructions(max_tokens=most)
    assert default_counter().count_text(text) <= most
    shown = names(text)
    assert shown
    left_out = len(set(tract.executor.tools()) - set(CODE_MODE) - shown)
    assert f"and {left_out} more: tools_search finds them" in text or not left_out


@pytest.mark.parametrize("most", [700, 1_500])
def test_tools_without_room_are_named_if_the_profile_has_no_search(tract, most):
    text = tract.scripts.get_system_instructions(profile="self", max_tokens=most)
    left_out = {name for name in tract.toolset("self").tools() if name not in CODE_MODE} - names(text)
    assert left_out
    assert all(name in text for name in left_out)


@pytest.fixture
def many(tract):
    """200 tools, as on some servers."""

    def do(n: int, of: str = "") -> list[dict[str, str]]:
        """Do something."""
        return []

    subjects = ("weather", "invoices", "mails", "tickets")
    for number in range(200):
        about = subjects[number % 4]
        tract.tool(do, name=f"step_{number}", description=f"Look after the {about} of customer {number}.")
    return tract


def test_with_200_tools_the_instructions_fit_and_each_listed_tool_has_a_description(many):
    text = many.scripts.get_system_instructions()
    assert default_counter().count_text(text) <= 1_500
    functions = signatures(text).body[1:]
    assert len(functions) >= 8
    assert all(ast.get_docstring(node) for node in functions)


def test_those_come_that_were_asked_for_and_used(many):
    text = many.scripts.get_system_instructions(query="Which invoices are open?")
    assert {int(name.removeprefix("step_")) % 4 for name in names(text)} == {1}
    for _ in range(3):
        many.tools.step_198(n=1)
    assert "step_198" in names(many.scripts.get_system_instructions(query="Which invoices are open?"))
    assert "step_198" in names(many.scripts.get_system_instructions())


def test_the_same_tools_and_the_same_use_give_the_same_text(many):
    assert many.scripts.get_system_instructions(query="mail") == many.scripts.get_system_instructions(
        query="mail"
    )


def test_a_tool_that_takes_all_the_room_gives_way(tract, search):
    tract.tool(search.handler, name="talker", description="whales " * 500)
    wide = {f"field_{n}": {"type": "string", "enum": ["x" * 40, "y" * 40]} for n in range(200)}
    tract.executor.add(
        ToolDefinition.from_schema("wide", "whales", {"type": "object", "properties": wide}, search.handler)
    )
    shown = names(tract.scripts.get_system_instructions(query="whales"))
    assert {"talker", "web_search"} <= shown
    assert "wide" not in shown


def test_a_query_is_a_text(tract):
    with pytest.raises(ContentError, match="query"):
        tract.scripts.get_system_instructions(query=3)


def test_a_bound_that_is_too_narrow(tract):
    with pytest.raises(ContentError, match="at least"):
        tract.scripts.get_system_instructions(max_tokens=10)


def test_the_example_runs(tract):
    tract.user("a question")
    rows = SCRIPTS.partition("Python:\n")[2].partition("- The user may")[0]
    code = "\n".join(line[4:] for line in rows.splitlines())
    result = tract.scripts.run(code, backend="sandbox")
    assert result.stdout == "1 ['dialogue']\n"
