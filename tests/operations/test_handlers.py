"""Handlers after a restart: active for the same user, quarantined for others, and not run on opening."""

from __future__ import annotations

import builtins
import sqlite3
from contextlib import closing

import pytest

from tests.review.scripted import ScriptedClient, call, reply
from tract_jupyter import Tract
from tract_jupyter.exceptions import (
    OperationError,
    SpecError,
    StoreLockedError,
    UndecidedError,
    UnknownOperationError,
)
from tract_jupyter.review import Trust


@pytest.fixture
def path(tmp_path, spec):
    """A store with an operation and a handler that rejects it."""
    with Tract.open(tmp_path / "t.db") as t:
        t.register_operation(spec(fields={}))
        t.hooks.save_handler("citation_check", "no", "pending.reject('the handler says no')")
    return tmp_path / "t.db"


def execute(path, statement, *values):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement, values)


def fired(t):
    return t.fire("citation_check").rejection_reason


def test_a_saved_handler_decides_at_once_and_after_a_restart(path):
    for _ in range(2):
        with Tract.open(path) as t:
            assert fired(t) == "the handler says no"
            assert t.hooks.list() == {"citation_check": ["no"]}
            (decision, *_) = t.review.decisions()
            assert (decision.decided_by, decision.channel) == ("handler:no", "handler")


def test_nothing_is_compiled_or_run_on_opening(path, tmp_path, monkeypatch):
    target = tmp_path / "written"
    with Tract.open(path) as t:
        t.hooks.save_handler("*", "spy", f"open({str(target)!r}, 'w').close()")
    compiled = []
    real = builtins.compile

    def counting(source, filename, *args, **kwargs):
        compiled.append(str(filename))
        return real(source, filename, *args, **kwargs)

    monkeypatch.setattr(builtins, "compile", counting)
    with Tract.open(path) as t:
        t.hooks.list()
        t.status()
        assert not [name for name in compiled if name.startswith("<action:handler")]
        assert not target.exists()
        t.fire("citation_check")
        assert target.exists()


@pytest.mark.parametrize("name", ["no", "fresh"])
def test_a_handler_saved_in_a_rolled_back_batch_does_not_decide(path, name):
    with Tract.open(path) as t:
        with pytest.raises(ValueError, match="after all"), t.batch():  # noqa: PT012 # a batch is a block
            t.hooks.save_handler("citation_check", name, "pending.approve()")
            raise ValueError("after all")
        assert t.hooks.list() == {"citation_check": ["no"]}
        assert fired(t) == "the handler says no"


def test_in_a_locked_store_it_is_not_activated(path):
    with Tract.open(path, lock_timeout=0.05) as t:
        pending = t.hooks.propose_handler("citation_check", "no", "pending.approve()")
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreLockedError):
                t.hooks.saved.activate(pending.spec)
            assert (
                t.hooks.saved.active["citation_check", "no"].code == "pending.reject('the handler says no')"
            )
        assert fired(t) == "the handler says no"


def test_another_secret_quarantines_and_review_activates(path, tmp_path):
    trust = Trust(tmp_path / "other")
    with Tract.open(path, trust=trust) as t:
        assert t.hooks.list() == {}
        assert "you have not approved it here" in t.hooks.saved.quarantined["citation_check", "no"]
        t.operations.review_quarantined("citation_check").approve()
        assert fired(t) == ""
        pending = t.hooks.saved.review_quarantined("citation_check", "no")
        assert pending.code_blocks()[-1].code == "pending.reject('the handler says no')"
        pending.approve()
        assert fired(t) == "the handler says no"
        assert t.hooks.saved.quarantined == {}
    with Tract.open(path, trust=trust) as t:
        assert fired(t) == "the handler says no"


def test_revoking_a_quarantined_handler_reports_it_as_quarantined_not_missing(path, tmp_path):
    with Tract.open(path, trust=Trust(tmp_path / "other")) as t:
        told = "handler 'no' of 'citation_check' is quarantined, .*%tract review citation_check/no'"
        with pytest.raises(SpecError, match=told):
            t.hooks.revoke_handler("citation_check", "no")
        with pytest.raises(SpecError, match="no stored handler 'other'"):
            t.hooks.revoke_handler("citation_check", "other")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (
            "spec_json",
            '{"operation":"citation_check","name":"no","code":"pending.approve()","description":""}',
        ),
        ("spec_json", "{"),
        ("signature", "0" * 64),
        ("name", "other"),
        ("operation", "*"),
    ],
)
def test_a_handler_changed_in_the_store_is_quarantined(path, column, value):
    execute(path, f"UPDATE handlers SET {column} = ?", value)
    with Tract.open(path) as t:
        assert (t.hooks.list(), len(t.hooks.saved.quarantined)) == ({}, 1)
        assert fired(t) == ""


def test_revoking_deactivates_for_good_until_it_is_reviewed_again(path):
    with Tract.open(path) as t:
        t.hooks.revoke_handler("citation_check", "no")
        assert (fired(t), t.hooks.list()) == ("", {})
    with Tract.open(path) as t:
        assert ("citation_check", "no") in t.hooks.saved.quarantined
        t.hooks.saved.review_quarantined("citation_check", "no").approve()
        assert fired(t) == "the handler says no"


def test_revoking_an_operation_deactivates_it_for_good_until_it_is_reviewed_again(path):
    with Tract.open(path) as t:
        t.operations.revoke("citation_check")
        with pytest.raises(UnknownOperationError):
            t.fire("citation_check")
        assert "took its approval back" in t.operations.quarantined["citation_check"]
        with pytest.raises(UnknownOperationError):
            t.operations.revoke("citation_check")
    with Tract.open(path) as t:
        assert t.status().quarantined == ("citation_check",)
        pending = t.operations.review_quarantined("citation_check")
        assert [block.title for block in pending.code_blocks()] == ["verify"]  # nothing has changed
        pending.approve()
        assert t.status().operations == ("citation_check",)


def test_a_handler_proposal_shows_its_new_access_and_replaces_only_when_approved(path):
    with Tract.open(path) as t:
        pending = t.hooks.propose_handler(
            "citation_check", "no", "import os\nos.remove('x')\npending.reject('no')"
        )
        assert pending.title == "Replace handler no of citation_check"
        assert fired(t) == "the handler says no"
        (table,) = pending.tables()
        reached = {row.name: row.value for row in table.rows}
        assert table.title == "What it can access that the approved version could not"
        assert (reached["imports"], reached["files"]) == ("os", "delete:x")
        pending.approve()
        assert t.hooks.list() == {"citation_check": ["no"]}


def test_a_deleted_handler_stays_deleted_after_a_restart(path):
    with Tract.open(path) as t:
        t.hooks.delete_handler("citation_check", "no")
        assert fired(t) == ""
        with pytest.raises(SpecError, match="no stored handler"):
            t.hooks.delete_handler("citation_check", "no")
    with Tract.open(path) as t:
        assert (t.hooks.list(), t.hooks.saved.quarantined) == ({}, {})


@pytest.mark.parametrize(
    ("operation", "name", "code", "words"),
    [
        ("nothing", "no", "pass", "no operation 'nothing'"),
        ("citation_check", "not a name", "pass", "not a valid name for a handler"),
        ("citation_check", "no", "", "there is no code"),
        ("citation_check", "no", "def", "invalid syntax"),
        ("citation_check", "no", "yield 1", "yield"),
        ("citation_check", "no", 7, "must be a text"),
    ],
)
def test_an_invalid_handler_is_refused_and_the_old_one_stays_active(path, operation, name, code, words):
    with Tract.open(path) as t:
        for offer in (t.hooks.save_handler, t.hooks.propose_handler):
            with pytest.raises(OperationError, match=words):
                offer(operation, name, code)
        assert fired(t) == "the handler says no"


def test_a_proposal_can_be_approved_by_another_process(path):
    with Tract.open(path) as t:
        t.reviewer.keep(t.hooks.propose_handler("citation_check", "more", "pending.reject('more')"))
    with Tract.open(path) as t:
        t.operations.rebuild(t.review.inbox()[0]).approve()
        assert t.hooks.list() == {"citation_check": ["no", "more"]}
        assert t.review.inbox() == []


def test_an_operation_that_is_forgotten_takes_its_handlers_along(path, spec):
    with Tract.open(path) as other, Tract.open(path) as t:
        other.hooks.save_handler("citation_check", "theirs", "pending.approve()")
        t.unregister_operation("citation_check")
        assert (t.hooks.list(), t.hooks.saved.active) == ({}, {})
    with Tract.open(path) as t:
        assert (t.hooks.list(), t.hooks.saved.active, t.hooks.saved.quarantined) == ({}, {}, {})
        t.register_operation(spec(fields={}, unhandled="ask"))
        assert t.fire("citation_check").status == "pending"  # the new operation has no handlers


def test_an_operation_that_cannot_be_unregistered_keeps_its_handlers(path):
    with Tract.open(path) as t:
        t.hooks.save_handler("gc", "veto", "pending.reject('no')")
        with pytest.raises(UnknownOperationError):
            t.unregister_operation("gc")
        assert t.hooks.list()["gc"] == ["veto"]


def test_a_handler_that_code_registered_is_not_replaced_by_a_stored_one(path):
    with Tract.open(path) as t:
        pending = t.hooks.propose_handler("citation_check", "veto", "pending.approve()")
        t.on("citation_check", lambda pending: pending.reject("never"), name="veto", before=True)
        for take_its_place in (
            lambda: t.hooks.propose_handler("citation_check", "veto", "pending.approve()"),
            lambda: t.hooks.save_handler("citation_check", "veto", "pending.approve()"),
            pending.approve,
        ):
            with pytest.raises(SpecError, match="registered by code; choose another name, or call off"):
                take_its_place()
        assert fired(t) == "never"
        t.off("citation_check", "veto")
        t.hooks.save_handler("citation_check", "veto", "pending.reject('stored')")
        assert t.hooks.list()["citation_check"] == ["no", "veto"]


# --- a lost guard: a handler that is not approved here


@pytest.fixture
def unguarded(path):
    """A store whose guard was changed without the user's secret."""
    execute(path, "UPDATE handlers SET spec_json = replace(spec_json, 'says no', 'says yes')")
    with Tract.open(path) as t:
        yield t


def test_an_operation_with_a_lost_guard_asks_the_user(unguarded):
    assert unguarded.status().quarantined_handlers == ("citation_check/no",)
    pending = unguarded.fire("citation_check")
    assert pending.status == "pending"
    assert [one.pending_id for one in unguarded.review.inbox()] == [pending.pending_id]
    why = pending.review_request().why
    assert "'no'" in why
    assert "not approved here" in why
    assert "not_approved" in [event.outcome for event in unguarded.hooks.log("citation_check", handler="no")]


def test_a_catch_all_sees_but_cannot_approve_an_operation_with_a_lost_guard(unguarded):
    seen = []
    unguarded.on("*", lambda pending: (seen.append(pending.operation), pending.approve()), name="yes")
    pending = unguarded.fire("citation_check")
    assert (pending.status, seen) == ("pending", ["citation_check"])
    (event,) = unguarded.hooks.log("citation_check", handler="yes")
    assert event.outcome == "undecided"
    assert "not approved here" in event.error
    assert pending.approve() is None
    assert pending.status == "approved"  # the user's own code


def test_a_catch_all_behind_a_lost_one_approves_nothing(path):
    with Tract.open(path) as t:
        t.hooks.delete_handler("citation_check", "no")
        t.hooks.save_handler("*", "watch", "pass")
        t.on("*", lambda pending: pending.approve())
        t.hooks.revoke_handler("*", "watch")
        assert t.fire("citation_check").status == "pending"


def catch_all_model(t):
    client = ScriptedClient(reply(None, call("approve")))
    t.on("*", lambda pending: pending.consult("Is it good?", client=client, max_turns=1))


@pytest.mark.parametrize(
    ("add", "status"),
    [
        (lambda t: t.on("citation_check", lambda pending: pending.approve()), "pending"),
        (lambda t: t.on("*", lambda pending: pending.reject("never")), "rejected"),
        (catch_all_model, "pending"),
        (lambda t: t.on("citation_check", lambda pending: pending.reject("no"), before=True), "rejected"),
        (lambda t: t.fire("citation_check").approve(scope="always"), "pending"),
        (lambda t: (t.off("citation_check"), t.off("citation_check", "no")), "pending"),
    ],
    ids=["behind it", "catch-all", "model of a catch-all", "before it", "standing approval", "off"],
)
def test_other_handlers_and_grants_do_not_replace_a_lost_guard(unguarded, add, status):
    add(unguarded)
    assert unguarded.fire("citation_check").status == status


@pytest.mark.parametrize("how", ["delete", "review"])
def test_a_lost_guard_asks_until_it_is_deleted_or_reviewed(unguarded, how):
    if how == "delete":
        unguarded.hooks.delete_handler("citation_check", "no")
        assert unguarded.fire("citation_check").status == "approved"
    else:
        unguarded.hooks.saved.review_quarantined("citation_check", "no").approve()
        assert unguarded.fire("citation_check").status == "rejected"
    assert unguarded.status().quarantined_handlers == ()


def test_a_revoked_guard_asks_and_keeps_its_position_after_review(path):
    with Tract.open(path) as t:
        t.on("citation_check", lambda pending: pending.approve(), name="yes")
        t.hooks.revoke_handler("citation_check", "no")
        assert t.fire("citation_check").status == "pending"
        t.hooks.saved.review_quarantined("citation_check", "no").approve()
        assert t.hooks.list() == {"citation_check": ["no", "yes"]}


def test_a_lost_catch_all_asks_only_about_undecided_operations(path):
    with Tract.open(path) as t:
        t.hooks.save_handler("*", "watch", "pass")
        t.hooks.delete_handler("citation_check", "no")
        t.hooks.revoke_handler("*", "watch")
        assert t.fire("citation_check").status == "pending"
        t.on("citation_check", lambda pending: pending.approve())
        assert t.fire("citation_check").status == "approved"


def test_a_lost_guard_of_the_package_s_own_operations_asks_too(path):
    with Tract.open(path) as t:
        t.hooks.save_handler("gc", "never", "pending.reject('never')")
        t.hooks.revoke_handler("gc", "never")
        with pytest.raises(UndecidedError, match="inbox"):
            t.gc()


def test_code_cannot_take_the_name_of_a_lost_guard(unguarded):
    with pytest.raises(OperationError, match=r"not approved here.*delete_handler"):
        unguarded.on("citation_check", lambda pending: pending.approve(), name="no")


# --- handlers that were approved together

GUARD = "if pending.triggered_by == 'bad':\n    pending.reject('guarded')"


@pytest.fixture
def together(path):
    """A store with a guard, and handlers behind it that approve."""
    with Tract.open(path) as t:
        t.hooks.delete_handler("citation_check", "no")
        t.hooks.save_handler("citation_check", "guard", GUARD)
        t.hooks.save_handler("citation_check", "yes", "pending.approve()")
        t.hooks.save_handler("citation_check", "more", "pass")
        t.hooks.save_handler("*", "seen", "pass")
    return path


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM handlers WHERE name = 'guard'",
        "UPDATE handlers SET id = 100 WHERE name = 'guard'",
        "UPDATE handlers SET id = 100, signature = 'x' WHERE name = 'guard'",
        "UPDATE handlers SET id = 100, name = 'other' WHERE name = 'guard'",
        "UPDATE handlers SET operation = '*' WHERE name = 'guard'",
        "UPDATE handlers SET tract_id = 'other' WHERE name = 'guard'",
        "UPDATE handlers SET beside_json = '[\"yes\",\"more\"]' WHERE name IN ('yes', 'more')",
        "UPDATE handlers SET beside_json = '{' WHERE name IN ('yes', 'more')",
    ],
)
def test_a_changed_group_of_handlers_approved_together_asks_the_user(together, change):
    execute(together, change)
    with Tract.open(together) as t:
        assert t.fire("citation_check", triggered_by="bad").status in {"pending", "rejected"}
        assert t.fire("citation_check", triggered_by="good").status == "pending"
        assert t.hooks.list().get("*") == ["seen"]
        assert "citation_check/yes" in t.status().quarantined_handlers


def test_a_group_of_handlers_stays_valid_when_the_user_changes_it(together):
    def statuses(t):
        return [t.fire("citation_check", triggered_by=kind).status for kind in ("bad", "good")]

    with Tract.open(together) as one, Tract.open(together) as other:
        other.hooks.save_handler("citation_check", "last", "pass")  # unknown to the first tract
        one.hooks.save_handler("citation_check", "more", "str(pending)")
        one.hooks.revoke_handler("citation_check", "more")
    with Tract.open(together) as t:
        assert statuses(t) == ["rejected", "approved"]
        assert t.status().quarantined_handlers == ("citation_check/more",)
        t.hooks.delete_handler("citation_check", "more")
    with Tract.open(together) as t:
        assert statuses(t) == ["rejected", "approved"]
        t.hooks.delete_handler("citation_check", "guard")
    with Tract.open(together) as t:
        assert t.status().quarantined_handlers == ()
        assert statuses(t) == ["approved", "approved"]


def test_a_foreign_handler_row_does_not_revoke_the_group(together):
    columns = "tract_id, operation, {}, spec_json, spec_hash, signature, created_at"
    into, values = columns.format("name"), columns.format("'theirs'")
    execute(together, f"INSERT INTO handlers ({into}) SELECT {values} FROM handlers WHERE name = 'yes'")
    with Tract.open(together) as t:
        assert t.status().quarantined_handlers == ("citation_check/theirs",)
        assert t.fire("citation_check", triggered_by="bad").status == "rejected"


def test_removing_an_operation_tells_of_each_of_its_handlers(tract, spec):
    tract.register_operation(spec())
    for name in ("first", "second"):
        tract.hooks.save_handler("citation_check", name, "pending.reject('no')")
    tract.operations.remove("citation_check")
    told = [event.data for event in tract.events("handler.removed")]
    assert sorted(told, key=lambda data: data["name"]) == [
        {"operation": "citation_check", "name": "first"}, {"operation": "citation_check", "name": "second"},
    ]  # fmt: skip
    assert tract.hooks.saved.all() == []
