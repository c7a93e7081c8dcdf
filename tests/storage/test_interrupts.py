"""An interrupt at any moment is raised unchanged, leaves nothing half done and does not delay the user."""
# ruff: noqa: PT012 # where an interrupt is raised is what is tested

from __future__ import annotations

import gc
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest
from sqlalchemy import Connection

from benchmarks import storm
from tests.review.scripted import ScriptedClient
from tract_jupyter import Tract
from tract_jupyter.exceptions import StoreError, TractError
from tract_jupyter.review import deciding
from tract_jupyter.storage import (
    Database,
    interruptible,
    interrupts,
    protected_context,
    raise_in,
    uninterrupted,
)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are sent")


@pytest.fixture(autouse=True)
def ctrl_c():
    """Use the default signal handler of Python, and check that it is still set after the test."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def interrupt():
    signal.raise_signal(signal.SIGINT)


def test_rollback_callbacks_run_even_if_the_rollback_is_interrupted(monkeypatch):
    """The callbacks remove notes about the undone changes."""
    database, forgotten = Database(":memory:"), []
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt), database.write():
        database.if_rolled_back(lambda: forgotten.append("it"))
        patched.setattr(Connection, "rollback", lambda _: signal.default_int_handler(signal.SIGINT, None))
        raise OSError
    assert forgotten == ["it"]
    database.close()


# --- blocks


def test_an_interrupt_waits_for_the_end_of_the_block():
    done = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        interrupt()
        done.append("all")
    assert done == ["all"]


def test_an_interrupt_waits_for_the_end_of_the_outermost_block():
    done = []

    def inner():
        with uninterrupted():
            interrupt()
        done.append("after the inner one")

    with pytest.raises(KeyboardInterrupt), uninterrupted():
        inner()
    assert done == ["after the inner one"]


def test_an_interrupt_replaces_the_error_that_ends_the_block():
    def fail():
        interrupt()
        raise ZeroDivisionError

    with pytest.raises(KeyboardInterrupt) as caught, uninterrupted():
        fail()
    assert isinstance(caught.value.__context__, ZeroDivisionError)


def test_an_interruptible_call_stops_at_once():
    done = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        interruptible(interrupt)
        done.append("after it")
    assert done == []


def test_a_waiting_interrupt_is_raised_before_an_interruptible_call():
    done = []

    def both():
        interrupt()
        interruptible(done.append, "long")

    with pytest.raises(KeyboardInterrupt), uninterrupted():
        both()
    assert done == []


def test_a_block_inside_an_interruptible_call_is_completed():
    done = []

    @uninterrupted()
    def inner():
        interrupt()
        done.append("inner")

    with pytest.raises(KeyboardInterrupt), uninterrupted():
        interruptible(inner)
        done.append("outer")
    assert done == ["inner"]


def test_a_second_interrupt_does_not_wait(monkeypatch):
    done = []

    def twice():
        interrupt()
        done.append("waits")
        monkeypatch.setattr(interrupts, "_PATIENCE", 0)
        interrupt()
        done.append("does not")

    with pytest.raises(KeyboardInterrupt), uninterrupted():
        twice()
    assert done == ["waits"]


def test_another_handler_is_asked_as_before():
    seen = []
    signal.signal(signal.SIGINT, lambda *_: seen.append("theirs"))
    with uninterrupted():
        interrupt()
        assert not seen
    assert seen == ["theirs"]
    with uninterrupted():
        interruptible(interrupt)
        assert len(seen) == 2
        before = interrupts.handle_with(lambda *_: seen.append("another"))
        interruptible(interrupt)
        interrupts.handle_with(before)
        assert interrupts.handler() is before
    assert seen[2:] == ["another"]
    assert interrupts.handler() is before
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_an_ignored_or_default_signal_handler_is_not_replaced(handler):
    signal.signal(signal.SIGINT, handler)
    with uninterrupted():
        assert signal.getsignal(signal.SIGINT) is handler
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_a_context_manager_is_interruptible_only_between_enter_and_exit():
    done = []

    @protected_context
    def managed():
        done.append("begun")
        try:
            yield
        finally:
            interrupt()
            done.append("ended")

    with pytest.raises(KeyboardInterrupt), managed():
        interrupt()
        done.append("not reached")
    assert done == ["begun", "ended"]


def in_block(call):
    with uninterrupted():
        call()


def in_transaction(call):
    with closing(Database(":memory:")) as database, database.write():
        call()


def in_context_manager(call):
    @protected_context
    def managed():
        call()
        yield

    with managed():
        pass


def in_stack(call):
    @protected_context
    def managed():
        yield
        call()

    with ExitStack() as stack:
        stack.enter_context(managed())


@pytest.fixture(params=[in_block, in_transaction, in_context_manager, in_stack])
def protected(request):
    """A function that calls another one in a protected block."""
    return request.param


def test_a_thread_that_must_stop_completes_its_block(protected):
    class Stop(BaseException):
        pass

    done, inside, told = [], threading.Event(), threading.Event()

    def work():
        inside.set()
        told.wait(30)
        done.append("the block")

    def run():
        with suppress(Stop):
            protected(work)
            done.append("after it")

    thread = threading.Thread(target=run)
    thread.start()
    inside.wait(30)
    raise_in(thread.ident, Stop)
    told.set()
    thread.join()
    assert done == ["the block"]


def test_an_interrupt_inside_an_open_decision_is_raised_after_the_block(protected):
    done = []
    with pytest.raises(KeyboardInterrupt), deciding("test"):
        protected(interrupt)
        done.append("after it")
    assert done == []


def called():
    return True


def traced():
    """Return true if code can be traced. Run in a subprocess: in a broken CPython, tracing never ends."""
    sys.settrace(lambda *_: None)
    try:
        return called()
    finally:
        sys.settrace(None)


TAKEN_BACK = """
import faulthandler, threading
faulthandler.dump_traceback_later(20, exit=True)
from tests.storage.test_interrupts import traced
from tract_jupyter.storage.interrupts import raise_in
class Stop(BaseException):
    pass
me = threading.get_ident()
raise_in(me, None)
assert traced()
caught = []
def run():
    try:
        raise_in(threading.get_ident(), Stop)
        raise_in(threading.get_ident(), None)
    except Stop:
        caught.append("at once")
        raise_in(threading.get_ident(), None)
    assert traced()
thread = threading.Thread(target=run)
thread.start()
thread.join()
assert traced()
print("ended")
"""


@pytest.mark.slow
def test_code_can_be_traced_after_a_cancelled_thread_exception():
    done = subprocess.run(
        [sys.executable, "-c", TAKEN_BACK],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout.strip() == "ended", done.stderr


# --- at any line


class AtLine:
    """Interrupt the main thread at the start of the n-th line of this package, or of the named modules."""

    def __init__(self, number, *modules):
        self.left = number
        self._modules = modules

    def __call__(self, frame, event, _):
        path = Path(frame.f_code.co_filename)
        if "tract_jupyter" not in path.parts or (self._modules and path.name not in self._modules):
            return None
        if event in {"call", "line"}:
            self.left -= 1
            if self.left == 0:
                interrupt()
        return self

    def runs(self, function):
        """Run a function. Return true if it ended before that line."""
        before = sys.gettrace()
        gc.disable()  # garbage collection could close objects of other tests
        sys.settrace(self)
        try:
            function()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
            gc.enable()
        return self.left > 0


def can_write_at_once(path):
    with closing(sqlite3.connect(path, timeout=0)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.rollback()


def contents(tract):
    return [message.content for message in tract.compile().messages]


def say(tract, text):
    tract.user(text)


def say_in_batch(tract, text):
    with tract.batch():
        tract.user(text)
        tract.user(text + " too")


def say_in_stack(tract, text):
    with ExitStack() as stack:
        stack.enter_context(tract.batch())
        tract.user(text)


@contextmanager
def a_batch(tract):
    with tract.batch():
        yield


def say_in_generator(tract, text):
    with a_batch(tract):
        tract.user(text)


@pytest.mark.slow
@pytest.mark.parametrize("job", [say, say_in_batch, say_in_stack, say_in_generator])
@pytest.mark.parametrize("memory", [False, True], ids=["file", "memory"])
def test_a_commit_that_is_interrupted_at_any_line_is_made_or_not(tmp_path, job, memory):
    path = tmp_path / "store.db"
    with Tract.open(":memory:" if memory else path) as tract:
        job(tract, "warm")
        line, is_over = 1, False
        while not is_over:
            before = contents(tract)
            is_over = AtLine(line).runs(lambda: job(tract, f"text {line}"))  # noqa: B023 # called at once
            if not memory:
                can_write_at_once(path)
            now = contents(tract)
            assert now[: len(before)] == before
            assert now.count(f"text {line}") <= 1
            assert len(now) - len(before) in {0, 2 if job is say_in_batch else 1}
            tract.user(f"after {line}")
            assert contents(tract) == [*now, f"after {line}"]
            line += 11
        assert line > 300
        if not memory:
            with Tract.open(path) as other:
                assert contents(other) == contents(tract)
                assert other.verify() == []


@pytest.mark.slow
def test_a_decision_interrupted_at_any_line_is_complete_or_can_be_repeated(tmp_path, spec):
    path, ran = tmp_path / "store.db", []
    with Tract.open(path) as tract:
        tract.register_operation(spec())

        def fire(line):
            return tract.fire(
                "citation_check", {"urls": [str(line)]}, review=True, execute_fn=lambda _: ran.append(line)
            )

        fire(0).approve()
        line, is_over = 1, False
        while not is_over:
            pending = fire(line)
            is_over = AtLine(line).runs(pending.approve)
            can_write_at_once(path)
            times = ran.count(line)
            if pending.status.is_open:
                pending.approve()
            assert (pending.status.value, pending.executed_at is None) == ("approved", False)
            stored = [one for one in tract.review.decisions(limit=10) if one.pending_id == pending.pending_id]
            assert all(one.finished_at for one in stored)
            assert times <= ran.count(line) <= len(stored) <= 2
            assert ran.count(line) >= 1
            line += 23
        assert tract.review.inbox() == []


@pytest.mark.slow
def test_an_interrupted_compile_does_not_duplicate_messages():
    with Tract.open() as tract:
        for number in range(10):
            tract.user(f"text {number}")
        line, is_over = 1, False
        while not is_over:
            tract.user(f"another {line}")
            is_over = AtLine(line).runs(tract.compile)
            now = contents(tract)
            assert len(now) == len(set(now)) == tract.status().message_count
            line += 1


class Interrupted(ScriptedClient):
    """A model that the user interrupts if the message asks for it."""

    def chat(self, messages, **options):
        if "interrupt" in str(messages[-1]["content"]):
            interrupt()
        return super().chat(messages, **options)


@pytest.mark.slow
def test_a_turn_that_is_interrupted_at_any_line_stops_no_later_turn(tmp_path):
    """This holds for one interrupt, and for a second interrupt in another turn."""
    with Tract.open(tmp_path / "store.db") as tract:
        tract.configure_llm(Interrupted(*["Yes."] * 1_000))
        tract.chat("warm")
        line, is_over = 1, False
        while not is_over:
            cut = AtLine(line, "loop.py")
            is_over = cut.runs(lambda: tract.chat(f"text {line}"))  # noqa: B023 # called at once
            with pytest.raises(KeyboardInterrupt):
                tract.chat(f"interrupt {line}")
            assert tract.chat(f"after {line}").text == "Yes."
            line += 1
        assert line > 50


# --- connections


def test_a_connection_in_doubt_is_not_used_again(tmp_path):
    def cut():
        with database.write() as connection:
            connection.exec_driver_sql("CREATE TABLE notes (text)")
            raise KeyboardInterrupt

    with closing(Database(tmp_path / "x.db")) as database:
        with database.write() as connection:
            connection.exec_driver_sql("CREATE TEMP TABLE of_this_connection (text)")
        with pytest.raises(KeyboardInterrupt):
            cut()
        can_write_at_once(tmp_path / "x.db")
        with pytest.raises(StoreError, match="no such table"), database.read() as connection:
            connection.exec_driver_sql("SELECT * FROM of_this_connection")


def test_an_interrupt_does_not_delete_a_store_in_memory():
    def cut(statement):
        with database.write() as connection:
            connection.exec_driver_sql(statement)
            raise KeyboardInterrupt

    with closing(Database()) as database:
        with database.write() as connection:
            connection.exec_driver_sql("CREATE TABLE notes (text)")
        with pytest.raises(KeyboardInterrupt):
            cut("INSERT INTO notes VALUES ('x')")
        with database.read() as connection:
            assert connection.exec_driver_sql("SELECT * FROM notes").all() == []


def test_an_interrupt_during_a_lock_wait_is_raised_as_keyboard_interrupt(tmp_path):
    with closing(Database(tmp_path / "x.db", lock_timeout=0.2)) as database:
        holder = sqlite3.connect(tmp_path / "x.db")
        holder.execute("BEGIN IMMEDIATE")
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt), database.write():
            pass
        holder.rollback()
        holder.close()
        with database.write():
            pass


def test_a_batch_can_be_stopped(tmp_path):
    gc.collect()  # an interrupt during the cleanup of earlier tests' objects would wait for the end of the batch
    with Tract.open(tmp_path / "x.db") as tract:
        started = time.monotonic()

        def spin():  # in Python 3.13, an interrupt at the end of a loop passes the `with` block around it
            while time.monotonic() - started < 30:
                pass

        with pytest.raises(KeyboardInterrupt), tract.batch():
            tract.user("x")
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
            spin()
        assert time.monotonic() - started < 10
        assert contents(tract) == []
        with suppress(TractError):
            can_write_at_once(tmp_path / "x.db")


# --- a storm


@pytest.mark.slow
def test_a_storm(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sessions, interrupts_each = (int(os.environ.get(name, size)) for name, size in SIZES.items())
    *_, wrong, waited = storm.rows(sessions, interrupts_each)
    assert (wrong.value, waited.verdict) == (0, "ok")


SIZES = {"TRACT_STORM_SESSIONS": "2", "TRACT_STORM_INTERRUPTS": "300"}
"""Of the storm; 20 and 500 take some minutes."""
