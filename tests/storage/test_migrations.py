"""A store of version 1 becomes one of the present version: whole, once, or not at all."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from sqlalchemy import NullPool, create_engine, inspect, text

from tests.storage import v1_stores
from tract_jupyter import Tract
from tract_jupyter.exceptions import (
    StoreCorruptError,
    StoreLockedError,
    StoreReadOnlyError,
    StoreReferenceError,
)
from tract_jupyter.storage.database import Database
from tract_jupyter.storage.schema import SCHEMA_VERSION


@pytest.fixture
def old_file(tmp_path):
    return v1_stores.make_file(tmp_path / "old.db")


@pytest.fixture(params=["sqlite", "postgres"])
def old_url(request, old_file):
    """A store of version 1 on each kind of database."""
    if request.param == "sqlite":
        yield f"sqlite:///{old_file}"
    else:
        with request.getfixturevalue("postgres_server").database() as url:
            v1_stores.copy_to(url, old_file)
            yield url


def sql(path, statement, *values):
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(statement, values).fetchall()
        connection.commit()
    return rows


def version_of(path):
    return sql(path, "SELECT value FROM tract_meta WHERE key = 'schema_version'")[0][0]


def dump(path):
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def files(folder):
    return sorted(path.name for path in folder.iterdir() if path.is_file())


# --- what comes of it


def compiled(tract):
    return [(m.role, m.content, str(m.priority)) for m in tract.compile().messages]


def test_every_branch_compiles_to_what_it_did(old_url):
    with Tract.open(url=old_url) as tract:
        assert tract.tract_id == v1_stores.TRACT
        for branch, expected in v1_stores.BRANCHES.items():
            tract.switch(branch)
            assert compiled(tract) == expected
            assert tract.compile().token_count == v1_stores.TOKENS[branch] == tract.status().token_count
    with Tract.open(url=old_url, tract_id=v1_stores.OTHER) as other:
        assert compiled(other) == [("user", "another tract", "pinned")]
    with Tract.open(url=old_url, tract_id=v1_stores.EMPTY) as empty:
        assert compiled(empty) == []


def test_it_goes_on_from_there(old_url):
    with Tract.open(url=old_url) as tract:
        before = tract.compile().token_count
        info = tract.user("more")
        assert info.context_tokens == tract.compile().token_count == before + info.token_count + 4
        assert tract.compile().messages[-1].content == "more"
    with Tract.open(url=old_url) as tract:
        assert tract.compile().messages[-1].content == "more"


def test_every_hash_holds(old_url):
    with Tract.open(url=old_url) as tract:
        assert tract.verify() == []


def test_the_past_has_its_own_priorities_and_reasons(old_url):
    database = Database(url=old_url)
    with database.read() as connection:
        rows = connection.exec_driver_sql(
            "SELECT message FROM commits WHERE operation = 'annotate' ORDER BY id"
        )
        messages = [row[0] for row in rows]
        times = connection.exec_driver_sql(
            "SELECT count(*) FROM commits c JOIN commits p ON p.commit_hash = c.parent_hash WHERE c.created_at < p.created_at"
        )
        assert times.scalar() == 0
    database.close()
    # not the automatic ones, not the replaced one, and not what a later one set back
    of_a_branch = ["important 88494ed3", "important 868f195f: not that much", "normal f7381ac7: old news", "skip 12f7ea3b",
                   "normal 3f9e0d9e: worth showing"]  # fmt: skip
    assert messages == [*of_a_branch, *of_a_branch, "pinned 9df88c90"]


def insert(connection, table, **values):
    names = list(values)
    connection.execute(
        text(f"INSERT INTO {table} ({', '.join(names)}) VALUES (:{', :'.join(names)})"), values
    )


def ask_and_decide(connection, tract_id):
    """Give an old store a request in each state, all but the first with a decision."""
    states = {"a": ("pending", None), "b": ("approved", None), "c": ("approved", "2026-01-01"), "d": ("failed", None),
              "e": ("rejected", None)}  # fmt: skip
    common = {"tract_id": tract_id, "created_at": "2026-01-01"}
    for name, (status, executed) in states.items():
        this = {"pending_id": name, "fingerprint": name * 64, **common}
        insert(
            connection, "pendings", **this, operation="gc", title=name, fields_json="{}", status=status, actor="user",
            resumable=False, executed_at=executed,
        )  # fmt: skip
        if name != "a":
            insert(
                connection, "decisions", **this, round=0, action="approve", arguments_json="{}", reason="",
                decided_by="me", channel="code",
            )  # fmt: skip


def test_what_was_open_waits_and_what_was_approved_is_not_run_on_the_strength_of_that(old_url):
    with create_engine(old_url, poolclass=NullPool).begin() as connection:
        ask_and_decide(connection, v1_stores.TRACT)
    with Tract.open(url=old_url) as tract:
        assert {row.pending_id: row.status for row in tract.inbox()} == {
            "a": "pending", "b": "pending", "d": "failed"
        }  # fmt: skip
        assert tract.status().waiting == 3
        ledger = tract.reviewer.ledger
        for row in tract.inbox():
            assert ledger.standing(row) == (row.status, None)
            assert not ledger.vouches(row)
            assert row.identity == row.fingerprint == row.pending_id * 64
        decided = tract.decisions()
        assert {(d.signature, d.claimed_by, d.started_at == d.finished_at, d.identity) for d in decided} == {
            ("", "version 2", True, name * 64) for name in "bcde"
        }


def shape(database):
    """Everything of the tables but the order of columns and the names of constraints."""
    with database.read() as connection:
        known = inspect(connection)
        return {
            table: (
                sorted((c["name"], str(c["type"]), c["nullable"], str(c["default"])) for c in known.get_columns(table)),
                sorted((*f["constrained_columns"], f["referred_table"]) for f in known.get_foreign_keys(table)),
                sorted((i["name"], *i["column_names"]) for i in known.get_indexes(table) if not i["unique"]),
                sorted(u["column_names"] for u in known.get_unique_constraints(table)),
                known.get_pk_constraint(table)["constrained_columns"],
            )
            for table in known.get_table_names()
        }  # fmt: skip


def test_the_tables_are_those_of_a_new_store(old_url, store_url):
    if old_url.partition(":")[0] != store_url.partition(":")[0]:
        return  # of two databases, one each
    old, new = Database(url=old_url), Database(url=store_url)
    assert shape(old) == shape(new)
    old.close()
    new.close()


def test_references_are_checked_again_afterwards(old_file):
    database = Database(old_file)
    with pytest.raises(StoreReferenceError, match="was removed"), database.write() as connection:
        connection.exec_driver_sql("UPDATE refs SET commit_hash = 'nothing' WHERE name = 'refs/heads/main'")
    database.close()


def test_a_running_process_of_the_old_version_cannot_write_what_is_missing(old_file):
    Database(old_file).close()
    names = [
        row[1]
        for row in sql(old_file, "PRAGMA table_info(commits)")
        if row[1] not in {"id", "context_tokens"}
    ]
    listed = ", ".join(names)
    with pytest.raises(sqlite3.IntegrityError, match="context_tokens"):
        sql(
            old_file,
            f"INSERT INTO commits ({listed}) SELECT {listed.replace('commit_hash', hex(7), 1)} FROM commits LIMIT 1",
        )


# --- the copy


def test_a_copy_of_the_old_store_is_left_beside_it(old_file):
    old_file.chmod(0o600)
    before = dump(old_file)
    Database(old_file).close()
    assert files(old_file.parent) == ["old.db", "old.db.v1.bak"]
    copy = old_file.with_name("old.db.v1.bak")
    assert dump(copy) == before
    assert copy.stat().st_mode & 0o777 == 0o600


def test_a_copy_is_never_overwritten(old_file):
    first = old_file.with_name("old.db.v1.bak")
    first.write_bytes(b"somebody's")
    shutil.copy(old_file, old_file.with_name("again.db"))
    Database(old_file).close()
    assert first.read_bytes() == b"somebody's"
    assert old_file.with_name("old.db.v1.bak.2").exists()


def test_the_same_copy_is_not_made_twice(old_file):
    original = old_file.read_bytes()
    for _ in range(2):
        old_file.write_bytes(original)
        Database(old_file).close()
    assert files(old_file.parent) == ["old.db", "old.db.v1.bak"]


def test_the_copy_can_be_opened_and_upgraded_itself(old_file):
    Database(old_file).close()
    copy = old_file.with_name("old.db.v1.bak")
    Database(copy).close()
    assert version_of(copy) == str(SCHEMA_VERSION)


# --- whole, once, or not at all

OPEN = "import sys; from tract_jupyter.storage.database import Database; Database(url=sys.argv[1]).close()"


def test_several_processes_upgrade_it_once(old_url):
    command = [sys.executable, "-W", "error", "-c", OPEN, old_url]
    starting = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate()[1] for process in starting] == ["", "", ""]
    database = Database(url=old_url)
    with database.read() as connection:
        count = "SELECT count(*) FROM commits WHERE operation = 'annotate'"
        assert connection.exec_driver_sql(count).scalar() == 11
    database.close()


KILLED = """
import os, signal, sys
import sqlalchemy
from sqlalchemy import event
from tract_jupyter.storage.database import Database

left = int(sys.argv[2])

@event.listens_for(sqlalchemy.Engine, "before_cursor_execute")
def count(connection, cursor, statement, *_):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

Database(url=sys.argv[1]).close()
"""


@pytest.mark.parametrize("point", [10, 16, 30, 60])
def test_a_process_killed_in_the_middle_leaves_the_old_store(old_url, old_file, point):
    command = [sys.executable, "-c", KILLED, old_url, str(point)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    if old_url.startswith("sqlite"):
        assert version_of(old_file) == "1"
        assert sql(old_file, "PRAGMA integrity_check") == [("ok",)]
        assert sql(old_file, "SELECT count(*) FROM annotations") == [(12,)]
    test_every_branch_compiles_to_what_it_did(old_url)


def test_no_space_for_the_new_tables(old_file):
    before = dump(old_file)
    code = (
        "import resource, signal, sys\n"
        "from tract_jupyter.exceptions import StoreError\n"
        "from tract_jupyter.storage.database import Database\n"
        "import tract_jupyter.storage.migrations.upgrade\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)\n"
        "try: Database(sys.argv[1])\n"
        "except StoreError as error: print(error)\n"
    )
    for limit in (10_000, old_file.stat().st_size + 8_192):
        command = [sys.executable, "-B", "-c", code, str(old_file), str(limit)]
        ended = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "nothing was" in ended.stdout, ended
        assert dump(old_file) == before
    Database(old_file).close()


def test_a_gap_in_the_history_refuses(old_file):
    sql(old_file, "PRAGMA foreign_keys=OFF")
    sql(old_file, "DELETE FROM commits WHERE generation = 3")
    before = dump(old_file)
    with pytest.raises(StoreCorruptError, match="gap, so the store cannot be upgraded; nothing was changed"):
        Database(old_file)
    assert dump(old_file) == before


def test_a_broken_reference_refuses(old_file):
    sql(old_file, "UPDATE refs SET commit_hash = 'gone' WHERE name = 'HEAD'")
    with pytest.raises(StoreCorruptError, match="a row of refs refers to one of commits that is missing"):
        Database(old_file)
    assert version_of(old_file) == "1"


def test_a_locked_store_is_told(old_file):
    with closing(sqlite3.connect(old_file)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreLockedError):
            Database(old_file, lock_timeout=0.01)
    assert version_of(old_file) == "1"


def test_a_read_only_store_says_how(old_file):
    sql(old_file, "PRAGMA wal_checkpoint(TRUNCATE)")
    before = old_file.read_bytes()
    with pytest.raises(
        StoreReadOnlyError,
        match=f"must be upgraded to store version {SCHEMA_VERSION}, but it cannot be written.*copy",
    ):
        Database(url=f"sqlite:///file:{old_file}?mode=ro&uri=true")
    assert old_file.read_bytes() == before


def test_only_an_older_store_loads_alembic(tmp_path, old_file):
    for path, loads in ((tmp_path / "new.db", False), (old_file, True), (old_file, False)):
        code = f"{OPEN}; print('alembic' in sys.modules)"
        command = [sys.executable, "-c", code, f"sqlite:///{path}"]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == f"{loads}\n"
