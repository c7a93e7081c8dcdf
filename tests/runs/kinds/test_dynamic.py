"""Kind `dynamic`: an operation of a run that fires a dynamic operation."""

from __future__ import annotations

import pytest

from tests.runs.kinds.operations import context, inbox, made_by, operation, performed, rules
from tract_jupyter import Tract
from tract_jupyter.runs.kinds import (
    DynamicKind,
    OperationFailed,
    OperationOutput,
    RunDecisions,
    Services,
    Skipped,
    Waits,
)

KIND = DynamicKind()
PARAMS = {"operation": "citation_check", "fields": {"urls": ["{{ art.url.value }}"]}}
GIVEN = {"art": {"url": "http://a"}}


def runner_of(tract, params=PARAMS):
    return KIND.prepare(operation("dynamic", params), Services(decisions=RunDecisions(tract)))


def fired(tract, params=PARAMS):
    return runner_of(tract, params)(context(**GIVEN))


def test_approved_the_value_is_its_fields(tract, spec):
    tract.register_operation(spec())
    made = fired(tract)
    assert made.value == {"urls": ["http://a"], "verified": False}


def test_the_return_value_of_an_action_is_the_result(tract, spec):
    tract.register_operation(spec("pending.approve()\nreturn {'found': pending.fields['urls']}"))
    tract.on("citation_check", lambda pending: pending.verify(strict=True))
    assert fired(tract).value == {"found": ["http://a"]}


def test_a_rejected_operation_is_skipped_with_the_reason(tract, spec):
    """R36, R40: a deliberate non-execution, with the reason."""
    tract.register_operation(spec())
    tract.on("citation_check", lambda pending: pending.reject("no such page"))
    made = fired(tract)
    assert isinstance(made, Skipped)
    assert (made.reason, made.condition["reason"]) == ("condition_false", "no such page")


def test_the_pending_names_the_run_that_fired_it(tract, spec):
    tract.register_operation(spec())
    seen = []
    tract.on("citation_check", lambda pending: seen.append((pending.actor, pending.triggered_by)))
    fired(tract)
    assert seen == [("operation:op", "run r1")]


@pytest.mark.parametrize("left_open", ["by the operation", "by a handler"])
def test_an_undecided_operation_waits_and_continues_after_approval(tract, spec, left_open):
    tract.register_operation(spec(unhandled="ask" if left_open == "by the operation" else "approve"))
    if left_open == "by a handler":
        tract.on("citation_check", lambda pending: None)
    runner = runner_of(tract)
    waits = runner(context(**GIVEN))
    assert isinstance(waits, Waits)
    assert runner.resume(context(**GIVEN), waits.pending_id) == waits
    (pending,) = inbox(tract)
    assert pending.pending_id == waits.pending_id
    pending.approve(edits={"urls": ["http://b"]})
    made = runner.resume(context(**GIVEN), waits.pending_id)
    assert made.value["urls"] == ["http://b"]
    assert len(tract.review.inbox()) == 0


def test_a_rejection_by_the_user_skips_the_operation(tract, spec):
    tract.register_operation(spec(unhandled="ask"))
    runner = runner_of(tract)
    waits = runner(context(**GIVEN))
    inbox(tract)[0].reject("no")
    assert isinstance(runner.resume(context(**GIVEN), waits.pending_id), Skipped)


def test_a_standing_approval_is_enough(tract, spec):
    tract.register_operation(spec(unhandled="ask"))
    waits = fired(tract)
    inbox(tract)[0].approve(scope="always")
    assert isinstance(waits, Waits)
    assert isinstance(fired(tract), OperationOutput)


def test_three_processes_can_fire_decide_and_resume_an_operation(own_store, spec):
    with Tract.open(url=own_store) as asking:
        asking.register_operation(spec(unhandled="ask"))
        waits = fired(asking)
    with Tract.open(url=own_store) as deciding:
        (pending,) = inbox(deciding)
        pending.approve()
    with Tract.open(url=own_store) as going_on:
        made = runner_of(going_on).resume(context(**GIVEN), waits.pending_id)
        assert made.value["urls"] == ["http://a"]
        assert isinstance(made, OperationOutput)


@pytest.mark.parametrize(
    "more", ["", ", resumable = false", ", waited_until = '2999-01-01T00:00:00.000000+00:00'"]
)
def test_an_approval_written_by_sql_is_ignored(own_store, spec, more):
    with Tract.open(url=own_store) as tract:
        tract.register_operation(spec(unhandled="ask"))
        waits = fired(tract)
    from sqlalchemy import create_engine, text

    engine = create_engine(own_store)
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE pendings SET status = 'approved', settled_at = created_at{more}"))
    engine.dispose()
    with Tract.open(url=own_store) as going_on:
        assert isinstance(runner_of(going_on).resume(context(**GIVEN), waits.pending_id), Waits)


def test_resuming_fails_if_the_operation_was_removed(own_store, spec):
    with Tract.open(url=own_store) as tract:
        tract.register_operation(spec(unhandled="ask"))
        waits = fired(tract)
        tract.unregister_operation("citation_check")
    with (
        Tract.open(url=own_store) as going_on,
        pytest.raises(OperationFailed, match="citation_check") as caught,
    ):
        runner_of(going_on).resume(context(**GIVEN), waits.pending_id)
    assert caught.value.code == "validation_error"


def test_resuming_with_an_unknown_pending_fires_the_operation_again(tract, spec):
    tract.register_operation(spec())
    assert isinstance(runner_of(tract).resume(context(**GIVEN), "nosuch"), OperationOutput)


def test_an_approved_action_that_raises_is_an_error(tract, spec):
    tract.register_operation(spec("raise KeyError('x')"))
    tract.on("citation_check", lambda pending: pending.verify(strict=True))
    result = performed("dynamic", PARAMS, Services(decisions=RunDecisions(tract)), **GIVEN)
    assert (result.status, result.error.code) == ("error", "operation_error")


def test_an_operation_that_is_not_active(tract, spec):
    with pytest.raises(OperationFailed, match="citation_check") as caught:
        fired(tract)
    assert caught.value.code == "validation_error"
    tract.propose_operation(spec())
    with pytest.raises(OperationFailed):
        fired(tract)


@pytest.mark.parametrize("fields", [{}, {"urls": "x"}, {"urls": [], "more": 1}])
def test_fields_that_do_not_fit(tract, spec, fields):
    tract.register_operation(spec())
    with pytest.raises(OperationFailed) as caught:
        fired(tract, {"operation": "citation_check", "fields": fields})
    assert caught.value.code == "validation_error"


@pytest.mark.parametrize(
    "params", [{}, {"operation": ""}, {"operation": "x", "fields": []}, {"operation": "x", "f": 1}]
)
def test_wrong_parameters(tract, params):
    assert rules(KIND, params)
    with pytest.raises(OperationFailed):
        fired(tract, params)


def test_a_host_without_operations():
    with pytest.raises(OperationFailed, match="Dynamic operations are not available"):
        made_by(KIND, PARAMS)
