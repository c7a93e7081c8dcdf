"""The prompt of a run is sent exactly as displayed, without empty messages."""

from __future__ import annotations

import pytest

from tests.review.scripted import ScriptedClient, needs_metres
from tests.runs.running import compute, effects, errors, upsert
from tract_jupyter.exceptions import RunFailedError
from tract_jupyter.runs.profile import OperationProfile, run_operation

REPLACE = {"type": "prompt_part", "mode": "replace"}


@pytest.fixture
def asked(tract):
    tract.configure_llm(ScriptedClient(*["On the mat."] * 9))
    return tract


@pytest.mark.parametrize("system", [None, "", " \n", "Be kind."])
@pytest.mark.parametrize(
    "how",
    [None, {"into": "system", "text": ""}, {"into": REPLACE, "text": " "}, {"into": "user", "text": ""}],
)
def test_an_empty_system_message_is_left_out(asked, system, how):
    """With and without operations; the run shows exactly the sent messages."""
    if system is not None:
        asked.system(system)
    asked.user("Where is it?")
    reply = asked.generate(
        profile=None if how is None else OperationProfile.of("p", [run_operation("o", order=1, **how)])
    )
    sent = [(one["role"], one["content"]) for one in asked.llm.last_messages]
    kept = system == "Be kind." and (how is None or how["into"] != REPLACE)
    assert sent == [*([("system", "Be kind.")] if kept else []), ("user", "Where is it?")]
    if how is not None:
        assert [(one.role, one.content) for one in reply.run.prompt] == sent
        assert asked.runs.replay(reply.run.run_id).root_hash == reply.run.root_hash


def test_a_retry_of_a_validator_sends_no_empty_system_message(tract):
    """The second request of a validator is compiled from the context again."""
    tract.configure_llm(ScriptedClient("far", "10 metres"))
    tract.system("")
    tract.user("How far?")
    tract.generate(validator=needs_metres)
    assert [one["role"] for one in tract.llm.last_messages] == ["user", "assistant", "user"]


@pytest.mark.parametrize(("into", "when"), [("message", "before"), ("reply", "after")])
def test_a_message_of_the_turn_does_not_become_empty(asked, into, when):
    """Providers do not get empty messages, so the whole prompt would be lost."""
    asked.user("Where is it?")
    empty = run_operation("o", order=1, text="{{ nothing }} ", into=into, when=when)
    run = asked.generate(profile=OperationProfile.of("p", [empty])).run
    assert errors(run) == {"o": "validation_error"}
    assert [one["content"] for one in asked.llm.last_messages] == ["Where is it?"]
    assert [one.content for one in asked.compile().messages] == ["Where is it?", "On the mat."]


@pytest.mark.parametrize("declared", [{}, {"tag": "other"}, {"tag": "notes", "keep": True}])
def test_a_function_may_only_write_the_artifacts_declared_in_its_profile(asked, declared):
    """Otherwise all its effects are refused; if it is required, no request is sent."""
    asked.user("Where is it?")
    asked.functions.register("write")(
        effects(upsert("notes"), {"type": "prompt.system_update", "mode": "append", "payload": "x"})
    )
    run = asked.generate(profile=OperationProfile.of("p", [compute("write", **declared)])).run
    assert errors(run) == {"write": "policy_error"}
    assert [one["content"] for one in asked.llm.last_messages] == ["Where is it?"]
    with pytest.raises(RunFailedError, match=r"policy_error.*writes art\.notes"):
        asked.generate(profile=OperationProfile.of("p", [compute("write", required=True, **declared)]))
    done = asked.generate(profile=OperationProfile.of("p", [compute("write", tag="notes")])).run
    assert errors(done) == {"write": None}
