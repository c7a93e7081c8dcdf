"""Choosing models: `t.models.use`, `Tract.open(model=...)`, one for each kind of request."""

from __future__ import annotations

import pytest

from tests.llm.providers import Answer, provider
from tests.review.scripted import ScriptedClient, call, reply
from tract_jupyter import Tract
from tract_jupyter.exceptions import ContentError, LLMConfigError
from tract_jupyter.llm import MODEL_OPERATIONS, PROVIDERS

VARIABLES = {one for each in PROVIDERS.values() for one in (*each.key_variables, *each.url_variables)}


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    """Remove the keys and addresses of this machine, and the keyring."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("tract_jupyter.llm.keys.keyring", lambda: None)


def chat_answer(model="m-1"):
    return Answer(reply("Hello.", model=model))


ANTHROPIC = {
    "id": "m1", "type": "message", "role": "assistant", "model": "claude-sonnet-5-5",
    "content": [{"type": "text", "text": "Hello."}], "stop_reason": "end_turn", "stop_sequence": None,
    "usage": {"input_tokens": 10, "output_tokens": 2},
}  # fmt: skip


# --- names


def test_opened_with_a_model_a_key_and_an_address(monkeypatch):
    """The form that document 000 uses."""
    with (
        provider(chat_answer()) as here,
        Tract.open(model="openai/gpt-6-luna", api_key="given-key", base_url=here.url) as tract,
    ):
        assert tract.chat("Hello").text == "Hello."
    path, headers, body = here.requests[0]
    assert (path, headers["Authorization"]) == ("/v1/chat/completions", "Bearer given-key")
    assert body["model"] == "gpt-6-luna"


@pytest.mark.parametrize(
    ("name", "path", "answer"),
    [
        ("openai/gpt-6-luna", "/v1/chat/completions", chat_answer()),
        ("anthropic/claude-sonnet-5-5", "/v1/messages", Answer(ANTHROPIC)),
        ("ollama/qwen3", "/v1/chat/completions", chat_answer()),
    ],
)
def test_the_provider_says_how_it_is_talked_to(tract, monkeypatch, name, path, answer):
    """Address and key come from the environment."""
    of = PROVIDERS[name.partition("/")[0]]
    with provider(answer) as here:
        monkeypatch.setenv(of.url_variables[0], here.url)
        monkeypatch.setenv(of.key_variables[0], "env-key")
        tract.models.use(name)
        assert tract.chat("Hello").text == "Hello."
    assert here.requests[0][0] == path
    assert here.requests[0][1]["Authorization"] == "Bearer env-key"
    assert here.bodies[0]["model"] == name.partition("/")[2]


def test_openai_itself_is_asked_in_its_newer_dialect(tract):
    """OpenAI's reasoning models call tools only in the newer dialect. Other servers use the older one."""
    assert tract.models.use("openai/gpt-6-luna").dialect == "responses"
    assert tract.models.use("openai/gpt-6-luna", base_url="http://127.0.0.1:9/v1").dialect == "chat"
    assert tract.models.use("anthropic/claude-sonnet-5-5").dialect == "anthropic"


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1:9000", "http://127.0.0.1:9000/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("https://box.example/v1/", "https://box.example/v1"),
        ("", "http://127.0.0.1:11434/v1"),
    ],
)
def test_the_address_of_ollama_comes_from_its_variable(tract, monkeypatch, host, url):
    """OLLAMA_HOST is the address that the server listens on."""
    monkeypatch.setenv("OLLAMA_HOST", host)
    assert tract.models.use("ollama/qwen3").base_url == url


def test_openrouters_names_have_a_slash_of_their_own(tract):
    made = tract.models.use("openrouter/anthropic/claude-sonnet-5.5", api_key="k")
    assert (made.model, made.base_url) == ("anthropic/claude-sonnet-5.5", "https://openrouter.ai/api/v1")


def test_a_plain_name_goes_to_the_address_and_takes_no_key_along(tract, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "not-for-others")
    with provider(chat_answer()) as here:
        tract.models.use("mine", base_url=here.url)
        tract.chat("Hello")
    assert "Authorization" not in here.requests[0][1]


def test_a_plain_name_with_a_key_is_openais(tract):
    made = tract.models.use("gpt-6-luna", api_key="k")
    assert (made.name, made.provider) == ("openai/gpt-6-luna", "openai")


def test_a_registered_name_comes_first(tract):
    client = ScriptedClient("mine")
    tract.models.add("ollama/qwen3", client)
    tract.models.use("ollama/qwen3")
    assert tract.chat("Hello").text == "mine"


def test_a_provider_model_can_have_a_custom_name(tract, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    made = tract.models.add("fast", model="anthropic/claude-sonnet-5-5")
    assert (made.name, made.model, made.dialect) == ("fast", "claude-sonnet-5-5", "anthropic")
    assert "AnthropicClient claude-sonnet-5-5" in repr(tract.models.client("fast"))


def test_a_function_is_a_model():
    with Tract.open(model=lambda messages, **_: messages[-1]["content"].upper()) as tract:
        assert tract.chat("hello").text == "HELLO"
        assert "your function" in repr(tract.models)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"model": "gpt-6-luna"}, "write PROVIDER/NAME with one of openai/"),
        ({"model": "opnai/gpt-6-luna"}, "Did you mean 'openai'"),
        ({"model": "anthropic/"}, "does not name a model"),
        ({"model": ""}, "a model name that the provider knows"),
        ({"model": 3}, "a model must be an object with chat"),
        ({"model": ScriptedClient}, "a model must be an object with chat"),
        ({"model": ScriptedClient(), "api_key": "k"}, "with its own address and key"),
        ({"model": "openai/x", "api_key": " "}, "a string that is not empty"),
        ({"model": "openai/x", "api_key": 3}, "a string that is not empty"),
        ({"model": "openai/x", "base_url": "nonsense"}, "base_url must be an address such as"),
        ({"model": "openai/x", "base_url": "http://me:pass@host/v1"}, "user, password"),
        ({"model": None, "api_key": "k"}, "need a model"),
        ({"model": None, "base_url": "http://127.0.0.1:9"}, "need a model"),
    ],
)
def test_an_invalid_model_name_changes_nothing(tract, given, told):
    before = ScriptedClient("before")
    tract.models.use(before)
    with pytest.raises(LLMConfigError, match=told):
        tract.models.use(**given)
    assert tract.llm is before
    with pytest.raises(LLMConfigError):
        Tract.open(**given)


def test_the_error_suggests_the_nearest_registered_name(tract):
    tract.models.add("local", base_url="http://127.0.0.1:9/v1")
    with pytest.raises(LLMConfigError, match=r"registered here: 'local'\. Did you mean 'local'\?"):
        tract.models.use("locl")


def test_the_error_without_a_model_shows_the_line_to_type(tract):
    """Nothing is committed."""
    with pytest.raises(LLMConfigError, match=r"type %tract model openai/gpt-6-luna, or tract\.models\.use"):
        tract.chat("Hello")
    assert tract.log() == []


def test_a_model_is_taken_away_again(tract):
    tract.models.use(ScriptedClient("x"))
    assert tract.models.use(None) is None
    assert tract.llm is None
    assert repr(tract.models).startswith("No models yet: tract.models.use('openai/gpt-6-luna')")


# --- one for each kind of request


@pytest.fixture
def asked(tract):
    """A tract with messages to compress, and one model for each kind of request, named after it."""
    clients = {
        "chat": ScriptedClient(*["A reply."] * 9),
        "compress": ScriptedClient(*["Short."] * 9),
        "merge": ScriptedClient(*["Mind the second."] * 9),
        "tool_result": ScriptedClient(*["Less."] * 9),
        "consult": ScriptedClient(reply(None, call("approve"))),
    }
    tract.user("One long question, at some length. " * 9)
    for operation, client in clients.items():
        tract.models.use(client, operation=operation)
    return tract, clients


def requests(clients):
    return {name: len(client.asked) for name, client in clients.items() if client.asked}


def test_each_kind_of_request_has_its_own_model(asked, spec):
    tract, clients = asked
    tract.generate()
    assert requests(clients) == {"chat": 1}
    tract.compress(two_stage=True)
    assert requests(clients) == {"chat": 1, "compress": 2}
    tract.register_operation(spec(unhandled="ask"))
    pending = tract.fire("citation_check", {"urls": []}, review=True)
    pending.consult("Look.")
    assert requests(clients) == {"chat": 1, "compress": 2, "consult": 1}
    assert {line.operation for line in tract.costs().lines} == {"chat", "compress", "consult"}


def test_answers_of_tools_have_their_own(asked):
    tract, clients = asked
    tract.generate()
    tract.models.use(None, operation="tool_result")
    with pytest.raises(LLMConfigError, match="no language model is configured"):
        tract.models.client_for("tool_result")
    other = ScriptedClient("Less.")
    tract.models.use(other)
    assert tract.models.client_for("tool_result").chat([{"role": "user", "content": "x"}])["choices"]
    assert len(other.asked) == 1
    assert clients["tool_result"].asked == []


@pytest.mark.parametrize("operation", MODEL_OPERATIONS)
def test_every_kind_can_be_asked_for(tract, operation):
    """Also kinds that only extensions use. The models of other kinds do not change."""
    usual, special = ScriptedClient("usual"), ScriptedClient("special")
    tract.models.use(usual)
    tract.models.use(special, operation=operation)
    tract.models.configure(temperature=0.5, operation=operation)
    tract.models.client_for(operation).chat([{"role": "user", "content": "x"}])
    assert special.asked[0][1] == {"temperature": 0.5}
    assert usual.asked == []


def test_the_name_of_another_clients_model_is_not_sent(tract):
    """The name means nothing to the new client. The temperature is still sent."""
    tract.models.configure("large", operation="compress", temperature=0.5)
    client = ScriptedClient("x")
    tract.models.use(client, operation="compress")
    tract.models.client_for("compress").chat([{"role": "user", "content": "x"}])
    assert client.asked[0][1] == {"temperature": 0.5}


def test_an_unknown_kind_of_request_is_refused(tract):
    for wrong in (tract.models.use, lambda client, operation: tract.models.client_for(operation)):
        with pytest.raises(ContentError, match="operation must be 'chat' or 'compress'"):
            wrong(ScriptedClient("x"), operation="paint")


def test_only_a_client_that_can_stream_is_asked_to(tract):
    """A run with a viewer streams. A function without the parameter `on_delta` does not get it."""
    came = []

    def streams(messages, on_delta=None, **options):
        if on_delta is not None:
            on_delta("piece")
        return reply("piece")

    class Streaming:
        chat = staticmethod(streams)

    for client in (Streaming(), ScriptedClient("whole")):
        tract.models.use(client)
        chat = tract.models.client_for("chat").chat
        assert chat([{"role": "user", "content": "x"}], on_delta=came.append)["choices"]
    assert came == ["piece"]


def test_adding_a_model_without_any_definition_is_refused(tract):
    with pytest.raises(LLMConfigError, match="the model 'local' is not defined"):
        tract.models.add("local")
    assert "local" not in tract.models


def test_the_error_for_removing_an_unknown_model_does_not_advise_adding_it(tract):
    with pytest.raises(LLMConfigError, match="no model or credential is registered as 'nope'") as caught:
        tract.models.remove("nope")
    assert "models.add" not in str(caught.value)
