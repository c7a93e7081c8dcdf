"""The plan of a hook: planned, skipped and refused operations."""

from __future__ import annotations

import math

import pytest

from tests.runs.virtual import operation
from tract_jupyter.exceptions import PlanError
from tract_jupyter.runs import ExecutionMode, Hook, RunTrigger, Skip, SkippedReason, make_plan


def plan_of(*operations, hook=Hook.BEFORE, trigger=RunTrigger.GENERATE, **options):
    return make_plan(operations, hook, trigger, **options)


def reasons(plan):
    return {key: skip.reason for key, skip in plan.skips.items()}


def with_order(key, order):
    """An operation that was created without validation."""
    made = operation(key)
    return made.model_copy(update={"config": made.config.model_copy(update={"order": order})})


def refused(*operations, **options):
    with pytest.raises(PlanError) as caught:
        plan_of(*operations, **options)
    return caught.value


def runnable(plan):
    return tuple(key for key in plan.by_id if key not in plan.skips)


def test_operations_stand_in_their_order_and_by_code_point():
    """R24, G8: the smaller order first; then the id, by code point."""
    ids = [("op2", 1), ("op10", 1), ("a", 1), ("B", 1), ("late", 2), ("early", -0.5), ("ä", 1), ("z", 1)]
    plan = plan_of(*(operation(key, order) for key, order in ids))
    assert [one.id for one in plan.by_id.values()] == ["early", "B", "a", "op10", "op2", "z", "ä", "late"]


def test_an_operation_of_another_hook_is_not_in_the_plan():
    """R22, R8: an operation of both hooks is in both plans."""
    operations = [operation("b", hooks=["before_main_llm"]), operation("a", hooks=["after_main_llm"]),
                  operation("ab", hooks=["before_main_llm", "after_main_llm"]), operation("none", hooks=[])]  # fmt: skip
    assert runnable(plan_of(*operations)) == ("ab", "b")
    assert runnable(plan_of(*operations, hook=Hook.AFTER)) == ("a", "ab")


def test_a_skipped_operation_is_in_the_plan_with_its_first_reason():
    """R38, R39, G2: the first of several reasons is used."""
    counters = Skip(reason="activation_not_reached", activation={"turnsCounter": 1})
    operations = [
        operation("off", enabled=False, triggers=["regenerate"], kind="odd"),
        operation("other", triggers=["regenerate"], kind="odd"),
        operation("out", kind="odd"),
        operation("excluded"),
        operation("odd", kind="odd"),
        operation("later"),
        operation("runs"),
    ]
    plan = plan_of(
        *operations,
        kinds={"script"},
        include={"off", "other", "excluded", "odd", "later", "runs"},
        exclude=["excluded"],
        activation_skips={"later": counters, "off": counters},
    )
    assert reasons(plan) == {"off": "disabled", "other": "trigger_mismatch", "out": "filtered_out",
                             "excluded": "filtered_out", "odd": "unsupported_kind",
                             "later": "activation_not_reached"}  # fmt: skip
    assert plan.skips["later"] == counters
    assert runnable(plan) == ("runs",)


def test_no_trigger_named_means_both():
    """R23: an operation without triggers runs for both."""
    for trigger in RunTrigger:
        assert not plan_of(operation("a"), trigger=trigger).skips


def test_an_empty_include_list_leaves_out_all_operations():
    plan = plan_of(operation("a"), include=[])
    assert reasons(plan) == {"a": SkippedReason.FILTERED_OUT}
    assert not plan_of().by_id


@pytest.mark.parametrize(
    ("depends_on", "stuck"),
    [
        ({"a": ["a"]}, ["a"]),
        ({"a": ["b"], "b": ["a"]}, ["a", "b"]),
        ({"a": ["b"], "b": ["c"], "c": ["a"], "d": ["c"], "e": []}, ["a", "b", "c", "d"]),
        ({"a": ["b", "ghost"], "b": ["a"]}, ["a", "b"]),
    ],
)
def test_a_cycle_is_refused(depends_on, stuck):
    """G6, X02: with all operations that could never start, and a stable code."""
    error = refused(*(operation(key, dependsOn=ids) for key, ids in depends_on.items()))
    assert error.code == "CYCLE_DETECTED"
    assert error.operations == tuple(stuck)
    assert "'a'" in str(error)
    assert "cycle" in str(error)


@pytest.mark.parametrize(
    "change",
    [{"enabled": False}, {"triggers": ["regenerate"]}, {"kind": "odd"}, {"hooks": ["after_main_llm"]}],
)
def test_a_cycle_with_a_disabled_part_is_harmless(change):
    """G7: when it is planned."""
    operations = [operation("a", dependsOn=["b"]), operation("b", dependsOn=["a"], **change)]
    assert runnable(plan_of(*operations, kinds={"script"})) == ("a",)


def test_an_id_twice_is_refused_wherever_it_is():
    """G6, E19: also if it is disabled, or of another hook."""
    for change in ({}, {"enabled": False}, {"hooks": ["after_main_llm"]}):
        error = refused(operation("a"), operation("b"), operation("a", **change))
        assert (error.code, error.operations) == ("DUPLICATE_TASK_ID", ("a",))


@pytest.mark.parametrize("order", [None, math.nan, math.inf, -math.inf, "1", True])
def test_an_order_that_is_not_a_finite_number_is_refused(order):
    """R24, G6: even if the operation was not validated."""
    assert refused(operation("b"), with_order("a", order)).code == "INVALID_TASK_ORDER"


@pytest.mark.parametrize("concurrency", [0, -1, math.nan, math.inf, True, "2"])
def test_a_concurrency_that_is_not_a_positive_number_is_refused(concurrency):
    """G11: above zero and finite."""
    assert refused(operation("a"), concurrency=concurrency).code == "INVALID_CONCURRENCY"


def test_how_many_run_at_once():
    """G11, E10: without a limit by default; one in sequential mode."""
    assert plan_of(operation("a")).concurrency is None
    assert plan_of(operation("a"), concurrency=3).concurrency == 3
    assert plan_of(operation("a"), mode=ExecutionMode.SEQUENTIAL, concurrency=0).concurrency == 1


def test_a_message_names_a_few_of_many():
    error = refused(*(operation(f"o{n:02}", dependsOn=[f"o{n:02}"]) for n in range(14)))
    assert "'o09' and 4 more" in str(error)
    assert len(error.operations) == 14
