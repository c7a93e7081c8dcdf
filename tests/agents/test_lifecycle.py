"""A model creates a helper, tries it and improves it; the user keeps it. Over a real server, in
each dialect."""

from __future__ import annotations

import json

import pytest

from tests.agents.cast import Cast
from tests.llm.dialects import ALL, Said, made
from tests.llm.providers import Answer, provider

FIRST, BETTER = "You count words.", "You count words. Answer with the number alone."


def step(name, /, **arguments):
    return Said(calls=[(f"c_{name}", name, json.dumps(arguments))])


SCRIPT = [
    step("agent_create", name="counter", instructions=FIRST, description="Counts words.", tools=["add"], budget={"steps": 9}),
    step("agent_call", agent="counter", input="one two three"),
    Said(calls=[("c_add", "add", '{"a": 1, "b": 2}')]),  # the counter
    Said("There are three words."),
    Said(calls=[("c_up", "agent_update", json.dumps({"agent": "counter", "instructions": BETTER}))]),
    Said(calls=[("c_again", "agent_call", '{"agent": "counter", "input": "one two"}')]),
    Said("2"),
    step("agent_promote", agent="counter", path="counter.agent"),
    Said("It is good now."),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", ALL)
def test_create_call_evaluate_update_call_promote_adopt(
    stage, reopened, person, workspace, done, dialect, streamed
):
    there = person()
    answers = [Answer(dialect.stream(one) if streamed else dialect.whole(one)) for one in SCRIPT]
    if streamed:  # agents stream only if an observer is registered
        stage.agents.on_turn.append(lambda call, event: None)
    with provider(*answers) as server:
        stage.models.use(made(dialect, server))
        options = {"on_delta": lambda piece: None} if streamed else {}
        assert stage.chat("Have words counted.", **options).text == "It is good now."
        asked = len(server.requests)
    assert asked == len(SCRIPT)
    assert there.titles == ["Create agent counter", "Change agent counter", "Promote agent counter"]
    assert done == [("add", 1, 2)]
    agent = stage.agents.get("counter")
    first, second = agent.calls
    assert [one.answer for one in (first, second)] == ["There are three words.", "2"]
    assert (first.hash == second.hash, second.hash, agent.version) == (False, agent.hash, 2)
    promoted = workspace / "counter.agent"
    assert promoted.read_text() == agent.text
    assert promoted.read_text().endswith(BETTER)

    stage.close()
    again = reopened()
    assert again.agents.names == []
    assert again.agents.adopt(promoted).is_adopted
    again.close()
    last = reopened()
    last.models.use(Cast(You=["4"]))
    assert last.agents.call("counter", "a b c d") == "4"
    assert [one.answer for one in last.agents.calls_of("counter")] == ["There are three words.", "2", "4"]
    with last.agents.transcript("counter") as read:
        assert [one["role"] for one in read.compile().to_dicts()] == ["system", "user", "assistant"]


def test_collapse_adds_the_agents_answer_to_the_context(stage, cast):
    cast(w=["Rome is sunny."])
    stage.user("How is it?")
    stage.agents.create("w", "w works.", "d")
    stage.agents.call("w", "How is Rome?")
    result = stage.agents.collapse("w")
    assert stage.compile().to_dicts()[-1]["content"] == "Rome is sunny."
    assert stage.session.get_tract(result.child_id).current_branch == "call-1"
