"""Finding tools: `tools_search`, `tools_describe`, and the ranking of tools."""

from __future__ import annotations

import ast

import pytest

from tract_jupyter.toolkit import (
    CODE_MODE,
    Permission,
    ToolConfig,
    ToolProfile,
    callable_functions,
    get_profile,
    ranked,
)

WORDS = {
    "get_weather": "Tells the weather in a city.",
    "send_mail": "Sends a mail.",
    "listInvoices": "List the invoices of a customer that are not paid yet.",
    "pay_invoice": "Pay one invoice.",
    "expenses": "Sum up what a person spent in a month.",
    "convert": "Convert an amount from one currency to another.",
}


@pytest.fixture
def many(tract):
    """A few tools among 200 that all say nearly the same."""

    def do(n: int) -> int:
        """Do it."""
        return n

    for name, description in WORDS.items():
        tract.tool(do, name=name, description=description, read_only=True)
    for number in range(200):
        tract.tool(
            do, name=f"step_{number}", description=f"Carry out step {number} of the procedure for a customer."
        )
    return tract


@pytest.fixture
def model(many):
    return many.toolset("code", actor="agent:1")


def found(model, query):
    result = model.execute("tools_search", {"query": query})
    assert result.success, result.error
    return result.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("weather", "get_weather"), ("what is the weather in Rome?", "get_weather"), ("send_mail", "send_mail"),
        ("mails", "send_mail"), ("unpaid invoices of a customer", "listInvoices"), ("list invoices", "listInvoices"),
        ("how much did Ada spend: expense report", "expenses"), ("CURRENCY conversion, dollars to euros", "convert"),
        ("step 117", "step_117"), ("compress the context", "compress"),
    ],
)  # fmt: skip
def test_the_tool_that_is_looked_for_comes_first(model, query, first):
    assert found(model, query)[0].partition(":")[0] == first


def test_at_most_five_names_with_one_line_each(model):
    shown = found(model, "procedure of a customer")
    assert len(shown) == 5
    assert all("\n" not in line and len(line) <= 140 for line in shown)


def test_a_used_tool_comes_first_among_equal_matches(model, many):
    many.tools.step_42(n=1)
    assert found(model, "carry out a step of the procedure")[0].startswith("step_42: ")


@pytest.mark.parametrize("query", ["", "   ", "qqqq", "the of a", "天気", "\0", "?" * 10_000, "x" * 100_000])
def test_a_search_without_matches_is_not_an_error(model, query):
    assert found(model, query) == []


def test_a_long_description_is_one_short_line(tract):
    tract.tool(lambda: 1, name="talker", description="Talk about whales.\n" + "On and on. " * 300)
    (line,) = tract.tools.tools_search(query="whales")
    assert line.startswith("talker: Talk about whales. On and on.")
    assert len(line) <= 130
    assert "\n" not in line


def test_describe_gives_signatures_types_and_argument_descriptions(tract, search):
    text = tract.toolset("code").execute("tools_describe", {"names": ["web_search", "status"]}).output
    functions = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    assert set(functions) == {"web_search", "status"}
    assert "query: What to look for." in text
    assert "sites: list[str] | None = None" in text
    assert "Search the web." in text


def test_one_name_may_stand_alone_and_other_names_lead_there(tract, search):
    one = tract.tools.tools_describe(names="web_search")
    assert one == tract.tools.tools_describe(names=["tools.web_search", "web_search"])
    assert one.startswith("def web_search(") or "\ndef web_search(" in one


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("web_serch", "no tool 'web_serch'. Did you mean 'web_search'? Use tools_search to find tools"),
        (["web_search", "x" * 500], "no tool 'xxxx"),
        ([f"n{number}" for number in range(11)], "too many tools: 11; ask for up to 10"),
        (3, "names"),
        ([3], "names"),
    ],
)
def test_the_error_for_an_invalid_describe_call_gives_the_reason(tract, search, names, words):
    result = tract.toolset("code").execute("tools_describe", {"names": names})
    assert not result.success
    assert words in result.error
    assert len(result.error) < 500


def test_search_finds_only_callable_tools(tract, search):
    tract.executor.lock_tool("gc")
    tract.executor.permission = lambda tool, _: Permission.DENY if tool.name == "merge" else Permission.ALLOW
    found = callable_functions(tract.executor, "agent", get_profile("code"))
    assert not {"gc", "merge", *CODE_MODE} & set(found)
    assert "web_search" in found
    narrow = ToolProfile("narrow", {"log": ToolConfig(description="What happened.")}).as_code_mode()
    assert {
        name: tool.description for name, tool in callable_functions(tract.executor, "agent", narrow).items()
    } == {"log": "What happened."}
    model = tract.toolset(narrow)
    assert model.execute("tools_search", {"query": "happened, web search"}).output == ["log: What happened."]
    assert "no tool 'web_search'" in model.execute("tools_describe", {"names": "web_search"}).error


def test_ranking_goes_by_relevance_and_use(tract, search):
    functions = callable_functions(tract.executor, "user", None)
    assert ranked(functions, {})[0] == "web_search"  # the user's tools come before built-in ones
    assert ranked(functions, {"log": 3, "status": 9})[:2] == ["status", "log"]
    assert ranked(functions, {"compile": 9}, "make a branch")[:2] == ["branch", "compile"]
    assert sorted(ranked(functions, {})) == sorted(functions)
    assert ranked({}, {}, "anything") == []


def test_every_run_of_a_tool_counts_as_use(tract, search):
    tract.tools.web_search(query="x")
    tract.toolset("full").execute("web_search", {"query": "y"})
    tract.toolset("full").execute("web_search", {"quer": "y"})
    assert tract.executor.uses == {"web_search": 2}
