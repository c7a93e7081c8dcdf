"""The user chooses another call instead of the model's: it becomes a separate request."""

from __future__ import annotations

import pytest

from tests.agents.cast import Person
from tests.orchestrator.conftest import annotate, compress, thinks, told
from tests.review.fakes import click
from tests.review.scripted import call
from tract_jupyter import ProposalResponse
from tract_jupyter.models import ToolCall
from tract_jupyter.review import Answer, needed_pieces

LONG = "harmless " * 380 + "AND THE SECRET"


@pytest.fixture
def sent(full):
    """The arguments of each call of a destructive tool."""
    calls = []

    @full.tool(destructive=True)
    def send(text: str, where: str = "") -> str:
        """Send a text."""
        calls.append((text, where))
        return "sent"

    return calls


def alternatives(**arguments):
    return [{"name": "send", "arguments": arguments, "why": "it is better"}]


def shown(request):
    return "".join(piece.text for piece in needed_pieces(request))


def call_with(name, given):
    return lambda **more: call(name, {**given, **more}, "c1")


def rule(*answers):
    """Give the answers in order, one per request."""
    left = list(answers)
    return lambda pending: left.pop(0)


def choose(ticket):
    assert click(ticket, "choose", number=1)


LEVELS = ("collaborative", "autonomous")


@pytest.mark.parametrize("level", LEVELS)
def test_the_request_for_a_chosen_call_shows_all_its_values(full, orchestrator, sent, level):
    first = call_with("send", {"text": "short"}) if level == "autonomous" else compress
    made = orchestrator(
        thinks(None, first(alternatives=alternatives(text=LONG, where="evil.example"))), "Good.",
        autonomy_ceiling=level,
    )  # fmt: skip
    full.autonomy.ceiling = level
    requests = []

    def look(ticket):
        requests.append(ticket.request)
        ticket.submit(
            Answer("approve", {}, ticket.round_id, seen=frozenset()), "fake"
        )  # the request was not displayed
        assert sent == []
        click(ticket, "reject", reason="no")

    full.reviewer.channel = person = Person(rule(choose, look))
    result = made.run()
    assert person.titles[1] == "Call tool send"
    assert LONG in shown(requests[0])
    assert "evil.example" in shown(requests[0])
    assert sent == []
    assert (result.steps[0].tool_call.name, result.steps[0].decision) == ("send", "rejected")
    assert told(made)[0].endswith("That call did not run either: no")
    assert [one.action for one in full.review.decisions()] == ["reject", "choose"]


def test_an_approval_of_the_chosen_call_is_signed_for_that_call(full, orchestrator, sent):
    made = orchestrator(thinks(None, compress(alternatives=alternatives(text=LONG))), "Good.")
    full.reviewer.channel = person = Person(rule(choose, "approve"))
    result = made.run()
    assert sent == [(LONG, "")]
    assert "it is better" in str(person.shown[-1][0].tables)
    approved, _ = full.review.decisions()
    assert (approved.action, approved.fingerprint) == ("approve", person.questions[1].fingerprint)
    assert (result.steps[0].decision, full.review.inbox()) == ("modified", [])


def test_the_values_of_the_chosen_call_can_be_changed(full, orchestrator, sent):
    made = orchestrator(thinks(None, compress(alternatives=alternatives(text=LONG))), "Good.")
    full.reviewer.channel = Person(rule(choose, {"text": "short"}))
    events = []
    made.run(on_turn=events.append)
    assert sent == [("short", "")]
    (ended,) = [one for one in events if type(one).__name__ == "CallEnded"]
    assert ended.instead == {"name": "send", "arguments": {"text": "short", "where": ""}}


def test_the_model_s_call_can_be_chosen_again(full, orchestrator, sent):
    made = orchestrator(thinks(None, compress(alternatives=alternatives(text="x"))), "Good.")
    full.reviewer.channel = person = Person(rule(choose, choose, "approve"))
    result = made.run()
    assert person.titles == ["Call tool compress", "Call tool send", "Call tool compress"]
    assert (result.steps[0].tool_call.name, sent) == ("compress", [])


def test_choosing_without_end_ends_the_call(full, orchestrator, sent):
    made = orchestrator(thinks(None, compress(alternatives=alternatives(text="x"))), "Good.")
    full.reviewer.channel = person = Person(lambda _: choose)
    made.run()
    assert len(person.questions) == 9
    assert "chosen too many times" in told(made)[0]
    assert sent == []


def test_an_agent_that_was_chosen_shows_its_instructions(full, orchestrator):
    given = {"name": "checker", "description": "Checks.", "instructions": "Look well. " * 250}
    other = [{"name": "agent_create", "arguments": given}]
    made = orchestrator(thinks(None, compress(alternatives=other)), "Good.", profile="agents")
    full.reviewer.channel = person = Person(rule(choose, "no"))
    made.run()
    assert person.titles[1] == "Create agent checker"
    assert "Look well. " * 250 in shown(person.shown[-2][0])


def test_a_function_is_asked_about_the_call_that_it_chose(full, orchestrator, sent):
    seen = []

    def decide(proposal):
        seen.append((proposal.recommended_action.name, proposal.recommended_action.arguments))
        if proposal.recommended_action.name == "send":
            return ProposalResponse("rejected", reason="not that")
        return ProposalResponse("modified", proposal.alternatives[0])

    made = orchestrator(
        thinks(None, compress(alternatives=alternatives(text=LONG))), "Good.", on_proposal=decide
    )
    made.run()
    assert [name for name, _ in seen] == ["compress", "send"]
    assert seen[1][1] == {"text": LONG, "where": ""}
    assert sent == []
    assert "not that" in told(made)[0]


def test_a_function_that_chooses_without_end_is_stopped(full, orchestrator):
    flip = {"compress": ToolCall("x", "branch", {"name": "tidy"}), "branch": ToolCall("x", "compress", {})}
    made = orchestrator(
        thinks(None, compress()), "Good.",
        on_proposal=lambda p: ProposalResponse("modified", flip[p.recommended_action.name]),
    )  # fmt: skip
    made.run()
    assert "chosen too many times" in told(made)[0]


def test_an_undecided_chosen_call_waits_and_does_not_run(full, orchestrator, sent):
    made = orchestrator(thinks(None, compress(alternatives=alternatives(text="x"))), "Good.")

    def leave(ticket):
        full.reviewer.channel.reachable = False
        made.stop()

    full.reviewer.channel = person = Person(rule(choose, leave))
    made.run()
    assert sent == []
    assert person.questions[1].title == "Call tool send"


def test_a_chosen_call_of_an_unknown_tool_is_reported_to_the_model(full, orchestrator):
    other = [{"name": "no_such_tool", "arguments": {}}]
    made = orchestrator(thinks(None, compress(alternatives=other)), "Good.")
    full.reviewer.channel = person = Person(rule(choose))
    made.run()
    assert len(person.questions) == 1
    assert "That call did not run either" in told(made)[0]


def test_a_session_approval_covers_the_chosen_call(full, orchestrator, sent):
    def for_session(ticket):
        ticket.submit(Answer("approve", {"scope": "session"}, ticket.round_id, decided_by="ada"), Person.name)

    made = orchestrator(
        thinks(None, call_with("send", {"text": "x"})()),
        thinks(None, compress(call_id="c2", alternatives=alternatives(text="x"))),
        "Good.",
    )
    full.reviewer.channel = person = Person(rule(for_session, choose))
    made.run()
    assert len(person.questions) == 2
    assert sent == [("x", ""), ("x", "")]


def test_an_alternative_allowed_at_the_level_needs_no_second_request(full, orchestrator):
    other = [{"name": "log", "arguments": {"limit": 1}}]
    made = orchestrator(thinks(None, annotate("HEAD", "skip", alternatives=other)), "Good.")
    full.reviewer.channel = person = Person(rule(choose))
    result = made.run()
    assert len(person.questions) == 1
    assert (result.steps[0].tool_call.name, result.steps[0].result.success) == ("log", True)
