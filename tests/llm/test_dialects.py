"""Rules for every dialect: a reply has the same form, whole or streamed, and is sent back unchanged."""

from __future__ import annotations

import json

import pytest

from tests.llm import sdk
from tests.llm.dialects import ALL, HELLO, TOOL, Chat, Messages, Responses, Said, made
from tests.llm.providers import Answer, provider
from tract_jupyter.exceptions import LLMConfigError, LLMRequestError, LLMResponseError
from tract_jupyter.llm import Reply
from tract_jupyter.models import Delta

WEATHER = ("call_1", "get_weather", '{"city": "Rome"}')
MAIL = ("call_2", "send_mail", '{"to": "bo@example.org"}')
SAID = {
    "text": Said("Hello \u2028 there"),
    "reasoning": Said("Hello", reasoning="A greeting."),
    "call": Said(calls=[WEATHER]),
    "all": Said("Let me see.", [WEATHER, MAIL], "Two things."),
}
all_dialects = pytest.mark.parametrize("dialect", ALL)
streamed_or_not = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def answer(dialect, said, *, streamed, **how):
    return Answer(dialect.stream(said) if streamed else dialect.whole(said), **how)


def asked(client, messages=HELLO, *, streamed, **options):
    return client.chat(messages, on_delta=(lambda _: None) if streamed else None, **options)


@all_dialects
@streamed_or_not
@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
def test_a_reply_has_one_form(dialect, streamed, said):
    with provider(answer(dialect, said, streamed=streamed)) as there:
        response = asked(made(dialect, there), streamed=streamed, tools=[TOOL])
    (choice,), message = response["choices"], response["choices"][0]["message"]
    assert (message["role"], message["content"]) == ("assistant", said.text or None)
    assert choice["finish_reason"] == ("tool_calls" if said.calls else "stop")
    assert message.get("reasoning", "") == said.reasoning
    calls = [
        {"id": given, "type": "function", "function": {"name": name, "arguments": arguments}}
        for given, name, arguments in said.calls
    ]
    assert message.get("tool_calls", []) == calls
    assert response["object"] == "chat.completion"
    assert response["model"] == "m-1"
    reply = Reply.of(response)
    assert (reply.text, reply.reasoning, [call.is_cut for call in reply.raw_calls]) == (
        said.text, said.reasoning, [False] * len(calls),
    )  # fmt: skip


@all_dialects
@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
def test_a_stream_is_read_like_the_official_sdk_reads_it(dialect, said):
    read = sdk.read_by_sdk(dialect.path, dialect.stream(said))
    with provider(answer(dialect, said, streamed=True)) as there:
        message = asked(made(dialect, there), streamed=True)["choices"][0]["message"]
    assert (message["content"] or "", Chat.seen({"choices": [{"message": message}]})[1]) == dialect.seen(read)


@all_dialects
@pytest.mark.parametrize("step", [1, 7])
def test_bytes_may_come_one_by_one(dialect, step):
    with provider(answer(dialect, Said("Grüße 👋", [WEATHER]), streamed=True, step=step)) as there:
        message = asked(made(dialect, there), streamed=True)["choices"][0]["message"]
    assert (message["content"], message["tool_calls"][0]["function"]["arguments"]) == ("Grüße 👋", WEATHER[2])


@all_dialects
@pytest.mark.parametrize("streamed", [True, False])
def test_each_stream_piece_is_reported_with_its_kind(dialect, streamed):
    """A provider without streaming gives each part as one piece."""
    told = []
    with provider(answer(dialect, SAID["all"], streamed=streamed)) as there:
        made(dialect, there).chat(HELLO, on_delta=told.append)
    for kind, text in [("text", "Let me see."), ("reasoning", "Two things.")]:
        assert "".join(one.text for one in told if one.kind == kind) == text
    for index, (_, name, arguments) in enumerate([WEATHER, MAIL]):
        mine = [one for one in told if (one.kind, one.index) == ("tool_call", index)]
        assert "".join(one.text for one in mine) == arguments
        assert {one.name for one in mine} == {name}


def test_a_delta_is_a_value():
    assert Delta("text", "a") == Delta("text", "a")
    with pytest.raises(AttributeError):
        Delta("text", "a").text = "b"


@all_dialects
@streamed_or_not
def test_usage_has_one_form(dialect, streamed):
    with provider(answer(dialect, Said("Hello"), streamed=streamed)) as there:
        response = asked(made(dialect, there), streamed=streamed)
    tokens = Reply.of(response).tokens
    counted = (tokens.input_tokens, tokens.cached_tokens, tokens.cache_write_tokens)
    assert (counted, tokens.output_tokens, tokens.reasoning_tokens) == ((100, 60, 10), 20, 5)
    assert response["usage"] == Chat.usage(Said())
    assert tokens.raw == dialect.usage(Said())


@all_dialects
@streamed_or_not
def test_missing_usage_is_unknown(dialect, streamed):
    def without(body):
        whole = json.dumps({"usage": dialect.usage(Said())})[1:-1]
        return bytes(body).replace(whole.encode(), b'"usage": null') if streamed else {**body, "usage": None}

    body = dialect.stream(Said("Hello")) if streamed else dialect.whole(Said("Hello"))
    with provider(Answer(without(body))) as there:
        tokens = Reply.of(asked(made(dialect, there), streamed=streamed)).tokens
    assert tokens.reasoning_tokens is None or dialect is Messages
    if not streamed:
        assert (tokens.input_tokens, tokens.cached_tokens, tokens.output_tokens, tokens.raw) == (
            None,
            None,
            None,
            {},
        )


@all_dialects
@streamed_or_not
def test_a_turn_is_sent_back_unchanged(dialect, streamed):
    said = SAID["all"]
    with provider(
        answer(dialect, said, streamed=streamed), answer(dialect, Said("Sunny."), streamed=streamed)
    ) as there:
        client = made(dialect, there)
        first = asked(client, streamed=streamed, tools=[TOOL])["choices"][0]["message"]
        turn = [
            *HELLO, first,
            {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
            {"role": "tool", "tool_call_id": "call_2", "content": "no such tool", "is_error": True},
        ]  # fmt: skip
        asked(client, turn, streamed=streamed, tools=[TOOL])
    sent = there.bodies[1]
    if dialect is Messages:
        assert sent["messages"][1]["content"] == dialect.whole(said)["content"]
        assert sent["messages"][2]["content"] == [
            {"type": "tool_result", "tool_use_id": "call_1", "content": "sunny"},
            {"type": "tool_result", "tool_use_id": "call_2", "content": "no such tool", "is_error": True},
        ]
    elif dialect is Responses:
        items = dialect.whole(said)["output"]
        assert sent["input"][1 : 1 + len(items)] == items
        assert sent["input"][-1] == {
            "type": "function_call_output",
            "call_id": "call_2",
            "output": "no such tool",
        }
    else:
        assert sent["messages"][1] == {
            "role": "assistant", "content": "Let me see.", "tool_calls": Chat.whole(said)["choices"][0]["message"]["tool_calls"],
        }  # fmt: skip
        assert sent["messages"][3] == {"role": "tool", "tool_call_id": "call_2", "content": "no such tool"}


def seen(dialect, body):
    """Return the text and calls of the assistant's turn in a request, without fields of only one dialect."""
    if dialect is Messages:
        return Messages.seen(body["messages"][1])
    if dialect is Responses:
        said = [one for one in body["input"] if one.get("role") == "assistant"]
        calls = [one for one in body["input"] if one.get("type") == "function_call"]
        return "".join(one["content"] for one in said), [
            (one["call_id"], one["name"], one["arguments"]) for one in calls
        ]
    return Chat.seen({"choices": [{"message": body["messages"][1]}]})


CHANGES = [(one, other, "dialect") for one in ALL for other in ALL if one is not other]
CHANGES += [(one, one, changed) for one in ALL for changed in ("model", "text", "calls")]


@pytest.mark.parametrize(("dialect", "before", "changed"), CHANGES)
def test_raw_blocks_are_not_sent_after_a_change_of_dialect_model_or_message(dialect, before, changed):
    with provider(answer(before, SAID["all"], streamed=False)) as there:
        message = made(before, there).chat(HELLO, tools=[TOOL])["choices"][0]["message"]
    text, calls = "Let me see.", [WEATHER, MAIL]
    if changed == "text":
        message["content"] = text = "Let me look."
    elif changed == "calls":
        message["tool_calls"] = message["tool_calls"][:1]
        calls = [WEATHER]
    results = [{"role": "tool", "tool_call_id": given, "content": "ok"} for given, _, _ in calls]
    with provider(answer(dialect, Said("Fine."), streamed=False)) as there:
        model = {"model": "other"} if changed == "model" else {}
        made(dialect, there).chat([*HELLO, message, *results], tools=[TOOL], **model)
    assert seen(dialect, there.bodies[0]) == (text, calls)
    body = json.dumps(there.bodies[0])
    for word in ("sig-1", "c2VjcmV0", "Two things.", "provider_blocks", "reasoning_field"):
        assert word not in body


@all_dialects
def test_ids_that_are_changed_are_changed_everywhere(dialect):
    """Some servers number calls from 0 in each reply, so the conversation uses its own ids."""
    with provider(answer(dialect, SAID["all"], streamed=False)) as there:
        client = made(dialect, there)
        message = client.chat(HELLO, tools=[TOOL])["choices"][0]["message"]
        message["tool_calls"][0]["id"] = "mine"
        answers = [{"role": "tool", "tool_call_id": given, "content": "ok"} for given in ("mine", "call_2")]
        client.chat([*HELLO, message, *answers], tools=[TOOL])
    body = json.dumps(there.bodies[1])
    assert '"call_1"' not in body
    assert body.count('"mine"') == 2


@all_dialects
def test_the_same_id_in_two_steps(dialect):
    call = {"id": "call:0", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
    step = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call:0", "content": "ok"},
    ]
    with provider(answer(dialect, Said("Fine."), streamed=False)) as there:
        made(dialect, there).chat([*HELLO, *step, *step], tools=[TOOL])
    body = json.dumps(there.bodies[0])
    if dialect is Chat:
        assert body.count('"call:0"') == 4
    else:
        assert (body.count('"call_0"'), body.count('"call_0_2"')) == (2, 2)


@all_dialects
@streamed_or_not
def test_a_call_that_was_cut_is_marked_and_never_read(dialect, streamed):
    """The token limit of the reply was reached within the arguments."""
    cut = ("call_2", "send_mail", '{"to": "b' if streamed or dialect is not Messages else "{}")
    said = Said(calls=[WEATHER, cut], finish=dialect.too_short)
    with provider(answer(dialect, said, streamed=streamed)) as there:
        response = asked(made(dialect, there), streamed=streamed, tools=[TOOL])
    reply = Reply.of(response)
    assert reply.finish_reason == "length"
    assert [call.is_cut for call in reply.raw_calls] == [False, True]
    assert [bool(call.get("cut")) for call in response["choices"][0]["message"]["tool_calls"]] == [
        False,
        True,
    ]
    assert reply.raw_calls[0].values() == {"city": "Rome"}
    with pytest.raises(LLMResponseError, match="cut before"):
        reply.tool_calls  # noqa: B018
    with pytest.raises(Exception, match="cut before"):
        reply.raw_calls[1].values()


@all_dialects
def test_a_call_that_was_cut_can_be_sent_back(dialect):
    said = Said(calls=[("call_1", "get_weather", '{"city": "Ro')], finish=dialect.too_short, reasoning="Hm.")
    with provider(
        answer(dialect, said, streamed=True), answer(dialect, Said("Fine."), streamed=False)
    ) as there:
        client = made(dialect, there)
        message = asked(client, streamed=True, tools=[TOOL])["choices"][0]["message"]
        told = {"role": "tool", "tool_call_id": "call_1", "content": "not run: it was cut"}
        client.chat([*HELLO, message, told], tools=[TOOL])
    sent = there.bodies[1]
    if dialect is Messages:
        assert [block["type"] for block in sent["messages"][1]["content"]] == ["thinking", "tool_use"]
        assert sent["messages"][1]["content"][1]["input"] == {"INVALID_JSON": '{"city": "Ro'}
    elif dialect is Chat:
        arguments = sent["messages"][1]["tool_calls"][0]["function"]["arguments"]
        assert json.loads(arguments) == {"INVALID_JSON": '{"city": "Ro'}


@all_dialects
def test_an_invalid_tool_name_is_sent_back_as_a_valid_one(dialect):
    said = Said(calls=[("call_1", "get weather!", "{}")])
    with provider(
        answer(dialect, said, streamed=False), answer(dialect, Said("Fine."), streamed=False)
    ) as there:
        client = made(dialect, there)
        message = client.chat(HELLO, tools=[TOOL])["choices"][0]["message"]
        client.chat(
            [*HELLO, message, {"role": "tool", "tool_call_id": "call_1", "content": "no such tool"}],
            tools=[TOOL],
        )
    assert Reply.of({"choices": [{"message": message}]}).raw_calls[0].name == "get weather!"
    assert '"get_weather_"' in json.dumps(there.bodies[1])


@all_dialects
@streamed_or_not
def test_a_tool_without_arguments_is_complete(dialect, streamed):
    said = Said(calls=[("call_1", "now", "{}" if dialect is Messages and not streamed else "")])
    with provider(answer(dialect, said, streamed=streamed)) as there:
        (call,) = Reply.of(asked(made(dialect, there), streamed=streamed)).raw_calls
    assert (call.is_cut, call.values()) == (False, {})


@pytest.mark.parametrize("dialect", [Chat, Messages])
@streamed_or_not
def test_an_unknown_finish_reason_counts_as_stop(dialect, streamed):
    """Responses is not tested here, because its status shows an incomplete reply."""
    said = Said("Fine.", finish="banana")
    body = json.loads(json.dumps(dialect.whole(said)))
    raw = b"".join(
        line + b"\n" for line in dialect.stream(Said("Fine.", finish=dialect.plain)).replace(
            json.dumps(dialect.plain).encode(), b'"banana"').splitlines()
    )  # fmt: skip
    with provider(Answer(raw if streamed else body)) as there:
        response = asked(made(dialect, there), streamed=streamed)
    choice = response["choices"][0]
    assert (choice["finish_reason"], choice["provider_finish_reason"]) == ("stop", "banana")
    assert Reply.of(response).text == "Fine."


FILTERED = [
    (Chat, "content_filter", "content_filter"),
    (Responses, "content_filter", "content_filter"),
    (Messages, "refusal", "refusal"),
]


@pytest.mark.parametrize(("dialect", "word", "reason"), FILTERED)
@streamed_or_not
def test_a_reply_that_the_filter_ended_says_so(dialect, word, reason, streamed):
    with provider(answer(dialect, Said(finish=word), streamed=streamed)) as there:
        reply = Reply.of(asked(made(dialect, there), streamed=streamed))
    assert (reply.text, reply.finish_reason) == ("", reason)
    assert "rephrase the message" in reply.why_empty


@all_dialects
def test_the_limit_of_a_reply_has_one_name(dialect):
    name = {Chat: "max_tokens", Messages: "max_tokens", Responses: "max_output_tokens"}[dialect]
    with provider(answer(dialect, Said("Hello"), streamed=False)) as there:
        for given in ("max_tokens", "max_completion_tokens"):
            made(dialect, there).chat(HELLO, **{given: 50})
        with pytest.raises(LLMConfigError, match="mean the same"):
            made(dialect, there).chat(HELLO, max_tokens=1, max_completion_tokens=2)
    second = "max_completion_tokens" if dialect is Chat else name  # some servers know only this name
    assert (there.bodies[0][name], there.bodies[1][second]) == (50, 50)


@all_dialects
def test_options_that_need_tools_go_with_them(dialect):
    with provider(answer(dialect, Said("Hello"), streamed=False)) as there:
        made(dialect, there).chat(HELLO, tools=[], tool_choice="auto", parallel_tool_calls=False)
        with pytest.raises(LLMConfigError, match="needs tools"):
            made(dialect, there).chat(HELLO, tool_choice="required")
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(there.bodies[0])


@all_dialects
@pytest.mark.parametrize(
    "choice", ["auto", "none", "required", {"type": "function", "function": {"name": "get_weather"}}]
)
def test_a_choice_of_tools_is_translated(dialect, choice):
    with provider(answer(dialect, Said("Hello"), streamed=False)) as there:
        made(dialect, there).chat(HELLO, tools=[TOOL], tool_choice=choice, parallel_tool_calls=False)
    sent = there.bodies[0]["tool_choice"]
    if dialect is Chat:
        assert sent == choice
    elif dialect is Responses:
        assert sent == (choice if isinstance(choice, str) else {"type": "function", "name": "get_weather"})
    else:
        kind = (
            {"auto": "auto", "none": "none", "required": "any"}[choice] if isinstance(choice, str) else "tool"
        )
        assert sent["type"] == kind
        assert sent.get("disable_parallel_tool_use") is (None if kind == "none" else True)


@all_dialects
def test_a_tool_keeps_its_schema(dialect):
    with provider(answer(dialect, Said("Hello"), streamed=False)) as there:
        made(dialect, there).chat(HELLO, tools=[TOOL])
    (sent,), function = there.bodies[0]["tools"], TOOL["function"]
    if dialect is Chat:
        assert sent == TOOL
    elif dialect is Responses:
        assert sent == {"type": "function", "strict": False, **function}
    else:
        assert sent == {
            "name": "get_weather",
            "description": function["description"],
            "input_schema": function["parameters"],
        }


@all_dialects
def test_text_and_images_are_sent(dialect):
    parts = [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
    ]
    with provider(answer(dialect, Said("Hello"), streamed=False)) as there:
        made(dialect, there).chat([{"role": "user", "content": parts}])
        if dialect is not Chat:
            with pytest.raises(LLMConfigError, match="does not accept a part of type 'input_audio'"):
                made(dialect, there).chat([{"role": "user", "content": [{"type": "input_audio"}]}])
    body = json.dumps(there.bodies[0])
    assert "aGk=" in body
    assert "https://example.org/a.png" in body


@all_dialects
@streamed_or_not
def test_half_a_character_is_not_sent_and_not_given(dialect, streamed):
    """The two halves of a character can be separate, in JSON and in two pieces of a stream."""
    said = Said("a👋b")
    body = dialect.stream(said) if streamed else json.dumps(dialect.whole(said)).encode()
    with provider(Answer(bytes(body).replace(b"\\udc4b", b"\\ud83d"))) as there:
        told = []
        client = made(dialect, there)
        on_delta = told.append if streamed else None
        response = client.chat([{"role": "user", "content": "half \ud83d"}], on_delta=on_delta)
    assert there.bodies[0] != {}
    response["choices"][0]["message"]["content"].encode()
    for delta in told:
        delta.text.encode()


def test_a_character_in_two_pieces_is_one():
    first, second = b'"content": "ab\\ud83d"', b'"content": "\\udc4bc"'
    base = b'data: {"choices": [{"index": 0, "delta": {%s}, "finish_reason": null}]}\n\n'
    with provider(Answer(base % first + base % second + b"data: [DONE]\n\n")) as there:
        told = []
        response = made(Chat, there).chat(HELLO, on_delta=told.append)
    assert [delta.text for delta in told] == ["ab", "👋c"]
    assert response["choices"][0]["message"]["content"] == "ab👋c"


@all_dialects
@pytest.mark.parametrize("wrong", [{}, {"choices": []}, {"content": None, "output": 5}])
def test_a_reply_without_a_reply_in_it(dialect, wrong):
    with (
        provider(Answer(wrong)) as there,
        pytest.raises(LLMRequestError, match=r"its (reply has no|choices are) .*Try again"),
    ):
        made(dialect, there).chat(HELLO)
    assert len(there.requests) == 1


@all_dialects
def test_an_empty_message_is_a_reply(dialect):
    with provider(answer(dialect, Said(), streamed=False)) as there:
        reply = Reply.of(made(dialect, there).chat(HELLO))
    assert (reply.text, reply.raw_calls, reply.finish_reason) == ("", (), "stop")


def test_the_sdk_checks_find_invalid_requests():
    """The SDKs' types accept unknown keys at any depth, and check lists only when they are read."""
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": False}
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": {}}}
    wrong = [
        ("/v1/chat/completions", {**body, "temprature": 1}),
        ("/v1/chat/completions", {**body, "messages": [{"role": "user", "content": "Hi", "nmae": "x"}]}),
        ("/v1/chat/completions", {**body, "messages": [{"role": "assistant", "tool_calls": [call]}]}),
        ("/v1/chat/completions", {**body, "messages": [{"role": "tool", "content": "x"}]}),
        ("/v1/messages", {**body, "max_tokens": 1, "temperature": 1}),
        ("/v1/messages", {**body, "max_tokens": 1, "messages": [{"role": "user", "content": [{"type": "text", "txt": "a"}]}]}),
        ("/v1/messages", body),
        ("/v1/responses", {"model": "m", "input": [{"type": "function_call_output", "output": 5}]}),
        ("/v1/responses", {"model": "m", "input": [{"role": "user", "content": "Hi", "x": 1}]}),
    ]  # fmt: skip
    assert not sdk.problems_of("/v1/chat/completions", body)
    assert [path for path, each in wrong if not sdk.problems_of(path, each)] == []
