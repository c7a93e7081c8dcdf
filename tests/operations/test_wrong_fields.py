"""Wrong values in the fields of a fired operation block approval and execution until they are corrected."""

from __future__ import annotations

import pytest

from tract_jupyter.exceptions import ParameterError
from tract_jupyter.models import PendingStatus
from tract_jupyter.operations import ActionDef

FIELDS = {"urls": {"type": "list[str]", "required": True}, "n": {"type": "int", "default": 0}}
SPOILT = {
    "ill-typed": lambda p: p.fields.update(urls=3),
    "ill-typed inside": lambda p: p.fields["urls"].append(3),
    "missing": lambda p: p.fields.pop("urls"),
    "unknown": lambda p: p.fields.update(more=1),
    "all": lambda p: setattr(p, "fields", {"nope": 3}),
}


@pytest.fixture
def make(tract, spec):
    """Return a function that registers an operation with the given action bodies and fires it for review."""

    def made(**bodies):
        actions = {name: ActionDef(name, "", {}, code) for name, code in bodies.items()}
        tract.register_operation(spec(name="note", fields=FIELDS, actions=actions))
        return tract.fire("note", {"urls": ["a"]}, review=True)

    return made


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
@pytest.mark.parametrize("decide", ["approve", "go"])
def test_a_pending_with_wrong_fields_stays_open_until_they_are_corrected(make, spoil, decide):
    pending = make(go="pending.result = 'ran'\npending.approve()")
    spoil(pending)
    with pytest.raises(ParameterError, match="^note: "):
        getattr(pending, decide)()
    assert (pending.status, pending.rounds, pending.result) == (PendingStatus.PENDING, 0, None)
    pending.fields = {"urls": ["b"], "n": 1}
    getattr(pending, decide)()
    assert pending.status is PendingStatus.APPROVED


def test_execute_fn_does_not_run_with_a_wrong_field(tract, spec):
    tract.register_operation(spec(name="note", fields=FIELDS, actions={}))
    ran = []
    pending = tract.fire("note", {"urls": ["a"]}, execute_fn=ran.append, review=True)
    pending.fields["urls"] = 3
    with pytest.raises(ParameterError, match="'urls'"):
        pending.approve()
    assert (pending.status, ran) == (PendingStatus.PENDING, [])


def test_a_handler_that_puts_one_in_approves_nothing(tract, spec):
    tract.register_operation(spec(name="note", fields=FIELDS, actions={}))
    told = []

    def handler(pending):
        pending.fields["urls"] = 3
        with pytest.raises(ParameterError) as caught:
            pending.approve()
        told.append(str(caught.value))
        pending.reject("so much for that")

    tract.on("note", handler)
    assert tract.fire("note", {"urls": ["a"]}).status is PendingStatus.REJECTED
    assert "'urls' should be a valid list" in told[0]


@pytest.mark.parametrize("code", [
    "pending.fields['n'] = 'many'\npending.approve()",
    "pending.fields['n'] = 'many'",
    "pending.fields['n'] = 'many'\nraise ValueError('first')",
])  # fmt: skip
def test_wrong_fields_of_a_kernel_action_are_restored(make, code):
    pending = make(go=code)
    with pytest.raises(ParameterError if "raise" not in code else ValueError):
        pending.go()
    assert (pending.status, pending.fields) == (PendingStatus.FAILED, {"urls": ["a"], "n": 0})
    assert pending.executed_at is None
    pending.approve()
    assert pending.status is PendingStatus.APPROVED


def test_a_wrong_field_set_after_approval_is_reset_to_the_approved_value(make):
    pending = make(go="pending.fields['n'] = 7\npending.approve()\npending.fields['n'] = 'many'")
    with pytest.raises(ParameterError, match="'n' should be a valid integer"):
        pending.go()
    assert (pending.status, pending.fields["n"]) == (PendingStatus.APPROVED, 7)


def test_a_pending_with_wrong_fields_can_be_rejected(make):
    pending = make()
    pending.fields["urls"] = 3
    pending.reject("no")
    assert pending.status is PendingStatus.REJECTED


NO_JSON = {
    **SPOILT,
    "no JSON": lambda p: p.fields.update(n=object()),
    "no dict": lambda p: setattr(p, "fields", None),
}


@pytest.mark.parametrize("spoil", NO_JSON.values(), ids=NO_JSON)
def test_a_pending_with_fields_without_json_can_be_rejected(make, tract, spoil):
    pending = make()
    spoil(pending)
    pending.reject("no")
    assert (pending.status, tract.review.inbox()) == (PendingStatus.REJECTED, [])
    (decision,) = tract.review.decisions()
    assert (decision.action, decision.reason) == ("reject", "no")


@pytest.mark.parametrize("value", ["many", object()], ids=["ill-typed", "no JSON"])
def test_the_edits_of_an_approval_put_them_right(make, value):
    pending = make()
    pending.fields["n"] = value
    with pytest.raises(ParameterError, match="'n' should be"):
        pending.approve(edits={"urls": ["b"]})
    assert (pending.status, pending.fields["n"]) == (PendingStatus.PENDING, value)
    pending.approve(edits={"n": 4})
    assert (pending.status, pending.fields) == (PendingStatus.APPROVED, {"urls": ["a"], "n": 4})


@pytest.mark.parametrize("spoil", NO_JSON.values(), ids=NO_JSON)
@pytest.mark.parametrize("unhandled", ["approve", "ask"])
def test_wrong_fields_of_a_handler_are_restored_and_the_user_decides(tract, spec, spoil, unhandled):
    tract.register_operation(spec(name="note", fields=FIELDS, actions={}, unhandled=unhandled))
    seen = []
    tract.on("note", spoil, name="spoiler")
    tract.on("note", lambda pending: seen.append(dict(pending.fields)))
    pending = tract.fire("note", {"urls": ["a"]})
    assert seen == [pending.fields] == [{"urls": ["a"], "n": 0}]
    (stored,) = tract.review.inbox()
    assert (stored.pending_id, stored.fields) == (pending.pending_id, pending.fields)
    assert "The handler 'spoiler' set invalid values" in stored.request["note"]
    (event,) = tract.hooks.log(handler="spoiler")
    assert (event.outcome, event.error.partition(":")[0]) in {
        ("undecided", "ParameterError"), ("undecided", "ContentError"), ("undecided", "PendingError"),
    }  # fmt: skip
    pending.approve()
    assert pending.status is PendingStatus.APPROVED
