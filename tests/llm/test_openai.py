"""The client of OpenAI's protocol, against a real HTTP server on loopback."""

from __future__ import annotations

import gzip
import json
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

from tests.llm.providers import READ, REPLY, Answer, chunk, provider, sse
from tract_jupyter import OpenAIClient, Tract
from tract_jupyter.concurrency import StopSignal, stopped_by
from tract_jupyter.exceptions import LLMConfigError, LLMError, LLMRequestError
from tract_jupyter.llm import retry_after
from tract_jupyter.models import Delta

HELLO = [{"role": "user", "content": "Hi"}]
KEY = "sk-very-secret-123"
_UNUSUAL = "tr_0123456789abcdefg"  # not recognizable as a key by its form, unlike OpenAI's


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch):
    for name in ("OPENAI_API_KEY", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


def client(where, **options):
    return OpenAIClient(
        "m", base_url=getattr(where, "url", where), **{"backoff": 0, "timeout": 20, **options}
    )


def texts(stream):
    return [delta.text for delta in stream]


def refused(where, **options):
    with pytest.raises(LLMRequestError) as caught:
        client(where, **options).chat(HELLO)
    return caught.value


# --- requests and replies


def test_a_reply_comes_as_the_provider_gave_it():
    with provider(Answer()) as there:
        assert client(there).chat(HELLO, temperature=0.5) == READ
    assert there.requests[0][0] == "/v1/chat/completions"
    assert there.bodies == [{"model": "m", "messages": HELLO, "temperature": 0.5, "stream": False}]


def test_a_call_may_name_another_model():
    with provider(Answer()) as there:
        client(there).chat(HELLO, model="other")
    assert there.bodies[0]["model"] == "other"


def test_a_tract_generates_with_it():
    with provider(Answer()) as there, Tract.open() as tract:
        tract.configure_llm(client(there))
        assert tract.chat("Hi").text == "Hello"


@pytest.mark.parametrize("given", [{"api_key": KEY}, {}])
def test_the_key_comes_from_the_argument_or_the_environment(given, monkeypatch):
    if not given:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with provider(Answer()) as there:
        client(there, headers={"X-Title": "t"}, **given).chat(HELLO)
    headers = there.requests[0][1]
    assert (headers["Authorization"], headers["X-Title"]) == (f"Bearer {KEY}", "t")


def test_an_empty_key_sends_none(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with provider(Answer()) as there:
        client(there, api_key="").chat(HELLO)
    assert "Authorization" not in there.requests[0][1]


def test_a_transport_can_take_the_place_of_the_network():
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=REPLY))
    made = OpenAIClient("m", transport=transport)
    assert made.chat(HELLO) == made.chat(HELLO) == READ


# --- streams


def test_a_stream_gives_the_text_in_pieces_and_then_the_reply():
    pieces = [
        b": keep-alive",
        chunk({"role": "assistant", "reasoning_content": "let me "}),
        chunk({"reasoning_content": "see"}),
        chunk({"content": "Hel\u2028"}),
        chunk({"content": "lo"}),
        chunk(finish="stop"),
        {"id": "r1", "choices": [], "usage": {"total_tokens": 4}},
    ]
    with provider(Answer(sse(*pieces))) as there:
        stream = client(there).stream(HELLO)
        assert list(stream) == [
            Delta("reasoning", "let me "), Delta("reasoning", "see"), Delta("text", "Hel\u2028"), Delta("text", "lo"),
        ]  # fmt: skip
    assert there.bodies[0]["stream"] is True
    choice = stream.reply["choices"][0]
    assert choice["message"] == {
        "role": "assistant",
        "content": "Hel\u2028lo",
        "reasoning": "let me see",
        "reasoning_field": "reasoning_content",
        "provider_blocks": {
            "dialect": "chat",
            "model": "m",
            "blocks": [
                {"role": "assistant", "content": "Hel\u2028lo", "reasoning_content": "let me see"},
            ],
        },
    }
    assert (choice["finish_reason"], stream.reply["usage"]) == ("stop", {"total_tokens": 4})


@pytest.mark.parametrize("counted", [True, False])
def test_tool_calls_are_put_together_from_a_stream(counted):
    def part(place, **call):
        return chunk({"tool_calls": [{**({"index": place} if counted else {}), **call}]})

    pieces = [
        part(0, id="a", type="function", function={"name": "add", "arguments": '{"x"'}),
        part(0, function={"arguments": ": 1}"}),
        part(1, id="b", type="function", function={"name": "sub", "arguments": "{}"}),
        chunk(finish="tool_calls"),
    ]
    with provider(Answer(sse(*pieces))) as there:
        message = client(there).stream(HELLO).reply["choices"][0]["message"]
    assert message["content"] is None
    assert message["tool_calls"] == [
        {"id": "a", "type": "function", "function": {"name": "add", "arguments": '{"x": 1}'}},
        {"id": "b", "type": "function", "function": {"name": "sub", "arguments": "{}"}},
    ]


def test_chat_can_tell_of_each_piece():
    told = []
    with provider(
        Answer(sse(chunk({"content": "a"}), chunk({"content": "b"}, finish="stop"), done=False))
    ) as there:
        reply = client(there).chat(HELLO, on_delta=told.append)
    assert told == [Delta("text", "a"), Delta("text", "b")]
    assert reply["choices"][0]["message"]["content"] == "ab"


def test_a_provider_that_does_not_stream_is_understood():
    with provider(Answer()) as there:
        stream = client(there).stream(HELLO)
        assert (texts(stream), stream.reply) == (["hm", "Hello"], READ)


def test_a_truncated_stream_is_an_error():
    with provider(Answer(sse(chunk({"content": "Hel"}), done=False))) as there:
        stream = client(there).stream(HELLO)
        with pytest.raises(LLMRequestError, match="ended before the reply was complete"):
            list(stream)
        with pytest.raises(LLMRequestError, match="not read to its end"):
            stream.reply  # noqa: B018
    assert len(there.requests) == 1, "what was handed out must not come twice"


def test_a_stream_that_fails_before_its_first_piece_is_asked_for_again():
    good = Answer(sse(chunk({"content": "a"}, finish="stop")))
    with provider(Answer({}, 503), Answer(b": nothing\n\n"), good) as there:
        assert texts(client(there).stream(HELLO)) == ["a"]


def test_an_error_inside_a_stream_is_raised():
    events = sse(chunk({"content": "a"}), {"error": {"message": f"overloaded, {KEY}"}})
    with provider(Answer(events)) as there, pytest.raises(LLMRequestError, match=r"overloaded, \*\*\*"):
        list(client(there, api_key=KEY).stream(HELLO))


def test_invalid_lines_in_a_stream_are_ignored():
    with provider(
        Answer(
            sse(b"data: hello", b"data:", b"data: []", b"event: x", chunk({"content": "a"}, finish="stop"))
        )
    ) as there:
        assert texts(client(there).stream(HELLO)) == ["a"]


def test_a_stream_that_is_closed_early_ends_its_request():
    with provider(Answer(sse(chunk({"content": "a"}), done=False), hangs=True)) as there:
        stream = client(there).stream(HELLO)
        assert next(iter(stream)) == Delta("text", "a")
        stream.close()
        with pytest.raises(LLMRequestError, match="not read to its end"):
            stream.reply  # noqa: B018


# --- refusals and retries


def test_a_provider_that_is_busy_is_asked_again():
    with provider(Answer({}, 429, Retry_After="0"), Answer({}, 500), Answer()) as there:
        assert client(there).chat(HELLO) == READ
    assert len(there.requests) == 3
    assert there.bodies[0] == there.bodies[2]


def test_a_busy_server_is_an_error_with_retry_after():
    with provider(Answer({"error": {"message": "slow down"}}, 429, Retry_After="0.0")) as there:
        error = refused(there, max_retries=1)
    assert (error.code, error.status, error.retry_after) == ("rate_limited", 429, 0.0)
    assert "slow down" in str(error)
    assert isinstance(error, LLMError)
    assert len(there.requests) == 2


def test_the_pause_can_be_a_date():
    soon = datetime.now(UTC) + timedelta(hours=1)
    assert 3500 < retry_after(format_datetime(soon, usegmt=True)) <= 3600
    assert retry_after(format_datetime(soon - timedelta(days=1), usegmt=True)) == 0


@pytest.mark.parametrize("value", [None, "", "soon", "nan", "inf", "-", "99999999999999-1-1"])
def test_an_invalid_retry_after_is_none(value):
    assert retry_after(value) is None


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ({"api_key": None}, "environment variable OPENAI_API_KEY"),
        ({"api_key": "secret-1"}, "Check the api_key of OpenAIClient"),
        ({"api_key": ""}, "It needs a key, but none was sent: pass OpenAIClient(api_key=...)"),
        ({"api_key": "", "headers": {"X-Key": "secret-1"}}, "Check the headers"),
    ],
)
def test_the_error_for_a_rejected_key_names_its_source(given, advice, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret-2")
    with provider(Answer({"error": "no"}, 401)) as there:
        made = OpenAIClient("m", base_url=there.url, max_retries=0, **given)
        with pytest.raises(LLMRequestError) as caught:
            made.chat(HELLO)
    assert advice in str(caught.value)
    assert ("OPENAI_API_KEY" in str(caught.value)) is (given == {"api_key": None})


@pytest.mark.parametrize(("answer", "tries", "expected"), [
    *((Answer({"error": "no"}, status), 1, ("provider_error", status, "no")) for status in (400, 401, 403, 404, 413, 422, 302)),
    (Answer({}, 429, Retry_After="3600"), 1, ("rate_limited", 429, "try again in 3600 s")),
    (Answer({"error": {"message": "pay", "code": "insufficient_quota"}}, 429), 1, ("rate_limited", 429, "account")),
    (Answer(b"", hangs=True), 1, ("timeout", None, "longer timeout")),
    *((Answer(b"<html>oops</html>", status, kind="text/html"), 3, (code, status, ": oops. "))
      for status, code in ((500, "provider_error"), (503, "provider_error"), (504, "timeout"))),
])  # fmt: skip
def test_only_passing_failures_of_the_provider_are_tried_three_times(answer, tries, expected):
    code, status, text = expected
    with provider(answer) as there:
        error = refused(there, **({"timeout": 0.2} if answer.hangs else {}))
    assert (error.code, error.status, len(there.requests)) == (code, status, tries)
    assert text in str(error)
    assert error.retry_after == (3600.0 if "3600" in text else None)


def test_an_empty_account_is_recognized_by_the_words():
    said = {"type": "invalid_request_error", "message": "Your credit balance is too low to access the API."}
    with provider(Answer({"error": said}, 400)) as there:
        error = refused(there)
    assert error.reason == "out_of_credit"
    assert "Check your account with the provider" in str(error)


def test_an_error_page_is_shown_as_its_text():
    page = b"<!DOCTYPE html><html><head><style>b {}</style><title>Bad gateway</title></head>\n<p>Try later<script>x"
    with provider(Answer(page, 529, kind="text/html")) as there:
        error = refused(there, max_retries=0)
    assert "HTTP 529: Bad gateway Try later. " in str(error)


def test_a_server_that_is_not_there():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    error = refused(f"http://127.0.0.1:{port}/v1")
    assert (error.code, error.status) == ("provider_error", None)
    assert "cannot be reached" in str(error)
    assert "base_url" in str(error)


def test_an_answer_that_breaks_off_is_asked_for_again():
    with provider(Answer(claims=10_000), Answer()) as there:
        found = client(there).chat(HELLO)
    assert len(found.pop("failed_tries")) == 1  # it is billed too
    assert found == READ


@pytest.mark.parametrize(
    "body", [b'{"choices": [', b"<html>Sign in</html>", b"", b"[1]", b"null", b"[" * 100_000, b"\xff\xfe"]
)
def test_a_body_that_is_not_a_reply_is_reported(body):
    with provider(Answer(body, kind="application/json")) as there:
        error = refused(there)
    assert ("not a JSON object" if body else "its answer is empty") in str(error)
    assert (error.code, len(there.requests), len(str(error)) < 500) == ("provider_error", 1, True)


def test_an_error_with_status_200_is_an_error():
    with provider(Answer({"error": {"message": "no credits", "code": 402}})) as there:
        assert "no credits" in str(refused(there))


def test_a_huge_answer_is_not_read(monkeypatch):
    monkeypatch.setattr("tract_jupyter.llm.http.MAX_REPLY", 1_000)
    with provider(Answer(b" " * 5_000, kind="application/json")) as there:
        assert "larger than 1,000 bytes" in str(refused(there))
    with provider(Answer(b"x" * 5_000, 400)) as there:
        assert "larger than 1,000 bytes" in str(refused(there))


def test_an_answer_that_is_compressed_twice_is_not_unpacked():
    body = gzip.compress(gzip.compress(json.dumps(REPLY).encode()))
    for status, kind in ((200, "application/json"), (200, "text/event-stream"), (400, "application/json")):
        with provider(Answer(body, status, kind=kind, content_encoding="gzip, gzip")) as there:
            assert "has the encoding 'gzip, gzip', which can fill the memory" in str(refused(there))
    with provider(Answer(gzip.compress(json.dumps(REPLY).encode()), content_encoding="gzip")) as there:
        assert client(there).chat(HELLO) == READ


# --- keys


@pytest.mark.parametrize("status", [200, 401, 500])
def test_a_key_is_in_no_message(status, caplog):
    caplog.set_level("DEBUG")
    said = {"error": {"message": f"Incorrect API key provided: {KEY}; other-secret"}}
    with provider(Answer(said, status)) as there:
        made = client(there, api_key=KEY, headers={"X-Key": "other-secret"}, max_retries=0)
        with pytest.raises(LLMRequestError) as caught:
            made.chat(HELLO)
    for text in (str(caught.value), repr(caught.value), repr(made), str(vars(caught.value)), caplog.text):
        assert KEY not in text
        assert "other-secret" not in text


@pytest.mark.parametrize(("repeated", "options"), [
    (KEY, {"api_key": "", "headers": {"Authorization": f"Bearer {KEY}"}}),  # without the scheme before it
    *((_UNUSUAL[:kept], {"api_key": _UNUSUAL}) for kept in (9, 19)),
])  # fmt: skip
def test_a_key_that_the_provider_repeats_or_cuts_off_is_in_no_message(repeated, options):
    with provider(Answer({"error": {"message": f"Incorrect API key provided: {repeated}"}}, 401)) as there:
        made = client(there, max_retries=0, **options)
        with pytest.raises(LLMRequestError) as caught:
            made.chat(HELLO)
    assert repeated[:8] not in str(caught.value)


def test_error_text_of_a_provider_contains_no_control_characters():
    hostile = {"reason_phrase": b"\x1b[2J"}
    transport = httpx.MockTransport(lambda _: httpx.Response(500, text="\x1b[2J", extensions=hostile))
    with pytest.raises(LLMRequestError) as caught:
        OpenAIClient("m", transport=transport, max_retries=0).chat(HELLO)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "url",
    [
        "ftp://u:hunter2@x/v1",
        "http://u:hunter2@x:bad/v1",
        "http://u:hunter2@[x/v1",
        "http://:hunter2@x\x1b/v1",
    ],
)
def test_a_password_in_an_address_is_not_shown(url):
    with pytest.raises(LLMConfigError) as caught:
        OpenAIClient("m", base_url=url)
    assert "hunter2" not in str(caught.value)


def test_a_key_that_cannot_be_sent_is_not_shown():
    with pytest.raises(LLMConfigError, match="Authorization") as caught:
        OpenAIClient("m", api_key="sk-\u2026secret\n1")
    assert "secret" not in str(caught.value)


# --- ending a call


def cancelled_by(there, end, **options):
    with ThreadPoolExecutor() as threads:
        made = client(there)
        asked = threads.submit(made.chat, HELLO, **options)
        assert there.asked.wait(20)
        end(made)
        with pytest.raises(LLMRequestError) as caught:
            asked.result(20)
    assert caught.value.code == "cancelled"
    return made


@pytest.mark.parametrize("body", [b"", b'{"choi'])
@pytest.mark.parametrize("options", [{}, {"on_delta": print}])
def test_another_thread_ends_a_call(body, options):
    with provider(Answer(body, hangs=True, kind="text/plain")) as there:
        made = cancelled_by(there, OpenAIClient.cancel, **options)
        there.answers = [Answer()]
        assert made.chat(HELLO) == READ


def test_an_abort_ends_a_call():
    abort = StopSignal()
    with provider(Answer(b"", hangs=True)) as there:
        cancelled_by(there, lambda _: abort.set(), abort=abort)


def test_an_abort_around_it_ends_a_call():
    abort = StopSignal()
    with provider(Answer(b"", hangs=True)) as there, ThreadPoolExecutor() as threads, Tract.open() as tract:
        tract.configure_llm(client(there))

        def asked():
            with stopped_by(abort):
                tract.llm.chat(HELLO)

        asking = threads.submit(asked)
        assert there.asked.wait(20)
        abort.set()
        with pytest.raises(LLMRequestError, match="was cancelled"):
            asking.result(20)


def test_an_abort_that_is_set_already_sends_nothing():
    abort = StopSignal()
    abort.set()
    with provider(Answer()) as there, pytest.raises(LLMRequestError, match="was cancelled"):
        client(there).chat(HELLO, abort=abort)
    assert not there.requests


def test_a_pause_is_ended_too():
    abort = StopSignal()
    with provider(Answer({}, 429, Retry_After="59")) as there, ThreadPoolExecutor() as threads:
        made = client(there)
        asked = threads.submit(made.chat, HELLO, abort=abort)
        assert there.asked.wait(20)
        abort.set()
        with pytest.raises(LLMRequestError, match="was cancelled"):
            asked.result(20)


def test_a_closed_client_asks_no_more():
    with provider(Answer(b"", hangs=True)) as there:
        made = cancelled_by(there, OpenAIClient.close)
        with pytest.raises(LLMConfigError, match="is closed"):
            made.chat(HELLO)
    with client("http://127.0.0.1:1") as made:
        pass
    with pytest.raises(LLMConfigError, match="is closed"):
        list(made.stream(HELLO))


# --- arguments


@pytest.mark.parametrize(
    "wrong",
    [
        {"base_url": "localhost:11434"}, {"base_url": "ftp://x/v1"}, {"base_url": "https://u:p@x/v1"}, {"base_url": 5},
        {"base_url": "https://x/v1?key=1"}, {"timeout": 0}, {"timeout": float("nan")}, {"max_retries": -1},
        {"max_retries": True}, {"backoff": "1"}, {"headers": {"X": "a\nb"}},
        {"base_url": "http://[x"}, {"base_url": "http://@x/v1"}, {"base_url": "http://x/\x1b[2J"}, {"api_key": 5},
    ],
)  # fmt: skip
def test_arguments_that_cannot_be_used(wrong):
    with pytest.raises(LLMConfigError):
        OpenAIClient("m", **wrong)


def test_nothing_is_sent_without_a_model_or_without_json():
    with provider(Answer()) as there:
        with pytest.raises(LLMConfigError, match="no model"):
            OpenAIClient(base_url=there.url).chat(HELLO)
        for wrong in ({"x": object()}, {"x": float("nan")}):
            with pytest.raises(LLMConfigError, match="cannot be written as JSON"):
                client(there).chat(HELLO, **wrong)
    assert not there.requests


def test_its_imports_wait_for_the_first_call():
    code = "import sys, json, tract_jupyter as t; t.OpenAIClient('m'); print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
    assert not {"httpx", "tenacity"} & set(loaded)
