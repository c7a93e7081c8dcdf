"""Behavior that only OpenAI's Responses API has."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.llm.dialects import HELLO, TOOL, Responses, Said, made
from tests.llm.providers import Answer, provider
from tract_jupyter import ResponsesClient
from tract_jupyter.exceptions import LLMConfigError, LLMRequestError
from tract_jupyter.llm import Reply

FINE = Answer(Responses.whole(Said("Fine.")))


def sent(messages=HELLO, **options):
    """Return the request body for these messages and options."""
    with provider(FINE) as there:
        made(Responses, there).chat(messages, **options)
    return there.bodies[0]


def test_nothing_is_stored_and_reasoning_comes_back_encrypted():
    assert sent() == {
        "model": "m", "input": [{"role": "user", "content": "Hi"}], "stream": False, "store": False,
        "include": ["reasoning.encrypted_content"],
    }  # fmt: skip


@pytest.mark.parametrize("model", ["gpt-4x-example", "gpt-3-example", "chatgpt-example", "gpt-6-chat-latest"])
def test_models_that_do_not_reason_are_not_asked_for_it(model):
    assert "include" not in sent(model=model)
    assert sent(model=model, include=["message.output_text.logprobs"])["include"] == [
        "message.output_text.logprobs"
    ]


def test_its_own_address_is_the_default(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "from-the-environment")
    asked = []

    def answer(request):
        asked.append((str(request.url), request.headers["authorization"], json.loads(request.content)))
        return httpx.Response(
            200, content=Responses.stream(Said("Fine.")), headers={"content-type": "text/event-stream"}
        )

    ResponsesClient("m", transport=httpx.MockTransport(answer)).chat(HELLO, on_delta=lambda _: None)
    assert asked[0][:2] == ("https://api.openai.com/v1/responses", "Bearer from-the-environment")
    assert asked[0][2]["stream_options"] == {"include_obfuscation": False}


@pytest.mark.parametrize(
    ("given", "there"),
    [
        ({"reasoning_effort": "low"}, {"reasoning": {"effort": "low", "summary": "auto"}}),
        ({"reasoning_effort": "none"}, {"reasoning": {"effort": "none"}}),
        ({"reasoning": {"effort": "high"}}, {"reasoning": {"effort": "high"}}),
        ({"verbosity": "low"}, {"text": {"verbosity": "low"}}),
        ({"temperature": 0.5, "top_p": 0.9}, {"temperature": 0.5, "top_p": 0.9}),
        ({"response_format": {"type": "json_object"}}, {"text": {"format": {"type": "json_object"}}}),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "x", "schema": {"type": "object"}},
                }
            },
            {"text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "object"}}}},
        ),
        ({"stream_options": {"include_usage": True}}, {"stream_options": None}),
        ({"store": True, "include": None}, {"store": True, "include": None}),
    ],
)
def test_options_are_translated(given, there):
    body = sent(**given)
    assert {name: body.get(name) for name in there} == there


@pytest.mark.parametrize("option", ["seed", "stop", "n", "logit_bias"])
def test_options_that_it_does_not_have_are_refused(option):
    with provider(FINE) as there, pytest.raises(LLMConfigError, match=f"does not accept the option {option}"):
        made(Responses, there).chat(HELLO, **{option: 1})
    assert not there.requests


def test_first_instructions_are_sent_at_the_top_and_later_ones_in_place():
    talk = [
        {"role": "system", "content": "A"}, {"role": "developer", "content": "B"}, *HELLO,
        {"role": "assistant", "content": "Yes."}, {"role": "system", "content": "C"}, *HELLO,
    ]  # fmt: skip
    body = sent(talk)
    assert body["instructions"] == "A\n\nB"
    assert body["input"] == [
        {"role": "user", "content": "Hi"}, {"type": "message", "role": "assistant", "content": "Yes."},
        {"role": "developer", "content": "C"},
        {"role": "user", "content": "Hi"},
    ]  # fmt: skip


def test_files_and_its_own_parts_and_tools_are_sent():
    parts = [{"type": "file", "file": {"file_id": "f1"}}, {"type": "input_text", "text": "x"}]
    own = {"type": "web_search"}
    body = sent([{"role": "user", "content": parts}], tools=[TOOL, own])
    assert body["input"][0]["content"] == [
        {"type": "input_file", "file_id": "f1"},
        {"type": "input_text", "text": "x"},
    ]
    assert body["tools"][1] == own


def events(*given):
    """A stream as some servers send it: without sequence numbers, and with fewer final fields."""
    return Answer(b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in given))


def test_the_end_need_not_repeat_the_output():
    said = Said("Hello", [("a", "get_weather", '{"city": "Rome"}')], "Hm.")
    given = [
        {**one, "response": {**one["response"], "output": []}} if "response" in one else one
        for one in Responses.events(said)
    ]
    with provider(events(*given, {"type": "weather_report"})) as there:
        reply = Reply.of(made(Responses, there).chat(HELLO, on_delta=lambda _: None))
    assert (reply.text, reply.reasoning, reply.raw_calls[0].values()) == ("Hello", "Hm.", {"city": "Rome"})


def test_unfinished_items_are_in_the_partial_reply():
    added = [
        {"type": "reasoning", "id": "rs", "summary": []}, {"type": "message", "id": "m", "role": "assistant", "content": []},
        {"type": "function_call", "id": "f", "call_id": "a", "name": "get_weather", "arguments": ""},
    ]  # fmt: skip
    deltas = [
        ("reasoning_text", 0, "Hm."), ("output_text", 1, "Hel"), ("output_text", 1, "lo"), ("refusal", 1, "No."),
        ("function_call_arguments", 2, '{"city"'),
    ]  # fmt: skip
    told = []
    given = [
        {"type": "response.output_item.added", "output_index": place, "item": item}
        for place, item in enumerate(added)
    ]
    given += [
        {"type": f"response.{name}.delta", "output_index": place, "delta": text}
        for name, place, text in deltas
    ]
    odd = [
        {"type": "weather_report"},
        {"type": "response.output_text.delta", "output_index": 1, "delta": None},
    ]
    with provider(events(*given, *odd)) as there, pytest.raises(LLMRequestError) as caught:
        made(Responses, there).chat(HELLO, on_delta=told.append)
    partial = caught.value.partial
    message = partial["choices"][0]["message"]
    assert (message["content"], message["reasoning"], message["refusal"]) == ("Hello", "Hm.", "No.")
    assert [call.is_cut for call in Reply.of(partial).raw_calls] == [True]
    assert partial["provider_events"] == [{"type": "weather_report"}]
    assert [delta.kind for delta in told] == ["tool_call", "reasoning", "text", "text", "text", "tool_call"]


def test_a_refusal_is_the_text_of_the_reply():
    part = {"type": "refusal", "refusal": "I cannot help with that."}
    item = {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    with provider(Answer({**Responses.whole(Said()), "output": [item]})) as there:
        response = made(Responses, there).chat(HELLO)
    choice = response["choices"][0]
    assert (choice["finish_reason"], choice["provider_finish_reason"]) == ("refusal", "completed")
    assert Reply.of(response).text == "I cannot help with that."


def test_dropped_reasoning_is_reported():
    dropped = [{"id": "rs_1", "action": "removed", "reason": "prefix_mismatch", "type": "reasoning"}]
    with provider(Answer({**Responses.whole(Said("Hi")), "input_transformations": dropped})) as there:
        assert made(Responses, there).chat(HELLO)["input_transformations"] == dropped


def test_the_error_of_a_model_without_reasoning_gives_advice():
    said = "Encrypted content is not supported with this model."
    refusal = Answer(Responses.error("invalid_request_error", said), 400)
    with provider(refusal) as there, pytest.raises(LLMRequestError, match=r"Set include=\[\]"):
        made(Responses, there).chat(HELLO)


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("limit", "finish"), [(20, "length"), (21, "stop"), (None, "stop")])
def test_a_reply_that_used_all_tokens_is_cut_even_if_reported_as_completed(streamed, limit, finish):
    said = Said("Once upon a time, there lived a", made=20)  # llama.cpp says "completed" in both cases
    with provider(Answer(Responses.stream(said) if streamed else Responses.whole(said))) as there:
        options = {"on_delta": lambda _: None} if streamed else {}
        reply = made(Responses, there).chat(
            [{"role": "user", "content": "A story"}], max_tokens=limit, **options
        )
    assert reply["choices"][0]["finish_reason"] == finish
