"""Triggers that start an orchestrator automatically."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models import TokenBudget, Trigger
from tract_jupyter.policy import PolicyWarning


@pytest.fixture
def started(t):
    """Record the starts of an orchestrator that makes a commit each time."""
    starts = []

    def orchestrate(reason, autonomy):
        starts.append((reason, str(autonomy)))
        t.assistant(f"by the orchestrator {len(starts)}")
        t.compile()

    t.policies.evaluator.orchestrate = orchestrate
    return starts


def outcomes(tract):
    return [event.event_type.removeprefix("policy.") for event in tract.policies.log()][::-1]


def test_a_trigger_is_a_frozen_and_validated_value(t):
    trigger = Trigger()
    assert trigger == Trigger("commit", None, None, None, None)
    with pytest.raises(FrozenInstanceError):
        trigger.commits = 5
    for wrong in ({"commits": 0}, {"tokens": "many"}, {"tokens": 1.5}, {"tokens": 0.0}, {"moment": "sometimes"},
                  {"seconds": -1}, {"content_type": 3}, {"commits": True}):  # fmt: skip
        with pytest.raises(ContentError, match=r"\w"):
            Trigger(**wrong)
        with pytest.raises(ContentError, match=next(iter(wrong))):
            t.policies.add("orchestrate", **wrong)
    for wrong in (Trigger(), [3], "commit"):
        with pytest.raises(ContentError, match="Trigger"):
            t.policies.add("orchestrate", when=wrong)
    with pytest.raises(ContentError, match="the orchestrator has no trigger"):
        t.policies.add("orchestrate")


def test_commits_start_it_and_its_own_fire_nothing(t, started):
    t.policies.add("orchestrate", commits=3, autonomy="autonomous")
    for number in range(7):
        t.user(str(number))
    assert [reason for reason, _ in started] == ["There are 3 new commits on 'main'."] * 2
    assert outcomes(t) == ["began", "executed"] * 2


def test_the_orchestrator_runs_at_the_lower_of_ceiling_and_trigger(t, started):
    t.policies.add("orchestrate", commits=1, autonomy="autonomous")
    for level in ("autonomous", "collaborative"):
        t.autonomy.ceiling = level
        t.user("go")
        assert started[-1][1] == level
    t.autonomy.ceiling = "manual"
    t.user("go")
    assert (len(started), outcomes(t)[-1]) == (2, "told")


def test_tokens_start_it_once_for_each_crossing(t, started):
    start = t.head
    t.policies.add("orchestrate", tokens=t.status().token_count + 30)
    for number in range(10):
        t.user(f"a message {number}")
    assert len(started) == 1
    t.reset(start)
    t.user("small again")
    for number in range(10):
        t.user(f"another message {number}")
    assert len(started) == 2


def test_a_part_of_the_budget_starts_it(t, started):
    t.policies.add("orchestrate", tokens=0.8)
    t.user("a message " * 50)
    assert started == []  # there is no budget
    t.budget = TokenBudget(2 * t.status().token_count, action="callback", callback=lambda *_: None)
    t.user("small")
    assert started == []
    t.user("a message " * 50)
    t.user("small")
    assert len(started) == 1
    assert "80% of the budget or more" in started[0][0]


def test_a_compile_starts_it_if_something_changed(t, started):
    t.policies.add("orchestrate", moment="compile")
    t.compile()
    assert len(started) == 1
    t.user("more")
    t.compile()
    assert len(started) == 2


def test_time_that_has_passed_starts_it_at_the_next_moment(t, clock, started):
    t.policies.add("orchestrate", seconds=3600)
    t.user("one")
    clock.forward(seconds=3601)
    assert started == []  # no thread waits
    t.user("two")
    t.user("three")
    assert len(started) == 1
    clock.forward(seconds=3601)
    t.compile()
    assert len(started) == 2


def test_the_counter_of_a_trigger_is_stored(tmp_path, clock):
    from tract_jupyter import Tract

    starts = []
    for number in range(5):
        with Tract.open(tmp_path / "t.db") as tract:
            if not number:
                tract.policies.add("orchestrate", commits=3)
            tract.policies.evaluator.orchestrate = lambda reason, autonomy: starts.append(reason)
            tract.user(str(number))
    assert len(starts) == 1


def test_a_trigger_without_an_orchestrator_is_reported_as_failed(t):
    t.policies.add("orchestrate", commits=1)
    t.policies.evaluator.orchestrate = None
    with pytest.warns(PolicyWarning, match="no orchestrator"):
        t.user("one")
    assert outcomes(t) == ["failed"]


def test_an_orchestrator_that_fails_breaks_no_commit(t):
    def failing(reason, autonomy):
        raise RuntimeError("no model")

    t.policies.evaluator.orchestrate = failing
    t.policies.add("orchestrate", commits=1)
    with pytest.warns(PolicyWarning, match="no model"):
        t.user("one")
    assert t.log()[0].message == "one"
    assert outcomes(t) == ["began", "failed"]


def test_within_a_batch_none_is_started_and_one_after_it(t, started):
    t.policies.add("orchestrate", commits=2)
    with t.batch():
        for number in range(6):
            t.user(str(number))
        assert started == []
    assert len(started) == 1


def test_each_trigger_starts_it_and_all_parts_of_one_must_hold(t, started):
    many = t.status().token_count + 1_000
    t.policies.add("orchestrate", when=[Trigger(commits=2), Trigger(tokens=many, content_type="dialogue")])
    t.user("a message " * 2_000)
    t.system("not of this type")
    t.user("one more")
    first, second = (reason for reason, _ in started)
    assert first.endswith(" tokens or more and the newest message is of type 'dialogue'.")
    assert second.startswith("There are 2 new commits on 'main'. The context has ")
