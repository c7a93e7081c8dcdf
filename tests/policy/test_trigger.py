"""What starts an orchestrator by itself."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models import TokenBudget
from tract_jupyter.policy import PolicyWarning, TriggerConfig


@pytest.fixture
def started(t):
    """The starts of an orchestrator that commits something each time."""
    starts = []

    def orchestrate(reason, autonomy):
        starts.append((reason, str(autonomy)))
        t.assistant(f"by the orchestrator {len(starts)}")
        t.compile()

    t.policies.evaluator.orchestrate = orchestrate
    return starts


def outcomes(tract):
    return [event.event_type.removeprefix("policy.") for event in tract.policies.log()][::-1]


def test_it_is_a_frozen_value_that_is_checked():
    config = TriggerConfig()
    assert (config.on_commit_count, config.on_token_threshold, config.on_compile, config.autonomy) == (
        None,
        None,
        False,
        None,
    )
    with pytest.raises(FrozenInstanceError):
        config.on_compile = True
    for wrong in ({"on_commit_count": 0}, {"on_token_threshold": "many"}, {"on_token_threshold": 1.5}, {"on_token_threshold": 0.0}, {"on_compile": 1},
                  {"on_schedule_seconds": -1}, {"autonomy": "some"}, {"on_commit_count": True}):  # fmt: skip
        with pytest.raises(ContentError, match=r"\w"):
            TriggerConfig(**wrong)
    with pytest.raises(ContentError, match="nothing would ever start"):
        config.to_policy()


def test_commits_start_it_and_its_own_fire_nothing(t, started):
    t.policies.add(TriggerConfig(on_commit_count=3, autonomy="autonomous"))
    for number in range(7):
        t.user(str(number))
    assert [reason for reason, _ in started] == ["There are 3 new commits on 'main'."] * 2
    assert outcomes(t) == ["began", "executed"] * 2


def test_the_lower_of_ceiling_and_trigger_is_what_it_runs_at(t, started):
    t.policies.add(TriggerConfig(on_commit_count=1, autonomy="autonomous"))
    for level in ("autonomous", "collaborative"):
        t.autonomy.ceiling = level
        t.user("go")
        assert started[-1][1] == level
    t.autonomy.ceiling = "manual"
    t.user("go")
    assert (len(started), outcomes(t)[-1]) == (2, "told")


def test_tokens_start_it_once_for_each_crossing(t, started):
    start = t.head
    t.policies.add(TriggerConfig(on_token_threshold=t.status().token_count + 30))
    for number in range(10):
        t.user(f"a message {number}")
    assert len(started) == 1
    t.reset(start)
    t.user("small again")
    for number in range(10):
        t.user(f"another message {number}")
    assert len(started) == 2


def test_a_part_of_the_budget_starts_it(t, started):
    t.policies.add(TriggerConfig(on_token_threshold=0.8))
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
    t.policies.add(TriggerConfig(on_compile=True))
    t.compile()
    assert len(started) == 1
    t.user("more")
    t.compile()
    assert len(started) == 2


def test_time_that_has_passed_starts_it_at_the_next_moment(t, clock, started):
    t.policies.add(TriggerConfig(on_schedule_seconds=3600))
    t.user("one")
    clock.forward(seconds=3601)
    assert started == []  # no thread waits
    t.user("two")
    t.user("three")
    assert len(started) == 1
    clock.forward(seconds=3601)
    t.compile()
    assert len(started) == 2


def test_what_it_counts_is_stored(tmp_path, clock):
    from tract_jupyter import Tract

    starts = []
    for number in range(5):
        with Tract.open(tmp_path / "t.db") as tract:
            if not number:
                tract.policies.add(TriggerConfig(on_commit_count=3))
            tract.policies.evaluator.orchestrate = lambda reason, autonomy: starts.append(reason)
            tract.user(str(number))
    assert len(starts) == 1


def test_without_an_orchestrator_it_is_told(t):
    t.policies.add(TriggerConfig(on_commit_count=1))
    t.policies.evaluator.orchestrate = None
    with pytest.warns(PolicyWarning, match="no orchestrator"):
        t.user("one")
    assert outcomes(t) == ["failed"]


def test_an_orchestrator_that_fails_breaks_no_commit(t):
    def failing(reason, autonomy):
        raise RuntimeError("no model")

    t.policies.evaluator.orchestrate = failing
    t.policies.add(TriggerConfig(on_commit_count=1))
    with pytest.warns(PolicyWarning, match="no model"):
        t.user("one")
    assert t.log()[0].message == "one"
    assert outcomes(t) == ["began", "failed"]


def test_within_a_batch_none_is_started_and_one_after_it(t, started):
    t.policies.add(TriggerConfig(on_commit_count=2))
    with t.batch():
        for number in range(6):
            t.user(str(number))
        assert started == []
    assert len(started) == 1
