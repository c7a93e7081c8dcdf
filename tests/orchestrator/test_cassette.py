"""An orchestrator on a cassette: a replay without a model makes the same commits."""

from __future__ import annotations

import pytest

from tests.orchestrator.conftest import annotate, compress, thinks
from tests.orchestrator.test_code import SKIPS, script
from tests.review.fakes import FakeChannel, click
from tests.review.scripted import ScriptedClient, call, said
from tract_jupyter import OrchestratorConfig, Tract, auto_approve
from tract_jupyter.exceptions import CassetteError
from tract_jupyter.models import TokenBudget, Trigger


@pytest.fixture
def played(tmp_path):
    """Record a session, or replay it without a model; return the head of the context and the results."""
    path = tmp_path / "run.cassette.jsonl"

    def play(way, work, *replies):
        with Tract.open(**{way: path}) as t:
            if replies:
                t.models.use(ScriptedClient(*replies), operation="orchestrate")
            for week in range(5):
                t.user(f"Week {week}: {week * 7} birds, {'and so on ' * 30}")
            t.budget = TokenBudget(200, action="callback", callback=lambda *_: None)
            results = work(t)
            report = t.cassette.stop()
            with t.orchestrator.conversation() as own:
                told = said(own)
            return t.head, report, results, told

    return play


def outcome(result):
    return (
        result.outcome,
        result.note,
        result.text,
        result.tokens_after,
        dict(result.usage),
        len(result.steps),
    )


def two_runs(t):
    t.orchestrator.config = OrchestratorConfig(on_proposal=auto_approve)
    return [outcome(t.orchestrate("it is full")), outcome(t.orchestrate("again"))]


TWO = (
    thinks("I look.", call("log", {"limit": 2}, "c0")), thinks(None, compress(reasoning="full")), "Done.",
    thinks(None, annotate("HEAD", "pinned", "c2")), "Pinned.",
)  # fmt: skip


def test_runs_are_replayed_to_the_same_root_hash(played):
    recorded = played("record", two_runs, *TWO)
    replayed = played("replay", two_runs)
    assert replayed[0] == recorded[0]
    assert replayed[2:] == recorded[2:]
    assert replayed[1].is_same
    assert [one[2] for one in replayed[2]] == ["Done.", "Pinned."]


def asked_in_scripts(t):
    t.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "approve"))
    t.orchestrator.config = OrchestratorConfig(profile="code")
    return outcome(t.orchestrate("it is full"))


def test_a_run_in_code_mode_is_replayed(played):
    recorded = played("record", asked_in_scripts, thinks(None, script(SKIPS)), "Done.")
    replayed = played("replay", asked_in_scripts)
    assert replayed[0] == recorded[0]
    assert (replayed[2], replayed[1].is_same) == (recorded[2], True)


def started_by_a_policy(t):
    t.autonomy.ceiling = "autonomous"
    t.orchestrator.config = OrchestratorConfig(autonomy_ceiling="autonomous", triggers=[Trigger(commits=1)])
    t.user("Week 5: 35 birds.")
    return [event.event_type for event in t.policies.log()]


def test_a_run_started_by_a_policy_is_replayed(played):
    recorded = played("record", started_by_a_policy, thinks(None, compress()), "Done.")
    assert recorded[2] == ["policy.executed", "policy.began"]
    replayed = played("replay", started_by_a_policy)
    assert replayed[0] == recorded[0]
    assert (replayed[2], replayed[1].is_same) == (recorded[2], True)


def test_replay_with_a_different_context_is_an_error(played):
    played("record", two_runs, *TWO)

    def otherwise(t):
        t.user("Something else.")
        return two_runs(t)

    with (
        pytest.raises(CassetteError, match="is not request 1"),
        pytest.warns(UserWarning, match="not used"),
    ):
        played("replay", otherwise)
