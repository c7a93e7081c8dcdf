"""Paused sandbox scripts: the program is saved with the request, and continues after the decision."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import create_engine, text

from tests.review.fakes import FakeChannel, click
from tract_jupyter import Tract
from tract_jupyter.exceptions import FingerprintError, PendingStateError, TrustError
from tract_jupyter.review import Answer
from tract_jupyter.scripts import ScriptLimits, ScriptStatus
from tract_jupyter.toolkit import ToolDefinition, Traits

NOTE = {"content_type": "dialogue", "role": "user", "text": "x"}
SCRIPT = f"""\
seen = [tools.status()["commit_count"] for _ in range(3)]
print("before", seen)
try:
    made = tools.commit(content={NOTE}, message="as it was")["message"]
except ToolDenied as error:
    made = f"no: {{error}}"
print("after", made, len(seen))
made
"""


@pytest.fixture
def other(own_store):
    """Open the store as another process would."""
    opened = []

    def open_store():
        opened.append(Tract.open(url=own_store) if "://" in own_store else Tract.open(own_store))
        return opened[-1]

    yield open_store
    for tract in opened:
        tract.close()


@pytest.fixture
def paused(other):
    """A script paused without an available user, in a process that has ended."""
    tract = other()
    result = tract.scripts.run(SCRIPT, backend="sandbox")
    tract.close()
    return result


def inbox(tract):
    (stored,) = tract.review.inbox()
    return tract.operations.rebuild(stored)


def test_a_script_pauses_if_no_user_is_available(paused):
    assert paused.status is ScriptStatus.PAUSED
    assert paused.pending_id
    assert paused.stdout == "before [0, 0, 0]\n"
    assert paused.to_dict()["waits_for"] == paused.pending_id


def test_a_paused_script_continues_after_approval_and_repeats_nothing(paused, other):
    tract = other()
    pending = inbox(tract)
    assert (pending.title, pending.call_arguments["message"]) == ("Call tool commit", "as it was")
    assert [(row.name, row.value) for row in pending.origins] == [("content", str(NOTE).replace("'", "'"))]
    result = pending.approve()
    assert (result.status, result.value) == ("completed", "as it was")
    assert result.stdout == "before [0, 0, 0]\nafter as it was 3\n"
    assert result.call_count == 4
    assert [call.tool for call in result.calls] == ["commit"]
    assert tract.status().commit_count == 1
    assert tract.review.inbox() == []


def test_a_paused_call_of_a_versioned_tool_continues_only_with_the_same_version(tract):
    versions = {"a": "1", "b": "1"}

    def retire(name: str) -> str:
        """Retire something."""
        return f"{name} retired"

    tract.executor.add(ToolDefinition.from_function(retire, binds=lambda values: versions[values["name"]]))
    for name in versions:
        assert tract.scripts.run(f"tools.retire({name!r})", backend="sandbox").status is ScriptStatus.PAUSED
    asked = {
        pending.call_arguments["name"]: pending
        for pending in map(tract.operations.rebuild, tract.review.inbox())
    }
    assert asked["a"].approve().value == "a retired"
    versions["b"] = "2"
    with pytest.raises(FingerprintError):
        asked["b"].approve()


def test_a_rejection_is_caught_by_the_script(paused, other):
    pending = inbox(other())
    pending.reject("not today")
    assert pending.result.value == "no: commit: not today"
    assert pending.result.stdout.endswith("after no: commit: not today 3\n")


def test_arguments_can_be_changed_first(paused, other):
    result = inbox(other()).approve(edits={"message": "changed"})
    assert result.value == "changed"


def test_a_paused_script_continues_only_once(paused, other):
    first, second = other(), other()
    one, two = inbox(first), inbox(second)
    one.approve()
    with pytest.raises(PendingStateError):
        two.approve()
    assert first.status().commit_count == 1


def test_its_variables_are_there_afterwards(paused, other):
    tract = other()
    inbox(tract).approve()
    assert tract.scripts.run("(made, seen)", backend="sandbox").value == ("as it was", [0, 0, 0])


def test_the_limits_go_on(other):
    tract = other()
    code = f"tools.status()\ntools.commit(content={NOTE})\ntools.status()\ntools.status()"
    tract.scripts.run(code, backend="sandbox", limits=ScriptLimits(calls=3))
    result = inbox(tract).approve()
    assert "limit of 3 tool calls" in result.error.message


def test_a_paused_script_continues_with_its_profile(other):
    tract = other()
    code = f"tools.commit(content={NOTE})\ntools.gc(dry_run=True)"
    result = tract.toolset(profile="self", actor="agent:1").execute("notebook_execute", {"code": code})
    assert result.output["status"] == "paused"
    assert "no tool 'gc' in the profile 'self'" in inbox(tract).approve().error.message


def test_a_script_pauses_again_at_the_next_call(other):
    tract = other()
    tract.scripts.run(
        f"for n in range(3): tools.commit(content={NOTE}, message=f'{{n}}')\n'done'", backend="sandbox"
    )
    for n in range(3):
        pending = inbox(tract)
        assert pending.call_arguments["message"] == str(n)
        result = pending.approve()
    assert (result.status, result.value) == ("completed", "done")
    assert tract.status().commit_count == 3


def test_within_a_tool_that_calls_tools_it_cannot_pause(tract, add):
    def outer() -> str:
        """Write something."""
        return tract.tools.commit(content=NOTE)["message"]

    add(outer, traits=Traits(read_only=True))
    result = tract.scripts.run("tools.outer()", backend="sandbox")
    assert result.status is ScriptStatus.FAILED  # continuing with the inner call's result would be wrong
    assert "no user is available" in result.error.message


def test_a_changed_program_does_not_run(paused, other, own_store):
    engine = create_engine(own_store if "://" in own_store else f"sqlite:///{own_store}")
    with engine.begin() as connection:
        ((fields,),) = connection.execute(text("SELECT fields_json FROM pendings"))
        changed = json.loads(fields)
        changed["script"]["code"] = "print('another')"
        connection.execute(text("UPDATE pendings SET fields_json = :f"), {"f": json.dumps(changed)})
    engine.dispose()
    pending = inbox(other())
    assert pending.doubt
    with pytest.raises(TrustError, match="reject this one"):
        pending.approve()
    pending.reject("changed")  # this ends it: not even a rejection resumes it
    assert (pending.status, pending.result) == ("rejected", None)


def test_a_script_waits_without_pausing_if_the_user_is_available(tract):
    tract.reviewer.channel = FakeChannel(
        lambda ticket: click(ticket, "approve", edits={"message": "changed"})
    )
    result = tract.scripts.run(SCRIPT, backend="sandbox")
    assert (result.status, result.value) == ("completed", "changed")
    assert tract.review.inbox() == []


def test_a_grant_is_one_of_the_tool(tract):
    def click_in_a_panel(ticket):
        ticket.submit(Answer("approve", {"scope": "session"}, ticket.round_id), "panel")

    tract.reviewer.channel = FakeChannel(click_in_a_panel)
    code = f"for _ in range(2): tools.commit(content={NOTE})\n'done'"
    assert tract.scripts.run(code, backend="sandbox").value == "done"
    assert len(tract.reviewer.channel.shown) == 2  # one request, and its end


def test_a_large_program_is_not_kept(other):
    tract = other()
    code = f"big = [str(n) * 100 for n in range(100_000)]\ntools.commit(content={NOTE})"
    result = tract.scripts.run(code, backend="sandbox")
    assert result.status is ScriptStatus.FAILED
    assert "no user is available" in result.error.message
