"""Signed rows of every kind do not count after a copy to another store or tract of the same user."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager, suppress
from typing import NamedTuple

import pytest

from tests.review.fakes import FakeChannel
from tests.review.scripted import ScriptedClient
from tract_jupyter import Tract
from tract_jupyter.exceptions import RunError, TractError, UndecidedError
from tract_jupyter.models import PendingStatus
from tract_jupyter.operations import ActionDef, RemotePending
from tract_jupyter.review import Signer, Trust
from tract_jupyter.runs.profile import OperationProfile, run_operation
from tract_jupyter.toolkit import Permission

FAILS = "tools.write(path='a')\n1 / 0"
CHECK = run_operation(
    "check", "dynamic", operation="citation_check", tag="check", fields={"urls": ["x"]}, order=10
)


def write(path: str) -> str:
    """Write a file."""
    return path


class Kind(NamedTuple):
    """A kind of signed rows: how the user creates them, their tables, and a check that they count."""

    make: object
    tables: tuple[str, ...]
    counts: object
    has_operation: bool = False


def a_reviewed_operation(t, spec):
    t.register_operation(spec())


def an_unreviewed_operation(t, spec):
    code = {"verify": ActionDef("verify", "", {}, "pending.approve()", isolation="sandbox")}
    t.autonomy.ceiling = "autonomous"
    t.propose_operation(spec(actions=code), actor="agent:a")


def a_ceiling(t, spec):
    t.autonomy.ceiling = "autonomous"


def a_handler(t, spec):
    t.hooks.save_handler("citation_check", "veto", "pending.reject('no')")


def a_grant(t, spec):
    t.fire("citation_check", {"urls": []}, review=True).approve(scope="always", whom="anybody")


def an_approval_for_a_cell(t, spec):
    t.reviewer.show(t.fire("citation_check", {"urls": []}, review=True, execute_fn=print))
    RemotePending(t.review.inbox()[0], tract=t).approve()


def a_question(t, spec):
    t.reviewer.keep(t.fire("citation_check", {"urls": []}, review=True))


def a_profile(t, spec):
    t.profiles.save(
        OperationProfile.of("p", [run_operation("mood", order=5, text="Be kind.", into="system")]),
        activate=True,
    )


def calls_of_a_script(t, spec):
    assert t.scripts.run(FAILS).error is not None


def the_beginning_of_a_run(t, spec):
    t.user("Where is it?")
    t.configure_llm(ScriptedClient("On the mat."))
    with pytest.raises(UndecidedError):
        t.generate(profile=OperationProfile.of("p", [CHECK]))


def is_active(t):
    return "citation_check" in t.status().operations


def is_granted(t):
    pending = t.fire("citation_check", {"urls": []}, review=True, execute_fn=lambda _: None)
    return t.reviewer.granted(pending)


def is_vouched_for(t):
    return t.operations.rebuild(t.review.inbox()[0]).doubt == ""


def is_used(t):
    with suppress(RunError):
        return t.profiles.active is not None
    return False


def is_replayed(t):
    return t.scripts.run(FAILS).replayed_count > 0


def is_resumed(t):
    (run,) = t.runs()
    t.configure_llm(ScriptedClient("On the mat."))
    try:
        t.runs.resume(run.run_id)
    except TractError as error:
        return "you did not begin it" not in str(error)
    return True


KINDS = {
    "reviewed": Kind(a_reviewed_operation, ("operation_specs",), is_active),
    "unreviewed": Kind(an_unreviewed_operation, ("operation_specs",), is_active),
    "last approved": Kind(
        a_reviewed_operation, ("events",), lambda t: t.operations.last_approved("citation_check") is not None
    ),
    "handler": Kind(
        a_handler,
        ("handlers",),
        lambda t: t.fire("citation_check", {"urls": []}).status is PendingStatus.REJECTED,
        has_operation=True,
    ),
    "grant": Kind(a_grant, ("grants",), is_granted, has_operation=True),
    "approval": Kind(an_approval_for_a_cell, ("pendings", "decisions"), is_granted, has_operation=True),
    "question": Kind(a_question, ("pendings",), is_vouched_for, has_operation=True),
    "settings": Kind(a_ceiling, ("settings",), lambda t: t.autonomy.ceiling == "autonomous"),
    "profile": Kind(a_profile, ("run_profiles",), is_used),
    "script": Kind(calls_of_a_script, ("script_calls",), is_replayed),
    "run": Kind(
        the_beginning_of_a_run, ("run_events", "pendings"), is_resumed, has_operation=True
    ),
}  # fmt: skip


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.fixture
def opened(kind, spec):
    """Open a tract like a process of the user, with everything that the kind needs."""

    @contextmanager
    def open_tract(path, tract_id="work", *, is_new=False):
        with Tract.open(path, tract_id=tract_id) as t:
            t.reviewer.channel = FakeChannel(reachable=False)
            t.tool(write)
            t.executor.permission = lambda tool, actor: Permission.ALLOW
            if kind.has_operation and is_new:
                t.register_operation(spec(unhandled="ask"))
            yield t

    return open_tract


@pytest.fixture
def made(kind, opened, spec, tmp_path):
    """A store of the user that contains such rows."""
    path = tmp_path / "mine.db"
    with opened(path, is_new=True) as t:
        kind.make(t, spec)
    return path


def copy(tables, mine, theirs):
    """Copy rows between two stores. Their tracts have the same id."""
    with closing(sqlite3.connect(theirs)) as connection:
        connection.execute("ATTACH ? AS mine", (str(mine),))
        for table in tables:
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})") if row[1] != "id"]
            names = ", ".join(columns)
            connection.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM mine.{table}")
            assert connection.total_changes
        connection.commit()


def give_to(tables, path, tract_id):
    """Assign the rows to another tract of the store."""
    with closing(sqlite3.connect(path)) as connection:
        for table in tables:
            connection.execute(f"UPDATE {table} SET tract_id = ? WHERE tract_id = 'work'", (tract_id,))
            assert connection.total_changes
        connection.commit()


def test_a_signed_row_counts_in_its_own_store_and_tract(kind, made, opened):
    with opened(made) as t:
        assert kind.counts(t)


def test_copied_to_another_store_of_the_user_it_does_not(kind, made, opened, tmp_path):
    with opened(tmp_path / "theirs.db", is_new=True):
        pass
    copy(kind.tables, made, tmp_path / "theirs.db")
    with opened(tmp_path / "theirs.db") as t:
        assert not kind.counts(t)


def test_given_to_another_tract_of_the_store_it_does_not(kind, made, opened):
    with opened(made, "other", is_new=True):
        pass
    give_to(kind.tables, made, "other")
    with opened(made, "other") as t:
        assert not kind.counts(t)


@pytest.mark.parametrize("secret", ["another", "none yet"])
def test_opened_by_another_user_it_does_not(kind, made, opened, secret, monkeypatch, tmp_path):
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "theirs"))
    if secret == "another":
        monkeypatch.setenv("TRACT_JUPYTER_SECRET", "ab" * 32)
    with opened(made, is_new=True) as t:  # the other user approves the operation
        assert not kind.counts(t)


def test_without_the_place_in_the_signature_it_would(kind, opened, spec, tmp_path, monkeypatch):
    """Show that the tests above can fail."""
    monkeypatch.setattr(Trust, "for_tract", lambda self, *_: Signer(self, "anywhere"))
    mine, theirs = tmp_path / "mine.db", tmp_path / "theirs.db"
    with opened(mine, is_new=True) as t:
        kind.make(t, spec)
    with opened(theirs, is_new=True):
        pass
    copy(kind.tables, mine, theirs)
    with opened(theirs) as t:
        assert kind.counts(t)


def test_a_copy_of_the_whole_store_is_the_same_store(kind, made, opened, tmp_path):
    (tmp_path / "copy.db").write_bytes(made.read_bytes())
    with opened(tmp_path / "copy.db") as t:
        assert kind.counts(t)
