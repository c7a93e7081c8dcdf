"""Transactions: atomicity, nesting, threads, forks and cleanup."""

from __future__ import annotations

import faulthandler
import gc
import multiprocessing
import os
import signal
import sqlite3
import sys
import threading
import traceback
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from tract_jupyter.exceptions import StoreClosedError, StoreError
from tract_jupyter.storage import Database


@pytest.fixture
def database(store_url):
    """A database with a table of notes, for each kind of database."""
    with closing_database(store_url) as database:
        with database.write() as connection:
            connection.exec_driver_sql("CREATE TABLE notes (text VARCHAR(20))")
        yield database


@pytest.fixture(params=["file", "memory"])
def sqlite_database(request, tmp_path):
    """The same database in a file and in memory."""
    with closing_database(
        f"sqlite:///{tmp_path}/notes.db" if request.param == "file" else "sqlite://"
    ) as database:
        with database.write() as connection:
            connection.exec_driver_sql("CREATE TABLE notes (text VARCHAR(20))")
        yield database


def closing_database(url):
    return closing(Database(url=url))


def note(database, text):
    with database.write() as connection:
        connection.exec_driver_sql(f"INSERT INTO notes (text) VALUES ('{text}')")


def notes(database):
    with database.read() as connection:
        return [row[0] for row in connection.exec_driver_sql("SELECT text FROM notes ORDER BY text")]


# --- atomicity and nesting


def test_an_error_undoes_everything(database):
    def fail():
        with database.write():
            note(database, "a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert notes(database) == []


def test_nested_transactions_join_the_outer_transaction(database):
    with database.write() as outer:
        note(database, "a")
        with database.read() as inner:
            assert inner is outer
        assert notes(database) == ["a"]
        with database.write() as inner:
            assert inner is outer
            note(database, "b")
    assert notes(database) == ["a", "b"]


def test_reads_nest_too(database):
    with database.read() as outer, database.read() as inner:
        assert inner is outer


def test_a_caught_error_of_a_nested_write_still_undoes_everything(database):
    def swallow():
        with database.write():
            note(database, "a")
            try:
                with database.write():
                    note(database, "b")
                    raise ZeroDivisionError("the reason")
            except ZeroDivisionError:
                pass
            note(database, "c")

    with pytest.raises(StoreError, match=r"nothing was written.*\(the reason\)") as caught:
        swallow()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert notes(database) == []
    note(database, "d")  # the next transaction is not affected
    assert notes(database) == ["d"]


def test_a_caught_error_of_a_nested_read_undoes_nothing(database):
    with database.write():
        note(database, "a")
        with pytest.raises(ZeroDivisionError), database.read():
            raise ZeroDivisionError
    assert notes(database) == ["a"]


def test_no_write_begins_within_a_read(database):
    with database.read(), pytest.raises(StoreError, match="a write cannot begin within a read"):
        note(database, "a")
    note(database, "a")
    assert notes(database) == ["a"]


def test_a_savepoint_within(database):
    with database.write() as connection:
        note(database, "a")
        savepoint = connection.begin_nested()
        connection.exec_driver_sql("INSERT INTO notes (text) VALUES ('b')")
        savepoint.rollback()
    assert notes(database) == ["a"]


def test_a_transaction_without_an_exit_is_undone(database):
    # like an interrupt between the last line of a block and its end
    transaction = database.write()
    connection = transaction.__enter__()
    connection.exec_driver_sql("INSERT INTO notes (text) VALUES ('a')")
    del transaction
    note(database, "b")
    assert notes(database) == ["b"]


# --- threads


def in_threads(function, count=1):
    raised = []

    def run(number):
        try:
            function(number)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


def many(database):
    def write(number):
        for step in range(25):
            with database.write() as connection:
                note(database, f"{number} {step:02}")
                assert connection.in_transaction()
            notes(database)

    in_threads(write, 4)
    assert len(set(notes(database))) == 100


def test_threads_share_a_database(database):
    many(database)


def test_threads_share_a_database_in_memory(sqlite_database):
    many(sqlite_database)


def test_a_thread_is_not_part_of_the_transaction_of_another(database):
    with database.write():
        note(database, "a")
        in_threads(lambda _: assert_equal(notes(database), []))
    assert notes(database) == ["a"]


def assert_equal(one, other):
    assert one == other


# --- forks


def forked(function):
    """Run a function in a child. Return its error, or the stack if it hangs."""
    reader, writer = multiprocessing.Pipe(duplex=False)
    with TemporaryFile("w+") as stack:
        faulthandler.register(signal.SIGUSR1, stack, chain=True)  # this signal ends the child
        child = os.fork()
        if child == 0:
            try:
                function()
                writer.send("")
            except BaseException:
                writer.send(traceback.format_exc())
            finally:
                os._exit(0)
        has_ended = reader.poll(60)
        if not has_ended:
            os.kill(child, signal.SIGUSR1)
        os.waitpid(child, 0)
        faulthandler.unregister(signal.SIGUSR1)
        stack.seek(0)
        return reader.recv() if has_ended else f"it hangs:\n{stack.read()}"


def test_both_write_after_a_fork(database):
    note(database, "before")
    assert forked(lambda: [note(database, f"child {n}") for n in range(20)]) == ""
    note(database, "parent")
    assert len(notes(database)) == 22


def test_a_forked_child_can_write_after_its_parent_closes_the_store(database, store_url):
    # the last connection empties and removes the WAL; it must not remove the WAL of the child
    parent_closed, child_wrote = multiprocessing.Event(), multiprocessing.Event()
    child = os.fork()
    if child == 0:
        note(database, "child")
        child_wrote.set()
        parent_closed.wait(30)
        note(database, "after")
        os._exit(0)
    assert child_wrote.wait(30)
    database.close()
    parent_closed.set()
    os.waitpid(child, 0)
    with closing_database(store_url) as again:
        assert notes(again) == ["after", "child"]


def test_a_forked_child_has_its_own_copy_of_a_store_in_memory():
    with closing_database("sqlite://") as database:
        with database.write() as connection:
            connection.exec_driver_sql("CREATE TABLE notes (text VARCHAR(20))")
        note(database, "a")

        def go_on():
            note(database, "b")
            assert notes(database) == ["a", "b"]

        assert forked(go_on) == ""
        assert notes(database) == ["a"]


def test_a_fork_within_a_transaction_leaves_it_to_the_parent(database):
    def in_child():
        with pytest.raises(StoreError, match="forked within a transaction"):
            note(database, "child")
        with pytest.raises(StoreError, match="forked within a transaction"):
            transaction.__exit__(None, None, None)
        database.close()

    transaction = database.write()
    transaction.__enter__()
    note(database, "parent")
    outcome = forked(in_child)
    transaction.__exit__(None, None, None)
    assert outcome == ""
    assert notes(database) == ["parent"]


@pytest.mark.slow
def test_a_fork_while_another_thread_writes(database):
    inside, go_on = threading.Event(), threading.Event()

    def write(_):
        with database.write():
            note(database, "thread")
            inside.set()
            go_on.wait(30)

    def fork():
        inside.wait(30)
        outcomes.append(forked(lambda: assert_equal(notes(database), [])))
        go_on.set()

    outcomes = []
    other = threading.Thread(target=fork)
    other.start()
    in_threads(write)
    other.join()
    assert outcomes == [""]
    assert notes(database) == ["thread"]


# --- the end


def open_files(folder):
    targets = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return [target for target in targets if folder in target.parents]


@pytest.mark.slow
def test_a_thread_that_ends_takes_its_connection_along(tmp_path):
    database = Database(tmp_path / "x.db")
    before = len(open_files(tmp_path))
    for _ in range(5):
        in_threads(lambda _: database.read().__enter__())
        gc.collect()
    assert len(open_files(tmp_path)) <= before + 1  # SQLite keeps one while another holds a lock
    database.close()


def test_closing_closes_the_connections_of_all_threads(tmp_path):
    database = Database(tmp_path / "x.db")
    ready, go_on = threading.Event(), threading.Event()

    def use():
        with database.read():
            pass
        ready.set()
        go_on.wait(30)

    thread = threading.Thread(target=use)
    thread.start()
    ready.wait(30)
    assert open_files(tmp_path)
    database.close()
    assert open_files(tmp_path) == []
    go_on.set()
    thread.join()


def test_closing_waits_for_threads_that_end_just_then(tmp_path):
    """The last connection moves the WAL into the file. A copy made after that is complete."""
    for round_ in range(30):
        path = tmp_path / f"{round_}.db"
        database = Database(path)
        has_written = threading.Event()

        def write(database=database, has_written=has_written):
            with database.write() as connection:
                connection.exec_driver_sql("CREATE TABLE big AS SELECT zeroblob(1000000) AS value")
            has_written.set()

        thread = threading.Thread(target=write)
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)  # so the thread ends at any point of the closing
        try:
            thread.start()
            assert has_written.wait(30)
            database.close()
        finally:
            sys.setswitchinterval(interval)
        assert not path.with_name(path.name + "-wal").exists()
        thread.join()


def test_closing_waits_for_the_transactions_of_other_threads(tmp_path):
    path = tmp_path / "x.db"
    database = Database(path)
    has_begun, is_closing = threading.Event(), threading.Event()

    def write():
        with database.write() as connection:
            connection.exec_driver_sql("CREATE TABLE kept (x int)")
            has_begun.set()
            assert is_closing.wait(30)

    thread = threading.Thread(target=write)
    thread.start()
    assert has_begun.wait(30)
    closing_it = threading.Thread(target=database.close)
    closing_it.start()
    while not closes(database):
        pass
    is_closing.set()
    closing_it.join(30)
    assert not path.with_name("x.db-wal").exists()
    thread.join(30)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)


def closes(database):
    """Return True when the database refuses new transactions."""
    try:
        with database.read():
            return False
    except StoreClosedError:
        return True


def test_closing_within_a_transaction_lets_it_end(tmp_path):
    database = Database(tmp_path / "x.db")
    with database.write() as connection:
        connection.exec_driver_sql("CREATE TABLE kept (x int)")
        database.close()
    assert open_files(tmp_path) == []
    with pytest.raises(StoreClosedError), database.read():
        pass
    with sqlite3.connect(tmp_path / "x.db") as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
    connection.close()


def test_the_transaction_of_another_thread_is_not_ours(sqlite_database):
    begun, done, undone = threading.Event(), threading.Event(), []

    def fail():
        with suppress(ZeroDivisionError), sqlite_database.write():
            sqlite_database.if_rolled_back(lambda: undone.append("theirs"))
            begun.set()
            done.wait()
            raise ZeroDivisionError

    other = threading.Thread(target=fail)
    other.start()
    begun.wait()
    assert not sqlite_database.in_transaction
    sqlite_database.if_rolled_back(lambda: undone.append("ours"))
    done.set()
    other.join()
    assert undone == ["theirs"]
