"""A channel of somebody else's is one file: what a person answers over it can stand, and is recorded."""

from __future__ import annotations

import importlib
import sys

import pytest

from tests.review.rigging import project
from tract_jupyter import ActionDef, OperationSpec, Tract
from tract_jupyter.models import PendingStatus
from tract_jupyter.review import NoChannel, decision, personal_channel, recordable_decisions

CHANNEL = '''
from tract_jupyter.review import Answer, NoChannel, personal_channel


@personal_channel
class ChatChannel(NoChannel):
    """Asks in a chat; the answer comes from whoever writes there."""

    name = "chat"

    def __init__(self):
        self.asked = {}

    def can_reach(self):
        return True

    def panel_may_answer(self, ticket, waited):
        return True

    def show(self, ticket):
        self.asked[ticket.pending.pending_id] = ticket

    def answered(self, pending_id, action, by, **arguments):
        ticket = self.asked[pending_id]
        return ticket.submit(Answer(action, arguments, ticket.round_id, decided_by=by), self.name)
'''
SPEC = OperationSpec(
    "deploy", "Deploy it.", {"n": {"type": "int"}}, {"go": ActionDef("go", "", {}, "pending.approve()")}
)


@pytest.fixture
def make_channel(tmp_path, monkeypatch):
    """Give the class of a channel that a package in one file adds."""
    monkeypatch.setattr(decision, "_PERSONAL", set(decision._PERSONAL))
    monkeypatch.syspath_prepend(tmp_path)
    yield lambda text: _imported(tmp_path, text)
    sys.modules.pop("chat_channel", None)


def _imported(folder, text):
    (folder / "chat_channel.py").write_text(text, encoding="utf-8")
    importlib.invalidate_caches()
    return importlib.import_module("chat_channel").ChatChannel()


@pytest.fixture
def t():
    with Tract.open() as tract:
        tract.register_operation(SPEC)
        yield tract


def asked(t, channel, n):
    t.reviewer.channel = channel
    pending = t.fire("deploy", {"n": n}, review=True)
    t.reviewer.show(pending)
    return pending


def test_a_person_decides_over_it_by_their_name(t, make_channel):
    channel = make_channel(CHANNEL)
    pending = asked(t, channel, 1)
    assert channel.answered(pending.pending_id, "approve", "ada")
    assert pending.status is PendingStatus.APPROVED
    assert (pending.decision.channel, pending.decision.decided_by) == ("chat", "ada")


def test_what_is_approved_over_it_can_stand(t, make_channel):
    channel = make_channel(CHANNEL)
    channel.answered(asked(t, channel, 1).pending_id, "approve", "ada", scope="session")
    assert len(t.review.grants.all()) == 1
    assert t.fire("deploy", {"n": 1}, review=True).status is PendingStatus.PENDING  # that is asked for
    assert t.reviewer.granted(t.operations.registry.require_class("deploy")(tract=t, fields={"n": 1}))


def test_what_is_decided_over_it_is_recorded(t, make_channel):
    channel = make_channel(CHANNEL)
    channel.answered(asked(t, channel, 1).pending_id, "reject", "ada", reason="not today")
    entries, left_out = recordable_decisions(t.reviewer.ledger, project(), since=None)
    assert [(entry.action, entry.decided_by, left_out) for entry in entries] == [("reject", "ada", 0)]


def test_without_the_decorator_it_decides_once_and_nothing_of_it_stands_or_is_recorded(t, make_channel):
    channel = make_channel(CHANNEL.replace("@personal_channel\n", ""))
    first, second = asked(t, channel, 1), asked(t, channel, 2)
    channel.answered(first.pending_id, "approve", "ada", scope="session")
    channel.answered(second.pending_id, "approve", "ada")
    assert (first.status, second.status) == (PendingStatus.PENDING, PendingStatus.APPROVED)
    assert "only a person gives a standing approval" in channel.asked[first.pending_id].request.note
    assert t.review.grants.all() == []
    assert recordable_decisions(t.reviewer.ledger, project(), since=None).entries == []


@pytest.mark.parametrize("name", ["model", "handler", "grant", "recorded", "timeout", "dict", "tool", "call"])
def test_no_channel_takes_the_name_of_a_rule_or_a_model(name):
    before = decision.personal_channels()
    with pytest.raises(ValueError, match=f"'{name}' is not a name for a person's channel"):
        personal_channel(type("Channel", (NoChannel,), {"name": name}))
    assert decision.personal_channels() == before
