"""Standing approvals: they apply to our own tools that an agent calls, and never to its own requests."""

import json

from tests.outside.conftest import call
from tract_jupyter.loop import CallEnded
from tract_jupyter.toolkit import ToolConfig, ToolProfile


def results(log):
    """Return the results of our tools for the agent."""
    return [one["result"]["content"][0]["text"] for one in log.entries("tool")]


def test_a_standing_approval_covers_our_tool_for_this_agent(chat, known, log, tract, user, serve):
    made = []

    @tract.tool
    def count(where: str) -> int:
        """Count birds in a lake."""
        made.append(where)
        return len(made)

    serve("full")
    user.answers = [("approve", {"scope": "session"}), ("reject", {"reason": "not there"})]
    lakes = ["Ulm", "Ulm", "Rom"]
    chat(known(log=log.place, prompts=[[["tool", "count", {"where": one}] for one in lakes]]))
    assert made == ["Ulm", "Ulm"]
    first, second = user.requests
    assert (first.subject.actor, second.subject.actor) == ("mcp:fake", "mcp:fake")
    assert "not there" in results(log)[2]
    (grant,) = tract.review.grants.all()
    assert grant.whom == "mcp:fake"


def test_a_profile_limits_our_tools_and_the_context_can_be_searched(chat, known, log, tract, user, serve):
    serve(ToolProfile("kernel", {"query_by_text": ToolConfig()}))
    found = tract.user("There are swans on the lake.").commit_hash
    tract.user("And ducks.")
    steps = [["tool", "query_by_text", {"text": "SWANS"}], ["tool", "commit", {"content": {}}]]
    chat(known(log=log.place, prompts=[steps]))
    first, second = results(log)
    assert [one["commit_hash"] for one in json.loads(first)] == [found]
    assert "commit" in second
    assert not user.requests
    assert not [info for info in tract.log() if info.content_type == "artifact"]


def test_no_standing_approval_covers_a_request_of_the_agent(chat, known, tract, user, log):
    shell = call("c1", kind="execute", rawInput={"command": "touch a"})
    unknown = call("c2", kind="other", title="birds_count", rawInput={})
    long = call("c3", kind="other", rawInput={"text": "x" * 70_000})
    agent = known(prompts=[[["ask", {"call": shell}]], [["text", "Why?"]]] * 2)
    for scope in ("session", "always"):
        user.answers = [("approve", {"scope": scope})]
        _, events = chat(agent)
        assert next(event for event in events if isinstance(event, CallEnded)).text.startswith("not run")
    assert {one.subject for one in user.requests} == {None}
    assert tract.review.grants.all() == []
    user.answers = [("approve", {})]
    user.requests.clear()
    for _ in range(2):
        tract.outside.stop()
        chat(known(prompts=[[["ask", {"call": one}] for one in (shell, unknown, long)]]))
    assert len(user.requests) == 6
    assert "too long to be shown whole" in user.requests[2].why
    identities = [one.identity for one in tract.review.decisions()][:6]
    # a recorded decision is found by its identity
    assert len(set(identities)) == 5
    assert identities[2] == identities[5]
