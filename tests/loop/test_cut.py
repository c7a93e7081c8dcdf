"""Cut and refused replies: how they end a turn, how the turn continues, and which callers ask again."""

from __future__ import annotations

import pytest

from tests.llm.dialects import Chat, Messages, Responses, Said, made
from tests.llm.providers import Answer, provider
from tests.review.scripted import ScriptedClient, call, reply
from tract_jupyter.exceptions import AgentError, LLMResponseError
from tract_jupyter.loop import ReplyStored, TurnEnded
from tract_jupyter.models import Allowance
from tract_jupyter.prompts import CONTINUE

HALF = "The three steps are: 1. open the file, 2. read the"
REFUSED = "is not sent back"
ENDINGS = [
    (Chat, "length", "limit", "the reply was cut at its limit"),
    (Chat, "content_filter", "refused", "content filter ended the reply"),
    (Messages, "max_tokens", "limit", "the reply was cut at its limit"),
    (Messages, "model_context_window_exceeded", "limit", "end of the model's context window; compress"),
    (Messages, "refusal", "refused", "the model declined"),
    (Responses, "max_output_tokens", "limit", "the reply was cut at its limit"),
    (Responses, "content_filter", "refused", "content filter ended the reply"),
    (Responses, "steered", "limit", "the reply was cut before its end"),
    (Responses, "", "answer", ""),
]


def cut(text, finish, *calls, **more):
    made = reply(text, *calls, **more)
    made["choices"][0]["finish_reason"] = finish
    return made


def sent(client):
    """Return the messages of the last request, without the system message."""
    return [(one["role"], one["content"]) for one in client.last_messages if one["role"] != "system"]


@pytest.mark.slow
@pytest.mark.parametrize(("dialect", "word", "outcome", "note"), ENDINGS)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("tools", [None, "self"])
def test_turn_store_and_events_record_how_a_reply_ended(tract, dialect, word, outcome, note, streamed, tools):
    said, events = Said(HALF, finish=word), []
    with provider(Answer(dialect.stream(said) if streamed else dialect.whole(said))) as there:
        tract.configure_llm(made(dialect, there))
        options = {"on_delta": lambda _: None} if streamed else {}
        response = tract.chat("How?", tools=tools, on_turn=events.append, **options)
    assert (response.outcome, response.text) == (outcome, HALF)
    assert note in response.note
    assert {"limit": "continues", "refused": REFUSED, "answer": ""}[outcome] in response.note
    stored = tract.get_commit(response.commit_info.commit_hash).metadata
    assert (word or "stop") in (stored["finish_reason"], stored.get("provider_finish_reason"))
    (told,) = (one.cut for one in events if isinstance(one, ReplyStored))
    assert told == stored.get("cut", "")
    assert bool(told) == (outcome != "answer")
    ends = [one for one in events if isinstance(one, TurnEnded)]
    assert [(one.outcome, one.note) for one in ends] == [(outcome, response.note)]
    assert tract.loop.events_of(tract.loop.turns()[-1])[-1].outcome == outcome


@pytest.mark.parametrize(
    ("word", "outcome"),
    [
        ("MAX_TOKENS", "limit"), ("model_length", "limit"), ("error", "limit"), ("abort", "limit"), ("incomplete", "limit"),
        ("SAFETY", "refused"), ("refusal", "refused"), ("guardrail_intervened", "refused"),
        ("eos", "answer"), ("STOP", "answer"), ("end_turn", "answer"), ("", "answer"), (None, "answer"), (5, "answer"),
    ],
)  # fmt: skip
def test_custom_clients_and_other_finish_reasons_give_the_same_outcome(talk, script, word, outcome):
    script(cut(HALF, word))
    assert talk.chat("How?").outcome == outcome
    assert talk.loop.events_of(talk.loop.turns()[-1])[-1].outcome == outcome  # from the history alone


@pytest.mark.parametrize("tools", [None, "self"])
def test_resuming_a_turn_continues_the_cut_reply(talk, script, tools):
    client = script(cut(HALF, "length"), cut(" file, 3. close", "length"), " it.", "Fine.")
    talk.chat("How?", tools=tools)
    assert talk.chat(None, tools=tools).outcome == "limit"
    assert sent(client) == [("user", "How?"), ("assistant", HALF), ("user", CONTINUE)]
    response = talk.chat(None, tools=tools)
    assert (response.text, response.outcome, response.note) == (" it.", "answer", "")
    assert talk.chat(None, tools=tools).text == " it."  # the turn is complete
    (turn,) = talk.loop.turns()
    assert [one.message.content for one in turn.messages] == [HALF, " file, 3. close", " it."]
    talk.chat("Thanks.", tools=tools)
    assert sent(client)[-2:] == [("assistant", " it."), ("user", "Thanks.")]
    assert [one.text for one in talk.costs.turns()] == ["Thanks.", "How?"]


def test_a_failed_request_does_not_repeat_the_instruction_to_continue(talk, script):
    client = script(cut(HALF, "length"), OSError("gone"), " file.")
    talk.chat("How?")
    with pytest.raises(OSError, match="gone"):
        talk.chat(None)
    assert talk.chat(None).text == " file."
    assert sent(client) == [("user", "How?"), ("assistant", HALF), ("user", CONTINUE)]


@pytest.mark.parametrize("finish", ["content_filter", "refusal"])
@pytest.mark.parametrize("tools", [None, "self"])
def test_a_refused_reply_is_not_sent_back(talk, script, done, finish, tools):
    client = script(cut("I will not", finish, call("send", {"to": "bo"})), "Fine.", "And more.")
    response = talk.chat("How?", tools=tools)
    assert (response.outcome, response.text, response.tool_calls) == ("refused", "I will not", ())
    talk.chat("Then this?", tools=tools)
    assert sent(client) == [("user", "How?"), ("user", "Then this?")]
    assert not done
    assert talk.loop.turns()[0].messages[0].message.content == "I will not"  # the history keeps the text


def test_a_refusal_in_its_own_field_of_the_reply_is_recognized(talk, script):
    client = script(
        {"choices": [{"message": {"content": None, "refusal": "No."}, "finish_reason": "stop"}]}, "ok"
    )
    assert (talk.chat("How?").outcome, talk.chat("Then?").text) == ("refused", "ok")
    assert "No." not in str(sent(client))


def test_a_refused_turn_is_asked_again(talk, script):
    client = script(cut("I will not", "refusal"), "Well.")
    talk.chat("How?")
    assert talk.chat(None).text == "Well."
    assert sent(client) == [("user", "How?")]


def test_a_run_has_the_same_outcome_for_cut_and_refused_replies(tract):
    tract.configure_llm(ScriptedClient(cut(HALF, "length"), cut("No", "refusal"), "ok"))
    events = []
    assert tract.chat("How?", on_event=events.append).outcome == "limit"
    assert tract.chat("Then?", on_event=events.append).outcome == "refused"
    assert tract.chat(None, on_event=events.append).text == "ok"
    assert tract.verify() == []


def test_a_call_that_was_cut_is_still_the_models_to_write_again(talk, script, done):
    script(cut("Let me", "length", call("send", '{"to": "b')), "Done.")
    assert talk.chat("Go.").outcome == "answer"
    assert not done


# --- callers that need a whole reply


def whole(client):
    """Return the output limits of all requests."""
    return [options.get("max_tokens") for _, options in client.asked]


def test_generate_asks_again_with_a_higher_limit(talk, script):
    talk.user("How?")
    client = script(cut(HALF, "length"), "All of it.")
    response = talk.generate(max_tokens=2_000)
    assert (response.text, whole(client)) == ("All of it.", [2_000, 4_000])
    usage = response.commit_info.metadata["usage"]
    assert [one["prompt_tokens"] for one in (usage, *usage["failed_tries"])] == [10, 10]
    assert (response.steps, response.usage["prompt_tokens"]) == (2, 20)


@pytest.mark.parametrize(
    ("dialect", "options", "limits"),
    [
        (Messages, {}, [16_000, 32_000]),
        (Messages, {"max_tokens": 2_000}, [2_000, 4_000]),
        (Chat, {}, [None, 1_024]),
        (Chat, {"max_tokens": 2_000}, [2_000, 4_000]),
        (Responses, {}, [None, 1_024]),
    ],
)
@pytest.mark.parametrize("made_tokens", [0, 20])
def test_the_second_limit_is_higher_than_the_first_one(tract, dialect, options, limits, made_tokens):
    def body(text, finish):
        return dialect.whole(Said(text, finish=finish, given=made_tokens and 100, made=made_tokens))

    tract.user("How?")
    with provider(Answer(body(HALF, dialect.too_short)), Answer(body("All of it.", ""))) as there:
        tract.configure_llm(made(dialect, there))
        assert tract.generate(**options).text == "All of it."
    assert [one.get("max_tokens", one.get("max_output_tokens")) for one in there.bodies] == limits


WRONG = [
    (["length"] * 3, 3, "in 3 tries, the last with max_tokens=2,048"),
    (["incomplete"] * 3, 3, "before its end in 3 tries"),
    (["refusal"], 1, "declined"),
    (["content_filter"], 1, "content filter"),
    (["model_context_window_exceeded"], 1, "compress the context"),
]


@pytest.mark.parametrize(("finishes", "tries", "words"), WRONG)
@pytest.mark.parametrize(
    "way", ["generate", "propose_generate", "compress", "propose_compress", "consult", "write"]
)
def test_no_reply_that_is_not_whole_is_taken(talk, script, finishes, tries, words, way):
    client = script(*(cut(HALF, one) for one in finishes))
    talk.user("How?")
    before = talk.head
    ways = {
        "consult": lambda: talk.propose_tool_result("c1", "look", "sunny").consult("Fine?", client=client),
        "write": lambda: talk.operations.write("check it"),
    }
    with pytest.raises(LLMResponseError, match=words):
        ways.get(way, getattr(talk, way, None))()
    assert talk.head == before
    assert len(client.asked) == tries


def test_compress_takes_the_whole_summary(talk, script):
    client = script(cut("The user", "length"), "The user asks how.")
    talk.user("How? " * 50)
    talk.compress()
    assert talk.compile().messages[-1].content == "The user asks how."
    assert whole(client) == [None, 1_024]


def test_an_agents_answer_is_whole(talk, script):
    talk.agents.create("w", "w works.", "d")
    client = script(cut(HALF, "length"), "All of it.", cut("No", "refusal"))
    assert talk.agents.call("w", "go") == "All of it."
    assert whole(client) == [None, 1_024]
    with pytest.raises(AgentError, match="the model declined"):
        talk.agents.call("w", "go")


def test_an_orchestrators_answer_is_whole(talk, script):
    client = script(cut(HALF, "length"), "Nothing to do.")
    talk.user("Hi")
    assert talk.orchestrate("look").text == "Nothing to do."
    assert whole(client) == [None, 1_024]


# --- the tokens of a turn


@pytest.mark.parametrize("tools", [None, "self"])
def test_a_request_over_the_tokens_of_the_turn_is_not_sent(talk, script, tools):
    client = script("Hello.")
    response = talk.chat("word " * 2_000, limits=Allowance(tokens=300), tools=tools)
    assert (response.outcome, response.steps, client.asked) == ("limit", 0, [])
    assert "over the limit of 300 tokens" in response.note
    assert talk.chat(None, limits=Allowance(tokens=30_000), tools=tools).text == "Hello."


def test_the_limit_of_the_reply_counts(talk, script):
    client = script("Hello.")
    assert talk.chat("Hi", tools=[], limits=Allowance(tokens=300), max_tokens=1_000).outcome == "limit"
    assert not client.asked
    assert talk.chat(None, tools=[], limits=Allowance(tokens=300), max_tokens=100).text == "Hello."


def test_the_token_limit_of_a_turn_includes_its_earlier_requests(talk, script, done):
    usage = {"prompt_tokens": 8_000, "completion_tokens": 10}
    client = script(reply(None, call("look", {"city": "Rome"}), usage=usage), "Sunny.")
    response = talk.chat("Go.", limits=Allowance(tokens=8_100))
    assert (response.outcome, len(client.asked), len(done)) == ("limit", 1, 1)
    assert "with 90 left" in response.note
    assert talk.chat(None, limits=Allowance(tokens=9_000)).text == "Sunny."


@pytest.mark.parametrize("tools", [None, "self"])
def test_a_turn_over_its_token_limit_has_a_note(talk, script, tools):
    script(reply("Hello.", usage={"prompt_tokens": 50_000, "completion_tokens": 1}))
    response = talk.chat("Hi", limits=Allowance(tokens=20_000), tools=tools)
    assert (response.outcome, response.note) == (
        "answer", "the turn took 50,001 tokens, and its limit is 20,000",
    )  # fmt: skip
