"""A store of an older version becomes one of the present version: whole, once, or not at all."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing

import pytest
from sqlalchemy import inspect

from tests.storage import made_up
from tract_jupyter import Tract
from tract_jupyter.exceptions import (
    StoreCorruptError,
    StoreLockedError,
    StoreReadOnlyError,
    StoreReferenceError,
    StoreVersionError,
)
from tract_jupyter.storage import SCHEMA_VERSION, Database, migrations


@pytest.fixture(autouse=True)
def made_up_script(monkeypatch):
    monkeypatch.setattr(migrations, "SCRIPTS", made_up.SCRIPTS)


@pytest.fixture
def old_file(tmp_path):
    made_up.make_store(f"sqlite:///{tmp_path}/old.db")
    return tmp_path / "old.db"


@pytest.fixture
def old_url(store_url):
    """A store of version 0 on each kind of database."""
    made_up.make_store(store_url)
    return store_url


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


FIRST = [("system", "Answer briefly."), ("user", "What is a tract?")]
BRANCHES = {
    "main": [*FIRST, ("user", "Größe, 中文, <|endoftext|> and 'quotes'")],
    "topic/one": [*FIRST, ("assistant", "A versioned context.")],
}


def test_every_branch_compiles_to_what_it_did(old_url):
    with Tract.open(url=old_url) as tract:
        for branch, expected in BRANCHES.items():
            tract.switch(branch)
            assert [(m.role, m.content) for m in tract.compile().messages] == expected
            assert tract.compile().token_count == tract.status().token_count


def test_what_the_script_brings_is_there(old_url):
    with Tract.open(url=old_url) as tract:
        assert [(event.event_type, event.actor) for event in tract.events()] == [
            ("operation.activated", "user")
        ]
        assert [(tag.name, tag.description) for tag in tract.tags.list()] == [("fact", "")]
        assert tract.profiles.list() == []


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


def test_the_tables_are_those_of_a_new_store(old_url, tmp_path, request):
    with ExitStack() as opened:
        new_url = f"sqlite:///{tmp_path}/new.db"
        if not old_url.startswith("sqlite"):
            new_url = opened.enter_context(request.getfixturevalue("postgres_server").database())
        old, new = Database(url=old_url), Database(url=new_url)
        assert shape(old) == shape(new)
        old.close()
        new.close()


def test_references_are_checked_again_afterwards(old_file):
    database = Database(old_file)
    with pytest.raises(StoreReferenceError, match="was removed"), database.write() as connection:
        connection.exec_driver_sql("UPDATE refs SET commit_hash = 'nothing' WHERE name = 'refs/heads/main'")
    database.close()


# --- the copy


def test_a_copy_of_the_old_store_is_left_beside_it(old_file):
    old_file.chmod(0o600)
    before = dump(old_file)
    Database(old_file).close()
    assert files(old_file.parent) == ["old.db", "old.db.v0.bak"]
    copy = old_file.with_name("old.db.v0.bak")
    assert dump(copy) == before
    assert copy.stat().st_mode & 0o777 == 0o600


def test_a_copy_is_never_overwritten(old_file):
    first = old_file.with_name("old.db.v0.bak")
    first.write_bytes(b"somebody's")
    shutil.copy(old_file, old_file.with_name("again.db"))
    Database(old_file).close()
    assert first.read_bytes() == b"somebody's"
    assert old_file.with_name("old.db.v0.bak.2").exists()


def test_the_same_copy_is_not_made_twice(old_file):
    original = old_file.read_bytes()
    for _ in range(2):
        old_file.write_bytes(original)
        Database(old_file).close()
    assert files(old_file.parent) == ["old.db", "old.db.v0.bak"]


def test_the_copy_can_be_opened_and_upgraded_itself(old_file):
    Database(old_file).close()
    copy = old_file.with_name("old.db.v0.bak")
    Database(copy).close()
    assert version_of(copy) == str(SCHEMA_VERSION)


# --- whole, once, or not at all

OPEN = (
    made_up.USE
    + "import sys; from tract_jupyter.storage.database import Database; Database(url=sys.argv[1]).close()"
)


def test_several_processes_upgrade_it_once(old_url):
    command = [sys.executable, "-W", "error", "-c", OPEN, old_url]
    starting = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate()[1] for process in starting] == ["", "", ""]
    database = Database(url=old_url)
    with database.read() as connection:
        assert connection.exec_driver_sql("SELECT tag, description FROM tag_registry").all() == [("fact", "")]
    database.close()


KILLED = f"""
{made_up.USE}
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


@pytest.mark.parametrize("point", [3, 6, 9, 11])
def test_a_process_killed_in_the_middle_leaves_the_old_store(old_url, tmp_path, point):
    command = [sys.executable, "-c", KILLED, old_url, str(point)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    if old_url.startswith("sqlite"):
        old_file = tmp_path / "store.db"
        assert version_of(old_file) == "0"
        assert sql(old_file, "PRAGMA integrity_check") == [("ok",)]
        assert sql(old_file, "SELECT count(*) FROM events WHERE who = 'user'") == [(1,)]
    test_every_branch_compiles_to_what_it_did(old_url)


def test_no_space_for_the_new_tables(old_file):
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9000) "
    sql(old_file, f"INSERT INTO tag_registry {many} SELECT 'tract', hex(randomblob(32)) || i, '' FROM n")
    before = dump(old_file)
    code = (
        f"{made_up.USE}\n"
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


def test_a_version_that_no_script_knows_refuses(old_url, monkeypatch, tmp_path):
    (tmp_path / "empty" / "versions").mkdir(parents=True)
    monkeypatch.setattr(migrations, "SCRIPTS", tmp_path / "empty")
    with pytest.raises(StoreVersionError, match="store version 0, .* does not know how to upgrade that to 1"):
        Database(url=old_url)
    monkeypatch.setattr(migrations, "SCRIPTS", made_up.SCRIPTS)
    test_every_branch_compiles_to_what_it_did(old_url)


def test_a_broken_reference_refuses(old_file):
    sql(old_file, "UPDATE refs SET commit_hash = 'gone' WHERE name = 'HEAD'")
    with pytest.raises(StoreCorruptError, match="a row of refs refers to one of commits that is missing"):
        Database(old_file)
    assert version_of(old_file) == "0"


def test_a_locked_store_is_told(old_file):
    with closing(sqlite3.connect(old_file)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreLockedError):
            Database(old_file, lock_timeout=0.01)
    assert version_of(old_file) == "0"


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
        command = [sys.executable, "-B", "-c", code, f"sqlite:///{path}"]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == f"{loads}\n"
