"""A value that a column cannot hold is reported as damage by all code that reads it."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing, suppress

import pytest

from tests.review.fakes import FakeChannel
from tests.review.rigging import press
from tract_jupyter import Session, Tract
from tract_jupyter.exceptions import StoreCorruptError, TractError
from tract_jupyter.policy import PinPolicy
from tract_jupyter.runs.profile import OperationProfile, run_operation
from tract_jupyter.storage import metadata


class Model:
    """A client that replies or fails."""

    def __init__(self, text="yes"):
        self.text = text

    def chat(self, *_, **__):
        if not self.text:
            raise RuntimeError("no")
        return {
            "choices": [{"message": {"role": "assistant", "content": self.text}, "finish_reason": "stop"}]
        }


def fill(path, spec, monkeypatch):
    """Put rows of every kind into a new store."""
    with Session.open(path) as session:
        tract = session.create_tract()
        tract.configure_llm(Model())
        tract.register_operation(spec("pending.approve()", unhandled="ask"))
        tract.hooks.save_handler("*", "looks_on", "None")
        tract.tags.register("draft", "not done")
        tract.autonomy.ceiling = "manual"
        tract.policies.add(PinPolicy())
        first = tract.user("first", metadata={"n": 1}, tags=["t"])
        tract.user("edited", edit=first.commit_hash)
        tract.tags.add(first.commit_hash, "draft")
        tract.branch("side")
        tract.user("aside")
        tract.switch("main")
        tract.user("here")
        tract.merge("side")
        tract.undo()
        tract.compile_records.add(tract.compile())
        tract.profiles.save(
            OperationProfile.of("kind", [run_operation("mood", order=10, text="Kind.", keep=True)]),
            activate=True,
        )
        tract.chat("question")
        tract.configure_llm(Model(""))
        with suppress(TractError):
            tract.chat("without a reply")
        tract.tool(lambda: "x", name="look", description="Look.", read_only=True)
        tract.scripts.run("tools.look()\nraise ValueError")
        tract.fire("citation_check", {"urls": ["a"]}, review=True)
        channel, tract.reviewer.channel = tract.reviewer.channel, FakeChannel()
        pending = tract.fire("citation_check", {"urls": ["b"]}, review=True)
        with monkeypatch.context() as patch:
            patch.setattr("tract_jupyter.review.decision._PERSONAL", {"fake"})
            press(tract, tract.reviewer.show(pending), "approve", scope="always")
        tract.reviewer.channel = channel
        session.spawn(tract, purpose="look").user("child")
        assert tract.verify() == []
        return tract.tract_id


def readings(session, tract):
    """Return the reading calls of a user on a store."""
    yield tract.status
    yield lambda: tract.log(None)
    yield tract.compile
    yield lambda: tract.diff("main", "side")
    yield lambda: tract.events(limit=100)
    yield tract.list_branches
    yield tract.tags.list
    yield tract.reflog
    yield tract.compile_records.newest
    yield lambda: [tract.operations.rebuild(one) for one in tract.review.inbox()]
    yield tract.review.decisions
    yield tract.hooks.log
    yield tract.review.grants.all
    yield tract.profiles.list
    yield tract.policies.list
    yield lambda: tract.autonomy.ceiling
    yield lambda: [tract.runs.events(run.run_id) for run in tract.runs()]
    yield tract.family.children
    yield session.list_tracts
    yield lambda: tract.fire("citation_check", {"urls": ["b"]})
    yield lambda: tract.user("more")
    yield tract.verify


VALUES = (b"\xff", None, 7, "{", "[1]")


def put(path, table, column, value):
    """Set a value in the newest row of a table without SQLite's checks, like a flipped bit in a page."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("PRAGMA writable_schema = ON")
        (made,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        replace = "UPDATE sqlite_master SET sql = ? WHERE name = ?"
        connection.execute(replace, (made.replace("NOT NULL", ""), table))
        connection.commit()
    with closing(sqlite3.connect(path)) as connection:
        newest = f'(SELECT max(rowid) FROM "{table}")'
        connection.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = {newest}', (value,))
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(replace, (made, table))
        connection.commit()


def bare(path, tract_id):
    """Yield the errors of reading a damaged store that are not a TractError."""
    try:
        with Session.open(path) as session:
            tract = session.get_tract(tract_id)
            for read in readings(session, tract):
                try:
                    read()
                except TractError:
                    pass
                except Exception as error:  # the test looks for these errors
                    yield repr(error)
    except TractError:
        pass


@pytest.mark.slow
def test_every_damaged_value_gives_a_tract_error(tmp_path, spec, monkeypatch):
    whole, path = tmp_path / "whole.db", tmp_path / "damaged.db"
    tract_id = fill(whole, spec, monkeypatch)
    with closing(sqlite3.connect(whole)) as connection:
        for table in metadata.tables:
            assert connection.execute(f'SELECT count(*) FROM "{table}"').fetchone() != (0,), table
    columns = [column for table in metadata.sorted_tables for column in table.columns]
    found = []
    for number, column in enumerate(columns):
        shutil.copy(whole, path)
        value = VALUES[number % len(VALUES)]
        with suppress(sqlite3.IntegrityError):  # SQLite itself refuses the value
            put(path, column.table.name, column.name, value)
            found += [f"{column} = {value!r}: {error}" for error in bare(path, tract_id)]
    assert found == []


@pytest.mark.parametrize(
    ("column", "value", "read"),
    [
        ("commits.token_count", None, Tract.compile),
        ("commits.generation", b"\xff", Tract.compile),
        ("commits.metadata_json", 7, Tract.compile),
        ("commits.metadata_json", "[1]", Tract.compile),
        ("commits.message", None, Tract.log),
        ("events.created_at", "noon", Tract.events),
        ("events.data_json", "[]", Tract.events),
        ("pendings.title", b"x", lambda tract: tract.review.inbox()),
        ("handlers.operation", b"*", Tract.status),
        ("reflog.message", b"x", Tract.reflog),
    ],
)
def test_an_error_about_damage_names_the_damage_and_the_remedy(tmp_path, column, value, read, spec):
    path = tmp_path / "store.db"
    with Tract.open(path) as tract:
        tract.register_operation(spec())
        tract.hooks.save_handler("*", "looks_on", "None")
        tract.fire("citation_check", {"urls": []}, review=True)
        tract.user("undone")
        tract.undo()
        tract.user("x", metadata={"n": 1})
    put(path, *column.split("."), value)
    with pytest.raises(StoreCorruptError, match="damaged") as told, Tract.open(path) as tract:
        read(tract)
    assert "estore a backup" in str(told.value)
