"""An orchestrator in code mode (profile `code`): each call of its scripts is reviewed as usual."""

from __future__ import annotations

import pytest

from tests.orchestrator.conftest import thinks, told
from tests.review.fakes import FakeChannel, click
from tests.review.scripted import call
from tract_jupyter import auto_approve

READS = "len(tools.log(limit=3))"
SKIPS = 'newest = tools.log(limit=1)[0]\ntools.annotate(target_hash=newest["commit_hash"], priority="skip")\n"skipped"'


def script(code, call_id="c1", **more):
    """A call that runs a script."""
    return call(
        "notebook_execute", {"code": code, "reasoning": "to see", "alternatives": [], **more}, call_id
    )


def skipped(tract):
    return sum(entry.operation == "annotate" for entry in tract.log(None))


def test_the_model_writes_scripts_and_gets_instructions_for_them(full, orchestrator):
    made = orchestrator(thinks(None, script(READS)), "Fine.", profile="code")
    result = made.run()
    messages, options = made.client.asked[0]
    names = {one["function"]["name"] for one in options["tools"]}
    assert names == {"notebook_execute", "tools_search", "tools_describe", "read_result"}
    assert any("tools." in one["content"] for one in messages if one["role"] == "system")
    (step,) = result.steps
    assert (step.result.success, step.reasoning) == (True, "to see")
    assert '"result": "3"' in told(made)[0]
    assert (result.outcome, result.note) == ("answer", "nothing was changed")


@pytest.mark.parametrize("level", ["collaborative", "autonomous"])
def test_a_writing_call_in_its_script_needs_approval(full, orchestrator, level):
    full.autonomy.ceiling = level
    full.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "approve"))
    made = orchestrator(
        thinks(None, script(SKIPS)), "Done.", profile="code", autonomy_ceiling=level, on_proposal=auto_approve
    )
    result = made.run()
    assert "skipped" in told(made)[0]
    assert (result.note, skipped(full)) == ("1 change made", 1)
    (decision,) = full.review.decisions()
    assert (decision.action, decision.channel) == ("approve", "fake")


def test_a_rejected_call_of_a_script_is_reported_with_the_reason(full, orchestrator):
    full.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "reject", reason="every week counts"))
    made = orchestrator(thinks(None, script(SKIPS)), "Then not.", profile="code")
    assert made.run().note == "nothing was changed"
    assert "every week counts" in told(made)[0]
    assert skipped(full) == 0


def test_without_a_channel_the_script_pauses_and_changes_nothing(full, orchestrator):
    made = orchestrator(thinks(None, script(SKIPS)), "It waits.", profile="code", on_proposal=auto_approve)
    result = made.run()
    assert '"status": "paused"' in told(made)[0]
    assert (result.note, skipped(full)) == ("nothing was changed", 0)
    assert [stored.title for stored in full.review.inbox()] == ["Call tool annotate"]


def test_kernel_code_needs_the_users_approval(full, orchestrator):
    made = orchestrator(
        thinks(None, script(READS, backend="kernel")), "Hm.", profile="code", on_proposal=auto_approve
    )
    made.run()
    assert "waits" in told(made)[0]
    assert full.review.inbox()[0].operation == "run_script"


def test_at_the_level_manual_no_script_runs(full, orchestrator):
    made = orchestrator(thinks(None, script(SKIPS)), "I would skip one.", profile="code")
    result = made.run(autonomy="manual")
    assert [one.name for one in result.told] == ["notebook_execute"]
    assert (result.note, skipped(full)) == (
        "nothing was changed; 1 proposal reported but not executed, because autonomy is manual", 0
    )  # fmt: skip


def test_lowered_while_its_script_is_asked_the_call_is_not_made(full, orchestrator):
    def lower(ticket):
        full.autonomy.ceiling = "manual"
        click(ticket, "approve")

    full.reviewer.channel = FakeChannel(lower, lambda ticket: click(ticket, "reject", reason="no more"))
    made = orchestrator(thinks(None, script(SKIPS)), "Then not.", profile="code")
    made.run()
    assert skipped(full) == 0
