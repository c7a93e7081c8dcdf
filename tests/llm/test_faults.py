"""Failures of provider or connection in every dialect: errors with advice, no partial reply taken as full."""

from __future__ import annotations

import io
import json
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout

import pytest

from tests.llm import dialects
from tests.llm.dialects import ALL, HELLO, TOOL, Chat, Messages, Responses, Said, made, pieces
from tests.llm.providers import Answer, provider
from tract_jupyter.concurrency import StopSignal
from tract_jupyter.exceptions import LLMRequestError
from tract_jupyter.llm import Reply

KEY = "sk-very-5ecret-0123456789abcdef"
all_dialects = pytest.mark.parametrize("dialect", ALL)
streamed_or_not = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
LONG = Said(
    "a long text that is cut somewhere", [("call_1", "get_weather", '{"city": "Rome"}')], "Let me think."
)


def refused(dialect, there, *, streamed=False, **options):
    told = []
    with pytest.raises(LLMRequestError) as caught:
        made(dialect, there, **options).chat(HELLO, on_delta=told.append if streamed else None, tools=[TOOL])
    return caught.value


@pytest.mark.slow
@all_dialects
@streamed_or_not
@pytest.mark.parametrize(
    ("status", "kind", "code", "reason", "again", "advice"),
    [
        (429, "rate_limit_error", "rate_limited", None, True, "Try again later, or send fewer requests"),
        (500, "api_error", "provider_error", None, True, "Try again later"),
        (529, "overloaded_error", "provider_error", "overloaded", True, "Try again later"),
        (504, "timeout_error", "timeout", None, True, "Try again later"),
        (408, "", "timeout", None, True, "Try again later"),
        (409, "", "provider_error", None, True, "Try again later"),
        (401, "authentication_error", "provider_error", "authentication", False, "Check the api_key"),
        (
            403,
            "permission_error",
            "provider_error",
            "authentication",
            False,
            "Check the permissions of the key",
        ),
        (402, "billing_error", "provider_error", "out_of_credit", False, "account"),
        (404, "not_found_error", "provider_error", "not_found", False, "name of the model"),
        (400, "invalid_request_error", "provider_error", "invalid_request", False, "Check the options"),
        (413, "request_too_large", "provider_error", "context_too_long", False, "shorter context"),
        (429, "insufficient_quota", "rate_limited", "out_of_credit", False, "account"),
        # Ollama says api_error for every status but 400 and 404
        (401, "api_error", "provider_error", "authentication", False, "Check the api_key"),
        (404, "api_error", "provider_error", "not_found", False, "name of the model"),
        (429, "api_error", "rate_limited", None, True, "Try again later, or send fewer requests"),
        (503, "api_error", "provider_error", "overloaded", True, "Try again later"),
    ],
)
def test_the_error_for_a_refusal_gives_advice(dialect, streamed, status, kind, code, reason, again, advice):
    with provider(Answer(dialect.error(kind, "because"), status)) as there:
        error = refused(dialect, there, streamed=streamed)
    assert (error.code, error.reason, error.is_transient, error.status) == (code, reason, again, status)
    assert "because" in str(error)
    assert advice in str(error)
    assert len(there.requests) == (3 if again else 1)


@all_dialects
@pytest.mark.parametrize(
    "message",
    [
        "registry.ollama.ai/library/gemma3:latest does not support tools",
        'No endpoints found that support tool use. Try disabling "read_result".',
        '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
        "`tool calling` is not supported with this model",
        "Function calling is not enabled for this model",
        "tools param requires --jinja flag",
    ],
)
def test_a_model_without_tools_says_how_to_ask_it(dialect, message):
    with provider(Answer(dialect.error("invalid_request_error", message), 400)) as there:
        error = refused(dialect, there)
    assert "Choose a model that can call tools, or ask without tools: %%tract_chat --plan" in str(error)
    assert "--direct" not in str(error)


@all_dialects
@streamed_or_not
@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 210000 tokens.",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
    ],
)
def test_a_context_that_is_too_long_is_known_as_that(dialect, streamed, message):
    with provider(Answer(dialect.error("invalid_request_error", message), 400)) as there:
        error = refused(dialect, there, streamed=streamed)
    assert (error.reason, error.is_transient) == ("context_too_long", False)
    assert "compress it" in str(error)


@all_dialects
def test_the_word_of_the_body_counts_more_than_the_status(dialect):
    with provider(
        Answer(dialect.error("overloaded_error", "busy"), 400), Answer(dialect.whole(Said("Hello")))
    ) as there:
        assert Reply.of(made(dialect, there).chat(HELLO)).text == "Hello"
    with provider(Answer(dialect.error("authentication_error", "who?"), 500)) as there:
        assert refused(dialect, there).is_transient is False
    with provider(Answer(dialect.error("invalid_request_error", "?"), 503)) as there:
        assert refused(dialect, there).is_transient is True


@all_dialects
def test_headers_say_whether_and_when_to_ask_again(dialect):
    whole = Answer(dialect.whole(Said("Hello")))
    with provider(Answer({}, 429, Retry_After="3600", retry_after_ms="1"), whole) as there:
        made(dialect, there).chat(HELLO)
    with provider(Answer({}, 503, x_should_retry="false")) as there:
        assert refused(dialect, there).is_transient is False
    with provider(Answer({}, 400, x_should_retry="true"), whole) as there:
        made(dialect, there).chat(HELLO)
    with provider(Answer({}, 429, Retry_After="3600")) as there:
        assert "in 3600 s" in str(refused(dialect, there))
    assert len(there.requests) == 1


def error_event(dialect, kind):
    """An error inside a stream with status 200."""
    if dialect is Responses:
        body = {"type": "error", "code": kind, "message": "because", "param": None, "sequence_number": 1}
    else:
        body = dialect.error(kind, "because")
    return b"data: " + json.dumps(body).encode() + b"\n\n"


@all_dialects
@pytest.mark.parametrize(
    ("kind", "again"),
    [
        ("overloaded_error", True),
        ("rate_limit_error", True),
        ("api_error", True),
        ("authentication_error", False),
    ],
)
def test_an_error_within_a_stream_is_known_by_its_word(dialect, kind, again):
    with provider(Answer(error_event(dialect, kind)), Answer(dialect.stream(Said("Hello")))) as there:
        if again:
            assert Reply.of(made(dialect, there).chat(HELLO, on_delta=lambda _: None)).text == "Hello"
        else:
            assert refused(dialect, there, streamed=True).reason == "authentication"


@all_dialects
def test_an_error_during_a_stream_is_not_retried_and_keeps_the_partial_reply(dialect):
    events = bytes(dialect.stream(Said("Hello"))).split(b"\n\n")
    cut = next(place for place, one in enumerate(events) if b"Hel" in one) + 1
    begun = b"\n\n".join(events[:cut]) + b"\n\n"
    with provider(Answer(begun + error_event(dialect, "overloaded_error"))) as there:
        error = refused(dialect, there, streamed=True)
    assert (error.reason, error.is_transient, len(there.requests)) == ("overloaded", True, 1)
    choice = error.partial["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Hel", None)


def test_a_response_that_failed_is_an_error():
    failed = {
        **Responses.whole(Said()),
        "status": "failed",
        "error": {"code": "server_error", "message": "broken"},
    }
    for body in (
        failed,
        b'data: {"type": "response.failed", "response": ' + json.dumps(failed).encode() + b"}\n\n",
    ):
        with provider(Answer(body)) as there:
            error = refused(Responses, there, streamed=isinstance(body, bytes))
        assert "broken" in str(error)
        assert len(there.requests) == 3
    with provider(Answer({**failed, "error": None})) as there:
        assert "without a reason" in str(refused(Responses, there))


@all_dialects
@pytest.mark.parametrize("share", [0.2, 0.4, 0.6, 0.8, 0.97])
def test_a_stream_that_is_cut_is_the_whole_reply_or_an_error(dialect, share):
    """The connection can break at any place. At the very end only the usage may be missing."""
    whole = bytes(dialect.stream(LONG))
    with provider(
        Answer(whole[: int(len(whole) * share)], claims=len(whole), kind="text/event-stream")
    ) as there:
        told = []
        try:
            reply = made(dialect, there, max_retries=0).chat(HELLO, on_delta=told.append)
        except LLMRequestError as error:
            assert error.is_transient
            assert "Try again" in str(error)
            reply = error.partial
            assert reply is None or reply["choices"][0]["finish_reason"] is None
    seen = "".join(delta.text for delta in told if delta.kind == "text")
    if reply is not None:
        message = reply["choices"][0]["message"]
        assert (message["content"] or "") == seen
        for call in Reply.of(reply).raw_calls:
            assert call.is_cut or call.values() == {"city": "Rome"}


@all_dialects
def test_a_call_cut_by_a_lost_connection_is_in_the_partial_reply(dialect):
    whole = bytes(dialect.stream(LONG))
    place = whole.index(b"ity", whole.index(b"get_weather")) + 3
    with provider(Answer(whole[:place], claims=len(whole), kind="text/event-stream")) as there:
        error = refused(dialect, there, streamed=True)
    (call,) = Reply.of(error.partial).raw_calls
    assert (call.name, call.is_cut) == ("get_weather", True)
    assert error.partial["choices"][0]["message"]["tool_calls"][0]["cut"] is True


@all_dialects
@pytest.mark.parametrize("body", [
    b"<html>Sign in</html>", b"", None, b"null", b"[" * 100_000, b"\xff\xfe", b'{"choices": [', b"5"
])  # fmt: skip
@streamed_or_not
def test_an_invalid_or_empty_response_body_is_reported(dialect, body, streamed):
    empty = "204 No Content" if body is None else "200 OK"
    answer = Answer(b"", 204, kind="text/plain") if body is None else Answer(body, kind="application/json")
    with provider(answer) as there:
        error = refused(dialect, there, streamed=streamed)
    assert ("not a JSON object" if body else f"its answer is empty (HTTP {empty}). Check base_url") in str(
        error
    )
    assert dialect.client.about_url in str(error)
    assert body is not None or len(there.requests) == 1


@all_dialects
@pytest.mark.parametrize("body", [b"<html>Sign in</html>", b"data: hello\n\n", b"", b"\xff\xfe\n\n"])
def test_an_invalid_stream_is_an_error(dialect, body):
    with provider(Answer(body, kind="text/event-stream")) as there:
        error = refused(dialect, there, streamed=True)
    assert "ended before the reply was complete" in str(error)
    assert error.partial is None


@all_dialects
def test_a_silent_stream_is_a_timeout(dialect):
    with provider(Answer(b": hello\n\n", hangs=True, kind="text/event-stream")) as there:
        error = refused(dialect, there, streamed=True, timeout=0.2)
    assert (error.code, len(there.requests)) == ("timeout", 1)


@all_dialects
@streamed_or_not
def test_an_abort_ends_a_silent_wait(dialect, streamed):
    abort = StopSignal()
    with provider(Answer(b"", hangs=True)) as there, ThreadPoolExecutor() as threads:
        options = {"on_delta": print} if streamed else {}
        asked = threads.submit(made(dialect, there).chat, HELLO, abort=abort, **options)
        assert there.asked.wait(20)
        abort.set()
        with pytest.raises(LLMRequestError) as caught:
            asked.result(20)
    assert (caught.value.code, caught.value.partial) == ("cancelled", None)


@all_dialects
def test_an_abort_during_a_stream_keeps_the_partial_reply(dialect):
    abort, told = StopSignal(), []
    events = bytes(dialect.stream(Said("Hello"))).split(b"\n\n")
    cut = next(place for place, one in enumerate(events) if b"Hel" in one) + 1

    def note(delta):
        told.append(delta.text)
        abort.set()

    with (
        provider(Answer(b"\n\n".join(events[:cut]) + b"\n\n", hangs=True)) as there,
        ThreadPoolExecutor() as threads,
    ):
        asked = threads.submit(made(dialect, there).chat, HELLO, abort=abort, on_delta=note)
        with pytest.raises(LLMRequestError) as caught:
            asked.result(20)
    assert (caught.value.code, told) == ("cancelled", ["Hel"])
    assert caught.value.partial["choices"][0]["message"]["content"] == "Hel"


@all_dialects
def test_an_error_of_the_on_delta_callback_is_raised(dialect):
    def note(delta):
        raise ZeroDivisionError

    with (
        provider(Answer(dialect.stream(Said("Hello")), hangs=True)) as there,
        pytest.raises(ZeroDivisionError),
    ):
        made(dialect, there).chat(HELLO, on_delta=note)


def shown(dialect, answers, *, streamed):
    """Return all visible output of a call: prints, logs, its error, and the repr of the client."""
    out, logged = io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(logged)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel("DEBUG")
    try:
        with provider(*answers) as there, redirect_stdout(out), redirect_stderr(out):
            client = made(dialect, there, api_key=KEY, headers={"X-Other": "other-5ecret"}, max_retries=1)
            error = None
            try:
                client.chat(HELLO, on_delta=print if streamed else None)
            except LLMRequestError as caught:
                error = caught
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    assert there.requests[0][1]["Authorization"] == f"Bearer {KEY}"
    return [
        repr(client),
        str(error),
        repr(error),
        str(vars(error or client)),
        out.getvalue(),
        logged.getvalue(),
    ]


@pytest.mark.slow
@all_dialects
@streamed_or_not
@pytest.mark.parametrize("status", [200, 400, 401, 429, 500])
def test_a_key_is_shown_nowhere(dialect, streamed, status):
    """Even if the provider repeats the key or its ends. (`vars` of a client shows it; not checked here.)"""
    told = f"Incorrect API key provided: {KEY}, sk-ve****cdef; other-5ecret. Find yours in the settings."
    error = dialect.error("authentication_error", told)
    whole = json.dumps(error).encode()
    for body in (error, f"<h1>{told}</h1>".encode(), b"data: " + whole + b"\n\n"):
        texts = shown(dialect, [Answer(body, status)], streamed=streamed)
        for text in texts:
            assert not any(part in text for part in (KEY, "cdef", "other-5ecret", "sk-ve")), text


@all_dialects
@streamed_or_not
@pytest.mark.parametrize("size", [3, 1000])
def test_a_key_that_a_reply_repeats_is_masked(dialect, streamed, size, monkeypatch):
    monkeypatch.setattr(dialects, "pieces", lambda text, _=3: pieces(text, size))
    said = Said(f"It is {KEY}.", [("c1", "get_weather", json.dumps({"city": KEY}))], f"Bearer {KEY}")
    told = []
    body = dialect.stream(said) if streamed else dialect.whole(said)
    with provider(Answer(body)) as there:
        client = made(dialect, there, api_key=KEY)
        response = client.chat(HELLO, tools=[TOOL], **({"on_delta": told.append} if streamed else {}))
    assert KEY not in json.dumps(response)
    assert KEY not in "".join(delta.text for delta in told)
    reply = Reply.of(response)
    assert (reply.text, reply.reasoning) == ("It is ***.", "Bearer ***")
    assert reply.raw_calls[0].values() == {"city": "***"}
    assert not streamed or "".join(one.text for one in told if one.kind == "text") == "It is ***."


@pytest.mark.parametrize("key", ["ollama", "lm-studio", "EMPTY", "not-needed"])
def test_a_placeholder_key_is_not_masked(key):
    with provider(Answer(Chat.whole(Said(f"Start {key} first.")))) as there:
        assert Reply.of(made(Chat, there, api_key=key).chat(HELLO)).text == f"Start {key} first."


@pytest.mark.parametrize("dialect", [Chat, Responses, Messages])
def test_a_key_is_not_in_a_request(dialect):
    with provider(Answer(dialect.whole(Said("Hello")))) as there:
        made(dialect, there, api_key=KEY).chat(HELLO)
    assert KEY not in json.dumps(there.bodies)
