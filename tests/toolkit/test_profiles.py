"""Profiles: their tools and descriptions."""

from __future__ import annotations

import re

import pytest

from tract_jupyter import OrchestratorConfig
from tract_jupyter.context import default_counter
from tract_jupyter.exceptions import ContentError
from tract_jupyter.prompts import SELF, SUPERVISOR
from tract_jupyter.toolkit import AGENT_TOOLS, CODE_MODE, DISCOVERY, ToolConfig, ToolProfile, get_profile

OWN = {
    "commit", "compile", "annotate", "status", "log", "compress", "branch", "switch", "reset", "tag", "untag",
    "query_by_tags", "register_tag", "get_tags", "list_tags", "configure_model",
    "notebook_execute", "notebook_create", "notebook_variables", "notebook_reset", "notebook_list",
}  # fmt: skip


def own_words(tract):
    """Return each tool's own description, which the profile `full` uses."""
    return {name: tool.description for name, tool in tract.executor.tools().items()}


def names(tract, profile):
    return {tool["name"] for tool in tract.as_tools(profile, format="anthropic")}


def test_which_tools_each_has(tract):
    every = set(tract.executor.tools())
    assert names(tract, "self") == OWN
    assert names(tract, "supervisor") == every - {
        *DISCOVERY,
        *AGENT_TOOLS,
        "read_result",
    }  # the loop adds this tool to each profile
    assert names(tract, "agents") == OWN | set(AGENT_TOOLS)
    assert names(tract, "full") == names(tract, get_profile("full")) == every
    assert names(tract, "code") == set(CODE_MODE)


SUPERVISORS = {
    "rebase", "archive", "cherry_pick", "child_status", "register_policy", "unregister_policy", "toggle_policy",
}  # fmt: skip


def test_the_default_profile_of_a_model_is_self(tract):
    shown = {tool["name"] for tool in tract.as_tools(format="anthropic")}
    assert shown == set(tract.toolset().tools()) == OWN
    assert tract.toolset().profile.name == OrchestratorConfig().profile == "self"
    assert names(tract, "supervisor") - OWN >= SUPERVISORS
    for name in SUPERVISORS:
        refused = tract.toolset().execute(name, {})
        assert refused.denied, name
        assert "in the profile 'self'" in refused.error
        assert callable(getattr(tract.tools, name))  # the user has all tools


def test_the_users_tools_and_operations_belong_to_every_built_in_one(tract, search, spec):
    tract.register_operation(spec())
    for name in ("self", "supervisor", "full"):
        assert {"web_search", "fire_citation_check"} <= names(tract, name)


@pytest.mark.parametrize("name", ["self", "supervisor", "full"])
def test_each_describes_in_its_own_words(tract, name):
    described = {"self": SELF, "supervisor": SUPERVISOR, "full": own_words(tract)}[name]
    shown = {tool["name"]: tool["description"] for tool in tract.as_tools(name, format="anthropic")}
    assert shown == described


def test_descriptions_say_whose_context_a_tool_changes(tract):
    full = {name: text for name, text in own_words(tract).items() if name not in AGENT_TOOLS}
    assert all("your" in text or "you " in text for text in SELF.values())
    assert all("agent" in text for text in SUPERVISOR.values())
    assert not any(re.search(r"\bagent|\byour", text) for text in full.values())
    texts = [*SELF.values(), *SUPERVISOR.values(), *full.values()]
    assert len(set(texts)) == len(texts)
    assert all(text.endswith(".") and "\n" not in text and len(text) < 350 for text in texts)


def test_a_models_tools_take_few_tokens(tract):
    count = default_counter().count_text
    for name, most in {"self": 850, "supervisor": 1_300, "agents": 1_200, "full": 1_700, "code": 200}.items():
        assert sum(count(text) for text in own_words(tract).values()) > 300
        assert sum(count(tool["description"]) for tool in tract.as_tools(name, format="anthropic")) <= most


@pytest.mark.parametrize("name", ["sel", "", None, 3, [], "Full"])
def test_an_unknown_profile(name):
    with pytest.raises(ContentError, match="There are 'self', 'supervisor', 'agents', 'full', 'code'"):
        get_profile(name)


def test_in_code_mode_shown_tools_and_callable_tools_differ(tract, search):
    reading = ToolProfile(
        "reading", {"log": ToolConfig(), "web_search": ToolConfig(description="Look it up.")}
    )
    assert reading.in_code is reading
    in_code = reading.as_code_mode()
    assert names(tract, in_code) == set(CODE_MODE)
    tools = tract.executor.tools().values()
    callable_there = {tool.name: tool.description for tool in in_code.in_code.filter_tools(tools)}
    assert set(callable_there) == {"log", "web_search", *DISCOVERY}
    assert callable_there["web_search"] == "Look it up."
    assert in_code.as_code_mode().in_code == in_code.in_code


def test_the_profile_of_scripts_is_a_profile():
    with pytest.raises(ContentError, match="callable_from_code must be a ToolProfile"):
        ToolProfile("mine", {}, callable_from_code="full")


def test_an_unknown_profile_is_answered_with_the_nearest(tract):
    with pytest.raises(ContentError, match="no profile 'supervise'. Did you mean 'supervisor'"):
        tract.as_tools("supervise")
    with pytest.raises(ContentError, match="or a ToolProfile, not 3"):
        tract.toolset(3)


def test_a_custom_profile_has_only_its_named_tools(tract, search):
    mine = ToolProfile(
        "mine",
        {
            "log": ToolConfig(),
            "status": ToolConfig(description="How full it is."),
            "gc": ToolConfig(enabled=False),
            "nothing": ToolConfig(),
        },
    )
    shown = {tool["name"]: tool["description"] for tool in tract.as_tools(mine, format="anthropic")}
    assert shown == {"log": own_words(tract)["log"], "status": "How full it is."}
    assert (
        names(tract, ToolProfile("others", {"web_search": ToolConfig(enabled=False)}, has_others=True))
        == set()
    )
    assert names(tract, ToolProfile("others", {}, has_others=True)) == {"web_search"}


def test_filtering_keeps_the_order_and_changes_no_tool(tract):
    tools, before = list(tract.executor.tools().values()), own_words(tract)
    found = get_profile("self").filter_tools(tools)
    assert [tool.name for tool in found] == [tool.name for tool in tools if tool.name in OWN]
    assert own_words(tract) == before


def test_a_profile_is_checked_when_it_is_made():
    with pytest.raises(ContentError, match="'log' needs a ToolConfig"):
        ToolProfile("mine", {"log": "What happened."})
