"""Common faults of agents that manage a context. Each test fails without its safeguard.
The first fault, descriptions that lead a model to the wrong tool, is measured in
tests/toolkit/test_descriptions.py.
"""

from __future__ import annotations

import json
import threading

import pytest

from tests.orchestrator.conftest import annotate, compress, thinks, told
from tests.review.scripted import ScriptedClient, call
from tract_jupyter import Orchestrator, OrchestratorConfig, OrchestratorError, Tract, auto_approve
from tract_jupyter.models import AutonomyLevel, TokenBudget, Trigger, TurnOutcome

# --- 2: a run never ends


def test_a_run_that_repeats_a_call_is_stopped(full, orchestrator):
    """Without the comparison, the model would repeat the call until its limit."""
    again = [thinks(f"Try {n}.", call("log", {"limit": 1}, f"c{n}")) for n in range(4)]
    result = orchestrator(*again).run()
    assert result.outcome is TurnOutcome.REPEAT
    assert "repeated the same calls" in result.note
    assert "resume()" in result.note


def test_a_run_with_two_steps_without_effect_is_stopped(full, orchestrator):
    """Without the check for changes, the run would continue to its limit."""
    first, second = (entry.commit_hash for entry in full.log(2))
    calls = [
        annotate(first, "normal", "c1"),
        annotate(second, "normal", "c2"),
        annotate(first, "important", "c3"),
    ]
    made = orchestrator(*(thinks(None, one) for one in calls), "Done.", on_proposal=auto_approve)
    result = made.run()
    assert (result.outcome, len(result.steps)) == (TurnOutcome.REPEAT, 2)
    assert "two rounds of calls that should change something had no effect" in result.note
    assert len(made.client.replies) == 2


def test_the_calls_of_a_run_are_limited(full, orchestrator):
    """Without the limit, the run would read forever."""
    reads = [thinks(None, call("log", {"limit": n}, f"c{n}")) for n in range(1, 9)]
    result = orchestrator(*reads, max_steps=3).run()
    assert (result.outcome, len(result.steps)) == (TurnOutcome.LIMIT, 4)
    assert "the limit of 3 tool calls of this turn is reached; resume() continues" in result.note
    assert [step.result.success for step in result.steps] == [True, True, True, False]


# --- 3: its actions start it again


def test_an_orchestrator_cannot_start_a_second_run(full, orchestrator):
    """Its tool calls cannot start it again."""
    told_errors = []

    @full.tool(read_only=True)
    def orchestrate_more() -> str:
        """Start it again."""
        for one in (made, Orchestrator(full)):
            with pytest.raises(OrchestratorError, match="is already running") as caught:
                one.run()
            told_errors.append(str(caught.value))
        return "tried"

    made = orchestrator(thinks(None, call("orchestrate_more")), "Fine.")
    made.run()
    assert len(told_errors) == 2


def test_a_run_started_by_a_policy_fires_no_policy_with_its_commits(full):
    """Without the lock and the suspension, each of its commits would start it again."""
    client = ScriptedClient(
        thinks(None, call("commit", {"content": {"content_type": "instruction", "text": "Hm."}})), "Done."
    )
    full.models.use(client, operation="orchestrate")
    full.autonomy.ceiling = "autonomous"
    full.orchestrator.config = OrchestratorConfig(
        autonomy_ceiling="autonomous", triggers=[Trigger(commits=1)]
    )
    full.user("Week 7: 49 birds.")
    assert client.replies == []
    assert len(full.orchestrator.runs()) == 1
    assert "You were called because" in client.asked[0][0][-1]["content"]
    assert [event.event_type for event in full.policies.log()] == ["policy.executed", "policy.began"]
    full.orchestrator.config = OrchestratorConfig()
    assert [row.name for row in full.policies.list()] == []


@pytest.fixture
def triggered(full):
    """A tract in which every third commit starts the orchestrator, with scripted replies."""

    def give(*replies):
        client = ScriptedClient(*replies)
        full.models.use(client, operation="orchestrate")
        full.orchestrator.config = OrchestratorConfig(triggers=[Trigger(commits=3)])
        return client

    return give


def commits(tract, count):
    for number in range(count):
        tract.user(f"Another {number}.")


def journal(tract):
    return [event.event_type.removeprefix("policy.") for event in tract.policies.log()][::-1]


def test_a_trigger_starts_no_second_run_while_a_run_waits_for_the_user(full, triggered):
    client = triggered(thinks("Full.", compress()), "Done.", "Fine.")
    commits(full, 9)
    assert (len(full.orchestrator.runs()), len(client.asked)) == (1, 1)
    assert journal(full) == ["began", "executed", "skipped"]  # reported once
    (skipped, *_) = full.policies.log()
    assert skipped.data["error"] == (
        "run-1 of the orchestrator waits for your decision: '%tract inbox' shows it, and "
        "'%tract_orchestrate --resume' continues it afterwards"
    )
    assert len(full.review.inbox()) == 1
    commits(full, 2)
    full.reviewer.asked_here(full.review.inbox()[0].pending_id).approve()
    commits(full, 3)  # decided, and not resumed
    assert len(full.orchestrator.runs()) == 1
    assert full.orchestrator.resume().text == "Done."
    commits(full, 4)  # the first commit finds a shorter history
    assert (len(full.orchestrator.runs()), client.replies) == (2, [])
    assert journal(full)[3:] == ["began", "executed"]


def test_a_trigger_starts_no_second_run_while_another_process_runs_the_first(own_store):
    """A second tract of the same store represents the other process. Its policies do not know the
    runs of this one."""
    with Tract.open(url=own_store) as t, Tract.open(url=own_store) as other:
        t.user("Week 1.")
        other.policies.add("orchestrate", commits=1)

        @t.tool(read_only=True)
        def have_it_commit() -> str:
            """Commit something elsewhere."""
            thread = threading.Thread(target=other.user, args=("Week 2.",))
            thread.start()
            thread.join()
            return "ok"

        Orchestrator(t, llm_callable=ScriptedClient(thinks(None, call("have_it_commit")), "Done.")).run()
        assert journal(other) == ["skipped"]
        assert other.policies.log()[0].data["error"] == "run-1 of the orchestrator is running"
        assert t.orchestrator.runs() == ["run-1"]


def test_an_approved_commit_of_the_orchestrator_triggers_no_policy_during_the_run(full, orchestrator):
    """Policies are suspended during the run. They see its results at their next check, after a
    commit of the user."""
    full.policies.add("pin", patterns=["Hm"])
    said = {"content": {"content_type": "dialogue", "role": "user", "text": "Hm."}}
    made = orchestrator(thinks(None, call("commit", said)), "Done.", on_proposal=auto_approve)
    made.run()
    assert full.compile().messages[-1].content == "Hm."
    assert full.policies.log() == []
    full.user("And another week.")
    assert [event.event_type for event in full.policies.log()] == ["policy.proposed"]


def test_a_compile_call_of_the_orchestrator_starts_no_second_run(full):
    """A compile within a run does not trigger the policy that started it."""
    client = ScriptedClient(
        thinks(None, call("compile", {})), thinks(None, annotate("HEAD", "skip")),
        thinks(None, call("compile", {}, "c3")), "Done.",
    )  # fmt: skip
    full.models.use(client, operation="orchestrate")
    full.autonomy.ceiling = "autonomous"
    full.policies.add("orchestrate", moment="compile", autonomy="autonomous")
    full.orchestrator.config = OrchestratorConfig(autonomy_ceiling="autonomous")
    full.compile()
    assert client.replies == []
    assert len(full.orchestrator.runs()) == 1


# --- 4: arguments that do not fit the tool


@pytest.mark.parametrize(
    ("arguments", "told_of"),
    [({"target_hash": 3, "priority": "skip"}, "target_hash"), ({"priority": "skip"}, "target_hash"),
     ({"target_hash": "HEAD", "priority": "skip", "extra": 1}, "extra")],
)  # fmt: skip
def test_wrong_arguments_are_reported_and_can_be_corrected(full, orchestrator, arguments, told_of):
    """Without the check, they would be a TypeError in other code."""
    right = {"target_hash": "HEAD", "priority": "skip"}
    made = orchestrator(
        thinks(None, call("annotate", {**arguments, "alternatives": "none"})), thinks(None, call("annotate", right, "c2")),
        "Done.", on_proposal=auto_approve,
    )  # fmt: skip
    result = made.run()
    assert told_of in told(made, 1)[0]
    assert "TypeError" not in told(made, 1)[0]
    assert [step.result.success for step in result.steps] == [False, True]


# --- 5: stopped during an action


def test_stop_keeps_completed_calls_and_starts_no_more(full, orchestrator):
    """Signals take effect between calls. Each call completes."""
    made = orchestrator(
        thinks(None, annotate("HEAD", "skip"), compress(call_id="c2")),
        "Done.",
        on_step=None,
        on_proposal=auto_approve,
    )
    made.act = lambda asked, make: (make(), made.stop())[0] if asked.name == "annotate" else make()
    result = made.run()
    assert (result.outcome, result.state, made.state) == ("stopped", "stopped", "idle")
    assert len(full.compile().messages) == 6  # annotated, not compressed
    assert full.verify() == []
    made.act = None
    again = made.resume()
    assert (again.outcome, again.text) == ("answer", "Done.")


def test_stop_while_a_call_writes_leaves_the_call_whole(full, orchestrator):
    """A call that has begun to write completes, and the next call does not start."""
    made = orchestrator(
        thinks(None, call("write_twice"), annotate("HEAD", "skip", "c2")), "Done.", on_proposal=auto_approve
    )

    @full.tool
    def write_twice() -> str:
        """Say two things that belong together."""
        full.user("A half.")
        from_elsewhere = threading.Thread(target=made.stop)
        from_elsewhere.start()
        from_elsewhere.join()
        full.user("The other half.")
        return "both"

    result = made.run()
    assert (result.outcome, result.state) == ("stopped", "stopped")
    assert [message.content for message in full.compile().messages][-2:] == ["A half.", "The other half."]
    assert "skip" not in {entry.priority for entry in full.log(None)}
    assert full.verify() == []


# --- 6: more autonomy than the ceiling allows


def test_the_ceilings_limit_the_requested_level_of_a_run(full, orchestrator):
    """An autonomous policy needs approval under a collaborative ceiling."""
    full.autonomy.ceiling = "autonomous"
    made = orchestrator(thinks(None, compress()), "Done.")
    result = made.run("a policy says so", "autonomous")
    assert (result.outcome, result.autonomy) == ("waiting", "collaborative")
    assert [stored.title for stored in full.review.inbox()] == ["Call tool compress"]
    made.config.autonomy_ceiling = AutonomyLevel.AUTONOMOUS
    full.autonomy.ceiling = "collaborative"
    made.client.replies[:0] = [thinks(None, compress("Other words."))]
    assert made.run("again", "autonomous").outcome == "waiting"
    full.autonomy.ceiling = "autonomous"
    made.client.replies[:0] = [thinks(None, compress())]
    result = made.run("again", "collaborative")
    assert (result.outcome, result.autonomy) == ("waiting", "collaborative")


@pytest.mark.parametrize(
    ("ceiling", "of_settings"), [("collaborative", "autonomous"), ("autonomous", "collaborative")]
)
def test_an_autonomous_policy_starts_an_orchestrator_that_asks(full, ceiling, of_settings):
    """Its level is the lowest of the tract's ceiling, the orchestrator's ceiling and the policy's level."""
    full.models.use(ScriptedClient(thinks(None, compress()), "Done."), operation="orchestrate")
    full.autonomy.ceiling = ceiling
    full.orchestrator.config = OrchestratorConfig(autonomy_ceiling=of_settings, triggers=[Trigger(commits=1)])
    full.user("Week 7: 49 birds.")
    (waiting,) = full.review.inbox()
    assert waiting.title == "Call tool compress"
    assert full.events("compress") == []


# --- 7: the model gets the whole context


def test_the_assessment_does_not_grow_with_the_context(tract, orchestrator):
    """It would grow if it contained message texts."""
    tract.budget = TokenBudget(10**9)
    sizes = []
    for count in (30, 100):
        for number in range(count):
            tract.user(f"message {number} " * 200, message=f"message {number} " * count)
            tract.branch(f"branch-{count}-{number}-{'x' * count}", switch=False)
        made = orchestrator("Fine.", tract=tract, recent_commits=5)
        made.run("because " * 1_000)
        sizes.append(sum(len(one["content"]) for one in made.client.asked[0][0]))
    assert sizes[1] < sizes[0] + 500
    assert sizes[1] < 5_000


def test_message_texts_are_sent_only_after_a_tool_reads_them(full, orchestrator):
    """Only short log lines and the results of its tools are sent."""
    made = orchestrator(thinks(None, call("compile", {})), "Fine.")
    made.run()
    first, second = (json.dumps(messages) for messages, _ in made.client.asked)
    assert "and so on " * 20 not in first
    assert "and so on " * 20 in second
