"""Runs: healthy, over budget, rejected, idle, stopped, paused; and their life cycle."""

from __future__ import annotations

import pytest

from tests.orchestrator.conftest import SUMMARY, annotate, compress, thinks, told
from tests.review.fakes import FakeChannel, click
from tests.review.scripted import ScriptedClient, call, said
from tract_jupyter import (
    Orchestrator,
    OrchestratorConfig,
    OrchestratorError,
    OrchestratorState,
    ProposalResponse,
    Tract,
    auto_approve,
)
from tract_jupyter.models import Allowance, ToolCall, TurnOutcome


def test_a_healthy_context_ends_the_run_with_a_sentence(full, orchestrator):
    made = orchestrator("It is fine as it is.")
    before = full.head
    result = made.run("just looking")
    assert (result.is_healthy, result.steps, result.text) == (True, (), "It is fine as it is.")
    assert (result.outcome, result.state, result.note) == ("answer", "idle", "nothing was changed")
    assert (full.head, result.tokens_after, result.reason) == (before, result.tokens_before, "just looking")
    assert "just looking" in made.client.asked[0][0][-1]["content"]


def test_an_edited_compression_reduces_the_tokens_of_an_over_budget_context(full, orchestrator):
    other = {
        "name": "annotate",
        "arguments": {"target_hash": "HEAD", "priority": "skip"},
        "why": "less is lost",
    }
    made = orchestrator(
        thinks(None, compress("Too short.", reasoning="1,000 % of the budget", alternatives=[other])),
        "Compressed.",
    )

    def change(ticket):
        rows = {row.name: row for table in ticket.request.tables for row in table.rows}
        assert rows["reasoning"].value == "1,000 % of the budget"
        assert rows["alternative 1"].value == "annotate(target_hash='HEAD', priority='skip')"
        assert rows["alternative 1"].description == "less is lost"
        assert ticket.request.action("choose").label == "Choose another"
        click(ticket, "approve", edits={"content": SUMMARY})

    full.reviewer.channel = FakeChannel(change)
    result = made.run()
    (step,) = result.steps
    assert (step.decision, step.reasoning) == ("modified", "1,000 % of the budget")
    assert step.tool_call.arguments["content"] == SUMMARY
    assert said(full) == [("system", "Count the birds of the lake."), ("assistant", SUMMARY)]
    assert result.tokens_after == full.status().token_count < 200 < result.tokens_before
    assert (step.tokens_before, step.tokens_after) == (result.tokens_before, result.tokens_after)
    assert "content" in told(made)[0]  # the model learns about the change
    assert result.note == "1 change made"


def test_the_reason_of_a_refusal_reaches_the_model_which_tries_otherwise(full, orchestrator):
    made = orchestrator(
        thinks(None, compress()), thinks(None, annotate("HEAD", "skip", "c2")), "Skipped one."
    )
    full.reviewer.channel = FakeChannel(
        lambda ticket: click(ticket, "reject", reason="every week counts"),
        lambda ticket: click(ticket, "approve"),
    )
    shown = full.reviewer.channel.shown
    result = made.run()
    assert "every week counts" in told(made)[0]
    assert [step.decision for step in result.steps] == ["rejected", "approved"]
    assert [request.title for request, status in shown if status == "pending"] == [
        "Call tool compress", "Call tool annotate",
    ]  # fmt: skip
    assert len(full.compile().messages) == 6


def test_a_chosen_alternative_runs_once_instead_of_the_call(full, orchestrator):
    other = {"name": "annotate", "arguments": {"target_hash": "HEAD", "priority": "skip"}}
    made = orchestrator(thinks(None, compress(alternatives=[other])), "Good.")
    full.reviewer.channel = FakeChannel(
        lambda ticket: click(ticket, "choose", number=1), lambda ticket: click(ticket, "approve")
    )
    result = made.run()
    (step,) = result.steps
    assert (step.tool_call.name, step.decision, step.result.success) == ("annotate", "modified", True)
    assert len(full.compile().messages) == 6
    assert "was chosen instead" in told(made)[0]
    assert [(made.action, made.channel) for made in full.review.decisions()] == [
        ("approve", "fake"),
        ("choose", "fake"),
    ]
    assert full.review.inbox() == []


def test_a_function_may_choose_another_call(full, orchestrator):
    def instead(proposal):
        return ProposalResponse("modified", ToolCall("x", "branch", {"name": "tidy"}), reason="try it aside")

    made = orchestrator(thinks(None, compress()), "Good.", on_proposal=instead)
    result = made.run()
    assert (result.steps[0].tool_call.name, full.current_branch) == ("branch", "tidy")
    assert "try it aside" in told(made)[0]


def test_different_reasoning_does_not_make_a_repeated_call_different(full, orchestrator):
    again = [
        thinks(None, call("reset", {"target": "HEAD", "reasoning": f"because {n}"}, f"c{n}"))
        for n in range(4)
    ]
    full.executor.lock_tool("reset")
    result = orchestrator(*again, on_proposal=auto_approve).run()
    assert result.outcome is TurnOutcome.REPEAT


def test_steps_that_read_different_data_do_not_count_as_idle(full, orchestrator):
    reads = [thinks(None, call("log", {"limit": n}, f"c{n}")) for n in range(1, 5)]
    assert orchestrator(*reads, "Fine.").run().outcome is TurnOutcome.ANSWER


def test_the_tokens_of_a_run_are_limited(full, orchestrator):
    logs = {**thinks(None, call("log", {})), "usage": {"prompt_tokens": 20_000, "completion_tokens": 1}}
    made = orchestrator(logs, "Fine.", limits=Allowance(tokens=20_000))
    assert made.run().outcome is TurnOutcome.LIMIT
    assert made.resume().outcome is TurnOutcome.ANSWER


# --- stop, pause, resume


@pytest.mark.parametrize(("end", "text"), [("stop", ""), ("pause", "")])
def test_a_stop_or_pause_before_the_first_request_is_not_lost(full, orchestrator, monkeypatch, end, text):
    made = orchestrator("Fine.", "And now.")
    suspended = full.policies.suspended

    def just_begun():
        getattr(made, end)()
        return suspended()

    with monkeypatch.context() as patch:
        patch.setattr(full.policies, "suspended", just_begun)
        result = made.run()
    assert (result.outcome, result.state, result.text, made.state) == ("stopped", "stopped", text, "idle")
    assert made.client.asked == []
    assert made.resume().text == "Fine."
    assert made.run().text == "And now."


def test_pause_ends_after_the_present_step(full, orchestrator):
    states = []
    made = orchestrator(thinks(None, annotate("HEAD", "skip")), "Done.", on_proposal=auto_approve)
    made.config.on_step = lambda step: (made.pause(), states.append(made.state))
    result = made.run()
    assert (result.outcome, result.state, states) == ("stopped", "stopped", [OrchestratorState.PAUSING])
    assert [step.result.success for step in result.steps] == [True]
    assert made.resume().text == "Done."


def test_an_orchestrator_can_run_again_after_each_kind_of_ending(full, orchestrator):
    made = orchestrator("Fine.", "Still fine.", "And now.")
    made.stop()
    made.pause()
    assert made.state is OrchestratorState.IDLE
    assert [made.run().text, made.run().text] == ["Fine.", "Still fine."]
    made.client.replies[:0] = [RuntimeError("down")]
    with pytest.raises(RuntimeError, match="down"):
        made.run()
    assert made.state is OrchestratorState.IDLE
    assert made.resume().text == "And now."
    assert made.runs() == ["run-1", "run-2", "run-3"]


# --- autonomy


@pytest.mark.parametrize("is_saved", [True, False])
def test_its_tools_can_lower_the_autonomy_setting_but_not_raise_it(full, orchestrator, is_saved):
    made = orchestrator(
        thinks(None, call("widen", {"level": "autonomous"})), thinks(None, call("widen", {"level": "manual"}, "c2")),
        "Done.", profile="full", on_proposal=auto_approve,
    )  # fmt: skip
    settings = full.orchestrator if is_saved else made

    @full.tool
    def widen(level: str) -> str:
        """Set how much it does by itself."""
        settings.config = OrchestratorConfig(autonomy_ceiling=level)
        return level

    made.run()
    assert "only the user can raise autonomy" in told(made, 1)[0]
    assert told(made)[1] == "manual"
    assert settings.config.autonomy_ceiling == "manual"


def test_at_autonomous_a_compression_runs_without_approval(full, orchestrator):
    full.autonomy.ceiling = "autonomous"
    result = orchestrator(thinks(None, compress()), "Done.", autonomy_ceiling="autonomous").run()
    assert [(step.decision, step.result.success) for step in result.steps] == [("", True)]
    assert full.status().token_count < 200


def test_a_destructive_call_needs_approval_even_at_autonomous(full, orchestrator):
    full.autonomy.ceiling = "autonomous"
    made = orchestrator(thinks(None, call("reset", {"target": "HEAD"})), autonomy_ceiling="autonomous")
    assert made.run().outcome == "waiting"


def test_at_manual_a_call_is_reported_and_not_run(full, orchestrator):
    made = orchestrator(thinks(None, compress(reasoning="full"), call("log", {}, "c2")), "I would compress.")
    before = full.head
    result = made.run(autonomy="manual")
    assert (full.head, result.autonomy, result.is_healthy) == (before, "manual", False)
    assert [(one.name, one.arguments) for one in result.told] == [("compress", {"content": SUMMARY})]
    assert "1 proposal reported but not executed" in result.note
    assert told(made)[0].startswith("reported, not run: autonomy is manual")
    assert full.review.inbox() == []
    assert [step.decision for step in result.steps] == ["told", ""]


def test_autonomy_lowered_during_a_run_applies_from_the_next_call(full, orchestrator):
    full.autonomy.ceiling = "autonomous"
    made = orchestrator(
        thinks(None, annotate("HEAD", "skip")), thinks(None, compress(call_id="c2")), "Done.",
        autonomy_ceiling="autonomous",
    )  # fmt: skip
    made.config.on_step = lambda step: setattr(full.autonomy, "ceiling", "manual")
    result = made.run()
    assert [step.decision for step in result.steps] == ["", "told"]
    assert len(full.compile().messages) == 6


@pytest.mark.parametrize("sandboxed", [True, False])
@pytest.mark.parametrize(
    ("ceiling", "of_settings"),
    [("autonomous", "autonomous"), ("autonomous", "collaborative"), ("collaborative", "autonomous")],
)
def test_a_proposed_operation_is_active_without_review_only_if_autonomous_and_sandboxed(
    full, orchestrator, ceiling, of_settings, sandboxed
):
    full.autonomy.ceiling = ceiling
    go = {"name": "go", "description": "Go.", "params": {}, "code": "pending.approve()"}
    if sandboxed:
        go["isolation"] = "sandbox"
    proposed = {
        "name": "count",
        "description": "Count.",
        "fields": {"n": {"type": "int"}},
        "actions": {"go": go},
    }
    made = orchestrator(
        thinks(None, call("propose_operation", proposed)), "Done.", profile="full", autonomy_ceiling=of_settings,
        on_proposal=auto_approve,
    )  # fmt: skip
    made.run()
    is_free = sandboxed and ceiling == of_settings == "autonomous"
    assert ("count" in full.operations.registry.operation_names) is is_free
    assert [stored.title for stored in full.review.inbox()] == (
        [] if is_free else ["Activate operation count"]
    )
    assert "RecursionError" not in told(made)[0]


def test_autonomy_lowered_during_the_proposal_skips_the_call_and_the_run_continues(full, orchestrator):
    def lower(proposal):
        full.autonomy.ceiling = "manual"
        return ProposalResponse("approved")

    made = orchestrator(thinks(None, compress()), "I would compress.", on_proposal=lower)
    result = made.run()
    assert (result.outcome, result.text, full.events("compress")) == ("answer", "I would compress.", [])
    assert "reported, not run: autonomy is manual" in told(made)[0]
    assert full.review.inbox() == []


# --- storage of its conversation


def test_its_conversation_never_enters_the_context(full, orchestrator):
    made = orchestrator(thinks("I look first.", call("log", {"limit": 1})), "Fine.")
    before = said(full)
    made.run("why not")
    assert said(full) == before
    own = made.conversation()
    assert [role for role, _ in said(own)] == ["system", "user", "assistant", "tool", "assistant"]
    assert [turn.question for turn in own.loop.turns()] == [own.log(10)[-2].commit_hash]
    own.close()
    assert full.verify() == []


def test_each_run_begins_blank(full, orchestrator):
    made = orchestrator("First.", "Second.")
    made.run()
    made.run()
    assert [one["role"] for one in made.client.asked[1][0]] == ["system", "user"]


def test_its_requests_are_in_the_costs_of_the_tract(full):
    full.configure_llm(ScriptedClient("Fine."))
    full.orchestrate()
    (line,) = full.costs().lines
    assert (line.operation, line.requests) == ("orchestrate", 1)


def test_the_orchestrator_can_use_another_model(full):
    usual, other = ScriptedClient(), ScriptedClient("Fine.")
    full.configure_llm(usual)
    full.models.use(other, operation="orchestrate")
    assert full.orchestrate().text == "Fine."
    named = ScriptedClient("Named.")
    full.models.add("house", named)
    assert Orchestrator(full, OrchestratorConfig(model="house")).run().text == "Named."
    plain = ScriptedClient("Plain.")
    full.models.use(plain, operation="orchestrate")
    assert Orchestrator(full, OrchestratorConfig(model="small-1", temperature=None)).run().text == "Plain."
    assert plain.asked[0][1].get("model") == "small-1"
    assert "temperature" not in plain.asked[0][1]
    assert usual.asked == []


def test_an_empty_context_is_nothing_to_look_after():
    with Tract.open() as tract:
        result = tract.orchestrate()
        assert "the context is empty" in result.note
        assert tract.family.children() == []


def test_a_function_of_the_messages_and_the_tools_chooses(full):
    def choose(messages, tools):
        return f"{len(messages)} messages and {len(tools)} tools"

    assert Orchestrator(full, llm_callable=choose).run().text.startswith("2 messages and")


@pytest.mark.slow
def test_assessing_and_acting_can_be_replaced(full, orchestrator):
    made = orchestrator(
        thinks(None, annotate("HEAD", "skip")), "Done.", assess=lambda a: f"{a.status.message_count} messages",
        act=lambda asked, make: f"instead of {asked.name}", on_proposal=auto_approve,
    )  # fmt: skip
    made.run()
    assert made.client.asked[0][0][-1]["content"] == "7 messages"
    assert told(made) == ["instead of annotate"]
    assert len(full.compile().messages) == 7


# --- bad input


def test_the_error_without_a_model_shows_how_to_set_one(full):
    with pytest.raises(OrchestratorError, match=r"no language model is configured.*tract.models.use\("):
        Orchestrator(full).run()
    assert full.family.children() == []


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"max_steps": 0}, "max_steps must be at least 1, not 0"),
        ({"max_steps": True}, "max_steps"),
        (
            {"recent_commits": 51, "max_steps": "x"},
            "max_steps must be a whole number, not 'x'; recent_commits must be at most 50",
        ),
        ({"autonomy_ceiling": "total"}, "is not a level of autonomy"),
        ({"profile": "sefl"}, "there is no profile 'sefl'"),
        ({"system_prompt": 3}, "system_prompt must be text, not 3"),
        ({"task_context": b""}, "task_context must be text"),
        ({"model": ""}, "model must be a model name"),
        ({"temperature": -1}, "temperature must be a number"),
        ({"on_proposal": "yes"}, "on_proposal must be a function"),
        ({"on_step": 3}, "on_step must be a function"),
        ({"limits": 3}, r"limits must be made with Allowance\("),
        ({"triggers": 3}, "triggers"),
    ],
)
def test_settings_that_cannot_be_used_are_one_sentence(settings, told):
    with pytest.raises(ValueError, match=told) as caught:
        OrchestratorConfig(**settings)
    assert "\n" not in str(caught.value)


def test_other_wrong_arguments_raise_an_error(full, orchestrator):
    for wrong, told_of in (({"config": 3}, "an OrchestratorConfig"), ({"llm_callable": 3}, "llm_callable"),
                           ({"assess": 3}, "assess"), ({"act": 3}, "act"), ({"by": 3}, "by must be a Tract")):  # fmt: skip
        with pytest.raises(OrchestratorError, match=told_of):
            Orchestrator(full, **wrong)
    with pytest.raises(OrchestratorError, match="tract must be a Tract, not 'full'"):
        Orchestrator("full")
    made = orchestrator("Fine.")
    for reason, autonomy in ((3, None), ("", "total")):
        with pytest.raises(ValueError):  # other tests check the message
            made.run(reason, autonomy)
    with pytest.raises(OrchestratorError, match="there are no runs yet"):
        made.resume()
    made.run()
    with pytest.raises(OrchestratorError, match="there is no run 'run-9'; the newest are run-1"):
        made.resume("run-9")
    made.config.max_steps = -1
    with pytest.raises(OrchestratorError, match="max_steps"):
        made.run()


def test_return_values_of_user_functions_are_checked(full, orchestrator):
    made = orchestrator(thinks(None, compress()), on_proposal=lambda p: "yes")
    with pytest.raises(OrchestratorError, match="on_proposal must return a ProposalResponse"):
        made.run()
    with pytest.raises(OrchestratorError, match="approved, rejected, modified, not 'yes'"):
        ProposalResponse("yes")
    with pytest.raises(OrchestratorError, match="needs the replacement call"):
        ProposalResponse("modified")
    with pytest.raises(OrchestratorError, match="assess must return a text for the model"):
        orchestrator("x", assess=lambda a: None).run()


# --- saved settings


def test_settings_are_saved_with_the_tract(own_store):
    with Tract.open(url=own_store) as t:
        t.orchestrator.config = OrchestratorConfig(
            max_steps=3, task_context="birds", limits=Allowance(tokens=9), on_step=print
        )
        assert t.orchestrator.config.unsaved == ("on_step",)
    with Tract.open(url=own_store) as t:
        config = t.orchestrator.config
        assert (config.max_steps, config.task_context, config.limits) == (3, "birds", Allowance(tokens=9))
        assert (config.on_step, t.orchestrator.problem) == (None, "")
