"""`tract` and `tools` in a cell, `%tract` and `%tract tools`: the state of the context, and the tools."""

from decimal import Decimal

import pytest

from tests.review.scripted import ScriptedClient
from tract_jupyter import ActionDef, OperationSpec, Tract
from tract_jupyter.models import TokenBudget

GO = ActionDef("go", "Do it.", {}, "pending.approve()")
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def tract(shell):
    tract = shell.namespace["tract"]
    tract.user("Hello there")
    return tract


def test_nothing_is_opened_by_showing_the_names(shell, tmp_path):
    assert "not opened yet" in shell.run("tract").text
    assert "one function for each tool" in shell.run("tools").text
    assert not (tmp_path / ".tract").exists()


def test_a_tract_is_shown_at_a_glance(shell, tract):
    tract.budget = TokenBudget(max_tokens=100)
    tract.branch("aside")
    tract.register_operation(OperationSpec("deploy", "Deploy it.", {}, {"go": GO}))
    tract.fire("deploy", review=True)
    result = shell.run("display(tract)")
    for told in ("aside at ", "1 commit, 1 message", "of 100 tokens", "deploy", "none yet: %tract model"):
        assert told in result.html
        assert told in result.text
    assert "1 request waits for you" in result.html
    assert "Waiting for a decision: 1 (%tract inbox)" in result.text
    assert "Other branches: main" in result.text
    assert 'class="bar"' in result.html
    assert "(approximate)" not in result.html  # the sign before the number shows this
    assert shell.run("%tract").html == result.html
    assert shell.run("tract").ok  # the display decided and changed nothing
    assert tract.status().waiting == 1


def test_a_full_budget_is_marked(shell, tract):
    tract.budget = TokenBudget(max_tokens=1, action="warn")
    assert 'class="bar spent"' in shell.run("display(tract)").html


def test_the_overview_shows_the_model_and_its_cost(shell, tract):
    tract.configure_llm(ScriptedClient("Yes."))
    tract.costs.set_budget(usd=Decimal(2))
    tract.models.price("your ScriptedClient", input=1, output=1)
    tract.chat("Well?")
    text = shell.run("tract").text
    assert "your ScriptedClient" in text
    assert "of 2.00 USD" in text


def test_another_tract_has_an_overview_and_a_closed_tract_has_its_repr(shell):
    with Tract.open() as own:
        shell.namespace["own"] = own
        assert "tract-overview" in shell.run("display(own)").html
        assert "main, empty" in shell.run("own").text
    assert repr(own) in shell.run("own").text


def test_tools_are_grouped_by_their_origin(shell, tract):
    tract.register_operation(OperationSpec("deploy", f"Deploy it. {HOSTILE}", {}, {"go": GO}))

    @tract.tool(read_only=True)
    def word_count(text: str) -> int:
        """Count the words of a text."""
        return len(text.split())

    result = shell.run("display(tools)")
    for told in (
        "Operations",
        "Yours",
        "Built in",
        "fire_deploy",
        "word_count",
        "Count the words of a text.",
    ):
        assert told in result.html
        assert told in result.text
    assert HOSTILE not in result.html
    assert "tools.word_count(text: str)" in result.text
    assert shell.run("%tract tools").html == result.html
    shell.namespace["other"] = tract.tools
    assert shell.run("display(other)").html == result.html


def test_tools_are_found_by_words(shell, tract):
    found = shell.run("%tract tools merge branch")
    assert "tools.merge(" in found.text
    assert "tools.untag(" not in found.text
    assert "about merge branch" in found.html
    refused = shell.run("%tract tools nosuchthing")
    assert "no tool has 'nosuchthing' in its name or description; %tract tools lists all" in refused.error


def test_a_locked_tool_says_so(shell, tract):
    tract.executor.lock_tool("merge", reason="not today")
    assert "writes, locked" in shell.run("%tract tools merge").html
