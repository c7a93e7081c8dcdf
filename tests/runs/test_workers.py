"""Operations on threads, and on an asyncio loop, in real time."""

from __future__ import annotations

import signal
import threading

import pytest

from tests.runs import jobs
from tests.runs.jobs import run_functions
from tests.runs.virtual import operation, statuses
from tract_jupyter.concurrency import StopSignal
from tract_jupyter.runs import (
    ExecutionMode,
    Limits,
    OperationProgress,
    OperationStarted,
    ThreadWorkers,
    report_progress,
)
from tract_jupyter.storage import interrupts, protected_context, uninterrupted


@pytest.fixture
def threads():
    with ThreadWorkers() as workers:
        yield workers


def error_of(executed, key="a"):
    error = executed.results[key].error
    return error.code, error.message


def test_independent_operations_run_at_once(threads):
    """R10, G10, G11: with enough threads; each operation waits for all the others."""
    barrier = threading.Barrier(40)

    def meet(context):
        barrier.wait(30)
        return jobs.done(context)

    operations = [operation(f"o{n}") for n in range(40)]
    executed = run_functions({one.id: meet for one in operations}, threads, operations)
    assert set(statuses(executed).values()) == {"done"}
    assert {run.attempts for run in executed.runs} == {1}


def test_threads_are_used_again(threads):
    """E10: sequential mode needs one thread."""
    operations = [operation(f"o{n}") for n in range(20)]
    executed = run_functions(dict.fromkeys((one.id for one in operations), jobs.fine), threads, operations,
                             mode=ExecutionMode.SEQUENTIAL)  # fmt: skip
    assert len({result.debug["thread"] for result in executed.results.values()}) == 1
    again = run_functions({"a": jobs.fine}, threads, [operation("a")])
    assert again.results["a"].debug["thread"] == executed.results["o0"].debug["thread"]


@pytest.mark.parametrize(
    ("function", "message"),
    [(jobs.raising, "ValueError: no such luck"), (jobs.leaving, "SystemExit: 3"), (jobs.nothing, "NoneType")],
)
def test_whatever_an_operation_does_is_its_own_error(threads, function, message):
    """R53, R54: and the thread continues."""
    executed = run_functions({"a": function, "b": jobs.fine}, threads, [operation("a"), operation("b")])
    code, text = error_of(executed)
    assert code == "operation_error"
    assert message in text
    assert statuses(executed)["b"] == "done"


@pytest.mark.parametrize("more", [0, 1])
def test_a_system_without_threads(threads, monkeypatch, more):
    """R53: without a free thread an operation runs later; without any thread it is an error."""
    start, left = threading.Thread.start, [None] * more

    def start_few(thread):
        if not left:
            raise RuntimeError("can't start new thread")
        left.pop()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_few)
    operations = [operation(key) for key in "abc"]
    executed = run_functions(dict.fromkeys("abc", jobs.fine), threads, operations)
    assert set(statuses(executed).values()) == {"done" if more else "error"}


def test_an_error_is_bounded(threads):
    """R54: in length."""

    def long(context):
        raise ValueError("x" * 10_000)

    assert len(error_of(run_functions({"a": long}, threads, [operation("a")]))[1]) == 2_000


def test_an_operation_gets_the_abort_signal(threads):
    """R32, E14: from another thread, immediately."""
    abort = StopSignal()

    def notify(event):
        if isinstance(event, OperationStarted):
            threading.Thread(target=abort.set).start()

    executed = run_functions({"a": jobs.until_told, "b": jobs.fine}, threads,
                             [operation("a"), operation("b", dependsOn=["a"])], abort=abort, notify=notify)  # fmt: skip
    assert statuses(executed) == {"a": "aborted", "b": "skipped"}


def test_an_operation_gets_the_stop_signal_at_its_timeout(threads):
    """E14: the result is an error."""
    executed = run_functions({"a": jobs.until_told}, threads, [operation("a", timeoutMs=20)])
    assert error_of(executed)[0] == "timeout"


def test_an_operation_that_ignores_the_signal_is_abandoned(threads):
    """E14: its late result is dropped, even if the same operation runs again."""
    hold, ended = threading.Event(), threading.Event()

    def deaf(context):
        hold.wait(30)
        ended.set()
        return jobs.done(context, late=True)

    limits = Limits(grace_ms=10)
    operations = [operation("a", timeoutMs=10), operation("b")]
    executed = run_functions({"a": deaf, "b": jobs.fine}, threads, operations, limits=limits)
    assert statuses(executed) == {"a": "error", "b": "done"}
    hold.set()
    assert ended.wait(30)
    executed = run_functions({"a": jobs.fine, "b": jobs.fine}, threads, [operation("a"), operation("b")])
    assert [result.debug.get("late") for result in executed.results.values()] == [None, None]


def test_progress_is_reported_during_an_operation(threads):
    """E15: it is limited, and ignored outside an operation."""
    heard, events = threading.Event(), []

    def reporting(context):
        report_progress(50, tokens=3, text="x" * 5_000)
        assert heard.wait(30)
        return jobs.done(context)

    def notify(event):
        events.append(event)
        if isinstance(event, OperationProgress):
            heard.set()

    run_functions({"a": reporting}, threads, [operation("a")], notify=notify)
    assert [event.type for event in events] == [
        "operation.started", "operation.progress", "operation.finished"
    ]  # fmt: skip
    assert events[1].data == {"percent": 50, "tokens": 3, "text": "x" * 2_000}
    report_progress(1)


def test_an_interrupt_at_the_end_of_a_protected_block_is_raised_in_the_next_wait(threads, monkeypatch):
    """It is delayed to the end of the enclosing block, such as the whole run."""

    class StruckAtTheEnd(dict):
        def __contains__(self, thread):
            signal.raise_signal(signal.SIGINT)
            return False

    @protected_context
    def run():
        yield

    def strike():
        with monkeypatch.context() as patch, uninterrupted():
            patch.setattr(interrupts, "_DELAYED", StruckAtTheEnd())

    with run():
        strike()
        with pytest.raises(KeyboardInterrupt):
            threads.wait(None)


def test_a_coroutine_needs_no_loop(threads):
    """R1: an operation is a black box."""
    assert run_functions({"a": jobs.awaiting}, threads, [operation("a")]).results["a"].is_done
