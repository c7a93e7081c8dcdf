"""A new channel is one async function. Its answers can give standing approvals and are recorded."""

from __future__ import annotations

import asyncio
import importlib
import sys
import threading

import pytest

from tests.review.rigging import project
from tract_jupyter import ActionDef, OperationSpec, Tract
from tract_jupyter.exceptions import NobodyToAskError
from tract_jupyter.models import PendingStatus
from tract_jupyter.review import (
    Answer,
    AsyncChannel,
    decision,
    personal_channel,
    recordable_decisions,
)

CHANNEL = '''
from tract_jupyter.review import Answer, personal_channel, request_text

posted, answers = [], []


@personal_channel("chat")
async def chat(request):
    """Ask in a chat."""
    posted.append(request_text(request))
    return answers.pop(0)
'''
SPEC = OperationSpec(
    "deploy", "Deploy it.", {"n": {"type": "int"}}, {"go": ActionDef("go", "", {}, "pending.approve()")}
)


@pytest.fixture(autouse=True)
def own_channels(monkeypatch):
    """Forget the channels that a test declares."""
    monkeypatch.setattr(decision, "_PERSONAL", set(decision._PERSONAL))


@pytest.fixture
def chat(tmp_path, monkeypatch):
    """The module of a one-file package that adds a channel."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "chat_channel.py").write_text(CHANNEL, encoding="utf-8")
    importlib.invalidate_caches()
    yield importlib.import_module("chat_channel")
    sys.modules.pop("chat_channel", None)


@pytest.fixture
def t():
    with Tract.open() as tract:
        tract.register_operation(SPEC)
        yield tract


def fired(t, n=1):
    return t.fire("deploy", {"n": n}, review=True)


def decided(t, channel, *, n=1):
    t.reviewer.channel = channel
    pending = fired(t, n)
    t.reviewer.decide_now(pending)
    return pending


def test_a_person_decides_over_it_by_their_name(t, chat):
    chat.answers.append(Answer("approve", decided_by="ada"))
    pending = decided(t, chat.chat)
    assert pending.status is PendingStatus.APPROVED
    assert (pending.decision.channel, pending.decision.decided_by) == ("chat", "ada")
    assert "deploy" in chat.posted[0]
    assert "pending.approve()" in chat.posted[0]


def test_an_approval_over_it_can_stand(t, chat):
    chat.answers.append(Answer("approve", {"scope": "session"}, decided_by="ada"))
    decided(t, chat.chat)
    assert len(t.review.grants.all()) == 1
    assert t.reviewer.granted(t.operations.registry.require_class("deploy")(tract=t, fields={"n": 1}))


def test_a_decision_over_it_is_recorded(t, chat):
    chat.answers.append(Answer("reject", {"reason": "not today"}, decided_by="ada"))
    decided(t, chat.chat)
    entries, left_out = recordable_decisions(t.reviewer.ledger, project(), since=None)
    assert [(entry.action, entry.decided_by, left_out) for entry in entries] == [("reject", "ada", 0)]


def test_an_undeclared_channel_gives_no_grants_and_records_nothing(t):
    notes = []

    async def robot(request):
        notes.append(request.note)
        return Answer("approve", {} if len(notes) > 1 else {"scope": "session"}, decided_by="ada")

    pending = decided(t, AsyncChannel(robot, "robot"))
    assert pending.status is PendingStatus.APPROVED
    assert "only the user can give a standing approval" in notes[1]
    assert t.review.grants.all() == []
    assert recordable_decisions(t.reviewer.ledger, project(), since=None).entries == []


@pytest.mark.parametrize("name", ["model", "handler", "grant", "recorded", "timeout", "dict", "tool", "call"])
def test_no_channel_takes_the_name_of_a_rule_or_a_model(name):
    before = decision.personal_channels()

    async def ask(request):
        return None

    with pytest.raises(ValueError, match=f"'{name}' is reserved for decisions of rules, models or code"):
        personal_channel(name)(ask)
    assert decision.personal_channels() == before


def test_an_answer_is_carried_out_even_if_no_code_waits(t):
    replies = asyncio.Queue()
    seen = []

    async def ask(request):
        seen.append(request.title)
        return Answer(await replies.get(), decided_by="ada")

    t.reviewer.channel = channel = AsyncChannel(ask, "chat")
    ticket = t.reviewer.show(fired(t))
    assert not ticket.settled.is_set()
    channel._loop.call_soon_threadsafe(replies.put_nowait, "go")
    assert ticket.settled.wait(20)
    assert ticket.status is PendingStatus.APPROVED
    assert len(seen) == 1


def test_a_decision_elsewhere_cancels_the_function(t):
    cancelled = threading.Event()

    async def ask(request):
        threading.Thread(target=pending.approve).start()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    t.reviewer.channel = AsyncChannel(ask, "chat")
    pending = fired(t)
    t.reviewer.decide_now(pending)
    assert pending.status is PendingStatus.APPROVED
    assert cancelled.wait(20)


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (None, "the channel 'chat' made no decision"),
        (ConnectionError("no network"), r"the channel 'chat' failed \(ConnectionError: no network\)"),
        (Answer("fly"), r"there is no action 'fly'; the actions are: go, approve, reject"),
        (Answer("go", {"speed": 3}), "the channel 'chat' made no decision"),
    ],
    ids=["nothing", "an error", "an unknown action", "refused each time"],
)
def test_without_an_answer_waiting_code_gets_an_error_and_the_request_stays_open(t, outcome, told):
    asked = []

    async def ask(request):
        asked.append(request)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    t.reviewer.channel = AsyncChannel(ask, "chat")
    pending = fired(t)
    with pytest.raises(NobodyToAskError, match=told):
        t.reviewer.decide_now(pending)
    assert pending.status is PendingStatus.PENDING
    assert len(t.review.inbox()) == 1
    assert len(asked) == (3 if isinstance(outcome, Answer) and outcome.arguments else 1)


def test_code_of_an_event_loop_waits_for_it(t):
    async def ask(request):
        return Answer("go", decided_by="ada")

    t.reviewer.channel = AsyncChannel(ask, "chat")
    pending = fired(t)
    made = asyncio.run(t.reviewer.decide(pending))
    assert (made.action, made.decided_by) == ("go", "ada")


def test_showing_a_request_works_if_the_channel_makes_no_decision(t):
    left = threading.Event()

    async def ask(request):
        left.set()

    class Late(AsyncChannel):
        def panel_may_answer(self, ticket, waited):
            """Answer after the function has ended, which is the worst moment."""
            assert left.wait(20)
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._loop).result(20)
            return super().panel_may_answer(ticket, waited)

    t.reviewer.channel = Late(ask, "chat")
    ticket = t.reviewer.show(fired(t))
    assert not ticket.settled.is_set()
    assert len(t.review.inbox()) == 1
