"""The frozen question: computed once, and again when the fields change and when the gate decides."""

from __future__ import annotations

import pytest

from tract_jupyter import ActionDef, OperationSpec, Tract
from tract_jupyter.exceptions import FingerprintError
from tract_jupyter.models import PendingStatus
from tract_jupyter.review import deciding

SPEC = OperationSpec(
    "deploy", "Deploy it.", {"n": {"type": "list[int]"}}, {"go": ActionDef("go", "", {}, "pending.approve()")}
)


@pytest.fixture
def t():
    with Tract.open() as tract:
        yield tract


@pytest.fixture
def fired(t):
    t.register_operation(SPEC)
    return t.fire("deploy", {"n": [1]}, review=True)


def test_the_question_is_cached_while_the_fields_are_unchanged(fired):
    assert fired.question is fired.question
    assert fired.question.fingerprint == fired.fingerprint
    assert fired.question.identity == fired.identity


def test_a_change_within_a_field_makes_another_one(fired):
    before = fired.question
    fired.fields["n"].append(2)
    assert fired.question.fingerprint != before.fingerprint
    fired.fields["n"].pop()
    assert fired.question == before


def test_a_nested_field_changed_after_display_prevents_approval(fired):
    shown = fired.question.fingerprint
    fired.fields["n"].append(2)
    with (
        deciding("panel", shown=shown),
        pytest.raises(FingerprintError, match="has changed since you saw it"),
    ):
        fired.approve()
    assert fired.status is PendingStatus.PENDING


def test_the_gate_believes_nothing_that_was_computed_before(fired):
    """The definition is not a field, so the cached question does not show that it changed."""
    shown = fired.question.fingerprint
    fired.spec_hash = "0" * 64
    assert fired.question.fingerprint == shown
    with (
        deciding("panel", shown=shown),
        pytest.raises(FingerprintError, match="has changed since you saw it"),
    ):
        fired.approve()


def test_the_activated_spec_is_read_from_the_approved_text(t):
    """The property `spec` returns a copy, so changes to it have no effect."""
    pending = t.propose_operation(SPEC)
    shown = pending.question
    pending.spec.actions["go"] = ActionDef("go", "", {}, "pending.reject()")
    pending.spec.fields.clear()
    assert pending.question is shown
    pending.approve()
    active = t.operations.registry.get_spec("deploy")
    assert (active.fields, active.actions["go"].code) == (SPEC.fields, "pending.approve()")
