"""The cost of a request, from offline tables. An unknown cost is never 0."""

from __future__ import annotations

import socket
from decimal import Decimal

import pytest

from tract_jupyter import Tract
from tract_jupyter.exceptions import LLMConfigError
from tract_jupyter.llm import PROVIDERS


def answering(model="m", *, base_url=None, usage=None, **more):
    """A client that replies with this usage. It can have an address, like HTTP clients."""

    class Client:
        def __init__(self):
            self.model, self.base_url = model, base_url

        def chat(self, messages, **options):
            message = {"role": "assistant", "content": "Hello."}
            return {"choices": [{"message": message}], "model": model, "usage": usage, **more}

    return Client()


def tokens(given, made, *, cached=0, written=0, **more):
    details = {"cached_tokens": cached, "cache_write_tokens": written}
    return {"prompt_tokens": given, "completion_tokens": made, "prompt_tokens_details": details, **more}


OPENAI, ANTHROPIC = PROVIDERS["openai"].base_url, PROVIDERS["anthropic"].base_url


def cost(model, usage, *, base_url=OPENAI, **more):
    with Tract.open(model=answering(model, base_url=base_url, usage=usage, **more)) as tract:
        tract.chat("Hello")
        return tract.costs().cost


@pytest.mark.parametrize(
    ("model", "base_url", "usage", "usd"),
    [
        ("gpt-6-luna", OPENAI, tokens(1_000_000, 1), None),
        ("claude-haiku-4-5", ANTHROPIC, tokens(100_000, 1_000), "0.105"),
        ("claude-haiku-4-5", ANTHROPIC, tokens(200_000, 500), "0.2025"),
        # cached and written tokens are part of the input, each at its own price: 2, 0.2, 2.5 and 10 USD
        ("claude-sonnet-5", ANTHROPIC, tokens(5_100, 10, cached=2_000, written=3_000), "0.0082"),
    ],
)
def test_known_models_are_priced_by_the_tables(model, base_url, usage, usd):
    found = cost(model, usage, base_url=base_url)
    assert found is not None
    assert not found.is_estimate
    assert usd is None or found.usd == Decimal(usd)
    assert found.usd > 0


def test_each_request_is_priced_by_itself():
    """Two short prompts do not count as one long prompt, which has a higher price tier."""
    with Tract.open(model=answering("gpt-6-astra", base_url=OPENAI, usage=tokens(200_000, 0))) as tract:
        tract.chat("One")
        one = tract.costs().known.usd
        tract.chat("Two")
        assert tract.costs().known.usd == 2 * one
    long = cost("gpt-6-astra", tokens(400_000, 0))
    assert long.usd > 2 * one


@pytest.mark.parametrize(
    ("model", "base_url"),
    [
        ("gpt-6.2-astra-of-tomorrow", OPENAI),
        ("claude-haiku-4-5-turbo", ANTHROPIC),  # the tables match by prefix; this may be another model
        ("qwen3", "http://127.0.0.1:11434/v1"),
        ("claude-haiku-4-5", None),  # a custom client: its provider is unknown
    ],
)
def test_an_unknown_price_is_unknown_and_never_zero(model, base_url):
    with Tract.open(model=answering(model, base_url=base_url, usage=tokens(10, 10))) as tract:
        response = tract.chat("Hello")
        report = tract.costs()
    assert report.cost is None
    assert "cost" not in response.usage
    assert response.cost is None
    assert [line.tokens for line in report.unknown] == [20]
    assert "an unknown price" in str(report)


def test_a_dated_version_is_priced_as_its_model_and_marked():
    """The tables would treat it as the model. That is likely but not certain."""
    found = cost("gpt-6-astra-2027-01-01", tokens(1_000, 1_000))
    assert found.is_estimate
    assert str(found).startswith("≈")
    assert found.usd == cost("gpt-6-astra", tokens(1_000, 1_000)).usd


def test_another_tier_of_service_is_marked():
    assert cost("gpt-6-astra", tokens(1_000, 1_000), service_tier="flex").is_estimate
    assert not cost("gpt-6-astra", tokens(1_000, 1_000), service_tier="default").is_estimate


def test_a_cost_reported_by_openrouter_overrides_the_tables():
    """OpenRouter reports the cost with the usage."""
    found = cost("anything", tokens(10, 10, cost=0.25), base_url="https://openrouter.ai/api/v1")
    assert (found.usd, found.is_estimate) == (Decimal("0.25"), False)
    assert cost("anything", tokens(10, 10, cost=0.25), base_url="http://127.0.0.1:9/v1") is None


def test_without_usage_it_is_an_estimate():
    found = cost("claude-haiku-4-5", None, base_url=ANTHROPIC)
    assert found.is_estimate
    assert 0 < found.usd < Decimal("0.01")


def test_contradictory_usage_does_not_raise_an_error():
    found = cost("claude-haiku-4-5", tokens(10, 1, cached=500), base_url=ANTHROPIC)
    assert found is not None


def test_an_error_of_the_price_tables_does_not_lose_the_reply(monkeypatch):
    """The reply is already paid for."""

    def fails(*_args, **_options):
        raise RuntimeError("broken")

    monkeypatch.setattr("genai_prices.calc_price", fails)
    assert cost("claude-haiku-4-5", tokens(10, 1), base_url=ANTHROPIC) is None


# --- prices set by the user


@pytest.mark.parametrize("name", ["qwen3", "ollama/qwen3"])
def test_a_user_price_overrides_the_tables(tract, name):
    tract.models.price(name, input=1, output="2.5", cached=0)
    spending = tract.models.spending
    asked = tract.models.use("ollama/qwen3").asked()
    client = answering("qwen3", usage=tokens(1_000_000, 1_000_000, cached=500_000))
    spending.ask(client, [{"role": "user", "content": "x"}], {}, asked=asked, operation="chat")
    assert tract.costs().cost.usd == Decimal(3)


def test_a_registered_models_price(tract):
    tract.models.add("mine", answering("m", usage=tokens(1_000_000, 0)))
    tract.models.price("mine", input=0, output=0)
    tract.models.client("mine").chat([{"role": "user", "content": "x"}])
    assert tract.costs().cost.usd == 0
    assert tract.costs().lines[0].model == "mine"


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), "much", None, True, [1]])
def test_an_invalid_price_is_refused(tract, wrong):
    with pytest.raises(LLMConfigError, match="input must be the price of a million tokens in US dollars"):
        tract.models.price("m", input=wrong, output=1)
    with pytest.raises(LLMConfigError, match="a price needs the name of a model"):
        tract.models.price(" ", input=1, output=1)


def test_nothing_is_fetched(monkeypatch):
    def refused(*_args, **_options):
        raise AssertionError("a connection was made")

    monkeypatch.setattr(socket.socket, "connect", refused)
    assert cost("claude-haiku-4-5", tokens(10, 10), base_url=ANTHROPIC)
