"""The user's price overrides a cost stated by a server. A damaged reply is an error, never an empty one."""

from __future__ import annotations

import json
from contextlib import nullcontext
from decimal import Decimal

import httpx
import pytest

from tests.llm.test_budget import Served
from tests.review.scripted import ScriptedClient, call, reply
from tract_jupyter import AnthropicClient, OpenAIClient, ResponsesClient, Session, Tract
from tract_jupyter.exceptions import LLMBudgetError, LLMConfigError, LLMError, LLMRequestError
from tract_jupyter.models import Allowance

TOKENS = {"prompt_tokens": 1_000, "completion_tokens": 100}


@pytest.mark.parametrize(
    "stated", ["0", "-1", "1e400", "Infinity", "NaN", '"0.5"', "0.0000001", "true", "null"]
)
def test_the_price_of_the_user_wins(tract, stated):
    body = json.dumps(reply("ok", usage={**TOKENS, "cost": "X"})).replace('"X"', stated)
    served = Served(
        OpenAIClient, *(httpx.Response(200, text=body) for _ in range(9)), base_url="http://there/v1"
    )
    tract.models.use(served.client)
    tract.models.price("m-1", input=2, output=10)
    assert tract.chat("Hi").cost == tract.costs().cost.usd == Decimal("0.003")
    tract.costs.set_budget(usd=Decimal("0.006"))
    tract.chat("Hi", max_tokens=100)
    with pytest.raises(LLMBudgetError):
        tract.chat("Hi", max_tokens=100)


def test_a_cost_stated_by_another_server_is_ignored(tract):
    served = Served(OpenAIClient, reply("ok", usage={**TOKENS, "cost": 0}), base_url="http://there/v1")
    tract.models.use(served.client)
    assert tract.chat("Hi").cost is None
    assert tract.costs().cost is None


def test_a_turn_with_a_request_without_usage_is_an_estimate(tract):
    tract.models.use(ScriptedClient(reply(None, call("log", {}), usage=None), reply("fine", usage=TOKENS)))
    tract.models.price("your ScriptedClient", input=2, output=10)
    response = tract.chat("Hi", tools="full")
    assert response.cost is None
    assert response.usage["estimated_tokens"] > 0
    (turn,) = tract.costs.turns()
    assert turn.report.requests == 2
    assert "≈" in str(turn.report)


def test_a_total_alone_is_used(tract):
    tract.models.use(ScriptedClient(reply("fine", usage={"total_tokens": 1_100})))
    tract.chat("Hi")
    assert tract.costs().tokens == 1_100


@pytest.mark.parametrize(
    "prompt", [{}, {"prompt_tokens": 1e300}, {"prompt_tokens": -9}, {"prompt_tokens": None}]
)
def test_a_count_of_the_reply_alone_does_not_widen_a_limit(tract, prompt):
    usage = {**prompt, "completion_tokens": 1, "total_tokens": -1}
    calls = [reply(None, call("log", {"limit": number}), usage=usage) for number in range(1, 20)]
    tract.models.use(ScriptedClient(*calls))
    response = tract.chat("Hi", tools="full", limits=Allowance(tokens=12_000))
    assert response.outcome == "limit"
    assert response.steps <= 2
    assert tract.costs().tokens <= 12_000


def events(*said):
    text = "".join(f"data: {json.dumps(one)}\n\n" for one in said)
    return httpx.Response(200, text=text, headers={"content-type": "text/event-stream"})


DELTA = {"type": "content_block_delta", "index": 7, "delta": {"type": "text_delta", "text": "hey"}}
END = [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"}]


@pytest.mark.parametrize(
    ("make", "answer", "why"),
    [
        (OpenAIClient, {"choices": [{"message": {"content": 5}}]}, "is 5, not a text"),
        (OpenAIClient, {"choices": []}, r"its choices are \[\]"),
        (OpenAIClient, {"choices": None}, "its choices are None"),
        (OpenAIClient, httpx.Response(307, text="moved"), "Check base_url"),
        (
            OpenAIClient,
            httpx.Response(308, headers={"location": "https://new.example/v1?key=1"}),
            r"HTTP 308 Permanent Redirect: the new address is https://new\.example/v1\. Check base_url",
        ),
        (AnthropicClient, {"type": "message", "content": [None], "stop_reason": "end_turn"}, "damaged"),
        (ResponsesClient, {"status": "completed", "output": [5]}, "damaged"),
    ],
)
def test_a_damaged_reply_is_an_error_that_says_so(tract, make, answer, why):
    tract.models.use(Served(make, answer).client)
    with pytest.raises(LLMRequestError, match=why):
        tract.chat("Hi")
    assert tract.compile().messages == ()


def test_a_piece_that_belongs_to_nothing(tract):
    tract.models.use(Served(AnthropicClient, events(DELTA, *END)).client)
    with pytest.raises(LLMRequestError, match="damaged"):
        tract.chat("Hi", on_delta=lambda piece: None)
    assert tract.compile().messages == ()


def test_an_empty_reply_is_refused(tract):
    tract.models.use(lambda messages, **options: "")
    with pytest.raises(LLMError, match="empty"):
        tract.chat("Hi")
    assert tract.compile().messages == ()


def test_looking_up_an_unregistered_model_raises_a_key_error(tract):
    with pytest.raises(KeyError, match="is registered as 'x/y'"):
        tract.models["x/y"]


def test_a_limit_of_output_is_sent_with_each_request(tract):
    client = ScriptedClient("Hello.")
    tract.models.use(client)
    assert tract.models.configure(max_tokens=77) == {"max_tokens": 77}
    with pytest.raises(LLMConfigError, match="of at least 1"):
        tract.models.configure(max_tokens=0)
    tract.costs.set_budget(tokens=70)
    with pytest.raises(LLMBudgetError, match="at most 77"):
        tract.chat("Hi")


def test_children_ask_the_model_of_their_parent():
    with Session.open() as session:
        parent = session.create_tract()
        parent.models.use(ScriptedClient("One.", "Two."))
        parent.chat("Hi")
        assert session.spawn(parent, purpose="p").chat("Hi").text == "Two."


@pytest.mark.parametrize("is_recorded", [False, True])
def test_a_deeply_nested_reply_without_usage_is_an_error_of_the_reply(tract, tmp_path, is_recorded):
    deep = json.loads("[" * 500 + "]" * 500)
    tract.models.use(ScriptedClient(reply(deep, usage=None)))
    file = tmp_path / "deep.cassette.jsonl"
    with tract.cassette.record(file) if is_recorded else nullcontext(), pytest.raises(LLMError) as error:
        tract.chat("Hi")
    assert "the reply" in str(error.value)
    if is_recorded:
        with Tract.open(replay=file) as t, pytest.raises(LLMError, match="the reply"):
            t.chat("Hi")
