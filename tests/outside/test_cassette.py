"""Turns of outside agents on a cassette."""

import json

import pytest

from tests.outside.conftest import call, writing
from tests.outside.test_turn import kinds, notes, stopped_while
from tract_jupyter import Tract
from tract_jupyter.exceptions import CassetteError, OutsideAgentError
from tract_jupyter.models import TurnOutcome
from tract_jupyter.review import personal_channel

GONE = ("/no/such",)
"""The command line of an agent that is not installed."""
SECRET = "birds-of-the-lake-1234"


@pytest.fixture
def cassette(tmp_path):
    return tmp_path / "turn.cassette.jsonl"


@pytest.fixture
def replayed(cassette, user, folder):
    """A function that replays turns in another store, and returns their responses, events and the report."""

    def run(*texts):
        with Tract.open(replay=cassette) as tract:
            tract.reviewer.channel = personal_channel("test")(user.decide)
            events = []
            try:
                responses = [tract.chat(text, agent="fake", on_turn=events.append) for text in texts]
                return responses, events, tract.cassette.report
            finally:
                tract.cassette.stop()

    return run


def test_turns_are_recorded_without_secrets_and_replayed_without_the_agent(
    known, tract, cassette, replayed, user, folder, monkeypatch, log
):
    class Server:
        name, url, headers = "kernel_1", "http://127.0.0.1:1/mcp", {}

    monkeypatch.setenv("LAKE", SECRET)
    monkeypatch.setenv("FAKE_KEY", "another-secret-99")
    tract.outside.server = Server
    plan = {"entries": [{"content": "look", "status": "completed"}]}
    asks = call("c2", kind="execute", rawInput={"command": "touch a"})
    edit = writing()
    edit[1][1]["does"].append(["write", "new.py", "other"])
    first = [
        ["thought", "Hm."], ["text", f"The word is {SECRET}. "], ["update", "plan", plan], *edit,
        ["ask", {"call": asks}], ["text", "Both."],
    ]  # fmt: skip
    prompts = [first, [["text", "Why not?"]], [["write", "other.txt", "x"], ["text", "Again."]]]
    login = {"authenticates_with": {"FAKE_KEY": "key"}}
    agent = known(prompts=prompts, log=log.place, settings=login)
    tract.outside.use(agent, env=["LAKE", "FAKE_KEY"])
    user.answers = [("approve", {}), ("reject", {"reason": "no shell"})]
    events = []
    with tract.cassette.record(cassette):
        one = tract.chat("Do it.", agent=agent, on_turn=events.append)
        two = tract.chat("Once more.", agent=agent, on_turn=events.append)
        recorded = tract.cassette.report
    assert (one.text, two.text) == ("Why not?", "Again.")
    assert log.sent("session/new")[0]["mcpServers"] == []  # a replay could not repeat its calls
    assert SECRET not in cassette.read_text()
    lines = [json.loads(line) for line in cassette.read_text().splitlines()]
    ours = [line["messages"][0] for line in lines if line.get("for") == "outside"]
    assert [one["method"] for one in ours if "method" in one] == [
        "initialize", "authenticate", "session/new", "session/set_mode", "session/prompt", "session/prompt",
        "session/set_mode", "session/prompt",
    ]  # fmt: skip
    assert str(folder) not in str([one for one in ours if one.get("method") == "session/new"])

    assert ("Files changed without a request.", True) in notes(events)
    for name in ("new.py", "other.txt"):
        (folder / name).unlink()
    monkeypatch.delenv("FAKE_KEY")
    known(settings={"command": GONE, **login})
    user.answers = [("approve", {}), ("reject", {"reason": "no shell"})]
    responses, again, report = replayed("Do it.", "Once more.")
    assert [response.text for response in responses] == ["Why not?", "Again."]
    assert kinds(again) == kinds(events)
    assert notes(again) == notes(events)
    assert (report.requests, report.unused) == (recorded.requests, ())
    assert not list(folder.iterdir())  # a replay changes no file


def test_a_replay_gives_the_same_commits_and_refuses_another_message(
    known, tract, chat, cassette, replayed, folder, user
):
    agent = known(prompts=[[*writing(), ["text", "Written."]]])
    with tract.cassette.record(cassette):
        chat(agent)
    chat(agent, "Not recorded.")
    assert len(tract.outside.running) == 1
    known(settings={"command": GONE})
    _, _, report = replayed("Do it.")
    assert report.is_same
    with pytest.raises(CassetteError, match=r"recorded 'Do it\.', now 'Do that\.'"):
        replayed("Do that.")
    with pytest.raises(CassetteError, match="is not on the cassette"):
        replayed("Do it.", "And more.")
    user.rejects("no")
    with pytest.raises(CassetteError, match="recorded 'allow-once', now 'reject'"):
        replayed("Do it.")
    text = cassette.read_text()
    cassette.write_text(text.replace('["message",', '["massage",'))
    with pytest.raises(CassetteError, match="message of the agent on the cassette is damaged"):
        replayed("Do it.")


def test_stop_and_the_end_of_the_agent_are_replayed(known, tract, chat, cassette, replayed, folder):
    running = call("c1", status="in_progress", kind="execute", rawInput={"command": "sleep 9"})
    steps = [["text", "Wait."], ["call", running], ["write", "ready", ""], ["cancelled"]]
    agent = known(prompts=[steps])
    with tract.cassette.record(cassette):
        ended, _ = stopped_while(tract, agent, (folder / "ready").exists)
        assert ended == [TurnOutcome.STOPPED]
        known(prompts=[[["text", "So long."], ["stderr", "out of memory\n"], ["die", 1]]])
        with pytest.raises(OutsideAgentError, match="out of memory"):
            chat(agent, "Go on.")
    (folder / "ready").unlink()
    known(settings={"command": GONE})
    with Tract.open(replay=cassette) as other:
        assert other.chat("Do it.", agent="fake").outcome is TurnOutcome.STOPPED
        with pytest.raises(OutsideAgentError, match="out of memory"):
            other.chat("Go on.", agent="fake")
        assert other.cassette.report.is_same
