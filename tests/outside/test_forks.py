"""Forks of a turn of an outside agent, and the session after an undo."""

import pytest

from tests.outside.conftest import call, writing
from tract_jupyter.exceptions import ContentError, LLMConfigError, OutsideAgentError

LOOKS = call("r1", kind="read", title="Read", rawInput={"path": "a.csv"})
STEPS = [
    ["text", "I look."], ["call", LOOKS], ["progress", {"toolCallId": "r1", "status": "completed"}], ["text", "Bye."],
]  # fmt: skip


def shouting(messages, **options):
    return f"{len(messages)}: {messages[-1]['content']}".upper()


def test_a_turn_can_be_forked_at_each_step_with_a_model_or_the_agent(chat, known, log, tract, folder):
    agent = known(prompts=[STEPS, [["text", "Again."]]], log=log.place)
    chat(agent)
    chat(agent, "And now?")
    head, said = tract.head, [message.content for message in tract.compile().messages]
    commits = [info.commit_hash for info in tract.log()][::-1]
    assert len(commits) == 6
    for at in commits:
        with pytest.raises(ContentError, match="cannot repeat a request, and uses its own model"):
            tract.fork(at, agent=agent)
        with pytest.raises(
            LLMConfigError, match="no language model is configured.*Or let an outside agent continue"
        ):
            tract.fork(at)
    assert [one.name for one in tract.list_branches()] == ["main"]
    known(prompts=[[*writing(), ["text", "Forked."]]], log=log.place)
    for at in commits:
        fork = tract.fork(at, prompt="Go on.", agent=agent)
        assert (fork.text, fork.model, fork.outcome) == ("Forked.", "fake", "answer")
        assert tract.fork(at, model=shouting).model != "fake"
    assert tract.head == head
    assert [message.content for message in tract.compile().messages] == said
    prompts = [one["prompt"][0]["text"] for one in log.sent("session/prompt")]
    assert prompts[2] == "Go on."  # it replaces the message
    assert "User: Do it." in prompts[4]
    assert "Again." not in prompts[4]
    assert prompts[-1].count("Again.") == 1


def test_a_fork_that_fails_leaves_a_branch_only_after_a_reply(chat, known, tract):
    agent = known(prompts=[STEPS, [["text", "Half."], ["call", LOOKS], ["die", 1]]])
    chat(agent)
    fork = tract.fork(prompt="Go on.", agent=agent)
    assert (fork.outcome, fork.text) == ("error", "")
    assert "Fake left: its process ended" in fork.note
    with pytest.raises(OutsideAgentError, match="Unknown agent 'cloude'"):
        tract.fork(prompt="Go on.", agent="cloude")
    assert [one.name for one in tract.list_branches()] == ["fork-1", "main"]


def test_a_session_that_knows_later_messages_is_not_loaded(chat, known, log, tract):
    agent = known(loads=True, log=log.place)
    chat(agent, "One.")
    chat(agent, "Two.")
    tract.undo(turn=tract.loop.turns()[-1])
    chat(agent, "Three.")
    assert not log.sent("session/load")
    text = log.sent("session/prompt")[-1]["prompt"][0]["text"]
    assert "User: One." in text
    assert "Two." not in text
