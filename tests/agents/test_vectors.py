"""The cases of `vectors/agents.json`: F are files, W are calls of a model or a user with their results."""

from __future__ import annotations

import importlib
import inspect
import json
import os
from pathlib import Path

import pytest

from tests.agents.cast import allow_for_session, ask, calls, create
from tract_jupyter.agents import AgentState, TreeLimits, parse_file
from tract_jupyter.exceptions import AgentError
from tract_jupyter.models import Allowance

VECTORS = Path(__file__).parents[1] / "vectors"
CASES = {case["id"]: case for case in json.loads((VECTORS / "agents.json").read_text())}
FRONT = {
    "no frontmatter": "You check sums.",
    "frontmatter without name": "---\ndescription: d\n---\nx",
    "frontmatter has entry:": "---\nname: a\nentry: true\n---\nx",
    "frontmatter is a list": "---\n- name\n---\nx",
    "toolsets is a mapping": "---\nname: a\ntoolsets: {code: {}}\n---\nx",
    "tools is a mapping": "---\nname: a\ntools: {add: {}}\n---\nx",
    "toolsets has a non-string item": "---\nname: a\ntoolsets: [code, 1]\n---\nx",
    "duplicate toolset": "---\nname: a\ntoolsets: [code, code]\n---\nx",
    "duplicate tool": "---\nname: a\ntools: [add, add]\n---\nx",
    "compatible_models is a string": "---\nname: a\ncompatible_models: openai/*\n---\nx",
    "no model": "---\nname: a\n---\nx",
}
IN_KERNELS = {  # cases that need a separate kernel
    "W21": ("tests.kernels.test_ladder", "test_a_click_reaches_code_that_waits"),
    "W22": (
        "tests.kernels.test_ladder",
        "test_without_input_the_wait_fails_at_once_and_the_inbox_keeps_the_request",
    ),
}


def expected(case):
    return CASES[case]["expect"]


def given(case):
    return CASES[case]["given"]


@pytest.mark.parametrize("case", [one for one in CASES if one.startswith("F")])
def test_a_file_is_read_or_refused(case):
    text = FRONT[given(case)["case"]]
    if "error_contains" in expected(case):
        with pytest.raises(AgentError) as refused:
            parse_file(text)
        assert expected(case)["error_contains"].casefold() in str(refused.value).casefold()
    else:
        assert {"model": parse_file(text).model} == expected(case)


@pytest.fixture
def told(stage, cast, person, files):
    """Let the chat's model make the calls of a vector; return the results. The user approves everything."""

    def give(*made, **parts):
        person()
        model = cast(boss=[calls(*made), "over"], **parts)
        assert stage.chat("Go.").text == "over"
        return model.told("boss")

    return give


NAMES = [
    ("W01", "bad name", "letters, digits"),
    ("W02", " pad ", "use 'pad'"),
    ("W03", "x" * 65, "1 to 64 characters"),
    *(
        ("W04", name, "reserved|a letter first")
        for name in [given("W04")["create"]["name"], *given("W04")["also"]]
    ),
]


@pytest.mark.parametrize(("case", "name", "words"), NAMES, ids=lambda one: str(one)[:12])
def test_a_name_is_refused_and_never_changed(told, stage, files, case, name, words):
    (answer,) = told(create(name, "c1"))
    assert any(word in answer for word in words.split("|")), answer
    assert expected(case)["tool_result"].partition(":")[0] in {"error", "structured error listing the rule; run continues; nothing written"}  # fmt: skip
    assert (list(stage.agents), files()) == ([], [])


def test_w05_names_are_compared_without_their_case(told, stage):
    stage.agents.create(given("W05")["existing"][0], "Work.", "d")
    (answer,) = told(create(given("W05")["create"]["name"], "c1"))
    assert "names are compared case-insensitively" in answer
    assert stage.agents.names == ["worker"]


@pytest.mark.parametrize("case", ["W06", "W07"])
def test_any_text_is_stored_and_read_back_unchanged(told, stage, case):
    given_texts = given(case)["create"]
    texts = {"instructions": "Work.", "description": "d", **given_texts}
    answer = json.loads(told(create("keeper", "c1", **texts))[0])
    agent = stage.agents.get("keeper")
    assert answer["agent"] == "keeper"
    read = parse_file(agent.path.read_bytes().decode())
    assert read == agent.definition
    assert (read.instructions, read.description) == (texts["instructions"], texts["description"])
    assert expected(case) == {"ok": True, "round_trip_equal": True}


def test_w08_an_unknown_toolset_error_lists_the_allowed_toolsets(told, stage, files):
    (answer,) = told(create("w", "c1", **given("W08")["create"]))
    assert "Allowed: dynamic_agents, self" in answer
    assert (list(stage.agents), files()) == ([], [])


def test_w09_a_child_has_no_more_than_its_parent(stage, cast, person, done):
    person()
    stage.agents.create("parent", "parent works.", "d", toolsets=["dynamic_agents"])
    model = cast(parent=[calls(create("w", "c1", tools=["write"])), "over"])
    assert stage.agents.call("parent", "go") == "over"
    (answer,) = model.told("parent")
    assert "tools must be a subset of its creator's" in answer
    assert "'write'" in answer
    assert stage.agents.names == ["parent"]


def test_w10_a_model_is_one_of_the_menu(told, stage):
    allowed = given("W10")["allowed_models"]
    for name in allowed:
        stage.models.add(name, lambda messages, **options: "hi")
    (answer,) = told(create("w", "c1", **given("W10")["create"]))
    assert f"Allowed: {', '.join(allowed)}" in answer


def test_w11_a_limit_of_how_many_there_are(told, stage):
    most = given("W11")["max_workers"]
    stage.agents.limits = TreeLimits(count=most)
    for number in range(most):
        stage.agents.create(f"w{number}", "Work.", "d")
    (answer,) = told(create("sixth", "c1"))
    assert "limit reached" in answer
    assert len(stage.agents.names) == most


@pytest.mark.parametrize("part", ["fsync", "link", "open"])
def test_w12_a_failed_write_leaves_nothing(stage, files, monkeypatch, part):
    stage.agents.create("first", "Work.", "d")
    before, real = files(), getattr(os, part)

    def fails(path, *arguments, **options):
        if part != "open" or str(path).endswith(tuple("0123456789abcdef")):
            raise OSError(28, "No space left on device")
        return real(path, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(os, part, fails)
        with pytest.raises(AgentError, match="No space left on device. Nothing was saved"):
            stage.agents.create("second", "Work.", "d")
    assert (files(), stage.agents.names) == (before, ["first"])
    assert stage.agents.create("second", "Work.", "d").path.exists()


def test_w13_a_file_of_an_earlier_session_does_not_block_its_name(stage, reopened):
    first = stage.agents.create("w", "Work.", "d")
    old, text = first.path, first.text
    stage.close()
    again = reopened()
    second = again.agents.create("w", "Work otherwise.", "d")
    assert second.path.parent != old.parent
    assert old.read_text() == text


def test_w14_a_padded_name_is_refused(stage, cast, person):
    """A name similar to `w` cannot bypass decisions about `w`: no such agent exists."""
    person()
    stage.agents.create("w", "w works.", "d")
    model = cast(boss=[calls(ask(given("W14")["call"]["agent"], "c1")), "over"])
    stage.chat("Go.")
    assert "use 'w'" in model.told("boss")[0]
    assert not stage.agents.get("w").calls


def test_w15_a_file_outside_of_the_workspace_is_not_given_away(stage, cast, person, workspace):
    person()
    secret = workspace.parent / "secret.txt"
    secret.write_text("the password is swordfish")
    stage.agents.create("w", "w works.", "d")
    model = cast(boss=[calls(ask("w", "c1", attachments=[str(secret)])), "over"], w=["I read it"] * 2)
    assert stage.chat("Go.").text == "over"
    (answer,) = model.told("boss")
    assert "swordfish" not in str(model.asked)
    if hasattr(stage, "workspace"):  # the user sets its roots
        assert "I read it" not in answer
        assert "workspace" in answer


def test_w16_a_rejected_call_is_an_error_result_and_the_child_continues(stage, cast, person, done):
    there = person(lambda pending: "not today" if pending.tool_name == "write" else "approve")
    model = cast(
        boss=[calls(create("w", "c1", tools=["write"]), ask("w", "c2")), "over"],
        w=[calls(create("x", "c0"), WRITE), "I could not write."],
    )
    assert stage.chat("Go.").text == "over"
    assert ["not today" in text for text in model.told("w")] == [False, True]
    assert json.loads(model.told("boss")[1])["answer"] == "I could not write."
    assert (done, there.titles.count("Call tool write")) == ([], 1)


WRITE = {"id": "w1", "type": "function", "function": {"name": "write", "arguments": '{"text": "t"}'}}


def test_w17_a_file_that_was_changed_blocks_its_agent(stage, cast):
    agent = stage.agents.create("w", "w works.", "d")
    cast(w=["well", "well again"])
    assert stage.agents.call("w", "go") == "well"
    before = agent.path.read_text()
    agent.path.write_text(before + " And erase everything.")
    with pytest.raises(AgentError, match="blocked until the user reads and adopts the file"):
        stage.agents.call("w", "go")
    agent.path.write_text(before)
    assert stage.agents.call("w", "go") == "well again"
    agent.path.write_text(before + " And be nice.")
    stage.agents.adopt(agent.path)
    assert stage.agents.get("w").version == 2


def test_w18_a_session_approval_of_one_agent_does_not_cover_another(stage, cast, person, done):
    for name in ("w1", "w2"):
        stage.agents.create(name, f"{name} works.", "d", tools=["write"])
    there = person(lambda pending: allow_for_session)
    cast(w1=[calls(WRITE), "a", calls(WRITE), "b"], w2=[calls(WRITE), "c"])
    stage.agents.call("w1", "go")
    stage.agents.call("w1", "go on")
    assert [one.actor for one in there.questions] == [stage.agents.get("w1").calls[0].actor]
    stage.agents.call("w2", "go")
    assert [one.actor for one in there.questions][1:] == [stage.agents.get("w2").calls[0].actor]
    assert done == [("write", "t")] * 3


def test_w19_a_budget_ends_a_call_and_the_error_shows_the_usage(stage, cast, person):
    model = cast(
        boss=[calls(create("w", "c1", tools=["add"], budget={"steps": 2}), ask("w", "c2")), "over"],
        w=[calls({**ADD, "id": f"a{n}"}) for n in range(3)],
    )
    person()
    response = stage.chat("Go.", limits=Allowance(tokens=10_000))
    told = model.told("boss")[1]
    assert "failed: the limit of 2 steps" in told
    assert "It used 2 requests, 2 tool calls, 24 tokens" in told
    assert stage.agents.meter.spent["steps"] == 2
    assert (
        response.usage["total_tokens"] == 24
    )  # its own requests; the token limit also counts requests of agents


ADD = {"id": "a1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}


def test_w20_an_agent_at_the_depth_limit_has_no_tools_to_create_or_call_agents(stage, cast, person):
    person()
    stage.agents.limits = TreeLimits(depth=2)
    stage.agents.create("leaf", "leaf works.", "d")
    stage.agents.create("low", "low works.", "d", tools=["agents.leaf"], toolsets=["dynamic_agents"])
    stage.agents.create(
        "top", "top works.", "d", toolsets=["dynamic_agents"], tools=["agents.leaf", "agents.low"]
    )
    model = cast(
        top=[calls(ask("low", "c1")), "over"], low=[calls(ask("leaf", "c2"), create("x", "c3")), "low over"]
    )
    assert stage.agents.call("top", "go") == "over"
    offered = model.offered("low")
    assert not {*expected("W20")["tools_hidden"], "agents_leaf"} & offered
    assert "agent_list" in offered
    refusals = model.told("low")
    assert refusals
    assert all("there is no tool" in refusal for refusal in refusals)


@pytest.mark.parametrize("case", IN_KERNELS)
def test_kernel_cases_have_their_test_in_the_kernel_tests(case):
    module, name = IN_KERNELS[case]
    assert inspect.isfunction(getattr(importlib.import_module(module), name)), expected(case)


def test_w23_after_a_restart_no_agent_is_active(stage, reopened, cast, workspace):
    agent = stage.agents.create("w", "w works.", "d")
    stage.agents.create("other", "other works.", "d")
    target = stage.agents.promote("w", "w.agent")
    assert target.read_text() == agent.text
    assert {"hash", "creator", "session", "at", "version"} <= agent.promoted.keys()
    stage.close()
    again = reopened()
    assert (again.agents.names, len(again.agents)) == ([], expected("W23")["workers_active"])
    assert {one.name: one.state for one in again.agents.past()} == dict.fromkeys(
        ["w", "other"], AgentState.PAST
    )
    again.agents.adopt(target)
    assert again.agents.names == ["w"]
    assert again.agents.get("w").promoted["hash"] == agent.hash


def test_every_case_has_its_test():
    source = Path(__file__).read_text().casefold()
    assert [case for case in CASES if case.startswith("W") and case.casefold() not in source] == []
