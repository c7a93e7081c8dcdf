"""Behavior that only Anthropic's Messages API has."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.llm.dialects import HELLO, TOOL, Messages, Said, made
from tests.llm.providers import Answer, provider
from tests.llm.sdk import messages_stream
from tract_jupyter import AnthropicClient
from tract_jupyter.exceptions import LLMConfigError, LLMRequestError
from tract_jupyter.llm import Reply

FINE = Answer(Messages.whole(Said("Fine.")))
NEWEST, OLDER = "claude-opus-5-5", "claude-haiku-4-5"


def sent(messages=HELLO, **options):
    """Return the request body for these messages and options."""
    with provider(FINE) as there:
        made(Messages, there).chat(messages, **options)
    return there.bodies[0]


def answered(*events, messages=HELLO, **options):
    """Return the response read from these stream events."""
    with provider(Answer(messages_stream(*events))) as there:
        return made(Messages, there).chat(messages, on_delta=lambda _: None, **options)


def assistant(text=None, *calls):
    tool_calls = [
        {"id": one, "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
        for one in calls
    ]
    return {"role": "assistant", "content": text, **({"tool_calls": tool_calls} if calls else {})}


def result(given, text="ok", **more):
    return {"role": "tool", "tool_call_id": given, "content": text, **more}


# --- headers and options


@pytest.mark.slow
@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/", "/v1/messages"])
def test_a_base_url_can_include_the_api_path(end):
    with provider(FINE) as there:
        AnthropicClient("m", base_url=there.root + end, api_key="k").chat(HELLO)
    assert [path for path, _, _ in there.requests] == ["/v1/messages"]


def test_the_version_and_the_key_are_headers(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "from-the-environment")
    with provider(FINE) as there:
        AnthropicClient("m", base_url=there.root).chat(HELLO)
    path, headers, body = there.requests[0]
    assert (path, headers["anthropic-version"]) == ("/v1/messages", "2026-10-21")
    assert headers["Authorization"] == "Bearer from-the-environment"
    assert "x-api-key" not in {name.lower() for name in headers}
    assert body == {
        "model": "m", "max_tokens": 16_000, "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
        "cache_control": {"type": "ephemeral"}, "stream": False,
    }  # fmt: skip


def test_its_own_address_is_the_default():
    asked = []

    def answer(request):
        asked.append(request.url)
        return httpx.Response(200, json=Messages.whole(Said("Fine.")))

    AnthropicClient("m", api_key="k", transport=httpx.MockTransport(answer)).chat(HELLO)
    assert str(asked[0]) == "https://api.anthropic.com/v1/messages"


@pytest.mark.parametrize("option", ["temperature", "top_p", "top_k"])
def test_sampling_is_refused_before_it_is_sent(option):
    with (
        provider(FINE) as there,
        pytest.raises(LLMConfigError, match=f"does not accept {option} since version 2026-10-21"),
    ):
        made(Messages, there).chat(HELLO, **{option: 1})
    assert not there.requests


def test_sampling_is_sent_with_an_older_version():
    bodies = []

    def answer(request):
        bodies.append((request.headers["anthropic-version"], json.loads(request.content)))
        return httpx.Response(200, json=Messages.whole(Said("Fine.")))

    headers = {"Anthropic-Version": "2023-06-01"}
    client = AnthropicClient(OLDER, api_key="k", headers=headers, transport=httpx.MockTransport(answer))
    client.chat(HELLO, temperature=0.5)
    assert bodies[0][0] == "2023-06-01"
    assert bodies[0][1]["temperature"] == 0.5


@pytest.mark.parametrize("option", ["seed", "n", "frequency_penalty", "logprobs"])
def test_options_that_it_does_not_have_are_refused(option):
    with provider(FINE) as there, pytest.raises(LLMConfigError, match=f"does not accept the option {option}"):
        made(Messages, there).chat(HELLO, **{option: 1})


@pytest.mark.parametrize(
    "choice", ["required", {"type": "any"}, {"type": "function", "function": {"name": "get_weather"}}]
)
def test_the_newest_models_cannot_be_forced_to_call_a_tool(choice):
    with provider(FINE) as there:
        with pytest.raises(LLMConfigError, match="name the tool in the messages"):
            made(Messages, there).chat(HELLO, model=NEWEST, tools=[TOOL], tool_choice=choice)
        made(Messages, there).chat(HELLO, model=OLDER, tools=[TOOL], tool_choice=choice)
        made(Messages, there).chat(HELLO, model=NEWEST, tools=[TOOL], tool_choice="auto")
    assert len(there.requests) == 2


@pytest.mark.parametrize(
    ("given", "there"),
    [
        ({"stop": "END"}, {"stop_sequences": ["END"]}),
        ({"stop": ["A", "B"]}, {"stop_sequences": ["A", "B"]}),
        (
            {"reasoning_effort": "low"},
            {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "low"}},
        ),
        ({"reasoning_effort": "minimal"}, {"output_config": {"effort": "low"}}),
        ({"reasoning_effort": "none"}, {"thinking": {"type": "disabled"}}),
        ({"thinking": {"type": "adaptive"}}, {"thinking": {"type": "adaptive", "display": "summarized"}}),
        (
            {"thinking": {"type": "adaptive", "display": "omitted"}},
            {"thinking": {"type": "adaptive", "display": "omitted"}},
        ),
        ({"thinking": {"type": "enabled", "budget_tokens": 2000}}, {"max_tokens": 18_000}),
        ({"cache_control": None}, {"cache_control": None}),
        ({"metadata": {"user_id": "u"}}, {"metadata": {"user_id": "u"}}),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "x", "schema": {"type": "object"}},
                }
            },
            {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
        ),
        (
            {"response_format": {"type": "text"}, "stream_options": {"include_usage": True}},
            {"stream_options": None},
        ),
    ],
)
def test_options_are_translated(given, there):
    body = sent(**given)
    assert {name: body.get(name) for name in there} == there


@pytest.mark.parametrize(
    "wrong", [{"reasoning_effort": "huge"}, {"response_format": {"type": "json_object"}}, {"tool_choice": 5}]
)
def test_options_that_have_no_translation_are_refused(wrong):
    with provider(FINE) as there, pytest.raises(LLMConfigError):
        made(Messages, there).chat(HELLO, tools=[TOOL], **wrong)


def test_models_that_always_think_are_asked_for_summarized_thinking():
    assert sent(model=NEWEST)["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert "thinking" not in sent(model=NEWEST, thinking=None)
    assert "thinking" not in sent(model=OLDER)


def test_strict_tools_and_the_providers_own_tools_are_sent_unchanged():
    strict = {**TOOL, "function": {**TOOL["function"], "strict": True}}
    own = {"type": "web_search_20250305", "name": "web_search"}
    one, other = sent(tools=[strict, own])["tools"]
    assert one["strict"] is True
    assert other == own
    with provider(FINE) as there, pytest.raises(LLMConfigError, match="not a tool"):
        made(Messages, there).chat(HELLO, tools=[{"type": "function", "function": {}}])


# --- messages


def test_the_system_prompt_is_at_the_top():
    said = [
        {"role": "system", "content": "A"},
        {"role": "developer", "content": [{"type": "text", "text": "B"}]},
    ]
    body = sent([*said, {"role": "system", "content": " "}, *HELLO])
    assert body["system"] == "A\n\nB"
    assert [one["role"] for one in body["messages"]] == ["user"]


def test_a_later_system_message_keeps_its_position_if_the_model_accepts_it():
    talk = [
        *HELLO,
        {"role": "system", "content": "Be brief."},
        *HELLO,
        assistant("Yes."),
        {"role": "system", "content": "In French."},
        *HELLO,
    ]
    roles = [(one["role"], len(one["content"])) for one in sent(talk, model=NEWEST)["messages"]]
    assert roles == [("user", 2), ("system", 1), ("assistant", 1), ("user", 1), ("system", 1)]
    older = sent(talk, model=OLDER)
    assert older["system"] == "Be brief.\n\nIn French."
    assert [one["role"] for one in older["messages"]] == ["user", "assistant", "user"]


def test_an_instruction_within_a_step_comes_behind_its_answers():
    """Results must follow their calls directly, and a system message needs a user turn before it."""
    step = [
        *HELLO,
        assistant(None, "a", "b"),
        {"role": "system", "content": "Be brief."},
        result("a"),
        result("b"),
    ]
    turns = sent(step, model=NEWEST, tools=[TOOL])["messages"]
    assert [one["role"] for one in turns] == ["user", "assistant", "user", "system"]
    assert [one["type"] for one in turns[2]["content"]] == ["tool_result", "tool_result"]
    older = sent(step, model=OLDER, tools=[TOOL])
    assert (older["system"], [one["role"] for one in older["messages"]]) == (
        "Be brief.",
        ["user", "assistant", "user"],
    )


@pytest.mark.parametrize(
    "behind",
    [[], [assistant("Noted."), *HELLO], [assistant(" "), *HELLO]],
    ids=["nothing", "a turn", "a blank reply"],
)
def test_a_system_message_after_a_reply_is_sent_after_a_user_turn(behind):
    told = [*HELLO, assistant("Yes."), {"role": "system", "content": "Be formal."}]
    before, turns = (sent(one, model=NEWEST)["messages"] for one in (told, [*told, *behind]))
    places = [place for place, one in enumerate(turns) if one["role"] == "system"]
    assert [turns[place]["content"][0]["text"] for place in places] == ["Be formal."]
    for place in places:
        assert turns[place - 1]["role"] == "user"
        assert [one["role"] for one in turns[place + 1 : place + 2]] in ([], ["assistant"])
    if behind and behind[0]["content"].strip():  # the messages sent before stay unchanged
        assert turns[: len(before)] == before


@pytest.mark.parametrize("model", ["claude-opus-4-6", "claude-sonnet-5", NEWEST])
def test_a_request_ending_with_a_reply_needs_a_model_that_can_continue_it(model):
    began = [*HELLO, assistant("Sure:")]
    with (
        provider(FINE) as there,
        pytest.raises(LLMConfigError, match=r"send a user message first, such as chat\("),
    ):
        made(Messages, there).chat(began, model=model)
    assert not there.requests


@pytest.mark.parametrize("model", ["claude-haiku-4-5", "claude-haiku-4-5-20251001"])
def test_older_models_go_on_with_it(model):
    assert sent([*HELLO, assistant("Sure:")], model=model)["messages"][-1]["role"] == "assistant"


def test_a_request_with_only_system_messages_is_refused():
    with provider(FINE) as there, pytest.raises(LLMConfigError, match="has only system messages"):
        made(Messages, there).chat([{"role": "system", "content": "Be brief."}])
    assert not there.requests


def test_results_are_together_and_first():
    talk = [
        *HELLO,
        assistant(None, "a", "b"),
        result("a"),
        {"role": "user", "content": "And?"},
        result("b", "", is_error=True),
    ]
    content = sent(talk, tools=[TOOL])["messages"][-1]["content"]
    assert content == [
        {"type": "tool_result", "tool_use_id": "a", "content": "ok"},
        {
            "type": "tool_result",
            "tool_use_id": "b",
            "content": "(It failed without a message.)",
            "is_error": True,
        },
        {"type": "text", "text": "And?"},
    ]


def test_a_result_may_have_parts_or_nothing():
    image = {"type": "image_url", "image_url": "https://example.org/a.png"}
    talk = [
        *HELLO,
        assistant(None, "a", "b"),
        result("a", [{"type": "text", "text": "x"}, image]),
        result("b", ""),
    ]
    one, other = sent(talk, tools=[TOOL])["messages"][-1]["content"]
    assert [part["type"] for part in one["content"]] == ["text", "image"]
    assert "content" not in other


def test_blank_texts_are_left_out_and_the_user_begins():
    body = sent(
        [
            assistant("Hello."),
            {"role": "user", "content": "  "},
            assistant(""),
            {"role": "user", "content": "Hi"},
        ]
    )
    assert [one["role"] for one in body["messages"]] == ["user", "assistant", "user"]
    assert body["messages"][0]["content"][0]["text"].startswith("(The conversation begins")


def test_earlier_calls_get_tool_definitions_even_without_tools():
    body = sent([*HELLO, assistant(None, "a"), result("a")])
    assert body["tools"] == [{"name": "get_weather", "input_schema": {"type": "object"}}]
    assert body["tool_choice"] == {"type": "none"}


def test_older_thinking_is_off_in_a_turn_that_began_without_it():
    thinking = {"type": "enabled", "budget_tokens": 2000}
    turn = [*HELLO, assistant(None, "a"), result("a")]
    assert "thinking" not in sent(turn, tools=[TOOL], thinking=thinking)
    assert "thinking" in sent([*turn, assistant("Yes."), *HELLO], tools=[TOOL], thinking=thinking)
    assert "thinking" in sent(turn, tools=[TOOL], thinking={"type": "adaptive"})


# --- blocks


def start(**more):
    message = {**Messages.whole(Said()), "content": [], "stop_reason": None, **more}
    return {"type": "message_start", "message": message}


def block(index, content, *deltas):
    yield {"type": "content_block_start", "index": index, "content_block": content}
    yield from ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
    yield {"type": "content_block_stop", "index": index}


def end(reason="end_turn", **usage):
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": None},
        "usage": {"output_tokens": 20, **usage},
    }
    yield {"type": "message_stop"}


def test_empty_and_redacted_thinking_is_kept_and_sent_back_in_its_place():
    empty = {"type": "thinking", "thinking": "", "signature": ""}
    redacted = {"type": "redacted_thinking", "data": "xyz"}
    use = {"type": "tool_use", "id": "a", "name": "get_weather", "input": {}}
    response = answered(
        start(), *block(0, empty, {"type": "signature_delta", "signature": "s1"}), *block(1, redacted),
        *block(2, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Let me see."}),
        *block(3, empty, {"type": "thinking_delta", "thinking": "hm"}, {"type": "signature_delta", "signature": "s2"}),
        *block(4, use, {"type": "input_json_delta", "partial_json": ""}), *end("tool_use"), tools=[TOOL],
    )  # fmt: skip
    message = response["choices"][0]["message"]
    assert message["reasoning"] == "hm"
    assert sent([*HELLO, message, result("a")], tools=[TOOL], model="m")["messages"][1]["content"] == [
        {**empty, "signature": "s1"}, redacted, {"type": "text", "text": "Let me see."},
        {"type": "thinking", "thinking": "hm", "signature": "s2"}, use,
    ]  # fmt: skip


def raw(*events):
    """A stream with events that the SDK does not know."""
    return b"".join(b"event: x\ndata: " + json.dumps(one).encode() + b"\n\n" for one in events)


def test_unknown_events_blocks_and_deltas_are_kept():
    odd = {"type": "hologram", "id": "h1"}
    stream = raw(
        start(), {"type": "ping"}, {"type": "weather_report", "sky": "clear"},
        *block(0, odd, {"type": "hologram_delta", "shape": "cu"}, {"type": "hologram_delta", "shape": "be", "size": 3}),
        *block(1, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Look."}), *end(),
    )  # fmt: skip
    with provider(Answer(stream)) as there:
        response = made(Messages, there).chat(HELLO, on_delta=lambda _: None)
    kept = response["choices"][0]["message"]["provider_blocks"]["blocks"]
    assert kept == [{**odd, "shape": "cube", "size": 3}, {"type": "text", "text": "Look."}]
    assert response["provider_events"] == [{"type": "weather_report", "sky": "clear"}]
    assert Reply.of(response).text == "Look."


def test_citations_are_kept():
    cited = {"type": "char_location", "cited_text": "x", "document_index": 0, "document_title": None,
             "start_char_index": 0, "end_char_index": 1, "file_id": None}  # fmt: skip
    deltas = [{"type": "citations_delta", "citation": cited}, {"type": "text_delta", "text": "So."}]
    response = answered(start(), *block(0, {"type": "text", "text": "", "citations": None}, *deltas), *end())
    assert response["choices"][0]["message"]["provider_blocks"]["blocks"][0]["citations"] == [cited]


def test_usage_is_cumulative():
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": 5,
        "cache_creation_input_tokens": None,
        "output_tokens": 1,
    }
    response = answered(
        start(usage=usage),
        *block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Hi"}),
        *end(input_tokens=12),
    )
    tokens = Reply.of(response).tokens
    assert (tokens.input_tokens, tokens.cached_tokens, tokens.cache_write_tokens, tokens.output_tokens) == (
        17,
        5,
        None,
        20,
    )


def test_a_paused_turn_goes_back_unchanged():
    search = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}}
    body = {**Messages.whole(Said("Let me search.")), "stop_reason": "pause_turn"}
    body["content"].append(search)
    with provider(Answer(body)) as there:
        response = made(Messages, there).chat(HELLO)
    choice = response["choices"][0]
    assert (choice["finish_reason"], choice["provider_finish_reason"]) == ("pause", "pause_turn")
    assert sent([*HELLO, choice["message"]])["messages"][1]["content"] == body["content"]


def test_a_refusal_says_why():
    body = {
        **Messages.whole(Said()), "stop_reason": "refusal",
        "stop_details": {"type": "refusal", "category": "cyber", "explanation": "I cannot help with that."},
    }  # fmt: skip
    with provider(Answer(body)) as there:
        response = made(Messages, there).chat(HELLO)
    assert response["choices"][0]["message"]["refusal"] == "I cannot help with that."
    assert (Reply.of(response).text, Reply.of(response).finish_reason) == (
        "I cannot help with that.",
        "refusal",
    )


@pytest.mark.parametrize(
    ("word", "reason"), [("stop_sequence", "stop"), ("model_context_window_exceeded", "length")]
)
def test_ends_have_the_words_of_chat_completions(word, reason):
    with provider(Answer(Messages.whole(Said("Hi", finish=word)))) as there:
        choice = made(Messages, there).chat(HELLO)["choices"][0]
    assert (choice["finish_reason"], choice["provider_finish_reason"]) == (reason, word)


def test_the_error_about_a_changed_prefix_names_the_blocks_to_remove():
    said = "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation"
    known = pytest.raises(LLMRequestError, match="Remove provider_blocks from the messages after")
    with provider(Answer(Messages.error("invalid_request_error", said), 400)) as there, known:
        made(Messages, there).chat(HELLO)
