from __future__ import annotations

import ast
import base64
import hashlib
import inspect
import sys

import pytest
import tiktoken
import tiktoken.load
import tiktoken.registry
import tiktoken_ext.openai_public as published
from hypothesis import given
from hypothesis import strategies as st

from tract_jupyter import Session, Tract
from tract_jupyter.context import ApproximateCounter, TiktokenCounter, default_counter, tokens
from tract_jupyter.exceptions import ContentError

RANKS = {bytes([n]): n for n in range(256)} | {b"th": 256, b"the": 257, b" the": 258}
PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""


@pytest.fixture(scope="module")
def encoding():
    return tiktoken.Encoding(
        "small", pat_str=PATTERN, mergeable_ranks=RANKS, special_tokens={"<|endoftext|>": 259}
    )


# --- estimates


@given(st.text() | st.text(st.characters()) | st.text("a \n中é1_👍", max_size=50))
def test_an_estimate_of_any_text_is_a_number(text):
    count = ApproximateCounter().count_text(text)
    assert isinstance(count, int)
    assert (count == 0) == (text == "")
    assert 0 <= count <= len(text)


@given(st.text(max_size=40), st.text(max_size=40))
def test_more_text_is_not_fewer_tokens(one, other):
    count = ApproximateCounter().count_text
    # a word across the boundary can save at most one token
    assert count(one + other) >= max(count(one), count(other)) - 1


@given(st.text(min_size=1, max_size=30), st.integers(2, 20))
def test_an_estimate_grows_with_the_text(text, times):
    count = ApproximateCounter().count_text
    assert count((text + "\n") * times) >= times / 4
    assert count((text + "\n") * times) <= (count(text) + 1) * times + times


def test_estimates_of_plain_prose_are_near_the_usual_rate():
    prose = "The quick brown fox jumps over the lazy dog. " * 20
    assert 9 * 20 <= ApproximateCounter().count_text(prose) <= 12 * 20  # o200k_base: 10 a sentence
    assert ApproximateCounter().name == "approximate"


# --- tiktoken


def test_a_custom_encoding_counts_tokens(encoding):
    counter = TiktokenCounter(encoding)
    assert counter.name == "tiktoken:small"
    assert [counter.count_text(text) for text in ("", "the", " the", "th", "x the")] == [0, 1, 1, 1, 2]


def test_special_tokens_are_plain_text(encoding):
    assert TiktokenCounter(encoding).count_text("<|endoftext|>") == len("<|endoftext|>")


@given(st.text(st.characters()))
def test_any_text_can_be_counted(encoding, text):
    assert (TiktokenCounter(encoding).count_text(text) == 0) == (text == "")


def test_a_million_spaces_do_not_overflow_tiktokens_stack(encoding):
    assert TiktokenCounter(encoding).count_text(" " * 1_200_000) == 1_200_000


def test_a_tract_counts_with_the_given_tokenizer(encoding):
    with Tract.open(tokenizer=TiktokenCounter(encoding)) as tract:
        info = tract.user("the the")
        assert (info.token_count, info.token_counter) == (2, "tiktoken:small")
        context = tract.compile()
        assert (context.token_count, context.token_source) == (2 + 4 + 3, "tiktoken:small")
        assert tract.status().tokens == "9"


def test_a_context_counted_in_two_ways_is_an_estimate(tmp_path, encoding):
    with Tract.open(tmp_path / "s.db", tokenizer=TiktokenCounter(encoding)) as tract:
        tract.user("the")
    with Tract.open(tmp_path / "s.db", tokenizer=ApproximateCounter()) as tract:
        tract.user("the")
        assert tract.compile().token_source == "approximate"
        assert tract.status().tokens == f"≈{tract.compile().token_count}"


# --- the cached vocabulary


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """tiktoken's cache, empty; no network, no encoding loaded before."""

    def no_network(address):
        raise AssertionError(f"fetched {address}")

    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("DATA_GYM_CACHE_DIR", raising=False)
    monkeypatch.setattr(tiktoken.load, "read_file", no_network)
    monkeypatch.setattr(tiktoken.registry, "ENCODINGS", {})
    folder = tmp_path / "cache"
    folder.mkdir()
    return folder


@pytest.fixture
def vocabulary(monkeypatch):
    """A small vocabulary that replaces o200k_base for tiktoken and this package."""
    lines = (base64.b64encode(token) + f" {rank}\n".encode() for token, rank in RANKS.items())
    data = b"".join(lines)
    checksum = hashlib.sha256(data).hexdigest()
    monkeypatch.setattr(tokens, "_SHA256", checksum)
    load = published.load_tiktoken_bpe
    monkeypatch.setattr(
        published, "load_tiktoken_bpe", lambda address, expected_hash: load(address, checksum)
    )
    return tokens._FILE_NAME, data


def test_without_a_vocabulary_tokens_are_estimated_and_nothing_is_fetched(cache):
    assert isinstance(default_counter(), ApproximateCounter)
    assert list(cache.iterdir()) == []


def test_a_tract_opens_without_a_vocabulary(cache):
    with Tract.open() as tract:
        assert tract.user("hello").token_counter == "approximate"
        assert tract.status().tokens.startswith("≈")


def test_a_vocabulary_at_hand_is_used(cache, vocabulary):
    file_name, data = vocabulary
    (cache / file_name).write_bytes(data)
    counter = default_counter()
    assert counter.name == "tiktoken:o200k_base"
    assert counter.count_text("the<|endoftext|>") == 1 + 13
    with Tract.open() as tract:
        assert tract.user("the").token_counter == "tiktoken:o200k_base"


def test_without_tiktoken_tokens_are_estimated(cache, vocabulary, monkeypatch):
    file_name, data = vocabulary
    (cache / file_name).write_bytes(data)
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    assert default_counter().name == "approximate"


def test_a_damaged_vocabulary_is_not_used_nor_replaced(cache, vocabulary):
    file_name, data = vocabulary
    (cache / file_name).write_bytes(data[:-1])
    assert isinstance(default_counter(), ApproximateCounter)
    assert (cache / file_name).read_bytes() == data[:-1]


def test_a_folder_in_place_of_the_vocabulary_file_is_ignored(cache, vocabulary):
    (cache / vocabulary[0]).mkdir()
    assert isinstance(default_counter(), ApproximateCounter)


def test_the_older_variable_names_the_cache_too(cache, vocabulary, monkeypatch):
    (cache / vocabulary[0]).write_bytes(vocabulary[1])
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR")
    monkeypatch.setenv("DATA_GYM_CACHE_DIR", str(cache))
    assert default_counter().name == "tiktoken:o200k_base"


@pytest.mark.parametrize("is_off", [False, True])
def test_the_default_cache_is_in_the_folder_for_temporary_files(
    cache, vocabulary, monkeypatch, tmp_path, is_off
):
    if is_off:  # tiktoken would download each time, even if its default folder has the file
        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    else:
        monkeypatch.delenv("TIKTOKEN_CACHE_DIR")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "data-gym-cache").mkdir()
    (tmp_path / "data-gym-cache" / vocabulary[0]).write_bytes(vocabulary[1])
    counter = default_counter()
    assert isinstance(counter, ApproximateCounter) if is_off else counter.name == "tiktoken:o200k_base"


def test_our_file_agrees_with_the_installed_tiktoken():
    tree = ast.parse(inspect.getsource(getattr(published, tokens.ENCODING)))
    load = next(
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.func.id == "load_tiktoken_bpe"
    )
    address = ast.literal_eval(load.args[0])
    checksum = ast.literal_eval(load.keywords[0].value)
    assert (hashlib.sha1(address.encode()).hexdigest(), checksum) == (tokens._FILE_NAME, tokens._SHA256)


class Words:
    """Counts words."""

    def count_text(self, text):
        return len(text.split())


def counter(**attributes):
    made = Words()
    vars(made).update(attributes)
    return made


@pytest.mark.parametrize(
    ("tokenizer", "words"),
    [
        (counter(), "has no name of 1 to 64 characters.*Set the attribute name"),
        (counter(name=""), "has no name"),
        (counter(name=3), "has no name"),
        (counter(name="x" * 65), "has no name"),
        (counter(name="words", count_text=None), "'words' cannot count"),
        (len, "the tokenizer <built-in function len> has no name"),
    ],
)
def test_a_counter_needs_a_name_and_a_method(tokenizer, words):
    with pytest.raises(ContentError, match=words):
        Tract.open(tokenizer=tokenizer)
    with pytest.raises(ContentError, match=words):
        Session.open(tokenizer=tokenizer)


def test_a_counter_with_a_name_counts():
    with Tract.open(tokenizer=counter(name="words")) as tract:
        info = tract.user("one two three")
        assert (info.token_counter, info.token_count >= 3) == ("words", True)
