"""The hook log is durable, bounded and queryable."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from contextlib import contextmanager, suppress

import pytest

from tract_jupyter import Tract
from tract_jupyter.exceptions import StoreLockedError
from tract_jupyter.review import HookLog
from tract_jupyter.storage import journal


@pytest.fixture
def t(tract, spec):
    """A tract with the operations `outer` and `inner`."""
    for name in ("outer", "inner"):
        tract.register_operation(spec("pending.approve()", name=name, fields={}))
    return tract


def brief(events):
    return [(event.operation, event.handler, event.outcome) for event in events]


def test_another_process_reads_it(tmp_path, spec):
    with Tract.open(tmp_path / "t.db") as t:
        t.register_operation(spec(fields={}))
        t.on("citation_check", lambda p: p.reject(), name="guard")
        t.fire("citation_check")
    code = f"""
        from tract_jupyter import Tract
        with Tract.open({str(tmp_path / "t.db")!r}) as t:
            print(*[(e.operation, e.handler, e.outcome) for e in t.hooks.log()])
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "('citation_check', 'guard', 'rejected')"


def test_the_hook_log_can_be_filtered(t):
    def fail(pending):
        raise ValueError("no such")

    t.on("outer", lambda p: None, name="a")
    t.on("outer", lambda p: p.approve(), name="b")
    t.on("inner", fail, name="c")
    first = t.fire("outer")
    with pytest.raises(ValueError):
        t.fire("inner")
    second = t.fire("outer")
    assert brief(t.hooks.log("inner")) == [("inner", "c", "raised")]
    assert t.hooks.log("inner")[0].error == "ValueError: no such"
    assert brief(t.hooks.log(handler="b")) == [("outer", "b", "approved")] * 2
    assert brief(t.hooks.log("outer", outcome="undecided")) == [("outer", "a", "undecided")] * 2
    for pending in (first, second):
        events = t.hooks.log(pending_id=pending.pending_id)
        assert brief(events) == [("outer", "a", "undecided"), ("outer", "b", "approved")]
    assert brief(t.hooks.log(limit=1)) == [("outer", "b", "approved")]
    assert t.hooks.log("nothing") == []
    times = [event.timestamp for event in t.hooks.log()]
    assert times == sorted(times)


@pytest.fixture
def bound(monkeypatch):
    monkeypatch.setattr(journal.HookLogRows, "most", 20)
    monkeypatch.setattr(journal, "_SLACK", 5)


def test_the_oldest_go(t, bound):
    t.on("outer", lambda p: p.approve())
    fired = [t.fire("outer").pending_id for _ in range(60)]
    kept = [event.pending_id for event in t.hooks.log()]
    assert 20 <= len(kept) < 25
    assert kept == fired[-len(kept) :]


def test_the_hook_log_is_bounded_if_many_processes_write_a_little(tmp_path, spec, bound):
    with Tract.open(tmp_path / "t.db") as t:
        t.register_operation(spec(fields={}))
    for _ in range(15):
        with Tract.open(tmp_path / "t.db") as t:
            t.on("citation_check", lambda p: p.approve())
            for _ in range(4):
                t.fire("citation_check")
    with Tract.open(tmp_path / "t.db") as t:
        assert len(t.hooks.log()) < 25


def test_one_tract_does_not_push_out_the_log_of_another(tmp_path, spec, bound):
    with (
        Tract.open(tmp_path / "t.db", tract_id="one") as one,
        Tract.open(tmp_path / "t.db", tract_id="two") as two,
    ):
        for t in (one, two):
            t.register_operation(spec(fields={}))
            t.on("citation_check", lambda p: p.approve())
        one.fire("citation_check")
        for _ in range(40):
            two.fire("citation_check")
        assert (len(one.hooks.log()), len(two.hooks.log()) < 25) == (1, True)


class Kept(list):
    """A database and its rows. Every third write finds it locked."""

    times = 0

    @contextmanager
    def write(self):
        self.times += 1
        if self.times % 3 == 0:
            raise StoreLockedError("locked")
        yield

    def add(self, _connection, rows):
        self += rows


@pytest.fixture
def impatient():
    """Make threads switch as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_entries_added_by_another_thread_during_a_flush_are_not_lost(impatient):
    kept = Kept()
    log = HookLog(kept, kept)
    adding = threading.Thread(
        target=lambda: [log.add("outer", "", "approved", str(n)) for n in range(30_000)]
    )
    adding.start()
    while adding.is_alive():
        with suppress(StoreLockedError):
            log.flush()
    for _ in range(2):
        with suppress(StoreLockedError):
            log.flush()
    assert [row["pending_id"] for row in kept] == [str(n) for n in range(30_000)]


def test_entries_of_a_failed_write_are_written_the_next_time(t, monkeypatch):
    log = t.hooks.bus.log
    real = log._rows.add

    def fail(connection, rows):
        monkeypatch.setattr(log._rows, "add", real)
        raise StoreLockedError("locked")

    monkeypatch.setattr(log._rows, "add", fail)
    t.on("outer", lambda p: p.approve(), name="a")
    with pytest.raises(StoreLockedError):
        t.fire("outer")
    t.fire("outer")
    assert brief(t.hooks.log()) == [("outer", "a", "approved")] * 2
