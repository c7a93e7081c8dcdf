"""Volatile fields: standing approvals and recorded decisions ignore them. A model can only request them."""

from __future__ import annotations

import pytest

from tests.review.fakes import FakeChannel, click
from tests.review.rigging import Attacker, press
from tract_jupyter import Tract
from tract_jupyter.exceptions import GrantError, ParameterError, SpecError
from tract_jupyter.models import PendingStatus
from tract_jupyter.operations import REQUEST, ActionDef
from tract_jupyter.review import deciding

FIELDS = {"n": {"type": "int", "default": 0}, "at": {"type": "str", "default": "", "volatile": True}}


@pytest.fixture
def wanted(spec):
    """A model's proposal that requests one volatile field."""
    return spec("pending.approve()", fields=FIELDS, unhandled="ask")


@pytest.fixture
def t(own_store):
    with Tract.open(url=own_store) as t:
        t.reviewer.channel = FakeChannel()
        yield t


@pytest.fixture
def proposed(t, wanted):
    return t.propose_operation(wanted, actor="agent:a")


def volatile(t):
    """Return the volatile fields in a standing approval for the active operation."""
    t.fire("citation_check", review=True).approve(scope="always")
    return t.review.grants.all()[-1].ignores


def test_the_user_can_set_volatile_fields_in_a_spec(t, wanted):
    t.propose_operation(wanted).approve()
    assert t.operations.registry.get_spec("citation_check") == wanted
    assert volatile(t) == ("at",)


@pytest.mark.parametrize("actor", ["agent:a", "agent", "script:0123", "mcp:x", "policy:p"])
def test_volatile_fields_of_a_model_are_only_a_request(t, wanted, actor):
    t.propose_operation(wanted, actor=actor).approve()
    assert t.operations.registry.get_spec("citation_check").volatile == frozenset()
    assert volatile(t) == ()
    assert t.fire("citation_check", {"at": "noon"}).status is PendingStatus.PENDING


def test_the_request_is_shown_as_a_finding(proposed):
    request = proposed.review_request()
    (finding,) = [f for block in request.code for f in block.findings if f.code == REQUEST]
    assert (finding.level, finding.text) == ("high", "at: str = ''  # volatile")
    assert "to ignore 'at'. They do so only if you accept" in request.why
    assert "at: str = ''  # volatile" in request.code[0].code


def test_a_person_accepts_it_in_a_panel(t, proposed):
    ticket = t.reviewer.show(proposed)
    (approve,) = [action for action in ticket.request.actions if action.name == "approve"]
    assert [p.name for p in approve.parameters] == ["volatile"]
    with deciding("panel"):
        proposed.approve(volatile=True)
    assert t.operations.registry.get_spec("citation_check").volatile == {"at"}
    assert volatile(t) == ("at",)


def test_a_person_accepts_it_in_another_process(t, proposed, own_store):
    t.reviewer.keep(proposed)
    with Tract.open(url=own_store) as other:
        again = other.operations.rebuild(other.review.inbox()[0])
        assert again.requests == ("at",)
        again.approve(volatile=True)
    t.operations.look_again()
    assert t.operations.registry.get_spec("citation_check").volatile == {"at"}


def test_volatile_fields_cannot_be_accepted_without_a_request(t, wanted):
    own = t.propose_operation(wanted)
    assert all(
        len(action.parameters) == 0 for action in own.review_request().actions if action.name == "approve"
    )
    with pytest.raises(GrantError, match="requests no volatile fields"):
        own.approve(volatile=True)
    assert own.status is PendingStatus.PENDING


@pytest.mark.parametrize("channel", ["dict", "tool", "model", "handler", "automatic"])
def test_only_the_user_can_accept_volatile_fields(t, proposed, channel):
    with deciding(channel, "somebody"), pytest.raises(GrantError, match="only the user"):
        proposed.execute_tool("approve", {"volatile": True})
    assert (proposed.status, proposed.requests) == (PendingStatus.PENDING, ("at",))
    assert "volatile" not in str(proposed.to_tools())


def test_an_operation_activated_without_review_has_no_volatile_fields(t, spec):
    code = ActionDef("verify", "", {}, "pending.approve()", isolation="sandbox")
    fresh = spec(name="fresh", fields=FIELDS, actions={"verify": code})
    t.autonomy.ceiling = "autonomous"
    assert t.propose_operation(fresh, actor="agent:a").status is PendingStatus.APPROVED
    assert t.operations.registry.get_spec("fresh").volatile == frozenset()
    with pytest.raises(SpecError, match="already active"):
        t.propose_operation(fresh, actor="agent:a")


def test_volatile_fields_of_a_quarantined_operation_are_only_a_request(t, wanted, own_store):
    t.register_operation(wanted)
    Attacker(own_store).set("operation_specs", signature="0" * 64)
    with Tract.open(url=own_store) as later:
        pending = later.operations.review_quarantined("citation_check")
        assert pending.requests == ("at",)
        pending.approve()
        assert later.operations.registry.get_spec("citation_check").volatile == frozenset()


def test_a_volatile_request_changed_in_the_store_is_marked_as_changed(t, proposed, own_store):
    t.reviewer.keep(proposed)
    Attacker(own_store).rewrite("pendings", "fields_json", '"volatile":["at"]', '"volatile":["n"]')
    with Tract.open(url=own_store) as other:
        assert (
            "changed in the store" in other.operations.rebuild(other.review.inbox()[0]).review_request().why
        )
    Attacker(own_store).rewrite("pendings", "fields_json", '"volatile":["n"]', '"volatile":7')
    with Tract.open(url=own_store) as other:
        assert other.operations.rebuild(other.review.inbox()[0]).requests == ()


def test_a_decision_records_the_accepted_volatile_fields(t, proposed):
    asked = proposed.identity
    press(t, t.reviewer.show(proposed), "reject")
    again = t.propose_operation(proposed.spec.with_volatile(["at"]), actor="agent:a")
    again.approve(volatile=True)
    decision = t.review.decisions()[0]
    assert (decision.identity, decision.arguments) == (asked, {"volatile": True})
    assert decision.fingerprint == again.fingerprint != asked


def test_the_argument_volatile_must_be_a_boolean(proposed):
    with pytest.raises(ParameterError):
        proposed.execute_tool("approve", {"volatile": "at"})


def test_a_click_can_accept_volatile_fields(t, proposed, monkeypatch):
    from tract_jupyter.review import decision

    monkeypatch.setattr(decision, "_PERSONAL", decision._PERSONAL | {"fake"})
    ticket = t.reviewer.show(proposed)
    assert click(ticket, "approve", volatile=True)
    t.reviewer.channel.run_due()
    assert t.operations.registry.get_spec("citation_check").volatile == {"at"}
