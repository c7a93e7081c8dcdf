"""Attempts: which errors are retried, when, and the limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runs.virtual import Script, VirtualWorkers, operation, run_scripts, statuses
from tract_jupyter.concurrency import StopSignal
from tract_jupyter.runs import (
    Hook,
    Limits,
    OperationFinished,
    OperationResult,
    ResultError,
    Retry,
    RunTrigger,
    make_plan,
    retry_delay,
)


def failing(code="provider_error", times=9, ms=10, **more):
    return Script(ms, ["error"] * times + ["done"], code=code, **more)


def tried(script, *, workers=None, limits=None, abort=None, notify=None, **retry):
    workers = workers or VirtualWorkers()
    executed = run_scripts([operation("a", retry=retry)], {"a": script}, workers=workers, limits=limits,
                           abort=abort, notify=notify)  # fmt: skip
    return executed.results["a"], executed.runs[0], workers.ms


@pytest.mark.parametrize("code", ["timeout", "provider_error", "rate_limited"])
def test_temporary_errors_are_retried(code):
    """E25, R53: for every kind of operation; the last error is the result."""
    result, run, ms = tried(failing(code, times=2), maxAttempts=3)
    assert (result.status, run.attempts, ms, run.duration_ms) == ("done", 3, 30, 30)
    result, run, _ = tried(failing(code), maxAttempts=3)
    assert (result.error.code, run.attempts) == (code, 3)


@pytest.mark.parametrize("code", ["output_parse_error", "validation_error", "operation_error"])
def test_permanent_errors_are_not_retried_unless_named(code):
    """E25: if errors are named, only these are retried."""
    assert tried(failing(code), maxAttempts=3)[1].attempts == 1
    assert tried(failing(code, times=1), maxAttempts=3, retryOn=[code])[0].is_done
    assert tried(failing("timeout"), maxAttempts=3, retryOn=[code])[1].attempts == 1


def test_there_is_one_attempt_by_default_and_for_skips_and_aborts():
    """E25: skips and aborts are not errors."""
    assert tried(failing())[1].attempts == 1
    assert tried(Script(1, "skip"), maxAttempts=3)[1].attempts == 1
    assert tried(Script(1, "abort_error"), maxAttempts=3)[1].attempts == 1


def test_a_timeout_is_of_each_attempt():
    """E14, E25: the second attempt has the full time."""
    script = Script([100, 8], "done")
    executed = run_scripts([operation("a", timeoutMs=10, retry={"maxAttempts": 2})], {"a": script})
    assert statuses(executed) == {"a": "done"}
    assert executed.runs[0].duration_ms == 18


def test_the_wait_grows():
    """E25: by the multiplier, up to two minutes."""
    _, _, ms = tried(failing(), maxAttempts=4, backoffMs=100, multiplier=3)
    assert ms == 4 * 10 + 100 + 300 + 900
    _, _, ms = tried(failing(ms=0), maxAttempts=3, backoffMs=100_000, multiplier=10)
    assert ms == 100_000 + 120_000


def test_a_provider_that_asks_for_more_time_gets_it():
    """E25: unless it is longer than an hour, or not a number."""

    def after(ms):
        return tried(failing(times=1, ms=0, details={"retryAfterMs": ms}), maxAttempts=2, backoffMs=50)  # fmt: skip

    assert [(result.status.value, ms) for result, _, ms in map(after, (700, 20, "700", True, -5, 3_600_001, 1e300))] == [
        ("done", 700), ("done", 50), ("done", 50), ("done", 50), ("done", 50), ("error", 0), ("error", 0)
    ]  # fmt: skip


def test_the_wait_holds_no_slot():
    """G10: other operations run in the meantime; afterwards its order counts again."""
    plan = make_plan([operation("a", 1, retry={"maxAttempts": 2, "backoffMs": 5}), operation("b", 2), operation("c", 3)],
                     Hook.BEFORE, RunTrigger.GENERATE, concurrency=1)  # fmt: skip
    events = []
    executed = run_scripts(
        (), {"a": failing(times=1), "b": Script(10), "c": Script(10)}, plan=plan, notify=events.append
    )
    assert statuses(executed) == {"a": "done", "b": "done", "c": "done"}
    assert executed.start_order == ("a", "b", "c")
    assert [(run.started_at, run.finished_at) for run in executed.runs] == [
        (0, 0.03),
        (0.01, 0.02),
        (0.03, 0.04),
    ]
    ends = [event.operation_id for event in events if isinstance(event, OperationFinished)]
    assert ends == ["b", "a", "c"]


def test_an_observer_sees_each_attempt():
    """R56: with its error, and the delay before the next attempt."""
    events = []
    tried(failing(times=1), maxAttempts=2, backoffMs=5, notify=events.append)
    started, attempt, finished = events
    assert (started.type, started.started_at) == ("operation.started", 0)
    assert (attempt.type, attempt.attempt, attempt.delay_ms) == ("operation.attempt", 1, 5)
    assert (finished.type, finished.attempts, finished.finished_at) == ("operation.finished", 2, 0.025)
    assert attempt.error.code == "provider_error"


def test_a_retry_that_would_start_after_the_deadline_is_not_made():
    """E14: the error is reported immediately."""
    for options in ({"limits": Limits(timeout_ms=100)}, {"abort": StopSignal(deadline=0.1)}):
        result, _, ms = tried(failing(), maxAttempts=2, backoffMs=95, **options)
        assert (result.error.code, ms) == ("provider_error", 10)


RESULT = OperationResult(operation_id="a", status="error", error=ResultError(code="timeout"))


@given(st.integers(), st.floats(0, 1), st.integers(1, 9), st.floats(0, 120_000), st.floats(1, 10))
def test_the_jitter_is_bounded_and_the_same_each_time(seed, jitter, attempt, backoff, multiplier):
    """R58: drawn from the run's seed and the operation's id."""
    retry = Retry(max_attempts=10, backoff_ms=backoff, multiplier=multiplier, jitter=jitter)
    delay = retry_delay(retry, attempt, RESULT, seed)
    wait = min(backoff * multiplier ** (attempt - 1), 120_000) / 1_000
    assert wait * (1 - jitter) * 0.999 <= delay <= wait * (1 + jitter) * 1.001
    assert retry_delay(retry, attempt, RESULT, seed) == delay


def test_each_operation_and_attempt_draws_its_own():
    """R58: so that operations that failed together do not retry together."""
    retry = Retry(max_attempts=10, backoff_ms=1_000, jitter=1)
    other = RESULT.model_copy(update={"operation_id": "b"})
    draws = {
        retry_delay(retry, attempt, result, seed)
        for attempt in (1, 2)
        for result in (RESULT, other)
        for seed in (1, 2)
    }
    assert len(draws) == 8
