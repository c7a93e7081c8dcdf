"""Which fields standing approvals and recorded decisions do not look at: a person's to say, a model's to ask for."""

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
    """What a model proposes: one of its fields is to be volatile."""
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
    """The volatile fields of the active operation, as a standing approval has it."""
    t.fire("citation_check", review=True).approve(scope="always")
    return t.review.grants.all()[-1].ignores


def test_a_person_says_so_in_their_own_spec(t, wanted):
    t.propose_operation(wanted).approve()
    assert t.operations.registry.get_spec("citation_check") == wanted
    assert volatile(t) == ("at",)


@pytest.mark.parametrize("actor", ["agent:a", "agent", "script:0123", "mcp:x", "policy:p"])
def test_a_models_is_a_request_and_without_a_person_it_is_not_so(t, wanted, actor):
    t.propose_operation(wanted, actor=actor).approve()
    assert t.operations.registry.get_spec("citation_check").volatile == frozenset()
    assert volatile(t) == ()
    assert t.fire("citation_check", {"at": "noon"}).status is PendingStatus.PENDING


def test_the_request_is_shown_as_a_finding(proposed):
    request = proposed.review_request()
    (finding,) = [f for block in request.code for f in block.findings if f.code == REQUEST]
    assert (finding.level, finding.text) == ("high", "at: str = ''  # volatile")
    assert "do not look at 'at'; they will, unless you accept that" in request.why
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


def test_nothing_is_to_be_accepted_where_nothing_is_asked_for(t, wanted):
    own = t.propose_operation(wanted)
    assert all(
        len(action.parameters) == 0 for action in own.review_request().actions if action.name == "approve"
    )
    with pytest.raises(GrantError, match="wants no field to be volatile"):
        own.approve(volatile=True)
    assert own.status is PendingStatus.PENDING


@pytest.mark.parametrize("channel", ["dict", "tool", "model", "handler", "automatic"])
def test_nobody_but_a_person_accepts_it(t, proposed, channel):
    with deciding(channel, "somebody"), pytest.raises(GrantError, match="only the user"):
        proposed.execute_tool("approve", {"volatile": True})
    assert (proposed.status, proposed.requests) == (PendingStatus.PENDING, ("at",))
    assert "volatile" not in str(proposed.to_tools())


def test_one_that_needs_no_review_has_no_volatile_field(t, spec):
    code = ActionDef("verify", "", {}, "pending.approve()", isolation="sandbox")
    fresh = spec(name="fresh", fields=FIELDS, actions={"verify": code})
    t.autonomy.ceiling = "autonomous"
    assert t.propose_operation(fresh, actor="agent:a").status is PendingStatus.APPROVED
    assert t.operations.registry.get_spec("fresh").volatile == frozenset()
    with pytest.raises(SpecError, match="active already"):
        t.propose_operation(fresh, actor="agent:a")


def test_what_a_store_brings_is_a_request_too(t, wanted, own_store):
    t.register_operation(wanted)
    Attacker(own_store).set("operation_specs", signature="0" * 64)
    with Tract.open(url=own_store) as later:
        pending = later.operations.review_quarantined("citation_check")
        assert pending.requests == ("at",)
        pending.approve()
        assert later.operations.registry.get_spec("citation_check").volatile == frozenset()


def test_a_request_that_somebody_put_into_the_store_is_doubted(t, proposed, own_store):
    t.reviewer.keep(proposed)
    Attacker(own_store).rewrite("pendings", "fields_json", '"volatile":["at"]', '"volatile":["n"]')
    with Tract.open(url=own_store) as other:
        assert (
            "changed in the store" in other.operations.rebuild(other.review.inbox()[0]).review_request().why
        )
    Attacker(own_store).rewrite("pendings", "fields_json", '"volatile":["n"]', '"volatile":7')
    with Tract.open(url=own_store) as other:
        assert other.operations.rebuild(other.review.inbox()[0]).requests == ()


def test_what_was_accepted_is_what_was_decided(t, proposed):
    asked = proposed.identity
    press(t, t.reviewer.show(proposed), "reject")
    again = t.propose_operation(proposed.spec.with_volatile(["at"]), actor="agent:a")
    again.approve(volatile=True)
    decision = t.review.decisions()[0]
    assert (decision.identity, decision.arguments) == (asked, {"volatile": True})
    assert decision.fingerprint == again.fingerprint != asked


def test_the_word_is_a_bool(proposed):
    with pytest.raises(ParameterError):
        proposed.execute_tool("approve", {"volatile": "at"})


def test_a_click_accepts_it(t, proposed, monkeypatch):
    from tract_jupyter.review import decision

    monkeypatch.setattr(decision, "_PERSONAL", decision._PERSONAL | {"fake"})
    ticket = t.reviewer.show(proposed)
    assert click(ticket, "approve", volatile=True)
    t.reviewer.channel.run_due()
    assert t.operations.registry.get_spec("citation_check").volatile == {"at"}
