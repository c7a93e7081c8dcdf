"""A damaged store is recognised: it gives an error that says so, never another history."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing

import pytest

from tract_jupyter import Tract
from tract_jupyter.exceptions import StoreCorruptError, StoreError

PAGE = 4096


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "store.db"
    with Tract.open(path) as tract:
        for number in range(40):
            tract.user(
                f"message {number} " + "x" * (3000 * (number % 3)), metadata={"number": number}, tags=["t"]
            )
    return path


def everything(tract):
    return tract.log(None), tract.compile(), tract.status(), tract.list_branches()


def test_a_page_of_garbage_in_the_middle(store):
    with Tract.open(store) as tract:
        whole = everything(tract)
    data = store.read_bytes()
    noise = random.Random(7)
    outcomes = set()
    for page in range(1, len(data) // PAGE):
        damaged = data[: page * PAGE] + noise.randbytes(PAGE) + data[(page + 1) * PAGE :]
        store.write_bytes(damaged)
        try:
            with Tract.open(store) as tract:
                assert everything(tract) == whole  # the page did not matter
                outcomes.add("unused")
        except StoreCorruptError:
            outcomes.add("recognised")
        assert store.read_bytes() == damaged
    assert "recognised" in outcomes


def test_flipped_bytes_in_content_are_recognised(store):
    data = store.read_bytes()
    at = data.index(b"message 7 ")
    store.write_bytes(data[:at] + b"massage 7 " + data[at + 10 :])
    with Tract.open(store) as tract:
        damaged = [info for info in tract.log(None) if info.message.startswith("massage 7 ")]
        try:
            tract.compile()
        except StoreCorruptError as error:
            assert "is damaged in the store" in str(error)
        else:
            assert damaged  # the first place of the text was the log's, not the content


def sql(store, statement, *values):
    with closing(sqlite3.connect(store)) as connection:
        connection.execute(statement, values)
        connection.commit()


def test_content_that_was_changed_is_recognised(store):
    sql(store, "UPDATE blobs SET payload = CAST(replace(payload, 'message 3 ', 'massage 3 ') AS BLOB)")
    with Tract.open(store) as tract, pytest.raises(StoreCorruptError, match="content .* is damaged"):
        tract.compile()


def test_content_that_is_missing_is_recognised(store):
    with Tract.open(store) as tract:
        info = tract.get_commit("main")
    sql(store, "DELETE FROM blobs WHERE content_hash = ?", info.content_hash)
    with Tract.open(store) as tract:
        for read in (tract.compile, lambda: tract.get_content("main")):
            with pytest.raises(StoreCorruptError, match="is missing"):
                read()


def test_a_gap_in_the_history_is_recognised(store):
    with Tract.open(store) as tract:
        info = tract.log(None)[20]
    sql(store, "DELETE FROM commits WHERE commit_hash = ?", info.commit_hash)
    with Tract.open(store) as tract:
        assert len(tract.log(20)) == 20
        for read in (tract.compile, lambda: tract.log(21), lambda: tract.log(None)):
            with pytest.raises(StoreCorruptError, match="gap"):
                read()


@pytest.mark.parametrize(
    "column", ["metadata_json", "generation_config_json", "tags_json", "created_at", "operation"]
)
def test_a_damaged_commit_is_recognised(store, column):
    sql(store, f"UPDATE commits SET {column} = '{{' WHERE generation = 5")
    with Tract.open(store) as tract, pytest.raises(StoreCorruptError, match="commit .* is damaged"):
        tract.log(None)


def test_text_that_is_no_unicode_is_recognised(store):
    sql(store, "UPDATE commits SET message = CAST(x'ff41' AS TEXT) WHERE generation = 5")
    with Tract.open(store) as tract, pytest.raises(StoreCorruptError, match="damaged"):
        tract.log(None)


def test_a_tract_without_head_is_recognised(store):
    with Tract.open(store) as tract:
        sql(store, "DELETE FROM refs WHERE name = 'HEAD'")
        with pytest.raises(StoreCorruptError, match="no HEAD"):
            tract.user("x")


def test_a_missing_table_is_an_error_of_ours(store):
    sql(store, "DROP TABLE commits")
    with Tract.open(store) as tract, pytest.raises(StoreError, match="no such table"):
        tract.log()
