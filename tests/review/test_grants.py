"""Standing approvals: who can give them, what they cover, how often and for how long."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
from sqlalchemy.exc import DataError

from tests.review.fakes import FakeChannel, click
from tests.review.rigging import Attacker, add_writer, call, in_the_inbox_of, press
from tract_jupyter import Tract
from tract_jupyter.exceptions import GrantError
from tract_jupyter.models import PendingStatus
from tract_jupyter.operations import ActionDef, OperationSpec, RemotePending
from tract_jupyter.review import TERMS
from tract_jupyter.toolkit import ToolDefinition, Traits

FIELDS = {"n": {"type": "Any", "default": 0}, "at": {"type": "str", "default": "", "volatile": True}}


@pytest.fixture
def t(own_store, spec):
    """A tract with an operation that needs approval."""
    with Tract.open(url=own_store) as t:
        t.register_operation(spec("pending.approve()", fields=FIELDS, unhandled="ask"))
        t.reviewer.channel = FakeChannel()
        yield t


@pytest.fixture
def fire(t):
    """Fire the operation and return its pending."""
    return lambda n=0, **more: t.fire("citation_check", {"n": n, **more})


@pytest.fixture
def give(t):
    """Give a standing approval with a click of the user."""

    def make(n=0, scope="session", **arguments):
        pending = t.fire("citation_check", {"n": n}, review=True)
        press(t, t.reviewer.show(pending), "approve", scope=scope, **arguments)
        assert pending.status is PendingStatus.APPROVED, t.reviewer.channel.notes
        return t.review.grants.all()[-1]

    return make


@pytest.fixture(autouse=True)
def a_click_is_in_a_panel(monkeypatch):
    from tract_jupyter.review import decision

    monkeypatch.setattr(decision, "_PERSONAL", decision._PERSONAL | {"fake"})


def test_an_equal_operation_is_approved_by_the_grant_and_records_its_id(t, fire, give):
    grant = give()
    pending = fire()
    assert pending.status is PendingStatus.APPROVED
    (row,) = t.reviewer.ledger.decisions(pending.pending_id)
    assert (row.channel, row.decided_by) == ("grant", f"grant:{grant.grant_id}")
    assert t.review.grants.all()[-1].uses == 1


def test_other_values_are_asked_about(fire, give):
    give(1)
    assert [fire(n).status.value for n in (1, 1.0, True, "1", 2)] == ["approved", *["pending"] * 4]


def test_volatile_values_do_not_count(fire, give):
    give(1)
    assert fire(1, at="noon").status is PendingStatus.APPROVED


def test_a_grant_with_a_pattern_covers_matching_values(t, fire, give):
    give("data/a", pattern={"n": "data/*"})
    values = ["data/b", "data/b/c", "data/../x", "other"]
    assert [fire(n).status.value for n in values] == ["approved", "pending", "pending", "pending"]
    assert t.review.grants.all()[0].covers == "n: data/*"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"uses": 2}, "also set scope="),
        ({"pattern": {"n": "*"}}, "also set scope="),
        ({"scope": "always", "pattern": {"m": "*"}}, "has no value 'm'"),
        ({"scope": "always", "pattern": {"at": "*"}}, "has no value 'at'"),
        ({"scope": "always", "uses": 0}, "at least 1"),
        ({"scope": "always", "uses": 1.5}, "uses must be a whole number"),
        ({"scope": "always", "uses": "3"}, "uses must be a whole number"),
        ({"scope": "always", "uses": True}, "uses must be a whole number"),
        ({"scope": "always", "uses": 2**63}, "at most 2,147,483,647"),
        ({"scope": "sesion"}, "scope must be 'once', 'session' or 'always', not 'sesion'"),
        ({"scope": ""}, "scope must be 'once', 'session' or 'always', not ''"),
        ({"scope": ["always"]}, "scope must be"),
        (
            {"scope": "always", "whom": "ANYBODY"},
            "whom must be 'this', 'children' or 'anybody', not 'ANYBODY'",
        ),
        ({"scope": "always", "whom": 5}, "whom must be"),
        ({"scope": "always", "pattern": "n"}, "pattern must be a dictionary"),
    ],
    ids=str,
)
def test_invalid_terms_give_no_grant_and_decide_nothing(t, arguments, words):
    pending = t.fire("citation_check", review=True)
    with pytest.raises(GrantError, match=words):
        pending.approve(**arguments)
    assert (pending.status, t.review.grants.all()) == (PendingStatus.PENDING, [])


def test_a_proposal_is_asked_about_each_time(t, spec):
    assert t.propose_operation(spec(name="fresh")).subject is None


def test_a_grant_with_a_use_limit_is_used_up(t, fire, give):
    give(uses=2)
    assert [fire().status.value for _ in range(3)] == ["approved", "approved", "pending"]
    assert t.review.grants.all()[0].state == "used up"


def test_a_revoked_grant_covers_nothing(t, fire, give):
    t.review.grants.revoke(give().grant_id[:6])
    assert fire().status is PendingStatus.PENDING
    with pytest.raises(GrantError, match="already revoked"):
        t.review.grants.revoke(t.review.grants.all()[0].grant_id)


def test_changed_code_and_a_changed_schema_are_asked_about(t, fire, give, spec):
    give()
    for change in (
        {"code": "pending.approve() "},
        {"fields": {**FIELDS, "m": {"type": "int", "default": 0}}},
    ):
        t.propose_operation(
            spec(**{"code": "pending.approve()", "fields": FIELDS, "unhandled": "ask", **change})
        ).approve()
        assert fire().status is PendingStatus.PENDING


def test_a_changed_tool_is_asked_about(t):
    ran = []
    add_writer(t, ran)
    assert call(t, lambda ticket: click(ticket, "approve", scope="always")).success
    assert call(t).success

    def write(path: str, n: int = 0) -> str:
        """Write a file."""
        ran.append("other")
        return "written"

    t.executor._fixed["write"] = ToolDefinition.from_function(write, traits=Traits(destructive=True))
    assert call(t, lambda ticket: click(ticket, "reject")).denied
    assert ran == [("a", 0), ("a", 0)]


NEAR = (
    "data/A.csv", "DATA/a.csv", "data/a.csv ", " data/a.csv", "data/a.csv\n", "data/a.csv\x00", "data//a.csv", "./data/a.csv", "data/./a.csv", "data/x/../a.csv",
    "../data/a.csv", "/data/a.csv", "data\\a.csv", "data/a.csv/", "data/a.csv/..", "data\u2215a.csv", "data/\u0430.csv", "data/\uff41.csv", "data/a\u200b.csv", "data/a.cs\u0076\ufe0f",
    "data/a.csv;rm", "data/a.csv,data/b.csv", "file:data/a.csv", "data/a%2ecsv", "data/*.csv", "data/?.csv", "**", "*", "", "data/a", "ata/a.csv",
)  # fmt: skip
WITHIN = ("data/a.csv", "data/b.csv", "data/ .csv", "data/.csv", "data/*.csv")


@pytest.mark.slow
@pytest.mark.parametrize("near", NEAR, ids=ascii)
def test_a_value_that_only_resembles_the_approved_one_is_asked_about(t, near):
    add_writer(t, ran := [])
    assert call(t, lambda ticket: click(ticket, "approve", scope="always"), path="data/a.csv").success
    assert call(t, lambda ticket: click(ticket, "reject"), path=near).denied
    assert len(t.reviewer.channel.shown) > 0
    assert call(t, path="data/a.csv").success
    assert [path for path, _ in ran] == ["data/a.csv"] * 2


def test_a_pattern_covers_no_more_than_its_words(t):
    add_writer(t, [])
    pattern = {"path": "data/*.csv"}
    assert call(t, lambda ticket: click(ticket, "approve", scope="always", pattern=pattern), path="x").success
    reject = lambda ticket: click(ticket, "reject")  # noqa: E731
    covered = {path for path in {*NEAR, *WITHIN} if call(t, reject, path=path).success}
    assert covered == {
        *WITHIN, "data/A.csv", "data/?.csv", "data/\u0430.csv", "data/\uff41.csv", "data/a\u200b.csv",
    }  # fmt: skip


SITE = "https://*.example.org/data/*"
OTHER_SITES = (
    "https://evil.org/.example.org/data/a", "https://evil.org?.example.org/data/a", "https://evil.org#.example.org/data/a",
    "https://evil.org\\.example.org/data/a", "https://me@evil.org#.example.org/data/a", "https://me@www.example.org/data/a",
    "https://www.example.org/data/a/b", "https://www.example.org/data/a?b=c", "https://www.example.org/data/..",
    "https://www.example.org/data/%2e%2E", "https://www.example.org/data/.%2e", "https://www.example.org/data/..%2F..",
)  # fmt: skip


def test_a_wildcard_in_a_url_matches_one_part(t):
    add_writer(t, [])
    assert call(t, lambda ticket: click(ticket, "approve", scope="always", pattern={"path": SITE})).success
    reject = lambda ticket: click(ticket, "reject")  # noqa: E731
    assert [url for url in OTHER_SITES if call(t, reject, path=url).success] == []
    assert call(t, path="https://www.example.org/data/a%20b;c=1").success


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("https://a.org/find?q=*", "https://a.org/find?q=tit", "https://a.org/find/q=tit"),
        ("https://a.org/**", "https://a.org/b/c?d#e", "https://a.org/b/%2e%2e/c"),
        ("data/**", "data/a/b?c", "data/a/%2e%2e/b"),
    ],
)
def test_a_pattern_matches_the_address_that_is_meant(t, pattern, inside, outside):
    add_writer(t, [])
    terms = {"scope": "always", "pattern": {"path": pattern}}
    assert call(t, lambda ticket: click(ticket, "approve", **terms)).success
    assert call(t, path=inside).success
    assert call(t, lambda ticket: click(ticket, "reject"), path=outside).denied


def described(path: str, n: int = 0) -> str:
    """Write a file, and send it."""


def with_another_default(path: str, n: int = 1) -> str:
    """Write a file."""


def with_another_type(path: str, n: float = 0) -> str:
    """Write a file."""


def with_one_more(path: str, n: int = 0, force: bool = True) -> str:
    """Write a file."""


def with_another_body(path: str, n: int = 0) -> str:
    """Write a file."""
    return "other"


CHANGED = (described, with_another_default, with_another_type, with_one_more, with_another_body)


@pytest.mark.parametrize("changed", CHANGED, ids=lambda function: function.__name__)
def test_any_change_of_a_tool_is_asked_about(t, changed):
    add_writer(t, [])
    assert call(t, lambda ticket: click(ticket, "approve", scope="always", whom="anybody")).success
    assert call(t).success
    t.executor.add(
        ToolDefinition.from_function(changed, name="write", traits=Traits(destructive=True)), replace=True
    )
    assert call(t, lambda ticket: click(ticket, "reject")).denied


# --- other processes


ELSEWHERE = """
    import sys
    from tract_jupyter import Tract
    with Tract.open(url={url!r}) as t:
        print(t.reviewer.granted(t.fire("citation_check", {{"n": 0}}, review=True)))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("scope", "counts"), [("session", "False"), ("always", "True")])
def test_another_process_uses_only_grants_with_scope_always(give, own_store, scope, counts):
    give(scope=scope)
    code = textwrap.dedent(ELSEWHERE.format(url=own_store))
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=60, capture_output=True, text=True
    )
    assert done.stdout.strip() == counts


RACE = """
    import itertools, os, sys
    from tract_jupyter import Tract
    times = (f"{os.getpid()}:{number}" for number in itertools.count())  # the same asked again is one question
    with Tract.open(url=sys.argv[1]) as t:
        print("ready", flush=True)
        while sys.stdin.readline():
            pendings = [t.fire("citation_check", {"n": 0, "at": next(times)}, review=True) for _ in range(2)]
            print(sum(t.reviewer.granted(pending) for pending in pendings), flush=True)
"""


@pytest.mark.slow
def test_two_processes_at_once_never_use_it_more_often_than_it_says(t, give, own_store):
    command = [sys.executable, "-c", textwrap.dedent(RACE), own_store]
    racers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    assert [racer.stdout.readline().strip() for racer in racers] == ["ready", "ready"]
    for _ in range(50):
        give(scope="always", uses=3)
        for racer in racers:
            racer.stdin.write("go\n")
            racer.stdin.flush()
        assert sum(int(racer.stdout.readline()) for racer in racers) == 3
    for racer in racers:
        racer.stdin.close()
        assert racer.wait(timeout=30) == 0
        racer.stdout.close()


def test_a_grant_works_with_a_long_host_name(t, give, fire, monkeypatch):
    from tract_jupyter.review import grants

    monkeypatch.setattr(grants, "this_process", lambda: f"{'h' * 100}:1:ab")
    give()
    ((session,),) = Attacker(t.location).run("SELECT session_id FROM grants")
    assert len(session) == 64  # PostgreSQL refuses a longer value
    assert fire().status is PendingStatus.APPROVED


# --- models and attackers


@pytest.mark.parametrize("scope", ["session", "always"])
def test_a_model_cannot_give_one(t, scope):
    pending = t.fire("citation_check", review=True)
    for decide in (
        lambda: pending.apply_decision({"action": "approve", "args": {"scope": scope}}),
        lambda: pending.execute_tool("approve", {"scope": scope, "uses": 3}),
    ):
        with pytest.raises(GrantError, match="only the user"):
            decide()
    assert (pending.status, t.review.grants.all()) == (PendingStatus.PENDING, [])


def test_a_handler_cannot_give_one(t, fire):
    t.on("citation_check", lambda p: p.approve(scope="always"))
    with pytest.raises(GrantError, match="only the user"):
        fire()
    assert t.review.grants.all() == []


def test_grant_options_are_not_shown_to_a_model(t):
    pending = t.fire("citation_check", review=True)
    for text in (str(pending.to_tools()), pending.describe_api(), str(pending.to_dict())):
        assert not any(word in text for word in ("scope", "uses", "pattern"))


@pytest.mark.parametrize(
    "change",
    [
        {"pattern_json": '{"approved":{"n":5},"pattern":{"n":"*"}}'}, {"pattern_json": "x"}, {"most_uses": 99},
        {"most_uses": None}, {"scope": "always", "session_id": None}, {"session_id": None}, {"kind": "tool"},
        {"granted_by": "somebody"}, {"signature": ""}, {"signature": "0" * 64}, {"created_at": "x"}, {"reason": "so"},
        {"most_uses": "many"}, {"tract_id": "other"}, {"name": "other"}, {"definition_hash": "0" * 64},
    ],
    ids=str,
)  # fmt: skip
def test_an_altered_one_covers_nothing(t, fire, give, own_store, change):
    give(5, uses=3)
    try:
        Attacker(own_store).set("grants", **change)
    except DataError:
        assert change == {"most_uses": "many"}  # PostgreSQL checks the types of columns
        return
    assert fire(5).status is PendingStatus.PENDING
    assert all(grant.state == "not signed by you" for grant in t.review.grants.all())


def test_an_unreadable_grant_is_listed_and_does_not_affect_other_grants(fire, give, t, own_store):
    give(5)
    Attacker(own_store).set("grants", pattern_json="[" * 100_000 + "]" * 100_000)
    good = give(6)
    damaged, other = t.review.grants.all()
    assert (damaged.covers, damaged.whom, damaged.ignores) == ("unreadable", "unreadable", ())
    assert damaged.state == "not signed by you"
    assert other == good
    assert fire(5).status is PendingStatus.PENDING
    assert fire(6).status is PendingStatus.APPROVED


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({"uses": "many"}, "unreadable"), ({"uses": 0.5}, "unreadable"), ({"uses": -1}, "unreadable"),
        ({"uses": b"1"}, "unreadable"), ({"most_uses": "many"}, "not signed by you"),
        ({"most_uses": ""}, "not signed by you"),
    ],
    ids=str,
)  # fmt: skip
def test_a_count_that_was_changed_does_not_keep_the_user_from_revoking_a_grant(tmp_path, spec, change, state):
    path = tmp_path / "s.db"  # PostgreSQL checks the types of columns
    with Tract.open(path) as t:
        t.register_operation(spec("pending.approve()", fields=FIELDS, unhandled="ask"))
        for n in (5, 6):
            t.fire("citation_check", {"n": n}, review=True).approve(scope="always", uses=3)
        attacker = Attacker(f"sqlite:///{path}")
        attacker.run(f"UPDATE grants SET {next(iter(change))} = ? WHERE rowid = 1", *change.values())
        damaged, other = t.review.grants.all()
        assert (damaged.state, other.state) == (state, "live")
        assert (type(damaged.uses), type(damaged.most_uses)) == (int, int)
        assert t.fire("citation_check", {"n": 5}).status is PendingStatus.PENDING
        assert t.fire("citation_check", {"n": 6}).status is PendingStatus.APPROVED
        for grant in (damaged, other):
            t.review.grants.revoke(grant.grant_id)
        assert [grant.state for grant in t.review.grants.all()] == ["revoked", "revoked"]


def test_a_revoked_grant_cannot_be_restored_in_the_store(t, fire, give, own_store):
    t.review.grants.revoke(give().grant_id)
    Attacker(own_store).set("grants", revoked_at=None)
    assert fire().status is PendingStatus.PENDING
    assert t.review.grants.all()[0].state == "not signed by you"


def test_a_forged_one_covers_nothing(t, fire, own_store):
    pending = t.fire("citation_check", review=True)
    Attacker(own_store).insert(
        "grants", grant_id="f" * 16, tract_id=t.tract_id, kind="operation", name="citation_check",
        definition_hash=pending.definition_hash, pattern_json='{"approved":{"n":0},"pattern":{"n":"*"}}',
        scope="always", uses=0, reason="", granted_by="root", signature="0" * 64, created_at="2026-01-01T00:00:00+00:00",
    )  # fmt: skip
    assert fire().status is PendingStatus.PENDING


def test_using_an_inbox_approval_does_not_give_its_grant_again(t, fire, own_store):
    t.reviewer.keep(t.fire("citation_check", review=True, execute_fn=print))
    with Tract.open(url=own_store) as other:
        remote = RemotePending(t.review.inbox()[0], tract=other)
        remote.approve(scope="always", uses=1)
    fired = [t.fire("citation_check", review=True, execute_fn=lambda p: None) for _ in range(3)]
    assert [t.reviewer.granted(pending) for pending in fired] == [
        True,
        True,
        False,
    ]  # first by the grant, then by the approval
    assert [grant.state for grant in t.review.grants.all()] == ["used up"]


def test_one_given_in_the_inbox_of_another_process_counts_here(t, fire, own_store):
    t.reviewer.show(t.fire("citation_check", review=True, execute_fn=print))
    with Tract.open(url=own_store) as other:
        other.reviewer.channel = FakeChannel()
        press(other, in_the_inbox_of(other), "approve", scope="always")
    assert fire().status is PendingStatus.APPROVED


# --- covered actors


def fired_by(t, actor, n=0, **options):
    """Fire an operation as an actor and return its pending."""
    return t.operations.fire("citation_check", {"n": n}, actor=actor, **options)


def give_to(t, actor, scope="always", **arguments):
    """Give a standing approval with a click of the user, for an operation fired by an actor."""
    pending = fired_by(t, actor, review=True)
    press(t, t.reviewer.show(pending), "approve", scope=scope, **arguments)
    return t.review.grants.all()[-1]


ASKED = (
    "agent:a",
    "agent:b",
    "agent:a/child",
    "agent:a:branch",
    "agent:ab",
    "policy:x",
    "script:0123",
    "user",
)


@pytest.mark.parametrize(
    ("whom", "words", "covered"),
    [
        (None, "agent:a", {"agent:a"}),
        ("this", "agent:a", {"agent:a"}),
        ("children", "agent:a and its children", {"agent:a", "agent:a/child", "agent:a:branch"}),
        ("anybody", "anybody", set(ASKED)),
    ],
)
def test_a_grant_covers_only_the_named_actors(t, whom, words, covered):
    grant = give_to(t, "agent:a", **({} if whom is None else {"whom": whom}))
    assert (grant.whom, grant.state) == (words, "live")
    approved = {actor for actor in ASKED if fired_by(t, actor).status is PendingStatus.APPROVED}
    assert approved == covered


def test_a_grant_for_the_user_does_not_cover_a_model(t, fire, give):
    give(1)
    assert fire(1).status is PendingStatus.APPROVED
    assert fired_by(t, "agent:a", 1).status is PendingStatus.PENDING


def test_a_changed_script_is_another_actor(t):
    add_writer(t, ran := [])
    code = "tools.write(path='a')"
    t.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "approve", scope="always"))
    assert t.scripts.run(code).error is None
    t.reviewer.channel = FakeChannel(reachable=False)
    assert t.scripts.run(code).error is None
    changed = t.scripts.run(code + "  # as before, and more")
    assert "covers it for script:" in str(changed.error)
    assert ran == [("a", 0), ("a", 0)]


def test_a_request_names_the_actor_that_an_existing_grant_covers(t):
    grant = give_to(t, "agent:a")
    told = f"The standing approval {grant.grant_id[:8]} covers it for agent:a, not for policy:x."
    assert told in fired_by(t, "policy:x").review_request().why
    assert "standing approval" not in fired_by(t, "policy:x", 2).review_request().why


def test_a_refused_call_names_the_actor_that_the_grant_covers(t):
    add_writer(t, [])
    assert call(t, lambda ticket: click(ticket, "approve", scope="always")).success
    t.reviewer.channel = FakeChannel(reachable=False)
    refused = t.executor.execute("write", {"path": "a"}, actor="agent:2")
    assert refused.denied
    assert "covers it for agent:1, not for agent:2" in refused.error


@pytest.mark.parametrize(
    ("old", "new"),
    [('"whom":"this"', '"whom":"anybody"'), ('"actor":"agent:a"', '"actor":"agent:b"')],
)
def test_the_actor_of_a_grant_is_signed(t, own_store, old, new):
    give_to(t, "agent:a")
    Attacker(own_store).rewrite("grants", "pattern_json", old, new)
    assert fired_by(t, "agent:b").status is PendingStatus.PENDING
    assert t.review.grants.all()[0].state == "not signed by you"


@pytest.mark.parametrize("arguments", [{"whom": "anybody"}, {"whom": "children", "scope": "once"}])
def test_whom_is_refused_without_a_standing_scope(t, arguments):
    pending = t.fire("citation_check", review=True)
    with pytest.raises(GrantError, match="whom belong to a grant"):
        pending.approve(**arguments)
    assert pending.status is PendingStatus.PENDING


def test_no_grant_is_given_if_the_actor_was_changed_in_the_store(t, own_store):
    t.reviewer.keep(fired_by(t, "agent:a", review=True))
    Attacker(own_store).set("pendings", actor="agent:b")
    with Tract.open(url=own_store) as other:
        again = other.operations.rebuild(other.review.inbox()[0])
        with pytest.raises(GrantError, match="changed in the store"):
            again.approve(scope="always")
        assert other.review.grants.all() == []


def test_an_approval_for_a_cell_is_not_used_by_another_actor(t, own_store):
    t.reviewer.show(fired_by(t, "user", 3, execute_fn=print, review=True))
    with Tract.open(url=own_store) as elsewhere:
        RemotePending(elsewhere.review.inbox()[0], tract=elsewhere).approve()
    theirs, mine = (
        fired_by(t, actor, 3, execute_fn=lambda _: "done", review=True) for actor in ("agent:b", "user")
    )
    assert t.reviewer.granted(theirs) is False
    assert t.reviewer.granted(mine) is True


# --- ignored fields


def test_a_grant_says_which_fields_it_does_not_look_at(t, fire, give):
    grant = give(1)
    assert (grant.ignores, grant.covers) == (("at",), "n = 1")
    subject = t.fire("citation_check", {"n": 1, "at": "noon"}, review=True).subject
    assert (dict(subject.values), dict(subject.ignored), subject.actor) == ({"n": 1}, {"at": "noon"}, "user")
    assert fire(1, at="midnight").status is PendingStatus.APPROVED


# --- an operation with an action of its own


@pytest.fixture
def counter(t):
    """An operation that counts when its only action runs."""
    code = "pending.fields['n'] += by; pending.approve()"
    count = ActionDef("count", "", {"by": "int"}, code, defaults={"by": 1})
    fields = {"n": {"type": "int"}}
    t.register_operation(OperationSpec("tally", "", fields, {"count": count}, unhandled="ask"))
    return lambda n=0: t.fire("tally", {"n": n}, review=True)


def test_a_grant_covers_the_chosen_action_and_its_arguments(t, counter):
    asked = counter()
    press(t, t.reviewer.show(asked), "count", by=5, **{TERMS: {"scope": "session", "uses": 2}})
    assert (asked.status, asked.fields["n"]) == (PendingStatus.APPROVED, 5)
    (grant,) = t.review.grants.all()
    assert (grant.action, dict(grant.arguments)) == ("count", {"by": 5})
    again = t.fire("tally", {"n": 0})
    assert (again.status, again.fields["n"]) == (PendingStatus.APPROVED, 5)
    assert again.decision.decided_by == f"grant:{grant.grant_id}"


def test_values_are_changed_before_an_action_of_its_own_runs(t, counter):
    asked = counter()
    press(t, t.reviewer.show(asked), "count", **{TERMS: {"edits": {"n": 40}}})
    assert asked.fields["n"] == 41
    assert asked.decision.arguments[TERMS] == {"edits": {"n": 40}}


@pytest.mark.parametrize(
    ("terms", "told"),
    [
        ({"scope": "for good"}, "scope"), ({"uses": 2}, "also set scope="), ({"n": 2}, "unknown"),
        ({"edits": {"n": "many"}}, "valid integer"),
    ],
)  # fmt: skip
def test_terms_that_do_not_fit_are_refused_and_nothing_runs(t, counter, terms, told):
    asked = counter()
    press(t, t.reviewer.show(asked), "count", **{TERMS: terms})
    assert asked.status is PendingStatus.PENDING
    assert told in t.reviewer.channel.notes[-1]
    assert asked.fields["n"] == 0
    assert not t.review.grants.all()


def test_only_a_person_gives_one_for_an_action_too(t, counter):
    with pytest.raises(GrantError, match="only the user"):
        counter().execute_tool("count", {TERMS: {"scope": "always"}})
    assert not t.review.grants.all()
