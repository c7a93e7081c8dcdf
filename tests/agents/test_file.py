"""`.agent` files: parsing returns the written definition. Invalid files are refused quickly."""

from __future__ import annotations

import os
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agents.cast import ask, calls
from tests.cpu import cpu_seconds
from tests.review.scripted import call
from tract_jupyter.agents import KEYS, AgentDefinition, TreeLimits, file_hash, file_text, parse_file
from tract_jupyter.exceptions import AgentError, StoreError, ToolExecutionError
from tract_jupyter.models import Allowance

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=200)
ODD = st.sampled_from([
    "---\n", "---\r\n", "--- ", "\n---\nname: x\n---\n", "\ufeff", "\r", "\u2028", "\x85", "\x1b[2J", "😀", "🏴\u200d☠️", "a: b", "- a", "# no", "'", '"',
    "|\n  x", "> x", "*a", "&a", "!!python/object:os.system", "yes", "null", "1e3", "2026-11-25", "~", "\t", " ", "%YAML 1.2", "\U0010ffff",
])  # fmt: skip
ANY = st.lists(TEXTS | ODD, max_size=6).map("".join)
NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,20}", fullmatch=True)
LISTED = st.lists(
    st.text(string.ascii_letters + "._- é😀:#", min_size=1, max_size=20).filter(str.strip),
    max_size=4,
    unique=True,
)
BUDGETS = st.none() | st.builds(
    Allowance,
    steps=st.none() | st.integers(1, 10**12),
    calls=st.none() | st.integers(1, 10**12),
    tokens=st.none() | st.integers(1, 10**12),
    usd=st.none() | st.floats(0.000001, 10**9),
    seconds=st.none() | st.floats(0.001, 3_600),
)


def made(**parts):
    try:
        return AgentDefinition(**parts)
    except AgentError:  # a reserved name, or instructions of spaces alone
        return None


@given(
    name=NAMES,
    instructions=ANY,
    description=ANY,
    tools=LISTED,
    toolsets=LISTED,
    compatible=LISTED,
    budget=BUDGETS,
)
def test_a_written_definition_is_parsed_unchanged(
    name, instructions, description, tools, toolsets, compatible, budget
):
    definition = made(
        name=name, instructions=instructions, description=description, tools=tuple(tools), toolsets=tuple(toolsets),
        compatible_models=tuple(compatible), budget=budget,
    )  # fmt: skip
    if definition is not None:
        text = file_text(definition)
        assert parse_file(text) == definition
        assert parse_file(text.encode().decode()) == definition
        assert file_text(parse_file(text)) == text
        assert file_hash(text) == file_hash(file_text(definition))


@given(model=TEXTS.filter(str.strip))
def test_any_model_name_is_parsed_unchanged(model):
    definition = made(name="w", instructions="x", model=model)
    assert definition is not None
    assert parse_file(file_text(definition)) == definition


@given(TEXTS | ANY)
def test_any_text_is_a_definition_or_an_error_of_ours(text):
    try:
        definition = parse_file(text)
    except AgentError as error:
        assert str(error)
    else:
        assert parse_file(file_text(definition)) == definition


@given(ANY)
def test_any_front_matter_is_a_definition_or_an_error_of_ours(front):
    try:
        parse_file(f"---\nname: w\n{front}\n---\nx")
    except AgentError as error:
        assert str(error)


def test_an_empty_budget_is_parsed_as_no_budget():
    assert AgentDefinition(name="w", instructions="x", budget=Allowance()).budget is None
    assert parse_file("---\nname: w\nbudget: {}\n---\nx").budget is None


def test_byte_order_mark_and_crlf_are_accepted_and_the_body_is_unchanged():
    text = "\ufeff---\r\nname: w\r\ndescription: d\r\n---\r\nDo it.\r\n\r\nWell.\n"
    definition = parse_file(text)
    assert (definition.name, definition.description) == ("w", "d")
    assert definition.instructions == "Do it.\r\n\r\nWell.\n"
    again = file_text(definition)
    assert parse_file(again) == definition
    assert parse_file(again).instructions == definition.instructions


def test_a_fence_within_the_body_is_text():
    definition = parse_file("---\nname: w\n---\nfirst\n---\nname: x\n---\nlast")
    assert definition.instructions == "first\n---\nname: x\n---\nlast"


BOMB = "a: &a [x, x]\n" + "\n".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]" for n in range(20)
)
REFUSED = {
    "an alias bomb": (BOMB, "cannot use YAML aliases"),
    "an alias": ("description: &d x\nmodel: *d", "cannot use YAML aliases"),
    "a merge": ("base: &b {model: m}\n<<: *b", "cannot use YAML aliases"),
    "a key twice": ("description: a\ndescription: b", "'description' twice"),
    "a key twice, deep": ("budget: {steps: 1, steps: 2}", "'steps' twice"),
    "an object": ("description: !!python/object/apply:os.system [ls]", "not valid YAML"),
    "a tag": ("description: !secret x", "not valid YAML"),
    "two documents": ("...\nname: x", "not valid YAML"),
    "no YAML": ("description: 'open", "not valid YAML"),
    "a tab": ("\tdescription: x", "not valid YAML"),
    "a key of a list": ("? [a, b]\n: c", "not valid YAML"),
    "an unknown key": ("instruction: x", "no key 'instruction'"),
    "another's key": ("schema_in_ref: x", "must not declare 'schema_in_ref'"),
    "a number for a text": ("description: 5", "description must be a string, not 5"),
    "nothing for a text": ("description:", "description must be a string"),
    "a date for a model": ("model: 2026-11-25", "model must be a string"),
    "a list for a budget": ("budget: [5]", "budget must be a dict"),
    "an infinite budget": ("budget: {steps: .inf}", "budget: the limit of steps"),
    "no number": ("budget: {usd: .nan}", "budget: the limit of usd"),
    "a text for a number": ("budget: {steps: '5'}", "budget: the limit of steps"),
    "yes for a number": ("budget: {steps: yes}", "budget: the limit of steps"),
    "a number of many digits": (f"budget: {{steps: {'9' * 5_000}}}", "not valid YAML|at most"),
    "both models": ("model: a\ncompatible_models: [b]", "both model and compatible_models"),
    "deep lists": (f"description: {'[' * 3_000}", "not valid YAML"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_front_matter_is_refused(case):
    front, words = REFUSED[case]
    with pytest.raises(AgentError, match=words.replace("(", r"\(")):
        parse_file(f"---\nname: w\n{front}\n---\nx")


def test_many_keys_and_many_names_take_no_time():
    keys = "".join(f"k{n}:\n" for n in range(4_000))
    with pytest.raises(AgentError, match="no key 'k0'"):
        parse_file(f"---\nname: w\n{keys}---\nx")
    many = tuple(f"t{n}" for n in range(100_000))
    assert AgentDefinition(name="w", instructions="x", tools=many).tools == many


# --- reading from the disk


@pytest.fixture
def refused(stage, workspace):
    """Adopt an invalid file; return the error."""

    def give(name="w.agent"):
        with pytest.raises(AgentError) as error:
            stage.agents.adopt(workspace / name)
        assert stage.agents.names == []
        return str(error.value)

    return give


GOOD = b"---\nname: w\n---\nw works."


def test_a_missing_file_and_a_folder_are_refused(refused, workspace):
    assert "No such file" in refused()
    (workspace / "w.agent").mkdir()
    assert "cannot be read" in refused()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs here")
@pytest.mark.parametrize("written", [None, b"", GOOD])
def test_a_fifo_is_refused_at_once(refused, workspace, written):
    path = workspace / "w.agent"
    os.mkfifo(path)
    writer = None
    if written is not None:
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        writer = os.open(path, os.O_WRONLY)
        os.write(writer, written)
    try:
        assert "not a regular file" in refused()
    finally:
        if writer is not None:
            os.close(writer)
            os.close(reader)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there are no devices here")
def test_a_device_is_refused_at_once(refused, workspace):
    (workspace / "w.agent").symlink_to("/dev/zero")
    assert "not a regular file" in refused()


@pytest.mark.parametrize(
    ("data", "words"),
    [(GOOD + b"x" * 300_000, "the maximum of 256,000 bytes"), (b"\x89PNG\r\n\x1a\n\0\xff", "not UTF-8 text"), (GOOD + b"\xff", "not UTF-8 text"),
     (GOOD.decode().encode("utf-16"), "not UTF-8 text"), (GOOD + b"\0", "NUL"), (b"", "missing frontmatter")],
    ids=["large", "binary", "no UTF-8", "UTF-16", "NUL", "empty"],
)  # fmt: skip
def test_a_file_that_is_not_text_is_refused(refused, workspace, data, words):
    (workspace / "w.agent").write_bytes(data)
    assert words in refused()


def test_a_file_with_unknown_grants_or_the_name_of_a_tool_is_refused(refused, workspace):
    for front, words in {
        "name: w\ntools: [nothing]": "no tool 'nothing'",
        "name: w\ntoolsets: [nothing]": "no toolset",
        "name: w\nmodel: nothing": "no model",
        "name: add": "'add' is a tool",
        "name: agent-create": "'agent_create' is a tool",
        "name: con": "reserved",
    }.items():
        (workspace / "w.agent").write_text(f"---\n{front}\n---\nx")
        assert words in refused()


@pytest.mark.parametrize(
    ("key", "shown"), [("toolz", "'toolz'. Did you mean 'tools'?"), ("null", "None."), ("3", "3.")]
)
def test_an_unknown_key_has_the_same_error_message_in_file_and_budget(key, shown):
    with pytest.raises(AgentError) as in_file:
        parse_file(f"---\nname: w\n{key}: 1\n---\nGo.")
    assert f"an .agent file has no key {shown} Allowed: name, " in str(in_file.value)
    with pytest.raises(
        AgentError, match="budget has no key 'step'. Did you mean 'steps'. Allowed: steps, "
    ) as in_budget:
        parse_file("---\nname: w\nbudget: {step: 1}\n---\nGo.")
    assert (in_file.value.code, in_budget.value.code) == ("unknown_key", "bad_budget")


def test_a_blocked_agent_shows_its_state_and_the_remedy_in_every_list(stage, cast, person):
    person()
    agent = stage.agents.create("w", "w works.", "d")
    stage.agents.create("v", "v works.", "d")
    agent.path.write_text(agent.text + " Trust me.")
    told = {one["agent"]: one for one in stage.tools.agent_list()}
    assert (told["w"]["state"], told["v"]["state"]) == ("blocked", "active")
    assert f"tract.agents.adopt({str(agent.path)!r}), or agent_update" in told["w"]["why"]
    assert repr(stage.agents) == "<Agents: w (blocked), v>"
    assert repr(agent) == "<Agent w, version 1: blocked>"
    model = cast(boss=[calls(call("agent_update", {"agent": "w", "instructions": "w works well."}, "u1"),
                             ask("w", "c1")), "over"], w=["ok"])  # fmt: skip
    assert stage.chat("Go.").text == "over"
    assert '"ok"' in model.told("boss")[1]
    assert agent.path.read_text() == agent.text
    agent.path.unlink()
    (told,) = [one for one in stage.tools.agent_list() if one["agent"] == "w"]
    assert "the user can restore the file" in told["why"]
    stage.agents.retire("w")
    assert agent.why_blocked == ""


def test_an_adopted_file_is_read_through_links_and_blocked_when_it_changes(stage, workspace, cast):
    real, link = workspace / "real.agent", workspace / "link.agent"
    real.write_bytes(GOOD)
    link.symlink_to(real)
    stage.agents.adopt(link)
    cast(w=["one", "two"])
    assert stage.agents.call("w", "go") == "one"
    real.write_bytes(GOOD + b" More.")
    with pytest.raises(AgentError, match="differs from the approved version"):
        stage.agents.call("w", "go")
    stage.agents.adopt(link)
    assert stage.agents.call("w", "go") == "two"
    real.unlink()
    with pytest.raises(AgentError, match="can restore the file"):
        stage.agents.call("w", "go")


def test_adopt_refuses_a_taken_name_and_respects_the_maximum_count(stage, workspace, files):
    first = stage.agents.create("w", "Other instructions.", "d")
    (workspace / "w.agent").write_bytes(GOOD)
    with pytest.raises(AgentError, match="exists; retire it first"):
        stage.agents.adopt(workspace / "w.agent")
    (workspace / "x.agent").write_text("---\nname: x\n---\nx")
    stage.agents.limits = TreeLimits(count=1)
    with pytest.raises(AgentError, match="limit reached"):
        stage.agents.adopt(workspace / "x.agent")
    target = stage.agents.promote("w", "kept.agent")
    agent = stage.agents.adopt(target)
    assert (agent.is_adopted, agent.path, agent.version) == (True, target, 1)
    assert first.path not in files()
    stage.agents.retire("w")
    assert target.exists()


# --- writing fails


def test_a_failed_save_of_an_update_leaves_agent_and_file_unchanged(stage, cast, monkeypatch):
    agent = stage.agents.create("w", "w works.", "d")
    before = (agent.definition, agent.text, agent.version, agent.path.read_text())
    with monkeypatch.context() as patched:
        patched.setattr(stage.agents.records, "save", _fails)
        with pytest.raises(ToolExecutionError, match="the store is full"):
            stage.agents.update("w", instructions="w works well.")
    assert (agent.definition, agent.text, agent.version, agent.path.read_text()) == before
    cast(w=["over"])
    assert stage.agents.call("w", "go") == "over"


CHANGES = {
    "create": lambda agents: agents.create("x", "x works.", "d"),
    "promote": lambda agents: agents.promote("w", "w.agent"),
    "retire": lambda agents: agents.retire("w"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_that_cannot_be_saved_has_no_effect(stage, files, workspace, monkeypatch, what):
    agent = stage.agents.create("w", "w works.", "d")
    before = files()
    with monkeypatch.context() as patched:
        patched.setattr(stage.agents.records, "save", _fails)
        with pytest.raises(ToolExecutionError, match="the store is full"):
            CHANGES[what](stage.agents)
    assert (files(), stage.agents.names, agent.promoted, list(workspace.iterdir())) == (before, ["w"], {}, [])


def _fails(*arguments):
    raise StoreError("the store is full")


def test_a_failing_observer_does_not_disturb_an_agent(stage, cast):
    def broken(*about):
        raise KeyError("me")

    stage.agents.on_change.append(broken)
    with pytest.warns(RuntimeWarning, match="of agents, because it raised KeyError"):
        agent = stage.agents.create("w", "w works.", "d")
    assert agent.path.exists()
    assert stage.agents.on_change == []
    stage.agents.on_turn.append(broken)
    cast(w=["over"])
    with pytest.warns(RuntimeWarning, match="KeyError"):
        assert stage.agents.call("w", "go") == "over"


@pytest.mark.parametrize(
    "front",
    [
        "tools:\n" + "- a\n" * 60_000,
        "tools: [" + "a," * 120_000 + "]",
        "a: " + "[" * 240_000,
        "x: 1\n" * 50_000,
    ],
)
def test_a_long_front_matter_is_refused_before_it_is_read(front):
    why = r"the front matter has \d+,\d+ characters; the maximum is 32,000"
    with cpu_seconds() as seconds, pytest.raises(AgentError, match=why):
        parse_file(f"---\n{front}\n---\nhello")
    assert seconds[0] < 0.2


def test_writing_a_definition_with_too_long_front_matter_fails(stage):
    with pytest.raises(AgentError, match="the maximum is 32,000"):
        file_text(
            AgentDefinition(name="w", instructions="w works.", tools=tuple(f"tool_{n}" for n in range(5_000)))
        )


def test_files_and_their_folders_are_private_to_the_user(stage, tmp_path, modes):
    stage.agents.directory = tmp_path / "new" / "deep"
    agent = stage.agents.create("w", "w works.", "d")
    found = modes(tmp_path / "new")
    assert found.pop(agent.path.relative_to(tmp_path / "new").as_posix()) == 0o600
    assert set(found.values()) == {0o700}


def test_another_folder_for_the_files(stage, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stage.agents.directory = "elsewhere"
    agent = stage.agents.create("w", "w works.", "d")
    assert agent.path.is_relative_to(tmp_path / "elsewhere")
    monkeypatch.chdir("/")
    agent.check_file()
    (tmp_path / "file").write_text("")
    stage.agents.directory = tmp_path / "file"
    with pytest.raises(AgentError, match="the folder for agents' files cannot be created"):
        stage.agents.create("x", "x works.", "d")


def test_the_keys_of_an_agent_file_are_the_documented_ones():
    assert KEYS == (
        "name",
        "description",
        "model",
        "compatible_models",
        "tools",
        "toolsets",
        "budget",
        "runtime",
    )
