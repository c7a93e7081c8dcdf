"""The classes generated from specs, and their descriptions."""

from __future__ import annotations

import inspect
import json

import pytest

from tract_jupyter.exceptions import ContentError, ParameterError, PendingStateError
from tract_jupyter.models import PendingStatus
from tract_jupyter.operations import make_dynamic_pending_class
from tract_jupyter.review import Pending


@pytest.fixture
def made(spec):
    return make_dynamic_pending_class(spec())


@pytest.fixture
def pending(made, tract):
    return made(tract=tract, fields={"urls": ["https://a.example"]})


def test_generated_class_inherits_pending(made, pending):
    assert issubclass(made, Pending)
    assert isinstance(pending, Pending)
    assert made.__name__ == "PendingCitationCheck"
    assert made.__doc__ == "Verify source URLs survive compression"
    assert pending.operation == "citation_check"


def test_generated_class_has_fields_dict(pending):
    assert pending.fields == {"urls": ["https://a.example"], "verified": False}


def test_generated_class_has_public_actions(made):
    assert {"approve", "reject", "pass_through", "get_state", "verify"} == made._public_actions
    assert list(inspect.signature(made.verify).parameters) == ["self", "strict"]
    assert inspect.signature(made.verify).parameters["strict"].annotation is bool


def test_generated_class_approve_reject_work(made, pending, tract):
    assert pending.status is PendingStatus.PENDING
    pending.approve()
    assert pending.status is PendingStatus.APPROVED
    assert pending.executed_at is not None
    other = made(tract=tract, fields={"urls": []})
    other.reject("because")
    assert (other.status, other.rejection_reason) == ("rejected", "because")
    for decided in (pending, other):
        for decide in (decided.approve, decided.reject, decided.pass_through, decided.verify):
            with pytest.raises(PendingStateError, match="decided"):
                decide()
    assert other.executed_at is None


def test_actions_take_positional_and_keyword_arguments(made, tract):
    for call in (lambda p: p.verify(True), lambda p: p.verify(strict=True)):
        pending = made(tract=tract, fields={"urls": ["x"]})
        call(pending)
        assert pending.rejection_reason == "Missing 1 URLs: ['x']"
    pending.fields["urls"] = []
    with pytest.raises(ParameterError):
        made(tract=tract, fields={"urls": []}).verify(1)


def test_an_argument_that_does_not_fit_leaves_the_pending_open(pending):
    with pytest.raises(ParameterError, match="'strict' should be a valid boolean"):
        pending.verify(strict="yes")
    assert (pending.status, pending.error) == (PendingStatus.PENDING, None)


def test_generated_class_pprint_works(pending, capsys):
    pending.pprint()
    text = capsys.readouterr().out
    for part in (
        "citation_check",
        "[pending]",
        pending.pending_id,
        "https://a.example",
        "verified: False",
        "verify",
    ):
        assert part in text
    pending.reject("no good")
    pending.pprint()
    assert "rejected because: no good" in capsys.readouterr().out


def test_generated_class_to_dict_includes_fields(pending):
    data = pending.to_dict()
    assert data["fields"] == {"urls": ["https://a.example"], "verified": False}
    assert data["available_actions"] == ["approve", "get_state", "pass_through", "reject", "verify"]
    assert json.loads(json.dumps(data)) == data


def test_to_dict_marks_truncated_values_and_get_state_keeps_them_whole(made, tract):
    pending = made(tract=tract, fields={"urls": ["x" * 501, *"abcdef"]})
    cut = pending.to_dict()["fields"]["urls"]
    assert cut == {"_truncated": True, "_total": 7, "items": ["x" * 500 + "… (501 characters)", "a", "b"]}
    state = pending.get_state()
    assert state["fields"] == pending.fields
    assert state["status"] == "pending"
    assert state["fields"] is not pending.fields


def test_generated_class_to_tools_includes_actions(pending):
    tools = {tool["function"]["name"]: tool["function"] for tool in pending.to_tools()}
    assert set(tools) == {"approve", "reject", "pass_through", "get_state", "verify"}
    assert tools["verify"]["description"] == "Check all URLs are present in context"
    assert tools["verify"]["parameters"] == {
        "type": "object", "properties": {"strict": {"type": "boolean"}}, "required": [], "additionalProperties": False,
    }  # fmt: skip
    assert tools["reject"]["parameters"]["properties"]["reason"]["type"] == "string"
    json.dumps(list(tools.values()))


def test_describe_api_names_fields_and_actions(pending):
    text = pending.describe_api()
    assert "- `urls: list[str]` = `['https://a.example']`: URLs to verify" in text
    assert "- `verified: bool` = `False`" in text
    assert "- `verify(strict: bool = None)`: Check all URLs" in text


def test_the_fingerprint_binds_operation_code_and_fields(made, spec, tract):
    def fingerprint(cls, **fields):
        return cls(tract=tract, fields={"urls": [], **fields}).fingerprint

    assert fingerprint(made) == fingerprint(made, verified=False)  # defaults filled in
    other_code = make_dynamic_pending_class(spec(code="pending.approve()"))
    other_name = make_dynamic_pending_class(spec(name="other"))
    prints = {fingerprint(made), fingerprint(made, verified=True), fingerprint(made, urls=["x"]),
              fingerprint(other_code), fingerprint(other_name)}  # fmt: skip
    assert len(prints) == 5


@pytest.mark.parametrize(
    "value", ["\ud800", float("nan"), object(), {1: 2}, pytest.param(10**5000, id="huge")]
)
def test_fields_without_a_json_form_can_be_neither_shown_nor_recorded(tract, spec, value):
    tract.register_operation(spec(fields={"a": {"type": "Any"}}))
    with pytest.raises(ContentError, match="JSON|surrogate"):
        tract.fire("citation_check", {"a": value}, review=True)
    pending = tract.operations.registry.require_class("citation_check")(tract=tract, fields={"a": value})
    with pytest.raises(ContentError, match="JSON|surrogate"):
        tract.reviewer.show(pending)
    assert tract.review.inbox() == []
    ran = []
    with pytest.raises(ContentError):
        tract.fire("citation_check", {"a": value}, execute_fn=ran.append)
    assert ran == []
    assert tract.events("custom:*") == []
    assert "citation_check" in pending.describe_api()  # describe_api never fails
    pending.pprint()


def test_a_nul_in_a_field_is_just_a_character(tract, spec):
    tract.register_operation(spec(fields={"a": {"type": "str"}}))
    tract.fire("citation_check", {"a": "x\0y"}, execute_fn=lambda p: None)
    assert tract.events("custom:*")[0].data["fields"] == {"a": "x\0y"}
    tract.reviewer.show(tract.fire("citation_check", {"a": "x\0y"}, review=True))
    assert tract.review.inbox()[0].fields == {"a": "x\0y"}


def test_mutable_defaults_are_fresh_in_every_pending(tract, spec):
    made = make_dynamic_pending_class(
        spec(fields={"seen": {"type": "dict[str, list[int]]", "default": {"a": []}}})
    )
    first = made(tract=tract)
    first.fields["seen"]["a"].append(1)
    assert made(tract=tract).fields == {"seen": {"a": []}}


def test_fields_of_the_caller_are_not_touched(tract, spec):
    made = make_dynamic_pending_class(
        spec(fields={"a": {"type": "list[int]"}, "b": {"type": "int", "default": 2}})
    )
    given = {"a": [1]}
    pending = made(tract=tract, fields=given)
    pending.fields["a"].append(2)
    pending.fields["b"] = 3
    assert given == {"a": [1]}
