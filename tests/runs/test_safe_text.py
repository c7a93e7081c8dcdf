"""Texts from operations are limited and contain no secrets."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tract_jupyter.runs import MASK, bounded, masked, message_of


@pytest.mark.parametrize("secret", [
    "sk-abcdefghijklmnop", "sk-proj-AbCd_1234567890", "ghp_abcdefghijklmnopqrst", "xoxb-123456789012-abc", "AKIAIOSFODNN7EXAMPLE",
    "hf_abcdefghijklmnopqr", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-def",
])  # fmt: skip
def test_keys_are_masked_wherever_they_stand(secret):
    """R57: text that looks like a key of a known service is masked."""
    assert masked(f"a {secret} b") == f"a {MASK} b"


@pytest.mark.parametrize("text", [
    "Authorization: Bearer SECRET1", "api_key=SECRET1", "apikey: 'SECRET1'", '{"password": "SECRET1"}', "token = SECRET1", "https://x/?access_key=SECRET1&b=2",
    "client_secret:SECRET1", "authorization: basic SECRET1=", "API-KEY: SECRET1",
])  # fmt: skip
def test_a_value_after_a_word_like_password_is_masked(text):
    """R57: the value is replaced, the word is kept."""
    assert "SECRET1" not in masked(text)
    assert MASK in masked(text)


@pytest.mark.parametrize("text", [
    "a token of love", "max tokens: 128000", "bearer of bad news", "he passed the word", "sky-high", "skateboardingworld", "ghostwritersunion", "sha256:" + "ab" * 32, "ask-me", "Basic needs", "the secret is out",
])  # fmt: skip
def test_ordinary_texts_are_not_masked(text):
    """R56: explanations are kept."""
    assert masked(text) == text


@given(st.text())
def test_messages_can_always_be_shown(text):
    """R54: limited in length, and printable."""
    told = message_of(ValueError(text), 50)
    assert len(told) <= 50
    told.encode()


def test_a_long_text_costs_little():
    for piece in ("sk-", "token=", "eyJ", "a", "bearer ", "api_key", "'"):
        assert len(message_of(piece * 500_000)) <= 2_000


def test_mappings_are_bounded():
    """R54, R56: too large values are left out as a whole, with a note; keys of any type become text."""
    assert bounded({"a": [1, {"b": "token=SECRET1"}]}, 100) == {"a": [1, {"b": f"token={MASK}"}]}
    assert list(bounded({"a": "x" * 99}, 50)) == ["omitted"]
    assert list(bounded({"a": float("nan")}, 50)) == ["omitted"]
    assert list(bounded({(1, 2): 3}, 50)) == ["omitted"]
    assert json.dumps(bounded({1: object()}, 500))
