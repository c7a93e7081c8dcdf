"""Registering, firing and removing operations in a tract. The names come from the test plan in the design."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tract_jupyter import Tract
from tract_jupyter.exceptions import (
    ContentError,
    OperationExistsError,
    ParameterError,
    PendingError,
    SpecError,
    StoreClosedError,
    TrustError,
    UnknownOperationError,
)
from tract_jupyter.models import PendingStatus
from tract_jupyter.review import Pending, Trust

URL = "https://a.example"


def test_the_example_of_the_document(tract, spec):
    tract.register_operation(spec())
    tract.user(f"see {URL}")
    tract.on("citation_check", lambda p: p.verify(strict=True))
    found = tract.fire("citation_check", fields={"urls": [URL]})
    assert (found.status, found.fields["verified"]) == ("approved", True)
    missing = tract.fire("citation_check", fields={"urls": [URL, "https://b.example"]})
    assert (missing.status, missing.fields["verified"]) == ("rejected", False)
    assert missing.rejection_reason == "Missing 1 URLs: ['https://b.example']"


def test_register_operation_makes_hookable(tract, spec):
    with pytest.raises(ValueError, match="citation_check"):
        tract.on("citation_check", print)
    assert tract.register_operation(spec()) is None
    assert "citation_check" in tract.operations.hookable
    assert tract.on("citation_check", print) == "print"


def test_register_operation_review_mode(tract, spec):
    """review=True returns the class and does not activate it."""
    made = tract.register_operation(spec(), review=True)
    assert issubclass(made, Pending)
    assert "def verify" in made(tract=tract, fields={"urls": []}).code_blocks()[0].header
    assert "citation_check" not in tract.operations.hookable
    assert "fire_citation_check" not in tract.executor.tools()
    assert tract.events() == []
    with pytest.raises(UnknownOperationError):
        tract.fire("citation_check", {"urls": []})
    tract.register_operation(spec())
    with pytest.raises(OperationExistsError):
        tract.register_operation(spec(), review=True)


def test_unregister_operation_removes_from_hookable(tract, spec):
    tract.register_operation(spec())
    tract.unregister_operation("citation_check")
    assert "citation_check" not in tract.operations.hookable
    assert "fire_citation_check" not in tract.executor.tools()
    assert [event.event_type for event in tract.events()] == ["operation.removed", "operation.activated"]
    with pytest.raises(ValueError, match="no operation"):
        tract.on("citation_check", print)
    with pytest.raises(UnknownOperationError):
        tract.unregister_operation("citation_check")


def test_unregister_operation_removes_handlers(tract, spec):
    tract.register_operation(spec())
    tract.on("citation_check", lambda p: p.reject())
    tract.unregister_operation("citation_check")
    tract.register_operation(spec())
    assert tract.fire("citation_check", {"urls": []}).status is PendingStatus.APPROVED


def test_unregister_of_an_unknown_one_changes_nothing(tract, spec):
    tract.register_operation(spec())
    tract.on("citation_check", lambda p: p.reject())
    with pytest.raises(UnknownOperationError, match="Did you mean 'citation_check'"):
        tract.unregister_operation("citation_chek")
    assert tract.fire("citation_check", {"urls": []}).status is PendingStatus.REJECTED


def test_fire_with_handler(tract, spec):
    tract.register_operation(spec())
    seen = []
    tract.on("citation_check", seen.append)
    pending = tract.fire("citation_check", {"urls": [URL]}, triggered_by="a test")
    assert seen == [pending]
    assert (pending.triggered_by, pending.actor, pending.tract) == ("a test", "user", tract)


def test_fire_with_review(tract, spec):
    tract.register_operation(spec())
    tract.on("citation_check", lambda p: p.reject())
    pending = tract.fire("citation_check", {"urls": []}, review=True)
    assert pending.status is PendingStatus.PENDING
    pending.verify(strict=False)
    assert pending.status is PendingStatus.APPROVED


def test_fire_auto_approve_no_handler(tract, spec):
    tract.register_operation(spec())
    pending = tract.fire("citation_check", {"urls": []})
    assert pending.status is PendingStatus.APPROVED
    assert pending.executed_at is not None


def test_fire_with_execute_fn_returns_result(tract, spec):
    tract.register_operation(spec())
    assert tract.fire("citation_check", {"urls": [URL]}, execute_fn=lambda p: p.fields["urls"]) == [URL]
    assert tract.fire("citation_check", {"urls": []}, execute_fn=lambda p: None) is None


def test_fire_with_execute_fn_runs_nothing_after_a_rejection(tract, spec):
    tract.register_operation(spec())
    ran = []
    tract.on("citation_check", lambda p: p.reject("no"))
    pending = tract.fire("citation_check", {"urls": []}, execute_fn=ran.append)
    assert (pending.rejection_reason, ran) == ("no", [])
    assert tract.events("custom:*") == []


def test_fire_without_execute_fn_returns_pending(tract, spec):
    tract.register_operation(spec())
    pending = tract.fire("citation_check", {"urls": []})
    assert isinstance(pending, Pending)
    assert tract.events("custom:*") == []


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"urls": "x"}, "'urls' should be a valid list, got 'x' (str)"),
        ({"urls": ["a", 1]}, "'urls'[1] should be a valid string, got 1 (int)"),
        ({"urls": ("a",)}, "'urls' should be a valid list"),
        ({"urls": [], "verified": 1}, "'verified' should be a valid boolean, got 1 (int)"),
        ({"urls": None}, "'urls' should be a valid list"),
        ({}, "'urls' is missing (list[str])"),
        (None, "'urls' is missing (list[str])"),
        (
            {"urls": [], "verifed": True},
            "'verifed' is unknown. Did you mean 'verified'? It takes urls, verified.",
        ),
        ({"urls": [], 3: 1}, "'3' is not a name; names are strings"),
        ({"urls": [], "a\ud800": 1}, "not valid Unicode"),
        ([], "a dict of values is needed, got list"),
        ("urls", "a dict of values is needed, got str"),
    ],
)
def test_fire_field_type_validation(tract, spec, fields, words):
    """A wrong type raises ValueError."""
    tract.register_operation(spec())
    tract.on("citation_check", lambda p: pytest.fail("it was fired"))
    with pytest.raises(ParameterError) as caught:
        tract.fire("citation_check", fields, execute_fn=lambda p: pytest.fail("it ran"))
    assert isinstance(caught.value, ValueError)
    assert words in str(caught.value)
    assert tract.hooks.log() == []


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("int", 3, True), ("int", -1, 1.0), ("float", 1, True), ("float", 1.5, "1.5"), ("str", "", 3), ("bool", False, 0),
        ("list[int]", [1], [True]), ("dict[str, list[int]]", {"a": [1]}, {"a": ["1"]}), ("int | None", None, "x"),
        ("Literal['a', 'b']", "b", "c"), ("None", None, 0), ("list", [1, "a"], {}), ("dict", {"a": 1}, []),
        ("Optional[str]", "x", 1), ("Union[int, str]", "x", 1.5),
    ],
)  # fmt: skip
def test_fire_is_strict_about_every_type(tract, spec, kind, good, bad):
    tract.register_operation(spec(fields={"a": {"type": kind}}))
    assert tract.fire("citation_check", {"a": good}).fields == {"a": good}
    with pytest.raises(ParameterError, match="'a'"):
        tract.fire("citation_check", {"a": bad})


def test_all_invalid_fields_are_reported_in_one_error(tract, spec):
    tract.register_operation(
        spec(fields={name: {"type": "int", "required": True} for name in "abcdefghijklmnop"})
    )
    with pytest.raises(ParameterError) as caught:
        tract.fire("citation_check", {"a": "x", "b": 1, "z": 1})
    assert len(caught.value.problems) == 11
    assert caught.value.problems[-1] == "and 6 more"


def test_a_field_without_a_default_is_optional_unless_required(tract, spec):
    """This holds for code of the author, proposals of a model, and the schema of the tool."""
    fields = {"must": {"type": "int", "required": True}, "may": {"type": "int"}}
    tract.register_operation(spec(fields=fields))
    assert tract.fire("citation_check", {"must": 1}).fields == {"must": 1, "may": None}
    with pytest.raises(ParameterError, match="'must' is missing"):
        tract.fire("citation_check", {"may": 1})
    schema = tract.executor.tools()["fire_citation_check"].parameters.json_schema
    assert schema["required"] == ["must"]
    assert tract.tools.fire_citation_check(must=2)["fields"] == {"must": 2, "may": None}


def test_fire_field_defaults_applied(tract, spec):
    tract.register_operation(
        spec(fields={"a": {"type": "int", "default": 1}, "b": {"type": "None", "default": None}})
    )
    assert tract.fire("citation_check").fields == {"a": 1, "b": None}
    assert tract.fire("citation_check", {"a": 2}).fields == {"a": 2, "b": None}


def test_fire_unknown_operation_raises(tract, spec):
    with pytest.raises(UnknownOperationError, match="No operation is active yet"):
        tract.fire("citation_check")
    tract.register_operation(spec())
    with pytest.raises(UnknownOperationError, match="Did you mean 'citation_check'") as caught:
        tract.fire("citation_chek")
    assert isinstance(caught.value, ValueError)
    tract.unregister_operation("citation_check")
    with pytest.raises(UnknownOperationError):
        tract.fire("citation_check", {"urls": []})


def test_fire_provenance_event_written(tract, spec):
    tract.register_operation(spec())
    tract.fire("citation_check", {"urls": [URL]}, execute_fn=lambda p: 1, triggered_by="me")
    (event,) = tract.events("custom:citation_check")
    assert (event.event_type, event.actor) == ("custom:citation_check", "user")
    assert event.data["fields"] == {"urls": [URL], "verified": False}
    assert event.data["triggered_by"] == "me"


def test_a_failed_operation_writes_no_provenance_event(tract, spec):
    tract.register_operation(spec())
    with pytest.raises(ZeroDivisionError):
        tract.fire("citation_check", {"urls": []}, execute_fn=lambda p: 1 / 0)
    assert tract.events("custom:*") == []


def test_a_decision_that_cannot_be_recorded_does_not_run(tract, spec):
    tract.register_operation(spec("pending.fields['verified'] = {1}\npending.approve()"))
    ran = []
    pending = tract.fire("citation_check", {"urls": []}, review=True, execute_fn=ran.append)
    with pytest.raises(ContentError):
        pending.verify(strict=False)
    assert (ran, pending.status, pending.fields["verified"]) == ([], PendingStatus.FAILED, False)


def test_on_accepts_dynamic_operation_name(tract, spec):
    tract.register_operation(spec())
    tract.on("citation_check", lambda p: p.reject("handled"))
    assert tract.fire("citation_check", {"urls": []}).rejection_reason == "handled"


def test_dynamic_op_appears_in_as_tools(tract, spec):
    before = tract.as_tools()
    tract.register_operation(spec())
    (tool,) = [tool for tool in tract.as_tools() if tool not in before]
    assert tool == {
        "type": "function",
        "function": {
            "name": "fire_citation_check",
            "description": "Verify source URLs survive compression",
            "parameters": {
                "type": "object",
                "properties": {
                    "urls": {"type": "array", "items": {"type": "string"}, "description": "URLs to verify"},
                    "verified": {"type": "boolean", "default": False},
                },
                "required": ["urls"],
                "additionalProperties": False,
            },
        },
    }
    tract.unregister_operation("citation_check")
    assert tract.as_tools() == before


def test_spec_fields_deep_copied_on_register(tract, spec):
    given = spec()
    tract.register_operation(given)
    given.fields.clear()
    given.actions["verify"].params["more"] = "int"
    with pytest.raises(ParameterError):
        tract.fire("citation_check")
    assert tract.operations.registry.get_spec("citation_check") == spec()


def test_activating_twice_is_refused_and_keeps_the_first(tract, spec):
    tract.register_operation(spec())
    with pytest.raises(OperationExistsError, match="already active"):
        tract.register_operation(spec("pending.reject()"))
    assert tract.operations.registry.get_spec("citation_check") == spec()
    assert len(tract.events("operation.activated")) == 1


def test_registering_the_same_again_does_nothing(own_store, spec):
    for _ in range(2):  # like a script that runs twice
        with Tract.open(url=own_store) as tract:
            tract.register_operation(spec())
            made = tract.operations.registry.require_class("citation_check")
            tract.on("citation_check", lambda p: p.reject())
            tract.register_operation(spec())
            assert tract.operations.registry.require_class("citation_check") is made
            assert tract.fire("citation_check", {"urls": []}).status is PendingStatus.REJECTED
            assert len(tract.events("operation.activated")) == 1


def test_registering_a_changed_operation_reports_the_changes_and_the_remedy(tract, spec):
    tract.register_operation(spec())
    changed = spec(
        "pending.reject()",
        description="Another.",
        fields={"urls": {"type": "list[str]", "default": []}, "depth": {"type": "int", "default": 1}},
    )
    with pytest.raises(OperationExistsError) as caught:
        tract.register_operation(changed)
    for words in (
        "description is 'Another.'", "field 'urls' has a different", "default", "field 'verified' is gone",
        "field 'depth' is new", "action 'verify' has a different code", "register_operation(spec, replace=True)",
    ):  # fmt: skip
        assert words in str(caught.value)
    tract.on("citation_check", lambda p: p.verify())
    tract.register_operation(changed, replace=True)
    assert tract.operations.registry.get_spec("citation_check") == changed
    assert tract.fire("citation_check").status is PendingStatus.REJECTED


def test_registering_a_model_activated_operation_counts_as_a_review(tract, spec):
    theirs = spec("pending.approve()")
    theirs = replace(theirs, actions={"verify": replace(theirs.actions["verify"], isolation="sandbox")})
    tract.autonomy.ceiling = "autonomous"
    tract.propose_operation(theirs, actor="agent:7")
    assert tract.operations.registry.unreviewed == {"citation_check"}
    tract.register_operation(theirs)
    assert tract.operations.registry.unreviewed == frozenset()


def test_unhandled_ask_sends_the_request_to_the_user(tract, spec):
    tract.register_operation(spec(unhandled="ask"))
    pending = tract.fire("citation_check", {"urls": []})
    assert pending.status is PendingStatus.PENDING
    assert [stored.pending_id for stored in tract.review.inbox()] == [pending.pending_id]
    tract.on("citation_check", lambda p: p.reject())
    assert tract.fire("citation_check", {"urls": []}).status is PendingStatus.REJECTED
    assert len(tract.review.inbox()) == 1


def test_without_a_secret_nothing_is_activated(tract, spec, tmp_path):
    (tmp_path / "file").write_text("x")
    tract.operations.stored._signer = Trust(tmp_path / "file" / "secret").for_tract("store", "tract")
    with pytest.raises(TrustError, match="secret"):
        tract.register_operation(spec())
    assert tract.operations.registry.operation_names == set()
    assert tract.events() == []


def test_a_store_that_cannot_be_written_activates_and_removes_nothing(tract, spec):
    tract.register_operation(spec(name="first"))
    tract.close()
    with pytest.raises(StoreClosedError):
        tract.register_operation(spec())
    with pytest.raises(StoreClosedError):
        tract.unregister_operation("first")
    assert tract.operations.registry.operation_names == {"first"}


# --- proposals


def test_a_proposal_activates_by_approval(tract, spec):
    pending = tract.propose_operation(spec(), triggered_by="a model")
    assert (pending.title, pending.labels["approve"]) == ("Activate operation citation_check", "Activate")
    assert pending.summary() == "Verify source URLs survive compression"
    assert "a model" in pending.why()
    assert "citation_check" not in tract.operations.hookable
    pending.approve()
    assert "citation_check" in tract.operations.hookable
    assert pending.executed_at is not None


def test_a_rejected_proposal_leaves_nothing(tract, spec):
    tract.propose_operation(spec()).reject("dangerous")
    assert tract.operations.registry.operation_names == set()


def test_a_proposal_creates_and_runs_nothing_before_approval(tract, spec, tmp_path, monkeypatch):
    target = tmp_path / "written"
    made = []
    monkeypatch.setattr("tract_jupyter.operations.registry.make_dynamic_pending_class", made.append)
    pending = tract.propose_operation(spec(f"open({str(target)!r}, 'w').close()"))
    pending.review_request()
    pending.to_dict()
    assert made == []
    assert not target.exists()


def test_a_new_version_shows_the_difference_and_replaces_the_old(tract, spec):
    tract.register_operation(spec())
    fired = tract.fire("citation_check", {"urls": []}, review=True)
    with pytest.raises(SpecError, match="nothing to review"):
        tract.propose_operation(spec())
    pending = tract.propose_operation(spec("pending.reject('new')", version="2"))
    assert pending.title == "Replace operation citation_check"
    diff = pending.code_blocks()[0]
    assert diff.language == "diff"
    assert "+    pending.reject('new')" in diff.code
    pending.approve()
    assert tract.operations.registry.get_spec("citation_check").version == "2"
    with pytest.raises(PendingError, match="replaced"):
        tract.operations.check_current(fired)


def test_the_fingerprint_of_a_proposal_binds_the_whole_spec(tract, spec):
    prints = {
        tract.propose_operation(made).fingerprint
        for made in (spec(), spec("pending.reject()"), spec(description="x"), spec(unhandled="ask"))
    }
    assert len(prints) == 4
    assert tract.propose_operation(spec()).fingerprint in prints


def test_a_proposal_copies_the_given_spec(tract, spec):
    given = spec()
    pending = tract.propose_operation(given)
    given.fields.clear()
    assert pending.spec == spec()


def test_approving_without_an_action_records_that_no_action_ran(tract, spec):
    tract.register_operation(spec())
    pending = tract.fire("citation_check", {"urls": ["a"]}, review=True)
    request = pending.review_request()
    styles = {action.name: (action.label, action.style) for action in request.actions}
    assert styles == {
        "verify": ("Run verify", "approve"),
        "approve": ("Approve without running", "neutral"),
        "reject": ("Reject", "reject"),
    }
    pending.approve()
    assert repr(pending).endswith("approved, no action ran>")
    (event,) = tract.events("decision")
    assert event.data["outcome"] == "no action ran"
    assert tract.tools.fire_citation_check(urls=["a"])["note"] == "no action ran"
    ran = tract.fire("citation_check", {"urls": ["a"]}, review=True)
    ran.verify()
    assert "no action ran" not in repr(ran)
    assert "outcome" not in tract.events("decision")[0].data


def test_approve_is_the_main_button_if_approval_runs_execute_fn(tract, spec):
    tract.register_operation(spec())
    pending = tract.fire("citation_check", {"urls": ["a"]}, review=True, execute_fn=lambda p: 7)
    actions = {action.name: (action.label, action.style) for action in pending.review_request().actions}
    assert actions["approve"] == ("Approve", "approve")
    assert actions["verify"][1] == "neutral"
    pending.approve()
    assert "no action ran" not in repr(pending)


def test_an_operation_with_an_action_is_offered_if_a_user_is_available(tract, spec):
    from tests.review.fakes import FakeChannel, click

    tract.register_operation(spec())
    fire = lambda: tract.operations.fire("citation_check", {"urls": ["a"]}, offer=True)  # noqa: E731
    assert fire().status == "approved"  # no user is available
    tract.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "verify"))
    pending = fire()
    tract.reviewer.channel.run_due()
    assert pending.decision.action == "verify"
    assert "It has an action to run" in tract.reviewer.channel.shown[0][0].why
    tract.on("citation_check", lambda p: p.approve())
    assert fire().status == "approved"  # a handler decided
    tract.reviewer.channel = FakeChannel()
    assert tract.fire("citation_check", {"urls": ["a"]}).status == "approved"


def test_a_recorded_decision_is_replayed_if_no_user_is_available(tract, spec):
    from types import SimpleNamespace

    from tests.review.fakes import FakeChannel

    tract.register_operation(spec())
    entries = [SimpleNamespace(action="verify", arguments={}, decided_by="me")]
    lock = SimpleNamespace(knows=lambda _: True, take=lambda _: entries.pop() if entries else None)
    tract.reviewer.channel = FakeChannel(reachable=False)
    tract.reviewer.channel.lock = lock
    pending = tract.operations.fire("citation_check", {"urls": ["a"]}, offer=True)
    assert (pending.decision.action, pending.decision.channel) == ("verify", "recorded")


@pytest.mark.parametrize("value", [object(), float("nan"), {1: 2}])
def test_an_invalid_value_in_one_pending_does_not_block_another(tract, spec, value):
    tract.register_operation(spec())
    spoilt = tract.fire("citation_check", {"urls": []}, review=True)
    spoilt.fields["urls"] = value
    with pytest.raises(ContentError, match="no JSON form"):
        spoilt.review_request()
    other = tract.fire("citation_check", {"urls": []}, review=True)
    other.verify()
    assert (spoilt.status, other.status) == (PendingStatus.PENDING, PendingStatus.APPROVED)


def test_invalid_fields_cannot_be_shown(tract, spec):
    tract.register_operation(spec())
    pending = tract.fire("citation_check", {"urls": []}, review=True)
    pending.fields = 3
    with pytest.raises(PendingError, match="must be a dict, not 3. Nothing was decided"):
        pending.review_request()
    proposed = tract.propose_operation(spec(name="other"))
    proposed.fields["spec"] = 3
    with pytest.raises(SpecError, match="invalid JSON"):
        proposed.review_request()
