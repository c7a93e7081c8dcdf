"""Full-text search in memory."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tract_jupyter.exceptions import StoreError
from tract_jupyter.runs.kinds import TextIndex, rag


def found(texts, query):
    index = TextIndex()
    index.add(texts)
    return [place for place, _ in index.find(query)]


def test_results_are_ordered_by_score_and_then_by_position():
    texts = ["a red fox", "blue", "red red fox", "nothing", "blue"]
    assert found(texts, "red fox")[0] == 2
    assert found(texts, "blue") == [1, 4]
    assert found(texts, "green") == []


def test_case_and_accents_do_not_count():
    assert found(["Über den Fluss", "Café"], "uber") == [0]
    assert found(["Über den Fluss", "Café"], "CAFE") == [1]


@pytest.mark.parametrize(
    "query",
    [
        'red AND "fox',
        "red OR",
        "NOT red",
        "red*",
        "text:red",
        "NEAR(red fox)",
        "^red",
        "(red",
        "red'; --",
        "-red",
        "{red}",
    ],
)
def test_operators_are_words(query):
    assert found(["a red fox", "blue"], query) == [0]


@pytest.mark.parametrize("query", ["", " ", '"', "*", "AND_"[:0], "()", "!?.", "\x00"])
def test_a_query_without_words_finds_nothing(query):
    assert found(["a", "b"], query) == []


def test_texts_can_be_added_to_the_index_later():
    index = TextIndex()
    index.add(["one"])
    index.add(["two", "one"])
    assert ([place for place, _ in index.find("one")], len(index)) == ([0, 2], 3)


def test_a_query_of_many_words_is_bounded():
    words = [f"w{number}" for number in range(10_000)]
    assert found([words[0], words[-1]], " ".join(words)) == [0]


@given(st.lists(st.text(max_size=20), max_size=5), st.text(max_size=40))
def test_no_query_fails_and_scores_fall(texts, query):
    index = TextIndex()
    index.add(texts)
    places = index.find(query)
    assert sorted(places, key=lambda one: (-one[1], one[0])) == places
    assert all(0 <= place < len(texts) and score > 0 for place, score in places)


def test_a_python_without_full_text_search(monkeypatch):
    monkeypatch.setattr(rag, "_MAKE", "CREATE VIRTUAL TABLE texts USING nosuch(text)")
    with pytest.raises(StoreError, match="FTS5"):
        TextIndex()
    assert sqlite3.sqlite_version
