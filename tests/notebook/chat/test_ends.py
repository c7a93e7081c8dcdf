"""The row of a script at each end: its title, and who decided when."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from tests.review.fakes import FakeChannel, answering
from tests.review.scripted import ScriptedClient, call, reply
from tract_jupyter.concurrency import BY_PERSON
from tract_jupyter.llm import ActingCall
from tract_jupyter.loop import CallEnded, ReplyStored
from tract_jupyter.notebook.chat import TractSource, TurnLog, stored_view
from tract_jupyter.prompts import ended_running, not_run, refused
from tract_jupyter.review import Decision
from tract_jupyter.scripts import ScriptLimits, Scripts

STOP, EXPIRE = object(), object()
ENDS = {
    "ran": ("x = 1", "approve", "✓ Ran a script x = 1  you, TIME · SECONDS"),
    "changed": ("x = 1", {"code": "z = 7"}, "✓ Ran a script z = 7  changed · you, TIME · SECONDS"),
    "failed": (
        "1 / 0",
        "approve",
        "✗ Script failed: ZeroDivisionError: division by zero 1 / 0  you, TIME · SECONDS",
    ),
    "stopped while it ran": (
        "tools.halt()\nwhile True: pass",
        "approve",
        "■ Script stopped halt  you, TIME · SECONDS",
    ),
    "stopped at a limit of time": (
        "while True: pass",
        "approve",
        "■ Script stopped at its time limit while True: pass  you, TIME · SECONDS",
    ),
    "stopped before a decision": ("x = 1", STOP, "■ Script not run x = 1  stopped, TIME"),
    "rejected": ("x = 1", "Not that.", "✗ Rejected a script “Not that.”  you, TIME"),
    "rejected without a reason": ("x = 1", "", "✗ Rejected a script x = 1  you, TIME"),
    "expired": ("x = 1", EXPIRE, "■ Script not run x = 1  no decision by TIME"),
    "not Python": (
        "x =",
        None,
        "✗ Script failed: ScriptSyntaxError: the script is not valid Python: line 1: 'x =': invalid syntax. x =  SECONDS",
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_the_row_of_a_script_has_a_title_and_who_decided(talk, monkeypatch, end):
    code, answer, row = ENDS[end]

    @talk.tool(read_only=True)
    def halt() -> None:
        """Stop the turn."""
        talk.loop.stop()

    if answer is EXPIRE:
        talk.reviewer.timeout, talk.reviewer.on_timeout = 0.05, "deny"
    step = (lambda _: talk.loop.stop()) if answer is STOP else answering(answer)
    talk.reviewer.channel = FakeChannel(*([] if answer in (EXPIRE, None) else [step]))
    made = call("notebook_execute", {"code": code, "backend": "kernel"}, "c")
    talk.configure_llm(ScriptedClient(reply(None, made), "Done."))
    talk.loop.tools = "code"
    start = Scripts.prepare
    limits = ScriptLimits(seconds=0.5)
    monkeypatch.setattr(Scripts, "prepare", lambda *a, **given: start(*a, **{**given, "limits": limits}))
    log = TurnLog(TractSource(talk))
    talk.chat("Go", on_turn=log.add)
    for view in (log.view(), stored_view(talk)):
        shown = re.sub(r"\d\d:\d\d", "TIME", view.text().splitlines()[0])
        assert re.sub(r"\d+\.\d s", "SECONDS", shown) == row


ANSWERS = {
    "approved, then stopped": (not_run(BY_PERSON), 1, "approve", "■ Script not run x = 1  you, TIME"),
    "approved, then at a limit": (
        not_run("the limit of 3 calls is reached"),
        0,
        "approve",
        "■ Script not run: the limit of 3 calls is reached x = 1  you, TIME",
    ),
    "left while it ran": (ended_running(BY_PERSON), 1, "approve", "■ Script stopped x = 1  you, TIME"),
    "left at a limit": (ended_running("the time is over"), 1, "approve", "■ Script stopped x = 1  you, TIME"),
    "never asked": (not_run(BY_PERSON), 0, None, "■ Script not run x = 1"),
    "unknown argument": (
        "'seconds' is unknown.",
        0,
        None,
        "■ Script not run: 'seconds' is unknown. x = 1",
    ),
    "rejected": (refused("no"), 1, "reject", "✗ Rejected a script x = 1  you, TIME"),
}


@pytest.mark.parametrize("end", ANSWERS)
def test_the_row_of_a_script_says_that_it_did_not_run_or_was_left(end):
    text, made, action, row = ANSWERS[end]
    decision = Decision(action, {}, "panel", "f") if action else None
    asked = SimpleNamespace(operation="run_script", decision=decision) if action else None
    log = TurnLog(SimpleNamespace(asked=lambda _: asked, waited=lambda _: None))
    log.add(ReplyStored("", "", calls=(ActingCall("c", "notebook_execute", {"code": "x = 1"}),)))
    log.add(CallEnded("c", text, is_error=True, made=made, asked=("p",)))
    shown = log.view().text().splitlines()[0]
    assert re.sub(r"\d\d:\d\d", "TIME", shown).rstrip() == row
