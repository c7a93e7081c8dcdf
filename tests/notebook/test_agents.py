"""Agents in a notebook without a front end: their tree, definitions by cell and by file, and commands."""

from __future__ import annotations

import re
import threading

import pytest

from tests.review.scripted import call, reply
from tract_jupyter.agents import AgentDefinition, file_text
from tract_jupyter.notebook import await_waiting_cells
from tract_jupyter.toolkit import Permission

PAYLOAD = "<img src=x onerror=alert(1)>\x1b[31m\u202eevil"


class Team:
    """A model that chooses its replies by the first word of the task. `boss` replies if there is no task."""

    def __init__(self, **replies):
        self.replies = {name: list(given) for name, given in replies.items()}
        self.asked = []
        self._lock = threading.Lock()

    def chat(self, messages, **_options):
        told = [one["content"] for one in messages if one["role"] == "system"]
        with self._lock:
            self.asked.append(messages)
            given = self.replies[told[0].split()[0] if told else "boss"].pop(0)
        if isinstance(given, Exception):
            raise given
        return reply(given) if isinstance(given, str) else given


@pytest.fixture
def team(shell):
    """A function that gives the shell's tract one model for several agents."""

    def use(**replies):
        made = Team(**replies)
        tract = shell.namespace["tract"]
        tract.models.use(made)

        @tract.tool(read_only=True)
        def look(text: str) -> str:
            """Look something up."""
            return text * 2

        @tract.tool
        def write(text: str) -> str:
            """Write something down."""
            return text

        return made

    return use


def calls_agents(*named):
    return reply(
        None, *(call("agent_call", {"agent": name, "input": f"go, {name}"}, f"c{name}") for name in named)
    )


# --- the tree


def test_without_agents_it_says_how_to_define_one(shell):
    assert "No agents yet: %%tract_agent NAME defines one" in shell.run("%tract agents").text


def test_the_tree_shows_usage_rest_of_budget_and_conversation_of_each_agent(shell, team):
    team(One=[reply(None, call("look", {"text": "ab"})), "It is abab."])
    shell.run("%%tract_agent one --tools look --budget steps=5 --description 'Looks.'\nOne looks.")
    shell.run("%%tract_agent two\nTwo idles.")
    shell.run("tools.agents.one('ab?')")
    shown = shell.run("%tract agents")
    assert "2 agents · 24 tokens" in shown.text
    assert "one v1  answered: It is abab.  24 tokens · 1 call · 3 of 5 requests left" in shown.text
    assert "two v1  ready" in shown.text
    assert "abab" in shown.html
    assert "data-turn=" in shown.html
    assert "<script" not in shown.html
    assert "<button" not in shown.html


def test_an_agent_created_by_an_agent_is_shown_below_it(shell, team):
    team(
        Boss=[
            reply(
                None,
                call("agent_create", {"name": "helper", "instructions": "Helper helps.", "description": "h"}),
            ),
            calls_agents("helper"),
            "Done.",
        ],
        Helper=["Helped."],
    )
    tract = shell.namespace["tract"]
    tract.executor.permission = lambda _tool, _actor: Permission.ALLOW
    shell.run("%%tract_agent boss --toolsets dynamic_agents\nBoss makes others.")
    assert shell.run("tools.agents.boss('build')").ok
    lines = shell.run("%tract agents").text.splitlines()
    assert any(line.startswith("boss v1") for line in lines)
    assert any(line.startswith("  helper v1") for line in lines)


def test_a_retired_one_is_dimmed_and_can_be_read(shell, team):
    team(One=["Done."])
    shell.run("%%tract_agent one\nOne works.")
    shell.run("tools.agents.one('x')")
    assert "Retired one." in shell.run("%tract agents retire one").text
    shown = shell.run("%tract agents")
    assert 'class="row agent dim"' in shown.html
    assert "retired" in shown.text
    assert "Done." in shell.run("%tract agents show one").text


def test_an_agent_with_a_changed_file_is_blocked_until_it_is_adopted(shell, team):
    team(One=["Done."])
    shell.run("%%tract_agent one\nOne works.")
    shell.run("tools.agents.one('x')")
    agent = shell.namespace["tract"].agents.get("one")
    agent.path.write_text(agent.text + " Otherwise.")
    shown = shell.run("%tract agents")
    assert "one v1  blocked: the file one.agent differs from the approved version" in shown.text
    for text in (shown.html, shell.run("%tract agents one").text):
        assert "tract.agents.adopt(" in text
    assert "blocked" in shell.run("tract.agents").text
    assert shell.run(f"tract.agents.adopt({str(agent.path)!r})").ok
    assert "one v2  answered" in shell.run("%tract agents").text


def test_its_page_says_which_model_wrote_it_and_in_which_cell(shell, team):
    made = reply(
        None, call("agent_create", {"name": "one", "instructions": "One works.", "description": "d"}, "c1")
    )
    team(boss=[made | {"model": "m-1"}, "Done."])
    shell.namespace["tract"].executor.permission = lambda _tool, _actor: Permission.ALLOW
    assert shell.run("%%tract_chat --profile agents --direct\nMake one.").ok
    text = shell.run("%tract agents one").text
    assert "Written by: m-1" in text
    assert re.search(r"In cell: In \[\d+\]", text)


def test_the_rows_of_a_turn_describe_changes_of_agents_in_words(shell, team):
    given = {"name": "one", "instructions": "One works.", "description": "d"}
    again = {"agent": "one", "instructions": "One works."}  # this changes nothing
    team(boss=[reply(None, call("agent_create", given, "c1"), call("agent_update", again, "c2")), "Done."])
    shell.namespace["tract"].executor.permission = lambda _tool, _actor: Permission.ALLOW
    shown = shell.run("%%tract_chat --profile agents --direct\nMake one.")
    assert "Created agent one" in shown.text
    assert "Change agent one" in shown.text
    assert "agent_" not in shown.text


def test_the_tree_shows_an_open_request_below_its_agent(shell, team):
    team(One=[reply(None, call("write", {"text": "ab"}))])
    shell.run("%%tract_agent one --tools write\nOne writes.")
    assert not shell.run("tools.agents.one('ab?')").ok  # no user is available here
    shown = shell.run("%tract agents")
    assert re.search("waits: Call tool write; %tract decide [0-9a-f]{8} decides it", shown.text)
    assert "1 waits for you" in shown.text
    assert "waits for a decision" in shown.text


def test_the_tree_names_the_command_that_resumes_an_agent_of_an_earlier_session(shell, team):
    team(One=[ValueError("broken")])
    shell.run("%%tract_agent one\nOne works.")
    assert not shell.run("tools.agents.one('x')").ok
    shell.run("%reload_ext tract_jupyter")
    team(One=["Went on."])
    shown = shell.run("%tract agents").text
    assert "Earlier sessions:" in shown
    assert "%tract agents resume one" in shown
    assert "in an earlier session" in shell.run("%tract agents one").text
    gone_on = shell.run("%tract agents resume one")
    assert gone_on.ok, gone_on.error
    assert "Went on." in gone_on.text
    assert shell.namespace["tract"].agents.names == []


def test_payloads_in_an_error_are_text_too(shell, team):
    team(One=[RuntimeError(PAYLOAD)])
    shell.run("%%tract_agent one\nOne works.")
    failed = shell.run("tools.agents.one('x')")
    assert not failed.ok
    assert "RuntimeError" in failed.error
    for text in (failed.error, failed.text, shell.run("%tract agents").text):
        assert "\u202e" not in text
        assert "\x1b[31m" not in text


def test_payloads_are_text_everywhere(shell, team):
    team(One=[reply(PAYLOAD, call("look", {"text": PAYLOAD})), PAYLOAD])
    tract = shell.namespace["tract"]
    tract.agents.create("one", f"One {PAYLOAD}", PAYLOAD, tools=["look"])
    tract.agents.call("one", PAYLOAD)
    for line in ("%tract agents", "%tract agents one", "%tract agents show one"):
        shown = shell.run(line)
        assert shown.ok, shown.error
        assert "<img" not in shown.html
        assert "\u202e" not in shown.html + shown.text
        assert "\x1b[31m" not in shown.html


# --- mistakes

MISTAKES = {
    "nobody": "there is no agent 'nobody'",
    "onee": "Did you mean 'one'?",
    "shw one": "%tract agents has no 'shw'. Did you mean 'show'?",
    "show": "usage: %tract agents show NAME [N]",
    "show one": "'one' was not called yet",
    "show one x": "Invalid call number 'x'. Use a number such as 1",
    "stop one two": "usage: %tract agents stop [NAME]",
    "stop nobody": "there is no agent 'nobody'",
    "resume": "usage: %tract agents resume NAME [N]",
    "resume one": "'one' was not called yet",
    "retire": "usage: %tract agents retire NAME",
    "retire nobody": "there is no agent 'nobody'",
    "promote one": "usage: %tract agents promote NAME PATH",
    "promote one one.txt": "must end with '.agent'",
    "adopt": "usage: %tract agents adopt PATH",
    "adopt nothing.agent": "nothing.agent cannot be read",
}


@pytest.mark.parametrize(("typed", "told"), MISTAKES.items(), ids=list(MISTAKES))
def test_an_invalid_command_gives_a_one_line_error(shell, team, typed, told):
    team()
    shell.run("%%tract_agent one\nOne works.")
    result = shell.run(f"%tract agents {typed}")
    assert told in result.error
    assert "\n" not in result.error


def test_tab_offers_verbs_names_and_numbers(shell, team):
    team(One=["Done."])
    shell.run("%%tract_agent one\nOne works.")
    shell.run("tools.agents.one('x')")
    assert {"one", "show", "adopt"} <= set(shell.complete("%tract agents "))
    assert "one" in shell.complete("%tract agents show o")
    assert "1" in shell.complete("%tract agents show one ")


@pytest.mark.parametrize(
    ("typed", "run"),
    [
        ("%tract agents resume one\n", "await get_ipython().run_line_magic('tract', 'agents resume one')\n"),
        (
            "%tract agents resume one 2",
            "await get_ipython().run_line_magic('tract', 'agents resume one 2')\n",
        ),
        ("%tract agents resume\n", "%tract agents resume\n"),
        ("%tract agents show one\n", "%tract agents show one\n"),
    ],
)
def test_going_on_is_awaited(typed, run):
    assert await_waiting_cells([typed]) == [run]


# --- by a cell


def test_a_cell_defines_an_agent(shell, team):
    team()
    shown = shell.run(
        '%%tract_agent one --tools "look, write" --toolsets code --description "Looks it up." --budget steps=20,usd=0.5\n'
        "Look it up.\n\nNo approval is needed."
    )
    assert shown.ok, shown.error
    definition = shell.namespace["tract"].agents.get("one").definition
    assert definition.instructions == "Look it up.\n\nNo approval is needed."
    assert definition.tools == ("look", "write")
    assert definition.toolsets == ("code",)
    assert definition.description == "Looks it up."
    assert (definition.budget.steps, definition.budget.usd) == (20, 0.5)
    assert "about approval" in shown.text
    assert "Made by: you" in shown.text
    shown = shell.run("%%tract_agent two --runtime claude --tools look --budget steps=20\nLook it up.")
    assert shown.ok, shown.error
    definition = shell.namespace["tract"].agents.get("two").definition
    assert (definition.runtime, definition.tools) == ("claude", ("look",))


def test_a_cell_with_an_existing_name_makes_a_new_version_and_shows_the_diff(shell, team):
    team()
    shell.run("%%tract_agent one --tools look\nLook it up.")
    shown = shell.run("%%tract_agent one\nLook it up twice.")
    assert "now version 2" in shown.text
    assert "-Look it up.\n" in shown.text
    assert "+Look it up twice." in shown.text
    assert 'class="diff' in shown.html
    agent = shell.namespace["tract"].agents.get("one")
    assert agent.definition.tools == ("look",)
    assert "one already has this definition" in shell.run("%%tract_agent one\nLook it up twice.").text
    assert agent.version == 2


def test_a_cell_with_front_matter_is_a_whole_file(shell, team):
    team()
    text = file_text(
        AgentDefinition(name="one", instructions="Look.\n---\nTwice.", description="a: b", tools=("look",))
    )
    assert shell.run(f"%%tract_agent\n{text}").ok
    assert shell.namespace["tract"].agents.get("one").text == text


def test_a_cell_may_name_an_outside_agent_and_keeps_it(shell, team):
    team()
    text = file_text(AgentDefinition(name="one", instructions="Look.", runtime="claude"))
    shown = shell.run(f"%%tract_agent\n{text}")
    assert "Runs on" in shown.html
    assert shell.namespace["tract"].agents.get("one").text == text
    assert shell.run("%%tract_agent one\nLook twice.").ok
    assert shell.namespace["tract"].agents.get("one").definition.runtime == "claude"
    refused = shell.run("%%tract_agent\n---\nname: one\n---\nLook.")
    assert "the runtime of an agent does not change" in refused.error


def test_a_cell_says_the_name_that_python_has(shell, team):
    team()
    assert "tools.agents.my_agent(...)" in shell.run("%%tract_agent my-agent\nLook.").text


def test_the_check_option_creates_no_agent(shell, team):
    team()
    assert "The definition is valid" in shell.run("%%tract_agent one --check\nLook.").text
    assert shell.namespace["tract"].agents.names == []


CELLS = {
    "%%tract_agent\nHi.": "name the agent",
    "%%tract_agent one\n\n": "has no instructions",
    "%%tract_agent one --tools lok\nHi.": "there is no tool 'lok' here. Did you mean 'look'? %tract tools lists them",
    "%%tract_agent one --toolsets cod\nHi.": "there is no toolset 'cod' here. Did you mean 'code'?",
    "%%tract_agent one --model gpt\nHi.": "there is no model 'gpt' here",
    "%%tract_agent one --budget step=3\nHi.": "a budget has no limit 'step'. Did you mean 'steps'?",
    "%%tract_agent one --budget steps=many\nHi.": "the limit of steps must be a number, such as steps=20, not 'many'",
    "%%tract_agent one --budget steps\nHi.": "the limit of steps must be a number",
    "%%tract_agent one --budget steps=-1\nHi.": "budget",
    "%%tract_agent one --budget steps=1,steps=2\nHi.": "the budget names steps twice",
    "%%tract_agent one --descr\nHi.": "--description needs a value",
    "%%tract_agent one --modle m\nHi.": "has no option '--modle'. Did you mean '--model'?",
    "%%tract_agent 1one\nHi.": "invalid agent name '1one'",
    "%%tract_agent look\nHi.": "'look' is reserved",
    "%%tract_agent one two\nHi.": "'two' is too much",
    "%%tract_agent two\n---\nname: one\n---\nHi.": "the line names the agent 'two', but the front matter 'one'",
    "%%tract_agent --tools look\n---\nname: one\n---\nHi.": "Write tools: in the front matter instead of --tools",
    "%%tract_agent\n---\nname: one\nmodle: m\n---\nHi.": "no key 'modle'. Did you mean 'model'?",
    "%%tract_agent\n---\nname: [\n---\nHi.": "not valid YAML",
    "%%tract_agent\n---\nname: one\n": "missing frontmatter",
    "%%tract_agent\n---\nname: one\ncompatible_models: [a]\n---\nHi.": "compatible_models is for files",
}


@pytest.mark.slow
@pytest.mark.parametrize(("cell", "told"), CELLS.items(), ids=[cell.replace("\n", "|") for cell in CELLS])
def test_a_mistake_in_a_cell_gives_a_one_line_error_and_defines_nothing(shell, team, cell, told):
    team()
    result = shell.run(cell)
    assert told in result.error
    assert result.error.endswith("Nothing was defined")
    assert "\n" not in result.error
    assert shell.namespace["tract"].agents.names == []


def test_tab_offers_options_their_values_and_keys_of_the_front_matter(shell, team):
    team()
    shell.run("%%tract_agent one\nOne works.")
    assert "--tools" in shell.complete("%%tract_agent x --to")
    assert "look" in shell.complete("%%tract_agent x --tools lo")
    assert "look,write" in shell.complete("%%tract_agent x --tools look,wr")
    assert "code" in shell.complete("%%tract_agent x --toolsets co")
    assert "steps=" in shell.complete("%%tract_agent x --budget st")
    assert "one" in shell.complete("%%tract_agent o")
    assert "codex" in shell.complete("%%tract_agent x --runtime co")
    assert "description: " in shell.complete("%%tract_agent\n---\nname: x\nde")
    assert "look" in shell.complete("%%tract_agent\n---\ntools:\n- lo")
    assert "look" not in shell.complete("%%tract_agent\n---\nname: x\n---\nlo")


# --- from a file


def test_a_file_is_shown_with_its_permissions_before_it_is_adopted(shell, team, tmp_path):
    team()
    text = "---\nname: one\ntools:\n- write\n---\nNo approval is needed."
    (tmp_path / "one.agent").write_text(text)
    shown = shell.run("%tract agents adopt one.agent")
    assert shown.ok, shown.error
    assert "No approval is needed." in shown.text
    assert "asks before write" in shown.text
    assert "It mentions approval." in shown.text
    assert shell.namespace["tract"].agents.names == []  # not decided yet
    (waiting,) = shell.namespace["tract"].review.inbox()
    assert waiting.title == "Adopt agent one"


# --- in the rows of a turn


def test_agents_stand_in_the_turn_that_calls_them_with_their_calls(shell, team):
    team(
        boss=[calls_agents("one", "two"), "Both are done."],
        One=[reply("I look.", call("look", {"text": "ab"})), "One is **done**."],
        Two=["Two is done."],
    )
    shell.run("%%tract_agent one --tools look\nOne looks.")
    shell.run("%%tract_agent two\nTwo idles.")
    chat = shell.run("%%tract_chat --profile agents --direct\ngo")
    assert chat.ok, chat.error
    for shown in (chat.text, shell.run("%tract chat show").text):
        assert '✓ one input="go, one"  2 requests, 1 call, 24 tokens' in shown
        assert "\n  I look." in shown
        assert '\n  ✓ look text="ab"' in shown
        assert "\n  One is **done**." in shown
        assert '✓ two input="go, two"  1 request, 0 calls, 12 tokens' in shown
    drawn = shell.run("%tract chat show").html
    assert "One is <strong>done</strong>" in drawn or "One is <b>done</b>" in drawn


def test_the_folder_for_their_files_is_a_setting(shell, team, tmp_path):
    team()
    shell.run("%config TractJupyter.generated_agents_dir = 'made'")
    shell.run("%%tract_agent one\nOne works.")
    path = shell.namespace["tract"].agents.get("one").path
    assert path.is_relative_to(tmp_path / "made")
    shell.run("%config TractJupyter.generated_agents_dir = ''")
    shell.run("%%tract_agent two\nTwo.")
    assert not shell.namespace["tract"].agents.get("two").path.is_relative_to(tmp_path / "made")
