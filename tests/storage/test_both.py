"""The same on SQLite and on PostgreSQL: what a tract stores it gives back, and several tracts share a store."""

from __future__ import annotations

import threading

import pytest

TEXTS = [
    "plain",
    "Größe, 中文, 😀",
    "<|endoftext|>",
    "line\nend\ttab",
    "'; DROP TABLE commits; --",
    "NUL \0 inside",
    "x" * 100_000,
]


def texts(tract):
    return [message.content for message in tract.compile().messages]


def test_every_text_comes_back(any_tract):
    for text in TEXTS:
        any_tract.user(text, metadata={"text": text}, tags=["t"])
    assert texts(any_tract) == TEXTS
    assert [info.metadata["text"] for info in reversed(any_tract.log(None))] == TEXTS
    assert any_tract.verify() == []


def test_two_that_are_open_see_each_other(any_store):
    one, other = any_store(), any_store()
    for number in range(6):
        (one, other)[number % 2].user(f"message {number}")
    assert texts(one) == texts(other) == [f"message {number}" for number in range(6)]


def test_threads_append_to_one_branch(any_store):
    tracts = [any_store(lock_timeout=30) for _ in range(4)]
    raised = []

    def append(tract, name):
        try:
            for number in range(10):
                tract.user(f"{name} {number}")
        except Exception as error:
            raised.append(error)

    threads = [threading.Thread(target=append, args=(tract, name)) for name, tract in enumerate(tracts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert raised == []
    assert sorted(texts(tracts[0])) == sorted(f"{name} {number}" for name in range(4) for number in range(10))


def test_a_batch_is_whole_or_not_at_all(any_tract):
    def fail():
        with any_tract.batch():
            any_tract.user("a")
            any_tract.user("b")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert texts(any_tract) == []
    with any_tract.batch():
        any_tract.user("a")
        any_tract.user("b")
    assert texts(any_tract) == ["a", "b"]


def test_surgery(any_tract):
    first = any_tract.user("one")
    any_tract.branch("topic")
    any_tract.annotate(first.commit_hash, "pinned", reason="it matters")
    any_tract.user("two")
    any_tract.switch("main")
    any_tract.user("three")
    any_tract.merge("topic")
    assert texts(any_tract) == ["one", "three", "two"]
    any_tract.undo()
    assert texts(any_tract) == ["one", "three"]
    any_tract.redo()
    assert texts(any_tract) == ["one", "three", "two"]
    assert any_tract.verify() == []
