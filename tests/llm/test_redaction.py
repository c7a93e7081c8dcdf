"""A cassette contains no keys: neither known ones nor text that looks like one."""

from __future__ import annotations

import json

import pytest

from tests.llm.providers import Answer, chunk, provider, sse
from tests.review.scripted import ScriptedClient, call, reply
from tract_jupyter import Tract
from tract_jupyter.exceptions import LLMRequestError

KEY = "sk-abcdefghijklmnopqrstuvwxZqJw"  # its end never occurs in a time or a hash


@pytest.fixture
def cassette(tmp_path):
    return tmp_path / "talk.cassette.jsonl"


def test_no_key_is_on_it(cassette, monkeypatch):
    monkeypatch.setenv("HOUSE_TOKEN", "correct-horse-battery")
    hostile = (
        f"Bearer abc.def-123 at https://u:pa55word@host/x?api_key=hunter2hunter2 {KEY} correct-horse-battery"
    )
    echo = Answer({"error": {"message": f"bad key {KEY[:7]}****{KEY[-4:]}"}}, status=401)
    shown = [
        chunk({"content": f"it is {KEY[:9]}"}),
        chunk({"content": f"{KEY[9:]}, 'house-key'"}, finish="stop"),
    ]
    with provider(Answer(sse(*shown)), echo) as here, Tract.open(record=cassette) as t:
        t.models.use("openai/m-1", api_key="house-key", base_url=here.url)
        t.tool(lambda: {hostile: [hostile]}, name="leak", description="Leak.", read_only=True)
        t.tools.leak()
        t.chat(f"What is {hostile}?", on_delta=lambda _: None)
        with pytest.raises(LLMRequestError):
            t.chat("Again")
    text = cassette.read_text()
    for secret in (KEY, KEY[9:], KEY[-4:], "abc.def", "pa55word", "hunter2", "horse", "house-key"):
        assert secret not in text
    assert "What is Bearer [redacted] at https://[redacted]@host/x?api_key=[redacted]" in text
    with Tract.open(replay=cassette) as t:  # redacted text is not a difference
        t.models.use("openai/m-1")
        t.tool(lambda: None, name="leak", description="Leak.", read_only=True)
        t.tools.leak()
        t.chat(f"What is {hostile}?")
        t.cassette.stop()


def test_a_named_secret_is_redacted_in_data_as_in_json_text(cassette):
    """The request has arguments and results as JSON text, and the call has them as data."""
    secrets = ["Tr0ub4dor&3xyz", "q8Zk2LmN0pQr5StUv7Wx", "a9Bc3dEf6GhI1jKl4MnO", 'q"7\\nX2vB9kLm4']
    arguments = {"user": "Zora", "password": secrets[0]}
    result = {"access_token": secrets[1], "more": [{"api_keys": [secrets[2]]}, {"DB_PASSWORD": secrets[3]}]}

    def talk(t):
        @t.tool(read_only=True)
        def login(user: str, password: str) -> dict:
            """Log in."""
            return result

        t.loop.tools = "self"
        return t.chat("Log in").text

    with Tract.open(
        record=cassette, model=ScriptedClient(reply(None, call("login", arguments, "c1")), "Done.")
    ) as t:
        talk(t)
    text = cassette.read_text()
    assert [one for one in secrets if one in text or json.dumps(one)[1:-1] in text] == []
    assert text.count("Zora") == 3  # in the reply, in the next request, and in the call
    with Tract.open(replay=cassette) as t:
        assert talk(t) == "Done."
        assert t.cassette.stop().unused == ()


def test_a_known_secret_is_found_within_json_text(cassette, monkeypatch):
    """Arguments and tool results are JSON text inside the lines, with escaped newlines and quotes."""
    secret = '-- BEGIN --\nMIIEvAbC"dEfG\\xé\n-- END --'
    monkeypatch.setenv("HOUSE_PASSPHRASE", secret)
    sent = []

    def send(to: str) -> None:
        """Send a mail."""
        sent.append(to)

    client = ScriptedClient(reply(None, call("send", {"to": secret}, "c1")), json.dumps({"key": secret}))
    with Tract.open(record=cassette, model=client) as t:
        t.tool(send, read_only=True)
        t.chat(json.dumps({"config": json.dumps({"key": secret})}), tools="self")
    assert sent == [secret]
    assert "MIIEv" not in cassette.read_text()


def test_a_key_that_was_changed_is_still_known(cassette):
    with provider(Answer(reply("Fine."))) as here, Tract.open(record=cassette) as t:
        for key in ("first-key-0123456", "other-key-0123456"):
            t.models.use("openai/m-1", api_key=key, base_url=here.url)
            t.chat("My key was first-key-0123456")
    assert "first-key" not in cassette.read_text()


PRIVATE = "-----BEGIN {0}PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG\n{1}"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("AKIAIOSFODNN7EXAMPLE", "[redacted]"),
        ("github_pat_11ABCDEFG0123456789_abcdefghijklmn", "[redacted]"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "[redacted]"),
        ("glpat-ABCDEFGHIJ0123456789", "[redacted]"),
        ("xoxb-123456789012-abcdefghij", "[redacted]"),
        ("sk_live_abcdefghijklmnop1234", "[redacted]"),
        ("xai-abcdefghijklmnopqrstuvwxyz0123", "[redacted]"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefghijk", "[redacted]"),
        ("Authorization: Basic dXNlcjpwYTU1d29yZCE=", "Authorization: Basic [redacted]"),
        ("authorization: BEARER tok3n-abcdef", "authorization: BEARER [redacted]"),
        (PRIVATE.format("", "-----END PRIVATE KEY-----.") + " It is", "[redacted]. It is"),
        (PRIVATE.format("RSA ", "").strip() + " it began", "[redacted] it began"),
        (json.dumps(["x\nghp_abcdefghijklmnopqrstuvwxyz0123456789"]), '["x\\n[redacted]"]'),
        ("Basic knowledge, a bearer of news, sk-ip, xoxo, eyJ.a.b", None),
    ],
)
def test_text_that_looks_like_a_key_is_redacted(cassette, text, left):
    with Tract.open(record=cassette, model=lambda *_, **__: text) as t:
        t.chat("Hi")
    replies = [json.loads(line).get("reply") for line in cassette.read_text().splitlines()]
    assert [one["choices"][0]["message"]["content"] for one in replies if one] == [
        text if left is None else left
    ]


@pytest.mark.parametrize(
    "name", ["PGPASSWORD", "DB_PWD", "ROOT_PASSWD", "HOUSE_PASSPHRASE", "APP_PRIVATE_KEY"]
)
def test_variables_with_such_names_are_secrets(cassette, monkeypatch, name):
    monkeypatch.setenv(name, "correct horse battery")
    monkeypatch.setenv("PWD", "/home/somebody")
    with Tract.open(record=cassette, model=lambda *_, **__: "correct horse battery in /home/somebody") as t:
        t.chat("Hi")
    assert "horse" not in cassette.read_text()
    assert "[redacted] in /home/somebody" in cassette.read_text()


def test_a_placeholder_key_is_not_redacted(cassette):
    with provider(Answer(reply("Hello, ollama."))) as here, Tract.open(record=cassette) as t:
        t.models.use("ollama-1", api_key="ollama", base_url=here.url)
        t.chat("Hi, ollama")
    assert "Hello, ollama." in cassette.read_text()


def test_a_url_encoded_key_is_redacted(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", "tok/9f8e7d6c5b4a+zz==")
    file = tmp_path / "talk.cassette.jsonl"
    with Tract.open(record=file, model=ScriptedClient("see ?q=tok%2F9f8e7d6c5b4a%2Bzz%3D%3D")) as t:
        t.chat("Where?")
    assert "9f8e7d6c5b4a" not in file.read_text()
