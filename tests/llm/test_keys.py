"""Keys: their sources and the order of these. No key is ever shown or stored."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import sys
import threading
import traceback
from types import SimpleNamespace

import pytest

from tests.llm.dialects import ALL, Messages, Responses, Said
from tests.llm.providers import Answer, provider
from tract_jupyter import AnthropicClient, OpenAIClient, ResponsesClient, Tract
from tract_jupyter.exceptions import LLMConfigError, LLMRequestError, TractError
from tract_jupyter.llm import PROVIDERS, KeySource, key_lines, keys
from tract_jupyter.models import safe_repr

KEY = "Zq7-not-of-any-known-shape-0042"
MESSAGES = [{"role": "user", "content": "x"}]


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    """Remove the keys of this machine, and the keyring."""
    for each in PROVIDERS.values():
        for variable in (*each.key_variables, *each.url_variables):
            monkeypatch.delenv(variable, raising=False)
    monkeypatch.setitem(sys.modules, "keyring", None)


@pytest.fixture
def ring(monkeypatch):
    """A keyring, as a dict."""
    kept = {}
    monkeypatch.setitem(sys.modules, "keyring", SimpleNamespace(get_password=lambda *entry: kept.get(entry)))
    return kept


@pytest.fixture
def sent(tract):
    """Send one request. Return the key that was sent."""
    with provider(Answer()) as here:

        def ask(name="openai/gpt-6-luna", **given):
            tract.models.use(name, base_url=here.url, **given)
            tract.models.client_for("chat").chat(MESSAGES)
            return here.requests[-1][1].get("Authorization")

        yield ask


def test_a_passed_key_comes_before_the_environment_and_the_keyring(sent, ring, monkeypatch):
    ring["tract_jupyter", "openai"] = "of-the-ring"
    assert sent() == "Bearer of-the-ring"
    monkeypatch.setenv("OPENAI_API_KEY", "of-the-environment")
    assert sent() == "Bearer of-the-environment"
    assert sent(api_key=" given ") == "Bearer given"


def test_the_first_variable_that_is_set_counts(monkeypatch):
    source = PROVIDERS["anthropic"].key_source()
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token")
    assert (source.read("m"), str(source)) == ("token", "ANTHROPIC_AUTH_TOKEN")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
    assert (source.read("m"), source.location()) == ("key", "the environment variable ANTHROPIC_API_KEY")


def test_without_a_key_no_request_is_sent_and_the_error_shows_how_to_set_one(tract):
    """The message is not committed either."""
    with provider(Answer()) as here:
        tract.models.use("openai/gpt-6-luna", base_url=here.url)
        with pytest.raises(LLMConfigError) as caught:
            tract.chat("Hello")
    assert (here.requests, tract.log()) == ([], [])
    told = str(caught.value)
    assert "no key for 'openai/gpt-6-luna' in the environment variable OPENAI_API_KEY or the entry" in told
    assert "%tract model openai/gpt-6-luna --key" in told


def test_a_model_that_needs_no_key_is_asked_without(tract):
    with provider(Answer()) as here:
        tract.models.use("ollama/qwen3", base_url=here.url)
        assert tract.chat("Hello").text == "Hello"
    assert "Authorization" not in here.requests[0][1]


def test_a_keyring_that_raises_has_no_key(monkeypatch):
    """A keyring without a backend raises (`keyring.backends.fail`)."""

    def fails(*entry):
        raise RuntimeError("No recommended backend was available")

    monkeypatch.setitem(sys.modules, "keyring", SimpleNamespace(get_password=fails))
    assert not KeySource(service="a", user="b").is_set


def test_a_keyring_that_waits_for_a_dialog_is_not_waited_for(monkeypatch):
    """It is also not read again and again."""
    monkeypatch.setattr(keys, "KEYRING_SECONDS", 0.01)
    monkeypatch.setattr(keys, "_silent_until", [0.0])
    asked, over = [], threading.Event()
    ring = SimpleNamespace(get_password=lambda *entry: asked.append(entry) or over.wait())
    monkeypatch.setitem(sys.modules, "keyring", ring)
    source = KeySource(service="a", user="b")
    assert not source.is_set
    assert not source.is_set
    over.set()
    assert len(asked) <= 1


# --- never shown


def shown_variables(error):
    """Return a traceback with all variables, like `%xmode Verbose`, without the frames of this file."""
    while error is not None:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            if frame.f_code.co_filename != __file__:
                yield from map(safe_repr, frame.f_locals.values())
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


@pytest.mark.slow
@pytest.mark.parametrize(
    "fails",
    [
        lambda url, key: Tract.open(model="openai/x", api_key=key, base_url="nonsense"),
        lambda url, key: Tract.open(model="nobody/x", api_key=key, base_url=None),
        lambda url, key: Tract.open(api_key=key),
        lambda url, key: Tract.open("/proc/no/such.db", model="openai/x", api_key=key),
        lambda url, key: Tract.open().models.use("openai/x", api_key=key, base_url="http://me:you@host"),
        lambda url, key: OpenAIClient("m", api_key=key, base_url="nonsense"),
        lambda url, key: OpenAIClient("m", api_key=key, headers={"X": "\u20ac" + key}),
        lambda url, key: OpenAIClient("m", api_key="", headers={"X-Key": key}, base_url=url).chat(MESSAGES),
        lambda url, key: OpenAIClient("m", api_key=key, base_url=url).chat(MESSAGES),
        lambda url, key: ResponsesClient("m", api_key=key, base_url=url).chat(MESSAGES),
        lambda url, key: AnthropicClient("m", api_key=key, base_url=url).chat(MESSAGES),
        lambda url, key: OpenAIClient("m", api_key=key, base_url=url).chat(MESSAGES, on_delta=print),
        lambda url, key: Tract.open(model="openai/x", api_key=key, base_url=url).chat("Hello"),
        lambda url, key: Tract.open(model="openai/x", api_key=key, base_url="http://127.0.0.1:9/v1").chat(
            "Hello"
        ),
    ],
)
def test_no_traceback_shows_a_key(fails):
    """Not even with all variables, and a provider that repeats the key."""
    echo = Answer({"error": {"message": f"bad key {KEY}"}}, status=401)
    with provider(echo) as here:
        try:
            fails(here.url, KEY)
        except TractError as error:
            own = error
        shown = list(shown_variables(own))
    assert shown
    assert not any(KEY in one for one in shown)
    assert KEY not in str(own)


def of_environment(url):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANTHROPIC_BASE_URL", url)
        Tract.open(model="anthropic/claude-x", api_key="k")


@pytest.mark.parametrize("url", [
    "http://me:{}@host/v1", "http://{}@host/v1", "http://host/v1?key={}", "http://host/v1?version=1&key={}", "http://host/v1#{}", "{}", "nonsense {}", "ftp://me:{}@host",
    "http://[me:{}@host", "http://host\n{}",
])  # fmt: skip
@pytest.mark.parametrize("fails", [
    lambda url: Tract.open(model="openai/x", base_url=url), lambda url: Tract.open("/proc/no/such.db", model="openai/x", base_url=url),
    lambda url: Tract.open(base_url=url),
    lambda url: Tract.open().models.use("openai/x", base_url=url), lambda url: Tract.open().models.use("x", base_url=url),
    lambda url: Tract.open().models.add("m", base_url=url), lambda url: Tract.open().models.add("m", "openai/x", base_url=url),
    lambda url: Tract.open().models.add("in vain", base_url=url), lambda url: OpenAIClient("m", base_url=url),
    lambda url: ResponsesClient("m", base_url=url), lambda url: AnthropicClient("m", base_url=url), of_environment,
])  # fmt: skip
def test_no_traceback_shows_a_key_within_an_address(fails, url):
    with pytest.raises(TractError) as caught:
        fails(url.format(KEY))
    assert not any(KEY in one for one in shown_variables(caught.value))
    assert KEY not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", ALL)
def test_whatever_goes_wrong_the_key_is_nowhere(tmp_path, caplog, capfd, dialect, streamed):
    """The key is in no output, log, error, variable or file, even if a provider repeats parts of it."""
    caplog.set_level(logging.DEBUG)
    echo, stream = f"no good: Bearer {KEY}", dialect.stream(Said("A long text that is cut"))
    said = {401: "authentication_error", 429: "rate_limit_error", 500: "api_error", 404: "not_found_error"}
    error = b"data: " + json.dumps(dialect.error("overloaded_error", echo)).encode() + b"\n\n"
    faults = [
        *(Answer(dialect.error(kind, echo), status, Retry_After="3600") for status, kind in said.items()),
        Answer(f"<html>{echo}</html>".encode(), 502), Answer(f"{echo} {{".encode()), Answer({"odd": echo}),
        Answer(bytes(stream)[: len(stream) // 2]), Answer(bytes(stream)[: len(stream) // 2] + error),
        Answer(bytes(stream), claims=len(stream) + 99), Answer(b"data: {" + KEY.encode() + b"\n\n"),
    ]  # fmt: skip
    provider_of = "anthropic" if dialect is Messages else "openai"
    told = []
    for fault in faults:
        with provider(fault) as here, Tract.open(tmp_path / "t.db") as tract:
            tract.models.add(
                "m", f"{provider_of}/m", base_url=dialect.url(here), max_retries=0, key_env="MINE",
                dialect="responses" if dialect is Responses else None,
            )  # fmt: skip
            tract.models.use("m")
            try:
                with pytest.MonkeyPatch.context() as patch:
                    patch.setenv("MINE", KEY)
                    response = tract.chat("Hi", tools="self", on_delta=told.append if streamed else None)
            except TractError as failed:
                told += [*shown_variables(failed), repr(failed), str(failed), vars(failed)]
            else:
                told += [response]
            told += [tract.log(), tract.costs(), tract.events(), tract.models, tract.models.purposes]
            told += [here.requests[0][1]["Authorization"] == f"Bearer {KEY}", tract.review.inbox()]
    written = capfd.readouterr()
    assert told.count(True) == len(faults)
    assert KEY not in caplog.text + written.out + written.err + "".join(f"{one!r}{one!s}" for one in told)
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not any(KEY.encode() in content for content in files)


def test_a_given_key_is_in_no_repr_pickle_store_or_log(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    echo = Answer({"error": {"message": f"bad key {KEY}"}}, status=401)
    with provider(Answer(), echo) as here:
        tract = Tract.open(tmp_path / "t.db", model="openai/gpt-6-luna", api_key=KEY, base_url=here.url)
        with tract:
            made = tract.models.use("openai/gpt-6-luna", api_key=KEY, base_url=here.url)
            tract.chat("Hello")
            with pytest.raises(LLMRequestError) as caught:
                tract.chat("Again")
            client = tract.models.client_for("chat")
            told = [
                tract,
                tract.models,
                made,
                made.key,
                client,
                tract.llm,
                tract.costs,
                tract.costs(),
                caught.value,
            ]
            told += [vars(client), tract.log(), tract.status(), vars(tract.models.clients)]
            for one in (made, made.key, client, tract.models):
                for use in (pickle.dumps, copy.deepcopy):
                    with pytest.raises(LLMConfigError, match="cannot be pickled"):
                        use(one)
    assert KEY not in caplog.text + "".join(f"{one!r}{one!s}" for one in told)
    assert "enter another key with %tract model openai/gpt-6-luna --key" in str(caught.value)
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not any(KEY.encode() in content for content in files)


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("x = 1\nkey = 'sk-abcdefghijklmnopqrstuvwx'", [2]),
        ("os.environ['A'] = 'sk-ant-api03-abcdefghijklmnop'", [1]),
        ("%env GROQ=gsk_abcdefghijklmnopqrst", [1]),
        ("k = 'AIzaSyA-abcdefghijklmnopqrstuvwxyz0123'", [1]),
        ("task-abcdefghijklmnopqrstuvwxyz = 'risk-management-for-beginners'", []),
        ("sk-short and sk- alone", []),
        ("", []),
    ],
)
def test_lines_that_look_like_keys_are_found(source, lines):
    assert key_lines(source) == lines
