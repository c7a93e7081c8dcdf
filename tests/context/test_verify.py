"""`verify` reports damage."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tests.cpu import cpu_seconds
from tract_jupyter import Tract
from tract_jupyter.exceptions import StoreCorruptError


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "s.db"
    with Tract.open(path) as tract:
        first = tract.user("a", metadata={"n": 1}, tags=["t"])
        tract.user("b")
        tract.user("A", edit=first.commit_hash)
        tract.annotate(first.commit_hash, "important")
        tract.user("c")
        assert tract.verify() == []
    return path


def damaged(store, statement):
    with closing(sqlite3.connect(store)) as connection:
        connection.execute(statement)
        connection.commit()
    with Tract.open(store) as tract:
        return [damage.problem for damage in tract.verify()]


WRONG_HASH = "the commit does not match its hash"


@pytest.mark.parametrize("change", [
    "message = 'x'", "metadata_json = '{}'", "tags_json = '[]'", "created_at = '2020-01-01T00:00:00.000000+00:00'",
    "content_type = 'output'", "generation_config_json = '{\"x\":1}'", "priority = 'skip'", "retention_json = '{}'",
])  # fmt: skip
def test_each_column_that_is_hashed(store, change):
    assert WRONG_HASH in damaged(store, f"UPDATE commits SET {change} WHERE generation = 0")


def test_a_history_with_a_cycle_ends(store):
    own = "SELECT commit_hash FROM commits WHERE generation = 0"
    found = damaged(store, f"UPDATE commits SET parent_hash = ({own}) WHERE generation = 0")
    assert WRONG_HASH in found
    newest = "SELECT commit_hash FROM commits WHERE generation = 2"
    assert WRONG_HASH in damaged(store, f"UPDATE commits SET parent_hash = ({newest}) WHERE generation = 1")
    with Tract.open(store) as tract:
        for read in (tract.compile, tract.log):
            with pytest.raises(StoreCorruptError, match="has a gap or a cycle"):
                read()


def test_merges_with_a_cycle_end(tmp_path):
    path = tmp_path / "s.db"
    with Tract.open(path) as tract:
        tract.user("a")
        tract.branch("other")
        tract.user("b")
        tract.switch("main")
        tract.user("c")
        tract.merge("other")
    merge = "SELECT commit_hash FROM commit_parents"
    other = "SELECT parent_hash FROM commit_parents"
    change = f"UPDATE commits SET parent_hash = ({merge}) WHERE commit_hash = ({other})"
    assert WRONG_HASH in damaged(path, change)
    with Tract.open(path) as tract, pytest.raises(StoreCorruptError, match="has a gap or a cycle"):
        tract.compile()


def test_an_edit_of_something_else(store):
    other = "(SELECT commit_hash FROM commits WHERE generation = 1)"
    assert WRONG_HASH in damaged(store, f"UPDATE commits SET edit_target = {other} WHERE operation = 'edit'")


@pytest.mark.parametrize("column", ["context_tokens", "context_messages"])
def test_wrong_token_totals_are_reported(store, column):
    found = damaged(store, f"UPDATE commits SET {column} = {column} + 1 WHERE generation = 3")
    assert found == ["the stored size of the context does not match its history"]


def test_the_name_of_the_tokenizer_is_not_checked(store):
    assert damaged(store, "UPDATE commits SET token_counter = 'other' WHERE generation = 3") == []


def test_a_place_that_is_not_the_parents_next(store):
    found = damaged(store, "UPDATE commits SET generation = 9 WHERE generation = 4")
    assert "its generation does not follow its parent's" in found


def test_a_content_that_was_changed(store):
    found = damaged(store, "UPDATE blobs SET payload = CAST(replace(payload, 'b', 'd') AS BLOB)")
    assert any("is damaged" in problem for problem in found)


@pytest.mark.parametrize(("statement", "told"), [
    ("DELETE FROM commits WHERE generation = 1", "which is missing"),
    ("DELETE FROM commits WHERE generation = 4", "the branch points at"),
    ("DELETE FROM blobs WHERE CAST(payload AS TEXT) LIKE '%annotation%'", "missing"),
])  # fmt: skip
def test_missing_rows_are_reported(store, statement, told):
    assert any(told in problem for problem in damaged(store, statement))


@pytest.mark.parametrize("damage", ["DELETE FROM blobs WHERE content_hash = ?",
                                    "UPDATE blobs SET payload = 'x' WHERE content_hash = ?"])  # fmt: skip
def test_damaged_tools_are_found(tmp_path, damage):
    path = tmp_path / "s.db"
    with Tract.open(path) as tract:
        tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
        tools_hash = tract.user("x", tools=[tool]).tools_hash
        assert tract.verify() == []
    connection = sqlite3.connect(path)
    connection.execute(damage, (tools_hash,))
    connection.commit()
    connection.close()
    with Tract.open(path) as tract:
        assert [found.where for found in tract.verify()] == [tools_hash]


def test_commits_shared_by_branches_are_checked_once(tmp_path):
    def seconds(tract):
        with cpu_seconds() as taken:
            assert tract.verify() == []
        return taken[0]

    with Tract.open(tmp_path / "t.db") as tract:
        with tract.batch():
            for number in range(3_000):
                tract.user(f"message {number}")
        alone = seconds(tract)
        for number in range(30):
            tract.branch(f"b{number}")
            tract.user("one more")
        assert seconds(tract) < 4 * alone


@pytest.mark.parametrize("operation", ["append", "edit", "annotate"])
@pytest.mark.parametrize("column", ["context_tokens", "context_messages"])
def test_a_wrong_size_is_found_on_each_branch(tmp_path, operation, column):
    with Tract.open(tmp_path / "t.db") as tract:
        first = tract.user("first").commit_hash
        tract.user("second")
        tract.branch("other")
        if operation == "edit":
            tract.user("changed", edit=first)
        elif operation == "annotate":
            tract.annotate(first, "skip")
        wrong = tract.user("third").commit_hash
        tract.user("fourth")
    with closing(sqlite3.connect(tmp_path / "t.db")) as store, store:
        store.execute(f"UPDATE commits SET {column} = {column} + 1 WHERE commit_hash = ?", (wrong,))
    with Tract.open(tmp_path / "t.db") as tract:
        found = [damage.where for damage in tract.verify() if "size of the context" in damage.problem]
    assert found == [wrong]
