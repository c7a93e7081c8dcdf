"""After a restart, a script or a proposal has one request, in its usual form."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tests.review.fakes import FakeChannel, click
from tests.review.scripted import ScriptedClient, call, reply
from tests.scripts.rehearsals import rehearse_in
from tract_jupyter import Tract
from tract_jupyter.prompts import APPROVED_OTHER, BEGUN_BEFORE, END_UNKNOWN, UNSIGNED, refused
from tract_jupyter.rehearsal import Effects, VariableEffect
from tract_jupyter.review import process

SCRIPT = call("notebook_execute", {"code": "during()", "notebook_id": "user", "backend": "kernel"})
SANDBOX = call(
    "notebook_execute", {"code": "tools.commit(content={'content_type': 'freeform', 'payload': {}})"}
)
GO = {"code": "pending.approve()", "isolation": "kernel"}
WRITE = call("write", {"text": "a"})
CALLING = call(
    "notebook_execute", {"code": "tools.write(text='a')", "notebook_id": "user", "backend": "kernel"}
)
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

    def give(path, *replies, during=lambda: None, has_tool=True):
        tract = Tract.open(path)
        tracts.append(tract)
        if has_tool:

            @tract.tool
            def write(text: str) -> str:
                """Write a text."""
                return text

        tract.loop.tools = "full"
        tract.configure_llm(ScriptedClient(*replies))
        tract.scripts.notebooks.user_namespace = {"during": during, "tools": tract.tools}
        return tract

    yield give
    for tract in tracts:
        tract.close()


def copied(path, to):
    with closing(sqlite3.connect(path)) as store, closing(sqlite3.connect(to)) as copy:
        store.backup(copy)


def rehearses(tract, name, during=lambda: None):
    """Have the scripts of a tract rehearsed: the code binds a name, and calls `during`."""
    rehearser = rehearse_in(tract)
    tract.scripts.rehearsing.watch = lambda *_: None  # the fake saves no files
    rehearse, rehearser.default = (
        rehearser.rehearse,
        Effects(variables=(VariableEffect(name, "created", "", "int"),)),
    )

    def give(*args, **options):
        during()
        return rehearse(*args, **options)

    rehearser.rehearse = give


@pytest.fixture
def leave(opened, tmp_path, left):
    """Let a model make a call, and copy the store during its rehearsal, its request, its run or a request within it."""

    def keep(*_):
        copied(tmp_path / "t.db", left)

    def give(asked, when, binds=""):
        tract = opened(tmp_path / "t.db", reply(None, asked), "ok", during=keep if when == "running" else int)
        if binds:
            rehearses(tract, binds, keep if when == "rehearsing" else int)

        def answer(ticket):
            if when == "open" or (when == "within" and ticket.request.title == "Call tool write"):
                keep()
            click(ticket, "approve")

        tract.reviewer.channel = FakeChannel(answer, answer)
        assert tract.chat("Go.").text == "ok"

    return give


@pytest.fixture
def go_on(opened, left, monkeypatch):
    """Resume the turn after the kill, approve, and return the requests on display.

    `inbox` is an earlier decision in the inbox. `text` starts another turn instead. `saw` gets the answer of the call.
    """

    def give(binds="", inbox=(), text=None, saw=None, path=left, **options):
        name = f"{process.this_process()}2"
        monkeypatch.setattr(process, "_of", lambda _: name)  # simulate a new process
        tract = opened(path, "ok", **options)
        if binds:
            rehearses(tract, binds)
        if inbox:
            waiting = tract.review.inbox()[-1]
            tract.operations.rebuild(waiting).execute_tool(*inbox)
        tract.reviewer.channel = channel = FakeChannel(*[lambda ticket: click(ticket, "approve")] * 3)
        assert tract.chat(text).text == "ok"
        assert not tract.review.inbox()
        if saw is not None:
            saw += [one.content for one in tract.compile().messages if one.role == "tool"]
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


@pytest.mark.parametrize("inbox", [(), ("approve", {}), ("keep", {})])
def test_a_script_with_other_effects_takes_the_place_of_its_earlier_request(leave, go_on, inbox):
    leave(SCRIPT, "open", binds="a")
    (request,) = go_on(binds="b", inbox=inbox)
    assert request.title == RUN
    assert BEGUN_BEFORE not in request.why
    assert (APPROVED_OTHER in request.why) == bool(inbox)


def test_an_approval_in_the_inbox_counts_for_a_script_with_the_same_effects(leave, go_on):
    ran = []
    leave(SCRIPT, "open", binds="a")
    assert go_on(binds="a", inbox=("approve", {}), during=lambda: ran.append(1)) == []
    assert ran == [1]


@pytest.mark.parametrize("text", [None, "Never mind."])
def test_a_rejection_in_the_inbox_answers_the_call(leave, go_on, text):
    saw, ran = [], []
    leave(SCRIPT, "open", binds="a")
    shown = go_on(
        binds="b", inbox=("reject", {"reason": "too early"}), text=text, saw=saw, during=lambda: ran.append(1)
    )
    assert (shown, saw, ran) == ([], [refused("too early")], [])


@pytest.mark.parametrize("asked", [SCRIPT, WRITE, PROPOSAL])
def test_a_new_message_withdraws_the_request_of_an_ended_process(leave, go_on, asked):
    saw = []
    leave(asked, "open")
    assert go_on(text="Never mind.", saw=saw) == []
    assert saw[0].startswith("not run: the user")


@pytest.mark.parametrize("text", [None, "Never mind."])
def test_the_request_of_a_tool_that_is_gone_is_withdrawn(leave, go_on, text):
    leave(WRITE, "open")
    assert go_on(text=text, has_tool=False) == []


@pytest.mark.parametrize("text", [None, "Never mind."])
def test_the_requests_of_an_interrupted_script_and_its_call_are_withdrawn(leave, go_on, text):
    saw = []
    leave(CALLING, "within")
    titles = [request.title for request in go_on(text=text, saw=saw)]
    assert titles == ([] if text else [RUN, "Call tool write"])
    assert text is None or END_UNKNOWN in saw[0]


def test_an_approval_in_the_inbox_counts_for_the_call_of_an_interrupted_script(leave, go_on):
    leave(CALLING, "within")
    (request,) = go_on(inbox=("approve", {}))
    assert BEGUN_BEFORE in request.why


@pytest.mark.parametrize("text", [None, "Never mind."])
def test_a_rehearsal_that_was_interrupted_is_not_the_start_of_the_script(leave, go_on, text):
    saw = []
    leave(SCRIPT, "rehearsing", binds="a")
    assert not any(BEGUN_BEFORE in request.why for request in go_on(binds="a", text=text, saw=saw))
    assert END_UNKNOWN not in saw[0]


def test_an_interrupted_script_with_other_effects_has_one_request_with_a_warning(leave, go_on):
    leave(SCRIPT, "running", binds="a")
    (request,) = go_on(binds="b")
    assert BEGUN_BEFORE in request.why


def test_a_second_restart_keeps_the_warning(leave, go_on, left):
    leave(SCRIPT, "running", binds="a")
    again = left.with_name("again.db")
    go_on(binds="b", during=lambda: copied(left, again))
    (request,) = go_on(binds="c", path=again)
    assert BEGUN_BEFORE in request.why
