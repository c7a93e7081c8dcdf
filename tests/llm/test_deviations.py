"""Servers whose chat completions differ from OpenAI's. docs/providers.md lists each of them."""

from __future__ import annotations

import json

import pytest

from tests.llm.dialects import ALL, HELLO, TOOL, Chat, Said, made
from tests.llm.providers import Answer, chunk, provider, sse
from tract_jupyter.exceptions import LLMRequestError
from tract_jupyter.llm import RawCall, Reply

all_dialects = pytest.mark.parametrize("dialect", ALL)


def streamed(*chunks, done=True, **options):
    """Return the reply that a client reads from these chunks."""
    with provider(Answer(sse(*chunks, done=done))) as there:
        return made(Chat, there).chat(HELLO, on_delta=lambda _: None, **options)


def calls_of(response):
    return [(call.id, call.name, call.arguments) for call in Reply.of(response).raw_calls]


def part(arguments=None, *, finish=None, **call):
    """A chunk with a part of a call. Fields without a value are absent."""
    function = {"name": call.pop("name", None), "arguments": arguments}
    function = {name: value for name, value in function.items() if value is not None}
    return chunk({"tool_calls": [{**call, "function": function}]}, finish=finish)


END = chunk(finish="tool_calls")
BOTH = [("a", "add", '{"x": 1}'), ("b", "sub", '{"y": 2}')]


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([part('{"x": 1}', id="a", name="add"), part('{"y": 2}', id="b", name="sub")], id="no index"),
        pytest.param([part('{"x": 1}', id="a", name="add", index=0), part('{"y": 2}', id="b", name="sub", index=0)], id="one index"),
        pytest.param(
            [part('{"x"', id="a", name="add", index=0), part(": 1}", index=0), part('{"y"', id="b", name="sub", index=0),
             part(": 2}", index=0)],
            id="one index, in pieces",
        ),
        pytest.param(
            [part(id="a", name="add", index=0), part(id="b", name="sub", index=1), part('{"x"', index=0), part('{"y"', index=1),
             part(": 1}", index=0), part(": 2}", index=1)],
            id="interleaved",
        ),
        pytest.param(
            [part('{"x"', id="a", name="add", index=0), part(": 1}", id="a", index=0, name="add"),
             part('{"y"', id="b", name="sub", index=1), part(": 2}", id="b", index=1)],
            id="id in every piece",
        ),
        pytest.param(
            [part('{"x"', id="a", name="add"), part(": 1}"), part('{"y"', id="b", name="sub"), part(": 2}")],
            id="no index, in pieces",
        ),
        pytest.param(
            [part('{"x"', id="a", name="add", index=0), part(": 1}", id="zz", index=0), part('{"y": 2}', id="b", name="sub", index=1)],
            id="another id in each piece",
        ),
        pytest.param([part({"x": 1}, id="a", name="add"), part({"y": 2}, id="b", name="sub")], id="arguments as an object"),
    ],
)  # fmt: skip
def test_calls_are_put_together_however_they_are_counted(chunks):
    assert calls_of(streamed(*chunks, END)) == BOTH


def test_calls_without_ids_get_some():
    response = streamed(part('{"x": 1}', name="add"), part('{"x": 1}', name="add"), END)
    (one, name, arguments), (other, *_) = calls_of(response)
    assert (name, arguments) == ("add", '{"x": 1}')
    assert one
    assert other
    assert one != other


def test_two_calls_with_one_id_are_two_calls():
    response = streamed(
        part('{"x": 1}', id="a", index=0, name="add"), part('{"y": 2}', id="a", index=1, name="sub"), END
    )
    assert calls_of(response) == [("a", "add", '{"x": 1}'), ("a_2", "sub", '{"y": 2}')]


@pytest.mark.parametrize("finish", ["stop", "tool_calls", "function_call", "banana", None])
def test_calls_are_calls_whatever_the_end_says(finish):
    response = streamed(part('{"x": 1}', id="a", name="add", index=0), chunk(finish=finish))
    assert response["choices"][0]["finish_reason"] == "tool_calls"
    assert calls_of(response) == BOTH[:1]


@pytest.mark.parametrize("finish", ["tool_calls", "stop", "length", None])
@pytest.mark.parametrize("arguments", ['{"x": ', '{"x": "a\\"', '{"x": [1, {"y": 2}', "["])
def test_incomplete_arguments_are_a_cut_call(finish, arguments):
    """One server reports `tool_calls` even if the limit was reached within the arguments."""
    with provider(Answer(sse(part(arguments, id="a", name="add", index=0), chunk(finish=finish)))) as there:
        reply = Reply.of(made(Chat, there).chat(HELLO, on_delta=lambda _: None))
    assert reply.raw_calls[0].is_cut
    assert reply.raw_calls[0].given["cut"] is True


def test_a_call_without_arguments_is_cut_if_the_limit_was_reached():
    (call,) = Reply.of(streamed(part(id="a", name="add", index=0), chunk(finish="length"))).raw_calls
    assert call.is_cut
    (call,) = Reply.of(streamed(part("", id="a", name="add", index=0), chunk(finish="tool_calls"))).raw_calls
    assert (call.is_cut, call.values()) == (False, {})


@pytest.mark.parametrize(
    "arguments",
    [
        "{city: Rome}", "{'x': 1}", "x", '{"x": 1}}', '{"data": ' * 3000 + "1" + "}" * 3000, '{{"x": 1}', '{"x": None}',
        '{"x": "a" b"}', '{"x": 1 "y": 2}', '{"x": 1,}', '{"x": "a\nb"}', '{"x": 0x1F}', '"x"', "{x", '{"x": ' + "9" * 5000 + "}",
    ],
)  # fmt: skip
def test_invalid_json_arguments_are_not_treated_as_cut(arguments):
    """The model gets the error and its own call back."""
    response = streamed(part(arguments, id="a", name="add", index=0), END)
    (call,) = Reply.of(response).raw_calls
    assert (call.is_cut, call.arguments) == (False, arguments)
    answer = {"role": "tool", "tool_call_id": "a", "content": "no JSON"}
    with provider(Answer(Chat.whole(Said("Fine.")))) as there:
        made(Chat, there).chat([*HELLO, response["choices"][0]["message"], answer], tools=[TOOL])
    sent = there.bodies[0]["messages"][1]["tool_calls"][0]["function"]["arguments"]
    if len(arguments) < 100:
        assert json.loads(sent) == {"INVALID_JSON": arguments}


WHOLE = r'{"a": "x\u00e9\n\"y", "b": [1.5e-10, true, false, null, -3], "c": {"d": "", "e": []}}'


@pytest.mark.parametrize("length", range(1, len(WHOLE)))
def test_each_beginning_of_arguments_is_cut(length):
    assert RawCall.of({"function": {"name": "add", "arguments": WHOLE[:length]}}, 0).is_cut


def test_arguments_that_were_cut_within_a_text_of_several_lines_are_cut():
    assert RawCall.of({"function": {"name": "run", "arguments": '{"code": "a = 1\nb'}}, 0).is_cut


@all_dialects
@pytest.mark.parametrize("written", ["null", "", " ", "\n", " null\n", "{}"])
def test_a_call_without_arguments_has_none_however_that_is_written(dialect, written):
    """For a tool without parameters, some models write null and some servers send nothing."""
    with provider(Answer(dialect.stream(Said(calls=[("a", "add", written)])))) as there:
        response = made(dialect, there).chat(HELLO, on_delta=lambda _: None)
    reply = Reply.of(response)
    assert (reply.raw_calls[0].is_cut, reply.raw_calls[0].values()) == (False, {})
    assert reply.tool_calls[0].arguments == {}
    answer = {"role": "tool", "tool_call_id": reply.raw_calls[0].id, "content": "1"}
    made_body([*HELLO, response["choices"][0]["message"], answer])


def test_null_arguments_in_a_whole_reply_mean_no_arguments():
    body = Chat.whole(Said(calls=[("a", "add", "null")]))
    body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = None
    with provider(Answer(body)) as there:
        assert Reply.of(made(Chat, there).chat(HELLO)).tool_calls[0].arguments == {}


@pytest.mark.parametrize("streamed", [False, True])
def test_a_refusal_beside_a_text_is_kept(streamed):
    body = Chat.whole(Said("Half of it."))
    body["choices"][0]["message"]["refusal"] = "I will not go on."
    chunks = [
        chunk({"content": "Half of it."}),
        chunk({"refusal": "I will not go on."}),
        chunk(finish="stop"),
    ]
    with provider(Answer(sse(*chunks) if streamed else body)) as there:
        told = {"on_delta": lambda _: None} if streamed else {}
        assert Reply.of(made(Chat, there).chat(HELLO, **told)).text == "Half of it.\n\nI will not go on."


@all_dialects
def test_an_unrequested_stream_is_read(dialect):
    for kind, first in (
        ("text/event-stream", b""),
        ("application/json", b": wait\n\n"),
        ("text/plain", b"\n"),
    ):
        with provider(Answer(first + dialect.stream(Said("Hi.")), kind=kind)) as there:
            assert Reply.of(made(dialect, there).chat(HELLO)).text == "Hi."


@all_dialects
@pytest.mark.parametrize("status", [201, 202, 203])
def test_a_reply_with_another_status_of_success_is_read(dialect, status):
    for body, told in ((dialect.whole, {}), (dialect.stream, {"on_delta": lambda _: None})):
        with provider(Answer(body(Said("Hi.")), status)) as there:
            assert Reply.of(made(dialect, there).chat(HELLO, **told)).text == "Hi."


def test_arguments_as_an_object_in_a_whole_reply():
    body = Chat.whole(Said(calls=[("a", "add", {"x": 1})], finish="stop"))
    with provider(Answer(body)) as there:
        response = made(Chat, there).chat(HELLO)
    assert calls_of(response) == [("a", "add", '{"x":1}')]
    choice = response["choices"][0]
    assert (choice["finish_reason"], choice["provider_finish_reason"]) == ("tool_calls", "stop")


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize("whole", [True, False])
def test_reasoning_has_two_names(field, whole):
    body = Chat.whole(Said("Hi."))
    body["choices"][0]["message"][field] = "A greeting."
    if whole:
        with provider(Answer(body)) as there:
            message = made(Chat, there).chat(HELLO)["choices"][0]["message"]
    else:
        chunks = [chunk({field: "A gree"}), chunk({field: "ting."}), chunk({"content": "Hi."}, finish="stop")]
        message = streamed(*chunks)["choices"][0]["message"]
    assert (message["content"], message["reasoning"], message["reasoning_field"]) == (
        "Hi.",
        "A greeting.",
        field,
    )


def test_reasoning_under_both_field_names_is_reported_once():
    told = []
    with provider(
        Answer(
            sse(
                chunk({"reasoning": "hm", "reasoning_content": "hm"}), chunk({"content": "Hi"}, finish="stop")
            )
        )
    ) as there:
        message = made(Chat, there).chat(HELLO, on_delta=told.append)["choices"][0]["message"]
    assert [delta.text for delta in told] == ["hm", "Hi"]
    assert message["reasoning"] == "hm"


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_sent_back_under_its_own_field_name_if_requested(field):
    message = streamed(chunk({field: "hm"}), chunk({"content": "Hi"}, finish="stop"))["choices"][0]["message"]
    asked = [*HELLO, message, *HELLO]
    with provider(Answer(Chat.whole(Said("Fine.")))) as there:
        made(Chat, there).chat(asked)
    assert there.bodies[0]["messages"][1] == {"role": "assistant", "content": "Hi"}
    sent = made_body(asked, resend_reasoning=True)
    assert sent["messages"][1] == {"role": "assistant", "content": "Hi", field: "hm"}


def made_body(messages, base_url="http://test/v1", **options):
    """Return the request body if it has more fields than the official SDK's types."""
    import httpx

    from tract_jupyter import OpenAIClient

    sent = []

    def answer(request):
        sent.append(json.loads(request.content))
        return httpx.Response(200, json=Chat.whole(Said("Fine.")))

    OpenAIClient("m", base_url=base_url, api_key="k", transport=httpx.MockTransport(answer)).chat(
        messages, **options
    )
    return sent[0]


def test_a_server_that_is_known_to_want_the_reasoning_gets_it():
    message = streamed(chunk({"reasoning_content": "hm"}), chunk({"content": "Hi"}, finish="stop"))[
        "choices"
    ][0]["message"]
    sent = made_body([*HELLO, message, *HELLO], "https://api.deepseek.com/v1")
    assert sent["messages"][1]["reasoning_content"] == "hm"


def test_calls_go_with_their_reasoning_be_it_empty():
    call = part("{}", id="a", name="add", index=0)
    with_reasoning = streamed(chunk({"reasoning_content": "hm"}), call, END)["choices"][0]["message"]
    without = streamed(call, END)["choices"][0]["message"]
    answer = {"role": "tool", "tool_call_id": "a", "content": "1"}
    asked = [*HELLO, with_reasoning, answer, without, answer, {"role": "assistant", "content": "1"}, *HELLO]
    sent = made_body(asked, "https://api.deepseek.com/v1", tools=[TOOL])["messages"]
    assert [one.get("reasoning_content") for one in sent if one["role"] == "assistant"] == ["hm", "", None]


def test_reasoning_of_a_changed_message_is_not_sent():
    message = streamed(chunk({"reasoning_content": "hm"}), chunk({"content": "Hi"}, finish="stop"))[
        "choices"
    ][0]["message"]
    assert "hm" not in json.dumps(
        made_body([*HELLO, {**message, "content": "Ho"}, *HELLO], resend_reasoning=True)
    )


@pytest.mark.parametrize("whole", [True, False])
def test_a_refusal_is_streamed_as_text(whole):
    body = Chat.whole(Said())
    body["choices"][0]["message"]["refusal"] = "I cannot."
    told = []
    with provider(
        Answer(body if whole else sse(chunk({"refusal": "I can"}), chunk({"refusal": "not."}, finish="stop")))
    ) as there:
        response = made(Chat, there).chat(HELLO, on_delta=told.append)
    assert "".join(delta.text for delta in told) == Reply.of(response).text == "I cannot."
    choice = response["choices"][0]
    assert (choice["finish_reason"], choice["provider_finish_reason"]) == ("refusal", "stop")


def test_details_of_the_reasoning_are_kept_in_order_and_sent_back():
    def detail(index, **more):
        return chunk({"reasoning_details": [{"type": "reasoning.text", "index": index, **more}]})

    chunks = [
        detail(0, text="let "),
        detail(0, text="me see"),
        detail(0, signature="s"),
        detail(1, text="so"),
    ]
    message = streamed(*chunks, chunk({"content": "Hi"}, finish="stop"))["choices"][0]["message"]
    sent = made_body([*HELLO, message, *HELLO])
    assert sent["messages"][1]["reasoning_details"] == [
        {"type": "reasoning.text", "index": 0, "text": "let me see", "signature": "s"},
        {"type": "reasoning.text", "index": 1, "text": "so"},
    ]


def test_extra_content_of_a_call_is_sent_back():
    """For example the signature of the thinking before the call."""
    extra = {"google": {"thought_signature": "abc"}}
    message = streamed(part("{}", id="a", name="add", index=0, extra_content=extra), END)["choices"][0][
        "message"
    ]
    assert "extra_content" not in message["tool_calls"][0]
    answer = {"role": "tool", "tool_call_id": "a", "content": "1"}
    sent = made_body([*HELLO, message, answer], tools=[TOOL])
    assert sent["messages"][1]["tool_calls"][0]["extra_content"] == extra
    assert "extra_content" not in json.dumps(
        made_body([*HELLO, message, answer], tools=[TOOL], model="other")
    )


def test_content_in_parts_is_a_text():
    parts = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "Hel"}]
    response = streamed(
        chunk({"content": parts}), chunk({"content": [{"type": "text", "text": "lo"}]}, finish="stop")
    )
    message = response["choices"][0]["message"]
    assert message["content"] == "Hello"
    assert message["provider_blocks"]["blocks"][0]["content"] == [*parts, {"type": "text", "text": "lo"}]


def test_chunks_without_choices_or_with_null_are_passed_over():
    odd = [
        {"id": "r1", "choices": []}, {"id": "r1", "choices": None}, {"moderation": {}}, chunk({"content": None}),
        {"choices": [{"index": 0}]}, {"choices": [{"index": 0, "delta": None}]}, {"choices": ["x"]},
        {"choices": [{"index": 1, "delta": {"content": "another choice"}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": None}}]}, {"choices": [{"index": 0, "delta": {"tool_calls": ["x"]}}]},
    ]  # fmt: skip
    response = streamed(*odd, chunk({"content": "Hi"}), *odd, chunk(finish="stop"), *odd)
    assert Reply.of(response).text == "Hi"


def test_a_stream_without_choices_is_an_error():
    with pytest.raises(LLMRequestError, match="no choices"):
        streamed({"id": "r1", "choices": [], "usage": {"total_tokens": 4}})


def test_a_finish_reason_without_done_event_ends_the_stream():
    assert Reply.of(streamed(chunk({"content": "Hi"}, finish="stop"), done=False)).text == "Hi"


@pytest.mark.parametrize(
    ("tokens", "limit", "reason", "cut"),
    [
        (None, None, None, ""),
        (20, None, None, ""),
        (20, 21, None, ""),
        (20, 20, "length", "the reply was cut at its limit"),
    ],
)
@pytest.mark.parametrize("is_stream", [True, False])
def test_without_a_finish_reason_only_the_usage_shows_a_cut_reply(is_stream, tokens, limit, reason, cut):
    usage = {} if tokens is None else {"usage": {"prompt_tokens": 9, "completion_tokens": tokens}}
    options = {} if limit is None else {"max_tokens": limit}
    whole = {"choices": [{"message": {"role": "assistant", "content": "Hi"}, "finish_reason": None}], **usage}
    with provider(Answer(sse(chunk({"content": "Hi"}, **usage)) if is_stream else whole)) as there:
        more = {"on_delta": lambda _: None} if is_stream else {}
        reply = Reply.of(made(Chat, there).chat(HELLO, **options, **more))
    assert (reply.text, reply.finish_reason, reply.why_cut) == ("Hi", reason, cut)
    assert reply.ending == ({"finish_reason": reason, "cut": cut} if cut else {})


LINES = b'data:{"choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n: comment\n\nevent: x\nid: 1\nretry: 5\ndata:[DONE]\n\n'


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("step", [1, 2, 1000])
def test_lines_may_end_in_each_way_of_the_standard(end, step):
    with provider(Answer(LINES.replace(b"\n", end), step=step)) as there:
        response = made(Chat, there).chat(HELLO, on_delta=lambda _: None)
    assert Reply.of(response).text == "Hi"


def test_the_data_of_an_event_may_have_several_lines():
    pretty = b'data: {"choices": [{"index": 0,\ndata: "delta": {"content": "Hi"}}]}\n\n'
    glued = (
        b'data: {"choices": [{"index": 0, "delta": {"content": "!"}}]}\ndata: {"choices": []}\n\ndata: [DONE]'
    )
    with provider(Answer(pretty + glued)) as there:
        assert Reply.of(made(Chat, there).chat(HELLO, on_delta=lambda _: None)).text == "Hi!"


def test_a_damaged_event_is_an_error_since_something_is_missing():
    good = Answer(sse(chunk({"content": "whole"}, finish="stop")))
    damaged = Answer(sse(b'data: {"choices": [{"delta": {"cont', chunk({"content": "rest"}, finish="stop")))
    with provider(damaged, good) as there:
        assert Reply.of(made(Chat, there).chat(HELLO, on_delta=lambda _: None)).text == "whole"
    late = Answer(sse(chunk({"content": "first"}), b'data: {"choi', chunk(finish="stop")))
    with provider(late) as there, pytest.raises(LLMRequestError, match="damaged") as caught:
        made(Chat, there).chat(HELLO, on_delta=lambda _: None)
    assert (caught.value.is_transient, len(there.requests)) == (True, 1)


# --- requests


def test_the_limit_has_the_name_that_the_server_knows():
    assert made_body(HELLO, max_tokens=5)["max_tokens"] == 5
    assert made_body(HELLO, "https://api.openai.com/v1", max_tokens=5)["max_completion_tokens"] == 5


def test_stream_options_can_be_replaced_or_removed():
    with provider(Answer(sse(chunk({"content": "a"}, finish="stop")))) as there:
        client = made(Chat, there)
        client.chat(HELLO, on_delta=lambda _: None)
        client.chat(HELLO, on_delta=lambda _: None, stream_options=None)
        client.chat(HELLO, on_delta=lambda _: None, stream_options={"include_usage": False})
    assert [body.get("stream_options") for body in there.bodies] == [
        {"include_usage": True},
        None,
        {"include_usage": False},
    ]


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        (
            "Function tools with reasoning_effort are not supported, use /v1/responses instead",
            "ResponsesClient",
        ),
        (
            "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
            "Use max_completion_tokens",
        ),
        ("Missing `reasoning_content` field in the assistant message", "resend_reasoning=True"),
        ("Unknown field: stream_options", "stream_options=None"),
        ("This model's maximum context length is 128000 tokens", "Send a shorter context"),
    ],
)
def test_a_known_refusal_by_the_server_gets_advice(said, advice):
    refusal = Answer(Chat.error("invalid_request_error", said), 400)
    with provider(refusal) as there, pytest.raises(LLMRequestError, match=advice):
        made(Chat, there).chat(HELLO)
    assert len(there.requests) == 1
