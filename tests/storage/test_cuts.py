"""An exception at any moment, as the handler of a signal or a lack of memory raises it: the thread stays usable."""

from __future__ import annotations

import dis
import gc
import linecache
import os
import random
import signal
import sqlite3
import sys
import threading
from contextlib import closing, suppress
from functools import partial

import pytest

from tract_jupyter import Tract
from tract_jupyter.storage import Database

KINDS = [KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, TimeoutError]
_CHECKED_AFTER = ("CALL", "RESUME", "JUMP_BACKWARD")  # where CPython looks for signals


class Cut:
    """Raises in the storage package, at the n-th moment at which CPython could run the handler of a signal.

    Lines are such moments as well: an instruction may have another name in another version.
    """

    def __init__(self, kind, number, package="storage"):
        self.kind, self.left = kind, number
        self._part = f"{os.sep}tract_jupyter{os.sep}{package}{os.sep}"
        self._last = {}
        self._names = {}

    def __call__(self, frame, event, _):
        if self._part not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes = True
        is_line = event == "line" and not linecache.getline(
            frame.f_code.co_filename, frame.f_lineno
        ).lstrip().startswith(
            "with "
        )  # such a line comes again at the end of the block, which nothing can interrupt
        if event == "call" or is_line or (event == "opcode" and self._may_be_cut(frame)):
            self.left -= 1
            if self.left == 0:
                raise self.kind("cut")
        return self

    def _may_be_cut(self, frame):
        names = self._names.get(frame.f_code)
        if names is None:
            names = self._names[frame.f_code] = {
                one.offset: one.opname for one in dis.get_instructions(frame.f_code)
            }
        before = self._last.get(id(frame), "")  # a live frame keeps its state
        self._last[id(frame)] = names[frame.f_lasti]
        return before.startswith(_CHECKED_AFTER)

    def runs(self, function, check=lambda: None):
        """Whether `function` came to its end before that moment. `check` is called while the exception is known."""
        before = sys.gettrace()
        gc.disable()
        sys.settrace(self)
        try:
            function()
        except (*KINDS, Exception) as error:
            sys.settrace(before)
            check()
            return not isinstance(error, self.kind) and self.left > 0
        finally:
            sys.settrace(before)
            gc.enable()
        return self.left > 0


def in_thread(function):
    failed = []

    def run():
        try:
            function()
        except BaseException as error:  # told by the main thread
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    assert failed == []


def insert(connection, text):
    connection.exec_driver_sql(f"INSERT INTO notes VALUES ('{text}')")


def write(database, text):
    with database.write() as connection:
        insert(connection, text)
        insert(connection, f"{text} too")


def write_nested(database, text):
    with database.write() as connection:
        insert(connection, text)
        with database.write() as inner:
            insert(inner, f"{text} too")


def read_within_write(database, text):
    with database.write() as connection:
        insert(connection, text)
        with database.read() as inner:
            inner.exec_driver_sql("SELECT count(*) FROM notes").all()
        insert(connection, f"{text} too")


def fail(database, text):
    with suppress(ZeroDivisionError), database.write() as connection:
        insert(connection, text)
        raise ZeroDivisionError


def read(database, _):
    with database.read() as connection:
        connection.exec_driver_sql("SELECT count(*) FROM notes").all()


JOBS = [write, write_nested, read_within_write, fail, read]


def notes(database):
    with database.read() as connection:
        return [row[0] for row in connection.exec_driver_sql("SELECT text FROM notes")]


@pytest.fixture(params=["file", "memory", "postgres"])
def database(request, tmp_path):
    if request.param == "postgres":
        server = request.getfixturevalue("postgres_server")
        with server.database() as url, closing(Database(url=url)) as made:
            with made.write() as connection:
                connection.exec_driver_sql("CREATE TABLE notes (text TEXT)")
            yield made
        return
    path = tmp_path / "store.db" if request.param == "file" else ":memory:"
    with closing(Database(path, lock_timeout=0.2)) as made:
        with made.write() as connection:
            connection.exec_driver_sql("CREATE TABLE notes (text TEXT)")
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("job", JOBS)
def test_a_transaction_that_is_cut_at_any_moment_leaves_nothing_behind(database, job, kind):
    step = 1 if (job, kind) == (write_nested, KeyboardInterrupt) else 7
    step *= 5 if database.dialect == "postgresql" else 1
    job(database, "warm")
    handler = signal.getsignal(signal.SIGINT)
    number, is_over = 1, False

    def check(number):
        """The interrupted thread can continue at once, and so can others."""
        now = notes(database)
        with database.write() as connection:
            insert(connection, f"after {number}")
        in_thread(lambda: write(database, f"thread {number}"))
        assert notes(database)[len(now) :] == [f"after {number}", f"thread {number}", f"thread {number} too"]

    def told(number, undone):
        with database.write():  # the callbacks for a rollback run
            database.if_rolled_back(lambda: undone.append(1))
            job(database, f"text {number}")

    while not is_over:
        before, undone = notes(database), []
        work = partial(told, number, undone) if number % 2 else partial(job, database, f"text {number}")
        is_over = Cut(kind, number).runs(work, partial(check, number))
        written = [text for text in notes(database)[len(before) :] if text.startswith("text")]
        assert written in ([], [f"text {number}", f"text {number} too"])
        assert not (undone and written)
        number += step
    assert number > 100
    assert signal.getsignal(signal.SIGINT) is handler


def first(database, cut, ended):
    ended.append(cut.runs(lambda: write(database, "x"), lambda: write(database, "y")))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [KeyboardInterrupt, MemoryError, TimeoutError])
def test_the_first_transaction_of_a_thread_is_cut(tmp_path, kind):
    path = tmp_path / "store.db"
    with closing(Database(path)) as database, database.write() as connection:
        connection.exec_driver_sql("CREATE TABLE notes (text TEXT)")
    number, is_over = 1, False
    while not is_over:
        with closing(Database(path, lock_timeout=0.2)) as database:
            ended = []
            in_thread(partial(first, database, Cut(kind, number), ended))
            (is_over,) = ended
            with database.read() as connection:
                assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
        with closing(sqlite3.connect(path, timeout=0)) as other:
            other.execute("BEGIN IMMEDIATE")
        number += 1
    assert number > 50


def contents(tract):
    return [message.content for message in tract.compile().messages]


def say(tract, number):
    with tract.batch():
        tract.user(f"text {number}")
        tract.user("more")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("memory", [False, True], ids=["file", "memory"])
def test_a_message_that_is_cut_in_the_store_is_there_or_not(tmp_path, memory, kind):
    with Tract.open(":memory:" if memory else tmp_path / "store.db") as tract:
        tract.user("warm")
        number, is_over = 1, False
        while not is_over:
            before = contents(tract)

            is_over = Cut(kind, number).runs(
                partial(say, tract, number), partial(tract.user, f"handled {number}")
            )
            now = contents(tract)
            tract.user(f"after {number}")
            assert contents(tract) == [*now, f"after {number}"]
            said = [text for text in now[len(before) :] if not text.startswith("handled")]
            assert said in ([], [f"text {number}", "more"])
            number += 7
        assert number > 100
        assert tract.verify() == []


def say_until_struck(tract, number, seconds):
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        for part in range(20):
            tract.user(f"text {number} {part}")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # callbacks of others are interrupted as well
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="timers are set")
@pytest.mark.parametrize("memory", [False, True], ids=["file", "memory"])
def test_a_storm_of_timers(tmp_path, memory):
    """Handlers of SIGALRM that raise, as libraries for timeouts have them, at random moments."""
    chance = random.Random(5)

    def strike(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, strike)
    try:
        with Tract.open(":memory:" if memory else tmp_path / "store.db") as tract:
            for number in range(3_000):
                with suppress(KeyboardInterrupt):
                    say_until_struck(tract, number, chance.uniform(0.00001, 0.004))
                if number % 10 == 0:
                    tract.user(f"after {number}")
            in_thread(lambda: tract.user("another thread"))
            now = contents(tract)
            assert len(now) == len(set(now))
            assert tract.verify() == []
    finally:
        signal.signal(signal.SIGALRM, before)
