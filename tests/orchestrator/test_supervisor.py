"""An orchestrator that manages another tract: its tools, gate and ceiling belong to the other tract."""

from __future__ import annotations

import pytest

from tests.orchestrator.conftest import compress, thinks
from tests.review.fakes import FakeChannel, click
from tests.review.scripted import ScriptedClient, call, reply
from tract_jupyter import (
    ActionDef,
    OperationSpec,
    Orchestrator,
    OrchestratorConfig,
    OrchestratorError,
    Session,
)


@pytest.fixture
def family():
    """A parent with a child; both are open in one session."""
    with Session.open() as session:
        parent = session.create_tract(tract_id="parent")
        parent.user("Count the birds.")
        child = session.spawn(parent, purpose="count")
        child.user("There are many. " * 40)
        yield session, parent, child


def test_a_supervisor_changes_the_child_and_asks_the_user_of_the_parent(family):
    session, parent, child = family
    client = ScriptedClient(thinks(None, compress()), "Done.")
    parent.models.use(client, operation="orchestrate")
    parent.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "approve"))
    child.reviewer.channel = FakeChannel()
    made = Orchestrator(child, OrchestratorConfig(profile="supervisor"), by=parent)
    before = parent.head
    result = made.run()
    assert [step.decision for step in result.steps] == ["approved"]
    assert (result.tokens_after < result.tokens_before, parent.head) == (True, before)
    assert child.reviewer.channel.shown == []
    (decision,) = parent.review.decisions()
    assert decision.action == "approve"
    asked = parent.reviewer.ledger.get(decision.pending_id)
    assert asked.actor == f"{child.executor.agent}/orchestrator:parent"
    assert made.actor == "orchestrator:parent"
    assert made.own_id == "orch.parent"
    assert session.resume() is parent
    tools = client.asked[0][1]["tools"]
    (described,) = [one["function"] for one in tools if one["function"]["name"] == "compress"]
    assert described["description"].endswith(f"It acts on the context {child.family.agent_id}.")
    assert [line.operation for line in parent.costs().lines] == ["orchestrate"]


def test_a_run_for_the_child_is_never_resumed_for_the_parent(family):
    _, parent, child = family
    parent.models.use(ScriptedClient(thinks(None, compress())), operation="orchestrate")
    over_child = Orchestrator(child, OrchestratorConfig(profile="supervisor"), by=parent)
    result = over_child.run()
    assert result.outcome == "waiting"
    assert over_child.runs() == [result.run] == [f"run-{child.family.agent_id}-1"]
    assert parent.orchestrator.runs() == []
    with pytest.raises(OrchestratorError, match="there are no runs yet"):
        parent.orchestrator.resume()
    parent.models.use(ScriptedClient("Fine.", "Fine, too."), operation="orchestrate")
    assert parent.orchestrate().run == "run-1"
    with pytest.raises(OrchestratorError, match="there is no run"):
        over_child.resume("run-1")
    before = parent.head
    assert over_child.resume().outcome == "waiting"
    assert (parent.head, over_child.runs()) == (before, [result.run])


def test_the_childs_ceiling_counts(family):
    _, parent, child = family
    parent.autonomy.ceiling = "autonomous"
    child.autonomy.ceiling = "manual"
    parent.configure_llm(ScriptedClient(thinks(None, compress()), "Told."))
    result = Orchestrator(child, OrchestratorConfig(autonomy_ceiling="autonomous"), by=parent).run()
    assert [one.name for one in result.told] == ["compress"]


def test_active_operations_are_its_tools(full, orchestrator):
    go = ActionDef("go", "Do it.", {}, "pending.fields['n'] = 2\npending.approve()")
    full.register_operation(
        OperationSpec("count", "Count.", {"n": {"type": "int", "default": 1}}, {"go": go})
    )
    made = orchestrator(reply(None, call("fire_count", {"n": 1, "reasoning": "to know"})), "Done.")
    full.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "go"))
    (step,) = made.run().steps
    assert step.result.success
    assert '"n": 2' in step.result.output
    (schema,) = [
        s["function"] for s in made.client.asked[0][1]["tools"] if s["function"]["name"] == "fire_count"
    ]
    assert set(schema["parameters"]["properties"]) == {"n", "reasoning", "alternatives"}
