"""Actions of policies: allowed, denied, or decided by handlers, standing approvals and the user."""

from __future__ import annotations

import pytest

from tests.review.fakes import FakeChannel, click
from tract_jupyter import Tract
from tract_jupyter.exceptions import (
    ContentError,
    FingerprintError,
    ParameterError,
    RejectedError,
    ToolDeniedError,
    ToolExecutionError,
    UndecidedError,
)
from tract_jupyter.toolkit import Permission, ToolDefinition

NOTE = {"target_hash": "HEAD", "priority": "skip"}


@pytest.fixture
def t(tract):
    """A tract with a message and a channel to a user."""
    tract.user("old")
    tract.reviewer.channel = FakeChannel()
    return tract


def priority(tract):
    return tract.get_commit(tract.log()[-1].commit_hash).priority


def test_a_tool_that_only_reads_is_called_without_asking(t):
    assert t.policies.apply("watch", "status")["message_count"] == 1
    assert t.events("decision") == []
    t.on("policy", lambda p: p.reject("not now"))
    with pytest.raises(RejectedError, match="not now"):
        t.policies.apply("watch", "status")


def test_an_allowed_call_runs_without_a_request(t, monkeypatch):
    looked_up = []
    get = t.executor.get
    monkeypatch.setattr(t.executor, "get", lambda name: looked_up.append(name) or get(name))
    monkeypatch.delattr("tract_jupyter.toolkit.policy.PendingPolicy")
    assert t.policies.apply("watch", "status")["message_count"] == 1
    assert looked_up == ["status", "status"]  # by the policy, and by the executor that calls it
    with pytest.raises(ContentError, match="reason"):
        t.policies.apply("watch", "status", reason=3)


def test_a_policy_that_wants_the_same_again_and_again_asks_one_question(t):
    for _ in range(3):
        with pytest.raises(UndecidedError):
            t.policies.apply("tidy", "annotate", NOTE)
    (stored,) = t.review.inbox()
    t.reviewer.asked_here(stored.pending_id).approve()
    assert priority(t) == "skip"


def test_a_tool_that_writes_asks_a_person_and_is_asked_about_once(t):
    with pytest.raises(UndecidedError) as caught:
        t.policies.apply("tidy", "annotate", NOTE, reason="it is old")
    pending = caught.value.pending
    request = t.reviewer.channel.shown[0][0]
    assert (request.title, request.why) == ("Policy tidy: annotate", "it is old")
    assert [row.name for row in request.tables[0].rows] == ["target_hash", "priority", "reason"]
    assert priority(t) == "normal"
    ticket = t.reviewer.show(pending)
    assert click(ticket, "approve")
    t.reviewer.channel.run_due()
    assert (pending.status, priority(t)) == ("approved", "skip")
    assert len(t.reviewer.channel.shown) == 2  # no second request for the call itself
    assert (pending.actor, pending.triggered_by) == ("policy:tidy", "policy tidy")


def test_a_standing_approval_of_the_tool_covers_it(t):
    pending = t.policies.propose("tidy", "annotate", NOTE)
    pending.approve(scope="always", uses=1, pattern={"target_hash": "*"}, whom="anybody")
    other = t.user("newer").commit_hash
    t.policies.apply("another", "annotate", {**NOTE, "target_hash": other})
    assert t.get_commit(other).priority == "skip"
    with pytest.raises(UndecidedError):  # the approval is used up
        t.policies.apply("another", "annotate", {**NOTE, "target_hash": other})
    assert [(grant.kind, grant.name) for grant in t.review.grants.all()] == [("tool", "annotate")]


def test_a_denied_call_is_rejected_even_if_it_is_approved(t):
    t.executor.permission = lambda tool, actor: (
        Permission.DENY if actor == "policy:tidy" else Permission.ALLOW
    )
    with pytest.raises(RejectedError, match="policy:tidy has no permission to call 'annotate'"):
        t.policies.apply("tidy", "annotate", NOTE)
    with pytest.raises(ToolDeniedError):
        t.policies.propose("tidy", "annotate", NOTE).approve()
    t.policies.apply("other", "annotate", NOTE)
    assert priority(t) == "skip"


def test_a_handler_decides_instead_of_the_default_and_may_change_values(t):
    def careful(pending):
        pending.approve(edits={"priority": "important"})

    t.on("policy", careful)
    assert t.policies.apply("tidy", "annotate", NOTE)["priority"] == "important"


def test_new_values_must_fit_the_tool(t):
    pending = t.policies.propose("tidy", "annotate", NOTE)
    for params in ({"priority": "never"}, {"colour": "red"}, {"target_hash": None}):
        with pytest.raises(ParameterError):
            pending.approve(edits=params)
    with pytest.raises(ParameterError):
        pending.approve(edits={"action_type": "branch"})  # only the arguments of the tool can be edited
    assert (pending.action_params, pending.status.is_open) == ({**NOTE, "reason": ""}, True)
    assert pending.approve(edits={"priority": "pinned"})["priority"] == "pinned"


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("tidy", "anotate", {}), ToolExecutionError, "Did you mean 'annotate'"),
        (("tidy", "annotate", {}), ParameterError, "missing"),
        (("tidy", "annotate", [1]), ParameterError, "dict of values"),
        ((3, "annotate", NOTE), ContentError, "policy_name"),
        (("tidy", 3, NOTE), ToolExecutionError, "no such tool"),
    ],
)
def test_an_invalid_call_is_refused_without_a_request(t, arguments, error, words):
    with pytest.raises(error, match=words):
        t.policies.apply(*arguments)
    assert t.review.inbox() == []


def test_a_call_that_fails_is_an_error_and_can_be_tried_again(t):
    pending = t.policies.propose("tidy", "annotate", {**NOTE, "target_hash": "nothing"})
    with pytest.raises(ToolExecutionError, match="nothing"):
        pending.approve()
    assert pending.status == "failed"
    pending.approve(edits={"target_hash": "HEAD"})
    assert priority(t) == "skip"


def test_approving_a_call_of_a_removed_or_changed_tool_is_refused(t):
    def shout(text: str) -> str:
        return text.upper()

    t.executor.add(ToolDefinition.from_function(shout))
    pending = t.policies.propose("loud", "shout", {"text": "a"})
    del t.executor._fixed["shout"]
    with pytest.raises(FingerprintError, match="the tool 'shout' no longer exists"):
        pending.approve()
    assert pending.review_request().fields is None  # the request can still be shown and rejected
    parameters = ToolDefinition.from_function(shout).parameters
    t.executor.add(ToolDefinition("shout", "Shouts louder.", parameters, shout))
    with pytest.raises(FingerprintError, match="has changed since"):
        pending.approve()
    pending.reject()


def test_another_process_carries_it_out(tmp_path):
    path = tmp_path / "store.db"
    with Tract.open(path) as first:
        first.user("old")
        with pytest.raises(UndecidedError):
            first.policies.apply("tidy", "annotate", NOTE, reason="old")
    with Tract.open(path) as second:
        pending = second.operations.rebuild(second.review.inbox()[0])
        assert (pending.title, pending.actor) == ("Policy tidy: annotate", "policy:tidy")
        pending.approve()
        assert priority(second) == "skip"


def test_a_model_gets_the_schema_of_the_edits_but_no_standing_approvals(t):
    tools = {
        x["function"]["name"]: x["function"] for x in t.policies.propose("p", "annotate", NOTE).to_tools()
    }
    approve = tools["approve"]["parameters"]["properties"]
    assert set(approve) == {"edits"}
    assert approve["edits"]["properties"]["priority"]["enum"] == ["skip", "normal", "important", "pinned"]


def test_the_approval_of_a_policys_call_covers_the_values_that_the_tool_binds(t):
    versions, done = {"a": "1", "b": "1"}, []

    def retire(name: str) -> None:
        """Retire something."""
        done.append(name)

    t.executor.add(ToolDefinition.from_function(retire, binds=lambda values: versions[values["name"]]))
    t.executor.permission = lambda *_: Permission.ALLOW
    t.policies.apply("tidy", "retire", {"name": "a"})
    assert done == ["a"]
    pending = t.policies.propose("tidy", "retire", {"name": "b"})
    versions["b"] = "2"
    with pytest.raises(FingerprintError, match="has changed since"):
        pending.approve()
    t.policies.propose("tidy", "retire", {"name": "b"}).approve()
    assert done == ["a", "b"]
    t.policies.propose("tidy", "retire", {"name": "b"}).approve(edits={"name": "a"})
    assert done == ["a", "b", "a"]
