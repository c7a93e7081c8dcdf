"""Agents in the rows of a running turn: their work, their requests and their results."""

from __future__ import annotations

import threading

import pytest

from tests.review.scripted import call, reply
from tract_jupyter.notebook.agents import AgentWatch, drawn_tree
from tract_jupyter.notebook.chat import TractSource, TurnLog
from tract_jupyter.notebook.views import fragment
from tract_jupyter.review import Answer, Channel


class Board:
    """A display of a turn that stores its content at each request."""

    def __init__(self, log):
        self.log = log

    def take(self, event):
        self.log.add(event)

    def stir(self):
        pass


class Person(Channel):
    """Rejects messages to `bob`, and stores the view of the turn and the tree at each request."""

    name = "person"

    def __init__(self, board, watch):
        self.board, self.follows = board, watch
        self.seen = {}

    def can_reach(self):
        return True

    def panel_may_answer(self, ticket, waited):
        return True

    def show(self, ticket):
        if not ticket.status.is_open:
            self.board.log.refresh()
            return
        self.board.log.show(ticket)
        to = ticket.pending.fields["to"]
        self.seen[to] = (self.board.log.view(), drawn_tree(self.follows))
        given = (
            Answer("reject", {"reason": "not him"}, ticket.round_id)
            if to == "bob"
            else Answer("approve", {}, ticket.round_id)
        )
        ticket.submit(given, self.name)


@pytest.fixture
def worked(talk):
    """Run two agents at once in a turn; return the log, and the user with the displayed views."""
    lock = threading.Lock()
    said = {
        "boss": [
            reply(None, call("agent_call", {"agent": "a", "input": "to ada"}, "c1"), call("agent_call", {"agent": "b", "input": "to bob"}, "c2")),
            "Both tried.",
        ],
        "A": [reply("I send.", call("send", {"to": "ada"})), "Sent."],
        "B": [reply("I send, too.", call("send", {"to": "bob"})), "Then not."],
    }  # fmt: skip

    def model(messages, **_options):
        told = [one["content"] for one in messages if one["role"] == "system"]
        with lock:
            given = said[told[0][0] if told else "boss"].pop(0)
        return reply(given) if isinstance(given, str) else given

    talk.models.use(model)
    talk.agents.create("a", "A sends.", "Sends.", tools=["send"])
    talk.agents.create("b", "B sends.", "Sends.", tools=["send"])
    watch = AgentWatch(talk)
    log = TurnLog(TractSource(talk))
    board = Board(log)
    person = talk.reviewer.channel = Person(board, watch)
    with watch.shown_on(board):
        talk.chat("go", tools="agents", on_turn=board.take)
    yield log, person, watch
    watch.close()


def part_of(view, agent):
    return next(part for part in view.parts if getattr(part, "work", ()) and part.work[-1].agent == agent)


def test_a_request_is_shown_below_the_agent_that_asks(worked):
    _, person, _ = worked
    for agent, to in (("a", "ada"), ("b", "bob")):
        view, tree = person.seen[to]
        part = part_of(view, agent)
        assert [one.ticket.pending.fields["to"] for one in part.questions] == [to]
        assert (part.work[-1].state, part.work[-1].waits) == ("waiting", 1)
        line = next(one for one in tree.lines if one.name == agent)
        assert line.word == "asks"
        assert not tree.is_over
        assert tree.foot().actions == ("stop",)


def test_the_row_of_an_agent_has_its_calls_and_their_results(worked):
    log, _, watch = worked
    view = log.view()
    sent, refused = part_of(view, "a"), part_of(view, "b")
    assert "Sent." in sent.text()
    assert "Rejected send" in refused.text()
    assert "“not him”" in refused.text()
    assert "Then not." in fragment(refused.row(1_000).body)
    assert refused.work[-1].took == "2 requests, 0 calls, 24 tokens"
    (asked,) = refused.questions
    assert asked.asked.what == "Call tool send (b)"
    tree = drawn_tree(watch)
    assert tree.is_over
    assert [line.word for line in tree.lines] == ["answered", "answered"]
