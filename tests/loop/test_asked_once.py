"""After a restart, a script or a proposal has one request, in its usual form."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tests.review.fakes import FakeChannel, click
from tests.review.scripted import ScriptedClient, call, reply
from tract_jupyter import Tract
from tract_jupyter.prompts import BEGUN_BEFORE, UNSIGNED
from tract_jupyter.review import process

SCRIPT = call("notebook_execute", {"code": "during()", "notebook_id": "user", "backend": "kernel"})
SANDBOX = call(
    "notebook_execute", {"code": "tools.commit(content={'content_type': 'freeform', 'payload': {}})"}
)
GO = {"code": "pending.approve()", "isolation": "kernel"}
PROPOSAL = call("propose_operation", {"name": "note", "actions": {"go": GO}})
RUN, ACTIVATE = "Run a script in the kernel, with your variables", "Activate operation note"
NO_RECORD = "DELETE FROM script_calls"


@pytest.fixture
def left(tmp_path):
    """The path of the store that a killed process left."""
    return tmp_path / "left.db"


@pytest.fixture
def opened(tmp_path, left):
    """Open a store, with a model; the code of its scripts calls `during`."""
    tracts = []

    def give(path, *replies, during=lambda: None):
        tract = Tract.open(path)
        tracts.append(tract)
        tract.loop.tools = "full"
        tract.configure_llm(ScriptedClient(*replies))
        tract.scripts.notebooks.user_namespace = {"during": during}
        return tract

    yield give
    for tract in tracts:
        tract.close()


@pytest.fixture
def leave(opened, tmp_path, left):
    """Let a model make a call, and copy the store while its request is open, or while the call runs."""

    def keep(*_):
        with closing(sqlite3.connect(tmp_path / "t.db")) as store, closing(sqlite3.connect(left)) as copy:
            store.backup(copy)

    def give(asked, when):
        tract = opened(tmp_path / "t.db", reply(None, asked), "ok", during=keep if when == "running" else int)

        def answer(ticket):
            if when == "open":
                keep()
            click(ticket, "approve")

        tract.reviewer.channel = FakeChannel(answer)
        assert tract.chat("Go.").text == "ok"

    return give


@pytest.fixture
def go_on(opened, left, monkeypatch):
    """Resume the turn after the kill, approve, and return the requests on display."""

    def give():
        name = f"{process.this_process()}2"
        monkeypatch.setattr(process, "_of", lambda _: name)  # simulate a new process
        tract = opened(left, "ok")
        tract.reviewer.channel = channel = FakeChannel(*[lambda ticket: click(ticket, "approve")] * 3)
        assert tract.chat(None).text == "ok"
        return [request for request, status in channel.shown if status == "pending"]

    return give


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "title"), [(SCRIPT, RUN), (PROPOSAL, ACTIVATE)])
def test_a_request_that_was_open_is_shown_once_in_its_usual_form(leave, go_on, asked, title):
    leave(asked, "open")
    (request,) = go_on()
    assert request.title == title
    assert BEGUN_BEFORE not in request.why


def test_an_interrupted_script_has_one_request_with_a_warning(leave, go_on):
    leave(SCRIPT, "running")
    (request,) = go_on()
    assert request.title == RUN
    assert BEGUN_BEFORE in request.why


@pytest.mark.parametrize(("asked", "title"), [(SCRIPT, RUN), (PROPOSAL, ACTIVATE)])
def test_an_unsigned_reply_has_one_request_with_a_warning(leave, go_on, left, asked, title):
    leave(asked, "open")
    with closing(sqlite3.connect(left)) as store:
        store.execute(NO_RECORD)
        store.commit()
    (request,) = go_on()
    assert request.title == title
    assert UNSIGNED in request.why


def test_an_unsigned_sandbox_script_is_requested_as_a_tool_call(leave, go_on, left):
    leave(SANDBOX, "open")
    with closing(sqlite3.connect(left)) as store:
        store.execute(NO_RECORD)
        store.commit()
    request, *_ = go_on()
    assert request.title == "Call tool notebook_execute"
    assert UNSIGNED in request.why
