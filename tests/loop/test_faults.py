"""What goes wrong at the provider while a model acts: told with what to do next, and nothing is half committed."""

from __future__ import annotations

import re

import pytest

from tests.llm.dialects import ALL, Chat, Messages, Responses, Said, made
from tests.llm.providers import Answer, provider
from tests.review.scripted import said
from tract_jupyter.exceptions import TractError

KEY = "sk-very-5ecret-0123456789abcdef"
LOOK = Said(calls=[("c1", "look", '{"city": "Rome"}')])
SEND = Said("I send it now.", [("c2", "send", '{"to": "ada", "text": "a long text that is cut somewhere"}')])
TOO_LONG = (
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 210000 tokens."
)


def refused(status, kind, message="because"):
    return lambda dialect, streamed: Answer(dialect.error(kind, message), status)


def answer(dialect, said, streamed):
    return Answer(dialect.stream(said)) if streamed else Answer(dialect.whole(said))


def cut(dialect, streamed):
    """A reply that breaks off within the arguments of a call."""
    whole = answer(dialect, SEND, streamed).body
    return Answer(whole[: whole.index(b" lo") + 3], claims=len(whole), kind="text/event-stream")


def ended_early(dialect, streamed):
    """A reply that ends in good form, in the middle."""
    if not streamed:
        return Answer(b'{"id": "r1"}')
    events = bytes(dialect.stream(SEND)).split(b"\n\n")
    return Answer(b"\n\n".join(events[: len(events) // 2]) + b"\n\n", kind="text/event-stream")


def silent(dialect, streamed):
    return Answer(b"", hangs=True)


FAULTS = {
    "429": (refused(429, "rate_limit_error"), "Try again later"),
    "no credit": (refused(429, "insufficient_quota"), "account"),
    "500": (refused(500, "api_error"), "Try again later"),
    "529": (refused(529, "overloaded_error"), "Try again later"),
    "401": (refused(401, "authentication_error", f"wrong key {KEY}"), "Check the api_key"),
    "404": (refused(404, "not_found_error"), "name of the model"),
    "too long": (refused(400, "invalid_request_error", TOO_LONG), "compress it"),
    "refused": (refused(400, "invalid_request_error"), "Check the options"),
    "garbage": (lambda dialect, streamed: Answer(b"<html>Sign in</html>", kind="text/html"), "base_url"),
    "cut within a call": (cut, "Try again"),
    "ended early": (ended_early, "Try again|base_url|has no|Check"),
    "nothing said": (lambda dialect, streamed: answer(dialect, Said(), streamed), "empty"),
    "filtered": (None, "content filter|declined|refus"),
    "silent": (silent, "longer timeout"),
}
FILTERED = {Chat: "content_filter", Messages: "refusal", Responses: "content_filter"}


@pytest.fixture
def going_wrong(talk, done):
    """Have the second of three requests go wrong, and return what was raised."""

    def run(dialect, streamed, fault):
        make = FAULTS[fault][0]
        filtered = answer(dialect, Said(finish=FILTERED[dialect]), streamed)
        wrong = filtered if make is None else make(dialect, streamed)
        options = {"on_delta": lambda piece: None} if streamed else {}
        with provider(answer(dialect, LOOK, streamed), wrong) as there:
            talk.configure_llm(
                made(dialect, there, max_retries=0, timeout=0.5 if fault == "silent" else 30, api_key=KEY)
            )
            with pytest.raises(TractError) as raised:
                talk.chat("How is it?", **options)
        with provider(answer(dialect, Said("Sunny."), streamed)) as there:
            talk.configure_llm(made(dialect, there, api_key=KEY))
            before = said(talk)
            response = talk.chat(None, **options)
        return raised.value, before, response

    return run


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", ALL)
def test_a_fault_within_a_turn_leaves_the_steps_before_it(talk, going_wrong, done, dialect, streamed, fault):
    error, before, response = going_wrong(dialect, streamed, fault)
    told = "\n".join([str(error), *error.__notes__])
    assert re.search(FAULTS[fault][1], told), told
    assert "chat(None) continues" in told
    assert KEY not in told
    assert before == [("user", "How is it?"), ("assistant", None), ("tool", "sunny in Rome")]
    assert (response.text, response.outcome, done) == ("Sunny.", "answer", [("look", "Rome")])
    assert said(talk) == [*before, ("assistant", "Sunny.")]


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["500", "401", "garbage", "cut within a call", "nothing said"])
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", ALL)
def test_a_fault_at_its_beginning_leaves_the_question(talk, done, dialect, streamed, fault):
    options = {"on_delta": lambda piece: None} if streamed else {}
    with provider(FAULTS[fault][0](dialect, streamed), answer(dialect, Said("Hello."), streamed)) as there:
        talk.configure_llm(made(dialect, there, max_retries=0, timeout=30))
        with pytest.raises(TractError, match=FAULTS[fault][1]):
            talk.chat("How is it?", **options)
        assert said(talk) == []
        assert talk.chat("Hi", **options).text == "Hello."
    assert said(talk) == [("user", "Hi"), ("assistant", "Hello.")]
    assert not done


IDS = {
    "twice": ("x", "x"), "none": ("", ""), "too long": ("i" * 300, "i" * 301), "odd": ("a b/ü", "a b.ü"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("ids", IDS)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", ALL)
def test_wrong_ids_of_parallel_calls_mix_nothing_up(talk, dialect, streamed, ids):
    one, other = IDS[ids]
    both = Said(calls=[(one, "look", '{"city": "Rome"}'), (other, "look", '{"city": "Oslo"}')])
    again = Said(calls=[(one, "look", '{"city": "Kyiv"}')])
    options = {"on_delta": lambda piece: None} if streamed else {}
    with provider(*(answer(dialect, said, streamed) for said in (both, again, Said("ok")))) as there:
        talk.configure_llm(made(dialect, there))
        assert talk.chat("Go.", **options).text == "ok"
    told = [text for role, text in said(talk) if role == "tool"]
    assert told == ["sunny in Rome", "sunny in Oslo", "sunny in Kyiv"]
    assert len(there.requests) == 3
