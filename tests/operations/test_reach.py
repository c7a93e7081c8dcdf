"""The capability diff of a change, and standing approvals that carry over if access does not grow."""

from __future__ import annotations

import pytest

from tract_jupyter.operations import ActionDef, gained, spec_reach


def granted(tract):
    """Fire it with a review. Return true if a standing approval covers it."""
    pending = tract.fire("citation_check", {"urls": ["u"]}, review=True)
    return tract.reviewer.granted(pending)


@pytest.fixture
def standing(tract, spec):
    """A tract with a standing approval for the example operation."""
    tract.register_operation(spec())
    tract.fire("citation_check", {"urls": ["u"]}, review=True).approve(scope="always")
    return tract


def widened(spec, **changes):
    return gained(spec_reach(spec()), spec_reach(spec(**changes)))


def test_new_access_of_a_change_is_listed(spec):
    code = "import urllib.request\nurllib.request.urlopen('https://example.com/x').read()\npending.approve()"
    found = widened(spec, code=code)
    assert "urllib.request" in found["imports"]
    assert "example.com" in found["hosts"]


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"fields": {"urls": {"type": "list[str]"}, "verified": {"type": "bool"}, "path": {"type": "str"}}}, "fields"),
        ({"fields": {"urls": {"type": "list[str]", "volatile": True}, "verified": {"type": "bool"}}}, "fields"),
        ({"fields": {"urls": {"type": "Any"}, "verified": {"type": "bool"}}}, "fields"),
        ({"actions": {"verify": ActionDef("verify", "", {"strict": "bool"}, "pending.approve()"),
                      "more": ActionDef("more", "", {}, "pending.approve()")}}, "actions"),
    ],
)  # fmt: skip
def test_new_fields_and_actions_widen(spec, changes, kind):
    assert kind in widened(spec, **changes)


def test_removing_the_approval_request_adds_access_and_adding_it_does_not(spec):
    asks, approves = spec_reach(spec(unhandled="ask")), spec_reach(spec())
    assert gained(asks, approves) == {"decides": frozenset({"approved if no handler decides"})}
    assert gained(approves, asks) == {}


def test_a_request_lists_all_access_of_a_new_operation_and_new_access_of_a_change(tract, spec):
    tables = {table.title: table for table in tract.propose_operation(spec()).tables()}
    assert (
        "pending.fields" in {row.name: row.value for row in tables["What it can access"].rows}["attributes"]
    )
    tract.register_operation(spec())
    same = tract.propose_operation(spec(description="said better")).tables()[-1]
    assert (same.title, same.rows[0].name) == (
        "What it can access that the approved version could not",
        "nothing new",
    )
    more = tract.propose_operation(spec("import os\nos.system('ls')\npending.approve()")).tables()[-1]
    assert {"imports", "calls"} <= {row.name for row in more.rows}


def test_the_last_approved_version_counts_also_after_it_was_removed(tract, spec):
    tract.register_operation(spec())
    tract.unregister_operation("citation_check")
    pending = tract.propose_operation(spec(description="again"))
    assert pending.title == "Activate operation citation_check"
    assert pending.code_blocks()[0].title == "Changes since the last approved version"
    assert pending.tables()[-1].rows[0].name == "nothing new"


@pytest.mark.own_store
def test_an_approval_moved_to_another_operation_does_not_count(tract, spec):
    tract.register_operation(spec())
    with tract._repository.database.write() as connection:
        connection.exec_driver_sql(
            'UPDATE events SET data_json = replace(data_json, \'"name":"citation_check"\', \'"name":"fresh"\')'
        )
    assert tract.propose_operation(spec(name="fresh")).code_blocks()[0].title == "verify"


def test_a_changed_operation_is_asked_about_again(standing, spec):
    assert granted(standing)
    standing.propose_operation(spec(description="said better")).approve()
    assert not granted(standing)


def test_a_standing_approval_carries_over_if_enabled_and_access_does_not_grow(standing, spec):
    standing.operations.carry_grants = True
    standing.propose_operation(spec(description="said better")).approve()
    assert granted(standing)
    standing.propose_operation(spec("import os\npending.approve()")).approve()
    assert not granted(standing)


def test_a_grant_carried_over_several_times_keeps_its_use_limit(tract, spec):
    tract.register_operation(spec())
    tract.fire("citation_check", {"urls": ["u"]}, review=True).approve(scope="always", uses=2)
    tract.operations.carry_grants = True
    assert granted(tract)
    for description in ("said better", "as before", "said better"):
        tract.propose_operation(spec(description=description)).approve()
    assert [granted(tract) for _ in range(3)] == [True, False, False]
    assert [(grant.uses, grant.most_uses) for grant in tract.review.grants.all()] == [(2, 2)]


@pytest.mark.own_store
@pytest.mark.parametrize("state", ["revoked", "not signed by you", "for another version"])
def test_an_invalid_standing_approval_is_not_carried_over(standing, spec, state):
    (grant,) = standing.review.grants.all()
    if state == "revoked":
        standing.review.grants.revoke(grant.grant_id)
    elif state == "for another version":
        standing.propose_operation(spec(description="in between")).approve()
    else:
        with standing._repository.database.write() as connection:
            connection.exec_driver_sql("UPDATE grants SET most_uses = 99")
    standing.operations.carry_grants = True
    standing.propose_operation(spec(description="said better")).approve()
    assert not granted(standing)
    assert [one.definition_hash for one in standing.review.grants.all()] == [grant.definition_hash]


def test_a_grant_counts_again_after_a_return_to_its_version(standing, spec):
    standing.propose_operation(spec(description="said better")).approve()
    standing.propose_operation(spec()).approve()
    assert granted(standing)
