"""The changes of SQL statements, read from their text."""

import pytest

from tests.analysis.helpers import analyze

CHANGES = {
    "insert into t values (1)": "INSERT adds rows to",
    "INSERT OR IGNORE INTO t VALUES (1)": "INSERT adds rows to",
    "-- a comment\n  insert into t values (1)": "INSERT adds rows to",
    "begin; insert into t values (1); commit": "INSERT adds rows to",
    "with x as (select 1) insert into t select * from x": "INSERT adds rows to",
    "with x as (delete from t returning *) select * from x": "DELETE removes rows from",
    "replace into t values (1)": "REPLACE replaces rows in",
    "update t set a = 1 where b = 2": "UPDATE changes rows in",
    "merge into t using s on t.a = s.a": "MERGE changes rows in",
    "delete from t where a = 1": "DELETE removes rows from",
    "create table t (a)": "CREATE creates a table in",
    "create unique index i on t (a)": "CREATE creates an index in",
    "create or replace view v as select 1": "CREATE creates a view in",
    "select a into b from t": "CREATE creates a table in",
    "alter table t add column c": "ALTER changes a table in",
    "drop view v": "DROP removes a view from",
    "truncate t": "TRUNCATE removes all rows of a table in",
    "pragma journal_mode = wal": "PRAGMA changes a setting of",
    "pragma main.user_version = 3": "PRAGMA changes a setting of",
    "pragma wal_checkpoint": "PRAGMA changes a setting of",
    "explain analyze delete from t where a = 1": "DELETE removes rows from",
    "select setval('s', 1)": "CALL calls a function that may change",
    "copy t from 'x.csv'": "COPY adds rows to",
    "vacuum": "VACUUM rewrites",
    "grant all on t to u": "GRANT changes permissions in",
    "call p()": "CALL calls a function that may change",
    "lock table t": "LOCK may change",
    "{verb} t": "The statement is known only when it runs, and may change",
    "with x as ({x}) {y}": "The statement is known only when it runs, and may change",
}
READS = [
    "select * from t", "select replace(a, 'x', 'y') from t", "select 'insert into t'", "select * from t for update",
    "select * from {t} where a = {x}", "(select 1) union (select 2)", "with x as (select 1) select * from x",
    "explain query plan select 1", "explain delete from t", "pragma table_info(t)", "pragma user_version",
    "pragma foreign_keys = on", "show tables", "describe t", "from 'x.csv' select a", "values (1)", "commit",
    "copy (select 1) to 'x.csv'", "set threads = 4", "select a -- drop table t\nfrom t", 'select "update" from t',
    "match (a)-[r]->(b) return a", "",
]  # fmt: skip


def effects(text):
    code = f"import sqlite3\nsqlite3.connect('shop.db').execute(f{text!r})"
    findings = [f for f in analyze(code).findings if f.code in {"TJ206", "TJ208"}]
    return [finding.reason.removesuffix(" shop.db.") for finding in findings]


@pytest.mark.parametrize(("text", "effect"), CHANGES.items())
def test_a_statement_that_changes_a_database(text, effect):
    assert effects(text) == [effect]


@pytest.mark.parametrize("text", READS)
def test_a_statement_that_surely_only_reads(text):
    assert effects(text) == []


def test_each_statement_of_a_text_counts():
    assert effects("insert into t values (1); drop table t") == ["DROP removes a table from"]
    assert effects("select 1;" * 300) == ["A long text may change"]
    assert effects(f"select '{'x' * 200_000}'") == ["A long text may change"]


def test_prose_is_not_a_statement():
    def is_found(text):
        return any(f.code == "TJ208" for f in analyze(f"submit({text!r})").findings)

    assert is_found("insert into t values (1)")
    assert not any(map(is_found, ["update the table", "insert a coin", "drop tables", "select 1"]))
