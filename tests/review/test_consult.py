"""Decisions by a model: they use the same gate, report mistakes to the model, and stay within its limits."""

from __future__ import annotations

import json

import pytest

from tests.review.scripted import ScriptedClient, call, reply
from tract_jupyter.exceptions import (
    ContentError,
    LLMConfigError,
    LLMResponseError,
    PendingStateError,
    UndecidedError,
)
from tract_jupyter.operations import ActionDef


@pytest.fixture
def pending(tract, spec):
    """A fired operation with an action that raises an error and an action that only changes a field."""
    actions = {
        "explode": ActionDef("explode", "Raises.", {}, "raise OSError('boom')"),
        "mark": ActionDef(
            "mark",
            "Marks.",
            {"level": "Literal['low', 'high']"},
            "pending.fields['level'] = level",
            required=["level"],
        ),
    }
    fields = {"text": {"type": "str"}, "level": {"type": "str", "default": ""}}
    tract.register_operation(spec(name="check", fields=fields, actions=actions))
    return tract.fire("check", {"text": "x" * 900}, review=True)


def last_decision(tract):
    return tract.events("decision")[0].data


def test_a_consulted_model_sees_fields_and_actions_and_decides(tract, pending):
    client, tools = ScriptedClient(reply("fine", call("approve"))), pending.to_tools()
    result = pending.consult("Is it harmless?", client=client)
    assert (result.decided, result.status, result.turns, result.text, result.model) == (
        True, "approved", 1, "fine", "scripted-1")  # fmt: skip
    assert (last_decision(tract)["channel"], last_decision(tract)["decided_by"]) == (
        "model",
        "model:scripted-1",
    )
    (system, user), options = client.asked[0]
    assert (system["role"], user["role"]) == ("system", "user")
    assert user["content"].startswith("Is it harmless?")
    shown = json.loads(user["content"].partition("operation:\n")[2])
    assert shown["fields"]["text"].endswith("(900 characters)")
    assert options["tools"] == tools
    assert "xxx" not in json.dumps(tools)  # values are sent only once


def test_the_tract_s_client_is_asked_with_the_user_s_own_words(tract, pending):
    with pytest.raises(LLMConfigError):
        pending.consult("?")
    client = ScriptedClient(reply(None, call("reject", {"reason": "risky"})))
    tract.configure_llm(client)
    assert pending.consult("?", system_prompt="Be strict.").status == "rejected"
    assert pending.rejection_reason == "risky"
    assert client.asked[0][0][0]["content"] == "Be strict."


def test_a_consulted_model_can_read_and_change_before_it_decides(pending):
    client = ScriptedClient(
        reply(None, call("get_state", call_id="1"), call("mark", {"level": "high"}, "2")),
        reply(None, call("approve", {"edits": {"text": "short"}}, "3")),
    )
    result = pending.consult("?", client=client)
    assert [(s.action, s.is_error) for s in result.steps] == [
        ("get_state", False),
        ("mark", False),
        ("approve", False),
    ]
    assert pending.fields == {"text": "short", "level": "high"}
    roles = [m["role"] for m in client.last_messages]
    assert roles == ["system", "user", "assistant", "tool", "tool"]
    assert [m["tool_call_id"] for m in client.last_messages[3:]] == ["1", "2"]
    assert json.loads(client.last_messages[4]["content"]) == {"result": None, "status": "pending"}


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (reply("I would approve it."), "Text decides nothing"),
        (reply(None, call("aprove")), "Did you mean 'approve'"),
        (reply(None, call("__init__")), "no action"),
        (reply(None, call("execute_tool")), "no action"),
        (reply(None, call("")), "no action"),
        (reply(None, {"id": None}), "no action"),
        (reply(None, call("reject", "{reason: no}")), "not JSON"),
        (reply(None, call("reject", '["no"]')), "JSON object"),
        (reply(None, call("reject", {"reason": 3})), "'reason' should be a valid string"),
        (reply(None, call("mark", {"level": "huge"})), "'level'"),
        (reply(None, call("mark")), "'level' is missing"),
        (reply(None, call("explode")), "OSError: boom"),
        (reply(None, call("approve", {"scope": "always"})), "'scope' is unknown"),
        (reply(None, call("approve", {"edits": {"text": 3}})), "'text'"),
    ],
)
def test_mistakes_of_the_model_are_reported_to_it_and_can_be_corrected(pending, mistake, words):
    client = ScriptedClient(mistake, reply(None, call("reject", {"reason": "no"})))
    result = pending.consult("?", client=client)
    assert (result.status, result.turns) == ("rejected", 2)
    assert len(result.mistakes) == 1
    assert words in result.mistakes[0]
    assert words in client.last_messages[-1]["content"]


def test_without_a_decision_in_max_turns_the_pending_stays_open(tract, pending):
    client = ScriptedClient("hm", "hm", "hm", "never asked")
    result = pending.consult("?", client=client)
    assert (result.decided, result.status, result.turns, len(client.asked)) == (False, "pending", 3, 3)
    assert len(result.mistakes) == 3
    result = pending.consult("?", client=client, max_turns=1)
    assert (result.text, result.turns) == ("never asked", 1)
    pending.approve()


def test_nothing_happens_after_it_has_decided(pending):
    client = ScriptedClient(reply(None, call("reject", {"reason": "a"}, "1"), call("approve", {}, "2")))
    result = pending.consult("?", client=client)
    assert (result.status, len(result.steps)) == ("rejected", 1)
    with pytest.raises(PendingStateError):
        pending.consult("?", client=client)


def test_a_consulted_model_cannot_give_a_standing_approval(tract, pending):
    names = {p for tool in pending.to_tools() for p in tool["function"]["parameters"]["properties"]}
    assert not names & {"scope", "uses", "pattern"}
    pending.consult(
        "?", client=ScriptedClient(reply(None, call("approve", {"scope": "session", "uses": 5}))), max_turns=1
    )
    assert pending.status == "pending"
    assert tract.review.grants.all() == []


def test_an_approval_fails_if_the_pending_changed_during_the_request(pending):
    class Slow(ScriptedClient):
        def chat(self, messages, **options):
            if len(self.asked) == 0:
                pending.mark("low")
            return super().chat(messages, **options)

    client = Slow(reply(None, call("approve")), reply(None, call("approve")))
    result = pending.consult("?", client=client)
    assert "has changed since you saw it" in result.mistakes[0]
    assert (result.status, result.turns) == ("approved", 2)


def test_another_decision_during_the_request_ends_the_consultation(pending):
    class Slow(ScriptedClient):
        def chat(self, messages, **options):
            pending.reject("I was faster")
            return super().chat(messages, **options)

    result = pending.consult("?", client=Slow(reply(None, call("approve"))))
    assert (result.status, pending.rejection_reason) == ("rejected", "I was faster")


def test_trouble_with_the_provider_is_raised(pending):
    for given, error in ((ConnectionError("down"), ConnectionError), ({"choices": []}, LLMResponseError)):
        with pytest.raises(error):
            pending.consult("?", client=ScriptedClient(given))
    with pytest.raises(ContentError, match="max_turns"):
        pending.consult("?", client=ScriptedClient(), max_turns=0)
    assert pending.status == "pending"


def test_a_handler_may_consult_and_the_model_may_pass_it_on(tract, spec):
    tract.register_operation(spec("pending.approve()", name="check", fields={}))
    client = ScriptedClient(reply(None, call("pass_through")), reply(None, call("reject", {"reason": "m"})))
    tract.on("check", lambda p: p.consult("?", client=client), name="model")
    tract.on("check", lambda p: p.approve(), name="rest")
    assert tract.fire("check").status == "approved"
    assert tract.fire("check").status == "rejected"
    assert [(e.handler, e.outcome) for e in tract.hooks.log()] == [
        ("model", "passed_through"), ("rest", "approved"), ("model", "rejected")]  # fmt: skip


def test_a_consulted_model_can_decide_a_built_in_pending(tract):
    tract.user("q")
    tract.configure_llm(ScriptedClient("feet"))
    pending = tract.propose_generate(validator=lambda text: None if "metres" in text else "use metres")
    tract.configure_llm(ScriptedClient("metres"))
    judge = ScriptedClient(
        reply(None, call("validate")), reply(None, call("retry", {"guidance": "mind the unit"})), reply(None, call("approve")))  # fmt: skip
    result = pending.consult("Is it good?", client=judge)
    assert json.loads(result.steps[0].answer)["result"] == {
        "passed": False,
        "diagnosis": "use metres",
        "index": None,
    }
    assert (result.decided, pending.result.text) == (True, "metres")


def test_a_pending_left_open_by_a_consulting_handler_waits_in_the_inbox(tract):
    tract.user("q")
    tract.configure_llm(ScriptedClient("a reply"))
    tract.on("generate", lambda p: p.consult("?", client=ScriptedClient("hm"), max_turns=1))
    with pytest.raises(UndecidedError):
        tract.generate()
    assert len(tract.review.inbox()) == 1
