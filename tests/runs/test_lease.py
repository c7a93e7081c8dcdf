"""Only one process at a time works on a run."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from contextlib import closing, contextmanager
from threading import Event

import pytest
from sqlalchemy import text

from tests.runs.stories import RUN
from tract_jupyter.exceptions import RunError
from tract_jupyter.loop import Lease, is_held
from tract_jupyter.review import this_process
from tract_jupyter.storage import Database, RunLeaseRows, StoredLease

ROWS = RunLeaseRows("1" * 32)
HOST = this_process().split(":")[0]
LATER, LONG_AGO = "2999-01-01T00:00:00.000000+00:00", "2001-01-01T00:00:00.000000+00:00"


@pytest.fixture
def database(store_url):
    with closing(Database(url=store_url)) as database:
        yield database


def hold(database, process, until=LATER):
    with database.write() as connection:
        ROWS.replace(connection, StoredLease(RUN, process, until))


def test_a_lease_is_held_until_the_end_of_its_block(database):
    """R13: the main call of a run is never made twice."""
    assert not is_held(database, ROWS, RUN)
    with Lease(database, ROWS, RUN) as lease:
        assert is_held(database, ROWS, RUN)
        lease.renew()
        with pytest.raises(RunError, match="is being run by this process"), Lease(database, ROWS, RUN):
            pass
        assert is_held(database, ROWS, RUN)
    assert not is_held(database, ROWS, RUN)
    with pytest.raises(ZeroDivisionError), Lease(database, ROWS, RUN):
        raise ZeroDivisionError
    assert not is_held(database, ROWS, RUN)


@pytest.mark.slow
def test_a_lease_that_was_not_released_ends_with_its_object(database):
    """Repeated interrupts can prevent the release, and the branch must not stay blocked."""
    lease = Lease(database, ROWS, RUN, "main")
    lease.__enter__()
    assert is_held(database, ROWS, RUN)
    del lease
    gc.collect()
    assert not is_held(database, ROWS, RUN)
    with Lease(database, ROWS, RUN, "main"):
        assert is_held(database, ROWS, RUN)


def test_a_run_of_another_process_is_refused(database):
    """R13: the error names the process."""
    hold(database, f"{HOST}:{os.getppid()}:ab")
    with (
        pytest.raises(RunError, match=f"process {os.getppid()} on .*wait for its end"),
        Lease(database, ROWS, RUN),
    ):
        pass


def ended_process():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return f"{HOST}:{process.pid}:ab"


@pytest.mark.parametrize("until", [LATER, LONG_AGO, "?"])
def test_a_process_that_ended_holds_nothing(database, until):
    """R13: after a crash the run can be resumed immediately."""
    hold(database, ended_process(), until)
    with Lease(database, ROWS, RUN):
        pass
    hold(database, f"{HOST}:{os.getpid()}:another", until)  # an earlier process with the same number
    with Lease(database, ROWS, RUN):
        pass


@pytest.mark.parametrize(("until", "is_free"), [(LATER, False), (LONG_AGO, True), ("", True)])
def test_of_another_host_the_time_counts(database, until, is_free):
    """R13: it is unknown whether a process of another host has ended."""
    hold(database, "elsewhere:1:ab", until)
    assert is_held(database, ROWS, RUN) is not is_free


def test_renewing_a_lost_lease_is_an_error(database, monkeypatch):
    """R13: a process that slept too long gets an error, and does not take the lease from its new holder."""
    with Lease(database, ROWS, RUN) as lease:
        hold(database, "elsewhere:1:ab")
        lease.renew()  # not checked yet
        monkeypatch.setattr("time.monotonic", lambda: float("inf"))
        with pytest.raises(RunError, match="process 1 on elsewhere has taken over run"):
            lease.renew()
    assert is_held(database, ROWS, RUN)


def test_a_lease_is_renewed_in_time(database, monkeypatch):
    """R13: a long main call keeps the lease."""
    with Lease(database, ROWS, RUN) as lease:
        with database.write() as connection:
            connection.execute(text(f"UPDATE run_leases SET held_until = '{LONG_AGO}'"))
        monkeypatch.setattr("time.monotonic", lambda: 1e9)
        lease.renew()
        with database.read() as connection:
            assert ROWS.find_one(connection, run_id=RUN).held_until > LONG_AGO


def test_a_thread_renews_it_while_its_holder_is_busy(database, monkeypatch):
    """R13: a slow model does not cost the process its lease."""
    monkeypatch.setattr("tract_jupyter.loop.open_turns._BETWEEN", 0.01)
    with Lease(database, ROWS, RUN):
        hold(database, this_process(), LONG_AGO)
        for _ in range(1_000):
            with database.read() as connection:
                until = ROWS.find_one(connection, run_id=RUN).held_until
            if until != LONG_AGO:
                break
            Event().wait(0.01)
        assert until != LONG_AGO


def test_an_interrupt_gives_it_back(database, monkeypatch):
    """R13: or prevents taking it; no process waits for one that does not work on the run."""
    write = Database.write

    @contextmanager
    def interrupting(database):
        with write(database) as connection:
            yield connection
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(Database, "write", interrupting)
    with pytest.raises(KeyboardInterrupt), Lease(database, ROWS, RUN):
        pass
    assert not is_held(database, ROWS, RUN)
