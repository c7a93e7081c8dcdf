"""Proposals of a model that become active without the user, and proposals that do not."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing

import pytest

from tract_jupyter import Tract
from tract_jupyter.exceptions import OperationExistsError, SpecError
from tract_jupyter.models import PendingStatus
from tract_jupyter.operations import MOST_UNREVIEWED, ActionDef
from tract_jupyter.review import Trust

CODE = "pending.fields['verified'] = True\npending.approve()"


@pytest.fixture
def sandboxed(spec):
    """The example operation with its code in the sandbox."""

    def make(code=CODE, isolation="sandbox", **changes):
        actions = {"verify": ActionDef("verify", "", {}, code, isolation=isolation)}
        return spec(**{"actions": actions, **changes})

    return make


@pytest.fixture
def propose(tract):
    def by_a_model(spec, tract=tract):
        tract.autonomy.ceiling = "autonomous"
        return tract.propose_operation(spec, actor="agent:7")

    return by_a_model


def unreviewed(tract):
    return set(tract.operations.registry.unreviewed)


def test_a_sandboxed_proposal_is_active_at_once_and_recorded_as_unreviewed(tract, sandboxed, propose):
    pending = propose(sandboxed())
    assert pending.status is PendingStatus.APPROVED
    assert (tract.status().operations, unreviewed(tract)) == (("citation_check",), {"citation_check"})
    (made,) = tract.review.decisions()
    assert (made.action, made.channel, made.decided_by) == ("approve", "automatic", "nobody")
    event = tract.events("operation.activated")[0]
    assert (event.actor, event.data["reviewed"]) == ("agent:7", False)
    assert "runs in the sandbox" in event.data["why"]
    assert tract.review.inbox() == []


@pytest.mark.parametrize("ceiling", ["manual", "collaborative"])
def test_below_autonomous_a_person_reviews_it(tract, sandboxed, ceiling):
    tract.autonomy.ceiling = ceiling
    pending = tract.propose_operation(sandboxed(), actor="agent:7")
    assert (pending.status, tract.status().operations) == (PendingStatus.PENDING, ())
    pending.approve()
    assert (tract.status().operations, unreviewed(tract)) == (("citation_check",), set())


def test_firing_an_unreviewed_operation_still_goes_through_the_gate(tract, sandboxed, propose):
    propose(sandboxed(unhandled="ask"))
    with_model = tract.toolset("full", actor="agent:7")
    assert "needs a decision" in with_model.execute("fire_citation_check", {"urls": []}).error
    fired = tract.fire("citation_check", {"urls": []}, review=True)
    request = fired.review_request()
    assert "no user has reviewed it" in request.why
    assert "can use only pending.fields" in request.code[0].analysis_note
    other = tract.fire("citation_check", {"urls": ["u"]}, review=True)
    fired.verify()
    assert (fired.status, fired.fields["verified"], other.status) == ("approved", True, "pending")


def test_the_tool_description_says_that_no_user_reviewed_the_operation(tract, sandboxed, propose):
    propose(sandboxed())
    assert "No user has reviewed it" in tract.executor.get("fire_citation_check").description
    tract.operations.review_quarantined("citation_check").approve()
    assert "reviewed" not in tract.executor.get("fire_citation_check").description


OTHERS = {
    "in the kernel": {"isolation": "kernel"},
    "without code": {"actions": {}},
    "partly": {
        "actions": {"a": ActionDef("a", "", {}, CODE, isolation="sandbox"), "b": ActionDef("b", "", {}, CODE)}
    },
}


@pytest.mark.parametrize("changes", OTHERS.values(), ids=OTHERS)
def test_other_code_needs_a_person(tract, sandboxed, propose, changes):
    assert propose(sandboxed(**changes)).status is PendingStatus.PENDING
    assert tract.status().operations == ()


def test_a_persons_own_is_reviewed_by_the_person(tract, sandboxed):
    assert tract.propose_operation(sandboxed()).status is PendingStatus.PENDING


def remove(tract, spec):
    tract.register_operation(spec)
    tract.unregister_operation(spec.name)


def revoke(tract, spec):
    tract.register_operation(spec)
    tract.operations.revoke(spec.name)


KNOWN = {
    "active": lambda t, s: t.register_operation(s),
    "removed": remove,
    "revoked": revoke,
    "asked for": lambda t, s: t.reviewer.keep(t.propose_operation(s)),
    "rejected": lambda t, s: t.propose_operation(s).reject("no"),
    "active, not reviewed": lambda t, s: t.propose_operation(s, actor="agent:8"),
}


@pytest.mark.parametrize("known", KNOWN.values(), ids=KNOWN)
def test_a_proposal_with_a_known_name_needs_approval(tract, sandboxed, propose, known):
    known(tract, sandboxed())
    before = tract.operations.registry.get_spec("citation_check")
    assert propose(sandboxed(description="another")).status is PendingStatus.PENDING
    assert tract.operations.registry.get_spec("citation_check") == before


def test_proposing_an_active_operation_again_is_refused(sandboxed, propose):
    propose(sandboxed())
    with pytest.raises(SpecError, match="already active"):
        propose(sandboxed())


def test_code_that_the_sandbox_cannot_run_is_refused_and_not_stored(tract, sandboxed, propose):
    with pytest.raises(SpecError, match="no module 'os'"):
        propose(sandboxed("import os"))
    assert (tract.events("operation.*"), tract.review.decisions()) == ([], [])


def test_the_number_of_unreviewed_operations_is_limited(tract, sandboxed, propose):
    for number in range(MOST_UNREVIEWED):
        propose(sandboxed(name=f"op_{number}"))
    assert propose(sandboxed()).status is PendingStatus.PENDING
    tract.unregister_operation("op_0")
    assert propose(sandboxed(name="one_more")).status is PendingStatus.APPROVED


def test_a_person_can_review_it_later(tract, sandboxed, propose):
    propose(sandboxed())
    pending = tract.operations.review_quarantined("citation_check")
    assert pending.title == "Activate operation citation_check"
    assert "active without a review" in pending.why()
    assert [table.title for table in pending.tables()] == ["Fields", "What it can access"]
    pending.approve()
    assert unreviewed(tract) == set()
    with pytest.raises(SpecError, match="nothing to review|no stored"):
        tract.operations.review_quarantined("citation_check")


def test_an_unreviewed_version_is_not_the_baseline_for_the_next_version(tract, sandboxed, propose):
    tract.operations.carry_grants = True
    propose(sandboxed())
    tract.fire("citation_check", {"urls": []}, review=True).approve(scope="always")
    replaced = tract.propose_operation(sandboxed(isolation="kernel"))
    assert [block.title for block in replaced.code_blocks()] == ["verify"]
    assert "What it can access" in [table.title for table in replaced.tables()]
    replaced.approve()
    assert not tract.reviewer.granted(tract.fire("citation_check", {"urls": []}, review=True))
    assert unreviewed(tract) == set()


def test_an_operation_stays_unreviewed_after_a_restart_and_in_other_processes(tmp_path, sandboxed, propose):
    with Tract.open(tmp_path / "t.db") as first, Tract.open(tmp_path / "t.db") as other:
        propose(sandboxed(), first)
        other.operations.look_again()
        assert unreviewed(other) == {"citation_check"}
        first.operations.review_quarantined("citation_check").approve()
        other.operations.look_again()
        assert unreviewed(other) == set()
        propose(sandboxed(name="fresh"), first)
    with Tract.open(tmp_path / "t.db") as t:
        assert unreviewed(t) == {"fresh"}
        fired = t.fire("fresh", {"urls": []}, review=True)
        fired.verify()
        assert fired.status is PendingStatus.APPROVED
    with Tract.open(tmp_path / "t.db", trust=Trust(tmp_path / "other")) as t:
        assert unreviewed(t) == set()
        assert "you have not approved it here" in t.operations.quarantined["fresh"]


def test_changed_in_the_store_it_is_not_active(tmp_path, sandboxed, propose):
    with Tract.open(tmp_path / "t.db") as t:
        propose(sandboxed(), t)
    with closing(sqlite3.connect(tmp_path / "t.db")) as connection, connection:
        connection.execute("UPDATE operation_specs SET spec_json = replace(spec_json, 'sandbox', 'kernel')")
    with Tract.open(tmp_path / "t.db") as t:
        assert "you have not approved it here" in t.operations.quarantined["citation_check"]


def test_an_operation_just_stored_by_another_process_is_not_replaced(tmp_path, sandboxed, propose):
    with Tract.open(tmp_path / "t.db") as first, Tract.open(tmp_path / "t.db") as other:
        # created before the other process stores its operation
        pending = other.operations.activation(sandboxed(), is_reviewed=False, actor="agent:7")
        first.register_operation(sandboxed(description="a person's"))
        with pytest.raises(OperationExistsError, match="has just stored"):
            pending.approve()
        other.operations.look_again()
        assert other.operations.registry.get_spec("citation_check").description == "a person's"


def test_rolled_back_with_its_batch_it_is_not_active(tract, sandboxed, propose):
    with pytest.raises(ValueError, match="after all"), tract.batch():  # noqa: PT012 # a batch is a block
        propose(sandboxed())
        raise ValueError("after all")
    assert (tract.status().operations, unreviewed(tract)) == ((), set())


ELSEWHERE = """
from tract_jupyter import Tract
with Tract.open({path!r}) as t:
    (stored,) = t.review.inbox()
    pending = t.operations.rebuild(stored)
    pending.verify()
    print(pending.status, pending.fields)
"""


@pytest.mark.slow
def test_another_process_can_run_a_stored_unreviewed_operation(tmp_path, sandboxed, propose):
    path = str(tmp_path / "t.db")
    with Tract.open(path) as t:
        propose(sandboxed(), t)
        t.reviewer.keep(t.fire("citation_check", {"urls": ["u"]}, review=True))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(ELSEWHERE.format(path=path))],
        check=True, timeout=60, text=True, capture_output=True, env=dict(os.environ),
    )  # fmt: skip
    assert done.stdout == "approved {'urls': ['u'], 'verified': True}\n"
