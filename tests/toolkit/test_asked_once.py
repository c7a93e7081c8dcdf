"""A gated call that fires an operation makes one request, with the operation and its actions."""

from __future__ import annotations

import pytest

from tests.review.fakes import FakeChannel, click
from tract_jupyter import Tract
from tract_jupyter.exceptions import FingerprintError
from tract_jupyter.operations import ActionDef, OperationSpec
from tract_jupyter.review import Answer
from tract_jupyter.scripts import ScriptStatus
from tract_jupyter.toolkit import Permission

CODE = "pending.fields['to'] = to\npending.approve()"
ACTIONS = {
    "ship": ActionDef("ship", "Send it.", {"to": "str"}, CODE, required=["to"]),
    "bump": ActionDef("bump", "One more.", {}, "pending.fields['n'] += 1"),
    "drop": ActionDef("drop", "Do not.", {}, "pending.reject('dropped')"),
    "break_it": ActionDef("break_it", "Fail.", {}, "raise ValueError('broken')"),
}
FIELDS = {"n": {"type": "int", "description": "How many."}, "to": {"type": "str", "default": ""}}


def deploy(**changes):
    parts = {"description": "Send things off.", "unhandled": "ask", **changes}
    return OperationSpec("deploy", fields=FIELDS, actions=ACTIONS, **parts)


@pytest.fixture(params=["ask", "approve"])
def with_deploy(request, tract):
    tract.register_operation(deploy(unhandled=request.param))
    return tract


def call_as_agent(tract, n=1):
    return tract.toolset(actor="agent:7").execute("fire_deploy", {"n": n})


def call_in_kernel(tract, n=1):
    return tract.scripts.run(f"tools.fire_deploy(n={n})")


def call_in_sandbox(tract, n=1):
    return tract.scripts.run(f"tools.fire_deploy(n={n})", backend="sandbox")


def call_for_policy(tract, n=1):
    pending = tract.policies.propose("nightly", "fire_deploy", {"n": n})
    tract.reviewer.decide_now(pending)
    return pending.result


CALLS = [call_as_agent, call_in_kernel, call_in_sandbox, call_for_policy]


def asked(channel):
    """Return the requests shown to the user, without duplicates."""
    return list({request.pending_id: request for request, _ in reversed(channel.shown)}.values())


def for_good(ticket):
    ticket.submit(Answer("approve", {"scope": "always"}, ticket.round_id), "panel")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(("action", "arguments"), [("ship", {"to": "prod"}), ("approve", {})])
def test_the_call_and_its_operation_share_one_request_that_shows_both(with_deploy, call, action, arguments):
    fired = []
    with_deploy.on("*", lambda p: fired.append(p) if p.operation == "deploy" else None)
    channel = FakeChannel(lambda ticket: click(ticket, action, **arguments))
    with_deploy.reviewer.channel = channel
    call(with_deploy)
    (request,) = asked(channel)
    assert [block.header for block in request.code][:4] == [block.header for block in fired[0].code_blocks()]
    buttons = {button.name for button in request.actions}
    assert {"ship", "bump", "drop", "break_it", "approve", "reject"} <= buttons
    assert request.action("ship").parameters.names == ("to",)
    assert "n" in str(request.tables)
    assert "deploy, which needs no second approval" in request.why
    (pending,) = fired
    assert pending.status == "approved"
    assert pending.fields == {"n": 1, "to": arguments.get("to", "")}
    assert with_deploy.review.inbox() == []


@pytest.mark.parametrize("call", [call_as_agent, call_in_kernel, call_in_sandbox])
def test_the_request_names_the_caller(with_deploy, call):
    channel = FakeChannel(lambda ticket: click(ticket, "reject", reason="not now"))
    with_deploy.reviewer.channel = channel
    assert "not now" in str(call(with_deploy).error)
    (request,) = asked(channel)
    assert ("agent:7" if call is call_as_agent else "script:") in request.why
    assert with_deploy.hooks.log() == []


def test_values_can_be_edited_and_a_standing_approval_covers_the_call(with_deploy):
    channel = FakeChannel(
        lambda ticket: click(ticket, "approve", edits={"n": 7}),
        for_good,
    )
    with_deploy.reviewer.channel = channel
    assert call_as_agent(with_deploy).output["fields"]["n"] == 7
    for _ in range(2):
        assert call_as_agent(with_deploy).output["status"] == "approved"
    assert len(asked(channel)) == 2


def test_an_action_that_rejects_denies_the_call(with_deploy):
    with_deploy.reviewer.channel = FakeChannel(lambda ticket: click(ticket, "drop"))
    result = call_as_agent(with_deploy)
    assert (result.denied, result.error) == (True, "dropped")


def test_an_action_that_does_not_decide_is_followed_by_a_second_round(with_deploy):
    channel = FakeChannel(lambda t: click(t, "bump"), lambda t: click(t, "ship", to="prod"))
    with_deploy.reviewer.channel = channel
    assert call_as_agent(with_deploy).output["fields"] == {"n": 2, "to": "prod"}


def test_an_error_of_an_action_is_reported_and_the_action_can_be_retried(with_deploy):
    with_deploy.reviewer.channel = FakeChannel(lambda t: click(t, "break_it"))
    assert "broken" in call_as_agent(with_deploy).error
    (stored,) = with_deploy.review.inbox()
    again = with_deploy.operations.rebuild(stored)
    again.execute_tool("ship", {"to": "prod"})
    assert (again.status, with_deploy.review.inbox()) == ("approved", [])


def test_handlers_come_first_and_the_question_says_so(with_deploy):
    channel = FakeChannel(lambda ticket: click(ticket, "ship", to="prod"))
    with_deploy.reviewer.channel = channel
    with_deploy.on("deploy", lambda p: p.reject("a veto"))
    assert call_as_agent(with_deploy).error == "a veto"
    (request,) = asked(channel)
    assert "Its handlers decide first" in request.why


def test_an_operation_left_open_by_a_handler_does_not_make_a_second_request(with_deploy):
    channel = FakeChannel(lambda ticket: click(ticket, "ship", to="prod"))
    with_deploy.reviewer.channel = channel
    with_deploy.on("deploy", lambda p: None)
    assert call_as_agent(with_deploy).output["fields"]["to"] == "prod"
    assert len(asked(channel)) == 1
    made = with_deploy.review.decisions()
    assert [(one.action, one.channel) for one in made] == [("ship", "call"), ("ship", "fake")]
    assert made[0].decided_by == made[1].decided_by


def test_a_handler_that_approves_the_call_does_not_decide_about_the_operation(tract):
    tract.register_operation(deploy())
    channel = FakeChannel(lambda ticket: click(ticket, "ship", to="prod"))
    tract.reviewer.channel = channel
    tract.on("policy", lambda p: p.approve())
    tract.policies.apply("nightly", "fire_deploy", {"n": 1})
    (request,) = asked(channel)
    assert request.title == "deploy"


def test_a_persons_own_call_is_asked_about_as_the_operation_says(tract):
    tract.register_operation(deploy())
    channel = FakeChannel(lambda ticket: click(ticket, "ship", to="prod"))
    tract.reviewer.channel = channel
    assert tract.tools.fire_deploy(n=1)["fields"]["to"] == "prod"
    (request,) = asked(channel)
    assert request.title == "deploy"


def test_an_operation_needs_approval_even_if_its_call_is_allowed(tract):
    tract.register_operation(deploy())
    tract.executor.permission = lambda *_: Permission.ALLOW
    channel = FakeChannel(lambda ticket: click(ticket, "ship", to="prod"))
    tract.reviewer.channel = channel
    assert call_as_agent(tract).success
    assert len(asked(channel)) == 1


def test_a_decision_does_not_apply_to_another_version_of_the_operation(with_deploy):
    def replaced(ticket):
        with_deploy.register_operation(deploy(description="Another."), replace=True)
        click(ticket, "ship", to="prod")

    with_deploy.reviewer.channel = FakeChannel(replaced, lambda t: click(t, "reject", reason="it changed"))
    result = call_as_agent(with_deploy)
    assert (result.success, result.error) == (False, "it changed")


def test_a_paused_script_continues_with_a_decision_from_another_tract(own_store):
    with Tract.open(url=own_store) as asking:
        asking.register_operation(deploy())
        result = call_in_sandbox(asking)
        assert result.status is ScriptStatus.PAUSED
    with Tract.open(url=own_store) as elsewhere:
        (stored,) = elsewhere.review.inbox()
        pending = elsewhere.operations.rebuild(stored)
        assert {button.name for button in pending.review_request().actions} >= {"ship", "approve"}
        pending.execute_tool("ship", {"to": "prod"})
        assert pending.result.value["fields"]["to"] == "prod"
        assert elsewhere.review.inbox() == []


def test_a_standing_approval_does_not_replace_an_unapproved_handler(own_store):
    with Tract.open(url=own_store) as tract:
        tract.register_operation(deploy())
        tract.reviewer.channel = FakeChannel(for_good)
        assert call_as_agent(tract).success
        tract.hooks.save_handler("deploy", "guard", "pending.pass_through()")
        tract.hooks.saved.revoke("deploy", "guard")
        channel = FakeChannel(lambda ticket: click(ticket, "ship", to="prod"))
        tract.reviewer.channel = channel
        assert call_as_agent(tract).output["fields"]["to"] == "prod"
        (request,) = asked(channel)
        assert "'guard'" in request.why


@pytest.mark.parametrize("call", [call_as_agent, call_in_kernel])
def test_equal_calls_without_an_available_user_share_one_request(own_store, call):
    with Tract.open(url=own_store) as t:
        t.register_operation(deploy())
        for n in (1, 1, 2, 1):
            call(t, n)
        first, second = [stored.request["tables"][0]["rows"] for stored in t.review.inbox()]
        assert first != second


def test_approving_a_request_of_one_branch_on_another_branch_is_refused(own_store):
    with Tract.open(url=own_store) as t:
        t.user("hello")
        agent = t.toolset(actor="agent:7")
        note = {"target_hash": t.head, "priority": "skip"}
        agent.execute("annotate", note)
        pending = t.policies.propose("tidy", "annotate", note)
        asked = t.reviewer.asked_here(t.review.inbox()[0].pending_id)
        t.branch("aside")
        head = t.head
        for one in (pending, asked):
            with pytest.raises(FingerprintError, match=r"is for branch 'main'.*switch\('main'\) first"):
                one.approve()
        assert (t.head, pending.status, asked.status) == (head, "pending", "pending")
        t.switch("main")
        pending.approve()
        assert t.head != head


def test_an_approval_for_one_branch_does_not_apply_to_another(own_store):
    with Tract.open(url=own_store) as t:
        t.user("hello")
        note = {"target_hash": t.head, "priority": "skip"}
        assert not t.toolset(actor="agent:7").execute("annotate", note).success
        with Tract.open(url=own_store) as elsewhere:
            stored = elsewhere.review.inbox()[0]
            elsewhere.operations.rebuild(stored).approve()
    with Tract.open(url=own_store) as t:
        t.branch("aside")
        assert not t.toolset(actor="agent:7").execute("annotate", note).success
        t.switch("main")
        assert t.toolset(actor="agent:7").execute("annotate", note).success
