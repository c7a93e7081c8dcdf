"""The list of tools stays unchanged during a conversation. Messages report changes of the tools."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.loop.enforcing import Messages, Responses, enforcing
from tract_jupyter import Tract
from tract_jupyter.runs import RewriteWarning
from tract_jupyter.toolkit import ToolConfig, ToolProfile

ROOT = Path(__file__).parents[2]
TOLD = "Your tools have changed"
SOLD = "sold out"


@pytest.fixture(params=[Messages, Responses], ids=["messages", "responses"])
def there(request):
    with enforcing(request.param) as there:
        yield there
        assert not sum(there.wrong)


def define(tract, description="Look outside."):
    """Define `look`, with parameters that are not in alphabetical order, and `smell`."""

    def look(street: str = "", city: str = "", *, at: str = "noon") -> str:
        return f"sunny in {city}"

    look.__doc__ = description
    tract.tool(look, read_only=True)

    def smell(city: str) -> str:
        """Smell a city."""
        return "pizza"

    tract.tool(smell, read_only=True)


@pytest.fixture
def talk(tract, there):
    """A tract with two user messages and two answers."""
    define(tract)
    tract.loop.tools = "self"
    tract.configure_llm(there.client())
    tract.chat("One?")
    tract.chat("Two?")
    return tract


def add(tract):
    def taste(dish: str) -> str:
        """Taste a dish."""
        return "salty"

    tract.tool(taste, read_only=True)


def lists(there):
    """The tool lists of all requests, byte by byte."""
    return [json.dumps(body["tools"]) for body in there.bodies]


def news(tract):
    return [
        one.content
        for one in tract.compile().messages
        if one.role == "system" and one.content.startswith(TOLD)
    ]


CHANGES = {
    "added": (add, ['"name": "taste", "parameters"', "Taste a dish.", "New, and not in that list", "t.loop.offer_current_tools()"]),
    "removed": (lambda tract: tract.executor.remove_tool("look"), ["- look: removed"]),
    "locked": (lambda tract: tract.executor.lock_tool("look", SOLD), [f"- look: locked: {SOLD}"]),
    "changed": (lambda tract: define(tract, "Look up."), ["These have new definitions", '"description": "Look up."']),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_tool_change_keeps_list_and_reasoning_and_is_reported_once(talk, there, change):
    make, words = CHANGES[change]
    make(talk)
    talk.chat("Three?")
    talk.chat("call look")
    talk.chat("Four?")
    assert len(set(lists(there))) == 1
    assert there.kept == [0, 1, 2, 3, 4, 5]
    (text,) = news(talk)
    assert [word for word in words if word not in text] == []


def test_a_tool_change_is_reported_right_before_the_next_user_message(talk):
    add(talk)
    talk.chat("Three?")
    assert [one.role for one in talk.compile().messages][-3:] == ["system", "user", "assistant"]


def test_a_call_of_a_removed_or_locked_tool_gets_the_reason(talk, there):
    talk.executor.remove_tool("smell")
    talk.executor.lock_tool("look", SOLD)
    talk.chat("call look")
    talk.chat("call smell")
    answers = [one.content for one in talk.compile().messages if one.role == "tool"]
    assert [SOLD in answers[0], "the tool 'smell' was removed" in answers[1]] == [True, True]
    assert len(set(lists(there))) == 1


def test_a_tool_that_is_available_again_is_reported(talk, there):
    talk.executor.lock_tool("look", SOLD)
    talk.chat("Three?")
    talk.executor.unlock_tool("look")
    add(talk)
    talk.chat("Four?")
    talk.executor.remove_tool("taste")
    talk.chat("Five?")
    assert ["- look" in text for text in news(talk)] == [True, True, False]
    assert "These are available again, as in the list:\n- look" in news(talk)[1]
    assert "- taste: removed" in news(talk)[2]
    assert there.kept == [0, 1, 2, 3, 4]


def test_a_change_reverted_before_the_next_message_is_not_reported(talk):
    talk.executor.lock_tool("look")
    talk.executor.unlock_tool("look")
    talk.chat("Three?")
    assert news(talk) == []


def test_a_tool_change_is_reported_again_after_its_report_is_undone(talk):
    head = talk.head
    talk.executor.lock_tool("look")
    talk.chat("Three?")
    talk.reset(head)
    talk.chat("Three!")
    assert len(news(talk)) == 1


CHILD = """
import sys
from tests.loop.test_offered import define
from tract_jupyter import Tract, {client}

with Tract.open(sys.argv[1]) as tract:
    define(tract)
    tract.loop.tools = "self"
    tract.configure_llm({client}({model!r}, base_url={url!r}, api_key="k"))
    tract.chat("One?")
    tract.chat("call look")
"""


@pytest.mark.slow
def test_another_process_continues_with_the_same_tool_list(tmp_path, there):
    path, dialect = tmp_path / "talk.db", there.dialect
    code = CHILD.format(
        client=dialect.client.__name__, model=dialect.models[0], url=dialect.address(there.root)
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, capture_output=True, cwd=ROOT)
    for description in ("Look up.", "Look up.", "Look outside."):
        with Tract.open(path) as tract:
            add(tract)
            define(tract, description)
            tract.loop.tools = "self"
            tract.configure_llm(there.client())
            tract.chat("Two?")
            told = news(tract)
    assert len(set(lists(there))) == 1
    assert there.kept == [0, 1, 2, 3, 4, 5]
    assert ["Look up." in told[0], "taste" in told[0], len(told)] == [True, True, 2]
    assert told[1].endswith("as in the list:\n- look")


def test_the_user_can_rebuild_the_tool_list(talk, there):
    add(talk)
    talk.executor.remove_tool("look")
    talk.chat("Three?")
    assert talk.costs.of_rewrite().replies == 3
    talk.loop.offer_current_tools()
    talk.chat("Four?")
    talk.chat("call taste")
    assert [("taste" in one, '"look"' in one) for one in lists(there)[2:]] == [
        (False, True),
        *[(True, False)] * 3,
    ]
    assert there.kept == [0, 1, 2, 0, 1, 2]
    assert len(news(talk)) == 1


def test_each_tool_profile_has_its_own_list(talk, there):
    only = ToolProfile("only", {"smell": ToolConfig()})
    talk.chat("Three?", tools=only)
    add(talk)
    talk.chat("Four?")
    talk.chat("Five?", tools=only)
    first, other = lists(there)[0], lists(there)[2]
    assert lists(there) == [first, first, other, first, other]
    assert first != other
    assert there.kept[-2:] == [2, 1]
    assert len(news(talk)) == 1  # tools that are missing in the other profile are not reported there


def test_after_a_full_compression_the_current_tool_list_is_sent(talk, there):
    add(talk)
    with pytest.warns(RewriteWarning):
        talk.compress(content="They talked.")
    talk.chat("Three?")
    assert "taste" in lists(there)[-1]
    assert news(talk) == []


def test_in_code_mode_new_tools_are_reported_as_callable_from_scripts(tract, there):
    define(tract)
    tract.configure_llm(there.client())
    tract.chat("One?", tools="full")
    add(tract)
    tract.chat("Two?", tools="full")
    assert "call them from scripts, with notebook_execute" in news(tract)[0]
    assert there.kept == [0, 1]


def test_runs_and_the_inbox_do_not_change_the_tool_list(talk, there):
    define(talk, "Look up.")
    talk.chat("call look", on_event=lambda event: None)
    talk.chat("Four?")
    assert len(set(lists(there))) == 1
    assert len(news(talk)) == 1


def test_a_tool_that_changes_the_tools_leaves_the_list_of_its_turn(talk, there):
    def lock(city: str) -> str:
        """Lock a tool."""
        talk.executor.lock_tool("look", SOLD)
        return "done"

    talk.tool(lock, read_only=True)
    talk.loop.offer_current_tools()
    talk.chat("call lock")
    talk.chat("call look")
    assert len(set(lists(there)[2:])) == 1
    assert SOLD in news(talk)[0]
