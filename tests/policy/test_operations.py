"""Operations with a firing condition: display, approval, and firing as a policy under the ceiling."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tract_jupyter import Tract
from tract_jupyter.exceptions import SpecError
from tract_jupyter.models import PendingStatus
from tract_jupyter.notebook import parse_cell
from tract_jupyter.operations import FiringCondition, spec_diff, spec_from_dict, spec_to_dict

FIELDS = {"urls": ["https://example.com"]}


@pytest.fixture
def firing(spec):
    """The example operation. It fires by itself when the condition holds."""

    def make(**condition):
        return spec("pending.approve()", fires_on=FiringCondition(**{"fields": FIELDS, **condition}))

    return make


def fired(tract):
    """Return the outcomes of the firings from the log."""
    return [event.event_type for event in tract.policies.log()]


# --- the data


def test_fires_on_is_part_of_the_spec_the_hash_and_the_diff(spec, firing):
    plain, with_it = spec("pending.approve()"), firing(tokens=100)
    assert "fires_on" not in spec_to_dict(plain)
    assert spec_from_dict(spec_to_dict(with_it)) == with_it
    assert plain.spec_hash != with_it.spec_hash
    assert "+fires by itself after a commit, when it has 100 tokens or more" in spec_diff(plain, with_it)


MISTAKES = {
    "token": ({"token": 5}, "fires_on has no part 'token'. Did you mean 'tokens'?"),
    "moment": (
        {"moment": "comit"},
        "fires_on.moment must be 'commit', 'compile' or 'turn', not 'comit'. Did you mean 'commit'?",
    ),
    "zero": ({"tokens": 0}, "fires_on: tokens must be a whole number of at least 1, not 0"),
    "text": ({"commits": "5"}, "fires_on.commits must be a whole number, not '5'"),
    "bool": ({"commits": True}, "fires_on.commits must be a whole number, not True"),
    "type": ({"content_type": 5}, "fires_on.content_type must be text, not 5"),
    "list": ([], "fires_on must be an object"),
}


@pytest.mark.parametrize(("given", "told"), MISTAKES.values(), ids=MISTAKES)
def test_an_invalid_condition_is_reported_with_the_nearest_name(given, told):
    with pytest.raises(SpecError) as caught:
        spec_from_dict({"name": "x", "fires_on": given})
    assert told in str(caught.value)
    with pytest.raises(SpecError, match="line 2"):
        parse_cell("x", f"fires_on = {given!r}\n".join(["\n", ""]), "python")


def test_fields_that_do_not_fit_are_refused_before_it_is_active(tract, firing):
    for fields in ({}, {"urls": 5}, {"urls": [], "url": []}):
        with pytest.raises(SpecError, match="fires_on: fields: "):
            tract.propose_operation(firing(fields=fields))


def test_a_cell_says_it():
    text = "urls: list[str]\nfires_on = {'moment': 'turn', 'commits': 3, 'fields': {'urls': []}}\n"
    assert parse_cell("x", text, "python").spec.fires_on == FiringCondition("turn", 3, fields={"urls": []})
    with pytest.raises(SpecError, match="duplicate"):
        parse_cell("x", text + text.splitlines()[1], "python")


def test_a_person_reads_when_it_fires(tract, firing):
    request = tract.propose_operation(firing(moment="compile", content_type="tool_io")).review_request()
    said = "before the context is compiled, when the newest message is of type 'tool_io'; with urls=['https://example.com']"
    assert f"It fires by itself: {said}." in request.why
    (row,) = [row for table in request.tables for row in table.rows if row.name == "fires by itself"]
    assert row.value == said


def test_a_models_is_never_active_without_a_person(tract, firing):
    tract.autonomy.ceiling = "autonomous"
    spec = firing(tokens=5)
    action = replace(spec.actions["verify"], isolation="sandbox")
    pending = tract.propose_operation(replace(spec, actions={"verify": action}), actor="agent:7")
    assert pending.status is PendingStatus.PENDING


# --- firing


def test_an_operation_is_proposed_when_its_condition_holds_and_runs_after_approval(tract, firing):
    tract.register_operation(firing(tokens=20))
    (row,) = tract.policies.list()
    assert (row.name, row.fires_on, row.state) == ("operation-citation_check", ("commit",), "on")
    tract.user("short")
    assert tract.review.inbox() == []
    tract.user("a message that is long enough to bring the context to more than twenty tokens, I say")
    (asked,) = tract.review.inbox()
    assert "20 tokens or more" in asked.fields["reason"]
    tract.user("more")
    assert len(tract.review.inbox()) == 1  # no second request while the first is open
    pending = tract.operations.rebuild(asked)
    pending.approve()
    assert pending.result["status"] == "approved"
    assert fired(tract) == ["policy.proposed"]


def test_a_manual_ceiling_only_tells_about_the_operation(tract, firing):
    tract.autonomy.ceiling = "manual"
    tract.register_operation(firing())
    tract.user("hello")
    assert (tract.review.inbox(), fired(tract)) == ([], ["policy.told"])


def test_autonomous_it_is_done_at_every_so_many_commits(tract, firing):
    tract.autonomy.ceiling = "autonomous"
    tract.user("before")
    spec = firing(commits=3)
    tract.register_operation(spec)
    tract.policies.add(
        "operation", name="operation-citation_check", operation="citation_check",
        condition=spec.fires_on.to_dict(), autonomy="autonomous",
    )  # fmt: skip
    done = []
    tract.on("citation_check", lambda pending: (done.append(pending.fields["urls"]), pending.approve()))
    for number in range(6):
        tract.user(f"message {number}")
    assert done == [FIELDS["urls"]] * 2


@pytest.mark.parametrize(("condition", "moment"), [
    ({"content_type": "instruction"}, lambda tract: tract.system("be brief")),
    ({"moment": "compile"}, lambda tract: (tract.compile(), tract.compile())),
])  # fmt: skip
def test_only_at_its_moment(tract, firing, condition, moment):
    tract.register_operation(firing(**condition))
    tract.user("hello")
    assert tract.review.inbox() == []
    moment(tract)
    assert len(tract.review.inbox()) == 1


def test_the_policy_is_removed_with_its_operation(tract, firing, spec):
    tract.register_operation(firing())
    tract.register_operation(spec("pending.approve()"), replace=True)  # a version without a condition
    assert list(tract.policies.list()) == []
    tract.register_operation(firing(), replace=True)
    tract.unregister_operation("citation_check")
    tract.user("hello")
    assert (list(tract.policies.list()), tract.review.inbox()) == ([], [])


def test_revoked_it_does_not_fire(tract, firing):
    tract.register_operation(firing())
    tract.operations.revoke("citation_check")
    tract.user("hello")
    assert (list(tract.policies.list()), tract.review.inbox()) == ([], [])


def test_another_condition_than_the_approved_one_counts_for_nothing(tract, firing):
    tract.register_operation(firing(tokens=1_000_000))
    tract.policies.add("operation", name="mine", operation="citation_check", condition={"fields": FIELDS})
    tract.user("hello")
    assert tract.review.inbox() == []


def test_the_policy_is_restored_when_the_tract_is_reopened(own_store, firing):
    with Tract.open(url=own_store) as tract:
        tract.register_operation(firing())
        tract_id = tract.tract_id
    with Tract.open(url=own_store, tract_id=tract_id) as tract:
        tract.user("hello")
        assert len(tract.review.inbox()) == 1


@pytest.mark.parametrize(("condition", "proposed"), [({"commits": 2}, [1, 3, 5]), ({"seconds": 60}, [2, 4])])
def test_a_counted_condition_proposes_once_each_time_it_is_reached(t, clock, firing, condition, proposed):
    t.autonomy.ceiling = "collaborative"
    t.register_operation(firing(**condition))
    asked = []
    for number in range(6):
        t.user(str(number))
        clock.forward(seconds=30)
        for one in t.review.inbox():
            asked.append(number)
            t.operations.rebuild(one).approve()
    assert asked == proposed
