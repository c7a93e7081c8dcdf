"""The store alone cannot start a call: unsigned calls of a stored reply need approval."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from tests.review.fakes import FakeChannel, click
from tests.review.scripted import ScriptedClient, call, reply
from tract_jupyter import Tract
from tract_jupyter.exceptions import TrustError
from tract_jupyter.prompts import UNSIGNED
from tract_jupyter.review import Answer
from tract_jupyter.toolkit import Permission

SEND, NOTE, LOOK = call("send", {"to": "Bo"}, "c1"), call("note", {"text": "n"}, "c2"), call("look", {}, "c3")
SENDS_INSTEAD = """UPDATE commits SET metadata_json =
    replace(replace(metadata_json, '{"text":"n"}', '{"to":"Bo"}'), '"name":"note"', '"name":"send"')
    WHERE metadata_json LIKE '%"note"%'"""
NO_RECORD = "DELETE FROM script_calls"
FORGED = "UPDATE script_calls SET signature = replace(hex(zeroblob(32)), '0', 'a')"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "t.db"


@pytest.fixture
def done():
    return []


@pytest.fixture
def opened(path, done):
    """Open the same store repeatedly, with a model and its tools."""
    tracts = []

    def give(*replies, at=path):
        tract = Tract.open(at)
        tracts.append(tract)

        @tract.tool(read_only=True)
        def look() -> str:
            """Look outside."""
            done.append("look")
            return "sunny"

        @tract.tool
        def send(to: str) -> str:
            """Send a mail."""
            done.append(f"send {to}")
            return "sent"

        @tract.tool
        def note(text: str) -> str:
            """Write a note."""
            done.append(f"note {text}")
            return "noted"

        tract.loop.tools = "self"
        tract.configure_llm(ScriptedClient(*replies))
        return tract

    yield give
    for tract in tracts:
        tract.close()


@pytest.fixture
def left(opened):
    """Leave a turn whose reply makes calls; one of them waits for a decision."""

    def give(*calls):
        with opened(reply(None, *calls)) as tract:
            assert tract.chat("Go.").outcome == "waiting"

    return give


def write_into(path, statement):
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute(statement).rowcount > 0
        connection.commit()


def rows(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT count(*) FROM script_calls").fetchone()[0]


def allowing_all(tract):
    tract.executor.permission = lambda tool, actor: Permission.ALLOW


def test_an_unfinished_turn_continues_if_the_store_is_unchanged(opened, left, path, done):
    left(NOTE)
    assert rows(path) == 2  # the signed calls, and the request
    tract = opened("ok")
    allowing_all(tract)
    assert tract.chat(None).text == "ok"
    assert done == ["note n"]
    assert rows(path) == 0


@pytest.mark.parametrize("statement", [SENDS_INSTEAD, NO_RECORD, FORGED])
def test_an_unsigned_call_needs_approval_even_if_everything_is_allowed(opened, left, path, done, statement):
    left(NOTE)
    write_into(path, statement)
    tract = opened("ok")
    allowing_all(tract)
    tract.reviewer.channel = channel = FakeChannel(lambda ticket: click(ticket, "reject", reason="not mine"))
    assert tract.chat(None).text == "ok"
    assert done == []
    (request,) = [request for request, status in channel.shown if status == "pending"]
    assert UNSIGNED in request.why
    assert rows(path) == 0


def test_a_standing_approval_does_not_cover_an_unsigned_call(opened, left, path, done):
    with opened(reply(None, SEND), "ok") as tract:
        tract.reviewer.channel = FakeChannel(
            lambda ticket: ticket.submit(Answer("approve", {"scope": "always"}, ticket.round_id), "panel")
        )
        tract.chat("Send it.")
    left(NOTE)
    write_into(path, SENDS_INSTEAD)
    assert opened("ok").chat(None).outcome == "waiting"
    assert done == ["send Bo"]


def test_an_unsigned_read_only_call_needs_approval(opened, left, path, done):
    left(NOTE)
    write_into(path, SENDS_INSTEAD.replace('"name":"send"', '"name":"look"').replace('{"to":"Bo"}', "{}"))
    assert opened("ok").chat(None).outcome == "waiting"
    assert done == []


def test_no_signed_rows_remain_for_answered_calls(opened, path, done):
    tract = opened(reply(None, LOOK), reply(None, NOTE, SEND), "ok")
    allowing_all(tract)
    assert tract.chat("Go.").text == "ok"
    assert done == ["look", "note n", "send Bo"]
    assert rows(path) == 0


def test_read_only_calls_run_even_if_signing_fails(opened, monkeypatch, done):
    tract = opened(reply(None, LOOK), "ok")
    signer = type(tract.review.signer)

    def refuse(*_):
        raise TrustError("the signing secret cannot be made")

    monkeypatch.setattr(signer, "sign", refuse)
    assert tract.chat("Go.").text == "ok"
    assert done == ["look"]


def other_calls(path, change):
    """Change the list of calls of the stored reply, as another program would."""
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT commit_hash, metadata_json FROM commits WHERE metadata_json LIKE '%tool_calls%'"
        ((commit, text),) = connection.execute(query).fetchall()
        said = json.loads(text)
        said["tool_calls"] = change(said["tool_calls"])
        update = "UPDATE commits SET metadata_json = ? WHERE commit_hash = ?"
        connection.execute(update, (json.dumps(said), commit))
        connection.commit()


@pytest.mark.parametrize(
    "change",
    [
        lambda both: both[::-1],
        lambda both: [both[0], both[0], both[1]],
        lambda both: [*both, {**both[0], "id": "c3"}],
    ],
    ids=["another order", "one twice", "one more"],
)
def test_calls_are_signed_together(opened, left, path, done, change):
    left(SEND, NOTE)
    other_calls(path, change)
    tract = opened("ok")
    allowing_all(tract)
    assert tract.chat(None).outcome == "waiting"
    assert done == []


def test_a_call_with_an_unknown_outcome_needs_approval_until_it_is_decided(tmp_path, opened, path, done):
    """Even if the next call has run in the meantime."""
    killed = tmp_path / "killed.db"

    def kill():
        with closing(sqlite3.connect(path)) as store, closing(sqlite3.connect(killed)) as copy:
            store.backup(copy)

    notes = [call("note", {"text": text}, text) for text in "abc"]
    with opened(reply(None, *notes), "ok") as tract:
        allowing_all(tract)
        tract.loop.carry_out = lambda asked, make: (kill() if asked.id == "b" else None) or make()
        tract.chat("Go.")
    done.clear()
    for made in (["note c"], []):
        with opened("ok", at=killed) as tract:
            allowing_all(tract)
            assert tract.chat(None).outcome == "waiting"
            assert done == made
        done.clear()
