"""The tool that a model uses to define an operation."""

from __future__ import annotations

import pytest

from tests.review.fakes import FakeChannel, click

SANDBOXED = {"go": {"code": "pending.fields['n'] = 2\npending.approve()", "isolation": "sandbox"}}
KERNEL = {"go": {"code": "pending.approve()"}}
FIELDS = {"n": {"type": "int", "default": 1}}


@pytest.fixture
def model(tract):
    tract.autonomy.ceiling = "autonomous"
    return tract.toolset("full", actor="agent:7")


def test_a_new_one_in_the_sandbox_is_active_at_once(tract, model):
    result = model.execute("propose_operation", {"name": "fresh", "actions": SANDBOXED, "fields": FIELDS})
    assert result.output == {"operation": "fresh", "tool": "fire_fresh", "reviewed": False}
    fired = tract.fire("fresh", review=True)
    fired.go()
    assert fired.fields == {"n": 2}


def test_for_the_kernel_a_person_is_asked(tract, model):
    tract.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "approve"))
    result = model.execute("propose_operation", {"name": "fresh", "actions": KERNEL})
    assert result.output["reviewed"] is True
    request, _ = tract.reviewer.channel.shown[0]
    assert "(from tools.propose_operation)" in request.why


def test_a_rejection_and_an_unavailable_user_are_reported_to_the_model(tract, model):
    assert (
        "waits in the inbox" in model.execute("propose_operation", {"name": "fresh", "actions": KERNEL}).error
    )
    tract.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "reject", reason="too much"))
    result = model.execute("propose_operation", {"name": "other", "actions": KERNEL})
    assert (result.success, result.denied) == (False, True)
    assert "too much" in result.error
    assert tract.status().operations == ()


def test_a_persons_call_counts_as_a_models(tract):
    tract.autonomy.ceiling = "autonomous"
    tract.tools.propose_operation(name="fresh", actions=SANDBOXED, fields=FIELDS)
    assert tract.operations.registry.unreviewed == {"fresh"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "a b"}, "is not a valid name for an operation"),
        (
            {"actions": {"go": {**SANDBOXED["go"], "isolation": "box"}}},
            "isolation must be 'kernel' or 'sandbox', not 'box'",
        ),
        ({"actions": {"go": {**SANDBOXED["go"], "isolaton": "sandbox"}}}, "Did you mean 'isolation'?"),
        ({"actions": {"go": {"code": "pending.tract", "isolation": "sandbox"}}}, "has no 'pending.tract'"),
        ({"unhandled": "maybe"}, "unhandled"),
    ],
)
def test_the_error_for_an_invalid_proposal_gives_the_reason(tract, model, changes, message):
    result = model.execute(
        "propose_operation", {"name": "fresh", "actions": SANDBOXED, "fields": FIELDS, **changes}
    )
    assert message in result.error
    assert tract.status().operations == ()
