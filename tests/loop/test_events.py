"""`on_turn`: observers see the events of a turn, and the store returns the same events afterwards."""

from __future__ import annotations

import pytest

from tests.review.scripted import call, reply
from tract_jupyter.exceptions import ContentError, LLMError
from tract_jupyter.loop import (
    CallAsked,
    CallBegan,
    CallEnded,
    ReplyPiece,
    ReplyStored,
    RequestBegan,
    TurnBegan,
    TurnEnded,
)
from tract_jupyter.models import Allowance, TurnOutcome

ONLY_LIVE = (ReplyPiece, CallBegan, CallAsked)


def calls(*made):
    """A reply that calls tools."""
    return reply(
        None, *(call(name, arguments, f"c{number}") for number, (name, arguments) in enumerate(made))
    )


def kept(events):
    """The events, also from the store."""
    return [one for one in events if not isinstance(one, ONLY_LIVE)]


def stored(tract, number=-1):
    return tract.loop.events_of(tract.loop.turns()[number])


def test_a_plain_chat_emits_events_from_question_to_end(talk, script):
    script(reply("Hello."))
    seen = []
    talk.loop.tools = None
    talk.chat("Hi", on_turn=seen.append)
    assert [type(one) for one in seen] == [TurnBegan, RequestBegan, ReplyStored, TurnEnded]
    assert seen[0].text == "Hi"
    assert seen[2].text == "Hello."
    assert seen[-1].outcome is TurnOutcome.ANSWER
    assert stored(talk) == seen


def test_events_report_when_calls_begin_and_end(talk, script):
    script(calls(("look", {"city": "Ulm"}), ("look", {"city": "Bern"})), reply("Sunny."))
    seen = []
    talk.chat("Weather?", on_turn=seen.append)
    begun = [one.call_id for one in seen if isinstance(one, CallBegan)]
    ended = [one for one in seen if isinstance(one, CallEnded)]
    assert sorted(begun) == sorted(one.call_id for one in ended)
    assert [one.text for one in ended] == ["sunny in Ulm", "sunny in Bern"]
    assert all(one.made == 1 and one.tokens and one.seconds is not None for one in ended)
    assert stored(talk) == kept(seen)


@pytest.mark.parametrize(("answer", "made", "action"), [("approve", 1, "approve"), ("not now", 0, "reject")])
def test_the_event_of_a_call_contains_its_decision(talk, script, person, answer, made, action):
    person(answer)
    script(calls(("send", {"to": "Ann"})), reply("Done."))
    seen = []
    talk.chat("Send it", on_turn=seen.append)
    asked = next(one for one in seen if isinstance(one, CallAsked))
    ended = next(one for one in seen if isinstance(one, CallEnded))
    assert asked.call_id == ended.call_id
    assert ended.made == made
    assert ended.decision is not None
    assert ended.decision.action == action
    assert ended.decision.reason == ("" if answer == "approve" else answer)
    told = next(one for one in stored(talk) if isinstance(one, CallEnded))
    assert told.decision == ended.decision
    assert told == ended


def test_the_event_of_a_script_contains_its_tool_calls_and_requests(talk, script, person):
    person("approve")
    code = "for city in ['Ulm', 'Bern']:\n    tools.look(city=city)\ntools.send(to='Ann')"
    script(calls(("notebook_execute", {"code": code, "backend": "sandbox"})), reply("Done."))
    seen = []
    talk.chat("Go", tools="code", on_turn=seen.append)
    ended = next(one for one in seen if isinstance(one, CallEnded))
    assert ended.script is not None
    assert {name: one[0] for name, one in ended.script["by_tool"].items()} == {"look": 2, "send": 1}
    assert ended.script["by_line"]["2"][0] == 2
    assert len(ended.asked) == 1
    assert talk.review.ledger.get(ended.asked[0]).status == "approved"
    assert kept(seen) == stored(talk)


def test_a_failed_request_ends_the_turn(talk):
    class Broken:
        def chat(self, messages, **options):
            raise LLMError("no connection")

    talk.configure_llm(Broken())
    seen = []
    with pytest.raises(LLMError, match="no connection"):
        talk.chat("Hi", on_turn=seen.append)
    assert seen[-1].outcome is TurnOutcome.ERROR
    assert "no connection" in seen[-1].note
    assert stored(talk)[-1] == seen[-1]


def test_a_step_limit_ends_the_turn_and_its_continuation_is_marked(talk, script):
    script(calls(("look", {"city": "Ulm"})), reply("Sunny."))
    first, second = [], []
    talk.chat("Weather?", limits=Allowance(steps=1), on_turn=first.append)
    assert first[-1].outcome is TurnOutcome.LIMIT
    talk.chat(None, on_turn=second.append)
    assert second[0].is_resumed
    assert second[0].question == first[0].question
    assert second[-1].outcome is TurnOutcome.ANSWER
    told = stored(talk)
    assert [one.is_resumed for one in told if isinstance(one, TurnBegan)] == [False, True]
    assert told[-1] == second[-1]


def test_reply_chunks_are_events_and_also_passed_to_on_delta(talk, script):
    from tract_jupyter.models import Delta

    class Streams:
        def chat(self, messages, on_delta=None, **options):
            for word in ("Good ", "day"):
                on_delta(Delta("text", word))
            return reply("Good day")

    talk.configure_llm(Streams())
    seen, pieces = [], []
    talk.chat("Hi", on_turn=seen.append, on_delta=pieces.append)
    assert [one.delta for one in seen if isinstance(one, ReplyPiece)] == pieces
    assert "".join(one.text for one in pieces) == "Good day"


def test_events_of_an_unobserved_turn_are_read_from_the_history(talk, script, person):
    person("approve")
    script(calls(("send", {"to": "Ann"})), reply("Done."))
    talk.chat("Send it")
    told = stored(talk)
    ended = next(one for one in told if isinstance(one, CallEnded))
    assert (ended.text, ended.made, ended.seconds, ended.decision) == ("sent to Ann", 1, None, None)
    assert told[-1] == TurnEnded(TurnOutcome.ANSWER)


def test_an_unfinished_turn_ends_with_an_empty_end_event(talk):
    talk.user("Hi")
    assert stored(talk)[-1] == TurnEnded(None)


def test_turns_belong_to_the_given_history(talk, script):
    script(reply("One."), reply("Two."))
    talk.chat("First")
    here = talk.head
    talk.chat("Second")
    assert [turn.text for turn in talk.loop.turns()] == ["First", "Second"]
    assert [turn.text for turn in talk.loop.turns(here)] == ["First"]
    assert [turn.is_last for turn in talk.loop.turns()] == [False, True]


def test_an_observer_is_a_function(talk, script):
    script(reply("Hello."))
    with pytest.raises(ContentError, match="on_turn must be a function"):
        talk.chat("Hi", on_turn="yes")
