"""Operations after a restart: active for the same user, quarantined for others, and not run on opening."""

from __future__ import annotations

import builtins
import json
import sqlite3
from contextlib import closing

import pytest

from tract_jupyter import Tract
from tract_jupyter.exceptions import ParameterError, SpecError, StoreLockedError, UnknownOperationError
from tract_jupyter.models import PendingStatus
from tract_jupyter.operations import ActionDef
from tract_jupyter.review import Trust


@pytest.fixture
def path(tmp_path):
    return tmp_path / "t.db"


@pytest.fixture
def stored(path, spec):
    """A store with the example operation."""
    with Tract.open(path) as t:
        t.register_operation(spec())
    return path


def change(path, column, value):
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(f"UPDATE operation_specs SET {column} = ?", (value,))
    connection.close()


def test_active_again_with_the_same_secret(stored, spec):
    with Tract.open(stored) as t:
        assert t.operations.registry.get_spec("citation_check") == spec()
        assert t.status().operations == ("citation_check",)
        assert "fire_citation_check" in dir(t.tools)
        assert t.on("citation_check", lambda p: p.verify(True))
        assert t.fire("citation_check", {"urls": ["x"]}).status is PendingStatus.REJECTED


def test_nothing_is_compiled_or_run_on_opening(path, spec, tmp_path, monkeypatch):
    target = tmp_path / "written"
    with Tract.open(path) as t:
        t.register_operation(spec(f"open({str(target)!r}, 'w').close()"))
    compiled = []
    real = builtins.compile

    def counting(source, filename, *args, **kwargs):
        if str(filename).startswith("<action:"):
            compiled.append(filename)
        return real(source, filename, *args, **kwargs)

    monkeypatch.setattr(builtins, "compile", counting)
    with Tract.open(path) as t:
        t.status()
        t.as_tools()
        dir(t.tools)
        t.review.inbox()
        assert compiled == []
        pending = t.fire("citation_check", {"urls": []}, review=True)
        assert set(compiled) == {"<action:citation_check.verify>"}
        assert not target.exists()
        pending.verify()
        assert target.exists()


@pytest.mark.parametrize("name", ["citation_check", "fresh"])
def test_rolled_back_with_its_batch_it_is_not_active_any_more(stored, spec, name):
    with Tract.open(stored) as t:
        before = t.operations.registry.to_config()
        with pytest.raises(ValueError, match="after all"), t.batch():  # noqa: PT012 # a batch is a block
            t.propose_operation(spec(name=name, description="changed")).approve()
            raise ValueError("after all")
        assert t.operations.registry.to_config() == before


def test_in_a_locked_store_it_is_not_activated(stored, spec):
    with Tract.open(stored, lock_timeout=0.05) as t:
        with closing(sqlite3.connect(stored, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreLockedError):
                t.register_operation(spec(name="fresh"))
        assert t.status().operations == ("citation_check",)


def test_a_quarantined_operation_is_not_reported_as_missing(stored, tmp_path):
    told = "operation 'citation_check' is quarantined, .*you have not approved it here.*'%tract review citation_check'"
    with Tract.open(stored, trust=Trust(tmp_path / "other")) as t:
        for call in (t.fire, t.operations.revoke):
            with pytest.raises(UnknownOperationError, match=told):
                call("citation_check")
        with pytest.raises(UnknownOperationError, match="no active operation 'other'"):
            t.fire("other")


def test_a_revoked_operation_is_reported_as_revoked_after_a_restart(stored):
    with Tract.open(stored) as t:
        t.operations.revoke("citation_check")
    with Tract.open(stored) as t:
        assert t.operations.quarantined == {"citation_check": "its approval was revoked, or it never had one"}
        with pytest.raises(UnknownOperationError, match="its approval was revoked"):
            t.fire("citation_check", {"urls": []})
        t.operations.review_quarantined("citation_check").approve()
        assert t.operations.quarantined == {}


def test_another_secret_quarantines(stored, tmp_path):
    with Tract.open(stored, trust=Trust(tmp_path / "other")) as t:
        assert t.operations.registry.operation_names == set()
        assert "you have not approved it here" in t.operations.quarantined["citation_check"]
        assert t.status().quarantined == ("citation_check",)
        assert "fire_citation_check" not in t.executor.tools()
        with pytest.raises(UnknownOperationError):
            t.fire("citation_check", {"urls": []})
    assert not (tmp_path / "other").exists()  # listing creates no secret


def test_a_secret_of_another_person_is_not_enough(stored, tmp_path):
    other = Trust(tmp_path / "other")
    other.for_project("x").sign("y", "z")
    with Tract.open(stored, trust=other) as t:
        assert set(t.operations.quarantined) == {"citation_check"}


def test_a_reviewed_operation_leaves_quarantine_and_stays_active(stored, tmp_path, spec):
    trust = Trust(tmp_path / "other")
    with Tract.open(stored, trust=trust) as t:
        pending = t.operations.review_quarantined("citation_check")
        assert pending.spec == spec()
        assert pending.code_blocks()[0].code == spec().actions["verify"].code
        assert set(t.operations.quarantined) == {"citation_check"}
        pending.approve()
        assert t.operations.quarantined == {}
        assert t.fire("citation_check", {"urls": []}).status is PendingStatus.APPROVED
    with Tract.open(stored, trust=trust) as t:
        assert t.status().operations == ("citation_check",)


def test_a_quarantined_operation_can_be_removed(stored, tmp_path):
    for _ in range(2):
        with Tract.open(stored, trust=Trust(tmp_path / "other")) as t:
            if t.operations.quarantined:
                t.unregister_operation("citation_check")
            assert t.operations.quarantined == {}
    with Tract.open(stored) as t:
        assert t.status().operations == ()


def test_the_name_of_a_quarantined_one_is_free(stored, tmp_path, spec):
    with Tract.open(stored, trust=Trust(tmp_path / "other")) as t:
        t.register_operation(spec("pending.reject('mine')"))
        assert t.operations.quarantined == {}
        assert t.operations.registry.get_spec("citation_check") == spec("pending.reject('mine')")


def test_tampered_code_is_quarantined_and_never_run(stored, tmp_path):
    connection = sqlite3.connect(stored)
    (text,) = connection.execute("SELECT spec_json FROM operation_specs").fetchone()
    connection.close()
    data = json.loads(text)
    data["actions"]["verify"]["code"] = f"open({str(tmp_path / 'written')!r}, 'w').close()"
    change(stored, "spec_json", json.dumps(data))
    with Tract.open(stored) as t:
        assert set(t.operations.quarantined) == {"citation_check"}
        assert t.operations.registry.operation_names == set()
        pending = t.operations.review_quarantined("citation_check")
        assert "written" in pending.code_blocks()[0].code
    assert not (tmp_path / "written").exists()


@pytest.mark.parametrize("signature", ["", "0" * 64, pytest.param("é" * 64, id="no ASCII"), 3])
def test_an_operation_with_a_forged_signature_is_quarantined(stored, signature):
    change(stored, "signature", signature)
    with Tract.open(stored) as t:
        assert set(t.operations.quarantined) == {"citation_check"}


@pytest.mark.parametrize(
    "text", ["", "{", "null", "[]", '{"name": 3}', pytest.param("[" * 100_000, id="deep")]
)
def test_an_unreadable_row_is_quarantined_and_says_so(stored, text, spec):
    change(stored, "spec_json", text)
    with Tract.open(stored) as t:
        assert set(t.operations.quarantined) == {"citation_check"}
        with pytest.raises(SpecError, match="cannot be read"):
            t.operations.review_quarantined("citation_check")
        t.register_operation(spec())
    with Tract.open(stored) as t:
        assert t.status().operations == ("citation_check",)


def test_a_signed_row_under_another_name_is_quarantined(stored):
    change(stored, "name", "other")
    with Tract.open(stored) as t:
        assert "calls itself 'citation_check'" in t.operations.quarantined["other"]
        assert t.operations.registry.operation_names == set()


def test_a_damaged_secret_quarantines_and_does_not_prevent_opening(stored, data_dir):
    (data_dir / "tract_jupyter" / "secret").write_bytes(b"short")
    with Tract.open(stored) as t:
        assert "damaged" in t.operations.quarantined["citation_check"]


def test_review_of_an_operation_that_is_not_quarantined_is_refused(stored):
    with Tract.open(stored) as t:
        for name in ("citation_check", "nothing"):
            with pytest.raises(SpecError, match="waits for review"):
                t.operations.review_quarantined(name)


def test_removed_for_good(stored):
    with Tract.open(stored) as t:
        t.unregister_operation("citation_check")
    with Tract.open(stored) as t:
        assert (t.status().operations, t.status().quarantined) == ((), ())


def test_the_order_of_fields_parameters_and_actions_is_kept(path, spec):
    actions = {
        name: ActionDef(name, "", {"zeta": "int", "alpha": "int"}, "return zeta, alpha")
        for name in ("second", "first")
    }
    fields = {"zeta": {"type": "int"}, "alpha": {"type": "int"}}
    with Tract.open(path) as t:
        t.register_operation(spec(fields=fields, actions=actions))
    with Tract.open(path) as t:
        assert t.tools.fire_citation_check(1, 2)["fields"] == {"zeta": 1, "alpha": 2}
        pending = t.fire("citation_check", fields={"zeta": 1, "alpha": 2}, review=True)
        assert pending.first(3, 4) == (3, 4)
        assert [block.title for block in pending.code_blocks()] == ["second", "first"]


def test_the_order_survives_a_proposal_that_another_process_approves(path, spec):
    fields = {"zeta": {"type": "int"}, "alpha": {"type": "int"}}
    with Tract.open(path) as t:
        t.reviewer.show(t.propose_operation(spec(fields=fields)))
    with Tract.open(path) as t:
        t.operations.rebuild(t.review.inbox()[0]).approve()
        assert t.tools.fire_citation_check(1, 2)["fields"] == {"zeta": 1, "alpha": 2}


def test_the_stored_spec_equals_the_active_spec(path, spec):
    """Tuples become lists at once, not at the next opening."""
    made = spec(fields={"a": {"type": "Any", "default": (1, 2)}})
    with Tract.open(path) as t:
        t.register_operation(made)
        assert t.fire("citation_check").fields == {"a": [1, 2]}
    with Tract.open(path) as t:
        assert t.fire("citation_check").fields == {"a": [1, 2]}


def test_typed_defaults_are_checked_at_definition(path, spec):
    with Tract.open(path) as t, pytest.raises((SpecError, ParameterError)):
        t.register_operation(spec(fields={"a": {"type": "list[int]", "default": ["x"]}}))
    with Tract.open(path) as t:
        assert (t.status().operations, t.status().quarantined) == ((), ())


def test_tracts_in_one_store_have_their_own_operations(stored, spec):
    with Tract.open(stored, tract_id="other") as t:
        assert t.status().operations == ()
        t.register_operation(spec("pending.reject()"))
    with Tract.open(stored) as t:
        assert t.operations.registry.get_spec("citation_check") == spec()
