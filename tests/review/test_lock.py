"""Recorded decisions: the file, the queue, and their use in headless runs."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.review.fakes import FakeChannel
from tests.review.rigging import PROJECT, decisions, project
from tract_jupyter import Tract
from tract_jupyter.exceptions import (
    LockFileError,
    NobodyToAskError,
    PendingError,
    PendingStateError,
    TrustError,
)
from tract_jupyter.operations import ActionDef
from tract_jupyter.review import (
    Answer,
    RecordedDecision,
    RecordedDecisions,
    Trust,
    lock_text,
    merged,
    read_lock,
    recordable_decisions,
    write_lock,
)

IDENTITY = "ab" * 32


def entry(**changes):
    made = RecordedDecision(
        "operation", "deploy", IDENTITY, "approve", {}, "ada", "2026-01-02T03:04:05.000006+00:00"
    )
    return replace(made, **changes).signed(project())


# --- the file


def test_a_lock_file_round_trips(tmp_path):
    path = tmp_path / "tract.lock.json"
    entries = [
        entry(arguments={"reason": "zu früh", "b": [1, None]}),
        entry(kind="activation", action="reject"),
    ]
    write_lock(path, entries)
    assert sorted(read_lock(path), key=lambda e: e.kind) == sorted(entries, key=lambda e: e.kind)
    assert all(e.verifies(project().signer) for e in read_lock(path))
    assert list(tmp_path.glob("*lock*")) == [path]
    assert "zu früh" in path.read_text(encoding="utf-8")


def test_a_file_that_is_not_there_has_no_entries(tmp_path):
    assert read_lock(tmp_path / "tract.lock.json") == ()


def test_the_lock_text_depends_only_on_entries_and_keeps_queue_order():
    first, second = entry(action="a"), entry(action="b")
    other = entry(title="aaa", identity="cd" * 32)
    assert lock_text([first, second, other]) == lock_text([other, first, second])
    assert lock_text([first, second]) != lock_text([second, first])
    lines = lock_text([first, other]).splitlines()
    assert lines[:4] == ["{", '  "version": 1,', '  "entries": [', "    {"]
    assert lock_text([first, other]).endswith("}\n")


@pytest.mark.parametrize(("text", "why"), [
    ("", "Expecting value"),
    ("[]", "not an object with a version"),
    ('{"version": 1}', "not an object with a version"),
    ('{"version": 2, "entries": []}', "version 2"),
    ('{"version": true, "entries": []}', "version True"),
    ('{"version": 1, "entries": [1]}', "entry 1 must be an object"),
    ('{"version": 1, "entries": [{"kind": "x"}]}', "entry 1.title is missing"),
    ('<<<<<<< HEAD\n{"version": 1, "entries": []}', "Expecting value"),
    ('{"version": 1, "entries": [NaN]}', "NaN is not JSON"),
    ("[" * 200_000, "cannot be read as a lock file"),
    ('{"version": 1, "entries": [{"action": "reject", "action": "approve"}]}', "'action' is named twice"),
    ('{"version": 1, "entries": [{"arguments": {"x": 1, "x": 2}}]}', "'x' is named twice"),
    ('{"version": 1, "entries": [], "entries": []}', "'entries' is named twice"),
])  # fmt: skip
def test_an_invalid_lock_file_is_refused(tmp_path, text, why):
    path = tmp_path / "tract.lock.json"
    path.write_text(text)
    with pytest.raises(LockFileError, match=why) as caught:
        read_lock(path)
    assert str(path) in str(caught.value)
    assert "delete it" in str(caught.value)
    assert isinstance(caught.value, PendingError)


@pytest.mark.parametrize(("changes", "why"), [
    ({"arguments": []}, "arguments must be an object"), ({"decided_by": 1}, "decided_by must be text"),
    ({"identity": "AB" * 32}, "identity must match"), ({"identity": ""}, "identity must match"),
    ({"title": "\ud800"}, "surrogate"), ({"more": 1}, "no part 'more'"),
])  # fmt: skip
def test_an_entry_of_another_shape_is_refused(tmp_path, changes, why):
    path = tmp_path / "tract.lock.json"
    data = json.loads(lock_text([entry(), entry(action="b")]))
    data["entries"][1] |= changes
    path.write_text(json.dumps(data))
    with pytest.raises(LockFileError, match=f"entry 2.*{why}"):
        read_lock(path)


def test_a_binary_file_and_a_folder_are_refused(tmp_path):
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "folder").mkdir()
    for name in ("bytes", "folder"):
        with pytest.raises(LockFileError, match=name):
            read_lock(tmp_path / name)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs here")
def test_a_pipe_and_a_link_to_a_device_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    for name in ("pipe", "link"):
        with pytest.raises(LockFileError, match=f"{name}.*not a regular file"):
            read_lock(tmp_path / name)


def test_a_failed_write_leaves_the_lock_file_unchanged(tmp_path, monkeypatch):
    path = tmp_path / "tract.lock.json"
    write_lock(path, [entry()])
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tract_jupyter.review.lock.os.fsync", full)
    with pytest.raises(LockFileError, match="No space left.*nothing was changed"):
        write_lock(path, [])
    assert path.read_bytes() == before
    assert list(tmp_path.glob("*lock*")) == [path]
    with pytest.raises(LockFileError, match="cannot be written"):
        write_lock(tmp_path / "nowhere" / "tract.lock.json", [])


def test_writing_through_a_symbolic_link_keeps_the_link(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "tract.lock.json"
    link.symlink_to(tmp_path / "real" / "lock.json")
    write_lock(link, [entry()])
    assert link.is_symlink()
    assert len(read_lock(link)) == 1


# --- signatures


CHANGES = {"kind": "tool", "title": "x", "identity": "cd" * 32, "action": "half", "arguments": {"n": 1}, "decided_by": "eve",
           "decided_at": "2026-01-02T03:04:05.000007+00:00", "notebook": "other.ipynb", "signature": "0" * 64}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_each_part_of_an_entry_is_signed(name):
    assert entry().verifies(project().signer)
    assert not replace(entry(), **{name: CHANGES[name]}).verifies(project().signer)


def test_another_users_signature_does_not_verify(tmp_path):
    theirs = project()._replace(signer=Trust(tmp_path / "other").for_project(PROJECT))
    assert not entry().signed(theirs).verifies(project().signer)


# --- merging


def test_new_entries_replace_entries_of_the_same_identity(tmp_path):
    other, old = entry(identity="cd" * 32), entry(action="reject")
    new = [entry(), entry(action="go")]
    assert merged([old, other], new, project()) == [*new, other]
    assert merged([], new, project()) == new


def test_recording_the_same_again_changes_nothing():
    old = entry()
    assert merged([old], [entry(decided_at="2027-01-01T00:00:00.000000+00:00")], project()) == [old]


def test_a_new_entry_replaces_an_unverified_entry_of_the_same_identity():
    new = entry()
    assert merged([replace(new, signature="0" * 64)], [new], project()) == [new]
    stranger = replace(entry(identity="cd" * 32), signature="0" * 64)  # an entry of a colleague
    assert merged([stranger], [new], project()) == [stranger, new]


# --- the queue


@pytest.fixture
def lock(tmp_path):
    path = tmp_path / "tract.lock.json"

    def make(*entries):
        project(path).keep()
        write_lock(path, entries)
        return RecordedDecisions(path, Trust())

    return make


def test_entries_of_one_identity_are_used_one_after_the_other_and_once(lock):
    first, second = entry(action="a"), entry(action="b")
    recorded = lock(first, entry(identity="cd" * 32), second)
    assert [recorded.take(IDENTITY) for _ in range(3)] == [first, second, None]


def test_a_copied_entry_is_not_a_second_decision(lock):
    recorded = lock(entry(), entry())
    assert recorded.take(IDENTITY) is not None
    assert recorded.take(IDENTITY) is None


def test_a_used_entry_stays_used_in_the_process(tmp_path):
    path, used = tmp_path / "tract.lock.json", set()
    project(path).keep()
    write_lock(path, [entry()])
    assert RecordedDecisions(path, Trust(), used).take(IDENTITY)
    assert RecordedDecisions(path, Trust(), used).take(IDENTITY) is None


def test_an_unusable_secret_raises_a_trust_error(lock, monkeypatch):
    recorded = lock(entry())
    monkeypatch.setenv("TRACT_JUPYTER_SECRET", "nothing")
    with pytest.raises(TrustError, match="TRACT_JUPYTER_SECRET"):
        recorded.take(IDENTITY)


# --- from a run with a user to a headless run


CODE = "pending.fields['x'] = n\npending.approve()\n"


class Runs:
    """One notebook, run with a user and headless, each time on a fresh store."""

    def __init__(self, folder, spec):
        self.path = folder / "tract.lock.json"
        project(self.path).keep()
        self.spec = spec
        self.ran = []

    def open(self, channel, code=CODE, **changes):
        tract = Tract.open()
        actions = {
            "go": ActionDef("go", "", {"n": "int"}, code),
            "half": ActionDef("half", "", {}, "pending.fields['x'] = 5\n"),
            "boom": ActionDef("boom", "", {}, "raise ValueError('boom')\n"),
        }
        fields = {
            "x": {"type": "int", "default": 0},
            "when": {"type": "str", "default": "", "volatile": True},
        }
        parts = {"name": "deploy", "fields": fields, "actions": actions, "unhandled": "ask", **changes}
        tract.register_operation(self.spec(**parts))
        tract.reviewer.channel = channel
        return tract

    def ask(self, tract, **fields):
        return tract.fire("deploy", fields, review=True, execute_fn=self.ran.append)

    def settled(self, tract, **fields):
        pending = self.ask(tract, **fields)
        tract.reviewer.decide_now(pending)
        return pending

    def record(self, *answers, x=0, **changes):
        """Run with a user who answers each request in one or more rounds."""
        with self.open(FakeChannel(), **changes) as tract:
            for rounds in answers:
                pending = self.ask(tract, x=x)
                tract.reviewer.channel.steps.extend(rounds)
                ticket = tract.reviewer.show(pending)
                while tract.reviewer.channel.due:
                    tract.reviewer.channel.run_due()
                assert ticket.settled.is_set() or "boom" in str(pending.error)
            write_lock(self.path, recordable(tract).entries)
        self.ran.clear()

    def headless(self, used=None, **changes):
        channel = FakeChannel(reachable=False)
        channel.lock = RecordedDecisions(self.path, Trust(), used)
        return self.open(channel, **changes)


@pytest.fixture
def runs(tmp_path, spec):
    return Runs(tmp_path, spec)


def press(action, **arguments):
    return lambda ticket: ticket.submit(Answer(action, arguments, ticket.round_id), "panel")


WAYS = {
    "show": lambda tract, pending: tract.reviewer.show(pending),
    "decide": lambda tract, pending: asyncio.run(tract.reviewer.decide(pending)),
    "decide_now": lambda tract, pending: tract.reviewer.decide_now(pending),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_recorded_decision_settles_the_request(runs, way):
    runs.record([press("go", n=3)])
    with runs.headless() as tract:
        pending = runs.ask(tract)
        WAYS[way](tract, pending)
        assert (pending.status, pending.fields["x"], len(runs.ran)) == ("approved", 3, 1)
        (decision,) = decisions(tract)
        assert (decision["channel"], decision["action"]) == ("recorded", "go")
        assert decision["decided_by"] == read_lock(runs.path)[0].decided_by
        assert tract.review.inbox() == []
        assert [shown[1] for shown in tract.reviewer.channel.shown] == ["approved"]


def test_an_operation_that_asks_is_settled_when_it_is_fired(runs):
    runs.record([press("reject", reason="not today")])
    with runs.headless() as tract:
        pending = tract.fire("deploy")
        assert (pending.status, pending.rejection_reason) == ("rejected", "not today")
        with pytest.raises(NobodyToAskError, match="answers 'deploy' once, and this run needs more answers"):
            tract.reviewer.decide_now(tract.fire("deploy"))


def test_a_tool_of_an_operation_is_settled_too(runs):
    runs.record([press("go", n=7)])
    with runs.headless() as tract:
        assert tract.tools.fire_deploy()["fields"]["x"] == 7


def test_an_entry_settles_only_one_of_several_equal_requests(runs):
    runs.record([press("go", n=1)], [press("go", n=2)])
    with runs.headless() as tract:
        assert [tract.fire("deploy").fields["x"] for _ in range(3)] == [1, 2, 0]


def test_a_request_changed_after_display_is_looked_up_with_its_current_values(runs):
    runs.record([press("go", n=3)])
    with runs.headless() as tract:
        pending = runs.ask(tract, x=9)
        assert tract.reviewer.show(pending).status.is_open
        pending.fields["x"] = 0
        tract.reviewer.decide_now(pending)
        assert (pending.status, pending.fields["x"], len(runs.ran)) == ("approved", 3, 1)


def test_rounds_are_replayed(runs):
    runs.record([press("half"), press("approve", edits={"x": 8})])
    with runs.headless() as tract:
        pending = runs.settled(tract)
        assert pending.fields["x"] == 8
        assert [d["action"] for d in decisions(tract)] == ["half", "approve"]
        assert len(runs.ran) == 1


def test_an_approval_with_edits_is_found_by_the_original_values(runs):
    runs.record([press("approve", edits={"x": 4})])
    with runs.headless() as tract:
        pending = runs.settled(tract)
        assert pending.fields["x"] == 4
        with pytest.raises(NobodyToAskError):
            runs.settled(tract, x=4)  # the user never saw this request


def test_volatile_values_may_differ(runs):
    runs.record([press("go", n=3)])
    with runs.headless() as tract:
        runs.settled(tract, when="tomorrow")
        assert len(runs.ran) == 1


def test_no_standing_approval_is_recorded(runs):
    runs.record([press("approve", edits={"x": 4})])
    with runs.open(FakeChannel()) as tract:
        pending = runs.ask(tract)
        tract.reviewer.keep(pending)
        pending.approve(edits={"x": 4}, scope="always", uses=3)
        assert len(tract.review.grants.all()) == 1
        (found,) = recordable(tract).entries
        assert found.arguments == {"edits": {"x": 4}}


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"code": CODE.replace("= n", "=  n")}, {}),
        ({"description": "other"}, {}),
        ({"version": "2"}, {}),
        ({}, {"x": 1}),
    ],
)
def test_one_changed_character_refuses(runs, changes, fields):
    runs.record([press("go", n=3)])
    with runs.headless(**changes) as tract:
        pending = runs.ask(tract, **fields)
        with pytest.raises(NobodyToAskError, match="other code or other values"):
            tract.reviewer.decide_now(pending)
        assert (runs.ran, pending.status, decisions(tract)) == ([], "pending", [])
        assert [stored.pending_id for stored in tract.review.inbox()] == [pending.pending_id]


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_entry_refuses(runs, name):
    runs.record([press("go", n=3)])
    data = json.loads(runs.path.read_text())
    data["entries"][0][name] = CHANGES[name]
    runs.path.write_text(json.dumps(data))
    with runs.headless() as tract:
        with pytest.raises(NobodyToAskError) as caught:
            runs.settled(tract)
        if name != "identity":
            assert "is not signed with your secret, or was changed" in str(caught.value)
        assert "%tract record" in str(caught.value)
        assert runs.ran == []


def test_an_entry_that_was_copied_for_something_else_refuses(runs):
    runs.record([press("go", n=3)])
    with runs.headless() as tract:
        pending = runs.ask(tract, x=99)
        write_lock(runs.path, [replace(read_lock(runs.path)[0], identity=pending.identity)])
        with pytest.raises(NobodyToAskError, match="not signed with your secret"):
            tract.reviewer.decide_now(pending)


def test_without_the_secret_it_refuses(runs, data_dir):
    runs.record([press("go", n=3)])
    (data_dir / "tract_jupyter" / "secret").unlink()
    with runs.headless() as tract, pytest.raises(NobodyToAskError, match="not signed with your secret"):
        runs.settled(tract)


def test_a_recorded_decision_counts_with_the_secret_from_the_environment(runs, data_dir, monkeypatch):
    runs.record([press("go", n=3)])
    secret = data_dir / "tract_jupyter" / "secret"
    monkeypatch.setenv("TRACT_JUPYTER_SECRET", secret.read_bytes().hex())
    secret.unlink()
    with runs.headless() as tract:
        runs.settled(tract)
        assert len(runs.ran) == 1


def test_a_damaged_lock_file_raises_for_every_request(runs):
    runs.path.write_text("{")
    with runs.headless() as tract:
        for way in WAYS.values():
            pending = runs.ask(tract)
            with pytest.raises(LockFileError, match="tract.lock.json cannot be read as a lock file"):
                way(tract, pending)
            assert pending.status == "pending"


def test_an_unrecorded_request_stays_open_with_a_note(runs):
    with runs.headless() as tract:
        pending = runs.ask(tract)
        tract.reviewer.show(pending)
        assert pending.status == "pending"
        ((request, _),) = tract.reviewer.channel.shown
        assert "tract.lock.json has no entry for 'deploy'" in request.note


def test_a_recorded_action_that_fails_leaves_it_open(runs):
    runs.record([press("go", n=3)])
    good = read_lock(runs.path)[0]
    write_lock(runs.path, [replace(good, action="boom", arguments={}).signed(project())])
    with runs.headless() as tract:
        pending = runs.ask(tract)
        with pytest.raises(NobodyToAskError, match="ValueError: boom"):
            tract.reviewer.decide_now(pending)
        assert (pending.status, [d["action"] for d in decisions(tract)]) == ("failed", ["boom"])


@pytest.mark.parametrize(
    "changes", [{"action": "nothing"}, {"arguments": {"m": 1}}, {"arguments": {"n": "x"}}]
)
def test_an_answer_that_does_not_fit_runs_nothing(runs, changes):
    runs.record([press("go", n=3)])
    write_lock(runs.path, [replace(read_lock(runs.path)[0], **changes).signed(project())])
    with runs.headless() as tract:
        with pytest.raises(NobodyToAskError, match="Nothing was run"):
            runs.settled(tract)
        assert (runs.ran, decisions(tract)) == ([], [])


def test_a_channel_that_ignores_recorded_decisions_asks_the_user(runs):
    runs.record([press("go", n=3)])
    with runs.open(FakeChannel(press("reject"))) as tract:
        tract.reviewer.channel.lock = RecordedDecisions(runs.path, Trust())
        pending = runs.settled(tract)
        assert pending.status == "rejected"
    with runs.open(FakeChannel(reachable=False)) as tract:
        with pytest.raises(NobodyToAskError) as caught:
            runs.settled(tract)
        assert "record" not in str(caught.value)
    with runs.open(Tract.open().reviewer.channel) as tract, pytest.raises(NobodyToAskError):
        runs.settled(tract)


def test_code_that_repeats_a_recorded_decision_changes_nothing(runs):
    runs.record([press("go", n=3)])
    with runs.headless() as tract:
        pending = runs.ask(tract)
        tract.reviewer.show(pending)
        pending.go(n=3)
        with pytest.raises(PendingStateError, match="already decided"):
            pending.go(n=4)
        with pytest.raises(PendingStateError, match="already decided"):
            pending.apply_decision({"action": "go", "args": {"n": 3}})
        assert (len(runs.ran), len(decisions(tract))) == (1, 1)


def test_a_gated_tool_call_is_settled(tract, lock):
    from tract_jupyter.models.schema import Parameter, Parameters
    from tract_jupyter.toolkit import PendingToolCall

    pending = PendingToolCall("rm", {"path": "a"}, tract=tract, parameters=Parameters("rm", [Parameter("path", str)]),
                              definition_hash="0" * 64, code_doubt="")  # fmt: skip
    tract.reviewer.channel = FakeChannel(reachable=False)
    tract.reviewer.channel.lock = lock(entry(kind="tool", title=pending.title, identity=pending.identity))
    tract.reviewer.decide_now(pending)
    assert pending.status == "approved"


# --- which decisions are recorded


def recordable(tract, since=None, **options):
    return recordable_decisions(tract.reviewer.ledger, project(), since=since, **options)


def approved(runs, tract, **options):
    pending = runs.ask(tract)
    tract.reviewer.keep(pending, **options)
    pending.approve()
    return pending


def change_store(tract, statement):
    with tract._repository.database.write() as connection:
        assert connection.exec_driver_sql(statement).rowcount


def test_a_decision_by_code_is_recorded_only_if_the_request_was_stored(runs):
    with runs.open(FakeChannel()) as tract:
        runs.ask(tract).approve()
        assert recordable(tract).entries == []
        asked = approved(runs, tract)
        (found,) = recordable(tract).entries
        assert (found.kind, found.title, found.action) == ("operation", "deploy", "approve")
        assert found.identity == asked.identity


def test_an_action_s_own_arguments_are_recorded_whatever_their_names(tract, spec):
    own = ActionDef("own", "", {"pattern": "str", "uses": "int"}, "pending.approve()")
    tract.register_operation(spec(fields={}, actions={"own": own}))
    tract.reviewer.channel = FakeChannel()
    pending = tract.fire("citation_check", review=True)
    tract.reviewer.show(pending)
    pending.own(pattern="x", uses=3)
    (found,) = recordable(tract).entries
    assert found.arguments == {"pattern": "x", "uses": 3}


def test_a_decision_not_made_by_the_user_is_not_recorded(runs):
    with runs.open(FakeChannel()) as tract:
        for decide in (
            lambda p: p.apply_decision({"action": "approve"}),
            lambda p: p.execute_tool("approve", {}),
            lambda p: tract.on("deploy", lambda q: q.approve()) and tract.fire("deploy"),
        ):
            pending = runs.ask(tract)
            tract.reviewer.keep(pending)
            decide(pending)
        assert recordable(tract) == ([], 0)


def test_failed_and_unsigned_decisions_are_not_recorded(runs, data_dir):
    with runs.open(FakeChannel()) as tract:
        pending = runs.ask(tract)
        tract.reviewer.keep(pending)
        with pytest.raises(ValueError, match="boom"):
            pending.boom()
        pending.reject("it does not work")
        found = recordable(tract)
        assert ([e.action for e in found.entries], found.left_out) == (["reject"], 1)
        (data_dir / "tract_jupyter" / "secret").unlink()
        assert recordable(tract) == ([], 2)


def test_an_identity_that_was_changed_in_the_store_is_not_signed(runs):
    with runs.open(FakeChannel()) as tract:
        approved(runs, tract)
        change_store(tract, f"UPDATE decisions SET identity = '{IDENTITY}'")
        assert recordable(tract) == ([], 1)


@pytest.mark.parametrize(
    "change",
    [
        'request_json = replace(request_json, \'"title":"deploy"\', \'"title":"Read a file"\')',
        'request_json = replace(request_json, \'"kind":"operation"\', \'"kind":"tool"\')',
        "request_json = '{}'",
    ],
)
def test_a_request_that_was_changed_in_the_store_is_not_signed(runs, change):
    with runs.open(FakeChannel()) as tract:
        approved(runs, tract)
        (before,) = recordable(tract).entries
        change_store(tract, f"UPDATE pendings SET {change}")
        assert recordable(tract).entries in ([], [before])
        assert "Read a file" not in str(recordable(tract))


def test_a_title_that_was_changed_in_the_store_is_not_recorded(runs, spec):
    with runs.open(FakeChannel()) as tract:
        approved(runs, tract)
        tract.propose_operation(spec()).approve()
        before = recordable(tract)
        assert {entry.title for entry in before.entries} == {"deploy", "Activate operation citation_check"}
        change_store(tract, "UPDATE pendings SET title = 'Read a file'")
        assert recordable(tract) == before


def test_a_decision_about_an_unseen_request_is_not_recorded_if_the_store_says_that_it_was_seen(runs):
    with runs.open(FakeChannel()) as tract:
        approved(runs, tract, unshown=True)
        assert recordable(tract) == ([], 0)
        change_store(
            tract, "UPDATE pendings SET request_json = replace(request_json, '\"is_unshown\":true,', '')"
        )
        with tract._repository.database.read() as connection:
            stored = connection.exec_driver_sql("SELECT request_json FROM pendings").scalar()
        assert "is_unshown" not in stored
        assert recordable(tract) == ([], 1)


def test_activations_are_recorded_by_the_name_of_the_operation(tract, spec):
    pending = tract.propose_operation(spec())
    pending.approve()
    (found,) = recordable(tract).entries
    assert (found.kind, found.title) == ("activation", "Activate operation citation_check")
    assert found.identity == pending.identity
    replaced = tract.propose_operation(spec("pending.reject()\n"))
    replaced.approve()
    assert {e.title for e in recordable(tract).entries} == {found.title}


def test_only_recent_decisions_and_active_operations_are_recorded(tract, spec):
    old = tract.propose_operation(spec(name="old"))
    old.approve()
    tract.propose_operation(spec(name="gone")).reject()
    soon = datetime.now(UTC) + timedelta(hours=1)
    assert recordable(tract, since=soon).entries == []
    (found,) = recordable(tract, since=soon, active={old.identity, IDENTITY}).entries
    assert found.identity == old.identity
    assert len(recordable(tract, active={old.identity}).entries) == 2


def test_an_active_operation_is_recorded_with_its_signed_approval(tract, spec):
    first, second = (tract.propose_operation(spec(name="old"), actor=actor) for actor in ("user", "agent:1"))
    first.approve()
    second.reject("once is enough")
    soon = datetime.now(UTC) + timedelta(hours=1)
    (found,) = recordable(tract, since=soon, active={first.identity}).entries
    assert found.action == "approve"
    change_store(
        tract, f"UPDATE decisions SET decided_by = 'nobody you know' WHERE pending_id = '{first.pending_id}'"
    )
    assert recordable(tract, since=soon, active={first.identity}).entries == []
