"""Scheduling in virtual time: dependencies, blocked operations, records, events, resuming."""

from __future__ import annotations

import pytest

from tests.runs.virtual import Script, VirtualWorkers, operation, run_scripts, script_job, statuses, watch
from tract_jupyter.exceptions import PlanError
from tract_jupyter.runs import (
    ExecutionMode,
    Hook,
    Limits,
    OperationResult,
    OperationWaiting,
    RunTrigger,
    Skip,
    execute,
    make_plan,
)


def skip_of(executed, key):
    return executed.results[key].skip


def result(key, status, **more):
    return OperationResult(operation_id=key, status=status, **more)


def told(events):
    """The stage and the operation of each event. A skipped operation has a `finished` event with a skip."""
    return [
        ("skipped" if getattr(event, "result", None) and event.result.skip else event.type.split(".")[1],
         event.operation_id) for event in events
    ]  # fmt: skip


def test_nothing_to_do():
    executed = run_scripts([])
    assert (executed.results, executed.runs, executed.start_order, executed.waiting) == ({}, (), (), ())


def test_an_operation_starts_when_all_of_its_dependencies_are_done():
    """R10, R25, R26: it gets their results, in the order of its `dependsOn`."""
    given = {}

    def begin(one, results):
        given[one.id] = list(results)
        return script_job(Script(ms=10), one.id)

    operations = [operation("join", 0, dependsOn=["r", "l"]), operation("l", 1), operation("r", 2)]
    workers = VirtualWorkers()
    executed = watch(execute, make_plan(operations, Hook.BEFORE, RunTrigger.GENERATE), begin, workers)
    assert executed.start_order == ("l", "r", "join")
    assert given == {"l": [], "r": [], "join": ["r", "l"]}
    assert workers.ms == 20


def test_order_delays_no_operation_while_slots_are_free():
    """G10, R24: it decides about the next operation if no slot is free."""
    operations = [operation("a", 1), operation("b", 2), operation("c", 3, dependsOn=["b"])]
    scripts = {"a": Script(50), "b": Script(10), "c": Script(10)}
    executed = run_scripts(operations, scripts, workers=(workers := VirtualWorkers()))
    assert (executed.start_order, workers.ms, workers.most) == (("a", "b", "c"), 50, 2)
    plan = make_plan(operations, Hook.BEFORE, RunTrigger.GENERATE, concurrency=1)
    executed = run_scripts((), scripts, plan=plan, workers=(workers := VirtualWorkers()))
    assert (executed.start_order, workers.ms, workers.most) == (("a", "b", "c"), 70, 1)


@pytest.mark.parametrize(("concurrency", "most"), [(0.5, 1), (1, 1), (2, 2), (2.5, 3), (99, 6), (None, 6)])
def test_never_more_run_than_may(concurrency, most):
    """G11: the limit of the run."""
    plan = make_plan(
        [operation(f"o{n}") for n in range(6)], Hook.BEFORE, RunTrigger.GENERATE, concurrency=concurrency
    )
    scripts = {f"o{n}": Script(10) for n in range(6)}
    run_scripts((), scripts, plan=plan, workers=(workers := VirtualWorkers()))
    assert workers.most == most


def test_one_by_one():
    """E10: in (order, id) order, after their dependencies."""
    operations = [operation("a", 3), operation("b", 1, dependsOn=["a"]), operation("c", 2)]
    plan = make_plan(operations, Hook.BEFORE, RunTrigger.GENERATE, mode=ExecutionMode.SEQUENTIAL)
    executed = run_scripts((), plan=plan, workers=(workers := VirtualWorkers()))
    assert (executed.start_order, workers.most) == (("c", "a", "b"), 1)


def test_a_provider_has_a_limit_of_its_own():
    """G10: an operation that waits for a provider does not block the others."""
    operations = [
        *(operation(f"slow{n}", n, provider="busy") for n in range(3)),
        operation("other", 9, provider="idle"),
        operation("none", 10),
    ]
    scripts = {one.id: Script(10) for one in operations}
    executed = run_scripts(operations, scripts, limits=Limits({"busy": 1}))
    assert executed.start_order == ("slow0", "other", "none", "slow1", "slow2")
    starts = {run.operation_id: run.started_at for run in executed.runs}
    assert starts == {"slow0": 0, "other": 0, "none": 0, "slow1": 0.01, "slow2": 0.02}


def test_a_limit_below_one_is_refused():
    with pytest.raises(PlanError, match="'busy'") as caught:
        Limits({"idle": 1, "busy": 0})
    assert caught.value.code == "INVALID_CONCURRENCY"


def test_the_workers_capacity_counts_too():
    """G10: the order decides about the next operation, not the workers."""
    operations = [operation("a", 2), operation("b", 1), operation("c", 3)]
    executed = run_scripts(operations, workers=VirtualWorkers(capacity=1))
    assert executed.start_order == ("b", "a", "c")


def test_a_blocked_operation_is_settled_at_once():
    """G12, R61: without waiting for its other dependencies; so are all operations that depend on it."""
    operations = [
        operation("bad"), operation("slow"), operation("join", dependsOn=["bad", "slow"]),
        operation("after", dependsOn=["join"]), operation("must", dependsOn=["after"], required=True),
    ]  # fmt: skip
    scripts = {"bad": Script(5, "error"), "slow": Script(100)}
    executed = run_scripts(operations, scripts)
    ended = {run.operation_id: run.finished_at for run in executed.runs}
    assert ended == {"bad": 0.005, "join": 0.005, "after": 0.005, "must": 0.005, "slow": 0.1}
    assert skip_of(executed, "join").to_dict() == {
        "reason": "dependency_failed", "dep": "not_done", "blockedBy": ["bad"]
    }  # fmt: skip
    assert skip_of(executed, "after").blocked_by_reason == "dependency_failed"


@pytest.mark.parametrize("milliseconds", [(1, 9), (9, 1)])
def test_blockers_are_named_by_how_they_ended(milliseconds):
    """R61: for any speed. The operation is reported after both have ended, in the order of the decisions."""
    operations = [
        operation("bad"),
        operation("worse"),
        operation("good"),
        operation("join", dependsOn=["worse", "good", "bad"]),
    ]
    scripts = dict(zip(("bad", "worse"), (Script(ms, "error") for ms in milliseconds), strict=True))
    events = []
    executed = run_scripts(operations, {**scripts, "good": Script(20)}, notify=events.append)
    assert skip_of(executed, "join").blocked_by == ("bad", "worse")
    assert told(events)[-2:] == [("finished", "good"), ("skipped", "join")]


def test_a_blocker_that_was_blocked_later_than_its_dependent_is_named_too():
    """R61: independent of the order in which they were decided."""
    operations = [
        operation("bad"),
        operation("worse"),
        operation("slow"),
        operation("join", dependsOn=["worse", "slow"]),
        operation("last", dependsOn=["bad", "join"]),
    ]
    scripts = {"bad": Script(1, "error"), "worse": Script(2, "error"), "slow": Script(9)}
    executed = run_scripts(operations, scripts)
    assert skip_of(executed, "last").blocked_by == ("bad", "join")
    assert skip_of(executed, "join").blocked_by == ("worse",)


def test_an_operation_that_a_waiting_one_may_still_block_has_no_result_yet():
    """R61: its blockers are known after the user's decision."""
    operations = [operation("bad"), operation("asks"), operation("join", dependsOn=["bad", "asks"])]
    executed = run_scripts(operations, {"bad": Script(1, "error"), "asks": Script(2, "waiting")})
    assert executed.waiting == ("asks",)
    assert "join" not in executed.results
    prior = {"bad": executed.results["bad"], "asks": result("asks", "done")}
    again = run_scripts(operations, {}, prior=prior)
    assert skip_of(again, "join").blocked_by == ("bad",)


@pytest.mark.parametrize("how", ["error", "raise", "skip", "abort_error"])
def test_only_done_counts(how):
    """R61, R59: for any other ending of a dependency, the dependent is skipped, or an error if it
    is required."""
    operations = [
        operation("a"),
        operation("may", dependsOn=["a"]),
        operation("must", dependsOn=["a"], required=True),
    ]
    executed = run_scripts(operations, {"a": Script(1, how, message="no")})
    assert executed.start_order == ("a",)
    assert statuses(executed)["may"] == "skipped"
    must = executed.results["must"]
    assert (must.status, must.error.code, must.skip) == ("error", "dependency_failed", None)
    assert must.error.details == skip_of(executed, "may").to_dict()
    assert "not done: a" in must.error.message


def test_missing_dependencies_are_reported_before_failed_ones():
    """G5, G1: unknown, of another hook, or not in the plan; sorted."""
    operations = [
        operation("z", enabled=False), operation("after", hooks=["after_main_llm"]),
        operation("a", dependsOn=["ghost"]), operation("b", dependsOn=["z", "a", "after"]),
        operation("must", dependsOn=["ghost"], required=True), operation("ok"),
    ]  # fmt: skip
    executed = run_scripts(operations)
    assert skip_of(executed, "b").to_dict() == {
        "reason": "dependency_failed", "dep": "missing", "blockedBy": ["after", "z"]
    }  # fmt: skip
    error = executed.results["must"].error
    assert (error.code, error.details["dep"], error.details["blockedBy"]) == (
        "dependency_failed", "missing", ["ghost"]
    )  # fmt: skip
    assert executed.start_order == ("ok",)


def test_a_dependency_that_is_not_due_has_its_own_reason():
    """G5, R38: if it is the only reason; with an unknown dependency, the reason is missing."""
    due = {"a": Skip(reason="activation_not_reached")}
    operations = [operation("a"), operation("b", dependsOn=["a"]), operation("c", dependsOn=["a", "ghost"])]
    plan = make_plan(operations, Hook.BEFORE, RunTrigger.GENERATE, activation_skips=due)
    executed = run_scripts((), plan=plan)
    assert skip_of(executed, "b").to_dict() == {
        "reason": "dependency_failed", "dep": "not_done", "blockedBy": ["a"],
        "blockedByReason": "activation_not_reached",
    }  # fmt: skip
    assert (skip_of(executed, "c").dep, skip_of(executed, "c").blocked_by) == ("missing", ("a", "ghost"))


def test_required_and_order_change_no_schedule():
    """R20, R11: after a failure, the other operations still run."""
    operations = [operation("must", required=True), operation("a"), operation("b", dependsOn=["a"])]
    executed = run_scripts(operations, {"must": Script(1, "error"), "a": Script(10)})
    assert statuses(executed) == {"a": "done", "b": "done", "must": "error"}


def test_a_result_has_the_id_and_required_flag_of_its_operation_and_effects_only_if_done():
    """R35, R37: `required` is copied from the configuration, not from the result of the operation."""
    effect = {"type": "ui.inline", "role": "system", "content": "x"}

    def begin(one, results):
        return OperationResult.from_dict({"operationId": "x", "status": one.id, "effects": [effect]})

    operations = [operation("done", required=True), operation("error"), operation("skipped")]
    executed = watch(
        execute, make_plan(operations, Hook.BEFORE, RunTrigger.GENERATE), begin, VirtualWorkers()
    )
    assert {key: (one.operation_id, one.required, len(one.effects)) for key, one in executed.results.items()} == {
        "done": ("done", True, 1), "error": ("error", False, 0), "skipped": ("skipped", False, 0)
    }  # fmt: skip


def test_a_required_operation_that_does_not_run_says_why():
    """G3, G4: so the barrier can distinguish an operation that was not planned from an unmet condition."""
    operations = [operation("off", required=True, enabled=False), operation("guarded", required=True),
                  operation("other", required=True, triggers=["regenerate"])]  # fmt: skip
    executed = run_scripts(operations, {"guarded": Script(result="skip")})
    assert {key: (one.status, one.required, one.skip.reason) for key, one in executed.results.items()} == {
        "guarded": ("skipped", True, "condition_false"), "off": ("skipped", True, "disabled"),
        "other": ("skipped", True, "trigger_mismatch"),
    }  # fmt: skip


def test_an_operation_that_does_not_begin_has_no_start_time():
    """R36, R40, G29: an unmet condition, an error found before; its slot is free again."""
    found = {"skip": Skip(reason="condition_false"), "wrong": result("wrong", "error")}

    def begin(one, results):
        if one.id == "broken":
            raise LookupError("no such kind")
        return found.get(one.id) or script_job(Script(), one.id)

    operations = [operation(key, required=True) for key in ("broken", "skip", "wrong")] + [operation("z")]
    plan = make_plan(operations, Hook.BEFORE, RunTrigger.GENERATE, concurrency=1)
    executed = watch(execute, plan, begin, VirtualWorkers(7_000))
    assert executed.start_order == ("z",)
    assert statuses(executed) == {"broken": "error", "skip": "skipped", "wrong": "error", "z": "done"}
    assert executed.results["broken"].error.code == "operation_error"
    assert "no such kind" in executed.results["broken"].error.message
    assert [(run.started_at, run.duration_ms, run.attempts) for run in executed.runs[:3]] == [
        (None, 0, 0)
    ] * 3


def test_each_operation_leaves_one_record():
    """R56, G29, G2: even if it never ran."""
    operations = [
        operation("a", 1, required=True, dependsOn=["b"]),
        operation("b", 2),
        operation("off", 3, enabled=False),
    ]
    executed = run_scripts(
        operations, {"b": Script(30, "error", code="x", message="why")}, workers=VirtualWorkers(1_000)
    )
    a, b, off = executed.runs
    assert (b.started_at, b.finished_at, b.duration_ms, b.attempts) == (1, 1.03, 30, 1)
    assert (b.error_code, b.error_message, b.status, b.skip, b.kind) == ("x", "why", "error", None, "script")
    assert (a.started_at, a.finished_at, a.duration_ms, a.error_code) == (None, 1.03, 0, "dependency_failed")
    assert (a.depends_on, a.order, a.required, a.skipped_reason) == (("b",), 1, True, None)
    assert (off.finished_at, off.skipped_reason, off.attempts) == (1, "disabled", 0)
    assert {(run.hook, run.trigger) for run in executed.runs} == {("before_main_llm", "generate")}


def test_results_have_one_order_however_fast_each_was():
    """R58: (order, id)."""
    operations = [operation("c", 1), operation("b", 2), operation("a", 2), operation("off", 0, enabled=False)]
    executed = run_scripts(operations, {"c": Script(30), "a": Script(20), "b": Script(10)})
    assert tuple(executed.results) == ("off", "c", "a", "b")
    assert [run.operation_id for run in executed.runs] == list(executed.results)


def test_an_observer_gets_all_events_in_order_of_time():
    """R56, E15: each ending exactly once."""
    events = []
    operations = [operation("a"), operation("b", dependsOn=["a"]), operation("off", enabled=False)]
    run_scripts(operations, {"a": Script(10, "error")}, notify=events.append)
    assert told(events) == [("skipped", "off"), ("started", "a"), ("finished", "a"), ("skipped", "b")]
    assert [getattr(event, "finished_at", None) for event in events] == [0, None, 0.01, 0.01]
    assert (events[1].started_at, events[2].started_at) == (0, 0)
    assert events[3].result.skip.blocked_by == ("a",)


def test_an_observer_that_fails_breaks_nothing(caplog):
    """R53: the error is logged."""

    def notify(event):
        raise RuntimeError("no screen")

    executed = run_scripts([operation("a"), operation("b", dependsOn=["a"])], notify=notify)
    assert statuses(executed) == {"a": "done", "b": "done"}
    assert "no screen" in caplog.text


def test_an_operation_that_waits_for_the_user_occupies_no_worker():
    """R11: other operations continue; its dependents have no result yet."""
    operations = [
        operation("ask"),
        operation("then", dependsOn=["ask"]),
        operation("z"),
        operation("y", dependsOn=["z"]),
    ]
    plan = make_plan(operations, Hook.BEFORE, RunTrigger.GENERATE, concurrency=1)
    events = []
    executed = run_scripts((), {"ask": Script(5, "waiting")}, plan=plan, notify=events.append)
    assert executed.waiting == ("ask",)
    assert statuses(executed) == {"ask": "waiting", "y": "done", "z": "done"}
    assert executed.results["ask"].waits_for == "pending"
    (waits,) = [event for event in events if isinstance(event, OperationWaiting)]
    assert (waits.operation_id, waits.pending_id, waits.started_at) == ("ask", "pending", 0)
    assert [run.operation_id for run in executed.runs] == ["y", "z"]


def test_a_resumed_run_only_runs_unfinished_operations():
    """R10: existing results remain. They are neither computed nor reported again."""
    operations = [operation(key, dependsOn=before) for key, before in
                  {"a": [], "b": ["a"], "bad": [], "c": ["bad"], "ask": [], "d": ["ask"], "off": []}.items()]  # fmt: skip
    prior = {"a": result("a", "done"), "bad": result("bad", "error"), "ask": result("ask", "waiting"),
             "off": result("off", "done"), "gone": result("gone", "done")}  # fmt: skip
    skips = {"off": Skip(reason="activation_not_reached")}
    plan = make_plan(
        [*operations, operation("e", dependsOn=["off"])],
        Hook.BEFORE,
        RunTrigger.GENERATE,
        activation_skips=skips,
    )
    events = []
    executed = run_scripts((), plan=plan, prior=prior, notify=events.append)
    assert executed.start_order == ("b", "e")
    assert statuses(executed) == {"a": "done", "ask": "waiting", "b": "done", "bad": "error", "c": "skipped",
                                  "e": "done", "off": "done"}  # fmt: skip
    assert {event.operation_id for event in events} == {"b", "c", "e"}
    assert {run.operation_id for run in executed.runs} == {"b", "c", "e"}
    decided = {**executed.results, "ask": result("ask", "done")}
    assert run_scripts((), plan=plan, prior=decided).start_order == ("d",)
