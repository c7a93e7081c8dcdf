"""The row of a script after each kind of end: its title, and the decision with its time."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import SimpleNamespace

import pytest

from tests.review.fakes import FakeChannel, answering
from tests.review.scripted import ScriptedClient, call, reply
from tract_jupyter.concurrency import BY_PERSON
from tract_jupyter.loop import CallEnded, ReplyStored, TurnEnded
from tract_jupyter.models import ToolCall, TurnOutcome
from tract_jupyter.notebook.chat import AskedQuestion, TractSource, TurnLog, stored_view
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
def test_the_row_of_a_script_has_a_title_and_the_decision(talk, monkeypatch, end):
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
    limits = ScriptLimits(seconds=0.5 if end == "stopped at a limit of time" else 100)
    monkeypatch.setattr(Scripts, "prepare", lambda *a, **given: start(*a, **{**given, "limits": limits}))
    log = TurnLog(TractSource(talk))
    talk.chat("Go", on_turn=log.add)
    for view in (log.view(), stored_view(talk)):
        shown = re.sub(r"\d\d:\d\d", "TIME", view.to_text().splitlines()[0])
        assert re.sub(r"\d+\.\d s", "SECONDS", shown) == row


LEFT = "■ Script stopped; its last call may still be running x = 1  you, TIME"
ANSWERS = {
    "approved, then stopped": (not_run(BY_PERSON), 1, "approve", "■ Script not run x = 1  you, TIME"),
    "approved, then at a limit": (
        not_run("the limit of 3 calls is reached"),
        0,
        "approve",
        "■ Script not run: the limit of 3 calls is reached x = 1  you, TIME",
    ),
    "left while it ran": (ended_running(BY_PERSON), 1, "approve", LEFT),
    "left at a limit": (ended_running("the time is over"), 1, "approve", LEFT),
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
def test_the_row_of_a_script_says_that_it_did_not_run_or_still_blocks(end):
    text, made, action, row = ANSWERS[end]
    decision = Decision(action, {}, "panel", "f") if action else None
    asked = AskedQuestion("p", "", "run_script", {}, decision) if action else None
    log = TurnLog(SimpleNamespace(asked=lambda _: asked))
    log.add(ReplyStored("", "", calls=(ToolCall("c", "notebook_execute", {"code": "x = 1"}),)))
    log.add(CallEnded("c", text, is_error=True, made=made, asked=("p",)))
    shown = log.view().to_text().splitlines()[0]
    assert re.sub(r"\d\d:\d\d", "TIME", shown).rstrip() == row


BLOCKED = "thread.start()\nbegan.set()\ngo.wait(20)\nb = 2\ntools.send(to='x')"
CATCHES = "thread.start()\nbegan.set()\ntry:\n    go.wait(20)\nexcept BaseException: pass\ntools.send(to='x')\nb = 2"


class Blocked:
    """A chat whose approved script was stopped, and still waits in a blocking call."""

    def __init__(self, talk, code):
        self.talk, self.log = talk, TurnLog(TractSource(talk))
        self.began, self.go, self.over = threading.Event(), threading.Event(), threading.Event()
        self.names = talk.scripts.notebooks.namespace("main")
        self.starts = threading.Event()
        self.thread = threading.Thread(target=self._call, daemon=True)
        self.names.update(began=self.began, go=self.go, thread=self.thread)
        self.code, self.own = code, talk.scripts._recorded
        talk.scripts._recorded = self._recorded
        talk.loop.tools = "code"

    def _recorded(self, run):
        result = self.own(run)
        if run.script.code == self.code:
            self.over.set()
        return result

    def _call(self):
        self.starts.wait(10)
        with suppress(BaseException):
            self.talk.tools.send(to="x")

    def stop(self, pool):
        turn = pool.submit(self.chat, self.code, self.log)
        assert self.began.wait(10)
        self.talk.loop.stop()
        assert turn.result(10).outcome == "stopped"

    def chat(self, code, log=None):
        made = call("notebook_execute", {"code": code, "backend": "kernel"}, f"c{len(code)}")
        self.talk.configure_llm(ScriptedClient(reply(None, made), "Done."))
        self.talk.reviewer.channel = FakeChannel(answering("approve"))
        return self.talk.chat("Go", on_turn=None if log is None else log.add)

    def end(self):
        self.go.set()
        assert self.over.wait(10)


@pytest.fixture
def blocked(talk, request):
    one = Blocked(talk, getattr(request, "param", BLOCKED))
    with ThreadPoolExecutor(1) as pool:
        one.stop(pool)
        yield one
        one.starts.set()
        one.go.set()


def test_the_next_turn_runs_its_script_while_a_stopped_script_still_blocks(blocked):
    log = TurnLog(TractSource(blocked.talk))
    with ThreadPoolExecutor(1) as pool:
        pool.submit(blocked.chat, "c = 3", log).result(10)
    assert log.view().to_text().splitlines()[0].startswith("✓ Ran a script c = 3")
    assert blocked.names["c"] == 3


@pytest.mark.parametrize("blocked", [BLOCKED, CATCHES], indirect=True)
def test_a_script_that_was_left_does_nothing_when_its_call_returns(blocked, done):
    blocked.starts.set()
    blocked.thread.join(10)  # no code of the script is on its stack any more
    blocked.end()
    assert (done, "b" in blocked.names) == ([], False)
    assert blocked.talk.events("script")[-1].data["status"] == "interrupted"


def test_a_script_that_was_left_is_named_and_waits_for_nothing(blocked):
    row = blocked.log.view().to_text().splitlines()[0]
    assert row.startswith("■ Script stopped; its last call may still be running")
    review = blocked.talk.review
    assert (review.inbox(), review.ledger.count_waiting()) == ([], 0)
    blocked.end()
    assert (review.inbox(), review.ledger.count_waiting()) == ([], 0)


def test_a_turn_that_failed_before_any_work_does_not_mention_completed_work(chat, talk):
    log = TurnLog(TractSource(talk))
    log.set(go_on="%%tract_chat")
    log.add(TurnEnded(TurnOutcome.ERROR, "The program 'claude-agent-acp' was not found."))
    (note,) = log.view().parts
    assert note.said == "The program 'claude-agent-acp' was not found. %%tract_chat continues the turn."
    log = chat("Hi", reply("Hello.", call("status")), reply("Bye."))
    log.add(TurnEnded(TurnOutcome.ERROR, "The connection was lost"))
    assert "The connection was lost. Completed work stays. " in log.view().parts[-1].said
