"""Forks: a copy of a conversation continues differently from one of its steps."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.review.scripted import ScriptedClient, call, reply, said
from tract_jupyter import Tract
from tract_jupyter.exceptions import (
    BranchExistsError,
    CassetteError,
    CommitNotFoundError,
    ContentError,
    LLMConfigError,
    LLMRequestError,
)
from tract_jupyter.models import Allowance
from tract_jupyter.runs.profile import OperationProfile, run_operation

CALLS = call("look", {"city": "Rome"}, "c1"), call("look", {"city": "Oslo"}, "c2")


@pytest.fixture
def done():
    return []


@pytest.fixture
def talk(tract, done):
    """A conversation of two turns, the first with two calls."""

    @tract.tool(read_only=True)
    def look(city: str) -> str:
        """Look outside."""
        done.append(city)
        return f"sunny in {city}"

    tract.loop.tools = "self"
    tract.models.price("scripted-1", input=1000, output=1000)
    tract.configure_llm(ScriptedClient(reply("Let me see.", *CALLS), "Sunny.", "Bye."))
    tract.system("Be kind.")
    tract.chat("How is it?")
    tract.chat("Thanks")
    return tract


@pytest.fixture
def script(talk):
    def give(*replies):
        client = ScriptedClient(*replies)
        talk.configure_llm(client)
        return client

    return give


def hashes(tract, branch):
    """The commits of a branch, oldest first."""
    here = tract.current_branch
    tract.switch(branch)
    found = [one.commit_hash for one in reversed(tract.log(limit=100))]
    tract.switch(here)
    return found


def texts(tract, branch):
    here = tract.current_branch
    tract.switch(branch)
    found = said(tract)
    tract.switch(here)
    return found


def commit_of(tract, text):
    for info in tract.log(limit=100):
        if text in str(tract.get_content(info.commit_hash)):
            return info.commit_hash
    raise AssertionError(text)


def test_another_model_answers_the_same(talk, script, done):
    before, head = hashes(talk, "main"), talk.head
    client = script({**reply("Cloudy."), "model": "scripted-2"})
    fork = talk.fork(commit_of(talk, "Sunny."), model="scripted-2")
    assert (fork.name, fork.text, fork.model, fork.outcome) == ("fork-1", "Cloudy.", "scripted-2", "answer")
    assert (fork.steps, fork.calls, fork.report.tokens) == (1, 0, 12)
    assert client.asked[0][1]["model"] == "scripted-2"
    # the same commits, and no repeated calls; the original conversation is unchanged
    assert hashes(talk, "fork-1")[:-1] == before[:5]
    assert fork.base == before[4]
    assert (talk.current_branch, talk.head) == ("main", head)
    assert hashes(talk, "main") == before
    assert done == ["Rome", "Oslo"]


def test_a_model_of_an_unknown_provider_makes_no_fork(talk, script):
    client = script("Never.")
    with pytest.raises(LLMConfigError, match="'nope/x' does not name a model, so no request was sent"):
        talk.fork(commit_of(talk, "Sunny."), model="nope/x")
    assert (client.asked, [one.name for one in talk.list_branches()]) == ([], ["main"])


def test_another_client_is_asked_only_there(talk, script):
    mine = script("Mine.")
    other = ScriptedClient("Other.")
    assert talk.fork(model=other).text == "Other."
    assert talk.fork(model=lambda messages, **_: "A function.").text == "A function."
    assert not mine.asked
    assert talk.chat("Still there?").text == "Mine."


def test_a_new_prompt_replaces_the_users_message(talk, script):
    script("Fine.")
    fork = talk.fork(commit_of(talk, "Thanks"), prompt="Really?", name="doubt")
    assert texts(talk, "doubt")[-3:] == [("assistant", "Sunny."), ("user", "Really?"), ("assistant", "Fine.")]
    assert fork.changed == "prompt 'Really?'"


def test_a_prompt_at_a_reply_is_added_after_the_reply(talk, script):
    script("Fine.")
    talk.fork(commit_of(talk, "Sunny."), prompt="Sure?")
    assert texts(talk, "fork-1")[-3:] == [("assistant", "Sunny."), ("user", "Sure?"), ("assistant", "Fine.")]


def test_the_first_message_can_be_replaced(tract):
    tract.configure_llm(ScriptedClient("Hello.", "Salve."))
    tract.chat("Hi")
    first = tract.log(limit=10)[-1].commit_hash
    fork = tract.fork(first, prompt="Ave")
    assert texts(tract, fork.name) == [("user", "Ave"), ("assistant", "Salve.")]
    assert fork.base is None


def test_at_an_answer_the_whole_step_is_kept(talk, script, done):
    client = script("Again.")
    talk.fork(commit_of(talk, "sunny in Rome"))
    assert [one["role"] for one in client.asked[0][0]][-2:] == ["tool", "tool"]
    assert done == ["Rome", "Oslo"]


def test_calls_of_a_fork_are_made(talk, script, done):
    script(reply(None, call("look", {"city": "Bari"}, "c9")), "Windy.")
    fork = talk.fork(commit_of(talk, "How is it?"))
    assert (fork.steps, fork.calls, fork.report.tokens, done[2:]) == (2, 1, 24, ["Bari"])


def test_a_fork_can_use_another_profile(talk, script):
    client = script("Arr.")
    pirate = OperationProfile.of(
        "pirate", [run_operation("p", "template", order=1, text="Be a pirate.", into="system")]
    )
    talk.fork(commit_of(talk, "Bye."), profile=pirate)
    assert "Be a pirate." in str(client.asked[0][0])


def test_forks_stand_side_by_side(talk, script):
    at = commit_of(talk, "Bye.")
    script("One.")
    talk.fork(at, model="scripted-2")
    script(reply(None, CALLS[0]))
    talk.fork(at, limits=Allowance(steps=1), name="short")
    script(LLMRequestError("HTTP 500"))
    talk.fork(at, name="broken")
    table = talk.forks()
    assert [fork.name for fork in table] == ["main", "fork-1", "short", "broken"]
    assert [fork.outcome for fork in table] == ["answer", "answer", "limit", "error"]
    assert [fork.changed for fork in table] == [
        "original",
        "model scripted-2",
        table["short"].changed,
        "again",
    ]
    assert (table["main"].text, table["main"].steps, table["main"].report.cost.usd) == (
        "Bye.",
        1,
        Decimal("0.012"),
    )
    assert table["broken"].note.startswith("HTTP 500")
    head, *rows = str(table).splitlines()
    assert head.split() == ["Name", "Changed", "Model", "Outcome", "Text", "Steps", "Calls", "Tokens", "Cost"]
    assert len(rows) == 4
    with pytest.raises(KeyError):
        table["other"]


def test_without_forks_the_list_shows_a_hint(tract):
    assert str(tract.forks()) == "there are no forks; tract.fork(COMMIT, model=...) makes one"


def test_invalid_arguments_of_fork_are_refused_and_change_nothing(talk, script):
    script()
    branches = talk.list_branches()
    with pytest.raises(CommitNotFoundError):
        talk.fork("nowhere")
    with pytest.raises(ContentError, match="give the user's message as `prompt`"):
        talk.fork(text="y")
    with pytest.raises(BranchExistsError):
        talk.fork(name="main")
    assert talk.list_branches() == branches
    assert talk.current_branch == "main"


def test_a_fork_is_recorded_and_replayed(tmp_path):
    cassette = tmp_path / "talk.cassette.jsonl"

    def talk(t):
        t.chat("Hi")
        fork = t.fork(prompt="More?")
        return t.head, fork.head, fork.text

    with Tract.open(record=cassette, model=ScriptedClient("Hello.", "More.")) as t:
        recorded = talk(t)
    with Tract.open(replay=cassette) as t:
        assert talk(t) == recorded
        with pytest.raises(CassetteError, match="all its requests were used"):
            t.fork(prompt="What else?")
        assert t.current_branch == "main"
