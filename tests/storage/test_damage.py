"""A damaged store is recognised: it raises an error and never returns a different history."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing

import pytest

from benchmarks import damage
from tract_jupyter import Tract
from tract_jupyter.__main__ import main
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


@pytest.mark.slow
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
                assert everything(tract) == whole  # the page was not in use
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
            assert damaged  # the first match was in the log, not in the content


def sql(store, statement, *values):
    with closing(sqlite3.connect(store)) as connection:
        connection.execute(statement, values)
        connection.commit()


@pytest.mark.parametrize(("change", "match"), [
    ("blobs SET payload = CAST(replace(payload, 'message 3 ', 'massage 3 ') AS BLOB)", "content .* is damaged"),
    ("commits SET message = CAST(x'ff41' AS TEXT) WHERE generation = 5", "damaged"),
    *((f"commits SET {column} = '{{' WHERE generation = 5", "commit .* is damaged")
      for column in ("metadata_json", "generation_config_json", "tags_json", "created_at", "operation")),
])  # fmt: skip
def test_damaged_content_and_damaged_commits_are_recognised(store, change, match):
    sql(store, f"UPDATE {change}")
    with Tract.open(store) as tract, pytest.raises(StoreCorruptError, match=match):
        tract.compile() if change.startswith("blobs") else tract.log(None)


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


EXCHANGED = (
    "commit_hash", "parent_hash", "content_hash", "content_type", "operation", "edit_target", "message", "token_count", "generation",
    "metadata_json", "generation_config_json", "tags_json", "created_at", "priority", "retention_json", "tools_hash", "context_tokens", "context_messages",
)  # fmt: skip


@pytest.mark.parametrize("column", EXCHANGED)
def test_values_exchanged_between_two_commits_are_recognised(store, column):
    with Tract.open(store) as tract:
        newest = tract.log(None)[0]
        tract.user(
            "edited",
            edit=newest.commit_hash,
            metadata={"edited": 1},
            tags=["u"],
            generation_config={"model": "m"},
        )
        tract.annotate(newest.commit_hash, "pinned")
        whole = tract.log(None), tract.compile().messages
    one, other = "generation = 5", "commit_hash = (SELECT commit_hash FROM commits ORDER BY id DESC LIMIT 1)"
    with closing(sqlite3.connect(store)) as connection:
        (a,), (b,) = (
            connection.execute(f"SELECT {column} FROM commits WHERE {row}").fetchone() for row in (one, other)
        )
        ids = [
            connection.execute(f"SELECT id FROM commits WHERE {row}").fetchone()[0] for row in (one, other)
        ]
        connection.execute(f"UPDATE commits SET {column} = 'x' WHERE id = ?", (ids[0],))
        connection.execute(f"UPDATE commits SET {column} = ? WHERE id = ?", (a, ids[1]))
        connection.execute(f"UPDATE commits SET {column} = ? WHERE id = ?", (b, ids[0]))
        connection.commit()
    try:
        with Tract.open(store) as tract:
            assert tract.verify() or (tract.log(None), tract.compile().messages) == whole
    except StoreCorruptError:
        pass


def test_exchanged_contents_are_recognised(store):
    with closing(sqlite3.connect(store)) as connection:
        (one, a), (other, b) = connection.execute(
            "SELECT content_hash, payload FROM blobs LIMIT 2"
        ).fetchall()
        for hash_, payload in ((one, b), (other, a)):
            connection.execute("UPDATE blobs SET payload = ? WHERE content_hash = ?", (payload, hash_))
        connection.commit()
    with Tract.open(store) as tract:
        assert {found.where for found in tract.verify()} >= {one, other}
        with pytest.raises(StoreCorruptError, match="content .* is damaged"):
            tract.compile()


def test_a_tract_without_head_is_recognised(store):
    with Tract.open(store) as tract:
        sql(store, "DELETE FROM refs WHERE name = 'HEAD'")
        with pytest.raises(StoreCorruptError, match="no HEAD"):
            tract.user("x")


def test_a_missing_table_is_an_error_of_ours(store):
    sql(store, "DROP TABLE commits")
    with Tract.open(store) as tract, pytest.raises(StoreError, match="no such table"):
        tract.log()


# --- pages and foreign objects


def test_random_damage_to_a_store_is_recognised_or_harmless(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content = damage.make(tmp_path / "whole.db")
    seen = [damage.survives(tmp_path / "whole.db", content, seed) for seed in range(1_000, 1_030)]
    assert [one for one in seen if one.problem] == []
    assert {"opening", "verify"} <= {one.how for one in seen}


def test_the_gauge_table_counts_unnoticed_damage(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(damage, "_DAMAGES", [lambda *_: None])
    assert [row.value for row in damage.rows(2)] == [0, 0, 2, 0]
    (tmp_path / "whole.db").unlink()
    monkeypatch.setattr(damage, "_sqlite_says", lambda _: "a row is missing from an index")
    assert [(row.value, row.verdict) for row in damage.rows(1)][-1] == (1, "over")
    assert "verify() found nothing, and SQLite: a row is missing" in capsys.readouterr().err


def test_an_index_that_does_not_fit_its_table_is_found(store):
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("DELETE FROM sqlite_master WHERE name = 'ix_events_tract'")
        connection.commit()
    with Tract.open(store) as tract:
        problems = [found.problem for found in tract.verify()]
    assert "index ix_events_tract is missing" in problems
    assert any(problem.startswith("SQLite's own check: ") for problem in problems)  # unused pages


def test_verify_also_reports_tables_that_it_cannot_read(store):
    sql(store, "DROP TABLE run_events")
    with Tract.open(store) as tract:
        *missing, unread = (found.problem for found in tract.verify())
    assert "table run_events is missing" in missing
    assert "no such table: run_events" in unread


TRIGGER = "CREATE TRIGGER spy AFTER INSERT ON commits BEGIN DELETE FROM events; END"


def test_a_store_with_a_trigger_is_not_opened(store, capsys):
    sql(store, TRIGGER)
    before = store.read_bytes()
    with pytest.raises(StoreCorruptError, match=r"trigger spy on commits\..*DROP TRIGGER"):
        Tract.open(store)
    assert main(["verify", str(store)]) == 2
    assert "trigger spy on commits" in capsys.readouterr().err
    assert store.read_bytes() == before
    sql(store, "DROP TRIGGER spy")
    with Tract.open(store) as tract:
        assert tract.verify() == []


HIDDEN = TRIGGER.replace("spy", "sqlite_spy")
ENDLESS = "SELECT 1 AS kind FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n) WHERE i < 0"


@pytest.mark.parametrize(
    ("statements", "told"),
    [
        ([TRIGGER.replace("ON commits", "ON Commits")], "trigger spy on Commits"),
        (
            [
                "PRAGMA writable_schema = ON",
                f"INSERT INTO sqlite_master VALUES ('trigger', 'sqlite_spy', 'commits', 0, '{HIDDEN}')",
            ],
            "trigger sqlite_spy on commits",
        ),
        (["DROP TABLE events", f"CREATE VIEW Events AS {ENDLESS}"], "view Events"),
        (["DROP TABLE events", "CREATE VIRTUAL TABLE events USING fts5(kind)"], "virtual table events"),
    ],
)
def test_a_store_with_hidden_code_is_not_opened(store, statements, told):
    with closing(sqlite3.connect(store)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    with pytest.raises(StoreCorruptError, match=rf"{told}\. It was not opened.*DROP"):
        Tract.open(store)


def test_verify_reports_rows_that_refer_to_removed_rows(store, capsys):
    sql(
        store,
        "INSERT INTO decisions SELECT 1, (SELECT tract_id FROM tracts), 'gone', 0, 'approve', '{}', '', 'a', 'panel', "
        "'f', 'i', 's', '2026-01-01T00:00:00.000000+00:00', NULL, NULL, NULL, NULL",
    )
    told = "a row of decisions refers to a row of pendings that is missing"
    with Tract.open(store) as tract:
        assert told in [found.problem for found in tract.verify()]
    assert main(["verify", str(store)]) == 1
    assert told in capsys.readouterr().out


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("CREATE TABLE theirs (x)", "table theirs"),
        ("CREATE VIEW theirs AS SELECT * FROM commits", "view theirs"),
        ("CREATE UNIQUE INDEX theirs ON events (kind)", "index theirs on events"),
        ("CREATE VIRTUAL TABLE theirs USING fts5(x)", "virtual table theirs"),
    ],
)
def test_verify_reports_foreign_objects_in_the_store(store, statement, told, capsys):
    if "kind" in statement:
        sql(store, "DELETE FROM events")
        with closing(sqlite3.connect(store)) as connection:
            column = connection.execute("SELECT name FROM pragma_table_info('events') LIMIT 1").fetchone()[0]
        statement = statement.replace("kind", column)
    sql(store, statement)
    with Tract.open(store) as tract:
        assert f"{told} was not made by tract_jupyter" in [found.problem for found in tract.verify()]
    assert main(["verify", str(store)]) == 1
    assert f"{told} was not made by tract_jupyter" in capsys.readouterr().out
