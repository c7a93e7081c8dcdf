"""The budget refuses requests that could exceed it. It checks the final request before each attempt."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.review.scripted import ScriptedClient, reply
from tract_jupyter import AnthropicClient, OpenAIClient, ResponsesClient
from tract_jupyter.exceptions import LLMBudgetError, LLMError, LLMRequestError


class Served:
    """A client with a transport that returns scripted responses."""

    def __init__(self, make, *answers, **arguments):
        self.answers = list(answers)
        self.bodies = []
        transport = httpx.MockTransport(self.answer)
        self.client = make("m-1", api_key="k", backoff=0, transport=transport, **arguments)

    def answer(self, request):
        self.bodies.append(json.loads(request.content))
        given = self.answers.pop(0)
        return given if isinstance(given, httpx.Response) else httpx.Response(200, json=given)


class Cut(httpx.SyncByteStream):
    """A response body that ends early."""

    def __init__(self, text):
        self.text = text

    def __iter__(self):
        yield self.text
        raise httpx.ReadError("cut")


def message(*content, **usage):
    return {
        "type": "message",
        "model": "m-1",
        "content": list(content),
        "stop_reason": "end_turn",
        "usage": usage,
    }


HELLO = reply("Hello.", usage={"prompt_tokens": 5, "completion_tokens": 5})


@pytest.mark.parametrize("make", [OpenAIClient, ResponsesClient, AnthropicClient])
@pytest.mark.parametrize(
    "options",
    [
        {"max_tokens": 50_000},
        {"max_tokens": 50_000.0},
        {"max_completion_tokens": 50_000},
        {"max_output_tokens": 50_000},
        {"extra_body": {"max_tokens": 50_000}},
        {"options": {"num_predict": 50_000}},
        {"n": 100, "max_tokens": 1_000},
    ],
)
def test_every_way_to_ask_for_more_output_counts(tract, make, options):
    served = Served(make)
    tract.models.use(served.client)
    tract.costs.set_budget(tokens=17_000)
    with pytest.raises(LLMError):  # other dialects refuse the option n
        tract.chat("Hi", **options)
    assert served.bodies == []


@pytest.mark.parametrize(
    "options",
    [{"extra_body": {"models": ["m-1", "m-2"]}}, {"models": ["m-2"]}, {"models": ["m-1", "unknown"]}],
)
def test_the_most_expensive_of_the_models_that_may_reply_counts(tract, options):
    served = Served(OpenAIClient)
    tract.models.use(served.client)
    tract.models.price("m-1", input=1, output=1)
    tract.models.price("m-2", input=1_000, output=1_000)
    tract.costs.set_budget(usd=1)
    with pytest.raises(LLMBudgetError):
        tract.chat("Hi", **options)
    assert served.bodies == []


def test_options_for_more_output_count_for_a_custom_client_too(tract):
    client = ScriptedClient(HELLO)
    tract.models.use(client)
    tract.costs.set_budget(tokens=9_000)
    for options in ({"n": 100, "max_tokens": 1_000}, {"max_output_tokens": 50_000}):
        with pytest.raises(LLMBudgetError, match="at most"):
            tract.chat("Hi", **options)
    assert client.asked == []


@pytest.mark.parametrize("goes_back", [True, False])
def test_reasoning_counts_in_the_budget_only_if_it_goes_back(tract, goes_back):
    """Another model gets only the text."""
    thought = {"type": "thinking", "thinking": "t " * 20_000, "signature": "s"}
    said = {"type": "text", "text": "ok"}
    served = Served(AnthropicClient, message(thought, said, input_tokens=10, output_tokens=20_000))
    tract.models.use(served.client)
    tract.chat("One")
    tract.costs.set_budget(tokens=tract.costs().tokens + 1_000)
    if goes_back:
        with pytest.raises(LLMBudgetError):
            tract.chat("Two", max_tokens=500)
        assert len(served.bodies) == 1
    else:
        tract.models.use(Served(OpenAIClient, HELLO).client)
        assert tract.chat("Two", max_tokens=500).text == "Hello."


@pytest.mark.parametrize("on_delta", [None, lambda piece: None])
def test_the_budget_is_checked_before_each_try(tract, on_delta):
    used = {"input_tokens": 1_000, "output_tokens": 1}
    broken = {"type": "error", "error": {"type": "overloaded_error"}, "usage": used}
    events = [
        {"type": "message_start", "message": message(**used)},
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
    ]
    stream = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    answers = (
        [httpx.Response(200, text=stream, headers={"content-type": "text/event-stream"}) for _ in range(3)]
        if on_delta
        else [broken] * 3
    )
    served = Served(AnthropicClient, *answers, max_retries=3)
    tract.models.use(served.client)
    tract.costs.set_budget(tokens=1_500)
    with pytest.raises(LLMBudgetError, match="has used 1,001"):
        tract.chat("Hi", max_tokens=495, on_delta=on_delta)
    assert len(served.bodies) == 1
    assert tract.costs().tokens == 1_001  # it is billed once


def test_a_reply_that_broke_off_is_noted_with_an_estimate(tract):
    begun = json.dumps(reply("word " * 300)).encode()[:800]
    served = Served(
        OpenAIClient, httpx.Response(200, stream=Cut(begun)), httpx.Response(200, stream=Cut(begun)), HELLO
    )
    tract.models.use(served.client)
    tract.chat("Hi")
    report = tract.costs()
    assert report.requests == 3
    assert report.tokens > 2 * 200
    assert "≈" in str(report)


def test_the_last_try_that_broke_off_counts_too(tract):
    begun = b'{"choices": ' + b" " * 388
    served = Served(OpenAIClient, httpx.Response(200, stream=Cut(begun)), max_retries=0)
    tract.models.use(served.client)
    with pytest.raises(LLMRequestError, match="broke"):
        tract.chat("Hi")
    (line,) = tract.costs().lines
    assert (line.requests, line.output_tokens, line.is_estimate) == (1, 100, True)


def test_a_custom_function_needs_a_price_and_the_error_shows_how_to_set_it(tract):
    tract.models.use(lambda messages, **_: "Hello.")
    tract.costs.set_budget(usd=1)
    with pytest.raises(LLMBudgetError, match="the price of your function is unknown") as caught:
        tract.chat("Hi")
    line = str(caught.value).rpartition("as in ")[2]
    assert line == "tract.models.price('your function', input=1, output=5)"
    tract.models.price("your function", input=1, output=5)
    assert tract.chat("Hi").text == "Hello."
