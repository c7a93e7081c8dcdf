"""The rows of runs: however many they are, an operation takes the same few statements."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.statements import counted
from tract_jupyter.exceptions import StoreError
from tract_jupyter.storage import (
    Database,
    RunCommitRows,
    RunEventRows,
    RunLeaseRows,
    RunObjectRows,
    RunProfileRows,
    StoredLease,
    StoredProfile,
    StoredRunCommit,
    StoredRunEvent,
)

TRACT, RUN, TIME = "1" * 32, "a" * 32, "2026-01-01T00:00:00.000000+00:00"


@pytest.fixture
def database(store_url):
    with closing(Database(url=store_url)) as database:
        yield database


def events(size):
    return [StoredRunEvent(RUN, seq, "run.resumed", "{}", TIME) for seq in range(1, size + 1)]


def objects(size):
    return {f"o{number}": "1" for number in range(size)}


COMMIT = StoredRunCommit(RUN, "h", "{}")
# how many statements, not counting the prepared ones, which are one each; and what they do
WRITES = {
    "events": (0, lambda c, size: RunEventRows(TRACT).append(c, events(size))),
    "objects": (0, lambda c, size: RunObjectRows(TRACT).add(c, objects(size))),
    "lease": (0, lambda c, _: RunLeaseRows(TRACT).replace(c, StoredLease(RUN, "p", TIME))),
    "profile": (
        0,
        lambda c, _: RunProfileRows(TRACT).replace(
            c, StoredProfile("p", "{}", "", is_active=False, created_at=TIME)
        ),
    ),
    "activation": (1, lambda c, _: RunProfileRows(TRACT).activate(c, "p")),
    "commit": (1, lambda c, _: RunCommitRows(TRACT).add(c, COMMIT)),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("size", [1, 500])
def test_the_number_of_statements_does_not_depend_on_the_number_of_rows(database, name, size):
    most, write = WRITES[name]
    with database.write() as connection, counted() as statements:
        write(connection, size)
    assert len(statements) == most


@pytest.mark.parametrize(
    ("add", "given"), [(RunEventRows(TRACT).append, events(2)), (RunCommitRows(TRACT).add, COMMIT)]
)
def test_nothing_is_added_twice(database, add, given):
    """E15, R58: an event of a run, and a commit of it at a hook."""
    with database.write() as connection:
        add(connection, given)
    with pytest.raises(StoreError, match="already"), database.write() as connection:
        add(connection, given)
    with database.write() as connection:
        WRITES["profile"][1](connection, 1)  # the connection can be used on


def test_events_after_one_of_another_process_are_not_added(database):
    first, second, third = events(3)
    with database.write() as connection:
        RunEventRows(TRACT).append(connection, [first, second])
    with pytest.raises(StoreError, match="already"), database.write() as connection:
        RunEventRows(TRACT).append(connection, [second, third])
    with database.read() as connection:
        assert RunEventRows(TRACT).of(connection, RUN) == [first, second]


def test_tracts_of_a_store_do_not_see_each_others_rows(database):
    other = "2" * 32
    with database.write() as connection:
        for _, write in WRITES.values():
            write(connection, 3)
    with database.read() as connection:
        assert RunEventRows(other).of(connection, RUN) == []
        assert list(RunEventRows(other).by_run(connection)) == RunEventRows(other).newest(connection) == []
        assert RunObjectRows(other).get(connection, ["o1"]) == {}
        assert RunLeaseRows(other).find_one(connection, run_id=RUN) is None
        assert RunProfileRows(other).all(connection) == []
        assert RunProfileRows(other).active(connection) is None
        assert RunCommitRows(other).find_one(connection, run_id=RUN, hook="h") is None
        assert RunProfileRows(TRACT).active(connection).name == "p"
