"""The stop signal, and waiting for a worker thread. More tests: tests/runs/test_stopping.py."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tract_jupyter.concurrency import StopSignal, Worker, current_stop, run_until_stopped, stopped_by


def test_the_first_reason_counts():
    signal, seen = StopSignal(), []
    signal.on_set(lambda: seen.append(signal.reason))
    signal.set("first")
    signal.set("second")
    assert (signal.reason, seen) == ("first", ["first"])


@pytest.mark.parametrize(("stops", "seconds", "reason"), [(True, 60, "stopped"), (False, 0, "too late")])
def test_a_signal_follows_another_one_and_the_time(stops, seconds, reason):
    other = StopSignal()
    with StopSignal().following(other, seconds, "too late") as signal:
        if stops:
            other.set("stopped")
        assert signal.wait(60)
    assert (signal.reason, other.is_set()) == (reason, stops)


def test_a_signal_follows_nothing_after_its_block():
    other = StopSignal()
    with StopSignal().following(other, 60, "too late") as signal:
        pass
    other.set()
    assert not signal.is_set()


def test_the_innermost_signal_is_the_current_one_in_threads_and_tasks():
    outer, inner = StopSignal(), StopSignal()

    async def seen():
        return current_stop()

    with stopped_by(outer):
        with stopped_by(inner):
            assert asyncio.run(seen()) is inner
            assert asyncio.run(Worker(current_stop, "test").wait()) is inner
        assert current_stop() is outer
    assert current_stop() not in (outer, inner)


@pytest.mark.parametrize("result", ["it", None])
def test_a_task_waits_for_the_work_of_a_thread(result):
    beats, begin = [], threading.Event()

    def work():
        begin.wait(60)
        return result

    def beat():
        beats.append(1)
        begin.set()

    assert asyncio.run(Worker(work, "test").wait(beat)) is result
    assert beats


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
def test_an_error_of_the_worker_is_raised_in_the_waiting_code(error):
    def work():
        raise error

    with pytest.raises(type(error)):
        asyncio.run(Worker(work, "test").wait())


def in_a_thread(work, stop):
    with ThreadPoolExecutor() as threads:
        return threads.submit(run_until_stopped, work, stop).result(60)


@pytest.mark.parametrize("is_set", [False, True])
def test_work_that_ends_has_its_result_also_after_stop(is_set):
    stop = StopSignal()
    if is_set:
        stop.set()
    assert in_a_thread(lambda: "done", stop) == "done"
    assert run_until_stopped(threading.current_thread, stop) is threading.main_thread()


def test_work_that_does_not_end_after_stop_is_left(monkeypatch):
    monkeypatch.setattr("tract_jupyter.concurrency._LEFT_AFTER", 0)
    stop, release = StopSignal(), threading.Event()

    def work():
        stop.set()
        release.wait(60)

    assert in_a_thread(work, stop) is None
    release.set()


def test_an_error_of_work_that_can_be_left_is_raised():
    with pytest.raises(ZeroDivisionError):
        in_a_thread(lambda: 1 / 0, StopSignal())
