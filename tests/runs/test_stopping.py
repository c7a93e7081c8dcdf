"""Aborts, timeouts, deadlines and the grace period, in virtual time."""

from __future__ import annotations

import threading

import pytest

from tests.runs.virtual import Script, VirtualWorkers, operation, run_scripts, script_job, statuses, watch
from tract_jupyter.concurrency import Stopped, StopSignal, current_stop
from tract_jupyter.runs import Hook, Limits, RunTrigger, Skip, execute, make_plan


def aborted_at(ms, operations, scripts, **options):
    """The result, and the time of its end."""
    workers, abort = VirtualWorkers(), StopSignal(options.pop("deadline", None))
    workers.at(ms, abort.set)
    executed = run_scripts(operations, scripts, workers=workers, abort=abort, **options)
    return executed, workers.ms


def reasons(executed):
    return {key: one.skip.reason for key, one in executed.results.items() if one.skip}


@pytest.mark.parametrize(
    ("on_abort", "status", "ends"),
    [("cooperate", "aborted", 10), ("throw", "aborted", 10), ("ignore", "done", 50)],
)
def test_each_reaction_of_an_operation_to_an_abort_has_its_status(on_abort, status, ends):
    """G25, G26, G27: it stops, raises or continues; no operation starts afterwards."""
    operations = [
        operation("a"),
        operation("b", dependsOn=["a"]),
        operation("must", dependsOn=["a"], required=True),
    ]
    executed, ms = aborted_at(10, operations, {"a": Script(50, on_abort=on_abort)})
    assert statuses(executed) == {"a": status, "b": "skipped", "must": "skipped"}
    assert set(reasons(executed).values()) == {"run_aborted"}
    assert ms == ends
    assert {run.operation_id: run.finished_at for run in executed.runs} == {
        "a": ends / 1_000,
        "b": 0.01,
        "must": 0.01,
    }


def test_an_error_after_the_abort_is_an_abort():
    """G25: an earlier error remains an error."""
    scripts = {"before": Script(5, "error"), "after": Script(20, "raise", on_abort="ignore")}
    executed, _ = aborted_at(10, [operation("before"), operation("after")], scripts)
    assert statuses(executed) == {"after": "aborted", "before": "error"}


def test_an_operation_blocked_before_the_abort_keeps_its_reason():
    """G27, G12: a decided result does not change."""
    operations = [
        operation("bad"),
        operation("b", dependsOn=["bad"]),
        operation("slow"),
        operation("c", dependsOn=["slow"]),
    ]
    executed, _ = aborted_at(10, operations, {"bad": Script(5, "error"), "slow": Script(20)})
    assert reasons(executed) == {"b": "dependency_failed", "c": "run_aborted"}


def test_a_run_that_is_aborted_before_it_starts():
    """G27: no operation starts; skips from the plan keep their reason, a missing dependency is no
    longer a reason."""
    abort = StopSignal()
    abort.set()
    operations = [
        operation("off", enabled=False),
        operation("m", dependsOn=["ghost"]),
        operation("a", required=True),
    ]
    executed = run_scripts(operations, abort=abort)
    assert executed.start_order == ()
    assert reasons(executed) == {"off": "disabled", "m": "run_aborted", "a": "run_aborted"}
    assert statuses(executed)["a"] == "skipped"


def test_an_operation_can_end_as_aborted_without_an_abort_of_the_run():
    """R35: its dependents are skipped."""
    executed = run_scripts([operation("a"), operation("b", dependsOn=["a"])], {"a": Script(1, "abort_error")})
    assert statuses(executed) == {"a": "aborted", "b": "skipped"}
    assert reasons(executed) == {"b": "dependency_failed"}


def test_an_abort_while_an_operation_is_begun():
    """G27: it never started."""
    abort = StopSignal()

    def begin(one, results):
        abort.set()
        return script_job(Script(), one.id)

    plan = make_plan([operation("a"), operation("b")], Hook.BEFORE, RunTrigger.GENERATE)
    executed = watch(execute, plan, begin, VirtualWorkers(), abort=abort)
    assert (executed.start_order, reasons(executed)) == ((), {"a": "run_aborted", "b": "run_aborted"})


def test_an_observer_may_abort():
    """G27: in reaction to an event."""
    abort = StopSignal()
    executed = run_scripts(
        [operation("a"), operation("b")], {"a": Script(9)}, abort=abort, notify=lambda _: abort.set()
    )
    assert statuses(executed) == {"a": "aborted", "b": "skipped"}


def test_an_abort_ends_operations_that_wait_for_the_user():
    """E14: and operations that wait for a retry."""
    retry = {"maxAttempts": 2, "backoffMs": 100, "retryOn": ["x"]}
    operations = [
        operation("ask"),
        operation("again", retry=retry),
        operation("slow"),
        operation("then", dependsOn=["ask"]),
    ]
    scripts = {"ask": Script(1, "waiting"), "again": Script(1, "error", code="x"), "slow": Script(50)}
    executed, ms = aborted_at(10, operations, scripts)
    assert statuses(executed) == {"again": "aborted", "ask": "aborted", "slow": "aborted", "then": "skipped"}
    assert (executed.waiting, ms) == ((), 10)


def test_an_operation_that_ignores_the_abort_is_abandoned_after_the_grace_period():
    """E14: its result no longer counts."""
    operations = [operation("a"), operation("b", dependsOn=["a"])]
    executed, ms = aborted_at(
        10, operations, {"a": Script(10_000, on_abort="ignore")}, limits=Limits(grace_ms=200)
    )
    assert statuses(executed) == {"a": "aborted", "b": "skipped"}
    assert ms == pytest.approx(210)
    executed, ms = aborted_at(
        10, operations, {"a": Script(90_000, on_abort="ignore")}, limits=Limits(grace_ms=None)
    )
    assert (statuses(executed)["a"], ms) == ("done", 90_000)
    executed, ms = aborted_at(10, operations, {"a": Script(90_000, on_abort="ignore")})
    assert (statuses(executed)["a"], ms) == ("aborted", 30_010)


@pytest.mark.parametrize("on_abort", ["cooperate", "throw", "ignore"])
def test_a_timeout_is_an_error(on_abort):
    """E14: independent of its later result; other operations continue."""
    operations = [
        operation("a", timeoutMs=10),
        operation("b", dependsOn=["a"]),
        operation("c", dependsOn=["z"]),
        operation("z"),
    ]
    executed = run_scripts(operations, {"a": Script(50, on_abort=on_abort), "z": Script(30)})
    assert statuses(executed) == {"a": "error", "b": "skipped", "c": "done", "z": "done"}
    assert executed.results["a"].error.code == "timeout"
    assert "10 ms" in executed.results["a"].error.message


def test_an_operation_that_ends_exactly_at_its_timeout_is_done():
    """E14: at the last moment."""
    executed = run_scripts([operation("a", timeoutMs=10)], {"a": Script(10)})
    assert statuses(executed) == {"a": "done"}


def test_a_timeout_before_an_abort_remains_a_timeout():
    """E14: and an abort before a timeout remains an abort."""
    operations = [operation("late", timeoutMs=5), operation("told", timeoutMs=20)]
    scripts = {"late": Script(50, on_abort="ignore"), "told": Script(50, "error", on_abort="ignore")}
    executed, _ = aborted_at(10, operations, scripts)
    assert statuses(executed) == {"late": "error", "told": "aborted"}


def test_an_operation_that_ignores_its_timeout_is_abandoned_after_the_grace_period():
    """E14: and it is not retried in the meantime."""
    retry = {"maxAttempts": 3}
    script = Script(10_000, on_abort="ignore")
    workers = VirtualWorkers()
    executed = run_scripts([operation("a", timeoutMs=10, retry=retry), operation("b")], {"a": script},
                           workers=workers, limits=Limits(grace_ms=100))  # fmt: skip
    assert executed.results["a"].error.code == "timeout"
    assert (workers.ms, script.calls) == (pytest.approx(110), 1)


@pytest.mark.parametrize("by", ["run", "hook"])
def test_a_deadline_is_for_all(by):
    """E14, G27: running operations time out, unstarted operations never start."""
    operations = [operation("a", timeoutMs=500), operation("b", dependsOn=["a"]), operation("quick")]
    scripts = {"a": Script(100)}
    if by == "run":
        options = {"abort": StopSignal(deadline=0.04)}
    else:
        options = {"limits": Limits(timeout_ms=40), "abort": StopSignal(deadline=9)}
    executed = run_scripts(operations, scripts, workers=(workers := VirtualWorkers()), **options)
    assert statuses(executed) == {"a": "error", "b": "skipped", "quick": "done"}
    assert (executed.results["a"].error.code, reasons(executed), workers.ms) == (
        "timeout",
        {"b": "run_aborted"},
        40,
    )


def test_a_deadline_ends_operations_that_wait_for_a_retry_or_the_user():
    """E14: their error is a timeout."""
    plan = make_plan([operation("a", 1, retry={"maxAttempts": 2}), operation("b", 2, required=True), operation("c", 3)],
                     Hook.BEFORE, RunTrigger.GENERATE, concurrency=1)  # fmt: skip
    scripts = {"a": Script(10, "error", code="timeout"), "b": Script(0, "waiting"), "c": Script(100)}
    retry = {"maxAttempts": 2, "backoffMs": 1, "retryOn": ["timeout"]}
    again = make_plan([operation("a", 1, retry=retry), operation("b", 2, required=True), operation("c", 3)],
                      Hook.BEFORE, RunTrigger.GENERATE, concurrency=1)  # fmt: skip
    executed = run_scripts((), scripts, plan=again, limits=Limits(timeout_ms=50))
    assert {key: result.error.code for key, result in executed.results.items()} == dict.fromkeys(
        "abc", "timeout"
    )
    assert executed.results["b"].required
    executed = run_scripts((), scripts, plan=plan, limits=Limits(timeout_ms=500))
    assert statuses(executed) == {"a": "error", "b": "waiting", "c": "done"}


def test_all_optional_operations_and_an_abort():
    """G28: the results show that nothing may follow: some are aborted, none started later."""
    executed, _ = aborted_at(
        10, [operation("a"), operation("b"), operation("c", dependsOn=["a"])], {"a": Script(50)}
    )
    assert statuses(executed) == {"a": "aborted", "b": "done", "c": "skipped"}


def test_a_deadline_that_is_over():
    """E14: no operation starts."""
    executed = run_scripts([operation("a")], workers=VirtualWorkers(5_000), abort=StopSignal(deadline=4))
    assert reasons(executed) == {"a": "run_aborted"}


def test_an_operation_knows_its_deadline():
    """R32: the earliest of the operation's, the hook's and the run's; in its context, also for
    another process."""
    seen = {}

    class Looking(Script):
        def __call__(self, context):
            seen[context.operation_id] = context.deadline
            return super().__call__(context)

    operations = [operation("own", timeoutMs=10), operation("run"), operation("long", timeoutMs=9_000)]
    run_scripts(
        operations,
        {one.id: Looking() for one in operations},
        workers=VirtualWorkers(1_000),
        abort=StopSignal(3),
    )
    assert seen == {"own": 1.01, "run": 3, "long": 3}
    run_scripts(operations[1:2], {"run": Looking()})
    assert seen["run"] is None


def test_the_signal_itself():
    """R32: callbacks run once, from any thread."""
    abort, heard = StopSignal(), []
    forget = abort.on_set(lambda: heard.append("forgotten"))
    abort.on_set(lambda: heard.append("told"))
    forget()
    abort.check()
    assert not abort.wait(0)
    threading.Thread(target=abort.set).start()
    assert abort.wait()
    abort.set()
    abort.on_set(lambda: heard.append("at once"))()
    assert heard == ["told", "at once"]
    with pytest.raises(Stopped):
        abort.check()


def test_all_callbacks_of_a_stop_signal_run_even_if_one_raises(caplog):
    """R32: the exception is logged."""
    abort, heard = StopSignal(), []
    abort.on_set(lambda: heard[0])
    abort.on_set(lambda: heard.append("told"))
    abort.set()
    assert heard == ["told"]
    assert "IndexError" in caplog.text


def test_outside_an_operation_the_stop_signal_is_never_set():
    """R32: a signal that nobody sets."""
    assert not current_stop().is_set()


def test_another_exception_in_the_scheduler_stops_running_operations():
    """R53: a keyboard interrupt is not an error of an operation."""
    signals = []

    class Interrupted(VirtualWorkers):
        def submit(self, key, job, abort):
            signals.append(abort)

        def wait(self, timeout):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_scripts([operation("a")], workers=Interrupted())
    assert signals[0].is_set()


def test_skips_of_its_own_have_their_reason():
    """R39: the list of reasons is open."""
    executed = run_scripts([operation("a")], {"a": Script(result="skip", reason="nothing_new")})
    assert executed.results["a"].skip == Skip(reason="nothing_new")
    assert executed.runs[0].skipped_reason == "nothing_new"
